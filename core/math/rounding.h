// Rounding and changes of unit.
#pragma once

#include "core/math/types.h"

namespace weft::math {

// An integer is its own rounding.
struct Ceil {
  template <class T> WEFT_FN T operator()(T x) const {
    if constexpr (kIsFloat<T>) return ceil(x);
    else return x;
  }
};
struct Floor {
  template <class T> WEFT_FN T operator()(T x) const {
    if constexpr (kIsFloat<T>) return floor(x);
    else return x;
  }
};
struct Trunc {
  template <class T> WEFT_FN T operator()(T x) const {
    if constexpr (kIsFloat<T>) return trunc(x);
    else return x;
  }
};
struct Round {  // half to even
  template <class T> WEFT_FN T operator()(T x) const {
    if constexpr (kIsFloat<T>) return rint(x);
    else return x;
  }
};
struct Frac {
  template <class T> WEFT_FN T operator()(T x) const { return x - trunc(x); }
};

// Rounds to `decimals` digits after the point, or before it where negative.
struct RoundDecimals {
  int decimals;
  template <class T> WEFT_FN T operator()(T x) const {
    double power = 1;  // exact up to 10^22
    for (int i = decimals < 0 ? -decimals : decimals; i > 0 && power < 1e308; --i) power *= 10;
    const T unit = static_cast<T>(power);
    return decimals < 0 ? rint(x / unit) * unit : rint(x * unit) / unit;
  }
};

struct Deg2rad {
  template <class T> WEFT_FN T operator()(T x) const { return x * T(0x1.1df46a2529d39p-6); }
};
struct Rad2deg {
  template <class T> WEFT_FN T operator()(T x) const { return x * T(0x1.ca5dc1a63c1f8p+5); }
};

// The caller gives the replacements; PyTorch's defaults are 0 and the type's largest magnitudes.
struct NanToNum {
  double nan, posinf, neginf;
  template <class T> WEFT_FN T operator()(T x) const {
    const T finite = x == infinity<T>() ? static_cast<T>(posinf) : x == -infinity<T>() ? static_cast<T>(neginf) : x;
    return is_nan(x) ? static_cast<T>(nan) : finite;
  }
};

}  // namespace weft::math
