// Functions of one variable, with derivatives that use the result where that is cheaper.
#include "core/ops/elementwise.h"

namespace weft {

namespace { constexpr double kLn2 = 0.693147180559945309417232, kLn10 = 2.302585092994045684017991; }  // namespace

// The gradient is an expression of g, which comes in, and of the input x, which is saved for it.
#define WEFT_FROM_INPUT(Struct, name, ...)                                   \
  struct Struct {                                                            \
    static constexpr Schema schema{#name "(Tensor self) -> Tensor"};         \
    static constexpr Pointwise pointwise{Elementwise::name, Promote::Float}; \
    static constexpr Saves saves{{input(0)}};                                \
    static void vjp(Backward& b) {                                           \
      const Tensor &g = b.grad(), x = b.input(0);                            \
      b.set(0, __VA_ARGS__);                                                 \
    }                                                                        \
  };                                                                         \
  WEFT_OP(Struct);                                                           \
  Tensor name(const Tensor& a) { return call(op_##Struct, Struct{}, a); }

// The same of the result y.
#define WEFT_FROM_OUTPUT(Struct, name, ...)                                  \
  struct Struct {                                                            \
    static constexpr Schema schema{#name "(Tensor self) -> Tensor"};         \
    static constexpr Pointwise pointwise{Elementwise::name, Promote::Float}; \
    static constexpr Saves saves{{output(0)}};                               \
    static void vjp(Backward& b) {                                           \
      const Tensor &g = b.grad(), y = b.output();                            \
      b.set(0, __VA_ARGS__);                                                 \
    }                                                                        \
  };                                                                         \
  WEFT_OP(Struct);                                                           \
  Tensor name(const Tensor& a) { return call(op_##Struct, Struct{}, a); }

// First derivatives that are worth a kernel: g f'(y) of the result y. `...` is the derivative with respect
// to y, where g stands for the product of the two incoming gradients.
#define WEFT_OUTPUT_GRADIENT(Struct, name, ...)                                     \
  extern const OpTable op_##Struct;                                                 \
  struct Struct {                                                                   \
    static constexpr Schema schema{#name "(Tensor grad, Tensor output) -> Tensor"}; \
    static constexpr Pointwise pointwise{Elementwise::name};                        \
    static constexpr Saves saves{{input(1), input(0) | input(1)}};                  \
    static void vjp(Backward& b) {                                                  \
      const Tensor y = b.input(1);                                                  \
      if (b.needs(0)) b.set(0, call(op_##Struct, Struct{}, b.grad(), y));           \
      if (b.needs(1)) {                                                             \
        const Tensor g = b.grad() * b.input(0);                                     \
        b.set(1, __VA_ARGS__);                                                      \
      }                                                                             \
    }                                                                               \
  };                                                                                \
  WEFT_OP(Struct);                                                                  \
  static Tensor name(const Tensor& g, const Tensor& y) { return call(op_##Struct, Struct{}, g, y); }

// ---- magnitude and sign --------------------------------------------------------------------------

struct Abs {
  static constexpr Schema schema{"abs(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::abs};
  static constexpr uint32_t traits = kExactOut;
  static constexpr Saves saves{{input(0)}};

  static void vjp(Backward& b) { b.set(0, b.grad() * sign(b.input(0))); }
};
WEFT_OP(Abs);

struct Sign {
  static constexpr Schema schema{"sign(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::sign};
  static constexpr uint32_t traits = kExactOut;

  static void vjp(Backward& b) { b.set(0, zeros_like(b.grad())); }
};
WEFT_OP(Sign);

// ---- roots and the reciprocal --------------------------------------------------------------------

WEFT_OUTPUT_GRADIENT(SqrtGrad, sqrt_grad, g / square(y) * -0.5)
WEFT_OUTPUT_GRADIENT(RsqrtGrad, rsqrt_grad, g* square(y) * -1.5)
WEFT_OUTPUT_GRADIENT(ReciprocalGrad, reciprocal_grad, g * y * -2.0)

WEFT_FROM_OUTPUT(Sqrt, sqrt, sqrt_grad(g, y))
WEFT_FROM_OUTPUT(Rsqrt, rsqrt, rsqrt_grad(g, y))
WEFT_FROM_OUTPUT(Reciprocal, reciprocal, reciprocal_grad(g, y))

// ---- exponentials and logarithms -----------------------------------------------------------------

WEFT_FROM_OUTPUT(Exp, exp, g* y)
WEFT_FROM_OUTPUT(Exp2, exp2, g * y * kLn2)
WEFT_FROM_OUTPUT(Expm1, expm1, g*(y + 1.0))
WEFT_FROM_INPUT(Log, log, g / x)
WEFT_FROM_INPUT(Log2, log2, g / (x * kLn2))
WEFT_FROM_INPUT(Log10, log10, g / (x * kLn10))
WEFT_FROM_INPUT(Log1p, log1p, g / (x + 1.0))

// ---- trigonometric functions ---------------------------------------------------------------------

WEFT_FROM_INPUT(Sin, sin, g* cos(x))
WEFT_FROM_INPUT(Cos, cos, neg(g* sin(x)))
WEFT_FROM_OUTPUT(Tan, tan, g*(square(y) + 1.0))
WEFT_FROM_INPUT(Asin, asin, g* rsqrt(1.0 - square(x)))
WEFT_FROM_INPUT(Acos, acos, neg(g* rsqrt(1.0 - square(x))))
WEFT_FROM_INPUT(Atan, atan, g / (square(x) + 1.0))

// ---- hyperbolic functions ------------------------------------------------------------------------

WEFT_OUTPUT_GRADIENT(TanhGrad, tanh_grad, g * y * -2.0)

WEFT_FROM_INPUT(Sinh, sinh, g* cosh(x))
WEFT_FROM_INPUT(Cosh, cosh, g* sinh(x))
WEFT_FROM_OUTPUT(Tanh, tanh, tanh_grad(g, y))
WEFT_FROM_INPUT(Asinh, asinh, g* rsqrt(square(x) + 1.0))
WEFT_FROM_INPUT(Acosh, acosh, g* rsqrt(square(x) + -1.0))
WEFT_FROM_INPUT(Atanh, atanh, g / (1.0 - square(x)))

Tensor abs(const Tensor& a) { return call(op_Abs, Abs{}, a); }
Tensor sign(const Tensor& a) { return call(op_Sign, Sign{}, a); }

}  // namespace weft
