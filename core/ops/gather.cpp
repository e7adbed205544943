// Reading and writing along one dimension: gather and scatter, index_select and its relatives, take
// and put, embedding.
#include <algorithm>
#include <optional>

#include "core/ops/indexing.h"

namespace weft {

extern const OpTable op_Take;
extern const OpTable op_IndexCopy;

namespace {

constexpr int64_t kUnlockAt = 64 * 1024;

// Works in place into `self`, along a dimension. What an operation may write to is checked before.
struct Target {
  Layout self;
  int dim;
  int64_t size;

  Target(const Tensor& t, int64_t given_dim)
      : self(t),
        dim(static_cast<int>(wrap_dim(given_dim, t.ndim()))),
        size(t.ndim() == 0 ? 1 : t.size(dim)) {
    self.at_least_1d();
  }
};

// Positions along a dimension; negative ones are refused.
Tensor checked_index(const Tensor& index, const Target& target, ErrorKind kind) {
  Tensor wide = long_index(index);
  if (const auto bad = position_outside(wide, target.size))
    fail_out_of_bounds(kind, *bad, target.dim, target.size);
  return wide;
}

void write_along(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& values,
                 bool accumulate) {
  Target target(self, dim);
  Layout at(index), from(values);
  from.at_least_1d();
  Unlocked unlocked(values.numel() >= kUnlockAt);
  cpu::index_write(self.dtype(), target.self, target.dim, at.at_least_1d(), from, accumulate);
}

void scatter_along(cpu::Scatter kind, const Tensor& self, int64_t dim, const Tensor& index,
                   cpu::Strided from, bool include_self = true) {
  Target target(self, dim);
  Layout at(index);
  Unlocked unlocked(index.numel() >= kUnlockAt);
  cpu::scatter(kind, self.dtype(), target.self, target.dim, at.at_least_1d(), from, include_self);
}

int64_t extent(const Tensor& t, int d) { return t.ndim() == 0 ? 1 : t.size(d); }
int rank(const Tensor& t) { return std::max(t.ndim(), 1); }

void check_index_dtype(const char* name, const Tensor& index) {
  if (index.numel() != 0 && index.dtype() != DType::Int64 && index.dtype() != DType::Int32) {
    fail(name, "(): Expected dtype int32/int64 for index");
  }
}

// Index and self of scatter; src too when it is a tensor.
void check_scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor* src) {
  const int64_t along = wrap_dim(dim, self.ndim());
  check_index_dtype("scatter", index);
  if (src && self.dtype() != src->dtype())
    fail("scatter(): Expected self.dtype to be equal to src.dtype");
  if (index.numel() == 0) return;
  if (rank(index) != rank(self))
    fail("Index tensor must have the same number of dimensions as self tensor");
  if (src && rank(*src) != rank(index))
    fail("Index tensor must have the same number of dimensions as src tensor");
  for (int d = 0; d < rank(index); ++d) {
    const int64_t n = extent(index, d);
    if ((d == along || n <= extent(self, d)) && (!src || n <= extent(*src, d))) continue;
    if (src) {
      fail("Expected index ", shape_text(index.sizes()), " to be no larger than self ",
           shape_text(self.sizes()), " apart from dimension ", along,
           " and to be no larger size than src ", shape_text(src->sizes()));
    }
    fail("Expected index ", shape_text(index.sizes()), " to be no larger than self ",
         shape_text(self.sizes()), " apart from dimension ", along);
  }
}

void run_scatter(cpu::Scatter kind, const Tensor& self, int64_t dim, const Tensor& index,
                 const Tensor& src, bool include_self = true) {
  check_not_written(src, self);
  check_not_written(index, self);
  if (index.numel() == 0) return;
  const Tensor wide = checked_index(index, Target(self, dim), ErrorKind::Runtime);
  Layout from(src);
  scatter_along(kind, self, dim, wide, from.at_least_1d(), include_self);
}

void run_scatter(cpu::Scatter kind, const Tensor& self, int64_t dim, const Tensor& index,
                 Scalar value) {
  check_not_written(index, self);
  if (index.numel() == 0) return;
  const Tensor wide = checked_index(index, Target(self, dim), ErrorKind::Runtime);
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

// ---- gather and scatter -------------------------------------------------------------------------

struct Gather {
  static constexpr Schema schema{
      "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"};
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
    if (rank(index) != rank(self))
      fail("Index tensor must have the same number of dimensions as input tensor");
    for (int d = 0; d < rank(self); ++d) {
      if (d == along || extent(index, d) <= extent(self, d)) continue;
      fail("Size does not match at dimension ", d, " expected index ", shape_text(index.sizes()),
           " to be no larger than self ", shape_text(self.sizes()), " apart from dimension ",
           along);
    }
  }
  void run(Inputs in, Tensor* out) const {
    if (in[1].numel() == 0) return;
    Target source(in[0], dim);
    const Tensor index = checked_index(in[1], source, ErrorKind::Runtime);
    Layout at(index), to(out[0]);
    to.at_least_1d();
    Unlocked unlocked(index.numel() >= kUnlockAt);
    cpu::gather(item_size(in[0].dtype()), to, source.self, source.dim, at.at_least_1d());
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
    if (b.needs(0))
      b.set(0, op.reduce ? b.grad() : scatter(b.grad(), op.dim, b.input(1), Scalar(0)));
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
  static constexpr Schema schema{
      "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kExactOut;
  static constexpr Saves saves{{0, 0, input(1)}};
  int64_t dim;

  void infer(Inputs in, Meta* out) const {
    check_scatter(in[0], dim, in[1], &in[2]);
    out->like(in[0]);
  }
  void run(Inputs in, Tensor* out) const {
    run_scatter(cpu::Scatter::Sum, out[0], dim, in[1], in[2]);
  }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, b.grad());
    if (b.needs(2))
      b.set(2, gathered_for(b.grad(), b.op<ScatterAdd>().dim, b.input(1), b.input_sizes(2)));
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
  void run(Inputs in, Tensor* out) const {
    run_scatter(kind(), out[0], dim, in[1], in[2], include_self);
  }

  static void vjp(Backward& b) {
    const ScatterReduce& op = b.op<ScatterReduce>();
    const Tensor grad = b.grad(), self = b.input(0), index = b.input(1), all_src = b.input(2),
                 result = b.output();
    if (index.numel() == 0) {
      if (b.needs(0)) b.set(0, grad);
      if (b.needs(2)) b.set(2, zeros(all_src.sizes(), grad.dtype()));
      return;
    }
    const Tensor src = read_part(all_src, index);
    Tensor for_self, for_src;
    switch (op.kind()) {
      case cpu::Scatter::Mean: op.mean_gradient(b, grad, index, src, for_self, for_src); break;
      case cpu::Scatter::Prod:
        op.prod_gradient(b, grad, self, index, src, result, for_self, for_src);
        break;
      case cpu::Scatter::Amax:
      case cpu::Scatter::Amin:
        op.extreme_gradient(grad, self, index, src, result, for_self, for_src);
        break;
      default:
        for_self = grad;
        if (b.needs(2)) for_src = gather(grad, op.dim, index);
    }
    if (b.needs(0))
      b.set(0, op.include_self ? for_self : scatter(for_self, op.dim, index, Scalar(0)));
    if (b.needs(2)) b.set(2, padded_gradient(for_src, all_src.sizes()));
  }

 private:
  void mean_gradient(Backward& b, const Tensor& grad, const Tensor& index, const Tensor& src,
                     Tensor& for_self, Tensor& for_src) const {
    const Tensor none = full(grad.sizes(), include_self ? 1.0 : 0.0, grad.dtype());
    const Tensor count = scatter_add(none, dim, index, full(src.sizes(), 1.0, grad.dtype()));
    for_self = grad / masked_fill(count, eq(count, number(int64_t{0})), Scalar(1.0));
    if (b.needs(2)) for_src = gather(for_self, dim, index);
  }

  // Everything that was multiplied but the one element; zeros are left out of the quotient.
  void prod_gradient(Backward& b, const Tensor& grad, const Tensor& self, const Tensor& index,
                     const Tensor& src, const Tensor& result, Tensor& for_self,
                     Tensor& for_src) const {
    const Tensor zero = number(int64_t{0});
    if (b.needs(0)) {
      const Tensor masked_self = masked_fill(self, eq(self, zero), Scalar(1.0));
      for_self = grad * call(op_ScatterReduce, *this, masked_self, index, src) / masked_self;
    }
    if (!b.needs(2)) return;
    const Tensor is_zero = eq(src, zero);
    const Tensor zero_count = gather(
        scatter_add(zeros(self.sizes(), self.dtype()), dim, index, to_dtype(is_zero, self.dtype())),
        dim, index);
    const Tensor only_zero = logical_and(is_zero, eq(zero_count, number(int64_t{1})));
    const Tensor without_zero = masked_fill(src, only_zero, Scalar(1.0));
    const Tensor others = call(op_ScatterReduce, *this, self, index, without_zero);
    for_src = where(only_zero, gather(grad * others, dim, index),
                    gather(grad * result, dim, index) / masked_fill(src, is_zero, Scalar(1.0)));
  }

  // Elements that share the extreme share its gradient.
  void extreme_gradient(const Tensor& grad, const Tensor& self, const Tensor& index,
                        const Tensor& src, const Tensor& result, Tensor& for_self,
                        Tensor& for_src) const {
    const Tensor self_wins = to_dtype(eq(self, result), self.dtype());
    const Tensor src_wins = to_dtype(eq(src, gather(result, dim, index)), self.dtype());
    const Tensor share = grad / scatter_add(self_wins, dim, index, src_wins);
    for_self = self_wins * share;
    for_src = src_wins * gather(share, dim, index);
  }
};
WEFT_OP(ScatterReduce);

// ---- one dimension by a list of positions -------------------------------------------------------

extern const OpTable op_IndexAdd;

struct IndexAdd {
  static constexpr Schema schema{
      "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kExactOut;
  static constexpr Saves saves{{0, 0, input(1)}};
  int64_t dim;
  Scalar alpha = Scalar(1);

  void infer(Inputs in, Meta* out) const {
    const Tensor &self = in[0], &index = in[1], &source = in[2];
    const int64_t along = wrap_dim(dim, self.ndim());
    if (index.ndim() > 1) {
      fail(ErrorKind::Index,
           "index_add_(): Index is supposed to be a vector, but got dim: ", index.ndim(),
           " with type: ", scalar_type_name(index.dtype()),
           " and size: ", shape_text(index.sizes()));
    }
    if (index.dtype() != DType::Int64 && index.dtype() != DType::Int32) {
      fail("index_add_(): Expected dtype int32/int64 for index but got: ",
           scalar_type_name(index.dtype()));
    }
    if (self.dtype() != source.dtype()) {
      fail("index_add_(): self (", scalar_type_name(self.dtype()), ") and source (",
           scalar_type_name(source.dtype()), ") must have the same scalar type");
    }
    if (source.ndim() != 0 && along >= source.ndim()) {
      fail("index_add_(): Indexing dim ", along, " is out of bounds of the source tensor with dim ",
           source.ndim());
    }
    const int64_t count = extent(source, static_cast<int>(along));
    if (index.numel() != count) {
      fail("index_add_(): Number of indices (", index.numel(),
           ") should be equal to source.size(dim): (", count, "), for dim: ", along);
    }
    bool same = rank(self) == rank(source);
    for (int d = 0; same && d < self.ndim(); ++d)
      same = d == along || extent(source, d) == self.size(d);
    if (!same) {
      fail(
          "source tensor shape must match self tensor shape, excluding the specified dimension. "
          "Got self.shape = ",
          shape_text(self.sizes()), " source.shape = ", shape_text(source.sizes()));
    }
    out->like(self);
  }
  void run(Inputs in, Tensor* out) const {
    check_not_written(in[2], out[0]);
    check_not_written(in[1], out[0]);
    const Tensor index = checked_index(in[1], Target(out[0], dim), ErrorKind::Runtime);
    if (in[2].numel() == 0) return;
    write_along(out[0], dim, index, scaled(in[2]), true);
  }
  static void vjp(Backward& b) {
    const IndexAdd& op = b.op<IndexAdd>();
    if (b.needs(0)) b.set(0, b.grad());
    if (!b.needs(2)) return;
    const Tensor read = reshape(index_select(b.grad(), op.dim, b.input(1)), b.input_sizes(2));
    b.set(2, op.alpha == Scalar(1) ? read : read * op.alpha.to_double());
  }

 private:
  Tensor scaled(const Tensor& source) const {
    if (alpha.to_double() == 1.0) return source;
    const GradMode off(false);
    if (source.dtype() == DType::Bool) {
      return alpha.to_double() != 0 ? source : zeros(source.sizes(), DType::Bool);
    }
    return mul(source,
               is_integral(source.dtype()) ? number(alpha.to_int()) : number(alpha.to_double()));
  }
};
WEFT_OP(IndexAdd);

namespace {

// Adds rows of a gradient to the positions they were read from: into a gradient that already waits,
// if any.
void set_rows_gradient(Backward& b, int64_t dim, const Tensor& index, const Tensor& rows) {
  if (TensorImpl* waiting = ready_destination(b, rows)) {
    ensure_value(index.get());
    if (rows.numel() > 0) write_along(Tensor::share(waiting), dim, long_index(index), rows, true);
    return b.added(0);
  }
  b.set(0, index_add(zeros(b.input_sizes(0), rows.dtype()), dim, index, rows));
}

}  // namespace

struct IndexSelect {
  static constexpr Schema schema{"index_select(Tensor self, int dim, Tensor index) -> Tensor"};
  static constexpr uint32_t traits = kLinear | kExactOut;
  static constexpr Saves saves{{input(1)}};
  int64_t dim;

  void infer(Inputs in, Meta* out) const {
    const Tensor &self = in[0], &index = in[1];
    const int64_t along = wrap_dim(dim, self.ndim());
    if (index.ndim() > 1)
      fail(ErrorKind::Index, "index_select(): Index is supposed to be a vector");
    if (index.dtype() != DType::Int64 && index.dtype() != DType::Int32) {
      fail("index_select(): Expected dtype int32 or int64 for index");
    }
    if (self.ndim() == 0 && index.numel() != 1) {
      fail("index_select(): Index to scalar can have only 1 value, got ", index.numel(),
           " value(s)");
    }
    out->like(self);
    if (self.ndim() > 0) out->sizes[along] = index.numel();
  }
  void run(Inputs in, Tensor* out) const {
    Target source(in[0], dim);
    const Tensor index = long_index(in[1]);
    if (const auto bad = position_outside(index, source.size)) {
      fail(ErrorKind::Index, "index out of range in self: index ", *bad,
           " is out of bounds for dimension ", source.dim, " with size ", source.size);
    }
    if (out[0].numel() == 0) return;
    Layout at(index), to(out[0]);
    to.at_least_1d();
    Unlocked unlocked(out[0].numel() >= kUnlockAt);
    cpu::index_select(item_size(in[0].dtype()), to, source.self, source.dim, at.at_least_1d());
  }
  static void vjp(Backward& b) {
    set_rows_gradient(b, b.op<IndexSelect>().dim, b.input(1), b.grad());
  }
};
WEFT_OP(IndexSelect);

struct IndexFill {
  static constexpr Schema schema{
      "index_fill(Tensor self, int dim, Tensor index, Tensor|Scalar value) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kExactOut;
  static constexpr Saves saves{{input(1), 0, input(1)}};
  int64_t dim;

  void infer(Inputs in, Meta* out) const {
    const Tensor &self = in[0], &index = in[1], &value = in[2];
    wrap_dim(dim, self.ndim());
    if (index.dtype() != DType::Int64)
      fail(ErrorKind::Index, "index_fill_(): Expected dtype int64 for index.");
    if (index.ndim() > 1) fail("Index has to be a vector/scalar");
    if (value.ndim() != 0) {
      fail("index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
           value.ndim(), " dimension(s).");
    }
    out->like(self);
  }
  void run(Inputs in, Tensor* out) const {
    check_not_written(in[1], out[0]);
    Target target(out[0], dim);
    Layout at(in[1]);
    const Tensor one = empty({}, out[0].dtype());
    copy_into(one, in[2]);
    // Every place receives the one value: strides of 0.
    Dims shape(out[0].sizes());
    if (shape.empty()) shape = Dims{in[1].numel()};
    else shape[target.dim] = in[1].numel();
    const Layout repeated(one, shape);
    if (target.size > 0 && checked_numel(shape) == 0 && in[1].numel() == 0) return;
    const cpu::IndexStatus status = cpu::index_write(out[0].dtype(), target.self, target.dim,
                                                     at.at_least_1d(), repeated, false);
    if (!status) fail_out_of_bounds(ErrorKind::Index, status.value, target.dim, target.size);
  }
  static void vjp(Backward& b) {
    const IndexFill& op = b.op<IndexFill>();
    if (b.needs(0)) b.set(0, index_fill(b.grad(), op.dim, b.input(1), Scalar(0)));
    if (b.needs(2)) b.set(2, filled_sum(b.grad(), op.dim, b.input(1)));
  }

 private:
  // What has been filled counts once, however many indices named it.
  static Tensor filled_sum(const Tensor& grad, int64_t dim, const Tensor& index) {
    const int at = static_cast<int>(wrap_dim(dim, grad.ndim()));
    const int64_t size = extent(grad, at);
    const Tensor filled = index_fill(zeros(Dims{size}, grad.dtype()), 0, index, Scalar(1));
    Dims beside;
    beside.resize(grad.ndim());
    for (int d = 0; d < grad.ndim(); ++d) beside[d] = d == at ? size : 1;
    return sum_all(grad * reshape(filled, beside));
  }
};
WEFT_OP(IndexFill);

struct IndexCopy {
  static constexpr Schema schema{
      "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kExactOut;
  static constexpr Saves saves{{input(1), 0, input(1)}};
  int64_t dim;

  void infer(Inputs in, Meta* out) const {
    const Tensor &self = in[0], &index = in[1], &source = in[2];
    const int along = static_cast<int>(wrap_dim(dim, self.ndim()));
    if (index.ndim() >= 2) {
      fail(ErrorKind::Index, "index_copy_(): Index should have dimension 1 or 0 (got ",
           index.ndim(), ")");
    }
    const int64_t count = index.numel();
    if (source.ndim() == 0 && count != 1) {
      fail(ErrorKind::Index,
           "index_copy_(): When source is scalar, index should have one element (got ", count, ")");
    }
    if (source.ndim() != self.ndim() && source.ndim() != 0 && self.ndim() != 0) {
      fail(ErrorKind::Index,
           "index_copy_(): When source and destination are not scalars, their dimensionality must "
           "match. "
           "Source dimensionality (",
           source.ndim(), "), destination dimensionality (", self.ndim(), ")");
    }
    if (index.dtype() != DType::Int64) {
      fail("index_copy_(): Expected a long tensor for index, but got ",
           scalar_type_name(index.dtype()));
    }
    if (self.dtype() != source.dtype()) {
      fail("index_copy_(): self and source expected to have the same dtype, but got (self) ",
           scalar_type_name(self.dtype()), " and (source) ", scalar_type_name(source.dtype()));
    }
    check_slices(self, source, along);
    if (source.ndim() > 0 && count != extent(source, along)) {
      fail(ErrorKind::Index, "index_copy_(): Number of indices (", count,
           ") should be equal to source.size(dim) (", extent(source, along), ")");
    }
    out->like(self);
  }
  void run(Inputs in, Tensor* out) const {
    check_not_written(in[2], out[0]);
    check_not_written(in[1], out[0]);
    const Target target(out[0], dim);
    if (const auto bad = position_outside(in[1], target.size)) {
      fail(ErrorKind::Index, "index_copy_(): index ", *bad, " is out of bounds for dimension ",
           target.dim, " with size ", target.size);
    }
    if (in[2].numel() > 0) write_along(out[0], dim, in[1], in[2], false);
  }
  static void vjp(Backward& b) {
    const IndexCopy& op = b.op<IndexCopy>();
    if (b.needs(0)) b.set(0, index_fill(b.grad(), op.dim, b.input(1), Scalar(0)));
    if (b.needs(2)) b.set(2, reshape(index_select(b.grad(), op.dim, b.input(1)), b.input_sizes(2)));
  }

 private:
  // Self and source without the dimension that is indexed.
  static void check_slices(const Tensor& self, const Tensor& source, int along) {
    Dims slice, source_slice;
    for (int d = 0; d < self.ndim(); ++d)
      if (d != along) slice.push_back(self.size(d));
    for (int d = 0; d < source.ndim(); ++d)
      if (d != along) source_slice.push_back(source.size(d));
    if (slice == source_slice) return;
    fail(
        "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice "
        "shape: ",
        shape_text(slice), " at dimension ", along,
        " and source slice shape: ", shape_text(source_slice), " at dimension ", along, ".");
  }
};
WEFT_OP(IndexCopy);

// ---- positions in the flattened tensor ----------------------------------------------------------

namespace {

// A tensor as one line of elements, and the index into it.
struct FlatIndex {
  cpu::IndexedDim dim;
  cpu::AdvancedIndex index;
  cpu::Strided rest;

  FlatIndex(const Tensor& flat, const Tensor& at, const Layout& layout) {
    const cpu::Strided strided = layout;
    dim = {at->data, strided.strides, flat.numel(), item_size(flat.dtype())};
    index = {strided.ndim, strided.sizes, 1, &dim};
    rest = {flat->data, 0, nullptr, nullptr};
  }
};

[[noreturn]] void fail_outside_tensor(int64_t index, int64_t numel) {
  fail(ErrorKind::Index, "out of range: tried to access index ", index, " on a tensor of ", numel,
       " elements.");
}

}  // namespace

struct Put {
  static constexpr Schema schema{
      "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kExactOut;
  static constexpr Saves saves{{input(1), 0, input(1)}};
  bool accumulate;

  void infer(Inputs in, Meta* out) const {
    const Tensor &self = in[0], &index = in[1], &source = in[2];
    if (index.dtype() != DType::Int64) {
      fail("put_(): Expected a long tensor for index, but got ", scalar_type_name(index.dtype()));
    }
    if (self.dtype() != source.dtype()) {
      fail("put_(): self and source expected to have the same dtype, but got self.dtype = ",
           scalar_type_name(self.dtype()),
           " and source.dtype = ", scalar_type_name(source.dtype()));
    }
    if (source.numel() != index.numel()) {
      fail(ErrorKind::Index,
           "put_(): Expected source and index to have the same number of elements, but got "
           "source.numel() = ",
           source.numel(), ", index.numel() = ", index.numel());
    }
    if (self.numel() == 0 && index.numel() != 0) {
      fail(ErrorKind::Index, "put_(): Expected source.numel() == 0, as self is empty");
    }
    out->like(self);
  }
  void run(Inputs in, Tensor* out) const {
    check_not_written(in[2], out[0]);
    check_not_written(in[1], out[0]);
    if (in[1].numel() == 0) return;
    const bool apart = !out[0]->is_contiguous();
    const Tensor flat = apart ? detached_copy(out[0]) : out[0];
    const Tensor source = detached_copy(in[2]);
    const Tensor index = in[1]->is_contiguous() ? in[1] : detached_copy(in[1]);
    const int64_t count = index.numel(), step = 8, item = item_size(source.dtype());
    const cpu::IndexedDim dim{index->data, &step, flat.numel(), item};
    const cpu::IndexStatus status =
        cpu::index_put(flat.dtype(), {flat->data, 0, nullptr, nullptr}, {1, &count, 1, &dim},
                       {source->data, 1, &count, &item}, accumulate);
    if (!status) fail_outside_tensor(status.value, flat.numel());
    if (apart) copy_into(out[0], flat);
  }
  static void vjp(Backward& b);
};
WEFT_OP(Put);

struct Take {
  static constexpr Schema schema{"take(Tensor self, Tensor index) -> Tensor"};
  static constexpr uint32_t traits = kLinear | kExactOut;
  static constexpr Saves saves{{input(1)}};

  void infer(Inputs in, Meta* out) const {
    if (in[1].dtype() != DType::Int64) {
      fail("take(): Expected a long tensor for index, but got ", scalar_type_name(in[1].dtype()));
    }
    if (in[0].numel() == 0 && in[1].numel() != 0) {
      fail(ErrorKind::Index, "take(): tried to take from an empty tensor");
    }
    out->set(in[0].dtype(), in[0]->device, in[1].sizes());
  }
  void run(Inputs in, Tensor* out) const {
    if (in[1].numel() == 0) return;
    const Tensor flat = in[0]->is_contiguous() ? in[0] : detached_copy(in[0]);
    const Layout at(in[1]), to(out[0]);
    const FlatIndex from(flat, in[1], at);
    const cpu::IndexStatus status =
        cpu::index_get(item_size(flat.dtype()), to, from.rest, from.index);
    if (!status) fail_outside_tensor(status.value, flat.numel());
  }
  static void vjp(Backward& b) {
    const Tensor grad = b.grad();
    b.set(0, call(op_Put, Put{true}, zeros(b.input_sizes(0), grad.dtype()), b.input(1), grad));
  }
};
WEFT_OP(Take);

void Put::vjp(Backward& b) {
  const Tensor grad = b.grad(), index = b.input(1);
  if (b.needs(0)) {
    b.set(0, b.op<Put>().accumulate
                 ? grad
                 : call(op_Put, Put{false}, grad, index, zeros(index.sizes(), grad.dtype())));
  }
  if (b.needs(2)) b.set(2, reshape(call(op_Take, Take{}, grad, index), b.input_sizes(2)));
}

// ---- embedding ----------------------------------------------------------------------------------

struct Embedding {
  static constexpr Schema schema{
      "embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, "
      "bool sparse=False) -> "
      "Tensor"};
  static constexpr uint32_t traits = kLinear;
  static constexpr Saves saves{{input(1)}};
  int64_t padding_idx;
  bool scale_grad_by_freq;
  bool sparse;

  void infer(Inputs in, Meta* out) const {
    const Tensor &weight = in[0], &indices = in[1];
    if (weight.ndim() != 2) fail("'weight' must be 2-D");
    if (indices.dtype() != DType::Int64 && indices.dtype() != DType::Int32) {
      fail(
          "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
          "Long, Int; but got ",
          scalar_type_name(indices.dtype()), " instead (while checking arguments for embedding)");
    }
    if (indices.ndim() == kMostDims) fail("a tensor can have at most ", kMostDims, " dimensions");
    out->set(weight.dtype(), weight->device, indices.sizes());
    out->sizes[out->ndim++] = weight.size(1);
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor &weight = in[0], index = long_index(in[1]);
    if (const auto bad = position_outside(index, weight.size(0))) {
      fail(ErrorKind::Index, "index out of range in self: index ", *bad, " of an embedding of ",
           weight.size(0), " rows");
    }
    if (out[0].numel() == 0) return;
    const Layout at(index), to(out[0]), table(weight);
    const cpu::Strided all = table, positions = at;
    const cpu::IndexedDim rows{index->data, positions.strides, all.sizes[0], all.strides[0]};
    Unlocked unlocked(out[0].numel() >= kUnlockAt);
    cpu::index_get(item_size(weight.dtype()), to, {all.data, 1, all.sizes + 1, all.strides + 1},
                   {positions.ndim, positions.sizes, 1, &rows});
  }
  static void vjp(Backward& b) {
    const Embedding& op = b.op<Embedding>();
    const Tensor indices = b.input(1);
    const int64_t rows = b.input_sizes(0)[0], width = b.input_sizes(0)[1];
    Tensor grad = b.grad();
    if (op.padding_idx >= 0) {
      grad = masked_fill(grad, unsqueeze(eq(indices, number(op.padding_idx)), -1), Scalar(0));
    }
    const Tensor flat = reshape(indices, Dims{indices.numel()});
    if (op.scale_grad_by_freq) {
      const Tensor counts = index_add(zeros(Dims{rows}, grad.dtype()), 0, flat,
                                      full(flat.sizes(), 1.0, grad.dtype()));
      grad = grad / reshape(index_select(counts, 0, flat), with_one(indices.sizes()));
    }
    set_rows_gradient(b, 0, flat, reshape(grad, Dims{indices.numel(), width}));
  }

 private:
  static Dims with_one(IntSpan sizes) {
    Dims all(sizes);
    all.push_back(1);
    return all;
  }
};
WEFT_OP(Embedding);

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
Tensor index_select(const Tensor& a, int64_t dim, const Tensor& index) {
  return call(op_IndexSelect, IndexSelect{dim}, a, index);
}
Tensor index_add(const Tensor& a, int64_t dim, const Tensor& index, const Tensor& source) {
  return call(op_IndexAdd, IndexAdd{dim, Scalar(1)}, a, index, source);
}
Tensor index_fill(const Tensor& a, int64_t dim, const Tensor& index, Scalar value) {
  return call(op_IndexFill, IndexFill{dim}, a, index, wrapped_number(value));
}

Tensor selected_gradient(const Tensor& gradient, int64_t dim, const Tensor& indices, IntSpan sizes,
                         bool keepdim) {
  const Tensor zero = zeros(sizes, gradient.dtype());
  if (sizes.empty()) return reshape(gradient, sizes);
  if (keepdim) return scatter(zero, dim, indices, gradient);
  return scatter(zero, dim, unsqueeze(indices, dim), unsqueeze(gradient, dim));
}

}  // namespace weft
