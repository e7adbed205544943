// What reductions share: which dimensions go, the shape that is left, the call of the kernel.
#pragma once

#include <algorithm>
#include <optional>

#include "core/kernels/cpu/reduce.h"
#include "core/ops/functions.h"

namespace weft {

// The dimensions to reduce, as flags; all of them when none are named.
struct ReducedDims {
  bool reduced[kMostDims] = {};
  int ndim = 0;

  ReducedDims(int rank, const std::optional<Dims>& dims, bool empty_means_all = true) : ndim(rank) {
    if (!dims || (dims->empty() && empty_means_all)) {
      std::fill_n(reduced, rank, true);
      return;
    }
    for (int64_t d : *dims) {
      const int64_t at = wrap_dim(d, rank);
      if (reduced[at]) fail("dim ", at, " appears multiple times in the list of dims");
      reduced[at] = true;
    }
  }

  void shape_into(IntSpan sizes, bool keepdim, Meta* out) const {
    out->ndim = 0;
    for (int d = 0; d < ndim; ++d) {
      if (!reduced[d]) out->sizes[out->ndim++] = sizes[d];
      else if (keepdim) out->sizes[out->ndim++] = 1;
    }
  }
  int64_t count(IntSpan sizes) const {
    int64_t n = 1;
    for (int d = 0; d < ndim; ++d) if (reduced[d]) n *= sizes[d];
    return n;
  }
};

// The layout a reduction kernel wants: kept dimensions, then reduced ones, strides in bytes.
struct ReductionPlan {
  int64_t kept_sizes[kMostDims], kept_strides[kMostDims];
  int64_t reduced_sizes[kMostDims], reduced_strides[kMostDims];
  int kept = 0, reduced = 0;
  cpu::Strided outer;

  ReductionPlan(const TensorImpl* t, const ReducedDims& dims) {
    const int64_t item = item_size(t->dtype);
    for (int d = 0; d < t->ndim; ++d) {
      const int64_t size = t->dims[d], stride = t->dims[t->ndim + d] * item;
      if (dims.reduced[d]) {
        reduced_sizes[reduced] = size;
        reduced_strides[reduced++] = stride;
      } else {
        kept_sizes[kept] = size;
        kept_strides[kept++] = stride;
      }
    }
    outer = {t->data, kept, kept_sizes, kept_strides};
  }
};

inline void run_reduction(cpu::Reduction kind, const Tensor& in, const ReducedDims& dims, const Tensor& out,
                          int64_t* indices = nullptr) {
  const ReductionPlan plan(in.get(), dims);
  Unlocked unlocked(in.numel() >= 64 * 1024);
  cpu::reduce(kind, in.dtype(), out.dtype(), out->data, plan.outer, plan.reduced, plan.reduced_sizes, plan.reduced_strides,
              indices);
}

}  // namespace weft
