// Sums, products, quotients and powers.
#include "core/math/arithmetic.h"

#include "core/ops/functions.h"
#include "core/tensor/promotion.h"

namespace weft {

struct Add {
  static constexpr Schema schema{"add(Tensor self, Tensor|Scalar other) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::add};
  static constexpr uint32_t traits = kLinear;

  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, b.grad());
    if (b.needs(1)) b.set(1, b.grad());
  }
};
WEFT_OP(Add);

struct AddScaled {
  static constexpr Schema schema{"add.alpha(Tensor self, Tensor|Scalar other, *, Scalar alpha) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::add_scaled};
  static constexpr uint32_t traits = kLinear;
  static constexpr const char* backward_name = "AddBackward0";
  Scalar alpha;

  math::AddScaled functor() const { return {alpha.to_double(), alpha.to_int()}; }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, b.grad());
    if (b.needs(1)) b.set(1, mul(b.grad(), wrapped_number(b.op<AddScaled>().alpha)));
  }
};
WEFT_OP(AddScaled);

struct Sub {
  static constexpr Schema schema{"sub(Tensor|Scalar self, Tensor|Scalar other) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::sub};
  static constexpr uint32_t traits = kLinear;

  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, b.grad());
    if (b.needs(1)) b.set(1, neg(b.grad()));
  }
};
WEFT_OP(Sub);

struct SubScaled {
  static constexpr Schema schema{"sub.alpha(Tensor self, Tensor|Scalar other, *, Scalar alpha) -> Tensor"};
  static constexpr const char* backward_name = "SubBackward0";
  Scalar alpha;

  Tensor compose(Inputs in) const { return sub(in[0], mul(in[1], wrapped_number(alpha))); }
};
WEFT_OP(SubScaled);

struct Mul {
  static constexpr Schema schema{"mul(Tensor self, Tensor|Scalar other) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::mul};
  static constexpr Saves saves{{input(1), input(0)}};

  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, mul(b.grad(), b.input(1)));
    if (b.needs(1)) b.set(1, mul(b.grad(), b.input(0)));
  }
};
WEFT_OP(Mul);

struct Div {
  static constexpr Schema schema{"div(Tensor|Scalar self, Tensor|Scalar other) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::div, Promote::Float};
  static constexpr Saves saves{{input(1), input(0) | input(1)}};

  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, div(b.grad(), b.input(1)));
    if (b.needs(1)) {
      const Tensor y = b.input(1);
      b.set(1, neg(b.grad()) * div(div(b.input(0), y), y));
    }
  }
};
WEFT_OP(Div);

struct Neg {
  static constexpr Schema schema{"neg(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::neg};
  static constexpr uint32_t traits = kLinear;

  static void vjp(Backward& b) { b.set(0, neg(b.grad())); }
};
WEFT_OP(Neg);

struct Pow {
  static constexpr Schema schema{"pow(Tensor|Scalar self, Tensor|Scalar exponent) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::pow};
  static constexpr Saves saves{{input(0) | input(1), input(0) | input(1) | output(0)}};

  static void vjp(Backward& b) {
    const Tensor x = b.input(0), y = b.input(1);
    if (b.needs(0)) {
      // x ** 0 is constant even at 0, where 0 * 0 ** -1 would be NaN.
      const Tensor zero = number(0.0);
      b.set(0, where(eq(y, zero), zero, b.grad() * (y * pow(x, sub(y, number(int64_t{1}))))));
    }
    if (b.needs(1)) {
      // 0 ** y stays 0 to the right of y = 0.
      const Tensor zero = number(0.0);
      const Tensor flat = logical_and(eq(x, zero), ge(y, zero));
      b.set(1, b.grad() * where(flat, zero, b.output() * log(x)));
    }
  }
};
WEFT_OP(Pow);

Tensor add(const Tensor& a, const Tensor& b) { return call(op_Add, Add{}, a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return call(op_Sub, Sub{}, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return call(op_Mul, Mul{}, a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return call(op_Div, Div{}, a, b); }
Tensor pow(const Tensor& a, const Tensor& b) { return call(op_Pow, Pow{}, a, b); }
Tensor neg(const Tensor& a) { return call(op_Neg, Neg{}, a); }

Tensor number(double value) { return wrapped_number(Scalar(value)); }
Tensor number(int64_t value) { return wrapped_number(Scalar(value)); }

}  // namespace weft
