// First derivatives: the incoming gradient g comes first, then the forward's output y or input x.
#pragma once

#include "core/math/activation.h"

namespace weft::math {

// ---- from the output ----------------------------------------------------------------------------

struct SqrtGrad {
  template <class T> WEFT_FN T operator()(T g, T y) const { return g / (T(2) * y); }
};
struct RsqrtGrad {
  template <class T> WEFT_FN T operator()(T g, T y) const { return T(-0.5) * g * (y * y * y); }
};
struct ReciprocalGrad {
  template <class T> WEFT_FN T operator()(T g, T y) const { return -g * (y * y); }
};
struct TanhGrad {
  template <class T> WEFT_FN T operator()(T g, T y) const { return g * fma(-y, y, T(1)); }
};
struct SigmoidGrad {
  template <class T> WEFT_FN T operator()(T g, T y) const { return g * (T(1) - y) * y; }
};
struct ReluGrad {
  template <class T> WEFT_FN T operator()(T g, T y) const { return y <= 0 ? T(0) : g; }
};
struct HardtanhGrad {
  double low, high;
  template <class T> WEFT_FN T operator()(T g, T y) const {
    return (y > static_cast<T>(low)) & (y < static_cast<T>(high)) ? g : T(0);  // a NaN is outside
  }
};

// ---- from the input -----------------------------------------------------------------------------

struct GeluGrad {  // Phi(x) + x phi(x)
  template <class T> WEFT_FN T operator()(T g, T x) const {
    const NormalTail<T> normal = normal_tail(abs(x));
    const T slope = scale_in_two(fma(-normal.t, normal.density, normal.tail.hi), normal.k);
    return g * (x > 0 ? T(1) - slope : slope);
  }
};
// The derivative of x sigmoid(u): with s = sigmoid(u + u_lo), s + x u' s (1 - s).
template <class T> WEFT_FN T sigmoid_times_slope(T u, T u_lo, T x_times_slope) {
  const auto e = exp_reduce(clamp_exponent(-abs(u)), u > 0 ? -u_lo : u_lo);
  const T p = T(1) + e.y;
  const T small = scale_in_two(p, e.k);
  const T larger = T(1) / (T(1) + small);  // sigmoid(|u|); times exp(-|u|) it is sigmoid(-|u|)
  const bool negative = u < 0;
  const T slope = fma(x_times_slope, negative ? larger : small * larger, T(1));
  const T near = larger * slope;
  return negative ? scale_in_two(p * near, e.k) : near;
}
struct GeluTanhGrad {
  template <class T> WEFT_FN T operator()(T g, T x) const {
    using C = GeluTanhConstants<T>;
    constexpr T kFar = T(64);
    const T above = -kFar > x ? -kFar : x;
    const T bounded = kFar < above ? kFar : above;
    const Pair<T> u = gelu_tanh_angle(x);
    const T angle_slope = fma(T(3) * C::kCubic, bounded * bounded, C::kLinear);
    return g * sigmoid_times_slope(u.hi, u.lo, bounded * angle_slope);
  }
};
struct SiluGrad {
  template <class T> WEFT_FN T operator()(T g, T x) const {
    constexpr T kFar = T(2000);  // where sigmoid is 0 or 1
    const T above = -kFar > x ? -kFar : x;
    const T bounded = kFar < above ? kFar : above;
    return g * sigmoid_times_slope(bounded, T(0), bounded);
  }
};
struct LogSigmoidGrad {
  template <class T> WEFT_FN T operator()(T g, T x) const { return g * sigmoid(-x); }
};
struct SoftplusGrad {
  double beta, threshold;
  template <class T> WEFT_FN T operator()(T g, T x) const {
    const T scaled = x * static_cast<T>(beta);
    return scaled > static_cast<T>(threshold) ? g : g * sigmoid(scaled);
  }
};
struct EluGrad {
  double alpha, scale, input_scale;
  template <class T> WEFT_FN T operator()(T g, T x) const {
    const T negative = exp(x * static_cast<T>(input_scale)) * static_cast<T>(alpha * scale * input_scale);
    return g * (x > 0 ? static_cast<T>(scale) : negative);
  }
};
struct LeakyReluGrad {
  double negative_slope;
  template <class T> WEFT_FN T operator()(T g, T x) const { return x > 0 ? g : g * static_cast<T>(negative_slope); }
};

}  // namespace weft::math
