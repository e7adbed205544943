#include "core/kernels/cpu/update.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "core/kernels/cpu/threads.h"

namespace weft::cpu {
namespace {

constexpr int64_t kPiece = 32 * 1024;  // elements per unit of parallel work

template <class Rule>
void begin(const double* numbers, math::update::Scalars& scalars, void* step) {
  Rule rule;
  static_assert(sizeof(Rule) <= kMostUpdateNumbers * sizeof(double));
  static_assert(sizeof(typename Rule::Step) <= kMostStepBytes);
  std::memcpy(&rule, numbers, sizeof rule);
  new (step) typename Rule::Step(rule.begin(scalars));
}

template <class Rule>
constexpr UpdateRule described(const char* name, int index) {
  return {name, index, static_cast<int>(sizeof(Rule) / sizeof(double)), Rule::kScalars, Rule::kStates, begin<Rule>};
}

enum : int {
#define WEFT_ENUMERATOR(name, Rule) index_##name,
  WEFT_UPDATE_RULES(WEFT_ENUMERATOR)
#undef WEFT_ENUMERATOR
};

constexpr UpdateRule rules[] = {
#define WEFT_RULE(name, Rule) described<math::update::Rule>(#name, index_##name),
    WEFT_UPDATE_RULES(WEFT_RULE)
#undef WEFT_RULE
};

void run_part(const UpdateRule& rule, const UpdateSpan& span, int64_t start, int64_t count) {
  const UpdateFn update = update_table().update[rule.index][update_type_index(span.dtype)];
  const int64_t offset = start * item_size(span.dtype);
  char* states[math::update::kMostStates] = {};
  for (int k = 0; k < rule.states; ++k) states[k] = span.states[k] + offset;
  update(span.step.bytes, count, span.param + offset, span.grad + offset, states);
}

}  // namespace

const UpdateRule* find_update_rule(const char* name) {
  const auto* found = std::find_if(std::begin(rules), std::end(rules),
                                   [name](const UpdateRule& rule) { return std::strcmp(rule.name, name) == 0; });
  return found == std::end(rules) ? nullptr : found;
}

bool has_update(DType dtype) { return is_floating(dtype); }

void run_updates(const UpdateRule& rule, std::span<const UpdateSpan> spans) {
  for (const UpdateSpan& span : spans) {
    if (span.count <= kPiece) {
      run_part(rule, span, 0, span.count);
      continue;
    }
    parallel((span.count + kPiece - 1) / kPiece, [&](int64_t piece) {
      const int64_t start = piece * kPiece;
      run_part(rule, span, start, std::min(kPiece, span.count - start));
    });
  }
}

void run_independent_updates(const UpdateRule& rule, std::span<const UpdateSpan> spans) {
  // Pieces hold about as much work each: a part of one large span, or several small spans.
  struct Piece {
    size_t span, spans;
    int64_t start;
  };
  std::vector<Piece> pieces;
  constexpr int64_t kFull = kPiece + 1;
  int64_t gathered = kFull;
  for (size_t s = 0; s < spans.size(); ++s) {
    const int64_t count = spans[s].count;
    if (count <= kPiece) {
      if (gathered + count > kPiece) {
        pieces.push_back({s, 0, 0});
        gathered = 0;
      }
      gathered += count;
      ++pieces.back().spans;
    } else {
      for (int64_t start = 0; start < count; start += kPiece) pieces.push_back({s, 1, start});
      gathered = kFull;
    }
  }
  if (pieces.empty()) return;
  parallel(static_cast<int64_t>(pieces.size()), [&](int64_t p) {
    const Piece& piece = pieces[static_cast<size_t>(p)];
    for (const UpdateSpan& span : spans.subspan(piece.span, piece.spans)) {
      run_part(rule, span, piece.start, std::min(kPiece, span.count - piece.start));
    }
  });
}

}  // namespace weft::cpu
