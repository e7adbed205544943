// Sums, products, quotients, remainders and powers.
#include "core/math/arithmetic.h"

#include <cstring>

#include "core/ops/elementwise.h"
#include "core/tensor/promotion.h"

namespace weft {

extern const OpTable op_Trunc;  // rounding.cpp

namespace {

void refuse_bool_subtraction(Inputs in) {
  const bool first = in[0].dtype() == DType::Bool, second = in[1].dtype() == DType::Bool;
  if (first && second) {
    fail(
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
        "`logical_xor()` operator instead.");
  }
  if (first || second) {
    fail(
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert "
        "a mask, use the `~` or `logical_not()` operator instead.");
  }
}

void check_alpha(Inputs in, const Scalar& alpha) {
  ResultType common;
  common.add(in[0].get());
  common.add(in[1].get());
  const DType result = common.get();
  if (alpha.kind == Scalar::Kind::Bool && result != DType::Bool) {
    fail("Boolean alpha only supported for Boolean results.");
  }
  if (alpha.is_floating() && is_integral(result)) {
    fail("For integral input tensors, argument alpha must not be a floating point number.");
  }
}

template <class T>
bool any_zero(const Tensor& t) {
  const T* values = t.data<T>();
  bool found = false;
  for (int64_t i = 0; i < t.numel(); ++i) found |= values[i] == 0;
  return found;
}

// Dividing integers: floats have an infinity for it, integers do not.
void refuse_zero_divisor(Inputs in) {
  if (!is_integral(in[0].dtype()) || !is_integral(in[1].dtype())) return;
  const Tensor divisor = in[1]->is_contiguous() ? in[1] : detached_copy(in[1]);
  bool zero = false;
  switch (item_size(divisor.dtype())) {
    case 1: zero = any_zero<int8_t>(divisor); break;
    case 2: zero = any_zero<int16_t>(divisor); break;
    case 4: zero = any_zero<int32_t>(divisor); break;
    default: zero = any_zero<int64_t>(divisor);
  }
  if (zero) fail("ZeroDivisionError");
}

math::Scalar as_parameter(const Scalar& s) { return {s.to_double(), s.to_int()}; }

}  // namespace

// ---- sums ----------------------------------------------------------------------------------------

struct Add {
  static constexpr Schema schema{"add(Tensor|Scalar self, Tensor|Scalar other) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::add};
  static constexpr uint32_t traits = kLinear;

  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, b.grad());
    if (b.needs(1)) b.set(1, b.grad());
  }
};
WEFT_OP(Add);

struct AddScaled {
  static constexpr Schema schema{"add.alpha(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::add_scaled};
  static constexpr uint32_t traits = kLinear;
  static constexpr const char* backward_name = "AddBackward0";
  Scalar alpha;

  void check(Inputs in) const { check_alpha(in, alpha); }
  math::AddScaled functor() const { return {as_parameter(alpha)}; }
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

  void check(Inputs in) const { refuse_bool_subtraction(in); }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, b.grad());
    if (b.needs(1)) b.set(1, neg(b.grad()));
  }
};
WEFT_OP(Sub);

struct SubScaled {
  static constexpr Schema schema{"sub.alpha(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::add_scaled};
  static constexpr uint32_t traits = kLinear;
  static constexpr const char* backward_name = "SubBackward0";
  Scalar alpha;

  void check(Inputs in) const {
    refuse_bool_subtraction(in);
    check_alpha(in, alpha);
  }
  math::AddScaled functor() const {
    const math::Scalar a = as_parameter(alpha);
    return {{-a.real, math::negated(a.integer)}};
  }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, b.grad());
    if (b.needs(1)) b.set(1, neg(mul(b.grad(), wrapped_number(b.op<SubScaled>().alpha))));
  }
};
WEFT_OP(SubScaled);

struct Neg {
  static constexpr Schema schema{"neg(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::neg};
  static constexpr uint32_t traits = kLinear | kExactOut;

  void check(Inputs in) const {
    if (in[0].dtype() == DType::Bool) {
      fail(
          "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a "
          "mask, use the `~` or `logical_not()` operator instead.");
    }
  }
  static void vjp(Backward& b) { b.set(0, neg(b.grad())); }
};
WEFT_OP(Neg);

// ---- products and quotients ----------------------------------------------------------------------

struct Mul {
  static constexpr Schema schema{"mul(Tensor|Scalar self, Tensor|Scalar other) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::mul};
  static constexpr Saves saves{{input(1), input(0)}};

  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, mul(b.grad(), b.input(1)));
    if (b.needs(1)) b.set(1, mul(b.grad(), b.input(0)));
  }
};
WEFT_OP(Mul);

struct Square {
  static constexpr Schema schema{"square(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::square, Promote::Number};
  static constexpr Saves saves{{input(0)}};
  static constexpr const char* backward_name = "PowBackward0";

  static void vjp(Backward& b) { b.set(0, b.grad() * (b.input(0) * 2.0)); }
};
WEFT_OP(Square);

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

// Quotients rounded down, and towards zero. Both are steps: their gradient is zero.
#define WEFT_ROUNDED_QUOTIENT(Struct, source, kernel)                \
  struct Struct {                                                    \
    static constexpr Schema schema{source};                          \
    static constexpr Pointwise pointwise{Elementwise::kernel};       \
    static void check_values(Inputs in) { refuse_zero_divisor(in); } \
    static void vjp(Backward& b) {                                   \
      if (b.needs(0)) b.set(0, zeros_like(b.grad()));                \
      if (b.needs(1)) b.set(1, zeros_like(b.grad()));                \
    }                                                                \
  };                                                                 \
  WEFT_OP(Struct);

WEFT_ROUNDED_QUOTIENT(FloorDivide, "floor_divide(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", div_floor)
WEFT_ROUNDED_QUOTIENT(TruncDivide, "trunc_divide(Tensor self, Tensor other) -> Tensor", div_trunc)

// In half precision the quotient is rounded before it is cut off, as PyTorch does.
struct HalfTruncDivide {
  static constexpr Schema schema{"half_trunc_divide(Tensor self, Tensor other) -> Tensor"};

  void infer(Inputs in, Meta* out) const { infer_pointwise(op_Div, nullptr, in, out); }
  void run(Inputs in, Tensor* out) const {
    run_pointwise(op_Div, nullptr, in, out);
    TensorImpl* quotient[] = {out[0].get()};
    run_pointwise(op_Trunc, nullptr, Inputs(quotient, 1), out);
  }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, zeros_like(b.grad()));
    if (b.needs(1)) b.set(1, zeros_like(b.grad()));
  }
};
WEFT_OP(HalfTruncDivide);

struct DivRounded {
  static constexpr Schema schema{
      "div.Tensor_mode(Tensor|Scalar self, Tensor|Scalar other, *, str? rounding_mode) -> Tensor"};
  std::optional<std::string> rounding_mode;

  Tensor compose(Inputs in) const {
    if (!rounding_mode) return div(in[0], in[1]);
    if (*rounding_mode == "floor") return floor_divide(in[0], in[1]);
    if (*rounding_mode == "trunc") {
      Meta quotient;
      infer_pointwise(op_Div, nullptr, in, &quotient);
      const bool half = item_size(quotient.dtype) == 2;
      return half ? call(op_HalfTruncDivide, HalfTruncDivide{}, in[0], in[1])
                  : call(op_TruncDivide, TruncDivide{}, in[0], in[1]);
    }
    fail("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", *rounding_mode, "'");
  }
};
WEFT_OP(DivRounded);

// What a quotient leaves: with the sign of the divisor, and with that of the dividend.
struct Remainder {
  static constexpr Schema schema{"remainder(Tensor|Scalar self, Tensor|Scalar other) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::remainder};
  static constexpr Saves saves{{0, input(0) | input(1)}};

  void check(Inputs in) const { refuse_two_numbers(in); }
  static void check_values(Inputs in) { refuse_zero_divisor(in); }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, b.grad());
    if (b.needs(1)) b.set(1, neg(b.grad() * floor_divide(b.input(0), b.input(1))));
  }
};
WEFT_OP(Remainder);

struct Fmod {
  static constexpr Schema schema{"fmod(Tensor self, Tensor|Scalar other) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::fmod};
  static constexpr Saves saves{{0, input(0) | input(1)}};

  static void check_values(Inputs in) { refuse_zero_divisor(in); }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, b.grad());
    if (b.needs(1)) b.set(1, neg(b.grad() * call(op_TruncDivide, TruncDivide{}, b.input(0), b.input(1))));
  }
};
WEFT_OP(Fmod);

// ---- powers --------------------------------------------------------------------------------------

namespace {

Tensor power_of_number(const Tensor& base, const Scalar& exponent);
Scalar number_of(const Tensor& t) {
  return t.dtype() == DType::Float64 ? Scalar(*t.data<double>())
         : t.dtype() == DType::Bool  ? Scalar(int64_t{*t.data<bool>()})
                                     : Scalar(*t.data<int64_t>());
}

}  // namespace

struct PowTensor {
  static constexpr Schema schema{"pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::pow};
  static constexpr Saves saves{{input(0) | input(1), input(0) | input(1) | output(0)}};
  static constexpr const char* backward_name = "PowBackward1";

  // Where a factor is infinite or NaN but the gradient is not, the base is replaced before it is used, so
  // that derivatives of any order stay clear of it.
  static void vjp(Backward& b) {
    const Tensor x = in_full(b.input(0), b.output_dtype()), y = b.input(1);
    const Tensor zero = number(int64_t{0}), one = number(int64_t{1});
    if (b.needs(0)) {
      // x ** 0 is constant even at 0, where 0 * 0 ** -1 would be NaN.
      const Tensor base = where(logical_and(eq(x, zero), eq(y, zero)), one, x);
      b.set(0, b.grad() * (y * pow(base, y - one)));
    }
    if (b.needs(1)) {
      // 0 ** y stays 0 to the right of y = 0.
      const Tensor base = where(logical_and(eq(x, zero), ge(y, zero)), one, x);
      b.set(1, b.grad() * (b.output() * log(base)));
    }
  }
};
WEFT_OP(PowTensor);

// The exponent is a Python number: one derivative, known to be a power as well.
struct PowNumber {
  static constexpr Schema schema{"pow.Tensor_Number(Tensor self, Tensor exponent) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::pow};
  static constexpr Saves saves{{input(0) | input(1)}};
  static constexpr const char* backward_name = "PowBackward0";

  static void vjp(Backward& b) {
    const Scalar exponent = number_of(b.input(1));
    const double value = exponent.to_double();
    if (value == 0) return b.set(0, zeros_like(b.grad()));
    const Scalar less = exponent.is_floating() ? Scalar(value - 1) : Scalar(exponent.integer - 1);
    b.set(0, b.grad() * (power_of_number(b.input(0), less) * value));
  }
};
WEFT_OP(PowNumber);

struct Pow {
  static constexpr Schema schema{"pow(Tensor|Scalar self, Tensor|Scalar exponent) -> Tensor"};

  Tensor compose(Inputs in) const {
    refuse_two_numbers(in);
    const bool truths = in[0].dtype() == DType::Bool && in[1].dtype() == DType::Bool;
    if (truths && in[1]->has(kWrappedNumber)) return logical_or(in[0], logical_not(in[1]));
    if (in[1]->has(kWrappedNumber)) return power_of_number(in[0], number_of(in[1]));
    return call(op_PowTensor, PowTensor{}, in[0], in[1]);
  }
};
WEFT_OP(Pow);

namespace {

Tensor power_of_number(const Tensor& base, const Scalar& exponent) {
  const double value = exponent.to_double();
  const bool stays_integral = is_integral(base.dtype()) && !exponent.is_floating();
  if (stays_integral && value < 0) fail("Integers to negative integer powers are not allowed.");
  if (value == 2 && (stays_integral || is_floating(base.dtype()))) return square(base);
  if (is_floating(base.dtype()) && base.dtype() != DType::Float16) {
    if (value == 0.5) return sqrt(base);
    if (value == -0.5) return rsqrt(base);
    if (value == -1) return reciprocal(base);
  }
  const Tensor number = wrapped_number(exponent);
  refuse_overflow(number, base.dtype());
  return call(op_PowNumber, PowNumber{}, base, number);
}

}  // namespace

// ---- two lengths, two coordinates, a magnitude and a sign ----------------------------------------

struct Hypot {
  static constexpr Schema schema{"hypot(Tensor self, Tensor other) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::hypot};
  static constexpr Saves saves{{input(0) | output(0), input(1) | output(0)}};

  static void vjp(Backward& b) {
    // The corner at (0, 0) has the gradient 0, as abs has.
    const Tensor y = b.output();
    const Tensor length = where(eq(y, number(int64_t{0})), number(int64_t{1}), y);
    for (int i = 0; i < 2; ++i)
      if (b.needs(i)) b.set(i, b.grad() * (b.input(i) / length));
  }
};
WEFT_OP(Hypot);

struct Atan2 {
  static constexpr Schema schema{"atan2(Tensor self, Tensor other) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::atan2, Promote::Float};
  static constexpr Saves saves{{input(0) | input(1), input(0) | input(1)}};

  static void vjp(Backward& b) {
    const Tensor y = b.input(0), x = b.input(1);
    const Tensor squares = square(y) + square(x);
    const Tensor g = b.grad() / where(eq(squares, number(int64_t{0})), number(int64_t{1}), squares);
    if (b.needs(0)) b.set(0, g * x);
    if (b.needs(1)) b.set(1, neg(g * y));
  }
};
WEFT_OP(Atan2);

struct Copysign {
  static constexpr Schema schema{"copysign(Tensor self, Tensor|Scalar other) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::copysign, Promote::Float};
  static constexpr Saves saves{{input(0) | input(1)}};

  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, b.grad() * (sign(b.input(0)) * copysign(number(1.0), b.input(1))));
    if (b.needs(1)) b.set(1, zeros_like(b.grad()));
  }
};
WEFT_OP(Copysign);

// ---- three operands ------------------------------------------------------------------------------

struct Lerp {
  static constexpr Schema schema{"lerp(Tensor self, Tensor end, Tensor|Scalar weight) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::lerp, Promote::Exact};
  static constexpr Saves saves{{input(2), input(2), input(0) | input(1)}};

  void check(Inputs in) const {
    const DType wanted = in[0].dtype();
    if (in[1].dtype() != wanted) {
      fail("expected dtype ", dtype_name(wanted), " for `end` but got dtype ", dtype_name(in[1].dtype()));
    }
    if (in[2].ndim() > 0 && in[2].dtype() != wanted) {
      fail("expected dtype ", dtype_name(wanted), " for `weight` but got dtype ", dtype_name(in[2].dtype()));
    }
  }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, b.grad() - b.grad() * b.input(2));
    if (b.needs(1)) b.set(1, b.grad() * b.input(2));
    if (b.needs(2)) b.set(2, b.grad() * (b.input(1) - b.input(0)));
  }
};
WEFT_OP(Lerp);

struct Addcmul {
  static constexpr Schema schema{"addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::addcmul};
  static constexpr Saves saves{{0, input(2), input(1)}};
  Scalar value;

  math::Addcmul functor() const { return {as_parameter(value)}; }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, b.grad());
    if (!b.needs(1) && !b.needs(2)) return;
    const Tensor g = mul(b.grad(), wrapped_number(b.op<Addcmul>().value));
    if (b.needs(1)) b.set(1, g * b.input(2));
    if (b.needs(2)) b.set(2, g * b.input(1));
  }
};
WEFT_OP(Addcmul);

struct Addcdiv {
  static constexpr Schema schema{"addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::addcdiv};
  static constexpr Saves saves{{0, input(2), input(1) | input(2)}};
  Scalar value;

  void check(Inputs in) const {
    if (is_integral(in[1].dtype()) && is_integral(in[2].dtype())) {
      fail(
          "Integer division with addcdiv is no longer supported: it divides as div does. For the integer "
          "quotient write (input + value * trunc(tensor1 / tensor2)).to(input.dtype), for the true one make "
          "tensor1 a float tensor.");
    }
  }
  math::Addcdiv functor() const { return {as_parameter(value)}; }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, b.grad());
    if (!b.needs(1) && !b.needs(2)) return;
    const Tensor divisor = b.input(2);
    const Tensor g = mul(b.grad(), wrapped_number(b.op<Addcdiv>().value)) / divisor;
    if (b.needs(1)) b.set(1, g);
    if (b.needs(2)) b.set(2, neg(g * (b.input(1) / divisor)));
  }
};
WEFT_OP(Addcdiv);

void refuse_overflow(const Tensor& number, DType type) {
  if (!number->has(kWrappedNumber) || number.dtype() != DType::Int64) return;
  if (!is_integral(type) || type == DType::Bool) return;
  const int64_t value = *number.data<int64_t>();
  const int bits = item_size(type) * 8;
  const int64_t half_range = int64_t{1} << (bits - 1);
  const bool fits =
      bits == 64 || (type == DType::UInt8 ? value >= 0 && value <= 255 : value >= -half_range && value < half_range);
  if (!fits) fail("value cannot be converted to type ", dtype_name(type), " without overflow (it is ", value, ")");
}

// ---- for other rules -----------------------------------------------------------------------------

Tensor add(const Tensor& a, const Tensor& b) { return call(op_Add, Add{}, a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return call(op_Sub, Sub{}, a, b); }
Tensor neg(const Tensor& a) { return call(op_Neg, Neg{}, a); }
Tensor mul(const Tensor& a, const Tensor& b) { return call(op_Mul, Mul{}, a, b); }
Tensor square(const Tensor& a) { return call(op_Square, Square{}, a); }
Tensor div(const Tensor& a, const Tensor& b) { return call(op_Div, Div{}, a, b); }
Tensor floor_divide(const Tensor& a, const Tensor& b) { return call(op_FloorDivide, FloorDivide{}, a, b); }
Tensor pow(const Tensor& a, const Tensor& b) { return call(op_Pow, Pow{}, a, b); }
Tensor copysign(const Tensor& a, const Tensor& b) { return call(op_Copysign, Copysign{}, a, b); }

Tensor number(double value) { return wrapped_number(Scalar(value)); }
Tensor number(int64_t value) { return wrapped_number(Scalar(value)); }

}  // namespace weft
