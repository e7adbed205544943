// Reading and writing by index tensors, several dimensions at once; basic indexing as one view.
#include <algorithm>
#include <optional>

#include "core/ops/indexing.h"
#include "core/ops/shape.h"

namespace weft {

extern const OpTable op_IndexGradient;
extern const OpTable op_IndexPut;

namespace {

// Saved inputs are named by bits, of which there are 16.
constexpr int kMostIndices = 13;

// How indices select: the shape they have in common and where it stands in the result.
struct Selection {
  int ndim = 0;
  int64_t sizes[kMostDims];
  int first = 0;

  Selection(IntSpan self, const Dims& dims, Inputs in, int first_index) {
    const int count = in.size() - first_index;
    if (dims.size() != count || count == 0) fail("index: ", count, " index tensors for ", dims.size(), " dimensions");
    if (count > kMostIndices)
      fail(ErrorKind::NotImplemented, "indexing with more than ", kMostIndices, " tensors at once");
    for (int i = 0; i < count; ++i) {
      if (dims[i] < 0 || dims[i] >= static_cast<int64_t>(self.size()) || (i > 0 && dims[i] <= dims[i - 1])) {
        fail(ErrorKind::Index, "index: dimensions ", shape_text(dims), " of a tensor of shape ", shape_text(self));
      }
      if (!in[first_index + i]) fail("index: index tensor ", i, " is missing");
      check_dtype(in[first_index + i].dtype());
      take_shape(in, first_index, i);
    }
    const bool adjacent = dims[count - 1] - dims[0] == count - 1;
    first = adjacent ? static_cast<int>(dims[0]) : 0;
    if (ndim + static_cast<int>(self.size()) - count > kMostDims)
      fail("a tensor can have at most ", kMostDims, " dimensions");
  }

  static void check_dtype(DType t) {
    if (t != DType::Int64 && t != DType::Int32) {
      fail(ErrorKind::Index, "tensors used as indices must be long, int, byte or bool tensors");
    }
  }

  // The dimensions of self that are not indexed stay in order around the indices' shape.
  void result_into(IntSpan self, const Dims& dims, Meta* out) const {
    out->ndim = 0;
    for (int d = 0, next = 0; d < static_cast<int>(self.size()); ++d) {
      if (next < dims.size() && dims[next] == d) ++next;
      else out->sizes[out->ndim++] = self[d];
    }
    std::copy_backward(out->sizes + first, out->sizes + out->ndim, out->sizes + out->ndim + ndim);
    std::copy_n(sizes, ndim, out->sizes + first);
    out->ndim += ndim;
  }

 private:
  void take_shape(Inputs in, int first_index, int i) {
    const Tensor& index = in[first_index + i];
    if (i == 0) {
      ndim = index.ndim();
      std::copy_n(index->dims, ndim, sizes);
      return;
    }
    const int shift = ndim - index.ndim();
    if (shift < 0) {
      std::copy_backward(sizes, sizes + ndim, sizes + index.ndim());
      std::fill_n(sizes, -shift, 1);
      ndim = index.ndim();
    }
    for (int d = 0; d < index.ndim(); ++d) {
      int64_t& so_far = sizes[d + std::max(shift, 0)];
      if (so_far == 1) so_far = index.size(d);
      else if (index.size(d) != so_far && index.size(d) != 1) fail_shapes(in, first_index);
    }
  }

  [[noreturn]] static void fail_shapes(Inputs in, int first_index) {
    std::string shapes;
    for (int i = first_index; i < in.size(); ++i) shapes += (i > first_index ? ", " : "") + shape_text(in[i].sizes());
    fail(ErrorKind::Index, "shape mismatch: indexing tensors could not be broadcast together with shapes ", shapes);
  }
};

// The kernel's arguments: indices broadcast, self without the indexed dimensions.
class KernelIndex {
 public:
  KernelIndex(const Tensor& self, const Dims& dims, Inputs in, int first_index)
      : selection_(self.sizes(), dims, in, first_index) {
    const int64_t item = item_size(self.dtype());
    const IntSpan shape(selection_.sizes, static_cast<size_t>(selection_.ndim));
    for (int i = 0; i < dims.size(); ++i) {
      const Tensor& given = in[first_index + i];
      if (given.dtype() != DType::Int64) widened_.push_back(long_index(given));
      const Tensor& index = given.dtype() != DType::Int64 ? widened_.back() : given;
      const int shift = selection_.ndim - index.ndim();
      for (int d = 0; d < selection_.ndim; ++d) {
        const bool own = d >= shift && (index.size(d - shift) != 1 || shape[d] == 1);
        index_strides_[i][d] = own ? index.stride(d - shift) * 8 : 0;
      }
      const int dim = static_cast<int>(dims[i]);
      indexed_[i] = {index->data, index_strides_[i], self.size(dim), self.stride(dim) * item};
      dims_[i] = dim;
      empty_dim_ |= self.size(dim) == 0;
    }
    index_ = {selection_.ndim, selection_.sizes, dims.size(), indexed_};
    int kept = 0;
    for (int d = 0, next = 0; d < self.ndim(); ++d) {
      if (next < dims.size() && dims[next] == d) {
        ++next;
        continue;
      }
      rest_sizes_[kept] = self.size(d);
      rest_strides_[kept++] = self.stride(d) * item;
    }
    rest_ = {self->data, kept, rest_sizes_, rest_strides_};
    selected_ = 1;
    for (int64_t n : shape) selected_ *= n;
    for (int d = 0; d < kept; ++d) elements_of_rest_ *= rest_sizes_[d];
  }

  const cpu::AdvancedIndex& index() const { return index_; }
  cpu::Strided rest() const { return rest_; }

  // Nothing to move. Reading a position from a dimension of size 0 is still an error.
  bool nothing() const {
    if (empty_dim_ && selected_ != 0) { fail(ErrorKind::Index, "index is out of bounds for dimension with size 0"); }
    return selected_ * elements_of_rest_ == 0;
  }

  // A tensor of the result's shape, or one that broadcasts to it, in the kernel's order of
  // dimensions.
  cpu::Strided beside(const Tensor& t, int64_t* strides) const {
    const int total = selection_.ndim + rest_.ndim, shift = total - t.ndim();
    const int64_t item = item_size(t.dtype());
    for (int to = 0; to < total; ++to) {
      // The index's dimensions come first for the kernel.
      int from = to < selection_.ndim ? selection_.first + to : to - selection_.ndim;
      if (to >= selection_.ndim && from >= selection_.first) from += selection_.ndim;
      const int64_t full = to < selection_.ndim ? selection_.sizes[to] : rest_sizes_[to - selection_.ndim];
      const bool own = from >= shift && (t.size(from - shift) != 1 || full == 1);
      strides[to] = own ? t.stride(from - shift) * item : 0;
    }
    return {t->data, total, nullptr, strides};
  }

  void check(const cpu::IndexStatus& status) const {
    if (!status) fail_out_of_bounds(ErrorKind::Index, status.value, dims_[status.which], status.size);
  }
  int64_t work() const { return selected_ * elements_of_rest_; }

 private:
  Selection selection_;
  std::vector<Tensor> widened_;
  cpu::IndexedDim indexed_[kMostIndices];
  int dims_[kMostIndices];
  int64_t index_strides_[kMostIndices][kMostDims];
  int64_t rest_sizes_[kMostDims], rest_strides_[kMostDims];
  cpu::AdvancedIndex index_;
  cpu::Strided rest_;
  int64_t selected_, elements_of_rest_ = 1;
  bool empty_dim_ = false;
};

constexpr int64_t kUnlockAt = 64 * 1024;

void put_values(const Tensor& self, const Dims& dims, Inputs in, int first_index, const Tensor& values,
                bool accumulate) {
  const KernelIndex at(self, dims, in, first_index);
  if (at.nothing()) return;
  int64_t strides[kMostDims];
  const cpu::Strided from = at.beside(values, strides);
  cpu::IndexStatus status;
  {
    Unlocked unlocked(at.work() >= kUnlockAt);
    status = cpu::index_put(self.dtype(), at.rest(), at.index(), from, accumulate);
  }
  at.check(status);
}

// Inputs that follow one another in a vector.
Inputs inputs_of(const std::vector<TensorImpl*>& items) { return {items.data(), static_cast<int>(items.size())}; }

std::vector<TensorImpl*> with_indices(std::initializer_list<TensorImpl*> first, const std::vector<Tensor>& indices) {
  std::vector<TensorImpl*> all(first);
  for (const Tensor& t : indices) all.push_back(t.get());
  return all;
}

std::vector<Tensor> saved_indices(const Backward& b, int first_index) {
  std::vector<Tensor> indices;
  for (int i = first_index; i < b.inputs(); ++i) indices.push_back(b.input(i));
  return indices;
}

constexpr uint32_t kFromSecond = 0xfffe, kFromThird = 0xfffc;  // inputs 1, 2, ... and 2, 3, ...

}  // namespace

struct Index {
  static constexpr Schema schema{"_index(Tensor self, Tensor[] indices, int[] dims) -> Tensor"};
  static constexpr uint32_t traits = kLinear;
  static constexpr Saves saves{{kFromSecond}};
  Dims dims;

  void infer(Inputs in, Meta* out) const {
    const Selection selection(in[0].sizes(), dims, in, 1);
    out->dtype = in[0].dtype();
    out->device = in[0]->device;
    selection.result_into(in[0].sizes(), dims, out);
  }
  void run(Inputs in, Tensor* out) const {
    const KernelIndex at(in[0], dims, in, 1);
    if (at.nothing()) return;
    int64_t strides[kMostDims];
    const cpu::Strided to = at.beside(out[0], strides);
    cpu::IndexStatus status;
    {
      Unlocked unlocked(at.work() >= kUnlockAt);
      status = cpu::index_get(item_size(in[0].dtype()), to, at.rest(), at.index());
    }
    at.check(status);
  }
  static void vjp(Backward& b);
};
WEFT_OP(Index);

// Zero but where indices point: there, the sum of what was read.
struct IndexGradient {
  static constexpr Schema schema{"_index_gradient(Tensor grad, Tensor[] indices, int[] sizes, int[] dims) -> Tensor"};
  static constexpr uint32_t traits = kLinear;
  static constexpr Saves saves{{kFromSecond}};
  static constexpr const char* backward_name = "IndexPutBackward0";
  Dims sizes, dims;

  void infer(Inputs in, Meta* out) const {
    for (int64_t n : sizes)
      if (n < 0) fail("index: invalid shape ", shape_text(sizes));
    checked_numel(sizes);
    Meta read;
    const Selection selection(sizes, dims, in, 1);
    selection.result_into(sizes, dims, &read);
    if (!std::equal(read.sizes, read.sizes + read.ndim, in[0].sizes().begin(), in[0].sizes().end())) {
      fail("index: a gradient of shape ", shape_text(in[0].sizes()), " for a result of shape ",
           shape_text(read.shape()));
    }
    out->set(in[0].dtype(), in[0]->device, sizes);
  }
  void run(Inputs in, Tensor* out) const {
    std::memset(out[0]->data, 0, static_cast<size_t>(out[0].numel()) * item_size(out[0].dtype()));
    put_values(out[0], dims, in, 1, in[0], true);
  }
  static void vjp(Backward& b) {
    const std::vector<Tensor> indices = saved_indices(b, 1);
    const Tensor grad = b.grad();
    const Index op{b.op<IndexGradient>().dims};
    const std::vector<TensorImpl*> in = with_indices({grad.get()}, indices);
    Tensor out[1];
    apply(op_Index, &op, inputs_of(in), out);
    b.set(0, out[0]);
  }
};
WEFT_OP(IndexGradient);

void Index::vjp(Backward& b) {
  const std::vector<Tensor> indices = saved_indices(b, 1);
  const Tensor grad = b.grad();
  const std::vector<TensorImpl*> in = with_indices({grad.get()}, indices);
  const Dims& dims = b.op<Index>().dims;
  if (TensorImpl* waiting = ready_destination(b, grad)) {
    for (const Tensor& t : indices) ensure_value(t.get());
    put_values(Tensor::share(waiting), dims, inputs_of(in), 1, grad, true);
    return b.added(0);
  }
  const IndexGradient op{Dims(b.input_sizes(0)), dims};
  Tensor out[1];
  apply(op_IndexGradient, &op, inputs_of(in), out);
  b.set(0, out[0]);
}

// Several dimensions are written at once. The values come before the indices, so that what
// backward keeps can be told apart: the indices, never the values.
struct IndexPut {
  static constexpr Schema schema{
      "_index_put(Tensor self, Tensor values, Tensor[] indices, int[] dims, bool accumulate=False) "
      "-> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf;
  static constexpr Saves saves{{kFromThird, kFromThird}};
  static constexpr const char* backward_name = "IndexPutBackward0";
  Dims dims;
  bool accumulate;

  void infer(Inputs in, Meta* out) const {
    const Tensor &self = in[0], &values = in[1];
    if (self.dtype() != values.dtype()) {
      fail("Index put requires the source and destination dtypes match, got ", scalar_type_name(self.dtype()),
           " for the destination and ", scalar_type_name(values.dtype()), " for the source.");
    }
    const Selection selection(self.sizes(), dims, in, 2);
    Meta written;
    selection.result_into(self.sizes(), dims, &written);
    bool fits = values.ndim() <= written.ndim;
    for (int d = 1; fits && d <= values.ndim(); ++d) {
      const int64_t n = values.size(values.ndim() - d);
      fits = n == 1 || n == written.sizes[written.ndim - d];
    }
    if (!fits) {
      fail("shape mismatch: value tensor of shape ", shape_text(values.sizes()),
           " cannot be broadcast to indexing result of shape ", shape_text(written.shape()));
    }
    out->like(self);
  }
  void run(Inputs in, Tensor* out) const {
    for (int i = 1; i < in.size(); ++i) check_not_written(in[i], out[0]);
    put_values(out[0], dims, in, 2, in[1], accumulate);
  }
  static void vjp(Backward& b) {
    const IndexPut& op = b.op<IndexPut>();
    const std::vector<Tensor> indices = saved_indices(b, 2);
    const Tensor grad = b.grad();
    if (b.needs(0)) {
      if (op.accumulate) {
        b.set(0, grad);
      } else {
        const Tensor zero = zeros({}, grad.dtype());
        const IndexPut blank{op.dims, false};
        const std::vector<TensorImpl*> in = with_indices({grad.get(), zero.get()}, indices);
        Tensor out[1];
        apply(op_IndexPut, &blank, inputs_of(in), out);
        b.set(0, out[0]);
      }
    }
    if (b.needs(1)) {
      const Index read{op.dims};
      const std::vector<TensorImpl*> in = with_indices({grad.get()}, indices);
      Tensor out[1];
      apply(op_Index, &read, inputs_of(in), out);
      b.set(1, out[0]);
    }
  }
};
WEFT_OP(IndexPut);

// ---- what the families share --------------------------------------------------------------------

Tensor long_index(const Tensor& index) {
  if (index.dtype() == DType::Int64) return index;
  Tensor wide = empty(index.sizes(), DType::Int64);
  copy_into(wide, index);
  return wide;
}

std::optional<int64_t> position_outside(const Tensor& index, int64_t size) {
  const cpu::IndexStatus status = cpu::check_index(Layout(index), size, cpu::Negative::Outside);
  return status ? std::nullopt : std::optional(status.value);
}

TensorImpl* ready_destination(const Backward& b, const Tensor& gradient) {
  if (gradient->flags & kPending) return nullptr;
  TensorImpl* waiting = b.destination(0);
  return waiting && waiting->dtype == gradient.dtype() ? waiting : nullptr;
}

Tensor padded_gradient(const Tensor& g, IntSpan sizes) {
  if (std::equal(g.sizes().begin(), g.sizes().end(), sizes.begin(), sizes.end())) return g;
  if (sizes.empty() || g.ndim() == 0) return reshape(g, sizes);
  return place_in_zeros(g, sizes, contiguous_strides(sizes), 0);
}

void fail_out_of_bounds(ErrorKind kind, int64_t index, int64_t dim, int64_t size) {
  fail(kind, "index ", index, " is out of bounds for dimension ", dim, " with size ", size);
}

void check_not_written(const Tensor& argument, const Tensor& written) {
  const TensorImpl *a = argument.get(), *w = written.get();
  const bool same =
      a == w || (a && a->storage == w->storage && a->data == w->data && a->numel == w->numel && a->numel > 0);
  if (same) {
    fail(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer "
        "to a single memory "
        "location. Please clone() the tensor before performing the operation.");
  }
}

const char* scalar_type_name(DType t) {
  static constexpr const char* names[kDTypes] = {"Bool",  "Byte",   "Char",         "Short",
                                                 "Int",   "Long",   "Half",         "BFloat16",
                                                 "Float", "Double", "ComplexFloat", "ComplexDouble"};
  return names[static_cast<int>(t)];
}

// ---- what indices mean --------------------------------------------------------------------------

namespace {

bool is_mask(const Tensor& t) { return t.dtype() == DType::Bool || t.dtype() == DType::UInt8; }

void check_mask(const Tensor& a, const Tensor& mask, int dim) {
  for (int j = 0; j < mask.ndim(); ++j) {
    if (dim + j >= a.ndim()) fail(ErrorKind::Index, "too many indices for tensor of dimension ", a.ndim());
    if (mask.size(j) != a.size(dim + j)) {
      fail(ErrorKind::Index, "The shape of the mask ", shape_text(mask.sizes()), " at index ", j,
           " does not match the shape of the indexed tensor ", shape_text(a.sizes()), " at index ", dim + j);
    }
  }
}

bool covers(const Tensor& mask, const Tensor& a) {
  return mask.dtype() == DType::Bool && mask.ndim() > 0 &&
         std::equal(mask.sizes().begin(), mask.sizes().end(), a.sizes().begin(), a.sizes().end());
}

Tensor index_at(const Tensor& a, const Positions& at) {
  const Index op{at.dims};
  const std::vector<TensorImpl*> in = with_indices({a.get()}, at.tensors);
  Tensor out[1];
  apply(op_Index, &op, inputs_of(in), out);
  return out[0];
}

}  // namespace

Positions positions_of(const Tensor& a, const std::vector<Tensor>& indices) {
  Positions found;
  int dim = 0;
  const auto add = [&](Tensor t) {
    if (dim >= a.ndim()) {
      fail(ErrorKind::Index, "too many indices for tensor of dimension ", a.ndim(), " (got ", indices.size(), ")");
    }
    found.dims.push_back(dim++);
    found.tensors.push_back(std::move(t));
  };
  for (const Tensor& t : indices) {
    if (!t) {
      ++dim;
    } else if (is_mask(t)) {
      check_mask(a, t, dim);
      const Tensor places = nonzero(t);
      for (int j = 0; j < t.ndim(); ++j) add(select(places, 1, j));
    } else {
      Selection::check_dtype(t.dtype());
      add(t);
    }
  }
  return found;
}

Tensor index(const Tensor& a, const std::vector<Tensor>& indices) {
  if (indices.size() == 1 && indices[0]) {
    const Tensor& only = indices[0];
    if (covers(only, a)) return masked_select(a, only);
    if (!is_mask(only) && a.ndim() > 0) {
      const Index op{Dims{0}};
      return call(op_Index, op, a, only);
    }
  }
  return index_at(a, positions_of(a, indices));
}

void index_put_in_place(const Tensor& a, const Positions& at, const Tensor& values, bool accumulate) {
  const IndexPut op{at.dims, accumulate};
  const std::vector<TensorImpl*> in = with_indices({a.get(), values.get()}, at.tensors);
  check_no_partial_overlap(a.get(), values.get());
  apply_in_place(op_IndexPut, &op, inputs_of(in));
}

void index_put_into(const Tensor& a, const std::vector<Tensor>& indices, const Tensor& values) {
  // A Python number takes on the dtype of the tensor it is put into.
  const Tensor v = values->has(kWrappedNumber) ? to_dtype(values, a.dtype()) : values;
  if (indices.size() == 1 && indices[0] && covers(indices[0], a) && v.ndim() == 0 && v.dtype() == a.dtype()) {
    return masked_fill_in_place(a, indices[0], v);
  }
  index_put_in_place(a, positions_of(a, indices), v, false);
}

// For index_put in Python: one entry for each leading dimension, null where it is not indexed.
struct IndexPositions {
  static constexpr Schema schema{"_index_positions(Tensor self, Tensor?[] indices) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;

  void compose_list(Inputs in, std::vector<Tensor>& out) const {
    std::vector<Tensor> indices;
    for (int i = 1; i < in.size(); ++i) indices.push_back(in[i]);
    const Positions found = positions_of(in[0], indices);
    for (size_t i = 0; i < found.tensors.size(); ++i) {
      out.resize(static_cast<size_t>(found.dims[static_cast<int>(i)]) + 1);
      out.back() = found.tensors[i];
    }
  }
};
WEFT_OP(IndexPositions);

// ---- basic indexing -----------------------------------------------------------------------------

// Note [Basic indexing is one view]
// a[1, :, 2:5, None] is one node and one view, however many parts it has; backward adds its
// gradient straight into the gradient that already waits for `a`, so a loop over a[t] costs what
// its parts cost.
struct BasicIndex {
  static constexpr Schema schema{"_basic_index(Tensor self, int[] parts) -> Tensor"};
  static constexpr uint32_t traits = kView | kLinear;
  static constexpr const char* backward_name = "SelectBackward0";
  Dims parts;  // see BasicSelection

  void infer(Inputs in, Meta* out) const {
    const Tensor& a = in[0];
    check(a.sizes());
    out->dtype = a.dtype();
    out->device = a->device;
    out->strided = true;
    place(a.ndim(), a.strides().data(), out);
  }
  static void vjp(Backward& b) {
    const Tensor grad = b.grad();
    const IntSpan sizes = b.input_sizes(0);
    Meta window;
    b.op<BasicIndex>().place(static_cast<int>(sizes.size()), contiguous_strides(sizes).data(), &window);
    if (TensorImpl* waiting = ready_destination(b, grad)) {
      const Tensor part = alias(Tensor::share(waiting), window.shape(), window.stride_span(), window.offset);
      TensorImpl* pair[] = {part.get(), grad.get()};
      Tensor out[] = {part};
      run_operation(op_Add, nullptr, Inputs(pair, 2), out);
      return b.added(0);
    }
    b.set(0, place_in_zeros(grad, sizes, window.stride_span(), window.offset));
  }

 private:
  void check(IntSpan sizes) const {
    const int ndim = static_cast<int>(sizes.size()), count = parts.size() - ndim;
    if (count < 0 || count % 3 != 0 || count / 3 > kMostDims) fail("_basic_index: malformed parts ", shape_text(parts));
    bool kept[kMostDims] = {};
    int64_t previous = -1;
    for (int r = ndim; r < parts.size(); r += 3) {
      const int64_t from = parts[r], step = parts[r + 1], size = parts[r + 2];
      if (from == -1) {
        if (size != 1) fail("_basic_index: a new dimension has size 1, not ", size);
        continue;
      }
      if (from <= previous || from >= ndim) fail("_basic_index: malformed parts ", shape_text(parts));
      previous = from;
      kept[from] = true;
      const int64_t start = parts[static_cast<int>(from)];
      const bool inside = start >= 0 && start <= sizes[from] && step > 0 && size >= 0 &&
                          (size == 0 || (size - 1) <= (sizes[from] - 1 - start) / step) &&
                          (size == 0 || start < sizes[from]);
      if (!inside)
        fail(ErrorKind::Index, "_basic_index: dimension ", from, " of size ", sizes[from], " has no part ", start);
    }
    for (int d = 0; d < ndim; ++d) {
      if (!kept[d] && (parts[d] < 0 || parts[d] >= sizes[d])) {
        fail_out_of_bounds(ErrorKind::Index, parts[d], d, sizes[d]);
      }
    }
  }

  void place(int ndim, const int64_t* strides, Meta* out) const {
    out->ndim = (parts.size() - ndim) / 3;
    for (int d = 0; d < ndim; ++d) out->offset += parts[d] * strides[d];
    for (int r = out->ndim - 1; r >= 0; --r) {
      const int64_t* const part = parts.data() + ndim + 3 * r;
      out->sizes[r] = part[2];
      if (part[0] < 0) {
        out->strides[r] = r + 1 < out->ndim ? out->sizes[r + 1] * out->strides[r + 1] : 1;
      } else if (__builtin_mul_overflow(strides[part[0]], part[1], &out->strides[r])) {
        out->strides[r] = 1;  // a step that is never taken
      }
    }
  }
};
WEFT_OP(BasicIndex);

Tensor basic_index(const Tensor& a, const BasicSelection& selection) {
  return call(op_BasicIndex, BasicIndex{selection.packed()}, a);
}

}  // namespace weft
