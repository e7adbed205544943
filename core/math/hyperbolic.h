// Hyperbolic functions and their inverses.
#pragma once

#include "core/math/exponential.h"

namespace weft::math {

template <class T> WEFT_FN T tanh(T x) {
  constexpr T kFlat = sizeof(T) == 4 ? T(19) : T(40);  // from half of this on, tanh rounds to 1
  const T twice = abs(x) + abs(x);
  const auto e = exp_reduce(kFlat < twice ? kFlat : twice);
  // (exp(2x) - 1) / (exp(2x) + 1), or 1 - 2 / (exp(2x) + 1) where that loses nothing
  const bool far = twice > T(1.125);
  const T scale = power_of_two(T(), e.k);
  const Pair<T> expm1 = two_sum(scale - T(1), scale * e.y);
  const Pair<T> numerator = {far ? T(2) : expm1.hi, far ? T(0) : fma(scale, e.y_lo, expm1.lo)};
  const T denominator = fma(scale, e.y, scale + T(1));
  const T ratio = quotient_rounded<T>(numerator, {denominator, T(0)});
  return copysign(far ? T(1) - ratio : ratio, x);
}

WEFT_FN double sinh(double x) {
  const double a = abs(x);
  const double z = a * a;
  const double series =
      poly(z, 0x1.5555555555555p-3, 0x1.111111111119bp-7, 0x1.a01a01a007361p-13, 0x1.71de3a68cf723p-19,
           0x1.ae644123cf66ep-26, 0x1.61314c5e309c5p-33, 0x1.a6660e7970592p-41, 0x1.d2811867fbc50p-48);
  const double small = fma(a * z, series, a);
  const auto e = exp_reduce(clamp_exponent(a));
  const double p = (1.0 + e.y) * 0.5;
  const double large = scale_in_two(p, e.k) - 0.25 / scale_in_two(p, e.k);
  return copysign(a < 1.0 ? small : large, x);
}
WEFT_FN double cosh(double x) {
  const auto e = exp_reduce(clamp_exponent(abs(x)));
  const double half = scale_in_two((1.0 + e.y) * 0.5, e.k);
  return half + 0.25 / half;
}

constexpr double kLn2 = 0x1.62e42fefa39efp-1;

// The logarithm of a + sqrt(a^2 + sign), for a up to 2^500; beyond, of 2 a.
WEFT_FN double log_of_sum_with_root(double a, double sign) {
  const bool large = a > 0x1p500;
  const Pair<double> square = two_product(large ? 1.0 : a, large ? 1.0 : a);
  const Pair<double> inside = two_sum(square.hi, sign);
  const Pair<double> root = sqrt_pair<double>({inside.hi, inside.lo + square.lo});
  const Pair<double> sum = two_sum(root.hi, a);
  const double hi = large ? a : sum.hi;
  const double lo = large ? 0.0 : sum.lo + root.lo;
  return log_sum(hi, lo) + (large ? kLn2 : 0.0);
}
WEFT_FN double asinh(double x) {
  const double a = abs(x);
  return copysign(a < 0x1p-28 ? a : log_of_sum_with_root(a, 1.0), x);
}
WEFT_FN double acosh(double x) { return x >= 1.0 ? log_of_sum_with_root(x, -1.0) : nan<double>(); }
WEFT_FN double atanh(double x) {
  const double a = abs(x);
  const Pair<double> ratio = quotient_pair(two_sum(1.0, a), two_sum(1.0, -a));
  const double result = 0.5 * log_sum(ratio.hi, is_finite(ratio.hi) ? ratio.lo : 0.0);
  return copysign(a < 0x1p-28 ? a : a > 1.0 ? nan<double>() : result, x);
}

struct Tanh {
  template <class T> WEFT_FN T operator()(T x) const { return tanh(x); }
};
struct Sinh {
  template <class T> WEFT_FN T operator()(T x) const { return static_cast<T>(sinh(double(x))); }
};
struct Cosh {
  template <class T> WEFT_FN T operator()(T x) const { return static_cast<T>(cosh(double(x))); }
};
struct Asinh {
  template <class T> WEFT_FN T operator()(T x) const { return static_cast<T>(asinh(double(x))); }
};
struct Acosh {
  template <class T> WEFT_FN T operator()(T x) const { return static_cast<T>(acosh(double(x))); }
};
struct Atanh {
  template <class T> WEFT_FN T operator()(T x) const { return static_cast<T>(atanh(double(x))); }
};

}  // namespace weft::math
