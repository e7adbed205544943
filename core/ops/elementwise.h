// Element-wise operations that several families' rules are written with, beyond core/ops/functions.h.
#pragma once

#include "core/ops/functions.h"

namespace weft {

Tensor square(const Tensor& a);
Tensor rsqrt(const Tensor& a);
Tensor reciprocal(const Tensor& a);
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor copysign(const Tensor& a, const Tensor& b);
Tensor isfinite(const Tensor& a);

// The gradient of a step function: zeros like the incoming one.
inline Tensor zeros_like(const Tensor& gradient) { return zeros(gradient.sizes(), gradient.dtype(), gradient->device); }

// A saved Python number as a tensor of the result's dtype: a function of it (log, 1 - x) alone would be
// computed in the default dtype, which may be narrower.
inline Tensor in_full(const Tensor& saved, DType result) {
  return saved->has(kWrappedNumber) ? to_dtype(saved, result) : saved;
}

// For operations that take a number on either side.
inline void refuse_two_numbers(Inputs in) {
  if (in[0]->has(kWrappedNumber) && in[1]->has(kWrappedNumber)) {
    fail(ErrorKind::Type, "received two numbers: at least one of the arguments must be a Tensor");
  }
}

// For those whose Python number must be a value of the tensor's integer dtype.
void refuse_overflow(const Tensor& number, DType type);

// The gradient, or zero. As a product with 0 and 1 it would let NaN and infinity through.
inline Tensor keep_where(const Tensor& condition, const Tensor& gradient) {
  return where(condition, gradient, number(int64_t{0}));
}

}  // namespace weft
