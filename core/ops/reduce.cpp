// Sums, means, products and counts. Extremes are in extremes.cpp, spreads and norms in statistics.cpp.
#include "core/ops/reduce_common.h"

#include "core/ops/scan.h"
#include "core/tensor/promotion.h"

namespace weft {

namespace {

void infer_sum(const char* name, const Tensor& a, const ReducedDims& dims, bool keepdim, std::optional<DType> dtype,
               Meta* out) {
  refuse_complex(name, dtype.value_or(a.dtype()));
  refuse_complex(name, a.dtype());
  out->dtype = dtype.value_or(is_integral(a.dtype()) ? DType::Int64 : a.dtype());
  out->device = a->device;
  dims.shape_into(a.sizes(), keepdim, out);
}

// The kernels add up into floats or int64; any other result is cast before or after.
void run_sum(cpu::Reduction kind, cpu::Reduction as_bool, const Tensor& in, const ReducedDims& dims,
             const Tensor& out) {
  const DType to = out.dtype();
  if (to == DType::Bool) return run_reduction(as_bool, in, dims, out);
  if (is_floating(to)) return run_reduction(kind, in, dims, out);
  const Tensor integers = is_integral(in.dtype()) ? in : values_as(in, DType::Int64);
  if (to == DType::Int64) return run_reduction(kind, integers, dims, out);
  const Tensor wide = empty(out.sizes(), DType::Int64);
  run_reduction(kind, integers, dims, wide);
  copy_into(out, wide);
}

Tensor product_of_others(const Tensor& x, int64_t dim) {
  return shift_along(running_product(x, dim, false), dim, 1, 1.0) *
         shift_along(running_product(x, dim, true), dim, -1, 1.0);
}

}  // namespace

struct Sum {
  static constexpr Schema schema{
      "sum(Tensor self, int[]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor"};
  static constexpr uint32_t traits = kReduction | kLinear | kOutChoosesDtype;
  std::optional<Dims> dim;
  bool keepdim;
  std::optional<DType> dtype;

  void infer(Inputs in, Meta* out) const {
    infer_sum("sum", in[0], ReducedDims(in[0].ndim(), dim), keepdim, dtype, out);
  }
  void run(Inputs in, Tensor* out) const {
    run_sum(cpu::Reduction::Sum, cpu::Reduction::Any, in[0], ReducedDims(in[0].ndim(), dim), out[0]);
  }
  static void vjp(Backward& b) {
    const Sum& op = b.op<Sum>();
    b.set(0, expand_reduced(b.grad(), b.input_sizes(0), op.dim ? IntSpan(*op.dim) : IntSpan(), op.keepdim));
  }
};
WEFT_OP(Sum);

struct Mean {
  static constexpr Schema schema{
      "mean(Tensor self, int[]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor"};
  static constexpr uint32_t traits = kReduction | kLinear | kOutChoosesDtype;
  std::optional<Dims> dim;
  bool keepdim;
  std::optional<DType> dtype;

  void infer(Inputs in, Meta* out) const {
    const DType result = dtype.value_or(in[0].dtype());
    if (is_integral(result)) {
      fail("mean(): could not infer output dtype. ", dtype ? "Optional" : "Input",
           " dtype must be either a floating point or complex dtype. Got: ", dtype_name(result));
    }
    infer_sum("mean", in[0], ReducedDims(in[0].ndim(), dim), keepdim, result, out);
  }
  void run(Inputs in, Tensor* out) const {
    run_reduction(cpu::Reduction::Mean, in[0], ReducedDims(in[0].ndim(), dim), out[0]);
  }
  static void vjp(Backward& b) {
    const Mean& op = b.op<Mean>();
    const IntSpan sizes = b.input_sizes(0);
    const double count = static_cast<double>(ReducedDims(static_cast<int>(sizes.size()), op.dim).count(sizes));
    b.set(0, expand_reduced(b.grad() / number(count), sizes, op.dim ? IntSpan(*op.dim) : IntSpan(), op.keepdim));
  }
};
WEFT_OP(Mean);

struct Prod {
  static constexpr Schema schema{
      "prod(Tensor self, int? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor"};
  static constexpr uint32_t traits = kReduction | kOutChoosesDtype;
  static constexpr Saves saves{{input(0)}};
  std::optional<int64_t> dim;
  bool keepdim;
  std::optional<DType> dtype;

  void infer(Inputs in, Meta* out) const {
    infer_sum("prod", in[0], ReducedDims(in[0].ndim(), dim), keepdim, dtype, out);
  }
  void run(Inputs in, Tensor* out) const {
    run_sum(cpu::Reduction::Prod, cpu::Reduction::All, in[0], ReducedDims(in[0].ndim(), dim), out[0]);
  }
  // Right where elements are zero, and when differentiated again: nothing is divided by an element.
  static void vjp(Backward& b) {
    const Prod& op = b.op<Prod>();
    const Tensor x = to_dtype(b.input(0), b.output_dtype());
    const Tensor g = with_reduced_dims(b.grad(), x.sizes(), ReducedDims(x.ndim(), op.dim), op.keepdim);
    if (op.dim) return b.set(0, g * product_of_others(x, wrap_dim(*op.dim, x.ndim())));
    b.set(0, g * reshape(product_of_others(reshape(x, Dims{x.numel()}), 0), x.sizes()));
  }
};
WEFT_OP(Prod);

struct Nansum {
  static constexpr Schema schema{
      "nansum(Tensor self, int[]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor"};
  static constexpr uint32_t traits = kReduction | kOutChoosesDtype;
  static constexpr Saves saves{{input(0)}};
  std::optional<Dims> dim;
  bool keepdim;
  std::optional<DType> dtype;

  void infer(Inputs in, Meta* out) const {
    infer_sum("nansum", in[0], ReducedDims(in[0].ndim(), dim), keepdim, dtype, out);
    // NaN has no integer to be left out as.
    if (is_floating(in[0].dtype())) require_floating("nansum", out->dtype);
  }
  void run(Inputs in, Tensor* out) const {
    const cpu::Reduction kind = is_floating(in[0].dtype()) ? cpu::Reduction::NanSum : cpu::Reduction::Sum;
    run_sum(kind, cpu::Reduction::Any, in[0], ReducedDims(in[0].ndim(), dim), out[0]);
  }
  static void vjp(Backward& b) {
    const Nansum& op = b.op<Nansum>();
    const Tensor x = b.input(0);
    const Tensor g = with_reduced_dims(b.grad(), x.sizes(), ReducedDims(x.ndim(), op.dim), op.keepdim);
    b.set(0, g * eq(x, x));
  }
};
WEFT_OP(Nansum);

struct CountNonzero {
  static constexpr Schema schema{"count_nonzero(Tensor self, int[]? dim=None) -> Tensor"};
  static constexpr uint32_t traits = kReduction | kNeverDifferentiable;
  std::optional<Dims> dim;

  void infer(Inputs in, Meta* out) const {
    infer_sum("count_nonzero", in[0], ReducedDims(in[0].ndim(), dim), false, DType::Int64, out);
  }
  void run(Inputs in, Tensor* out) const {
    run_reduction(cpu::Reduction::CountNonzero, in[0], ReducedDims(in[0].ndim(), dim), out[0]);
  }
};
WEFT_OP(CountNonzero);

// dim=() reduces nothing here, unlike in sums. uint8 stays uint8: it was PyTorch's first bool.
#define WEFT_LOGICAL_REDUCTION(Struct, name, kind)                                                        \
  struct Struct {                                                                                         \
    static constexpr Schema schema{#name "(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"}; \
    static constexpr uint32_t traits = kReduction | kNeverDifferentiable | kTruthOut;                     \
    std::optional<Dims> dim;                                                                              \
    bool keepdim;                                                                                         \
                                                                                                          \
    void infer(Inputs in, Meta* out) const {                                                              \
      const DType result = in[0].dtype() == DType::UInt8 ? DType::UInt8 : DType::Bool;                    \
      infer_sum(#name, in[0], ReducedDims(in[0].ndim(), dim, false), keepdim, result, out);               \
    }                                                                                                     \
    void run(Inputs in, Tensor* out) const {                                                              \
      run_reduction(cpu::Reduction::kind, in[0], ReducedDims(in[0].ndim(), dim, false), out[0]);          \
    }                                                                                                     \
  };                                                                                                      \
  WEFT_OP(Struct);

WEFT_LOGICAL_REDUCTION(AllReduction, all, All)
WEFT_LOGICAL_REDUCTION(AnyReduction, any, Any)

Tensor sum(const Tensor& a, IntSpan dims, bool keepdim) { return call(op_Sum, Sum{Dims(dims), keepdim, {}}, a); }
Tensor sum_all(const Tensor& a) { return call(op_Sum, Sum{{}, false, {}}, a); }
Tensor mean_all(const Tensor& a) { return call(op_Mean, Mean{{}, false, {}}, a); }

Tensor sum_to(const Tensor& gradient, IntSpan sizes) {
  const int shift = gradient.ndim() - static_cast<int>(sizes.size());
  Dims summed;
  for (int d = 0; d < gradient.ndim(); ++d) {
    if (d < shift || (sizes[d - shift] == 1 && gradient.size(d) != 1)) summed.push_back(d);
  }
  if (summed.empty()) return shift == 0 ? gradient : reshape(gradient, sizes);
  Tensor reduced = sum(gradient, summed, true);
  return shift > 0 ? reshape(reduced, sizes) : reduced;
}

Tensor expand_reduced(const Tensor& reduced, IntSpan sizes, IntSpan dims, bool keepdim) {
  if (keepdim || sizes.empty() || dims.empty()) return expand(reduced, sizes);
  Dims shape(sizes);
  for (int64_t d : dims) shape[static_cast<int>(wrap_dim(d, shape.size()))] = 1;
  return expand(reshape(reduced, shape), sizes);
}

Tensor with_reduced_dims(const Tensor& reduced, IntSpan sizes, const ReducedDims& dims, bool keepdim) {
  if (keepdim || reduced.ndim() == 0) return reduced;
  Dims shape(sizes);
  for (int d = 0; d < dims.ndim; ++d)
    if (dims.reduced[d]) shape[d] = 1;
  return reshape(reduced, shape);
}

}  // namespace weft
