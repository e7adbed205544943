// Variances, standard deviations and norms.
#include <cmath>

#include "core/kernels/cpu/tiles.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce_common.h"

namespace weft {

extern const OpTable op_PowTensor;

namespace {

// PyTorch's `correction`: what is subtracted from the number of elements before dividing by it.
double degrees_of_freedom(IntSpan sizes, const ReducedDims& dims, const std::optional<Scalar>& correction) {
  return static_cast<double>(dims.count(sizes)) - (correction ? correction->to_double() : 1.0);
}

void infer_moments(const char* name, const Tensor& a, const ReducedDims& dims, const std::optional<Scalar>& correction,
                   bool keepdim, Meta* out) {
  refuse_complex(name, a.dtype());
  if (!is_floating(a.dtype())) fail("std and var only support floating point and complex dtypes");
  if (degrees_of_freedom(a.sizes(), dims, correction) <= 0) {
    const std::string text = std::string(name) +
                             "(): degrees of freedom is <= 0. Correction should be strictly less than the "
                             "reduction factor (input numel divided by output numel).";
    python.warn(text.c_str());
  }
  for (int k = 0; k < 2; ++k) {
    out[k].dtype = a.dtype();
    out[k].device = a->device;
    dims.shape_into(a.sizes(), keepdim, &out[k]);
  }
}

void run_moments(cpu::Spread kind, const Tensor& a, const ReducedDims& dims, const std::optional<Scalar>& correction,
                 Tensor* out) {
  const ReductionPlan plan(a.get(), dims);
  Unlocked unlocked(a.numel() >= 64 * 1024);
  cpu::moments(a.dtype(), out[0].dtype(), out[1]->data, out[0]->data, kind, correction ? correction->to_double() : 1.0,
               plan.outer, plan.reduced, plan.reduced_sizes, plan.reduced_strides);
}

// From the gradients of a variance (or none) and of the mean (or none).
Tensor moments_gradient(const Tensor& of_variance, const Tensor& of_mean, const Tensor& x, const Tensor& mean,
                        const ReducedDims& dims, const std::optional<Scalar>& correction) {
  Tensor total;
  if (of_variance) {
    const double freedom = degrees_of_freedom(x.sizes(), dims, correction);
    // Without freedom the variance is infinite, and NaN where an element is the mean.
    total = freedom > 0 ? of_variance * (2.0 / freedom) * (x - mean)
                        : of_variance * where(eq(x, mean), number(std::nan("")), number(HUGE_VAL));
  }
  if (of_mean) {
    const Tensor each = of_mean / number(static_cast<double>(dims.count(x.sizes())));
    total = total ? total + each : expand(each, x.sizes());
  }
  return total;
}

// g / y, and 0 where y is 0; so are its derivatives.
Tensor quotient_or_zero(const Tensor& g, const Tensor& y) { return g / where(eq(y, number(0.0)), number(HUGE_VAL), y); }

}  // namespace

// ---- variance and standard deviation ----------------------------------------------------------------

struct VarMean {
  static constexpr Schema schema{
      "var_mean(Tensor self, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)"};
  static constexpr uint32_t traits = kReduction;
  static constexpr Saves saves{{input(0) | output(1)}};
  std::optional<Dims> dim;
  std::optional<Scalar> correction;
  bool keepdim;

  void infer(Inputs in, Meta* out) const {
    infer_moments("var", in[0], ReducedDims(in[0].ndim(), dim), correction, keepdim, out);
  }
  void run(Inputs in, Tensor* out) const {
    run_moments(cpu::Spread::Variance, in[0], ReducedDims(in[0].ndim(), dim), correction, out);
  }
  static void vjp(Backward& b) {
    const VarMean& op = b.op<VarMean>();
    const Tensor x = b.input(0);
    const ReducedDims dims(x.ndim(), op.dim);
    auto restored = [&](const Tensor& t) { return t ? with_reduced_dims(t, x.sizes(), dims, op.keepdim) : t; };
    b.set(0, moments_gradient(restored(b.grad(0)), restored(b.grad(1)), x, restored(b.output(1)), dims, op.correction));
  }
};
WEFT_OP(VarMean);

struct StdMean {
  static constexpr Schema schema{
      "std_mean(Tensor self, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)"};
  static constexpr uint32_t traits = kReduction;
  static constexpr Saves saves{{input(0) | output(0) | output(1)}};
  std::optional<Dims> dim;
  std::optional<Scalar> correction;
  bool keepdim;

  void infer(Inputs in, Meta* out) const {
    infer_moments("std", in[0], ReducedDims(in[0].ndim(), dim), correction, keepdim, out);
  }
  void run(Inputs in, Tensor* out) const {
    run_moments(cpu::Spread::Deviation, in[0], ReducedDims(in[0].ndim(), dim), correction, out);
  }
  static void vjp(Backward& b) {
    const StdMean& op = b.op<StdMean>();
    const Tensor x = b.input(0);
    const ReducedDims dims(x.ndim(), op.dim);
    auto restored = [&](const Tensor& t) { return t ? with_reduced_dims(t, x.sizes(), dims, op.keepdim) : t; };
    const Tensor of_variance = b.grad(0) ? quotient_or_zero(b.grad(0) * 0.5, b.output(0)) : Tensor();
    b.set(0,
          moments_gradient(restored(of_variance), restored(b.grad(1)), x, restored(b.output(1)), dims, op.correction));
  }
};
WEFT_OP(StdMean);

namespace {

template <class Moments> void both_moments(const OpTable& table, const Moments& op, const Tensor& a, Tensor* out) {
  TensorImpl* in[] = {a.get()};
  apply(table, &op, Inputs(in, 1), out);
}
template <class Moments> Tensor spread(const OpTable& table, const Moments& op, const Tensor& a) {
  Tensor out[2];
  both_moments(table, op, a, out);
  return std::move(out[0]);
}
template <class Moments>
void list_moments(const OpTable& table, const Moments& op, const Tensor& a, std::vector<Tensor>& list) {
  list.resize(2);
  both_moments(table, op, a, list.data());
}
Scalar correction_of(bool unbiased) { return Scalar(int64_t{unbiased}); }

}  // namespace

// The same without the mean, and with `unbiased` for correction=1 and correction=0.
#define WEFT_SPREAD(Moments, name, Struct, OfUnbiased, OfUnbiasedDim)                                                  \
  struct Struct {                                                                                                      \
    static constexpr Schema schema{                                                                                    \
        #name "(Tensor self, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"};             \
    std::optional<Dims> dim;                                                                                           \
    std::optional<Scalar> correction;                                                                                  \
    bool keepdim;                                                                                                      \
                                                                                                                       \
    Tensor compose(Inputs in) const { return spread(op_##Moments, Moments{dim, correction, keepdim}, in[0]); }         \
  };                                                                                                                   \
  WEFT_OP(Struct);                                                                                                     \
                                                                                                                       \
  struct OfUnbiased {                                                                                                  \
    static constexpr Schema schema{#name ".unbiased(Tensor self, bool unbiased) -> Tensor"};                           \
    bool unbiased;                                                                                                     \
                                                                                                                       \
    Tensor compose(Inputs in) const {                                                                                  \
      return spread(op_##Moments, Moments{{}, correction_of(unbiased), false}, in[0]);                                 \
    }                                                                                                                  \
  };                                                                                                                   \
  WEFT_OP(OfUnbiased);                                                                                                 \
                                                                                                                       \
  struct OfUnbiasedDim {                                                                                               \
    static constexpr Schema schema{#name                                                                               \
                                   ".dim(Tensor self, int[]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"}; \
    std::optional<Dims> dim;                                                                                           \
    bool unbiased, keepdim;                                                                                            \
                                                                                                                       \
    Tensor compose(Inputs in) const {                                                                                  \
      return spread(op_##Moments, Moments{dim, correction_of(unbiased), keepdim}, in[0]);                              \
    }                                                                                                                  \
  };                                                                                                                   \
  WEFT_OP(OfUnbiasedDim);                                                                                              \
                                                                                                                       \
  struct Moments##Unbiased {                                                                                           \
    static constexpr Schema schema{#name "_mean.unbiased(Tensor self, bool unbiased) -> (Tensor, Tensor)"};            \
    bool unbiased;                                                                                                     \
                                                                                                                       \
    void compose_list(Inputs in, std::vector<Tensor>& out) const {                                                     \
      list_moments(op_##Moments, Moments{{}, correction_of(unbiased), false}, in[0], out);                             \
    }                                                                                                                  \
  };                                                                                                                   \
  WEFT_OP(Moments##Unbiased);                                                                                          \
                                                                                                                       \
  struct Moments##UnbiasedDim {                                                                                        \
    static constexpr Schema schema{                                                                                    \
        #name "_mean.dim(Tensor self, int[]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)"};       \
    std::optional<Dims> dim;                                                                                           \
    bool unbiased, keepdim;                                                                                            \
                                                                                                                       \
    void compose_list(Inputs in, std::vector<Tensor>& out) const {                                                     \
      list_moments(op_##Moments, Moments{dim, correction_of(unbiased), keepdim}, in[0], out);                          \
    }                                                                                                                  \
  };                                                                                                                   \
  WEFT_OP(Moments##UnbiasedDim);

WEFT_SPREAD(VarMean, var, Var, VarUnbiased, VarDim)
WEFT_SPREAD(StdMean, std, Std, StdUnbiased, StdDim)

// ---- norms ------------------------------------------------------------------------------------------

namespace {

// Half precision is carried along in float32.
DType norm_dtype(DType dtype) { return dtype == DType::Float64 ? DType::Float64 : DType::Float32; }

// |a|, contiguous, in the dtype norms are computed in.
Tensor magnitudes(const Tensor& a, DType dtype) {
  Tensor copy = empty(a.sizes(), dtype, a->device);
  copy_into(copy, a);
  cpu::tile_table().of(Elementwise::abs, dtype)(nullptr, copy.numel(), copy->data, copy->data, nullptr, nullptr);
  return copy;
}

void raise_in_place(const Tensor& a, double exponent) {
  const Tensor e = wrapped_number(Scalar(exponent));
  TensorImpl* in[] = {a.get(), e.get()};
  Tensor out[] = {a};
  run_operation(op_PowTensor, nullptr, Inputs(in, 2), out);
}

}  // namespace

struct VectorNorm {
  static constexpr Schema schema{
      "linalg_vector_norm(Tensor self, Scalar ord=2, int[]? dim=None, bool keepdim=False, *, DType? dtype=None) -> "
      "Tensor"};
  static constexpr uint32_t traits = kReduction | kExactOut;
  static constexpr Saves saves{{input(0) | output(0)}};
  static constexpr const char* backward_name = "LinalgVectorNormBackward0";
  Scalar ord;
  std::optional<Dims> dim;
  bool keepdim;
  std::optional<DType> dtype;

  void infer(Inputs in, Meta* out) const {
    const Tensor& a = in[0];
    refuse_complex("linalg.vector_norm", a.dtype());
    if (!is_floating(a.dtype())) {
      fail("linalg.vector_norm: Expected a floating point or complex tensor as input. Got ", dtype_name(a.dtype()));
    }
    if (dtype) {
      refuse_complex("linalg.vector_norm", *dtype);
      if (!is_floating(*dtype)) {
        fail("linalg.vector_norm: dtype should be floating point or complex, but got ", dtype_name(*dtype));
      }
      if (item_size(*dtype) < item_size(a.dtype())) {
        fail("linalg.vector_norm: the dtype of the input (", dtype_name(a.dtype()),
             ") should be convertible without narrowing "
             "to the specified dtype (",
             dtype_name(*dtype), ")");
      }
    }
    const ReducedDims dims(a.ndim(), dim);
    const double p = ord.to_double();
    if (a.numel() == 0 && (p < 0 || std::isinf(p))) {
      if (!dim || dim->empty()) {
        fail("linalg.vector_norm cannot compute the ", p,
             " norm on an empty tensor because the operation does not have an "
             "identity");
      }
      for (int d = 0; d < a.ndim(); ++d) {
        if (dims.reduced[d] && a.size(d) == 0) {
          fail("linalg.vector_norm cannot compute the ", p, " norm on the dimension ", d,
               " because this dimension is empty and "
               "the operation does not have an identity");
        }
      }
    }
    out->dtype = dtype.value_or(a.dtype());
    out->device = a->device;
    dims.shape_into(a.sizes(), keepdim, out);
  }

  void run(Inputs in, Tensor* out) const {
    const Tensor& a = in[0];
    const ReducedDims dims(a.ndim(), dim);
    const double p = ord.to_double();
    if (p == 2) return run_reduction(cpu::Reduction::EuclideanNorm, a, dims, out[0]);
    if (p == 1) return run_reduction(cpu::Reduction::SumOfAbs, a, dims, out[0]);
    if (p == 0) {
      const Tensor count = empty(out[0].sizes(), DType::Int64);
      run_reduction(cpu::Reduction::CountNonzero, a, dims, count);
      return copy_into(out[0], count);
    }
    const DType type = norm_dtype(out[0].dtype());
    const Tensor x = magnitudes(a, type);
    const Tensor norm = out[0].dtype() == type ? out[0] : empty(out[0].sizes(), type);
    if (std::isinf(p)) {
      run_reduction(p > 0 ? cpu::Reduction::Amax : cpu::Reduction::Amin, x, dims, norm);
    } else {
      raise_in_place(x, p);
      run_reduction(cpu::Reduction::Sum, x, dims, norm);
      raise_in_place(norm, 1.0 / p);
    }
    if (norm.get() != out[0].get()) copy_into(out[0], norm);
  }

  // Where the norm is zero PyTorch's choice among the subgradients is zero, which is followed here.
  static void vjp(Backward& b) {
    const VectorNorm& op = b.op<VectorNorm>();
    const double p = op.ord.to_double();
    if (p == 0) return;
    const Tensor x = to_dtype(b.input(0), b.output_dtype());
    const ReducedDims dims(x.ndim(), op.dim);
    const Tensor g = with_reduced_dims(b.grad(), x.sizes(), dims, op.keepdim);
    if (p == 1) return b.set(0, g * sign(x));
    const Tensor norm = with_reduced_dims(b.output(), x.sizes(), dims, op.keepdim);
    if (p == 2) return b.set(0, quotient_or_zero(g, norm) * x);
    if (std::isinf(p)) {
      const Tensor size = abs(x);
      const Tensor attains = logical_or(eq(size, norm), logical_and(ne(size, size), ne(norm, norm)));
      return b.set(0, shared_by_extremes(g, attains, dims) * sign(x));
    }
    // sign(x) |x|^(p-1) / norm^(p-1): the sign takes care of x = 0, where the power may be infinite.
    const Tensor zero = number(0.0);
    const Tensor size = where(eq(x, zero), number(1.0), abs(x));
    const Tensor scale = pow(where(eq(norm, zero), number(p > 1 ? HUGE_VAL : 0.0), norm), number(1.0 - p));
    b.set(0, g * scale * (sign(x) * pow(size, number(p - 1.0))));
  }
};
WEFT_OP(VectorNorm);

}  // namespace weft
