// What reductions and scans share: which dimensions go, the shape that is left, how a kernel is shown a
// tensor, the checks and errors they have in common.
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
  ReducedDims(int rank, const std::optional<int64_t>& dim) : ndim(rank) {
    if (dim) reduced[wrap_dim(*dim, rank)] = true;
    else std::fill_n(reduced, rank, true);
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
    for (int d = 0; d < ndim; ++d)
      if (reduced[d]) n *= sizes[d];
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
  cpu::reduce(kind, in.dtype(), out.dtype(), out->data, plan.outer, plan.reduced, plan.reduced_sizes,
              plan.reduced_strides, indices);
}

// A tensor as kernels that work along one dimension take it.
struct KernelView {
  char* data;
  int ndim;
  const int64_t* sizes;
  int64_t strides[kMostDims];

  explicit KernelView(const Tensor& t) : data(t->data), ndim(t.ndim()), sizes(t->dims) {
    for (int d = 0; d < ndim; ++d) strides[d] = t.stride(d) * item_size(t.dtype());
  }
  // A contiguous result of reducing `x` along `dim`, whether that dimension was kept or not.
  KernelView(const Tensor& result, const Tensor& x, int dim) : data(result->data), ndim(x.ndim()), sizes(x->dims) {
    int64_t step = item_size(result.dtype());
    for (int d = ndim - 1; d >= 0; --d) {
      strides[d] = step;
      if (d != dim) step *= sizes[d];
    }
  }
  // From the last element to the first.
  void reverse(int dim) {
    if (ndim == 0 || sizes[dim] == 0) return;
    data += (sizes[dim] - 1) * strides[dim];
    strides[dim] = -strides[dim];
  }
  operator cpu::Strided() const { return {data, ndim, sizes, strides}; }
};

// The tensor itself, or a copy in another dtype; without history.
inline Tensor values_as(const Tensor& a, DType dtype) {
  if (a.dtype() == dtype) return a;
  Tensor cast = empty(a.sizes(), dtype, a->device);
  copy_into(cast, a);
  return cast;
}

inline void refuse_complex(const char* name, DType dtype) {
  if (is_complex(dtype)) {
    fail(ErrorKind::NotImplemented, name, "(): ", dtype_name(dtype),
         " has no arithmetic in weft yet; keep real and imaginary parts in two tensors");
  }
}
inline void require_floating(const char* name, DType dtype) {
  refuse_complex(name, dtype);
  if (!is_floating(dtype)) {
    fail(ErrorKind::NotImplemented, "\"", name, "\" not implemented for '", dtype_name(dtype), "'");
  }
}

// For operations without an identity: every sequence that is reduced must have an element.
inline void require_elements(const char* name, const Tensor& a, const ReducedDims& dims, bool dim_given,
                             ErrorKind without_dim = ErrorKind::Runtime) {
  if (a.numel() != 0) return;
  if (!dim_given) {
    fail(without_dim, name,
         "(): Expected reduction dim to be specified for input.numel() == 0. "
         "Specify the reduction dim with the 'dim' argument.");
  }
  for (int d = 0; d < a.ndim(); ++d) {
    if (dims.reduced[d] && a.size(d) == 0) {
      fail(ErrorKind::Index, name, "(): Expected reduction dim ", d, " to have non-zero size.");
    }
  }
}

// A reduced tensor with the reduced dimensions put back as 1, so that it broadcasts against the input.
Tensor with_reduced_dims(const Tensor& reduced, IntSpan sizes, const ReducedDims& dims, bool keepdim);
// The gradient of an extreme, shared evenly by all elements that attain it.
Tensor shared_by_extremes(const Tensor& gradient, const Tensor& attains, const ReducedDims& dims);

}  // namespace weft
