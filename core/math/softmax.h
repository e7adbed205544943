// The exponentials and quotients that softmax is made of.
#pragma once

#include "core/math/exponential.h"

namespace weft::math {

// exp(x - shift) for x <= shift (or NaN), with the difference as if it were exact: its rounding error
// would be some units in the last place of the result where the two lie far apart. What is far below
// one goes to 0, also through the subnormal numbers, with one rounding.
template <class T> WEFT_FN T exp_below(T x, T shift) {
  constexpr T kLowest = sizeof(T) == 4 ? T(-110) : T(-750);
  const Pair<T> d = two_sum(x, -shift);
  const bool vanishes = kLowest > d.hi;
  const auto e = exp_reduce(vanishes ? kLowest : d.hi, d.hi > kLowest ? d.lo : T(0));
  constexpr T kDown = T(0x1p-64);
  return (T(1) + e.y) * power_of_two(T(), e.k + 64) * kDown;
}

// 1 / sum as a pair, for many quotients that round once: a quotient by a rounded sum rounds twice.
WEFT_FN Pair<float> inverse_of_sum(double sum, float) {
  const double inverse = 1.0 / sum;
  const float high = static_cast<float>(inverse);
  return {high, static_cast<float>(inverse - static_cast<double>(high))};
}
WEFT_FN Pair<double> inverse_of_sum(double sum, double) {
  const double inverse = 1.0 / sum;
  return {inverse, fma(-sum, inverse, 1.0) * inverse};
}
template <class T> WEFT_FN T times_pair(T x, T high, T low) { return fma(x, high, x * low); }

}  // namespace weft::math
