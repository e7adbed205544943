#include "core/kernels/cpu/pointwise.h"

#include <algorithm>
#include <cstring>

#include "core/kernels/cpu/indexing.h"
#include "core/kernels/cpu/strided.h"
#include "core/kernels/cpu/threads.h"

namespace weft::cpu {
namespace {

constexpr int64_t kTile = 1024;        // elements per buffer: a few KB each, all in the first cache
constexpr int64_t kPiece = 32 * 1024;  // elements per unit of parallel work

// One operand's layout with neighbouring dimensions merged wherever its strides allow.
struct Layout {
  enum class Kind : uint8_t { Direct, Constant, Contiguous, Rows };
  Kind kind;
  int ndim = 0;
  int64_t sizes[kMaxDims];
  int64_t strides[kMaxDims];  // bytes
  alignas(16) char constant[16];
};

void describe(const PointwiseCall& call, const PointwiseOperand& operand, Layout& layout) {
  if (operand.direct) {
    layout.kind = operand.dtype == operand.compute ? Layout::Kind::Direct : Layout::Kind::Contiguous;
    return;
  }
  const int64_t item = item_size(operand.dtype);
  for (int d = 0; d < call.ndim; ++d) {
    if (call.sizes[d] == 1) continue;
    const int64_t stride = operand.strides[d] * item;
    int& n = layout.ndim;
    if (n > 0 && layout.strides[n - 1] == stride * call.sizes[d]) {
      layout.sizes[n - 1] *= call.sizes[d];
      layout.strides[n - 1] = stride;
    } else {
      layout.sizes[n] = call.sizes[d];
      layout.strides[n++] = stride;
    }
  }
  if (layout.ndim == 0 || (layout.ndim == 1 && layout.strides[0] == 0)) {
    layout.kind = Layout::Kind::Constant;
  } else if (layout.ndim == 1 && layout.strides[0] == item) {
    layout.kind = operand.dtype == operand.compute ? Layout::Kind::Direct : Layout::Kind::Contiguous;
  } else {
    layout.kind = Layout::Kind::Rows;
  }
}

// Calls visit(pointer, stride, first, count) for each row of [start, start + count).
template <class Visit>
void for_rows(const Layout& layout, char* data, int64_t start, int64_t count, Visit&& visit) {
  const int last = layout.ndim - 1;
  int64_t index[kMaxDims];
  int64_t rest = start;
  char* at = data;
  for (int d = last; d >= 0; --d) {
    index[d] = rest % layout.sizes[d];
    rest /= layout.sizes[d];
    at += index[d] * layout.strides[d];
  }
  int64_t done = 0;
  while (true) {
    const int64_t run = std::min(layout.sizes[last] - index[last], count - done);
    visit(at, layout.strides[last], done, run);
    done += run;
    if (done == count) return;
    at += run * layout.strides[last];
    index[last] += run;
    for (int d = last; d > 0 && index[d] == layout.sizes[d]; --d) {
      at += layout.strides[d - 1] - index[d] * layout.strides[d];
      index[d] = 0;
      ++index[d - 1];
    }
  }
}

class Runner {
 public:
  Runner(const PointwiseCall& call) : call_(call), table_(tile_table()) {
    all_direct_ = true;
    for (int k = 0; k < call.operands; ++k) {
      describe(call, call.operand[k], layout_[k]);
      if (layout_[k].kind == Layout::Kind::Constant) {
        const PointwiseOperand& o = call.operand[k];
        if (o.dtype == o.compute) std::memcpy(layout_[k].constant, o.data, item_size(o.dtype));
        else table_.of_cast(o.dtype, o.compute)(nullptr, 1, layout_[k].constant, o.data, nullptr, nullptr);
      }
      if (layout_[k].kind != Layout::Kind::Direct) all_direct_ = false;
    }
  }

  void piece(int64_t start, int64_t count) const {
    if (all_direct_ && call_.tile) return tile(start, count);
    alignas(64) char buffer[kMostOperands][kTile * 8];
    alignas(64) char unconverted[kTile * 8];
    void* fixed[kMostOperands] = {};
    for (int k = 1; k < call_.operands; ++k) {
      if (layout_[k].kind != Layout::Kind::Constant) continue;
      const int item = item_size(call_.operand[k].compute);
      table_.fill[item_size_index(item)](std::min(count, kTile), buffer[k], layout_[k].constant);
      fixed[k] = buffer[k];
    }
    for (int64_t at = start; at < start + count; at += kTile) {
      const int64_t n = std::min(kTile, start + count - at);
      const void* in[kMostOperands] = {};
      for (int k = 1; k < call_.operands; ++k) { in[k] = fixed[k] ? fixed[k] : load(k, at, n, buffer[k], unconverted); }
      store(at, n, in, buffer[0], unconverted);
    }
  }

 private:
  char* address(int k, int64_t at) const { return call_.operand[k].data + at * item_size(call_.operand[k].dtype); }

  void tile(int64_t at, int64_t n) const {
    const void* in[kMostOperands] = {};
    for (int k = 1; k < call_.operands; ++k) in[k] = address(k, at);
    call_.tile(call_.functor, n, address(0, at), in[1], in[2], in[3]);
  }

  const void* load(int k, int64_t at, int64_t n, char* buffer, char* unconverted) const {
    const PointwiseOperand& o = call_.operand[k];
    const Layout& layout = layout_[k];
    if (layout.kind == Layout::Kind::Direct) return address(k, at);
    const TileFn cast = o.dtype == o.compute ? nullptr : table_.of_cast(o.dtype, o.compute);
    if (layout.kind == Layout::Kind::Contiguous) {
      cast(nullptr, n, buffer, address(k, at), nullptr, nullptr);
      return buffer;
    }
    char* to = cast ? unconverted : buffer;
    const int64_t item = item_size(o.dtype);
    const auto gather = table_.gather[item_size_index(static_cast<int>(item))];
    for_rows(layout, o.data, at, n, [&](char* from, int64_t stride, int64_t first, int64_t run) {
      if (stride == item) std::memcpy(to + first * item, from, run * item);
      else gather(run, to + first * item, from, stride);
    });
    if (cast) cast(nullptr, n, buffer, unconverted, nullptr, nullptr);
    return buffer;
  }

  void store(int64_t at, int64_t n, const void* const* in, char* buffer, char* unconverted) const {
    const PointwiseOperand& o = call_.operand[0];
    const Layout& layout = layout_[0];
    const bool same = o.dtype == o.compute;
    const int64_t item = item_size(o.dtype);
    char* direct =
        layout.kind == Layout::Kind::Direct || layout.kind == Layout::Kind::Contiguous ? address(0, at) : nullptr;
    const void* result = in[1];
    if (call_.tile) {
      char* to = same && direct ? direct : buffer;
      call_.tile(call_.functor, n, to, in[1], in[2], in[3]);
      if (to == direct) return;
      result = to;
    }
    if (!same) {
      char* to = direct ? direct : unconverted;
      table_.of_cast(o.compute, o.dtype)(nullptr, n, to, result, nullptr, nullptr);
      if (direct) return;
      result = to;
    }
    if (direct) {
      std::memcpy(direct, result, n * item);
      return;
    }
    if (layout.kind == Layout::Kind::Constant) {  // one element
      std::memcpy(o.data, result, item);
      return;
    }
    const auto scatter = table_.scatter[item_size_index(static_cast<int>(item))];
    for_rows(layout, o.data, at, n, [&](char* to, int64_t stride, int64_t first, int64_t run) {
      const char* from = static_cast<const char*>(result) + first * item;
      if (stride == item) std::memcpy(to, from, run * item);
      else scatter(run, to, stride, from);
    });
  }

  const PointwiseCall& call_;
  const TileTable& table_;
  bool all_direct_;
  Layout layout_[kMostOperands];
};

// A copy between layouts, of the same type on both sides: rows that become columns are copied in blocks.
bool copies_layout(const PointwiseCall& call) {
  const PointwiseOperand &to = call.operand[0], &from = call.operand[1];
  return call.tile == nullptr && to.dtype == from.dtype && !(to.direct && from.direct) && call.numel > kTile;
}

void copy_layout(const PointwiseCall& call) {
  const int item = item_size(call.operand[0].dtype);
  int64_t strides[2][kMaxDims];
  for (int k = 0; k < 2; ++k) {
    for (int d = 0; d < call.ndim; ++d) strides[k][d] = call.operand[k].strides[d] * item;
  }
  copy_strided(item, {call.operand[0].data, call.ndim, call.sizes, strides[0]},
               {call.operand[1].data, call.ndim, call.sizes, strides[1]});
}

}  // namespace

void run_pointwise(const PointwiseCall& call) {
  if (call.numel == 0) return;
  if (copies_layout(call)) return copy_layout(call);
  const Runner runner(call);
  if (call.numel <= kPiece) return runner.piece(0, call.numel);
  const int64_t pieces = (call.numel + kPiece - 1) / kPiece;
  parallel(pieces, [&](int64_t piece) {
    const int64_t start = piece * kPiece;
    runner.piece(start, std::min(kPiece, call.numel - start));
  });
}

}  // namespace weft::cpu
