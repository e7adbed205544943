// The logarithm of the gamma function and its derivatives, in double (float rounds the result).
// These branch: they are used too rarely for vectors to matter.
#pragma once

#include "core/math/trigonometric.h"

namespace weft::math {

// x (log Gamma(2 + x) / x) for |x| <= 1/2.
WEFT_FN double lgamma_near_2(double x) {
  return x * poly(x, 0x1.b0ee6072093cep-2, 0x1.4a34cc4a60fa8p-2, -0x1.13e001a557520p-4, 0x1.51322ac7d6f6cp-6,
                  -0x1.e404fc21ee9f7p-8, 0x1.7add6eb0176e2p-9, -0x1.38ac5bef6dd86p-10, 0x1.0b36ae8ba2158p-11,
                  -0x1.d3fd72e8275dbp-13, 0x1.a12820f5e1d9bp-14, -0x1.78d786acfd128p-15, 0x1.57ff1a32ac7e7p-16,
                  -0x1.3d7252b8b4451p-17, 0x1.26c15947ac281p-18, -0x1.06ca26e170d80p-19, 0x1.e514fb749084fp-21,
                  -0x1.49bba047274c2p-21, 0x1.3b636d7b45982p-22, 0x1.db58c2b592f57p-26);
}

WEFT_FN double lgamma_of_positive(double x) {
  if (x < 0.5) return lgamma_near_2(x) - log_sum(x, 0.0) - log1p(x);
  if (x < 1.5) return lgamma_near_2(x - 1.0) - log1p(x - 1.0);
  if (x < 8.0) {
    double product = 1;
    while (x >= 2.5) {
      x -= 1.0;
      product *= x;
    }
    return lgamma_near_2(x - 2.0) + log(product);
  }
  // Stirling: (x - 1/2) (log x - 1) + log(2 pi) / 2 - 1/2 + 1/(12 x) - ...
  const Pair<double> l = log_pair(x, 0.0);
  const double inverse = 1.0 / x;
  const double series = inverse * poly(inverse * inverse, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188,
                                       -691.0 / 360360, 1.0 / 156, -3617.0 / 122400, 43867.0 / 244188);
  const Pair<double> less_one = two_sum(l.hi, -1.0);
  const Pair<double> main = two_product(x - 0.5, less_one.hi);
  const double rest = fma(x - 0.5, less_one.lo + l.lo, main.lo) + (0x1.acfe390c97d69p-2 + series);
  return main.hi < infinity<double>() ? main.hi + rest : main.hi;
}

WEFT_FN double lgamma(double x) {
  if (x != x) return x;
  const double a = abs(x);
  if (a == infinity<double>()) return a;
  if (x > 0) return lgamma_of_positive(x);
  if (a < 0x1p-60) return a == 0 ? infinity<double>() : -log(a);
  if (a >= 0x1p52) return infinity<double>();  // an integer
  const double sine = abs(sinpi(a));
  if (sine == 0) return infinity<double>();
  // Gamma(x) Gamma(-x) = -pi / (x sin(pi x))
  return log(kPi / (a * sine)) - lgamma_of_positive(a);
}

WEFT_FN double digamma_of_positive(double x) {
  if (x < 0x1p-60) return -1.0 / x;
  // psi(x) = psi(x + 1) - 1/x, in pairs because it cancels around 1.46.
  Pair<double> sum = {0.0, 0.0};
  Pair<double> moved = {x, 0.0};
  for (double step = 1.0; moved.hi < 12.0; step += 1.0) {
    const Pair<double> term = quotient_pair<double>({-1.0, 0.0}, moved);
    const Pair<double> next = two_sum(sum.hi, term.hi);
    sum = {next.hi, sum.lo + (next.lo + term.lo)};
    moved = two_sum(x, step);
  }
  const double inverse = 1.0 / moved.hi;
  const double z = inverse * inverse;
  const double series =
      z * poly(z, -1.0 / 12, 1.0 / 120, -1.0 / 252, 1.0 / 240, -1.0 / 132, 691.0 / 32760, -1.0 / 12, 3617.0 / 8160);
  const Pair<double> l = log_pair(moved.hi, moved.lo);
  const Pair<double> main = two_sum(l.hi, sum.hi);
  return main.hi + (main.lo + (l.lo + sum.lo + (series - 0.5 * inverse)));
}

WEFT_FN double digamma(double x) {
  if (x != x) return x;
  if (x == 0) return copysign(infinity<double>(), -x);
  if (x == infinity<double>()) return x;
  if (x > 0) return digamma_of_positive(x);
  if (rint(x) == x) return nan<double>();  // -infinity as well
  Reduced<double> angle = reduce_half_turns(x);
  angle.quadrant += 1;  // the cotangent is minus the tangent a quarter turn on
  const double cotangent = -kPi * tan_reduced(angle);
  const double a = -x;  // psi(x) = psi(-x) + 1/(-x) - pi / tan(pi x)
  return (a < 0x1p-60 ? 0.0 : digamma_of_positive(a) + 1.0 / a) - cotangent;
}

WEFT_FN double trigamma_of_positive(double x) {
  double sum = 0;
  while (x < 12.0) {
    sum += 1.0 / (x * x);
    x += 1.0;
  }
  const double inverse = 1.0 / x;
  const double z = inverse * inverse;
  const double series =
      poly(z, 1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6, -3617.0 / 510);
  return sum + (inverse + (0.5 * z + z * inverse * series));
}
WEFT_FN double trigamma(double x) {
  if (x != x) return x;
  if (x == infinity<double>()) return 0.0;
  if (x > 0) return trigamma_of_positive(x);
  if (rint(x) == x) return abs(x) < infinity<double>() ? infinity<double>() : nan<double>();
  const double ratio = kPi / sinpi(x);
  // psi'(x) = (pi / sin(pi x))^2 - psi'(1 - x)
  return ratio * ratio - trigamma_of_positive(1.0 - x);
}

// The sum of (a + k)^-s over k >= 0 by the Euler-Maclaurin formula, for an a that is large beside s.
WEFT_FN double power_sum_from(double a, double s) {
  // B(2j) / (2j)!
  constexpr double kBernoulli[] = {
      1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000.0, 1.0 / 74724249600.0};
  const double power = pow(a, -s);
  double rest = power * (a / (s - 1.0) + 0.5);
  double factor = power * s / a;
  for (int j = 0; j < 7; ++j) {
    rest += kBernoulli[j] * factor;
    factor *= (s + 2 * j + 1) * (s + 2 * j + 2) / (a * a);
  }
  return rest;
}

// (-1)^(n + 1) n! times the sum of (x + k)^-(n + 1) over k >= 0, for n >= 1: term by term only where
// the argument is not large beside n, so that no x takes long.
WEFT_FN double polygamma(int n, double x) {
  if (x != x) return x;
  if (x == infinity<double>()) return 0.0;
  if (x == -infinity<double>()) return nan<double>();
  const double sign = (n & 1) != 0 ? 1.0 : -1.0;
  if (x <= 0 && rint(x) == x) return sign * infinity<double>();
  const double s = n + 1.0;
  const double large = 12.0 + s;
  double sum = 0;
  double a = x;
  if (x < -large - 1.0) {
    // The terms from x up to the last one below -large: the same powers, counted from the other end.
    const double last = x + floor(-large - x);
    const double powers = power_sum_from(-last, s) - power_sum_from(1.0 - x, s);
    sum = (n & 1) != 0 ? powers : -powers;
    a = last + 1.0;
  }
  while (a < large) {
    const double term = pow(a, -s);
    sum += term;
    a += 1.0;
    if (a > 1.0 && abs(term) < abs(sum) * 0x1p-60) break;
  }
  const double total = sum + power_sum_from(a, s);
  double result = sign * total;
  for (int k = 2; k <= n && result != 0 && abs(result) < infinity<double>(); ++k) result *= k;
  return result;
}

struct Polygamma {  // the n-th derivative of digamma
  int n;
  template <class T> WEFT_FN T operator()(T x) const { return static_cast<T>(polygamma(n, double(x))); }
};
struct Lgamma {
  template <class T> WEFT_FN T operator()(T x) const { return static_cast<T>(lgamma(double(x))); }
};
struct Digamma {
  template <class T> WEFT_FN T operator()(T x) const { return static_cast<T>(digamma(double(x))); }
};
struct Trigamma {
  template <class T> WEFT_FN T operator()(T x) const { return static_cast<T>(trigamma(double(x))); }
};

}  // namespace weft::math
