// Counter-based random numbers: Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011).
//
// Note [Random streams]
// A stream is a seed and an offset. Step s of a call hashes the counter (offset + s) with the seed
// into four words; element i of a call uses words of one step only, so any thread on any device can
// make any element, and the next call begins at offset + the steps that this one used.
//   narrow draws (one word each): element i has word i % 4 of step i / 4
//   wide draws (two words each):  element i has words 2 (i % 2) and 2 (i % 2) + 1 of step i / 2
// Normal numbers come in pairs: elements 2j and 2j + 1 share the draws of both.
#pragma once

#include "core/math/trigonometric.h"

namespace weft::random {

struct Stream {
  UInt64 seed;
  UInt64 offset;
};

struct Words { UInt32 w[4]; };

WEFT_FN Words philox(UInt64 seed, UInt64 counter) {
  UInt32 c0 = static_cast<UInt32>(counter), c1 = static_cast<UInt32>(counter >> 32), c2 = 0, c3 = 0;
  UInt32 k0 = static_cast<UInt32>(seed), k1 = static_cast<UInt32>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const UInt64 p0 = UInt64{0xd2511f53u} * c0;
    const UInt64 p1 = UInt64{0xcd9e8d57u} * c2;
    const UInt32 next0 = static_cast<UInt32>(p1 >> 32) ^ c1 ^ k0;
    const UInt32 next2 = static_cast<UInt32>(p0 >> 32) ^ c3 ^ k1;
    c0 = next0;
    c1 = static_cast<UInt32>(p1);
    c2 = next2;
    c3 = static_cast<UInt32>(p0);
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return {{c0, c1, c2, c3}};
}

// How many steps n elements take.
WEFT_FN constexpr Int64 narrow_steps(Int64 n) { return (n + 3) / 4; }
WEFT_FN constexpr Int64 wide_steps(Int64 n) { return (n + 1) / 2; }

// ---- from words to numbers ----------------------------------------------------------------------

WEFT_FN UInt64 wide_word(UInt32 high, UInt32 low) { return static_cast<UInt64>(high) << 32 | low; }

// Multiples of 2^-24 and of 2^-53 in [0, 1).
WEFT_FN float unit_float(UInt32 word) { return static_cast<float>(static_cast<int>(word >> 8)) * 0x1p-24f; }
WEFT_FN double unit_double(UInt64 word) { return static_cast<double>(static_cast<Int64>(word >> 11)) * 0x1p-53; }

template <class T> struct Uniform {  // in [from, to), or from where rounding would give `to`
  T from, to;
  WEFT_FN T operator()(T unit) const {
    const T x = from + unit * (to - from);
    return x < to ? x : from;
  }
};

// Two independent normal numbers (Box and Muller) from two units.
template <class T> struct NormalPair {
  T mean, deviation;
  WEFT_FN void operator()(T first, T second, T* even, T* odd) const {
    const T radius = math::sqrt(T(-2) * math::log(T(1) - first));  // the logarithm's argument is > 0
    const T angle = T(6.283185307179586476925) * second;
    // The angle is below 2 pi: the fast reduction is exact enough.
    *even = mean + deviation * (radius * math::Cos().fast(angle));
    *odd = mean + deviation * (radius * math::Sin().fast(angle));
  }
};

template <class T> struct Exponential {
  T rate;
  WEFT_FN T operator()(T unit) const { return -math::log1p(-unit) / rate; }
};

template <class T> struct Cauchy {
  T median, scale;
  WEFT_FN T operator()(T unit) const {
    return median + scale * math::Tan().fast(T(3.141592653589793238463) * (unit - T(0.5)));
  }
};

struct Geometric {     // how many trials until the first success
  double log_failure;  // log(1 - p)
  WEFT_FN double operator()(double unit) const {
    const double trials = math::ceil(math::log1p(-unit) / log_failure);
    return trials < 1 ? 1.0 : trials;
  }
};

// Whether a trial of probability p succeeds. All 32 bits of the word count.
WEFT_FN bool succeeds(UInt32 word, double p) { return static_cast<double>(word) < p * 0x1p32; }

// An integer in [low, low + range); a range of 0 stands for 2^64.
struct Integer {
  UInt64 low, range;
  WEFT_FN Int64 operator()(UInt64 word) const {
    const UInt64 step = range == 0 ? word : math::multiply_high(word, range);
    return static_cast<Int64>(low + step);
  }
};

}  // namespace weft::random
