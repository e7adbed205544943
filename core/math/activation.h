// Activation functions. Those with an exponential tail keep full accuracy in it.
#pragma once

#include "core/math/hyperbolic.h"
#include "core/math/special.h"

namespace weft::math {

// ---- the logistic function ----------------------------------------------------------------------

// sigmoid(u + u_lo) = ratio 2^k with the exponent apart, so that a product with something large
// does not pass through subnormal numbers.
template <class T> struct Logistic {
  T ratio;
  decltype(ExpReduced<T>::k) k;
};
template <class T> WEFT_FN Logistic<T> logistic(T u, T u_lo) {
  // With e = exp(-|u|): 1 / (1 + e) for positive u, e / (1 + e) for negative.
  const auto e = exp_reduce(clamp_exponent(-abs(u)), u > 0 ? -u_lo : u_lo);
  const Pair<T> p = exp_mantissa(e);
  const Pair<T> d = fast_two_sum(T(1), scale_in_two(p.hi, e.k));
  const T d_lo = d.lo + scale_in_two(p.lo, e.k);
  const bool negative = u < 0;
  const Pair<T> n = {negative ? p.hi : T(1), negative ? p.lo : T(0)};
  return {quotient_rounded<T>(n, {d.hi, d_lo}), negative ? e.k : 0};
}
template <class T> WEFT_FN T sigmoid(T x) {
  const Logistic<T> s = logistic(x, T(0));
  return scale_in_two(s.ratio, s.k);
}
// x sigmoid(u + u_lo); u is large and negative only where x is negative.
template <class T> WEFT_FN T times_sigmoid(T x, T u, T u_lo) {
  const Logistic<T> s = logistic(u, u_lo);
  constexpr T kFar = sizeof(T) == 4 ? T(-150) : T(-1400);  // the product is 0 long before
  return scale_in_two((kFar > x ? kFar : x) * s.ratio, s.k);
}
template <class T> WEFT_FN T log_sigmoid(T x) { return (x < 0 ? x : T(0)) - log1p(exp(-abs(x))); }

struct Sigmoid {
  template <class T> WEFT_FN T operator()(T x) const { return sigmoid(x); }
};
struct LogSigmoid {
  template <class T> WEFT_FN T operator()(T x) const { return log_sigmoid(x); }
};
struct Silu {
  template <class T> WEFT_FN T operator()(T x) const { return times_sigmoid(x, x, T(0)); }
};
struct Softplus {  // log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold
  double beta, threshold;
  template <class T> WEFT_FN T operator()(T x) const {
    const Pair<T> scaled = two_product(x, static_cast<T>(beta));
    const bool positive = scaled.hi > 0;
    const T lost = abs(scaled.hi) < T(4096) ? scaled.lo : T(0);
    const T e = exp_sum(-abs(scaled.hi), positive ? -lost : lost);
    const T soft = ((positive ? scaled.hi : T(0)) + log1p(e)) / static_cast<T>(beta);
    return scaled.hi > static_cast<T>(threshold) ? x : soft;
  }
};

// ---- gelu ---------------------------------------------------------------------------------------

struct Gelu {  // x Phi(x) = max(x, 0) - |x| Phi(-|x|)
  template <class T> WEFT_FN T operator()(T x) const {
    const NormalTail<T> normal = normal_tail(abs(x));
    const T lost = scale_in_two(fma(normal.t, normal.tail.hi, normal.t * normal.tail.lo), normal.k);
    return copysign((x > 0 ? x : T(0)) - lost, x);
  }
};

// The tanh form of gelu is x sigmoid(u) with u = 2 sqrt(2/pi) (x + 0.044715 x^3).
template <class T> struct GeluTanhConstants;
template <> struct GeluTanhConstants<float> {
  static constexpr float kLinear = 0x1.988454p+0f, kLinearLo = -0x1.857936p-25f;
  static constexpr float kCubic = 0x1.2444f2p-4f, kCubicLo = 0x1.49b16ap-29f;
};
template <> struct GeluTanhConstants<double> {
  static constexpr double kLinear = 0x1.9884533d43651p+0, kLinearLo = -0x1.cbc0d30ebfd15p-54;
  static constexpr double kCubic = 0x1.2444f2a4d8b4bp-4, kCubicLo = -0x1.6c843a29d1c70p-61;
};
template <class T> WEFT_FN Pair<T> gelu_tanh_angle(T x) {
  using C = GeluTanhConstants<T>;
  constexpr T kFar = T(64);  // the tail is 0 long before
  const T above = -kFar > x ? -kFar : x;
  const T bounded = kFar < above ? kFar : above;
  const Pair<T> square = two_product(bounded, bounded);
  const Pair<T> cubic = two_product(C::kCubic, square.hi);
  const Pair<T> slope = two_sum(C::kLinear, cubic.hi);
  const T slope_lo = slope.lo + (cubic.lo + fma(C::kCubic, square.lo, fma(C::kCubicLo, square.hi, C::kLinearLo)));
  const Pair<T> u = two_product(bounded, slope.hi);
  return {u.hi, fma(bounded, slope_lo, u.lo)};
}
struct GeluTanh {
  template <class T> WEFT_FN T operator()(T x) const {
    const Pair<T> u = gelu_tanh_angle(x);
    return times_sigmoid(x, u.hi, u.lo);
  }
};

// ---- piecewise ----------------------------------------------------------------------------------

struct Relu {
  template <class T> WEFT_FN T operator()(T x) const { return x < T(0) ? T(0) : x; }
};
struct LeakyRelu {
  double negative_slope;
  template <class T> WEFT_FN T operator()(T x) const { return x > 0 ? x : x * static_cast<T>(negative_slope); }
};
struct Hardtanh {  // NaN stays
  double low, high;
  template <class T> WEFT_FN T operator()(T x) const {
    const T lowest = static_cast<T>(low), highest = static_cast<T>(high);
    return x < lowest ? lowest : x > highest ? highest : x;
  }
};
// scale x for positive x; scale alpha (exp(input_scale x) - 1) otherwise. Also selu and celu.
struct Elu {
  double alpha, scale, input_scale;
  template <class T> WEFT_FN T operator()(T x) const {
    const T negative = expm1(x * static_cast<T>(input_scale)) * static_cast<T>(alpha * scale);
    return x <= 0 ? negative : x * static_cast<T>(scale);
  }
};

// ---- losses -------------------------------------------------------------------------------------

struct BinaryCrossEntropy {  // of a probability x and a target t, with logarithms held above -100
  template <class T> WEFT_FN static T held(T log) { return log < T(-100) ? T(-100) : log; }
  template <class T> WEFT_FN T operator()(T x, T t) const { return (t - T(1)) * held(log1p(-x)) - t * held(log(x)); }
};

}  // namespace weft::math
