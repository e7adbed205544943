// Circular functions and their inverses.
//
// Arguments are reduced to [-pi/4, pi/4]: with three parts of pi/2 up to a bound (fast), and beyond
// it with as many digits of 2/pi as the argument needs (slow, all integers; after Payne and Hanek).
#pragma once

#include "core/math/exponential.h"

namespace weft::math {

template <class T> struct Reduced {
  T r, r_lo;
  UInt32 quadrant;  // its two low bits count
};

// ---- reduction ----------------------------------------------------------------------------------

WEFT_FN constexpr float fast_angle_limit(float) { return 0x1p15f; }
WEFT_FN constexpr double fast_angle_limit(double) { return 0x1p26; }

WEFT_FN Reduced<float> reduce_fast(float x) {
  constexpr float kShift = 0x1.8p23f;
  const float shifted = fma(x, 0x1.45f306p-1f, kShift);
  const float n = shifted - kShift;
  const float coarse = fma(-n, 0x1.921fb6p+0f, x);  // exact
  const Pair<float> middle = two_product(n, -0x1.777a5cp-25f);
  const Pair<float> rest = two_sum(coarse, -middle.hi);
  const float r_lo = rest.lo - fma(n, -0x1.ee59dap-50f, middle.lo);
  const Pair<float> r = fast_two_sum(rest.hi, r_lo);
  return {r.hi, r.lo, bits_of(shifted)};
}
WEFT_FN Reduced<double> reduce_fast(double x) {
  constexpr double kShift = 0x1.8p52;
  const double shifted = fma(x, 0x1.45f306dc9c883p-1, kShift);
  const double n = shifted - kShift;
  const double coarse = fma(-n, 0x1.921fb54442d18p+0, x);  // exact
  const Pair<double> middle = two_product(n, 0x1.1a62633145c07p-54);
  const Pair<double> rest = two_sum(coarse, -middle.hi);
  const double r_lo = rest.lo - fma(n, -0x1.f1976b7ed8fbcp-110, middle.lo);
  const Pair<double> r = fast_two_sum(rest.hi, r_lo);
  return {r.hi, r.lo, static_cast<UInt32>(bits_of(shifted))};
}

// The binary digits of 2/pi, after one word of zeros.
WEFT_TABLE UInt64 kTwoOverPi[21] = {
    0,
    0xa2f9836e4e441529u,
    0xfc2757d1f534ddc0u,
    0xdb6295993c439041u,
    0xfe5163abdebbc561u,
    0xb7246e3a424dd2e0u,
    0x06492eea09d1921cu,
    0xfe1deb1cb129a73eu,
    0xe88235f52ebb4484u,
    0xe99c7026b45f7e41u,
    0x3991d639835339f4u,
    0x9c845f8bbdf9283bu,
    0x1ff897ffde05980fu,
    0xef2f118b5a0a6d1fu,
    0x6d367ecf27cb09b7u,
    0x4f463f669e5fea2du,
    0x7527bac7ebe5f17bu,
    0x3d0739f78a5292eau,
    0x6bfb5fb11f8d5d08u,
    0x56033046fc7b6babu,
    0xf0cfbc209af4361du,
};

WEFT_FN UInt64 digits_of_two_over_pi(int first_bit) {  // 64 of them
  const int word = first_bit >> 6, shift = first_bit & 63;
  const UInt64 high = kTwoOverPi[word] << shift;
  return shift == 0 ? high : high | (kTwoOverPi[word + 1] >> (64 - shift));
}

// For finite |x| >= 1. x = mantissa 2^exponent; digits of 2/pi which contribute multiples of 4 to
// the product are left out, the next 192 are used.
WEFT_FN Reduced<double> reduce_slow(double x) {
  const UInt64 bits = bits_of(x);
  const UInt64 mantissa = (bits & 0xfffffffffffffu) | 0x10000000000000u;
  const int exponent = static_cast<int>((bits >> 52) & 0x7ffu) - 1075;
  const int first = exponent - 2 + 64;
  const UInt64 w0 = digits_of_two_over_pi(first);
  const UInt64 w1 = digits_of_two_over_pi(first + 64);
  const UInt64 w2 = digits_of_two_over_pi(first + 128);

  UInt64 p2 = mantissa * w2;
  const UInt64 carry2 = multiply_high(mantissa, w2);
  UInt64 p1 = mantissa * w1 + carry2;
  UInt64 p0 = mantissa * w0 + multiply_high(mantissa, w1) + (p1 < carry2);

  // Two bits of quadrant, then the fraction; fractions above a half count from the next quadrant.
  UInt32 quadrant = static_cast<UInt32>(p0 >> 62);
  p0 = (p0 << 2) | (p1 >> 62);
  p1 = (p1 << 2) | (p2 >> 62);
  p2 = p2 << 2;
  const bool upper = (p0 >> 63) != 0;
  if (upper) {
    quadrant += 1;
    p2 = ~p2 + 1;
    p1 = ~p1 + (p2 == 0);
    p0 = ~p0 + ((p1 == 0) & (p2 == 0));
  }
  int zeros = 0;
  if (p0 == 0) {
    zeros = 64;
    p0 = p1;
    p1 = p2;
    p2 = 0;
  }
  const int shift = leading_zeros(p0 | 1);
  if (shift != 0) {
    p0 = (p0 << shift) | (p1 >> (64 - shift));
    p1 = (p1 << shift) | (p2 >> (64 - shift));
  }
  zeros += shift;
  const double unit = power_of_two(0.0, Int64{-64} - zeros);
  const double hi = static_cast<double>(p0 & ~UInt64{0x7ff}) * unit;
  const UInt64 below = ((p0 & 0x7ffu) << 53) | (p1 >> 11);
  const double lo = static_cast<double>(below) * (unit * 0x1p-53);

  constexpr double kHalfPi = 0x1.921fb54442d18p+0, kHalfPiLo = 0x1.1a62633145c07p-54;
  const Pair<double> r = two_product(hi, kHalfPi);
  const double r_lo = r.lo + fma(hi, kHalfPiLo, lo * kHalfPi);
  const bool flip = upper != (x < 0);
  return {flip ? -r.hi : r.hi, flip ? -r_lo : r_lo, x < 0 ? 0u - quadrant : quadrant};
}

// ---- kernels on [-pi/4, pi/4] -------------------------------------------------------------------

WEFT_FN float sin_kernel(float r, float r_lo) {
  const float z = r * r;
  const float series = poly(z, -0x1.555556p-3f, 0x1.111174p-7f, -0x1.a05956p-13f, 0x1.7c2d48p-19f);
  return r + fma(r * z, series, r_lo);
}
WEFT_FN float cos_kernel(float r, float r_lo) {
  const float z = r * r;
  const float series = poly(z, 0x1.55554ap-5f, -0x1.6c0c1ap-10f, 0x1.99e0ecp-16f);
  const float half = 0.5f * z;
  const float whole = 1.0f - half;
  return whole + (((1.0f - whole) - half) + fma(z * z, series, -r * r_lo));
}
WEFT_FN Pair<double> sin_pair(double r, double r_lo) {
  const double z = r * r;
  const double series =
      poly(z, -0x1.5555555555555p-3, 0x1.1111111111069p-7, -0x1.a01a019ffe51ep-13, 0x1.71de3a33a4a9dp-19,
           -0x1.ae642c50091e6p-26, 0x1.6109bc19b4cfep-33, -0x1.9ffcac13fc6f8p-41);
  return fast_two_sum(r, fma(r * z, series, fma(-0.5 * z, r_lo, r_lo)));
}
WEFT_FN Pair<double> cos_pair(double r, double r_lo) {
  const double z = r * r;
  const double series = poly(z, 0x1.555555555554cp-5, -0x1.6c16c16c15210p-10, 0x1.a01a019cbcd95p-16,
                             -0x1.27e4f81045c68p-22, 0x1.1ee9ef52e1845p-29, -0x1.8fb001a45397fp-37);
  const double half = 0.5 * z;
  const double whole = 1.0 - half;
  return fast_two_sum(whole, ((1.0 - whole) - half) + fma(z * z, series, -r * r_lo));
}
WEFT_FN double sin_kernel(double r, double r_lo) { return sin_pair(r, r_lo).hi; }
WEFT_FN double cos_kernel(double r, double r_lo) { return cos_pair(r, r_lo).hi; }

template <class T> WEFT_FN T sin_reduced(Reduced<T> a) {
  const T s = sin_kernel(a.r, a.r_lo), c = cos_kernel(a.r, a.r_lo);
  const T value = (a.quadrant & 1u) != 0 ? c : s;
  return (a.quadrant & 2u) != 0 ? -value : value;
}
template <class T> WEFT_FN T cos_reduced(Reduced<T> a) {
  a.quadrant += 1;
  return sin_reduced(a);
}
WEFT_FN double tan_reduced(Reduced<double> a) {
  const Pair<double> s = sin_pair(a.r, a.r_lo), c = cos_pair(a.r, a.r_lo);
  const bool odd = (a.quadrant & 1u) != 0;
  return odd ? quotient_rounded<double>({-c.hi, -c.lo}, s) : quotient_rounded(s, c);
}

WEFT_FN Reduced<double> reduce(double x) { return abs(x) < fast_angle_limit(x) ? reduce_fast(x) : reduce_slow(x); }

// Infinity is slow, too; NaN takes either path to NaN.
struct AngleOfAnySize {
  template <class T> static constexpr bool has_slow_path = true;
  template <class T> WEFT_FN static bool is_slow(T x) { return abs(x) >= fast_angle_limit(x); }
};

struct Sin : AngleOfAnySize {
  template <class T> WEFT_FN T fast(T x) const { return x == 0 ? x : sin_reduced(reduce_fast(x)); }
  template <class T> WEFT_FN T slow(T x) const {
    return is_finite(x) ? static_cast<T>(sin_reduced(reduce(x))) : nan<T>();
  }
  template <class T> WEFT_FN T operator()(T x) const { return is_slow(x) ? slow(x) : fast(x); }
};
struct Cos : AngleOfAnySize {
  template <class T> WEFT_FN T fast(T x) const { return cos_reduced(reduce_fast(x)); }
  template <class T> WEFT_FN T slow(T x) const {
    return is_finite(x) ? static_cast<T>(cos_reduced(reduce(x))) : nan<T>();
  }
  template <class T> WEFT_FN T operator()(T x) const { return is_slow(x) ? slow(x) : fast(x); }
};
struct Tan : AngleOfAnySize {
  template <class T> WEFT_FN T fast(T x) const {
    return x == 0 ? x : static_cast<T>(tan_reduced(reduce_fast(static_cast<double>(x))));
  }
  template <class T> WEFT_FN T slow(T x) const {
    return is_finite(x) ? static_cast<T>(tan_reduced(reduce(x))) : nan<T>();
  }
  template <class T> WEFT_FN T operator()(T x) const { return is_slow(x) ? slow(x) : fast(x); }
};

// ---- sine of multiples of pi --------------------------------------------------------------------

WEFT_FN Reduced<double> reduce_half_turns(double x) {  // the angle pi x
  const double n = rint(x + x);
  const double rest = fma(n, -0.5, x);  // exact
  const Pair<double> r = two_product(rest, 0x1.921fb54442d18p+1);
  const double quadrant = n - 4.0 * floor(n * 0.25);
  return {r.hi, fma(rest, 0x1.1a62633145c07p-53, r.lo), static_cast<UInt32>(bits_of(quadrant + 0x1.8p52))};
}
WEFT_FN double sinpi(double x) { return sin_reduced(reduce_half_turns(x)); }

WEFT_FN double sinc(double x) {  // sin(pi x) / (pi x)
  const Pair<double> angle = two_product(x, 0x1.921fb54442d18p+1);
  const double ratio = quotient_rounded<double>({sinpi(x), 0.0}, angle);
  const double a = abs(x);
  const double edges = a < 0x1p-28 ? 1.0 : is_finite(x) ? 0.0 : nan<double>();
  return (a >= 0x1p-28) & (a < 0x1p60) ? ratio : edges;
}
struct Sinc {
  template <class T> WEFT_FN T operator()(T x) const { return static_cast<T>(sinc(double(x))); }
};

// ---- inverses -----------------------------------------------------------------------------------

constexpr double kPi = 0x1.921fb54442d18p+1, kPiLo = 0x1.1a62633145c07p-53;

// atan(n / d) for 0 <= n <= d, not both 0, and n finite.
WEFT_FN Pair<double> atan_ratio(double n, double d) {
  const double q = n / d;
  const double q_lo = d < infinity<double>() ? fma(-q, d, n) / d : 0.0;
  const double z = q * q;
  const double series =
      poly(z, -0x1.5555555555526p-2, 0x1.99999999955b0p-3, -0x1.249249237f461p-3, 0x1.c71c717fcb47fp-4,
           -0x1.745d11ae2c71cp-4, 0x1.3b136696fa82bp-4, -0x1.110e510de1e9dp-4, 0x1.e1bba54b48329p-5,
           -0x1.ae5e6de1a9014p-5, 0x1.82dac7852bc86p-5, -0x1.59a3d60574c4ep-5, 0x1.2c2e0ae2dcc63p-5,
           -0x1.e9f90f530f76fp-6, 0x1.683b9727cbe85p-6, -0x1.c78d96c658eacp-7, 0x1.d7b613511df3ep-8,
           -0x1.7a367c783e234p-9, 0x1.b3f675c427f8ep-11, -0x1.3f329a1965599p-13, 0x1.bbe7c7e697310p-17);
  return {q, fma(q * z, series, q_lo / (1.0 + z))};
}
WEFT_FN double atan(double x) {
  const double a = abs(x);
  const bool steep = a > 1.0;
  const Pair<double> t = atan_ratio(steep ? 1.0 : a, steep ? a : 1.0);
  const Pair<double> turned = two_sum(kPi / 2, -t.hi);
  const double result = steep ? turned.hi + (turned.lo + (kPiLo / 2 - t.lo)) : t.hi + t.lo;
  return copysign(is_nan(x) ? x : result, x);
}
WEFT_FN double atan2(double y, double x) {
  const double a = abs(x), b = abs(y);
  const bool steep = b > a;
  const bool both_infinite = (a == b) & (a == infinity<double>());
  const double small = both_infinite ? 1.0 : steep ? a : b;
  const double large = both_infinite | (b == 0 && a == 0) ? 1.0 : steep ? b : a;
  const Pair<double> t = atan_ratio(small, large);
  // The angle is the multiple of pi/2 nearest to it, plus or minus t.
  const bool behind = signbit(x);
  const double base = steep ? kPi / 2 : behind ? kPi : 0.0;
  const double base_lo = steep ? kPiLo / 2 : behind ? kPiLo : 0.0;
  const double sign = steep != behind ? -1.0 : 1.0;
  const Pair<double> sum = two_sum(base, sign * t.hi);
  const double result = sum.hi + (sum.lo + fma(sign, t.lo, base_lo));
  return is_nan(x) | is_nan(y) ? nan<double>() : copysign(result, y);
}

// asin(s) - s for s^2 = z up to a quarter.
WEFT_FN double asin_tail(double s, double z) {
  return s * z *
         poly(z, 0x1.5555555555577p-3, 0x1.333333332e10ap-4, 0x1.6db6db721550ap-5, 0x1.f1c71a9391331p-6,
              0x1.6e8bdf0d90289p-6, 0x1.1c49ecd0a8700p-6, 0x1.ca1fea08b6f9dp-7, 0x1.75825dd996ed1p-7,
              0x1.614f6357bb257p-7, 0x1.e4ca2beaf9f7bp-9, 0x1.63fba47dffdf3p-6, -0x1.5889b620637bep-6,
              0x1.0b7437bbd3dedp-5);
}
WEFT_FN double asin(double x) {
  const double a = abs(x);
  const bool steep = a > 0.5;
  const double z = steep ? (1.0 - a) * 0.5 : a * a;
  const Pair<double> root = sqrt_pair<double>({z, 0.0});
  const double s = steep ? root.hi : a;
  const double tail = asin_tail(s, z);
  const double turned = kPi / 2 - 2.0 * s;
  const double turned_lo = (kPi / 2 - turned) - 2.0 * s;
  const double near_one = turned + (turned_lo + (kPiLo / 2 - 2.0 * (tail + root.lo)));
  return a <= 1.0 ? copysign(steep ? near_one : s + tail, x) : nan<double>();
}
WEFT_FN double acos(double x) {
  const double a = abs(x);
  const bool steep = a > 0.5;
  const double z = steep ? (1.0 - a) * 0.5 : a * a;
  const Pair<double> root = sqrt_pair<double>({z, 0.0});
  const double s = steep ? root.hi : x;
  const double tail = asin_tail(s, z);
  const double fixed_lo = tail + root.lo;
  const double flat = kPi / 2 - s;
  const double flat_lo = ((kPi / 2 - flat) - s) + (kPiLo / 2 - tail);
  const double back = kPi - 2.0 * s;
  const double back_lo = ((kPi - back) - 2.0 * s) + (kPiLo - 2.0 * fixed_lo);
  const double near_one = x > 0 ? 2.0 * (s + fixed_lo) : back + back_lo;
  return a <= 1.0 ? (steep ? near_one : flat + flat_lo) : nan<double>();
}

struct Asin {
  template <class T> WEFT_FN T operator()(T x) const { return static_cast<T>(asin(double(x))); }
};
struct Acos {
  template <class T> WEFT_FN T operator()(T x) const { return static_cast<T>(acos(double(x))); }
};
struct Atan {
  template <class T> WEFT_FN T operator()(T x) const { return static_cast<T>(atan(double(x))); }
};
struct Atan2 {
  template <class T> WEFT_FN T operator()(T y, T x) const { return static_cast<T>(atan2(double(y), double(x))); }
};

}  // namespace weft::math
