// Operations on integers and on single bits. None has a derivative.
#include "core/ops/elementwise.h"

namespace weft {

struct BitwiseNot {
  static constexpr Schema schema{"bitwise_not(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::bitwise_not};
  static constexpr uint32_t traits = kNeverDifferentiable | kExactOut;
};
WEFT_OP(BitwiseNot);

#define WEFT_INTEGER_OPERATION(Struct, kernel, source)         \
  struct Struct {                                              \
    static constexpr Schema schema{source};                    \
    static constexpr Pointwise pointwise{Elementwise::kernel}; \
    static constexpr uint32_t traits = kNeverDifferentiable;   \
    void check(Inputs in) const { refuse_two_numbers(in); }    \
  };                                                           \
  WEFT_OP(Struct);

WEFT_INTEGER_OPERATION(BitwiseAnd, bitwise_and, "bitwise_and(Tensor|Scalar self, Tensor|Scalar other) -> Tensor")
WEFT_INTEGER_OPERATION(BitwiseOr, bitwise_or, "bitwise_or(Tensor|Scalar self, Tensor|Scalar other) -> Tensor")
WEFT_INTEGER_OPERATION(BitwiseXor, bitwise_xor, "bitwise_xor(Tensor|Scalar self, Tensor|Scalar other) -> Tensor")
WEFT_INTEGER_OPERATION(ShiftLeft, shift_left, "bitwise_left_shift(Tensor|Scalar self, Tensor|Scalar other) -> Tensor")
WEFT_INTEGER_OPERATION(ShiftRight, shift_right,
                       "bitwise_right_shift(Tensor|Scalar self, Tensor|Scalar other) -> Tensor")
WEFT_INTEGER_OPERATION(Gcd, gcd, "gcd(Tensor self, Tensor other) -> Tensor")
WEFT_INTEGER_OPERATION(Lcm, lcm, "lcm(Tensor self, Tensor other) -> Tensor")

}  // namespace weft
