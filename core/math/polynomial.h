// Polynomials, and numbers kept as an unevaluated sum of two for the last bit of accuracy.
// Coefficients throughout core/math come from tools/minimax.py, under the name beside them.
#pragma once

#include "core/math/machine.h"

namespace weft::math {

// c0 + x (c1 + x (c2 + ...))
template <class T> WEFT_FN T poly(T, T c0) { return c0; }
template <class T, class... Rest> WEFT_FN T poly(T x, T c0, Rest... rest) { return fma(x, poly(x, rest...), c0); }

template <class T> struct Pair { T hi, lo; };

// a + b without loss.
template <class T> WEFT_FN Pair<T> two_sum(T a, T b) {
  const T sum = a + b;
  const T from_b = sum - a;
  return {sum, (a - (sum - from_b)) + (b - from_b)};
}
// The same where |a| >= |b| or a is 0.
template <class T> WEFT_FN Pair<T> fast_two_sum(T a, T b) {
  const T sum = a + b;
  return {sum, b - (sum - a)};
}
template <class T> WEFT_FN Pair<T> two_product(T a, T b) {
  const T product = a * b;
  return {product, fma(a, b, -product)};
}

template <class T> WEFT_FN Pair<T> pair_product(Pair<T> a, Pair<T> b) {
  const Pair<T> product = two_product(a.hi, b.hi);
  return {product.hi, product.lo + fma(a.hi, b.lo, a.lo * b.hi)};
}

// (n_hi + n_lo) / (d_hi + d_lo) for finite operands.
template <class T> WEFT_FN Pair<T> quotient_pair(Pair<T> n, Pair<T> d) {
  const T quotient = n.hi / d.hi;
  const T rest = fma(-quotient, d.hi, n.hi) + fma(-quotient, d.lo, n.lo);
  return {quotient, rest / d.hi};
}
// The same as one number, with a single division; d is neither infinite nor so large or small that
// 1 / d is subnormal.
template <class T> WEFT_FN T quotient_rounded(Pair<T> n, Pair<T> d) {
  const T inverse = T(1) / d.hi;
  const T quotient = n.hi * inverse;
  const T rest = fma(-quotient, d.hi, n.hi) + fma(-quotient, d.lo, n.lo);
  return fma(rest, inverse, quotient);
}
template <class T> WEFT_FN Pair<T> sqrt_pair(Pair<T> x) {
  const T root = sqrt(x.hi);
  const T rest = fma(-root, root, x.hi) + x.lo;
  return {root, root == 0 ? T(0) : rest / (root + root)};
}

// 2^k for a k within the normal exponents.
WEFT_FN float power_of_two(float, int k) { return from_bits(static_cast<UInt32>(k + 127) << 23); }
WEFT_FN double power_of_two(double, Int64 k) { return from_bits(static_cast<UInt64>(k + 1023) << 52); }

}  // namespace weft::math
