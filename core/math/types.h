// Storage types of the element types, and every conversion between them, defined for every value.
//
// A conversion that C++ leaves undefined (a float that does not fit the integer) gives what PyTorch
// gives on x86: to int64 and int32 the smallest integer; to the narrower types the low bits of the
// conversion to int32 (int8, int16) or to int64 (uint8, so that negative numbers wrap).
#pragma once

#include "core/math/machine.h"

namespace weft {

struct Half { unsigned short bits; };
struct BFloat16 { unsigned short bits; };
struct Complex64 { float re, im; };
struct Complex128 { double re, im; };

// TypeOf<DType::Int32>::type is int.
template <DType t> struct TypeOf;
template <> struct TypeOf<DType::Bool> { using type = bool; };
template <> struct TypeOf<DType::UInt8> { using type = unsigned char; };
template <> struct TypeOf<DType::Int8> { using type = signed char; };
template <> struct TypeOf<DType::Int16> { using type = short; };
template <> struct TypeOf<DType::Int32> { using type = int; };
template <> struct TypeOf<DType::Int64> { using type = Int64; };
template <> struct TypeOf<DType::Float16> { using type = Half; };
template <> struct TypeOf<DType::BFloat16> { using type = BFloat16; };
template <> struct TypeOf<DType::Float32> { using type = float; };
template <> struct TypeOf<DType::Float64> { using type = double; };
template <> struct TypeOf<DType::Complex64> { using type = Complex64; };
template <> struct TypeOf<DType::Complex128> { using type = Complex128; };

}  // namespace weft

namespace weft::math {

// ---- float16 and bfloat16, rounding half to even ------------------------------------------------

WEFT_FN float half_to_float(Half h) {
  // Read as a float whose exponent is too small by 112; one exact multiplication repairs it,
  // subnormal halves included.
  const UInt32 magnitude = h.bits & 0x7fffu;
  const float scaled = from_bits(magnitude << 13) * 0x1p112f;
  const UInt32 special = (magnitude << 13) | 0x7f800000u;  // infinity, NaN
  const UInt32 bits = magnitude >= 0x7c00u ? special : bits_of(scaled);
  return from_bits(bits | (static_cast<UInt32>(h.bits & 0x8000u) << 16));
}

WEFT_FN Half float_to_half(float x) {
  const UInt32 sign = (bits_of(x) >> 16) & 0x8000u;
  const UInt32 magnitude = bits_of(x) & 0x7fffffffu;
  // Normal halves: round the mantissa to 10 bits and shift the exponent by 112.
  const UInt32 normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Subnormal halves: adding 0.5 leaves the units of 2^-24 in the low bits, rounded.
  const UInt32 subnormal = bits_of(from_bits(magnitude) + 0.5f) - 0x3f000000u;
  UInt32 bits = magnitude < 0x38800000u ? subnormal : normal;
  bits = magnitude >= 0x47800000u ? 0x7c00u : bits;  // 65536 and up; 65520 rounds up by itself
  bits = magnitude > 0x7f800000u ? 0x7e00u : bits;
  return Half{static_cast<unsigned short>(bits | sign)};
}

WEFT_FN float bfloat16_to_float(BFloat16 b) { return from_bits(static_cast<UInt32>(b.bits) << 16); }

WEFT_FN BFloat16 float_to_bfloat16(float x) {
  const UInt32 u = bits_of(x);
  const UInt32 rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const UInt32 bits = (u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded;
  return BFloat16{static_cast<unsigned short>(bits)};
}

// ---- float to integer ---------------------------------------------------------------------------

template <class F> WEFT_FN int float_to_int32(F x) {
  const bool fits = (x > F(-2147483649.0)) & (x < F(2147483648.0));
  // float has no -2147483649: there the bound is -2147483648 itself, which is the answer anyway.
  const int converted = static_cast<int>(fits ? x : F(0));
  return fits ? converted : -2147483647 - 1;
}

template <class F> WEFT_FN Int64 float_to_int64(F x) {
  const bool fits = (x > F(-0x1p63)) & (x < F(0x1p63));
  const Int64 converted = static_cast<Int64>(fits ? x : F(0));
  return fits ? converted : static_cast<Int64>(UInt64{1} << 63);
}

// ---- all conversions ----------------------------------------------------------------------------

// The float or integer that a stored value is computed with: float for the 16 bit floats.
WEFT_FN float widen(Half x) { return half_to_float(x); }
WEFT_FN float widen(BFloat16 x) { return bfloat16_to_float(x); }
WEFT_FN float widen(Complex64 x) { return x.re; }
WEFT_FN double widen(Complex128 x) { return x.re; }
template <class T> WEFT_FN T widen(T x) { return x; }

template <class T> inline constexpr bool kIsComplex = false;
template <> inline constexpr bool kIsComplex<Complex64> = true;
template <> inline constexpr bool kIsComplex<Complex128> = true;

// Makes a To from a bool, an integer, a float or a double.
template <class To> struct Narrow {
  template <class T> WEFT_FN static To from(T x) {
    if constexpr (kIsFloat<T> && !kIsFloat<To>) {
      if constexpr (sizeof(To) == 8) return float_to_int64(x);
      else if constexpr (kIsSigned<To>) return static_cast<To>(float_to_int32(x));
      else return static_cast<To>(float_to_int64(x));
    } else {
      return static_cast<To>(x);
    }
  }
};
template <> struct Narrow<bool> {
  template <class T> WEFT_FN static bool from(T x) { return x != T(0); }
};
template <> struct Narrow<Half> {
  template <class T> WEFT_FN static Half from(T x) { return float_to_half(static_cast<float>(x)); }
};
template <> struct Narrow<BFloat16> {
  template <class T> WEFT_FN static BFloat16 from(T x) { return float_to_bfloat16(static_cast<float>(x)); }
};
template <> struct Narrow<Complex64> {
  template <class T> WEFT_FN static Complex64 from(T x) { return {static_cast<float>(x), 0.0f}; }
};
template <> struct Narrow<Complex128> {
  template <class T> WEFT_FN static Complex128 from(T x) { return {static_cast<double>(x), 0.0}; }
};

template <class To, class From> WEFT_FN To cast(From x) {
  if constexpr (kIsComplex<From> && kIsComplex<To>) {
    return {static_cast<decltype(To::re)>(x.re), static_cast<decltype(To::im)>(x.im)};
  } else if constexpr (kIsComplex<From> && kIsBool<To>) {
    return (x.re != 0) | (x.im != 0);
  } else {
    return Narrow<To>::from(widen(x));
  }
}

}  // namespace weft::math
