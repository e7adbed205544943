// The largest, the smallest, the middle one, and where it is.
//
// Who gets the gradient where several elements are equal follows PyTorch: amax, amin and extremes of a
// whole tensor share it evenly; those along one dimension give it to the element whose index they return.
#include <cmath>

#include "core/kernels/cpu/scan.h"
#include "core/kernels/cpu/sort.h"
#include "core/ops/elementwise.h"
#include "core/ops/indexing.h"
#include "core/ops/reduce_common.h"

namespace weft {

// ---- what the structs below have in common --------------------------------------------------------

Tensor shared_by_extremes(const Tensor& gradient, const Tensor& attains, const ReducedDims& dims) {
  Dims reduced;
  for (int d = 0; d < dims.ndim; ++d)
    if (dims.reduced[d]) reduced.push_back(d);
  return mul(gradient / sum(attains, reduced, true), attains);
}

namespace {

// (values, indices) along one dimension.
void infer_indexed(const char* name, const Tensor& a, int64_t dim, bool keepdim, Meta* out) {
  refuse_complex(name, a.dtype());
  const ReducedDims dims(a.ndim(), std::optional<int64_t>(dim));
  require_elements(name, a, dims, true);
  for (int k = 0; k < 2; ++k) {
    out[k].dtype = k == 0 ? a.dtype() : DType::Int64;
    out[k].device = a->device;
    dims.shape_into(a.sizes(), keepdim, &out[k]);
  }
}

void give_to_index(Backward& b, int64_t dim, bool keepdim) {
  b.set(0, selected_gradient(b.grad(), dim, b.output(1), b.input_sizes(0), keepdim));
}

// Elements equal to the result; where the result is NaN, the NaNs.
Tensor attaining(const Tensor& x, const Tensor& y) { return logical_or(eq(x, y), logical_and(ne(x, x), ne(y, y))); }

void infer_whole(const char* name, const Tensor& a, Meta* out) {
  refuse_complex(name, a.dtype());
  require_elements(name, a, ReducedDims(a.ndim(), std::optional<Dims>()), false);
  out->set(a.dtype(), a->device, {});
}

void share_evenly(Backward& b) {
  const Tensor x = b.input(0);
  b.set(0, shared_by_extremes(b.grad(), attaining(x, b.output()), ReducedDims(x.ndim(), std::optional<Dims>())));
}

}  // namespace

// ---- amax and amin: any dimensions, no index ------------------------------------------------------

#define WEFT_EXTREME_VALUES(Struct, name, kind)                                                                        \
  struct Struct {                                                                                                      \
    static constexpr Schema schema{#name "(Tensor self, int[] dim=[], bool keepdim=False) -> Tensor"};                 \
    static constexpr uint32_t traits = kReduction | kExactOut;                                                         \
    static constexpr Saves saves{{input(0) | output(0)}};                                                              \
    Dims dim;                                                                                                          \
    bool keepdim;                                                                                                      \
                                                                                                                       \
    ReducedDims dims(int rank) const { return {rank, std::optional<Dims>(dim)}; }                                      \
    void infer(Inputs in, Meta* out) const {                                                                           \
      refuse_complex(#name, in[0].dtype());                                                                            \
      const ReducedDims reduced = dims(in[0].ndim());                                                                  \
      require_elements(#name, in[0], reduced, !dim.empty());                                                           \
      out->dtype = in[0].dtype();                                                                                      \
      out->device = in[0]->device;                                                                                     \
      reduced.shape_into(in[0].sizes(), keepdim, out);                                                                 \
    }                                                                                                                  \
    void run(Inputs in, Tensor* out) const { run_reduction(cpu::Reduction::kind, in[0], dims(in[0].ndim()), out[0]); } \
    static void vjp(Backward& b) {                                                                                     \
      const Struct& op = b.op<Struct>();                                                                               \
      const Tensor x = b.input(0);                                                                                     \
      const ReducedDims dims = op.dims(x.ndim());                                                                      \
      const Tensor y = with_reduced_dims(b.output(), x.sizes(), dims, op.keepdim);                                     \
      b.set(0, shared_by_extremes(with_reduced_dims(b.grad(), x.sizes(), dims, op.keepdim), eq(x, y), dims));          \
    }                                                                                                                  \
  };                                                                                                                   \
  WEFT_OP(Struct);

WEFT_EXTREME_VALUES(Amax, amax, Amax)
WEFT_EXTREME_VALUES(Amin, amin, Amin)

// ---- max and min: of everything, along one dimension, of two tensors --------------------------------

#define WEFT_EXTREME(All, OfDim, OfTwo, name, kind, indexed, elementwise, beats)                            \
  struct All {                                                                                              \
    static constexpr Schema schema{#name "(Tensor self) -> Tensor"};                                        \
    static constexpr uint32_t traits = kReduction;                                                          \
    static constexpr Saves saves{{input(0) | output(0)}};                                                   \
                                                                                                            \
    void infer(Inputs in, Meta* out) const { infer_whole(#name, in[0], out); }                              \
    void run(Inputs in, Tensor* out) const {                                                                \
      run_reduction(cpu::Reduction::kind, in[0], ReducedDims(in[0].ndim(), std::optional<Dims>()), out[0]); \
    }                                                                                                       \
    static void vjp(Backward& b) { share_evenly(b); }                                                       \
  };                                                                                                        \
  WEFT_OP(All);                                                                                             \
                                                                                                            \
  struct OfTwo {                                                                                            \
    static constexpr Schema schema{#name ".other(Tensor self, Tensor other) -> Tensor"};                    \
    static constexpr Pointwise pointwise{Elementwise::elementwise};                                         \
    static constexpr Saves saves{{input(0) | input(1), input(0) | input(1)}};                               \
                                                                                                            \
    static void vjp(Backward& b) {                                                                          \
      const Tensor x = b.input(0), y = b.input(1);                                                          \
      const Tensor shared = where(eq(x, y), b.grad() * 0.5, b.grad());                                      \
      if (b.needs(0)) b.set(0, where(beats(y, x), number(0.0), shared));                                    \
      if (b.needs(1)) b.set(1, where(beats(x, y), number(0.0), shared));                                    \
    }                                                                                                       \
  };                                                                                                        \
  WEFT_OP(OfTwo);                                                                                           \
                                                                                                            \
  struct OfDim {                                                                                            \
    static constexpr Schema schema{                                                                         \
        #name ".dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"};         \
    static constexpr uint32_t traits = kReduction | kFirstOutputOnly | kExactOut;                           \
    static constexpr Saves saves{{output(1)}};                                                              \
    int64_t dim;                                                                                            \
    bool keepdim;                                                                                           \
                                                                                                            \
    void infer(Inputs in, Meta* out) const { infer_indexed(#name, in[0], dim, keepdim, out); }              \
    void run(Inputs in, Tensor* out) const {                                                                \
      const ReducedDims dims(in[0].ndim(), std::optional<int64_t>(dim));                                    \
      run_reduction(cpu::Reduction::indexed, in[0], dims, out[0], out[1].data<int64_t>());                  \
    }                                                                                                       \
    static void vjp(Backward& b) { give_to_index(b, b.op<OfDim>().dim, b.op<OfDim>().keepdim); }            \
  };                                                                                                        \
  WEFT_OP(OfDim);

WEFT_EXTREME(Max, MaxDim, MaxOther, max, Amax, MaxWithIndex, maximum, gt)
WEFT_EXTREME(Min, MinDim, MinOther, min, Amin, MinWithIndex, minimum, lt)

// ---- where they are -------------------------------------------------------------------------------

#define WEFT_EXTREME_INDEX(Struct, name, kind)                                                          \
  struct Struct {                                                                                       \
    static constexpr Schema schema{#name "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"}; \
    static constexpr uint32_t traits = kReduction | kNeverDifferentiable | kExactOut;                   \
    std::optional<int64_t> dim;                                                                         \
    bool keepdim;                                                                                       \
                                                                                                        \
    void infer(Inputs in, Meta* out) const {                                                            \
      refuse_complex(#name, in[0].dtype());                                                             \
      if (in[0].dtype() == DType::Bool) fail(#name "(): does not support bool input");                  \
      const ReducedDims dims(in[0].ndim(), dim);                                                        \
      require_elements(#name, in[0], dims, dim.has_value(), ErrorKind::Index);                          \
      out->dtype = DType::Int64;                                                                        \
      out->device = in[0]->device;                                                                      \
      dims.shape_into(in[0].sizes(), keepdim, out);                                                     \
    }                                                                                                   \
    void run(Inputs in, Tensor* out) const {                                                            \
      run_reduction(cpu::Reduction::kind, in[0], ReducedDims(in[0].ndim(), dim), out[0]);               \
    }                                                                                                   \
  };                                                                                                    \
  WEFT_OP(Struct);

WEFT_EXTREME_INDEX(Argmax, argmax, ArgMax)
WEFT_EXTREME_INDEX(Argmin, argmin, ArgMin)

// ---- medians --------------------------------------------------------------------------------------

namespace {

void check_median(const char* name, const Tensor& a) {
  refuse_complex(name, a.dtype());
  if (a.dtype() == DType::Bool) fail(ErrorKind::NotImplemented, "\"", name, "\" not implemented for 'bool'");
}

void run_median_of_all(const Tensor& a, bool ignore_nan, const Tensor& out) {
  if (a.numel() == 0) {  // nothing is the median of nothing: NaN, and for integers what NaN becomes
    const double nan = std::nan("");
    return copy_into(out, wrapped_number(is_floating(a.dtype()) ? Scalar(nan) : Scalar(INT64_MIN)));
  }
  const Tensor flat = a->is_contiguous() ? a : detached_copy(a);
  const int64_t size = a.numel(), step = item_size(a.dtype()), no_step = 0;
  Unlocked unlocked(size >= 16 * 1024);
  const cpu::Strided x{flat->data, 1, &size, &step}, value{out->data, 1, &size, &no_step},
      no_index{nullptr, 1, &size, &no_step};
  cpu::median(a.dtype(), ignore_nan, x, value, no_index, 0);
}

void run_median(const Tensor& a, int64_t dim, bool ignore_nan, Tensor* out) {
  if (a.numel() == 0) return;
  const int at = static_cast<int>(wrap_dim(dim, a.ndim()));
  Unlocked unlocked(a.numel() >= 16 * 1024);
  cpu::median(a.dtype(), ignore_nan, KernelView(a), KernelView(out[0], a, at), KernelView(out[1], a, at), at);
}

}  // namespace

#define WEFT_MEDIAN(All, OfDim, name, ignore_nan)                                                   \
  struct All {                                                                                      \
    static constexpr Schema schema{#name "(Tensor self) -> Tensor"};                                \
    static constexpr uint32_t traits = kReduction | kExactOut;                                      \
    static constexpr Saves saves{{input(0) | output(0)}};                                           \
                                                                                                    \
    void infer(Inputs in, Meta* out) const {                                                        \
      check_median(#name, in[0]);                                                                   \
      out->set(in[0].dtype(), in[0]->device, {});                                                   \
    }                                                                                               \
    void run(Inputs in, Tensor* out) const { run_median_of_all(in[0], ignore_nan, out[0]); }        \
    static void vjp(Backward& b) { share_evenly(b); }                                               \
  };                                                                                                \
  WEFT_OP(All);                                                                                     \
                                                                                                    \
  struct OfDim {                                                                                    \
    static constexpr Schema schema{                                                                 \
        #name ".dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"}; \
    static constexpr uint32_t traits = kReduction | kFirstOutputOnly | kExactOut;                   \
    static constexpr Saves saves{{output(1)}};                                                      \
    int64_t dim;                                                                                    \
    bool keepdim;                                                                                   \
                                                                                                    \
    void infer(Inputs in, Meta* out) const {                                                        \
      check_median(#name, in[0]);                                                                   \
      infer_indexed(#name, in[0], dim, keepdim, out);                                               \
    }                                                                                               \
    void run(Inputs in, Tensor* out) const { run_median(in[0], dim, ignore_nan, out); }             \
    static void vjp(Backward& b) { give_to_index(b, b.op<OfDim>().dim, b.op<OfDim>().keepdim); }    \
  };                                                                                                \
  WEFT_OP(OfDim);

WEFT_MEDIAN(Median, MedianDim, median, false)
WEFT_MEDIAN(Nanmedian, NanmedianDim, nanmedian, true)

// ---- running extremes -----------------------------------------------------------------------------

namespace {

// One element may be the extreme of many places.
void add_to_index(Backward& b, int64_t dim) {
  if (b.grad().ndim() == 0) return b.set(0, b.grad());
  b.set(0, scatter_add(zeros_like(b.grad()), dim, b.output(1), b.grad()));
}

}  // namespace

#define WEFT_RUNNING_EXTREME(Struct, name, kind)                                                       \
  struct Struct {                                                                                      \
    static constexpr Schema schema{#name "(Tensor self, int dim) -> (Tensor values, Tensor indices)"}; \
    static constexpr uint32_t traits = kFirstOutputOnly | kExactOut;                                   \
    static constexpr Saves saves{{output(1)}};                                                         \
    int64_t dim;                                                                                       \
                                                                                                       \
    void infer(Inputs in, Meta* out) const {                                                           \
      refuse_complex(#name, in[0].dtype());                                                            \
      wrap_dim(dim, in[0].ndim());                                                                     \
      out[0].like(in[0]);                                                                              \
      out[1].set(DType::Int64, in[0]->device, in[0].sizes());                                          \
    }                                                                                                  \
    void run(Inputs in, Tensor* out) const {                                                           \
      Unlocked unlocked(in[0].numel() >= 64 * 1024);                                                   \
      cpu::running_extreme(cpu::Extreme::kind, in[0].dtype(), KernelView(in[0]), KernelView(out[0]),   \
                           KernelView(out[1]), static_cast<int>(wrap_dim(dim, in[0].ndim())));         \
    }                                                                                                  \
    static void vjp(Backward& b) { add_to_index(b, b.op<Struct>().dim); }                              \
  };                                                                                                   \
  WEFT_OP(Struct);

WEFT_RUNNING_EXTREME(Cummax, cummax, Largest)
WEFT_RUNNING_EXTREME(Cummin, cummin, Smallest)

}  // namespace weft
