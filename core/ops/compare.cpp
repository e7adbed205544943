// Comparisons, logic and choice.
#include "core/ops/functions.h"

namespace weft {

#define WEFT_COMPARISON(Struct, name)                                                               \
  struct Struct {                                                                                   \
    static constexpr Schema schema{#name "(Tensor self, Tensor|Scalar other) -> Tensor"};           \
    static constexpr Pointwise pointwise{Elementwise::name, Promote::Compare};                      \
    static constexpr uint32_t traits = kNeverDifferentiable;                                        \
  };                                                                                                \
  WEFT_OP(Struct);                                                                                  \
  Tensor name(const Tensor& a, const Tensor& b) { return call(op_##Struct, Struct{}, a, b); }

WEFT_COMPARISON(Eq, eq)
WEFT_COMPARISON(Ne, ne)
WEFT_COMPARISON(Lt, lt)
WEFT_COMPARISON(Le, le)
WEFT_COMPARISON(Gt, gt)
WEFT_COMPARISON(Ge, ge)
WEFT_COMPARISON(LogicalAnd, logical_and)
WEFT_COMPARISON(LogicalOr, logical_or)
WEFT_COMPARISON(LogicalXor, logical_xor)

#define WEFT_PREDICATE(Struct, name)                                                \
  struct Struct {                                                                   \
    static constexpr Schema schema{#name "(Tensor self) -> Tensor"};                \
    static constexpr Pointwise pointwise{Elementwise::name, Promote::Predicate};    \
    static constexpr uint32_t traits = kNeverDifferentiable;                        \
  };                                                                                \
  WEFT_OP(Struct);

WEFT_PREDICATE(LogicalNot, logical_not)
WEFT_PREDICATE(Isnan, isnan)
WEFT_PREDICATE(Isinf, isinf)
WEFT_PREDICATE(Isfinite, isfinite)
WEFT_PREDICATE(Isposinf, isposinf)
WEFT_PREDICATE(Isneginf, isneginf)
WEFT_PREDICATE(Signbit, signbit)

Tensor logical_not(const Tensor& a) { return call(op_LogicalNot, LogicalNot{}, a); }

struct Where {
  static constexpr Schema schema{"where(Tensor condition, Tensor|Scalar self, Tensor|Scalar other) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::where, Promote::SelectSecond};
  static constexpr Saves saves{{0, input(0), input(0)}};

  static void vjp(Backward& b) {
    const Tensor condition = b.input(0);
    const Tensor zero = number(int64_t{0});
    if (b.needs(1)) b.set(1, where(condition, b.grad(), zero));
    if (b.needs(2)) b.set(2, where(condition, zero, b.grad()));
  }
};
WEFT_OP(Where);

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) { return call(op_Where, Where{}, condition, a, b); }

}  // namespace weft
