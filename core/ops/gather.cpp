// An index for every element, along one dimension: gather and scatter.
#include <algorithm>
#include <optional>

#include "core/ops/along.h"

namespace weft {

namespace {

constexpr int64_t kUnlockAt = 64 * 1024;

void check_found(const cpu::IndexStatus& status, const AlongDim& along) {
  if (!status) fail_out_of_bounds(ErrorKind::Runtime, status.value, along.dim, along.size);
}

void scatter_along(cpu::Scatter kind, const Tensor& self, int64_t dim, const Tensor& index, cpu::Strided from,
                   bool include_self = true) {
  AlongDim target(self, dim);
  Layout at(index);
  cpu::IndexStatus status;
  {
    Unlocked unlocked(index.numel() >= kUnlockAt);
    status = cpu::scatter(kind, self.dtype(), target.self, target.dim, at.at_least_1d(), from, include_self);
  }
  check_found(status, target);
}

void check_index_dtype(const char* name, const Tensor& index) {
  if (index.numel() != 0 && index.dtype() != DType::Int64 && index.dtype() != DType::Int32) {
    fail(name, "(): Expected dtype int32/int64 for index");
  }
}

// Index and self of scatter; src too when it is a tensor.
void check_scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor* src) {
  const int64_t along = wrap_dim(dim, self.ndim());
  check_index_dtype("scatter", index);
  if (src && self.dtype() != src->dtype()) fail("scatter(): Expected self.dtype to be equal to src.dtype");
  if (index.numel() == 0) return;
  if (rank(index) != rank(self)) fail("Index tensor must have the same number of dimensions as self tensor");
  if (src && rank(*src) != rank(index)) fail("Index tensor must have the same number of dimensions as src tensor");
  for (int d = 0; d < rank(index); ++d) {
    const int64_t n = extent(index, d);
    if ((d == along || n <= extent(self, d)) && (!src || n <= extent(*src, d))) continue;
    if (src) {
      fail("Expected index ", shape_text(index.sizes()), " to be no larger than self ", shape_text(self.sizes()),
           " apart from dimension ", along, " and to be no larger size than src ", shape_text(src->sizes()));
    }
    fail("Expected index ", shape_text(index.sizes()), " to be no larger than self ", shape_text(self.sizes()),
         " apart from dimension ", along);
  }
}

void run_scatter(cpu::Scatter kind, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                 bool include_self = true) {
  check_not_written(src, self);
  check_not_written(index, self);
  if (index.numel() == 0) return;
  const Tensor wide = long_index(index);
  Layout from(src);
  scatter_along(kind, self, dim, wide, from.at_least_1d(), include_self);
}

void run_scatter(cpu::Scatter kind, const Tensor& self, int64_t dim, const Tensor& index, Scalar value) {
  check_not_written(index, self);
  if (index.numel() == 0) return;
  const Tensor wide = long_index(index);
  const Tensor one = full({}, value, self.dtype());
  scatter_along(kind, self, dim, wide, Layout(one, wide.sizes()).at_least_1d());
}

cpu::Scatter scatter_kind(const std::string& reduce) {
  if (reduce == "add") return cpu::Scatter::Sum;
  if (reduce == "multiply") return cpu::Scatter::Prod;
  fail("reduce argument must be either add or multiply.");
}

// src of scatter where indices read it.
Tensor read_part(const Tensor& src, const Tensor& index) {
  Tensor part = src;
  for (int d = 0; d < src.ndim(); ++d) {
    if (part.size(d) != extent(index, d)) part = narrow(part, d, 0, extent(index, d));
  }
  return part;
}

Tensor gathered_for(const Tensor& grad, int64_t dim, const Tensor& index, IntSpan src_sizes) {
  if (index.numel() == 0) return zeros(src_sizes, grad.dtype());
  return padded_gradient(gather(grad, dim, index), src_sizes);
}

}  // namespace

struct Gather {
  static constexpr Schema schema{"gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"};
  static constexpr uint32_t traits = kLinear | kExactOut;
  static constexpr Saves saves{{input(1)}};
  int64_t dim;
  bool sparse_grad;

  void infer(Inputs in, Meta* out) const {
    const Tensor &self = in[0], &index = in[1];
    const int64_t along = wrap_dim(dim, self.ndim());
    out->set(self.dtype(), self->device, index.sizes());
    check_index_dtype("gather", index);
    if (index.numel() == 0) return;
    if (rank(index) != rank(self)) fail("Index tensor must have the same number of dimensions as input tensor");
    for (int d = 0; d < rank(self); ++d) {
      if (d == along || extent(index, d) <= extent(self, d)) continue;
      fail("Size does not match at dimension ", d, " expected index ", shape_text(index.sizes()),
           " to be no larger than self ", shape_text(self.sizes()), " apart from dimension ", along);
    }
  }
  void run(Inputs in, Tensor* out) const {
    if (in[1].numel() == 0) return;
    AlongDim source(in[0], dim);
    const Tensor index = long_index(in[1]);
    Layout at(index), to(out[0]);
    to.at_least_1d();
    cpu::IndexStatus status;
    {
      Unlocked unlocked(index.numel() >= kUnlockAt);
      status = cpu::gather(item_size(in[0].dtype()), to, source.self, source.dim, at.at_least_1d());
    }
    check_found(status, source);
  }
  static void vjp(Backward& b) {
    const int64_t dim = b.op<Gather>().dim;
    const Tensor grad = b.grad(), index = b.input(1);
    if (TensorImpl* waiting = ready_destination(b, grad)) {
      ensure_value(index.get());
      run_scatter(cpu::Scatter::Sum, Tensor::share(waiting), dim, index, grad);
      return b.added(0);
    }
    b.set(0, scatter_add(zeros(b.input_sizes(0), grad.dtype()), dim, index, grad));
  }
};
WEFT_OP(Gather);

struct ScatterTensor {
  static constexpr Schema schema{
      "scatter.src(Tensor self, int dim, Tensor index, Tensor src, *, str? reduce=None) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kExactOut;
  static constexpr Saves saves{{input(1), 0, input(1)}};
  static constexpr const char* backward_name = "ScatterBackward0";
  int64_t dim;
  std::optional<std::string> reduce;

  void infer(Inputs in, Meta* out) const {
    if (reduce) scatter_kind(*reduce);
    check_scatter(in[0], dim, in[1], &in[2]);
    out->like(in[0]);
  }
  void run(Inputs in, Tensor* out) const {
    run_scatter(reduce ? scatter_kind(*reduce) : cpu::Scatter::Assign, out[0], dim, in[1], in[2]);
  }
  static void vjp(Backward& b) {
    const ScatterTensor& op = b.op<ScatterTensor>();
    if (op.reduce == "multiply") {
      fail(ErrorKind::NotImplemented,
           "the derivative for 'scatter' with reduce='multiply' is not implemented. Use "
           "scatter_reduce(..., reduce='prod').");
    }
    if (b.needs(0)) b.set(0, op.reduce ? b.grad() : scatter(b.grad(), op.dim, b.input(1), Scalar(0)));
    if (b.needs(2)) b.set(2, gathered_for(b.grad(), op.dim, b.input(1), b.input_sizes(2)));
  }
};
WEFT_OP(ScatterTensor);

struct ScatterValue {
  static constexpr Schema schema{
      "scatter.value(Tensor self, int dim, Tensor index, Scalar value, *, str? reduce=None) -> "
      "Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kExactOut;
  static constexpr Saves saves{{input(1)}};
  static constexpr const char* backward_name = "ScatterBackward1";
  int64_t dim;
  Scalar value;
  std::optional<std::string> reduce;

  void infer(Inputs in, Meta* out) const {
    if (reduce) scatter_kind(*reduce);
    check_scatter(in[0], dim, in[1], nullptr);
    out->like(in[0]);
  }
  void run(Inputs in, Tensor* out) const {
    run_scatter(reduce ? scatter_kind(*reduce) : cpu::Scatter::Assign, out[0], dim, in[1], value);
  }
  static void vjp(Backward& b) {
    const ScatterValue& op = b.op<ScatterValue>();
    if (!op.reduce) return b.set(0, scatter(b.grad(), op.dim, b.input(1), Scalar(0)));
    if (op.reduce == "add") return b.set(0, b.grad());
    fail(ErrorKind::NotImplemented,
         "the derivative for 'scatter' with reduce='multiply' is not implemented. Use "
         "scatter_reduce(..., reduce='prod').");
  }
};
WEFT_OP(ScatterValue);

struct ScatterAdd {
  static constexpr Schema schema{"scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kExactOut;
  static constexpr Saves saves{{0, 0, input(1)}};
  int64_t dim;

  void infer(Inputs in, Meta* out) const {
    check_scatter(in[0], dim, in[1], &in[2]);
    out->like(in[0]);
  }
  void run(Inputs in, Tensor* out) const { run_scatter(cpu::Scatter::Sum, out[0], dim, in[1], in[2]); }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, b.grad());
    if (b.needs(2)) b.set(2, gathered_for(b.grad(), b.op<ScatterAdd>().dim, b.input(1), b.input_sizes(2)));
  }
};
WEFT_OP(ScatterAdd);

extern const OpTable op_ScatterReduce;
struct ScatterReduce {
  static constexpr Schema schema{
      "scatter_reduce(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool "
      "include_self=True) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kExactOut;
  static constexpr uint32_t kEverything = input(0) | input(1) | input(2) | output(0);
  static constexpr Saves saves{{kEverything, 0, kEverything}};
  int64_t dim;
  std::string reduce;
  bool include_self;

  cpu::Scatter kind() const {
    if (reduce == "sum") return cpu::Scatter::Sum;
    if (reduce == "prod") return cpu::Scatter::Prod;
    if (reduce == "mean") return cpu::Scatter::Mean;
    if (reduce == "amax") return cpu::Scatter::Amax;
    if (reduce == "amin") return cpu::Scatter::Amin;
    fail("reduce argument must be either sum, prod, mean, amax or amin, got ", reduce);
  }
  void infer(Inputs in, Meta* out) const {
    kind();
    check_scatter(in[0], dim, in[1], &in[2]);
    out->like(in[0]);
  }
  void run(Inputs in, Tensor* out) const { run_scatter(kind(), out[0], dim, in[1], in[2], include_self); }

  static void vjp(Backward& b) {
    const ScatterReduce& op = b.op<ScatterReduce>();
    const Tensor grad = b.grad(), self = b.input(0), index = b.input(1), all_src = b.input(2), result = b.output();
    if (index.numel() == 0) {
      if (b.needs(0)) b.set(0, grad);
      if (b.needs(2)) b.set(2, zeros(all_src.sizes(), grad.dtype()));
      return;
    }
    const Tensor src = read_part(all_src, index);
    Tensor for_self, for_src;
    switch (op.kind()) {
      case cpu::Scatter::Mean: op.mean_gradient(b, grad, index, src, for_self, for_src); break;
      case cpu::Scatter::Prod: op.prod_gradient(b, grad, self, index, src, result, for_self, for_src); break;
      case cpu::Scatter::Amax:
      case cpu::Scatter::Amin: op.extreme_gradient(grad, self, index, src, result, for_self, for_src); break;
      default:
        for_self = grad;
        if (b.needs(2)) for_src = gather(grad, op.dim, index);
    }
    if (b.needs(0)) b.set(0, op.include_self ? for_self : scatter(for_self, op.dim, index, Scalar(0)));
    if (b.needs(2)) b.set(2, padded_gradient(for_src, all_src.sizes()));
  }

 private:
  void mean_gradient(Backward& b, const Tensor& grad, const Tensor& index, const Tensor& src, Tensor& for_self,
                     Tensor& for_src) const {
    const Tensor none = full(grad.sizes(), include_self ? 1.0 : 0.0, grad.dtype());
    const Tensor count = scatter_add(none, dim, index, full(src.sizes(), 1.0, grad.dtype()));
    for_self = grad / masked_fill(count, eq(count, number(int64_t{0})), Scalar(1.0));
    if (b.needs(2)) for_src = gather(for_self, dim, index);
  }

  // Everything that was multiplied but the one element; zeros are left out of the quotient.
  void prod_gradient(Backward& b, const Tensor& grad, const Tensor& self, const Tensor& index, const Tensor& src,
                     const Tensor& result, Tensor& for_self, Tensor& for_src) const {
    const Tensor zero = number(int64_t{0});
    if (b.needs(0)) {
      const Tensor masked_self = masked_fill(self, eq(self, zero), Scalar(1.0));
      for_self = grad * call(op_ScatterReduce, *this, masked_self, index, src) / masked_self;
    }
    if (!b.needs(2)) return;
    const Tensor is_zero = eq(src, zero);
    const Tensor zero_count =
        gather(scatter_add(zeros(self.sizes(), self.dtype()), dim, index, to_dtype(is_zero, self.dtype())), dim, index);
    const Tensor only_zero = logical_and(is_zero, eq(zero_count, number(int64_t{1})));
    const Tensor without_zero = masked_fill(src, only_zero, Scalar(1.0));
    const Tensor others = call(op_ScatterReduce, *this, self, index, without_zero);
    for_src = where(only_zero, gather(grad * others, dim, index),
                    gather(grad * result, dim, index) / masked_fill(src, is_zero, Scalar(1.0)));
  }

  // Elements that share the extreme share its gradient.
  void extreme_gradient(const Tensor& grad, const Tensor& self, const Tensor& index, const Tensor& src,
                        const Tensor& result, Tensor& for_self, Tensor& for_src) const {
    const Tensor self_wins = to_dtype(eq(self, result), self.dtype());
    const Tensor src_wins = to_dtype(eq(src, gather(result, dim, index)), self.dtype());
    const Tensor share = grad / scatter_add(self_wins, dim, index, src_wins);
    for_self = self_wins * share;
    for_src = src_wins * gather(share, dim, index);
  }
};
WEFT_OP(ScatterReduce);

// ---- for C++ ------------------------------------------------------------------------------------

Tensor gather(const Tensor& a, int64_t dim, const Tensor& index) {
  return call(op_Gather, Gather{dim, false}, a, index);
}
Tensor scatter(const Tensor& a, int64_t dim, const Tensor& index, const Tensor& src) {
  return call(op_ScatterTensor, ScatterTensor{dim, {}}, a, index, src);
}
Tensor scatter(const Tensor& a, int64_t dim, const Tensor& index, Scalar value) {
  return call(op_ScatterValue, ScatterValue{dim, value, {}}, a, index);
}
Tensor scatter_add(const Tensor& a, int64_t dim, const Tensor& index, const Tensor& src) {
  return call(op_ScatterAdd, ScatterAdd{dim}, a, index, src);
}

Tensor selected_gradient(const Tensor& gradient, int64_t dim, const Tensor& indices, IntSpan sizes, bool keepdim) {
  const Tensor zero = zeros(sizes, gradient.dtype());
  if (sizes.empty()) return reshape(gradient, sizes);
  if (keepdim) return scatter(zero, dim, indices, gradient);
  return scatter(zero, dim, unsqueeze(indices, dim), unsqueeze(gradient, dim));
}

}  // namespace weft
