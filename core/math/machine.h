// What g++ and NVRTC spell differently, and what the instruction sets lack: bit casts, fma, exact
// rounding. Everything here is exact or correctly rounded by IEEE 754, so any two implementations
// agree to the last bit; the rest of core/math is ordinary arithmetic on top.
#pragma once

#include "core/math/dtype.h"

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
#define WEFT_ON_DEVICE 1
#else
#define WEFT_ON_DEVICE 0
#endif

// A table in constant storage that both host and device code may index.
#if WEFT_ON_DEVICE
#define WEFT_TABLE static __device__ constexpr
#else
#define WEFT_TABLE static constexpr
#endif

namespace weft {

#ifdef __INT64_TYPE__
using Int64 = __INT64_TYPE__;
using UInt64 = __UINT64_TYPE__;
#else
using Int64 = long long;
using UInt64 = unsigned long long;
#endif
using UInt32 = unsigned int;

}  // namespace weft

namespace weft::math {

// ---- bits ---------------------------------------------------------------------------------------

#if WEFT_ON_DEVICE
WEFT_FN UInt32 bits_of(float x) { return __float_as_uint(x); }
WEFT_FN UInt64 bits_of(double x) { return static_cast<UInt64>(__double_as_longlong(x)); }
WEFT_FN float from_bits(UInt32 u) { return __uint_as_float(u); }
WEFT_FN double from_bits(UInt64 u) { return __longlong_as_double(static_cast<long long>(u)); }
#else
WEFT_FN UInt32 bits_of(float x) { return __builtin_bit_cast(UInt32, x); }
WEFT_FN UInt64 bits_of(double x) { return __builtin_bit_cast(UInt64, x); }
WEFT_FN float from_bits(UInt32 u) { return __builtin_bit_cast(float, u); }
WEFT_FN double from_bits(UInt64 u) { return __builtin_bit_cast(double, u); }
#endif

// ---- exact or correctly rounded operations ------------------------------------------------------

WEFT_FN float abs(float x) { return from_bits(bits_of(x) & 0x7fffffffu); }
WEFT_FN double abs(double x) { return from_bits(bits_of(x) & 0x7fffffffffffffffu); }

WEFT_FN float copysign(float x, float sign) {
  return from_bits((bits_of(x) & 0x7fffffffu) | (bits_of(sign) & 0x80000000u));
}
WEFT_FN double copysign(double x, double sign) {
  return from_bits((bits_of(x) & 0x7fffffffffffffffu) | (bits_of(sign) & 0x8000000000000000u));
}

WEFT_FN bool signbit(float x) { return (bits_of(x) >> 31) != 0; }
WEFT_FN bool signbit(double x) { return (bits_of(x) >> 63) != 0; }

#if WEFT_ON_DEVICE
WEFT_FN float sqrt(float x) { return ::sqrtf(x); }
WEFT_FN double sqrt(double x) { return ::sqrt(x); }
WEFT_FN float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
WEFT_FN double fma(double a, double b, double c) { return ::fma(a, b, c); }
WEFT_FN float floor(float x) { return ::floorf(x); }
WEFT_FN double floor(double x) { return ::floor(x); }
WEFT_FN float ceil(float x) { return ::ceilf(x); }
WEFT_FN double ceil(double x) { return ::ceil(x); }
WEFT_FN float trunc(float x) { return ::truncf(x); }
WEFT_FN double trunc(double x) { return ::trunc(x); }
WEFT_FN float rint(float x) { return ::rintf(x); }
WEFT_FN double rint(double x) { return ::rint(x); }
#else
WEFT_FN float sqrt(float x) { return __builtin_sqrtf(x); }
WEFT_FN double sqrt(double x) { return __builtin_sqrt(x); }
#if defined(__FMA__)
WEFT_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
// Without the instruction: the product is exact in double, the sum is rounded to odd (so that the
// second rounding, to float, cannot be misled), and this vectorises where a call of libm would not.
WEFT_FN float fma(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = c;
  const double sum = product + addend;
  const double from_addend = sum - product;
  const double error = (product - (sum - from_addend)) + (addend - from_addend);
  // To odd: towards zero, and then the last bit set where anything was lost. (NaN, the error of an
  // infinite sum, loses nothing.)
  const UInt64 inexact = error < 0 ? 1u : error > 0 ? 1u : 0u;
  const UInt64 too_far = error * sum < 0 ? 1u : 0u;
  return static_cast<float>(from_bits((bits_of(sum) - too_far) | inexact));
}
#endif
WEFT_FN double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#if defined(__SSE4_1__) || !defined(__x86_64__)
WEFT_FN float floor(float x) { return __builtin_floorf(x); }
WEFT_FN double floor(double x) { return __builtin_floor(x); }
WEFT_FN float ceil(float x) { return __builtin_ceilf(x); }
WEFT_FN double ceil(double x) { return __builtin_ceil(x); }
WEFT_FN float trunc(float x) { return __builtin_truncf(x); }
WEFT_FN double trunc(double x) { return __builtin_trunc(x); }
WEFT_FN float rint(float x) { return __builtin_rintf(x); }
WEFT_FN double rint(double x) { return __builtin_rint(x); }
#else
// SSE2 has no rounding instruction. Adding and subtracting 2^(mantissa bits) rounds half to even.
template <class T>
WEFT_FN T rint_by_addition(T x, T two_to_mantissa) {
  const T magnitude = abs(x);
  const T rounded = copysign((magnitude + two_to_mantissa) - two_to_mantissa, x);
  return magnitude < two_to_mantissa ? rounded : x;
}
WEFT_FN float rint(float x) { return rint_by_addition(x, 0x1p23f); }
WEFT_FN double rint(double x) { return rint_by_addition(x, 0x1p52); }
template <class T>
WEFT_FN T floor_from_rint(T x) {
  const T nearest = rint(x);
  return copysign(nearest - (nearest > x ? T(1) : T(0)), x);
}
WEFT_FN float floor(float x) { return floor_from_rint(x); }
WEFT_FN double floor(double x) { return floor_from_rint(x); }
WEFT_FN float ceil(float x) { return -floor_from_rint(-x); }
WEFT_FN double ceil(double x) { return -floor_from_rint(-x); }
WEFT_FN float trunc(float x) { return copysign(floor_from_rint(abs(x)), x); }
WEFT_FN double trunc(double x) { return copysign(floor_from_rint(abs(x)), x); }
#endif
#endif

// The high half of a 64 by 64 bit product.
WEFT_FN UInt64 multiply_high(UInt64 a, UInt64 b) {
#if WEFT_ON_DEVICE
  return __umul64hi(a, b);
#else
  return static_cast<UInt64>((static_cast<unsigned __int128>(a) * b) >> 64);
#endif
}

WEFT_FN int leading_zeros(UInt64 x) {  // of a number that is not 0
#if WEFT_ON_DEVICE
  return __clzll(static_cast<long long>(x));
#else
  return __builtin_clzll(x);
#endif
}

// ---- facts about the types ----------------------------------------------------------------------

template <class T> inline constexpr bool kIsFloat = false;
template <> inline constexpr bool kIsFloat<float> = true;
template <> inline constexpr bool kIsFloat<double> = true;

template <class T> inline constexpr bool kIsBool = false;
template <> inline constexpr bool kIsBool<bool> = true;

template <class T> inline constexpr bool kIsSigned = static_cast<T>(-1) < static_cast<T>(0);

WEFT_FN float infinity_like(float) { return from_bits(0x7f800000u); }
WEFT_FN double infinity_like(double) { return from_bits(UInt64{0x7ff0000000000000u}); }
WEFT_FN float nan_like(float) { return from_bits(0x7fc00000u); }
WEFT_FN double nan_like(double) { return from_bits(UInt64{0x7ff8000000000000u}); }
template <class T> WEFT_FN T infinity() { return infinity_like(T()); }
template <class T> WEFT_FN T nan() { return nan_like(T()); }

template <class T> WEFT_FN bool is_nan(T x) {
  if constexpr (kIsFloat<T>) return x != x;
  else return false;
}
template <class T> WEFT_FN bool is_finite(T x) {
  if constexpr (kIsFloat<T>) return abs(x) < infinity<T>();
  else return true;
}

// Unsigned arithmetic of at least 32 bits wraps where signed arithmetic would be undefined.
template <int bytes> struct WrapOf { using type = UInt32; };
template <> struct WrapOf<8> { using type = UInt64; };
template <class T> using Wrap = typename WrapOf<sizeof(T)>::type;

}  // namespace weft::math
