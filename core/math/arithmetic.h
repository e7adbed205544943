// Arithmetic on numbers: what integers and floats share, and the exact operations on floats.
// Integers wrap; dividing one by zero gives 0 (the caller reports it).
#pragma once

#include "core/math/types.h"

namespace weft::math {

// ---- wrapping integer arithmetic ----------------------------------------------------------------

template <class T> WEFT_FN T plus(T a, T b) {
  if constexpr (kIsFloat<T>) return a + b;
  else if constexpr (kIsBool<T>) return a | b;
  else return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
}
template <class T> WEFT_FN T minus(T a, T b) {
  if constexpr (kIsFloat<T>) return a - b;
  else return static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(b));
}
template <class T> WEFT_FN T times(T a, T b) {
  if constexpr (kIsFloat<T>) return a * b;
  else if constexpr (kIsBool<T>) return a & b;
  else return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
}
template <class T> WEFT_FN T negated(T x) {
  if constexpr (kIsFloat<T>) return -x;
  else return static_cast<T>(Wrap<T>{0} - static_cast<Wrap<T>>(x));
}

// Quotient towards zero.
template <class T> WEFT_FN T integer_quotient(T a, T b) {
  const bool undefined = (b == 0) | (kIsSigned<T> && b == static_cast<T>(-1));
  const T quotient = static_cast<T>(a / (undefined ? T(1) : b));
  return b == 0 ? T(0) : undefined ? negated(a) : quotient;
}
// What integer_quotient leaves, with the sign of a.
template <class T> WEFT_FN T integer_rest(T a, T b) {
  const bool no_rest = (b == 0) | (kIsSigned<T> && b == static_cast<T>(-1));
  return static_cast<T>(a % (no_rest ? T(1) : b));
}

// ---- floating remainder -------------------------------------------------------------------------

// Exact while the quotient is small: a - q b is then representable, and q is at most one too large.
template <class T> WEFT_FN T float_rest_fast(T a, T b) {
  const T magnitude = abs(b);
  const T quotient = trunc(abs(a) / magnitude);
  const T rest = fma(-quotient, magnitude, abs(a));
  const T corrected = rest < 0 ? rest + magnitude : rest;
  const T result = (magnitude == infinity<T>()) & is_finite(a) ? abs(a) : corrected;
  return copysign(result, a);
}
// Quotients from here on need float_rest_long.
WEFT_FN bool float_rest_is_long(float a, float b) { return (abs(a) >= abs(b) * 0x1p22f) & is_finite(a) & (b != 0); }
WEFT_FN bool float_rest_is_long(double a, double b) { return (abs(a) >= abs(b) * 0x1p51) & is_finite(a) & (b != 0); }
// |a| = m 2^e with an integer m.
WEFT_FN void split_integer(double magnitude, UInt64* mantissa, int* exponent) {
  const UInt64 bits = bits_of(magnitude);
  const int biased = static_cast<int>(bits >> 52);
  const UInt64 fraction = bits & 0xfffffffffffffu;
  *mantissa = biased ? fraction | 0x10000000000000u : fraction;
  *exponent = biased ? biased : 1;
}
// Long division, eleven bits at a time (53 bit rests leave that much room).
WEFT_FN double float_rest_long(double a, double b) {
  UInt64 rest, divisor;
  int exponent, divisor_exponent;
  split_integer(abs(a), &rest, &exponent);
  split_integer(abs(b), &divisor, &divisor_exponent);
  rest %= divisor;
  for (int left = exponent - divisor_exponent; left > 0; left -= 11) {
    rest = (rest << (left < 11 ? left : 11)) % divisor;
  }
  // rest < 2^53 in units of b's last place: put it back without rounding.
  UInt64 bits = 0;
  if (rest != 0) {
    int shift = leading_zeros(rest) - 11;
    if (shift >= divisor_exponent) shift = divisor_exponent - 1;
    const UInt64 mantissa = rest << shift;
    const UInt64 biased = mantissa >> 52 ? static_cast<UInt64>(divisor_exponent - shift) : 0;
    bits = (biased << 52) | (mantissa & 0xfffffffffffffu);
  }
  return copysign(from_bits(bits), a);
}
WEFT_FN float float_rest_long(float a, float b) {
  return static_cast<float>(float_rest_long(static_cast<double>(a), static_cast<double>(b)));
}

// The remainder with the sign of b, from the one with the sign of a.
template <class T> WEFT_FN T towards_divisor(T rest, T b) {
  const bool move = (rest != 0) & ((rest < 0) != (b < 0));
  return move ? static_cast<T>(rest + b) : rest;
}

// The floor of a / b, consistent with the remainder: (a - remainder) / b is nearly an integer.
template <class T> WEFT_FN T floor_quotient(T a, T b, T rest) {
  const bool move = (rest != 0) & ((rest < 0) != (b < 0));
  const T quotient = (a - rest) / b - (move ? T(1) : T(0));
  const T below = floor(quotient);
  const T whole = quotient - below > T(0.5) ? below + T(1) : below;
  const T plain = a / b;
  return b == 0 ? plain : quotient != 0 ? whole : copysign(T(0), plain);
}

// Functors on two floats which rest on the remainder: fast for all, exact for long quotients.
struct LongQuotient {
  template <class T> static constexpr bool has_slow_path = kIsFloat<T>;
  template <class T> WEFT_FN static bool is_slow(T a, T b) { return float_rest_is_long(a, b); }
};

struct Fmod : LongQuotient {
  template <class T> WEFT_FN T fast(T a, T b) const { return float_rest_fast(a, b); }
  template <class T> WEFT_FN T slow(T a, T b) const { return float_rest_long(a, b); }
  template <class T> WEFT_FN T operator()(T a, T b) const {
    if constexpr (kIsFloat<T>) return is_slow(a, b) ? slow(a, b) : fast(a, b);
    else return integer_rest(a, b);
  }
};
struct Remainder : LongQuotient {
  template <class T> WEFT_FN T fast(T a, T b) const { return towards_divisor(float_rest_fast(a, b), b); }
  template <class T> WEFT_FN T slow(T a, T b) const { return towards_divisor(float_rest_long(a, b), b); }
  template <class T> WEFT_FN T operator()(T a, T b) const {
    if constexpr (kIsFloat<T>) return is_slow(a, b) ? slow(a, b) : fast(a, b);
    else return towards_divisor(integer_rest(a, b), b);
  }
};
struct DivFloor : LongQuotient {
  template <class T> WEFT_FN T fast(T a, T b) const { return floor_quotient(a, b, float_rest_fast(a, b)); }
  template <class T> WEFT_FN T slow(T a, T b) const { return floor_quotient(a, b, float_rest_long(a, b)); }
  template <class T> WEFT_FN T operator()(T a, T b) const {
    if constexpr (kIsFloat<T>) {
      return is_slow(a, b) ? slow(a, b) : fast(a, b);
    } else {
      const T rest = integer_rest(a, b);
      const bool move = (rest != 0) & ((rest < 0) != (b < 0));
      return minus(integer_quotient(a, b), static_cast<T>(move));
    }
  }
};
struct DivTrunc {
  template <class T> WEFT_FN T operator()(T a, T b) const {
    if constexpr (kIsFloat<T>) return trunc(a / b);
    else return integer_quotient(a, b);
  }
};

// ---- one operand --------------------------------------------------------------------------------

struct Abs {
  template <class T> WEFT_FN T operator()(T x) const {
    if constexpr (kIsFloat<T>) return abs(x);
    else return x < 0 ? negated(x) : x;
  }
};
struct Neg {
  template <class T> WEFT_FN T operator()(T x) const { return negated(x); }
};
struct Sign {
  template <class T> WEFT_FN T operator()(T x) const {
    if constexpr (kIsBool<T>) return x;
    else return static_cast<T>((x > 0) - (x < 0));
  }
};
struct Square {
  template <class T> WEFT_FN T operator()(T x) const { return times(x, x); }
};
struct Reciprocal {
  template <class T> WEFT_FN T operator()(T x) const { return T(1) / x; }
};
struct Sqrt {
  template <class T> WEFT_FN T operator()(T x) const { return sqrt(x); }
};
struct Rsqrt {
  template <class T> WEFT_FN T operator()(T x) const { return T(1) / sqrt(x); }
};

// ---- two operands -------------------------------------------------------------------------------

struct Add {
  template <class T> WEFT_FN T operator()(T a, T b) const { return plus(a, b); }
};
struct Sub {
  template <class T> WEFT_FN T operator()(T a, T b) const { return minus(a, b); }
};
struct Mul {
  template <class T> WEFT_FN T operator()(T a, T b) const { return times(a, b); }
};
struct Div {
  template <class T> WEFT_FN T operator()(T a, T b) const { return a / b; }
};

// A scalar attribute which floats read as a double and integers as an integer.
struct Scalar {
  double real;
  Int64 integer;
  template <class T> WEFT_FN T as() const {
    if constexpr (kIsFloat<T>) return static_cast<T>(real);
    else if constexpr (kIsBool<T>) return integer != 0;
    else return static_cast<T>(integer);
  }
};

struct AddScaled {  // a + alpha b
  Scalar alpha;
  template <class T> WEFT_FN T operator()(T a, T b) const {
    if constexpr (kIsFloat<T>) return fma(alpha.as<T>(), b, a);
    else return plus(a, times(alpha.as<T>(), b));
  }
};

struct Maximum {  // NaN wins
  template <class T> WEFT_FN T operator()(T a, T b) const { return (a > b) | is_nan(a) ? a : b; }
};
struct Minimum {
  template <class T> WEFT_FN T operator()(T a, T b) const { return (a < b) | is_nan(a) ? a : b; }
};
struct Fmax {  // numbers win
  template <class T> WEFT_FN T operator()(T a, T b) const { return (a >= b) | is_nan(b) ? a : b; }
};
struct Fmin {
  template <class T> WEFT_FN T operator()(T a, T b) const { return (a <= b) | is_nan(b) ? a : b; }
};
struct Copysign {
  template <class T> WEFT_FN T operator()(T a, T b) const { return copysign(a, b); }
};
struct Heaviside {
  template <class T> WEFT_FN T operator()(T a, T b) const { return a == T(0) ? b : static_cast<T>(a > T(0)); }
};
struct Nextafter {
  template <class T> WEFT_FN T operator()(T a, T b) const {
    using Bits = decltype(bits_of(a));
    const Bits bits = bits_of(a);
    const Bits step = (a < b) == (a > 0) ? Bits{1} : ~Bits{0};
    const Bits sign = bits_of(b) & ~(~Bits{0} >> 1);
    const T moved = from_bits(a == 0 ? sign | Bits{1} : bits + step);
    return is_nan(a) | is_nan(b) ? nan<T>() : a == b ? b : moved;
  }
};

// ---- integers only ------------------------------------------------------------------------------

template <class T> WEFT_FN Wrap<T> unsigned_magnitude(T x) {
  const auto u = static_cast<Wrap<T>>(x);
  return x < 0 ? Wrap<T>{0} - u : u;
}
struct Gcd {
  template <class T> WEFT_FN T operator()(T a, T b) const {
    Wrap<T> large = unsigned_magnitude(a), small = unsigned_magnitude(b);
    while (small != 0) {
      const Wrap<T> rest = large % small;
      large = small;
      small = rest;
    }
    return static_cast<T>(large);
  }
};
struct Lcm {
  template <class T> WEFT_FN T operator()(T a, T b) const {
    const Wrap<T> divisor = unsigned_magnitude(Gcd{}(a, b));
    const Wrap<T> reduced = unsigned_magnitude(a) / (divisor == 0 ? Wrap<T>{1} : divisor);
    const Wrap<T> multiple = reduced * unsigned_magnitude(b);
    // What overflowed keeps PyTorch's sign: never negative in 32 and 64 bits, cut off below.
    if constexpr (sizeof(T) >= 4) return Abs{}(static_cast<T>(multiple));
    else return static_cast<T>(multiple);
  }
};
template <class T> WEFT_FN T integer_power(T base, T exponent) {
  if (exponent < 0) {  // only 1 and -1 have an integer inverse
    if (base == T(1)) return T(1);
    if (base == static_cast<T>(-1)) return (exponent & 1) != 0 ? base : T(1);
    return T(0);
  }
  T result = 1;
  while (exponent != 0) {
    if ((exponent & 1) != 0) result = times(result, base);
    base = times(base, base);
    exponent = static_cast<T>(exponent >> 1);
  }
  return result;
}

struct BitwiseNot {
  template <class T> WEFT_FN T operator()(T x) const {
    if constexpr (kIsBool<T>) return !x;
    else return static_cast<T>(~x);
  }
};
struct BitwiseAnd {
  template <class T> WEFT_FN T operator()(T a, T b) const { return static_cast<T>(a & b); }
};
struct BitwiseOr {
  template <class T> WEFT_FN T operator()(T a, T b) const { return static_cast<T>(a | b); }
};
struct BitwiseXor {
  template <class T> WEFT_FN T operator()(T a, T b) const { return static_cast<T>(a ^ b); }
};
// Shifts by a negative number or by the width and more: everything is shifted out.
struct ShiftLeft {
  template <class T> WEFT_FN T operator()(T a, T b) const {
    constexpr int width = sizeof(T) * 8;
    const bool out = (b < 0) | (b >= width);
    const T shifted = static_cast<T>(static_cast<Wrap<T>>(a) << (out ? T(0) : b));
    return out ? T(0) : shifted;
  }
};
struct ShiftRight {
  template <class T> WEFT_FN T operator()(T a, T b) const {
    constexpr int last = sizeof(T) * 8 - 1;
    const bool out = (b < 0) | (b > last);
    const T shifted = static_cast<T>(a >> (out ? T(last) : b));
    return out & !kIsSigned<T> ? T(0) : shifted;
  }
};

// ---- three operands -----------------------------------------------------------------------------

struct Clamp {  // NaN in any operand gives NaN
  template <class T> WEFT_FN T operator()(T x, T low, T high) const {
    const T above = (x < low) | is_nan(low) ? low : x;
    return (above > high) | is_nan(high) ? high : above;
  }
};
struct Lerp {  // from the nearer end, so that both ends are met exactly
  template <class T> WEFT_FN T operator()(T start, T end, T weight) const {
    const bool near_start = abs(weight) < T(0.5);
    const T difference = end - start;
    const T factor = near_start ? weight : weight - T(1);
    return fma(factor, difference, near_start ? start : end);
  }
};
struct Addcmul {  // a + value b c
  Scalar value;
  template <class T> WEFT_FN T operator()(T a, T b, T c) const {
    if constexpr (kIsFloat<T>) return fma(value.as<T>() * b, c, a);
    else return plus(a, times(times(value.as<T>(), b), c));
  }
};
struct Addcdiv {  // a + value b / c
  Scalar value;
  template <class T> WEFT_FN T operator()(T a, T b, T c) const { return a + value.as<T>() * b / c; }
};
struct Where {
  using Condition = bool;
  template <class T> WEFT_FN T operator()(bool condition, T a, T b) const { return condition ? a : b; }
};

}  // namespace weft::math
