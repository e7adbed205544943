// Exponentials, logarithms and powers.
//
// float has kernels of its own for exp, expm1, log and log1p, which most of a network's time goes
// into; everything else computes in double and rounds. The double logarithm is a pair of numbers
// good to about 2^-66, so that what is built on it (pow, logit, asinh, ...) stays within one unit.
#pragma once

#include "core/math/arithmetic.h"
#include "core/math/polynomial.h"

namespace weft::math {

// ---- exp ----------------------------------------------------------------------------------------

// exp(x) = 2^k (1 + y + y_lo), k as an integer and |y| < 0.42.
template <class T> struct ExpReduced;
template <> struct ExpReduced<float> {
  float y, y_lo;
  int k;
};
template <> struct ExpReduced<double> {
  double y, y_lo;
  Int64 k;
};

// x is clamped to where 2^k is 0 or infinite by a wide margin; NaN goes through.
WEFT_FN float clamp_exponent(float x) {
  const float above = -150.0f > x ? -150.0f : x;
  return 90.0f < above ? 90.0f : above;
}
WEFT_FN double clamp_exponent(double x) {
  const double above = -1400.0 > x ? -1400.0 : x;
  return 720.0 < above ? 720.0 : above;
}

WEFT_FN ExpReduced<float> exp_reduce(float x, float x_lo = 0.0f) {
  constexpr float kShift = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  const float shifted = fma(x, 0x1.715476p+0f, kShift);
  const float n = shifted - kShift;
  const float coarse = fma(-n, 0x1.62e43p-1f, x);  // exact
  const float low = fma(-n, -0x1.05c61p-29f, x_lo);
  const Pair<float> r_pair = fast_two_sum(coarse, low);
  const float r = r_pair.hi;
  const float q = poly(r, 0x1p-1f, 0x1.55552cp-3f, 0x1.555502p-5f, 0x1.11564p-7f, 0x1.6d2d7cp-10f, 0x1.39ca6ep-13f);
  const float tail = fma(r * r, q, r_pair.lo);
  const float y = r + tail;
  return {y, tail - (y - r), static_cast<int>(bits_of(shifted) - 0x4b400000u)};
}

WEFT_FN ExpReduced<double> exp_reduce(double x, double x_lo = 0.0) {
  constexpr double kShift = 0x1.8p52;
  const double shifted = fma(x, 0x1.71547652b82fep+0, kShift);
  const double n = shifted - kShift;
  const double coarse = fma(-n, 0x1.62e42fefa39efp-1, x);  // exact
  const double low = fma(-n, 0x1.abc9e3b39803fp-56, x_lo);
  const Pair<double> r_pair = fast_two_sum(coarse, low);
  const double r = r_pair.hi;
  const double q = poly(r, 0x1p-1, 0x1.555555555555dp-3, 0x1.555555555556bp-5, 0x1.111111110e589p-7,
                        0x1.6c16c16c0b4f5p-10, 0x1.a01a01b5c68fcp-13, 0x1.a01a01df77426p-16, 0x1.71ddeb431b801p-19,
                        0x1.27e465f387ff3p-22, 0x1.af731fc69db88p-26, 0x1.201c174ddcd69p-29);
  const double tail = fma(r * r, q, r_pair.lo);
  const double y = r + tail;
  return {y, tail - (y - r), static_cast<Int64>(bits_of(shifted) - 0x4338000000000000u)};
}

// p 2^k in two steps, so that overflow and subnormal results round once.
template <class T, class Int> WEFT_FN T scale_in_two(T p, Int k) {
  const Int half = k >> 1;
  return p * power_of_two(T(), half) * power_of_two(T(), k - half);
}

template <class T> WEFT_FN T exp_sum(T x, T x_lo) {  // exp(x + x_lo) for a tiny x_lo
  const auto e = exp_reduce(clamp_exponent(x), x_lo);
  return scale_in_two(T(1) + e.y, e.k);
}
template <class T> WEFT_FN T exp(T x) { return exp_sum(x, T(0)); }

// 1 + y as a pair.
template <class T> WEFT_FN Pair<T> exp_mantissa(ExpReduced<T> e) {
  const Pair<T> p = fast_two_sum(T(1), e.y);
  return {p.hi, p.lo + e.y_lo};
}

template <class T> WEFT_FN T expm1(T x) {
  constexpr T kOverflow = sizeof(T) == 4 ? T(89) : T(710);
  const T above = T(-50) > x ? T(-50) : x;
  const auto e = exp_reduce(kOverflow < above ? kOverflow : above);
  // Half of 2^k, which itself may be out of range.
  const T half_scale = power_of_two(T(), e.k - 1);
  const Pair<T> sum = two_sum(half_scale - T(0.5), half_scale * e.y);
  const T result = T(2) * (sum.hi + fma(half_scale, e.y_lo, sum.lo));
  return abs(x) < T(0x1p-60) ? x : result;
}

WEFT_FN double exp2(double x) {
  const double above = -1100.0 > x ? -1100.0 : x;
  const double bounded = 1100.0 < above ? 1100.0 : above;
  const double n = rint(bounded);
  const double r = bounded - n;
  const Pair<double> t = two_product(r, 0x1.62e42fefa39efp-1);
  const auto e = exp_reduce(t.hi, fma(r, 0x1.abc9e3b39803fp-56, t.lo));
  const Int64 k = e.k + static_cast<Int64>(bits_of(n + 0x1.8p52) - 0x4338000000000000u);
  return scale_in_two(1.0 + e.y, k);
}

// ---- log ----------------------------------------------------------------------------------------

// A positive number as 2^k m with m in [2/3, 4/3), so that k is 0 around 1.
template <class T> struct LogReduced;
template <> struct LogReduced<float> { float m, k, two_to_minus_k; };
template <> struct LogReduced<double> { double m, k, two_to_minus_k; };

WEFT_FN LogReduced<float> log_reduce(float x) {
  const bool subnormal = x < 0x1p-126f;
  const UInt32 bits = bits_of(subnormal ? x * 0x1p23f : x);
  const UInt32 exponent = (bits - 0x3f2aaaabu) & 0xff800000u;
  const float k = static_cast<float>(static_cast<int>(exponent) >> 23) - (subnormal ? 23.0f : 0.0f);
  const float inverse = from_bits(0x3f800000u - exponent);
  return {from_bits(bits - exponent), k, abs(k) < 100.0f ? inverse : 0.0f};
}
WEFT_FN LogReduced<double> log_reduce(double x) {
  const bool subnormal = x < 0x1p-1022;
  const UInt64 bits = bits_of(subnormal ? x * 0x1p52 : x);
  const UInt64 exponent = (bits - 0x3fe5555555555555u) & 0xfff0000000000000u;
  // The exponent as a double without an integer conversion, which AVX2 lacks: into the mantissa of
  // 1.5 2^52, from where it is subtracted again.
  const UInt64 biased = (exponent >> 52) ^ 0x800u;  // k + 2048 in twelve bits
  const double k_subnormal = subnormal ? 52.0 : 0.0;
  const double k = from_bits(biased | 0x4338000000000000u) - (0x1.8p52 + 2048.0) - k_subnormal;
  const double inverse = from_bits(0x3ff0000000000000u - exponent);
  return {from_bits(bits - exponent), k, abs(k) < 1000.0 ? inverse : 0.0};
}

// The logarithm of what is not a positive finite number.
template <class T> WEFT_FN T log_edges(T x, T result) {
  result = x == infinity<T>() ? x : result;
  result = x == 0 ? -infinity<T>() : result;
  return (x < 0) | is_nan(x) ? nan<T>() : result;
}

WEFT_FN float log_sum(float x, float x_lo) {  // log(x + x_lo), x_lo below x's last place
  const LogReduced<float> a = log_reduce(x);
  const float f = (a.m - 1.0f) + x_lo * a.two_to_minus_k;
  const float p = poly(f, 0x1.555506p-2f, -0x1.fffedep-3f, 0x1.99d088p-3f, -0x1.55a196p-3f, 0x1.1ecf84p-3f,
                       -0x1.f299e6p-4f, 0x1.1e91dap-3f, -0x1.092734p-3f);
  const float square = f * f;
  const float tail = fma(square, fma(f, p, -0.5f), a.k * -0x1.05c61p-29f);
  const float whole = fma(a.k, 0x1.62e43p-1f, f);
  const float lost = fma(a.k, 0x1.62e43p-1f, -whole) + f;
  return log_edges(x, whole + (tail + lost));
}
WEFT_FN float log(float x) { return log_sum(x, 0.0f); }

// log(x + x_lo) for positive finite x, to about 2^-66.
WEFT_FN Pair<double> log_pair(double x, double x_lo) {
  const LogReduced<double> a = log_reduce(x);
  // log(m) = 2 atanh(s), s = f / (2 + f) and f = m - 1
  const Pair<double> f = two_sum(a.m - 1.0, x_lo * a.two_to_minus_k);
  const double d = 2.0 + f.hi;
  const double d_lo = (f.hi - (d - 2.0)) + f.lo;
  const double inverse = 1.0 / d;
  const double s = f.hi * inverse;
  const double s_lo = (fma(-s, d, f.hi) + fma(-s, d_lo, f.lo)) * inverse;
  const double z = s * s;
  const double z_lo = fma(s, s, -z) + 2.0 * s * s_lo;
  const double series = z * z *
                        poly(z, 0x1.999999999999ap-3, 0x1.2492492492358p-3, 0x1.c71c71c747f7fp-4, 0x1.745d172d4dcacp-4,
                             0x1.3b13b940374e5p-4, 0x1.110f73a954a48p-4, 0x1.e249ba1523568p-5, 0x1.a741f08941b99p-5,
                             0x1.da6694e5c0681p-5);
  constexpr double kThird = 0x1.5555555555555p-2, kThirdLo = 0x1.5555555555555p-56;
  const double third = z * kThird;
  const double third_lo = fma(z, kThird, -third) + fma(z, kThirdLo, z_lo * kThird);
  const Pair<double> w = fast_two_sum(third, series);
  const double w_lo = w.lo + third_lo;
  const double sw = s * w.hi;
  const double sw_lo = fma(s, w.hi, -sw) + fma(s, w_lo, s_lo * w.hi);
  const Pair<double> half = fast_two_sum(s, sw);
  const double half_lo = half.lo + (s_lo + sw_lo);
  // 42 bits of ln 2 times k are exact.
  const Pair<double> sum = fast_two_sum(a.k * 0x1.62e42fefa38p-1, 2.0 * half.hi);
  return fast_two_sum(sum.hi, sum.lo + fma(a.k, 0x1.ef35793c7673p-45, 2.0 * half_lo));
}

WEFT_FN double log_sum(double x, double x_lo) { return log_edges(x, log_pair(x, x_lo).hi); }
WEFT_FN double log(double x) { return log_sum(x, 0.0); }

// log(x + x_lo) times a constant given as a pair.
WEFT_FN double log_times(double x, double x_lo, Pair<double> factor) {
  const Pair<double> p = log_pair(x, x_lo);
  const double product = p.hi * factor.hi;
  const double rest = fma(p.hi, factor.hi, -product) + fma(p.hi, factor.lo, p.lo * factor.hi);
  return log_edges(x, product + rest);
}
WEFT_FN double log2(double x) { return log_times(x, 0.0, {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56}); }
WEFT_FN double log10(double x) { return log_times(x, 0.0, {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57}); }

template <class T> WEFT_FN T log1p(T x) {
  const Pair<T> sum = two_sum(T(1), x);
  const T result = log_sum(sum.hi, is_finite(x) ? sum.lo : T(0));
  return abs(x) < T(0x1p-60) ? x : result;
}

// log(x / (1 - x))
WEFT_FN double logit(double x) {
  const double rest = 1.0 - x;
  const Pair<double> odds = quotient_pair<double>({x, 0.0}, {rest, (1.0 - rest) - x});
  return log_sum(odds.hi, is_finite(odds.hi) ? odds.lo : 0.0);
}

// ---- powers -------------------------------------------------------------------------------------

WEFT_FN double pow(double x, double y) {
  const double magnitude = abs(x);
  const Pair<double> l = log_pair(magnitude, 0.0);
  const bool extreme = !((magnitude > 0) & (magnitude < infinity<double>()));
  const double hi = extreme ? log_edges(magnitude, l.hi) : l.hi;
  const Pair<double> product = two_product(y, hi);
  const bool beyond = abs(product.hi) > 800.0;
  const double rest = beyond | extreme ? 0.0 : fma(y, l.lo, product.lo);
  const double power = exp_sum(product.hi, rest);

  const bool whole = rint(y) == y;
  const bool odd = whole & (rint(y * 0.5) != y * 0.5);
  double result = odd ? copysign(power, x) : power;
  const bool negative_base = (x < 0) & (magnitude != infinity<double>());
  result = negative_base & !whole ? nan<double>() : result;
  result = (magnitude == 1.0) & (abs(y) == infinity<double>()) ? 1.0 : result;
  return (x == 1.0) | (y == 0) ? 1.0 : result;
}

WEFT_FN double hypot(double a, double b) {
  const double x = abs(a), y = abs(b);
  const double large = x > y ? x : y, small = x > y ? y : x;
  const double scale = large > 0x1p500 ? 0x1p-600 : small < 0x1p-450 ? 0x1p700 : 1.0;
  // A scale for a tiny number would overflow a large one, beside which it does not count.
  const bool negligible = small < large * 0x1p-60;
  const double p = large * scale, q = small * scale;
  const double root = sqrt(fma(p, p, q * q));
  const double result = negligible ? large + small : root / scale;
  const bool infinite = (x == infinity<double>()) | (y == infinity<double>());
  return infinite ? infinity<double>() : a + b != a + b ? a + b : result;
}

// ---- functors -----------------------------------------------------------------------------------

struct Exp {
  template <class T> WEFT_FN T operator()(T x) const { return exp(x); }
};
struct Exp2 {
  template <class T> WEFT_FN T operator()(T x) const { return static_cast<T>(exp2(double(x))); }
};
struct Expm1 {
  template <class T> WEFT_FN T operator()(T x) const { return expm1(x); }
};
struct Log {
  template <class T> WEFT_FN T operator()(T x) const { return log(x); }
};
struct Log2 {
  template <class T> WEFT_FN T operator()(T x) const { return static_cast<T>(log2(double(x))); }
};
struct Log10 {
  template <class T> WEFT_FN T operator()(T x) const { return static_cast<T>(log10(double(x))); }
};
struct Log1p {
  template <class T> WEFT_FN T operator()(T x) const { return log1p(x); }
};
struct Pow {
  template <class T> WEFT_FN T operator()(T x, T y) const {
    if constexpr (kIsFloat<T>) return static_cast<T>(pow(double(x), double(y)));
    else return integer_power(x, y);
  }
};
struct Hypot {
  template <class T> WEFT_FN T operator()(T a, T b) const { return static_cast<T>(hypot(double(a), double(b))); }
};

// log(exp(a) + exp(b)) and the same in base 2.
struct Logaddexp {
  template <class T> WEFT_FN T operator()(T a, T b) const {
    const T larger = a > b ? a : b;
    const T result = larger + log1p(exp(-abs(a - b)));
    const bool equal_infinities = (a == b) & !is_finite(a);
    return equal_infinities ? a : is_nan(a) | is_nan(b) ? nan<T>() : result;
  }
};
struct Logaddexp2 {
  template <class T> WEFT_FN T operator()(T a, T b) const {
    const double larger = a > b ? a : b;
    const double ratio = exp2(-abs(double(a) - double(b)));
    const Pair<double> sum = two_sum(1.0, ratio);
    const double fraction = log_times(sum.hi, sum.lo, {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56});
    const T result = static_cast<T>(larger + fraction);
    const bool equal_infinities = (a == b) & !is_finite(a);
    return equal_infinities ? a : is_nan(a) | is_nan(b) ? nan<T>() : result;
  }
};
struct Xlogy {
  template <class T> WEFT_FN T operator()(T x, T y) const {
    const T product = x == 0 ? T(0) : x * log(y);
    return is_nan(y) ? nan<T>() : product;
  }
};

struct Logit {
  double eps;  // the argument is clamped to [eps, 1 - eps]; not at all where eps is negative
  template <class T> WEFT_FN T operator()(T x) const {
    const T low = static_cast<T>(eps), high = T(1) - low;
    const T clamped = x < low ? low : x > high ? high : x;
    return static_cast<T>(logit(double(low < 0 ? x : clamped)));
  }
};

}  // namespace weft::math
