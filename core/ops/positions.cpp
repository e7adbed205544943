// Reading and writing by a list of positions: index_select and its relatives along one dimension,
// take and put in the flattened tensor, embedding.
#include <algorithm>

#include "core/ops/along.h"

namespace weft {

extern const OpTable op_Take;

namespace {

constexpr int64_t kUnlockAt = 64 * 1024;

void write_along(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& values, bool accumulate) {
  AlongDim target(self, dim);
  Layout at(index), from(values);
  from.at_least_1d();
  Unlocked unlocked(values.numel() >= kUnlockAt);
  cpu::index_write(self.dtype(), target.self, target.dim, at.at_least_1d(), from, accumulate);
}

}  // namespace

// ---- one dimension by a list of positions -------------------------------------------------------

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
      fail(ErrorKind::Index, "index_add_(): Index is supposed to be a vector, but got dim: ", index.ndim(),
           " with type: ", scalar_type_name(index.dtype()), " and size: ", shape_text(index.sizes()));
    }
    if (index.dtype() != DType::Int64 && index.dtype() != DType::Int32) {
      fail("index_add_(): Expected dtype int32/int64 for index but got: ", scalar_type_name(index.dtype()));
    }
    if (self.dtype() != source.dtype()) {
      fail("index_add_(): self (", scalar_type_name(self.dtype()), ") and source (", scalar_type_name(source.dtype()),
           ") must have the same scalar type");
    }
    if (source.ndim() != 0 && along >= source.ndim()) {
      fail("index_add_(): Indexing dim ", along, " is out of bounds of the source tensor with dim ", source.ndim());
    }
    const int64_t count = extent(source, static_cast<int>(along));
    if (index.numel() != count) {
      fail("index_add_(): Number of indices (", index.numel(), ") should be equal to source.size(dim): (", count,
           "), for dim: ", along);
    }
    bool same = rank(self) == rank(source);
    for (int d = 0; same && d < self.ndim(); ++d) same = d == along || extent(source, d) == self.size(d);
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
    const Tensor index = checked_index(in[1], AlongDim(out[0], dim), ErrorKind::Runtime);
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
    if (source.dtype() == DType::Bool) { return alpha.to_double() != 0 ? source : zeros(source.sizes(), DType::Bool); }
    return mul(source, is_integral(source.dtype()) ? number(alpha.to_int()) : number(alpha.to_double()));
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
    if (index.ndim() > 1) fail(ErrorKind::Index, "index_select(): Index is supposed to be a vector");
    if (index.dtype() != DType::Int64 && index.dtype() != DType::Int32) {
      fail("index_select(): Expected dtype int32 or int64 for index");
    }
    if (self.ndim() == 0 && index.numel() != 1) {
      fail("index_select(): Index to scalar can have only 1 value, got ", index.numel(), " value(s)");
    }
    out->like(self);
    if (self.ndim() > 0) out->sizes[along] = index.numel();
  }
  void run(Inputs in, Tensor* out) const {
    AlongDim source(in[0], dim);
    const Tensor index = long_index(in[1]);
    if (const auto bad = position_outside(index, source.size)) {
      fail(ErrorKind::Index, "index out of range in self: index ", *bad, " is out of bounds for dimension ", source.dim,
           " with size ", source.size);
    }
    if (out[0].numel() == 0) return;
    Layout at(index), to(out[0]);
    to.at_least_1d();
    Unlocked unlocked(out[0].numel() >= kUnlockAt);
    cpu::index_select(item_size(in[0].dtype()), to, source.self, source.dim, at.at_least_1d());
  }
  static void vjp(Backward& b) { set_rows_gradient(b, b.op<IndexSelect>().dim, b.input(1), b.grad()); }
};
WEFT_OP(IndexSelect);

struct IndexFill {
  static constexpr Schema schema{"index_fill(Tensor self, int dim, Tensor index, Tensor|Scalar value) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kExactOut;
  static constexpr Saves saves{{input(1), 0, input(1)}};
  int64_t dim;

  void infer(Inputs in, Meta* out) const {
    const Tensor &self = in[0], &index = in[1], &value = in[2];
    wrap_dim(dim, self.ndim());
    if (index.dtype() != DType::Int64) fail(ErrorKind::Index, "index_fill_(): Expected dtype int64 for index.");
    if (index.ndim() > 1) fail("Index has to be a vector/scalar");
    if (value.ndim() != 0) {
      fail("index_fill_ only supports a 0-dimensional value tensor, but got tensor with ", value.ndim(),
           " dimension(s).");
    }
    out->like(self);
  }
  void run(Inputs in, Tensor* out) const {
    check_not_written(in[1], out[0]);
    AlongDim target(out[0], dim);
    Layout at(in[1]);
    const Tensor one = empty({}, out[0].dtype());
    copy_into(one, in[2]);
    // Every place receives the one value: strides of 0.
    Dims shape(out[0].sizes());
    if (shape.empty()) shape = Dims{in[1].numel()};
    else shape[target.dim] = in[1].numel();
    const Layout repeated(one, shape);
    if (target.size > 0 && checked_numel(shape) == 0 && in[1].numel() == 0) return;
    const cpu::IndexStatus status =
        cpu::index_write(out[0].dtype(), target.self, target.dim, at.at_least_1d(), repeated, false);
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
  static constexpr Schema schema{"index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kExactOut;
  static constexpr Saves saves{{input(1), 0, input(1)}};
  int64_t dim;

  void infer(Inputs in, Meta* out) const {
    const Tensor &self = in[0], &index = in[1], &source = in[2];
    const int along = static_cast<int>(wrap_dim(dim, self.ndim()));
    if (index.ndim() >= 2) {
      fail(ErrorKind::Index, "index_copy_(): Index should have dimension 1 or 0 (got ", index.ndim(), ")");
    }
    const int64_t count = index.numel();
    if (source.ndim() == 0 && count != 1) {
      fail(ErrorKind::Index, "index_copy_(): When source is scalar, index should have one element (got ", count, ")");
    }
    if (source.ndim() != self.ndim() && source.ndim() != 0 && self.ndim() != 0) {
      fail(ErrorKind::Index,
           "index_copy_(): When source and destination are not scalars, their dimensionality must "
           "match. "
           "Source dimensionality (",
           source.ndim(), "), destination dimensionality (", self.ndim(), ")");
    }
    if (index.dtype() != DType::Int64) {
      fail("index_copy_(): Expected a long tensor for index, but got ", scalar_type_name(index.dtype()));
    }
    if (self.dtype() != source.dtype()) {
      fail("index_copy_(): self and source expected to have the same dtype, but got (self) ",
           scalar_type_name(self.dtype()), " and (source) ", scalar_type_name(source.dtype()));
    }
    check_slices(self, source, along);
    if (source.ndim() > 0 && count != extent(source, along)) {
      fail(ErrorKind::Index, "index_copy_(): Number of indices (", count, ") should be equal to source.size(dim) (",
           extent(source, along), ")");
    }
    out->like(self);
  }
  void run(Inputs in, Tensor* out) const {
    check_not_written(in[2], out[0]);
    check_not_written(in[1], out[0]);
    const AlongDim target(out[0], dim);
    if (const auto bad = position_outside(in[1], target.size)) {
      fail(ErrorKind::Index, "index_copy_(): index ", *bad, " is out of bounds for dimension ", target.dim,
           " with size ", target.size);
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
        shape_text(slice), " at dimension ", along, " and source slice shape: ", shape_text(source_slice),
        " at dimension ", along, ".");
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
  fail(ErrorKind::Index, "out of range: tried to access index ", index, " on a tensor of ", numel, " elements.");
}

}  // namespace

struct Put {
  static constexpr Schema schema{"put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor"};
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
           scalar_type_name(self.dtype()), " and source.dtype = ", scalar_type_name(source.dtype()));
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
    const cpu::IndexStatus status = cpu::index_put(flat.dtype(), {flat->data, 0, nullptr, nullptr},
                                                   {1, &count, 1, &dim}, {source->data, 1, &count, &item}, accumulate);
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
    const cpu::IndexStatus status = cpu::index_get(item_size(flat.dtype()), to, from.rest, from.index);
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
    b.set(0, b.op<Put>().accumulate ? grad : call(op_Put, Put{false}, grad, index, zeros(index.sizes(), grad.dtype())));
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
      fail(ErrorKind::Index, "index out of range in self: index ", *bad, " of an embedding of ", weight.size(0),
           " rows");
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
      const Tensor counts = index_add(zeros(Dims{rows}, grad.dtype()), 0, flat, full(flat.sizes(), 1.0, grad.dtype()));
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

Tensor index_select(const Tensor& a, int64_t dim, const Tensor& index) {
  return call(op_IndexSelect, IndexSelect{dim}, a, index);
}
Tensor index_add(const Tensor& a, int64_t dim, const Tensor& index, const Tensor& source) {
  return call(op_IndexAdd, IndexAdd{dim, Scalar(1)}, a, index, source);
}
Tensor index_fill(const Tensor& a, int64_t dim, const Tensor& index, Scalar value) {
  return call(op_IndexFill, IndexFill{dim}, a, index, wrapped_number(value));
}

}  // namespace weft
