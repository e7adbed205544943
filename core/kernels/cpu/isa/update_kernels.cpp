// The loop around every update rule, for each dtype that parameters may have.
#include "core/kernels/cpu/update.h"

namespace weft::cpu::WEFT_ISA {
namespace {

// A parameter, its gradient and its states are distinct memory, or the very same elements: ivdep.
template <class Rule, class Stored>
void update(const void* step_bytes, int64_t count, void* param_bytes, const void* grad_bytes, char* const* states) {
  using T = decltype(math::widen(Stored()));
  const typename Rule::Step step = *static_cast<const typename Rule::Step*>(step_bytes);
  auto* param = static_cast<Stored*>(param_bytes);
  auto* grad = static_cast<const Stored*>(grad_bytes);
  [[maybe_unused]] auto* first = reinterpret_cast<Stored*>(states[0]);
  [[maybe_unused]] auto* second = reinterpret_cast<Stored*>(states[1]);
  [[maybe_unused]] auto* third = reinterpret_cast<Stored*>(states[2]);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    T value = math::widen(param[i]);
    T state[math::update::kMostStates] = {};
    if constexpr (Rule::kStates > 0) state[0] = math::widen(first[i]);
    if constexpr (Rule::kStates > 1) state[1] = math::widen(second[i]);
    if constexpr (Rule::kStates > 2) state[2] = math::widen(third[i]);
    step(value, static_cast<T>(math::widen(grad[i])), state);
    param[i] = math::cast<Stored>(value);
    if constexpr (Rule::kStates > 0) first[i] = math::cast<Stored>(state[0]);
    if constexpr (Rule::kStates > 1) second[i] = math::cast<Stored>(state[1]);
    if constexpr (Rule::kStates > 2) third[i] = math::cast<Stored>(state[2]);
  }
}

}  // namespace

const UpdateTable& update_table() {
#define WEFT_UPDATE_ROW(name, Rule)                                                                         \
  {update<math::update::Rule, float>, update<math::update::Rule, double>, update<math::update::Rule, Half>, \
   update<math::update::Rule, BFloat16>},
  static constexpr UpdateTable table = {{WEFT_UPDATE_RULES(WEFT_UPDATE_ROW)}};
#undef WEFT_UPDATE_ROW
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
