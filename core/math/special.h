// The error function and its relatives, down to the tails: erfc(t) is exp(-t^2) times a smooth
// factor, so that gelu, too, keeps its digits where 1 + erf(x) would cancel.
#pragma once

#include "core/math/exponential.h"

namespace weft::math {

// ---- erf ----------------------------------------------------------------------------------------

// erfc(t) = exp(-t^2) erfcx(t) for t >= 0, and erfcx(t) (t + c) is c0 + w q(w), a polynomial in
// w = (t - c) / (t + c).
template <class T> struct ErfcxFit;
template <> struct ErfcxFit<float> {
  static constexpr float kCentre = 3.0f, kFirst = 0x1.12f21ep+0f;
  WEFT_FN static float rest(float w) {
    return poly(w, -0x1.c44c48p-1f, 0x1.2e3266p-1f, -0x1.3deaep-2f, 0x1.e9981cp-4f, -0x1.b7b232p-6f, -0x1.426178p-10f,
                0x1.922376p-9f, -0x1.f92a58p-12f, -0x1.41dffcp-12f, 0x1.4efe28p-17f);
  }
};
template <> struct ErfcxFit<double> {
  static constexpr double kCentre = 4.5, kFirst = 0x1.1a347a29849afp+0;
  WEFT_FN static double rest(double w) {
    return poly(w, -0x1.0142e504b936dp+0, 0x1.aafba83e6c9ebp-1, -0x1.4199bb01dd92cp-1, 0x1.b588f60828c31p-2,
                -0x1.0ac6cc1cbd4afp-2, 0x1.203d11baa35ddp-3, -0x1.0ee993c0e527ap-4, 0x1.ad3e6ed659fedp-6,
                -0x1.0cfe407b68e96p-7, 0x1.be8a93393c7f4p-10, -0x1.c2661350c99efp-16, -0x1.2ad311c27e2d6p-13,
                0x1.bc7451f69b3b5p-15, -0x1.6fac6a6fd8a7ap-19, -0x1.44e9c9231b501p-18, 0x1.af7cd85e95f1dp-20,
                0x1.803f360d1ad14p-23, -0x1.fc518918fa128p-23, 0x1.4c1c30ca72972p-26, 0x1.e9dd8eb5d97adp-26,
                -0x1.0189faa782e5cp-28, -0x1.9af7efdc9afecp-29, -0x1.7d8274bc4b459p-33);
  }
};
template <class T> WEFT_FN Pair<T> erfcx(T t) {
  using Fit = ErfcxFit<T>;
  const Pair<T> d = two_sum(t, Fit::kCentre);
  const T inverse = T(1) / d.hi;
  const T error = fma(-d.lo, inverse, fma(-d.hi, inverse, T(1)));  // relative, of inverse
  const T twice = T(-2) * Fit::kCentre * inverse;
  const T w = fma(twice, error, T(1) + twice);
  const T rest = Fit::rest(w);
  const T p = fma(w, rest, Fit::kFirst);
  const T p_lo = fma(w, rest, Fit::kFirst - p);
  const Pair<T> product = two_product(inverse, p);
  return {product.hi, product.lo + fma(product.hi, error, inverse * p_lo)};
}
// Where erfc is 0 for certain; the fits above end there.
WEFT_FN constexpr float last_erfc_argument(float) { return 10.5f; }
WEFT_FN constexpr double last_erfc_argument(double) { return 28.0; }

template <class T> WEFT_FN T erfc_of_positive(T t) {
  const T last = last_erfc_argument(T());
  const T bounded = last < t ? last : t;
  const Pair<T> square = two_product(bounded, bounded);
  const auto e = exp_reduce(clamp_exponent(-square.hi), -square.lo);
  const Pair<T> p = pair_product(exp_mantissa(e), erfcx(bounded));
  return scale_in_two(p.hi + p.lo, e.k);
}

WEFT_FN float erf_near_zero(float x) {
  const float z = x * x;
  return fma(x,
             poly(z, 0x1.06eba8p-3f, -0x1.81274p-2f, 0x1.ce2d6p-4f, -0x1.b8008p-6f, 0x1.54408ep-8f, -0x1.a591bp-11f,
                  0x1.4d5a94p-14f),
             x);
}
WEFT_FN double erf_near_zero(double x) {
  const double z = x * x;
  return fma(x,
             poly(z, 0x1.06eba8214db69p-3, -0x1.812746b037a31p-2, 0x1.ce2f21a046ba2p-4, -0x1.b82ce313e196bp-6,
                  0x1.565bcd4b1d779p-8, -0x1.c02dc0bc6e99ep-11, 0x1.f9a4de89d9752p-14, -0x1.f4fa1bb1df381p-17,
                  0x1.bc5cf9edeb412p-20, -0x1.7a42a954e4ad7p-23, 0x1.c385585da00c7p-26, -0x1.1411f284ed3d3p-27,
                  0x1.4feea3a771690p-29, -0x1.9126334e0bc46p-32),
             x);
}
WEFT_FN constexpr float last_near_zero(float) { return 0.9f; }
WEFT_FN constexpr double last_near_zero(double) { return 1.0; }

template <class T> WEFT_FN T erf(T x) {
  const T t = abs(x);
  const T far = copysign(T(1) - erfc_of_positive(t), x);
  return t < last_near_zero(T()) ? erf_near_zero(x) : far;
}
template <class T> WEFT_FN T erfc(T x) {
  const T t = abs(x);
  const T tail = erfc_of_positive(t);
  const T far = x < 0 ? T(2) - tail : tail;
  return t < T(0.5) ? T(1) - erf_near_zero(x) : far;
}

// The inverse of erf: a start good to seven digits (Giles's two polynomials in the logarithm of
// 1 - x^2), then steps of Halley's method with erf near zero and with erfc in the tail.
WEFT_FN double erfinv(double x) {
  const double a = abs(x);
  const double rest = 1.0 - a;  // exact where it is used
  const double w = -log(rest * (1.0 + a));
  const double c = w - 2.5;
  const double centre = poly(c, 1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06,
                             -3.5233877e-06, 3.43273939e-07, 2.81022636e-08);
  const double t = sqrt(w) - 3.0;
  const double tail = poly(t, 2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844,
                           0.00134934322, 0.000100950558, -0.000200214257);
  // Giles's second polynomial ends at 1 - x^2 = 2^-24; further out, the leading asymptotic term.
  const double far = sqrt(w + 0.69314718 - 0.5 * log(3.14159265 * w));
  double y = w < 5.0 ? centre * a : w < 16.0 ? tail * a : far;
  for (int step = 0; step < 3; ++step) {
    const double difference = a < 0.5 ? erf(y) - a : rest - erfc(y);
    const double newton = difference * 0x1.c5bf891b4ef6bp-1 * exp(y * y);
    y = y - newton / (1.0 + y * newton);
  }
  y = a < 1e-9 ? a * 0x1.c5bf891b4ef6bp-1 : y;
  y = a == 1.0 ? infinity<double>() : y;
  return a <= 1.0 ? copysign(y, x) : nan<double>();
}

// ---- the normal distribution --------------------------------------------------------------------

// For t >= 0: Phi(-t) = tail 2^k and phi(t) = density 2^k. The exponent is kept apart so that
// t Phi(-t) does not pass through subnormal numbers; t comes back bounded to where all that is 0.
template <class T> struct NormalTail {
  T t;
  Pair<T> tail;
  T density;
  decltype(ExpReduced<T>::k) k;
};
template <class T> WEFT_FN NormalTail<T> normal_tail(T t) {
  constexpr T kLast = sizeof(T) == 4 ? T(14.8) : T(39);
  const T bounded = kLast < t ? kLast : t;
  const Pair<T> square = two_product(bounded, bounded);
  const auto e = exp_reduce(T(-0.5) * square.hi, T(-0.5) * square.lo);
  const Pair<T> p = exp_mantissa(e);
  const Pair<T> tail = pair_product(p, erfcx(bounded * T(0x1.6a09e667f3bcdp-1)));
  return {bounded, {T(0.5) * tail.hi, T(0.5) * tail.lo}, p.hi * T(0x1.9884533d43651p-2), e.k};
}

// ---- functors -----------------------------------------------------------------------------------

struct Erf {
  template <class T> WEFT_FN T operator()(T x) const { return erf(x); }
};
struct Erfc {
  template <class T> WEFT_FN T operator()(T x) const { return erfc(x); }
};
struct Erfinv {
  template <class T> WEFT_FN T operator()(T x) const { return static_cast<T>(erfinv(double(x))); }
};

}  // namespace weft::math
