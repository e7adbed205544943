// The negative log-likelihood of class indices, and its derivative.
//
// A place is one element of the target; x has the dims of the target and one more, `dim`, along which the
// classes lie. Targets are int64, contiguous and checked here: the first that is neither a class nor
// `ignored` is reported and nothing more is written. `weight` (one number per class, contiguous, of x's
// type) may be null.
#pragma once

#include "core/kernels/cpu/strided.h"
#include "core/math/dtype.h"

namespace weft::cpu {

struct TargetStatus {
  bool ok = true;
  int64_t value = 0;

  explicit operator bool() const { return ok; }
};

// losses[i] = -weight[t] x[i, t] and weights[i] = weight[t] with t = target[i]; both 0 where t is ignored.
// They are contiguous float64 for Float64, else float32.
TargetStatus class_losses(DType type, Strided x, int dim, const int64_t* target, const void* weight, int64_t ignored,
                          void* losses, void* weights);

// grad_x[i, t] = -weight[t] grad[i] / divisor; grad_x, which is contiguous, is zero elsewhere. `grad` is one
// number for all places (grad_step 0) or one each (1), of x's type.
TargetStatus class_losses_backward(DType type, Strided grad_x, int dim, const int64_t* target, const void* weight,
                                   int64_t ignored, const void* grad, int64_t grad_step, double divisor);

}  // namespace weft::cpu
