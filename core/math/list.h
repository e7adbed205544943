// Every element-wise operation, in one explicit list: X(name, Functor, arity, types).
// `types` says for which compute dtypes the functor is meant (operand dtypes of comparisons; the
// dtype of a and b of `where`, whose condition is bool). float16 and bfloat16 compute in float.
#pragma once

#include "core/math/dtype.h"

namespace weft {

// One bit per DType.
inline constexpr unsigned kBoolType = 1u << static_cast<int>(DType::Bool);
inline constexpr unsigned kIntTypes = (1u << static_cast<int>(DType::UInt8)) | (1u << static_cast<int>(DType::Int8)) |
                                      (1u << static_cast<int>(DType::Int16)) | (1u << static_cast<int>(DType::Int32)) |
                                      (1u << static_cast<int>(DType::Int64));
inline constexpr unsigned kFloatTypes =
    (1u << static_cast<int>(DType::Float32)) | (1u << static_cast<int>(DType::Float64));
inline constexpr unsigned kDiscreteTypes = kBoolType | kIntTypes;
inline constexpr unsigned kNumberTypes = kIntTypes | kFloatTypes;
inline constexpr unsigned kAllTypes = kBoolType | kNumberTypes;

}  // namespace weft

#define WEFT_ELEMENTWISE_ARITHMETIC(X)      \
  X(abs, Abs, 1, kNumberTypes)              \
  X(neg, Neg, 1, kNumberTypes)              \
  X(sign, Sign, 1, kAllTypes)               \
  X(square, Square, 1, kNumberTypes)        \
  X(reciprocal, Reciprocal, 1, kFloatTypes) \
  X(sqrt, Sqrt, 1, kFloatTypes)             \
  X(rsqrt, Rsqrt, 1, kFloatTypes)           \
  X(add, Add, 2, kAllTypes)                 \
  X(sub, Sub, 2, kNumberTypes)              \
  X(mul, Mul, 2, kAllTypes)                 \
  X(div, Div, 2, kFloatTypes)               \
  X(div_floor, DivFloor, 2, kNumberTypes)   \
  X(div_trunc, DivTrunc, 2, kNumberTypes)   \
  X(remainder, Remainder, 2, kNumberTypes)  \
  X(fmod, Fmod, 2, kNumberTypes)            \
  X(add_scaled, AddScaled, 2, kAllTypes)    \
  X(maximum, Maximum, 2, kAllTypes)         \
  X(minimum, Minimum, 2, kAllTypes)         \
  X(fmax, Fmax, 2, kAllTypes)               \
  X(fmin, Fmin, 2, kAllTypes)               \
  X(copysign, Copysign, 2, kFloatTypes)     \
  X(heaviside, Heaviside, 2, kAllTypes)     \
  X(nextafter, Nextafter, 2, kFloatTypes)   \
  X(clamp, Clamp, 3, kNumberTypes)          \
  X(lerp, Lerp, 3, kFloatTypes)             \
  X(addcmul, Addcmul, 3, kNumberTypes)      \
  X(addcdiv, Addcdiv, 3, kFloatTypes)       \
  X(where, Where, 3, kAllTypes)

#define WEFT_ELEMENTWISE_INTEGER(X)             \
  X(gcd, Gcd, 2, kIntTypes)                     \
  X(lcm, Lcm, 2, kIntTypes)                     \
  X(bitwise_not, BitwiseNot, 1, kDiscreteTypes) \
  X(bitwise_and, BitwiseAnd, 2, kDiscreteTypes) \
  X(bitwise_or, BitwiseOr, 2, kDiscreteTypes)   \
  X(bitwise_xor, BitwiseXor, 2, kDiscreteTypes) \
  X(shift_left, ShiftLeft, 2, kIntTypes)        \
  X(shift_right, ShiftRight, 2, kIntTypes)

#define WEFT_ELEMENTWISE_COMPARE(X)        \
  X(eq, Eq, 2, kAllTypes)                  \
  X(ne, Ne, 2, kAllTypes)                  \
  X(lt, Lt, 2, kAllTypes)                  \
  X(le, Le, 2, kAllTypes)                  \
  X(gt, Gt, 2, kAllTypes)                  \
  X(ge, Ge, 2, kAllTypes)                  \
  X(logical_not, LogicalNot, 1, kAllTypes) \
  X(logical_and, LogicalAnd, 2, kAllTypes) \
  X(logical_or, LogicalOr, 2, kAllTypes)   \
  X(logical_xor, LogicalXor, 2, kAllTypes) \
  X(isnan, Isnan, 1, kAllTypes)            \
  X(isinf, Isinf, 1, kAllTypes)            \
  X(isfinite, Isfinite, 1, kAllTypes)      \
  X(isposinf, Isposinf, 1, kAllTypes)      \
  X(isneginf, Isneginf, 1, kAllTypes)      \
  X(signbit, Signbit, 1, kAllTypes)

#define WEFT_ELEMENTWISE_ROUNDING(X)               \
  X(ceil, Ceil, 1, kNumberTypes)                   \
  X(floor, Floor, 1, kNumberTypes)                 \
  X(trunc, Trunc, 1, kNumberTypes)                 \
  X(round, Round, 1, kNumberTypes)                 \
  X(round_decimals, RoundDecimals, 1, kFloatTypes) \
  X(frac, Frac, 1, kFloatTypes)                    \
  X(deg2rad, Deg2rad, 1, kFloatTypes)              \
  X(rad2deg, Rad2deg, 1, kFloatTypes)              \
  X(nan_to_num, NanToNum, 1, kFloatTypes)

#define WEFT_ELEMENTWISE_EXPONENTIAL(X)     \
  X(exp, Exp, 1, kFloatTypes)               \
  X(exp2, Exp2, 1, kFloatTypes)             \
  X(expm1, Expm1, 1, kFloatTypes)           \
  X(log, Log, 1, kFloatTypes)               \
  X(log2, Log2, 1, kFloatTypes)             \
  X(log10, Log10, 1, kFloatTypes)           \
  X(log1p, Log1p, 1, kFloatTypes)           \
  X(pow, Pow, 2, kNumberTypes)              \
  X(hypot, Hypot, 2, kFloatTypes)           \
  X(logaddexp, Logaddexp, 2, kFloatTypes)   \
  X(logaddexp2, Logaddexp2, 2, kFloatTypes) \
  X(xlogy, Xlogy, 2, kFloatTypes)           \
  X(logit, Logit, 1, kFloatTypes)

#define WEFT_ELEMENTWISE_TRIGONOMETRIC(X) \
  X(sin, Sin, 1, kFloatTypes)             \
  X(cos, Cos, 1, kFloatTypes)             \
  X(tan, Tan, 1, kFloatTypes)             \
  X(asin, Asin, 1, kFloatTypes)           \
  X(acos, Acos, 1, kFloatTypes)           \
  X(atan, Atan, 1, kFloatTypes)           \
  X(atan2, Atan2, 2, kFloatTypes)         \
  X(sinc, Sinc, 1, kFloatTypes)

#define WEFT_ELEMENTWISE_HYPERBOLIC(X) \
  X(sinh, Sinh, 1, kFloatTypes)        \
  X(cosh, Cosh, 1, kFloatTypes)        \
  X(tanh, Tanh, 1, kFloatTypes)        \
  X(asinh, Asinh, 1, kFloatTypes)      \
  X(acosh, Acosh, 1, kFloatTypes)      \
  X(atanh, Atanh, 1, kFloatTypes)

#define WEFT_ELEMENTWISE_SPECIAL(X)     \
  X(erf, Erf, 1, kFloatTypes)           \
  X(erfc, Erfc, 1, kFloatTypes)         \
  X(erfinv, Erfinv, 1, kFloatTypes)     \
  X(lgamma, Lgamma, 1, kFloatTypes)     \
  X(digamma, Digamma, 1, kFloatTypes)   \
  X(trigamma, Trigamma, 1, kFloatTypes) \
  X(polygamma, Polygamma, 1, kFloatTypes)

#define WEFT_ELEMENTWISE_ACTIVATION(X)       \
  X(sigmoid, Sigmoid, 1, kFloatTypes)        \
  X(relu, Relu, 1, kNumberTypes)             \
  X(gelu, Gelu, 1, kFloatTypes)              \
  X(gelu_tanh, GeluTanh, 1, kFloatTypes)     \
  X(silu, Silu, 1, kFloatTypes)              \
  X(log_sigmoid, LogSigmoid, 1, kFloatTypes) \
  X(softplus, Softplus, 1, kFloatTypes)      \
  X(elu, Elu, 1, kFloatTypes)                \
  X(leaky_relu, LeakyRelu, 1, kFloatTypes)   \
  X(hardtanh, Hardtanh, 1, kNumberTypes)     \
  X(binary_cross_entropy, BinaryCrossEntropy, 2, kFloatTypes)

// First derivatives: the incoming gradient g, then the output y or the input x of the forward.
#define WEFT_ELEMENTWISE_GRADIENT(X)                  \
  X(sqrt_grad, SqrtGrad, 2, kFloatTypes)              \
  X(rsqrt_grad, RsqrtGrad, 2, kFloatTypes)            \
  X(reciprocal_grad, ReciprocalGrad, 2, kFloatTypes)  \
  X(tanh_grad, TanhGrad, 2, kFloatTypes)              \
  X(sigmoid_grad, SigmoidGrad, 2, kFloatTypes)        \
  X(relu_grad, ReluGrad, 2, kFloatTypes)              \
  X(hardtanh_grad, HardtanhGrad, 2, kFloatTypes)      \
  X(gelu_grad, GeluGrad, 2, kFloatTypes)              \
  X(gelu_tanh_grad, GeluTanhGrad, 2, kFloatTypes)     \
  X(silu_grad, SiluGrad, 2, kFloatTypes)              \
  X(log_sigmoid_grad, LogSigmoidGrad, 2, kFloatTypes) \
  X(softplus_grad, SoftplusGrad, 2, kFloatTypes)      \
  X(elu_grad, EluGrad, 2, kFloatTypes)                \
  X(leaky_relu_grad, LeakyReluGrad, 2, kFloatTypes)

#define WEFT_ELEMENTWISE(X)         \
  WEFT_ELEMENTWISE_ARITHMETIC(X)    \
  WEFT_ELEMENTWISE_INTEGER(X)       \
  WEFT_ELEMENTWISE_COMPARE(X)       \
  WEFT_ELEMENTWISE_ROUNDING(X)      \
  WEFT_ELEMENTWISE_EXPONENTIAL(X)   \
  WEFT_ELEMENTWISE_TRIGONOMETRIC(X) \
  WEFT_ELEMENTWISE_HYPERBOLIC(X)    \
  WEFT_ELEMENTWISE_SPECIAL(X)       \
  WEFT_ELEMENTWISE_ACTIVATION(X)    \
  WEFT_ELEMENTWISE_GRADIENT(X)

namespace weft {

#define WEFT_ENUMERATOR(name, Functor, arity, types) name,
enum class Elementwise : unsigned char { WEFT_ELEMENTWISE(WEFT_ENUMERATOR) };
#undef WEFT_ENUMERATOR

#define WEFT_COUNT(name, Functor, arity, types) +1
inline constexpr int kElementwiseCount = 0 WEFT_ELEMENTWISE(WEFT_COUNT);
#undef WEFT_COUNT

// What the list says of one operation. Indexed by Elementwise.
struct ElementwiseInfo {
  const char* name;
  const char* functor;
  int arity;
  unsigned types;
  WEFT_FN constexpr bool supports(DType t) const { return (types >> static_cast<int>(t)) & 1u; }
};
#define WEFT_INFO(name, Functor, arity, types) {#name, #Functor, arity, types},
inline constexpr ElementwiseInfo kElementwiseInfo[kElementwiseCount] = {WEFT_ELEMENTWISE(WEFT_INFO)};
#undef WEFT_INFO

}  // namespace weft
