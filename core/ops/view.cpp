// Views: other shapes and strides over the same memory.
#include <algorithm>

#include "core/ops/shape.h"

namespace weft {

int64_t wrap_dim(int64_t dim, int64_t ndim) {
  const int64_t n = std::max<int64_t>(ndim, 1);
  if (dim < -n || dim >= n) {
    fail(ErrorKind::Index, "Dimension out of range (expected to be in range of [", -n, ", ", n - 1, "], but got ", dim,
         ")");
  }
  return dim < 0 ? dim + n : dim;
}

Dims all_dims(int64_t ndim) {
  Dims dims;
  dims.resize(static_cast<int>(ndim));
  for (int d = 0; d < ndim; ++d) dims[d] = d;
  return dims;
}

namespace {

void start_view(const Tensor& of, Meta* out) {
  out->dtype = of.dtype();
  out->device = of->device;
  out->strided = true;
}

void copy_dims(const Tensor& of, Meta* out) {
  start_view(of, out);
  out->ndim = of.ndim();
  std::copy_n(of.sizes().data(), of.ndim(), out->sizes);
  std::copy_n(of.strides().data(), of.ndim(), out->strides);
}

void drop_dim(Meta* out, int64_t dim) {
  std::copy(out->sizes + dim + 1, out->sizes + out->ndim, out->sizes + dim);
  std::copy(out->strides + dim + 1, out->strides + out->ndim, out->strides + dim);
  --out->ndim;
}

void insert_dim(Meta* out, int64_t dim, int64_t size, int64_t stride) {
  if (out->ndim == kMostDims) fail("a tensor can have at most ", kMostDims, " dimensions");
  std::copy_backward(out->sizes + dim, out->sizes + out->ndim, out->sizes + out->ndim + 1);
  std::copy_backward(out->strides + dim, out->strides + out->ndim, out->strides + out->ndim + 1);
  out->sizes[dim] = size;
  out->strides[dim] = stride;
  ++out->ndim;
}

// Replaces the one -1 in a shape.
void infer_size(IntSpan wanted, int64_t numel, int64_t* sizes) {
  if (wanted.size() > kMostDims) fail("a tensor can have at most ", kMostDims, " dimensions, got ", wanted.size());
  int64_t known = 1;
  int unknown = -1;
  bool overflow = false;
  for (size_t d = 0; d < wanted.size(); ++d) {
    sizes[d] = wanted[d];
    if (wanted[d] == -1) {
      if (unknown >= 0) fail("only one dimension can be inferred: -1 stands twice in ", shape_text(wanted));
      unknown = static_cast<int>(d);
    } else if (wanted[d] < 0) {
      fail("invalid shape dimension ", wanted[d]);
    } else {
      overflow |= __builtin_mul_overflow(known, wanted[d], &known);
    }
  }
  if (unknown >= 0 && !overflow) {
    if (known == 0 && numel == 0) {
      fail("cannot reshape tensor of 0 elements into shape ", shape_text(wanted),
           " because the unspecified dimension size -1 can be any value and is ambiguous");
    }
    if (known != 0 && numel % known == 0) {
      sizes[unknown] = numel / known;
      return;
    }
  } else if (!overflow && known == numel) {
    return;
  }
  fail("shape '", shape_text(wanted), "' is invalid for input of size ", numel);
}

// Strides that show `of` in another shape without copying, if there are any.
bool strides_for_view(const Tensor& of, const int64_t* sizes, int ndim, int64_t* strides) {
  if (of.numel() == 0) {
    if (ndim == of.ndim() && std::equal(sizes, sizes + ndim, of.sizes().data())) {
      std::copy_n(of.strides().data(), ndim, strides);
      return true;
    }
    int64_t expected = 1;
    for (int d = ndim; d-- > 0;) {
      strides[d] = expected;
      expected *= std::max<int64_t>(sizes[d], 1);
    }
    return true;
  }
  if (of->is_contiguous() || of.ndim() == 0) {
    int64_t expected = 1;
    for (int d = ndim; d-- > 0;) {
      strides[d] = expected;
      expected *= sizes[d];
    }
    return true;
  }
  // Groups of the old dimensions that lie evenly in memory are filled, from the last, by new dimensions.
  int next = ndim - 1;
  int64_t chunk_stride = of.stride(of.ndim() - 1);
  int64_t old_numel = 1, new_numel = 1;
  for (int d = of.ndim(); d-- > 0;) {
    old_numel *= of.size(d);
    const bool chunk_ends = d == 0 || (of.size(d - 1) != 1 && of.stride(d - 1) != old_numel * chunk_stride);
    if (!chunk_ends) continue;
    while (next >= 0 && (new_numel < old_numel || sizes[next] == 1)) {
      strides[next] = new_numel * chunk_stride;
      new_numel *= sizes[next--];
    }
    if (new_numel != old_numel) return false;
    if (d > 0) {
      chunk_stride = of.stride(d - 1);
      old_numel = new_numel = 1;
    }
  }
  return next == -1;
}

// The gradient of a view that shows a window of its input. Where a gradient of the input already waits
// (another part of the same tensor came first), it is added to in place: see Note [Several views of one
// tensor] in core/ops/join.cpp.
void set_window_gradient(Backward& b, IntSpan strides, int64_t offset) {
  const Tensor& g = b.grad();
  const IntSpan sizes = b.input_sizes(0);
  const bool hooked = b.node()->extra != nullptr;  // hooks want to see the gradient itself
  TensorImpl* waiting = hooked || (g->flags & kPending) ? nullptr : b.destination(0);
  if (waiting && waiting->dtype == g.dtype()) {
    const Tensor window = alias(Tensor::share(waiting), g.sizes(), strides, offset);
    if (!may_overlap_itself(window.get())) {
      TensorImpl* pair[] = {window.get(), g.get()};
      Tensor out[] = {window};
      run_operation(op_Add, nullptr, Inputs(pair, 2), out);
      return b.added(0);
    }
  }
  b.set(0, place_in_zeros(g, sizes, strides, offset));
}

}  // namespace

Dims contiguous_strides(IntSpan sizes) {
  Dims strides;
  strides.resize(static_cast<int>(sizes.size()));
  int64_t next = 1;
  for (int d = static_cast<int>(sizes.size()); d-- > 0;) {
    strides[d] = next;
    next *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

// ---- the same elements in another shape ------------------------------------------------------------

extern const OpTable op_View;
struct View {
  static constexpr Schema schema{"view(Tensor self, int[] size) -> Tensor"};
  static constexpr uint32_t traits = kView | kLinear;
  Dims size;

  void infer(Inputs in, Meta* out) const {
    start_view(in[0], out);
    infer_size(size, in[0].numel(), out->sizes);
    out->ndim = size.size();
    if (!strides_for_view(in[0], out->sizes, out->ndim, out->strides)) {
      fail(
          "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
          "contiguous subspaces). Use .reshape(...) instead. (",
          shape_text(in[0].sizes()), " with strides ", shape_text(in[0].strides()), " as ", shape_text(size), ")");
    }
  }
  static void vjp(Backward& b) { b.set(0, reshape(b.grad(), b.input_sizes(0))); }
};
WEFT_OP(View);

// The same bytes read as another dtype.
struct ViewDType {
  static constexpr Schema schema{"view.dtype(Tensor self, DType dtype) -> Tensor"};
  static constexpr uint32_t traits = kView | kNeverDifferentiable;
  DType dtype;

  void infer(Inputs in, Meta* out) const {
    const Tensor& a = in[0];
    const int from = item_size(a.dtype()), to = item_size(dtype);
    copy_dims(a, out);
    out->dtype = dtype;
    if (from == to) return;
    auto refuse = [&](const auto&... why) {
      fail("self.", why..., " to view ", dtype_name(a.dtype()), " as ", dtype_name(dtype),
           " (different element sizes)");
    };
    if (a.ndim() == 0) refuse("dim() cannot be 0");
    const int last = a.ndim() - 1;
    if (a.stride(last) != 1) refuse("stride(-1) must be 1");
    if (to < from) {
      const int64_t ratio = from / to;
      out->sizes[last] *= ratio;
      for (int d = 0; d < last; ++d) out->strides[d] *= ratio;
      checked_numel(out->shape());
      return;
    }
    const int64_t ratio = to / from;
    if (a.size(last) % ratio != 0) refuse("size(-1) must be divisible by ", ratio);
    if (a->storage_offset() % ratio != 0) refuse("storage_offset() must be divisible by ", ratio);
    out->sizes[last] /= ratio;
    for (int d = 0; d < last; ++d) {
      if (out->strides[d] % ratio != 0) refuse("stride(", d, ") must be divisible by ", ratio);
      out->strides[d] /= ratio;
    }
  }
};
WEFT_OP(ViewDType);

struct Reshape {
  static constexpr Schema schema{"reshape(Tensor self, int[] shape) -> Tensor"};
  static constexpr const char* backward_name = "ViewBackward0";
  Dims shape;

  Tensor compose(Inputs in) const { return reshape(in[0], shape); }
};
WEFT_OP(Reshape);

struct Permute {
  static constexpr Schema schema{"permute(Tensor self, int[] dims) -> Tensor"};
  static constexpr uint32_t traits = kView | kLinear;
  Dims dims;

  void infer(Inputs in, Meta* out) const {
    const Tensor& a = in[0];
    if (dims.size() != a.ndim()) {
      fail(
          "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
          "ordering "
          "of dimensions i.e. input.dim() = ",
          a.ndim(), " is not equal to len(dims) = ", dims.size());
    }
    start_view(a, out);
    out->ndim = a.ndim();
    bool seen[kMostDims] = {};
    for (int d = 0; d < a.ndim(); ++d) {
      const int64_t from = wrap_dim(dims[d], a.ndim());
      if (seen[from]) fail("permute(): duplicate dims are not allowed.");
      seen[from] = true;
      out->sizes[d] = a.size(static_cast<int>(from));
      out->strides[d] = a.stride(static_cast<int>(from));
    }
  }
  static void vjp(Backward& b) {
    const Dims& dims = b.op<Permute>().dims;
    Dims inverse;
    inverse.resize(dims.size());
    for (int d = 0; d < dims.size(); ++d) inverse[static_cast<int>(wrap_dim(dims[d], dims.size()))] = d;
    b.set(0, permute(b.grad(), inverse));
  }
};
WEFT_OP(Permute);

struct Transpose {
  static constexpr Schema schema{"transpose(Tensor self, int dim0, int dim1) -> Tensor"};
  static constexpr uint32_t traits = kView | kLinear;
  int64_t dim0, dim1;

  void infer(Inputs in, Meta* out) const {
    const int64_t a = wrap_dim(dim0, in[0].ndim()), b = wrap_dim(dim1, in[0].ndim());
    copy_dims(in[0], out);
    if (in[0].ndim() == 0) return;
    std::swap(out->sizes[a], out->sizes[b]);
    std::swap(out->strides[a], out->strides[b]);
  }
  static void vjp(Backward& b) { b.set(0, transpose(b.grad(), b.op<Transpose>().dim0, b.op<Transpose>().dim1)); }
};
WEFT_OP(Transpose);
WEFT_OP_ALIAS(Swapaxes, Transpose, "swapaxes(Tensor self, int axis0, int axis1) -> Tensor");
WEFT_OP_ALIAS(Swapdims, Transpose, "swapdims(Tensor self, int dim0, int dim1) -> Tensor");

struct T {
  static constexpr Schema schema{"t(Tensor self) -> Tensor"};
  static constexpr uint32_t traits = kView | kLinear;
  static constexpr const char* backward_name = "TBackward0";

  void infer(Inputs in, Meta* out) const {
    if (in[0].ndim() > 2) fail("t() expects a tensor with <= 2 dimensions, but self is ", in[0].ndim(), "D");
    copy_dims(in[0], out);
    if (in[0].ndim() < 2) return;
    std::swap(out->sizes[0], out->sizes[1]);
    std::swap(out->strides[0], out->strides[1]);
  }
  static void vjp(Backward& b) { b.set(0, b.grad().ndim() < 2 ? b.grad() : transpose(b.grad(), 0, 1)); }
};
WEFT_OP(T);

struct Expand {
  static constexpr Schema schema{"expand(Tensor self, int[] size, *, bool implicit=False) -> Tensor"};
  static constexpr uint32_t traits = kView | kLinear;
  Dims size;
  bool implicit;

  void infer(Inputs in, Meta* out) const {
    const Tensor& a = in[0];
    start_view(a, out);
    const int shift = size.size() - a.ndim();
    if (shift < 0) {
      fail("expand(", describe(a.get()), ", size=", shape_text(size), "): the number of sizes provided (", size.size(),
           ") must be greater or equal to the number of dimensions in the tensor (", a.ndim(), ")");
    }
    if (size.size() > kMostDims) fail("a tensor can have at most ", kMostDims, " dimensions");
    out->ndim = size.size();
    for (int d = 0; d < out->ndim; ++d) {
      const int64_t own = d >= shift ? a.size(d - shift) : 1;
      int64_t wanted = size[d];
      if (wanted == -1) {
        if (d < shift) {
          fail("The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension ", d);
        }
        wanted = own;
      } else if (wanted < 0) {
        fail("expand: size ", wanted, " of dimension ", d, " must not be negative (-1 keeps a dimension)");
      } else if (own != 1 && own != wanted) {
        fail("The expanded size of the tensor (", wanted, ") must match the existing size (", own,
             ") at non-singleton dimension ", d, ".  Target sizes: ", shape_text(size),
             ".  Tensor sizes: ", shape_text(a.sizes()));
      }
      out->sizes[d] = wanted;
      out->strides[d] = d >= shift && own == wanted ? a.stride(d - shift) : 0;
      if (own == 1 && wanted == 1 && d < shift) out->strides[d] = d + 1 < out->ndim ? 0 : 1;
    }
    checked_numel(out->shape());
    // New leading dimensions of size one keep row-major strides.
    for (int d = std::min(shift, out->ndim) - 1; d >= 0; --d) {
      if (out->sizes[d] == 1) out->strides[d] = d + 1 < out->ndim ? out->sizes[d + 1] * out->strides[d + 1] : 1;
    }
  }
  static void vjp(Backward& b) { b.set(0, b.grad()); }
};
WEFT_OP(Expand);

struct Squeeze {
  static constexpr Schema schema{"squeeze(Tensor self) -> Tensor"};
  static constexpr uint32_t traits = kView | kLinear;

  void infer(Inputs in, Meta* out) const {
    start_view(in[0], out);
    for (int d = 0; d < in[0].ndim(); ++d) {
      if (in[0].size(d) == 1) continue;
      out->sizes[out->ndim] = in[0].size(d);
      out->strides[out->ndim++] = in[0].stride(d);
    }
  }
  static void vjp(Backward& b) { b.set(0, reshape(b.grad(), b.input_sizes(0))); }
};
WEFT_OP(Squeeze);

struct SqueezeDim {
  static constexpr Schema schema{"squeeze.dim(Tensor self, int[] dim) -> Tensor"};
  static constexpr uint32_t traits = kView | kLinear;
  static constexpr const char* backward_name = "SqueezeBackward1";
  Dims dim;

  void infer(Inputs in, Meta* out) const {
    const Tensor& a = in[0];
    bool drop[kMostDims] = {};
    for (int64_t d : dim) {
      const int64_t at = wrap_dim(d, a.ndim());
      if (drop[at]) fail("dim ", at, " appears multiple times in the list of dims");
      drop[at] = true;
    }
    start_view(a, out);
    for (int d = 0; d < a.ndim(); ++d) {
      if (a.size(d) == 1 && drop[d]) continue;
      out->sizes[out->ndim] = a.size(d);
      out->strides[out->ndim++] = a.stride(d);
    }
  }
  static void vjp(Backward& b) { b.set(0, reshape(b.grad(), b.input_sizes(0))); }
};
WEFT_OP(SqueezeDim);

struct Unsqueeze {
  static constexpr Schema schema{"unsqueeze(Tensor self, int dim) -> Tensor"};
  static constexpr uint32_t traits = kView | kLinear;
  int64_t dim;

  void infer(Inputs in, Meta* out) const {
    const int64_t at = wrap_dim(dim, in[0].ndim() + 1);
    copy_dims(in[0], out);
    const int64_t stride = at < out->ndim ? out->sizes[at] * out->strides[at] : 1;
    insert_dim(out, at, 1, stride);
  }
  static void vjp(Backward& b) { b.set(0, reshape(b.grad(), b.input_sizes(0))); }
};
WEFT_OP(Unsqueeze);

struct Detach {
  static constexpr Schema schema{"detach(Tensor self) -> Tensor"};
  static constexpr uint32_t traits = kView | kNeverDifferentiable;

  void infer(Inputs in, Meta* out) const { copy_dims(in[0], out); }
};
WEFT_OP(Detach);

struct Alias {
  static constexpr Schema schema{"alias(Tensor self) -> Tensor"};
  static constexpr uint32_t traits = kView | kLinear;

  void infer(Inputs in, Meta* out) const { copy_dims(in[0], out); }
  static void vjp(Backward& b) { b.set(0, b.grad()); }
};
WEFT_OP(Alias);

// ---- parts of a tensor ---------------------------------------------------------------------------

struct Select {
  static constexpr Schema schema{"select(Tensor self, int dim, int index) -> Tensor"};
  static constexpr uint32_t traits = kView | kLinear;
  int64_t dim, index;

  void infer(Inputs in, Meta* out) const {
    const Tensor& a = in[0];
    if (a.ndim() == 0) fail(ErrorKind::Index, "select() cannot be applied to a 0-dim tensor.");
    const int64_t at = wrap_dim(dim, a.ndim());
    const int64_t size = a.size(static_cast<int>(at));
    if (index < -size || index >= size) {
      fail(ErrorKind::Index, "select(): index ", index, " out of range for tensor of size ", shape_text(a.sizes()),
           " at dimension ", at);
    }
    copy_dims(a, out);
    out->offset = (index < 0 ? index + size : index) * out->strides[at];
    drop_dim(out, at);
  }
  static void vjp(Backward& b) {
    const Select& op = b.op<Select>();
    const IntSpan sizes = b.input_sizes(0);
    const Dims strides = contiguous_strides(sizes);
    const int64_t at = wrap_dim(op.dim, static_cast<int64_t>(sizes.size()));
    Dims kept;
    for (int d = 0; d < strides.size(); ++d)
      if (d != at) kept.push_back(strides[d]);
    const int64_t index = op.index < 0 ? op.index + sizes[at] : op.index;
    set_window_gradient(b, kept, index * strides[static_cast<int>(at)]);
  }
};
WEFT_OP(Select);

struct Slice {
  static constexpr Schema schema{"slice(Tensor self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor"};
  static constexpr uint32_t traits = kView | kLinear;
  int64_t dim;
  std::optional<int64_t> start, end;
  int64_t step;

  struct Range { int64_t first, length; };
  Range range(int64_t size) const {
    int64_t first = start.value_or(0), last = end.value_or(size);
    if (first < 0) first = std::max<int64_t>(first + size, 0);
    if (last < 0) last = std::max<int64_t>(last + size, 0);
    first = std::min(first, size);
    last = std::clamp(last, first, size);
    const int64_t span = last - first;
    return {first, span / step + (span % step != 0)};
  }
  void infer(Inputs in, Meta* out) const {
    const Tensor& a = in[0];
    if (a.ndim() == 0) fail("slice() cannot be applied to a 0-dim tensor.");
    if (step <= 0) fail("slice step must be positive");
    const int64_t at = wrap_dim(dim, a.ndim());
    copy_dims(a, out);
    const Range r = range(out->sizes[at]);
    out->offset = r.first * out->strides[at];
    out->sizes[at] = r.length;
    if (r.length > 1) out->strides[at] *= step;
    else if (__builtin_mul_overflow(out->strides[at], step, &out->strides[at])) out->strides[at] = 1;
  }
  static void vjp(Backward& b) {
    const Slice& op = b.op<Slice>();
    const IntSpan sizes = b.input_sizes(0);
    Dims strides = contiguous_strides(sizes);
    const int at = static_cast<int>(wrap_dim(op.dim, static_cast<int64_t>(sizes.size())));
    const Range r = op.range(sizes[at]);
    const int64_t offset = r.first * strides[at];
    if (r.length > 1) strides[at] *= op.step;
    set_window_gradient(b, strides, offset);
  }
};
WEFT_OP(Slice);

struct Narrow {
  static constexpr Schema schema{"narrow(Tensor self, int dim, int start, int length) -> Tensor"};
  static constexpr const char* backward_name = "SliceBackward0";
  int64_t dim, start, length;

  Tensor compose(Inputs in) const { return narrow(in[0], dim, start, length); }
};
WEFT_OP(Narrow);

struct NarrowFrom {
  static constexpr Schema schema{"narrow.from(Tensor self, int dim, Tensor start, int length) -> Tensor"};
  static constexpr uint32_t traits = kForcesValues;
  static constexpr const char* backward_name = "SliceBackward0";
  int64_t dim, length;

  Tensor compose(Inputs in) const {
    if (in[1].ndim() != 0 || !is_integral(in[1].dtype()) || in[1].dtype() == DType::Bool) {
      fail("start must be an 0-dim integral Tensor.");
    }
    const Tensor start = to_dtype(detach(in[1]), DType::Int64);
    ensure_value(start.get());
    return narrow(in[0], dim, *start.data<int64_t>(), length);
  }
};
WEFT_OP(NarrowFrom);

struct Diagonal {
  static constexpr Schema schema{"diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor"};
  static constexpr uint32_t traits = kView | kLinear;
  int64_t offset, dim1, dim2;

  // Where the diagonal starts and how long it is, in a tensor of these sizes and strides.
  struct Line { int64_t start, length, stride; };
  Line line(IntSpan sizes, const int64_t* strides) const {
    const int64_t a = wrap_dim(dim1, static_cast<int64_t>(sizes.size())),
                  b = wrap_dim(dim2, static_cast<int64_t>(sizes.size()));
    Line l{0, 0, strides[a] + strides[b]};
    // Offsets beyond either side give an empty diagonal; compared before subtracting, so nothing overflows.
    if (offset >= 0) {
      if (offset < sizes[b]) {
        l.length = std::min(sizes[a], sizes[b] - offset);
        l.start = offset * strides[b];
      }
    } else if (offset > -sizes[a]) {
      l.length = std::min(sizes[a] + offset, sizes[b]);
      l.start = -offset * strides[a];
    }
    if (l.length <= 0) l = {0, 0, l.stride};
    return l;
  }
  void infer(Inputs in, Meta* out) const {
    const Tensor& t = in[0];
    if (t.ndim() < 2) wrap_dim(t.ndim() == 0 ? dim1 + 1 : dim2, t.ndim());
    const int64_t a = wrap_dim(dim1, t.ndim()), b = wrap_dim(dim2, t.ndim());
    if (a == b) fail("diagonal dimensions cannot be identical ", dim1, ", ", dim2);
    copy_dims(t, out);
    const Line l = line(t.sizes(), out->strides);
    out->offset = l.start;
    drop_dim(out, std::max(a, b));
    drop_dim(out, std::min(a, b));
    insert_dim(out, out->ndim, l.length, l.stride);
  }
  static void vjp(Backward& b) {
    const Diagonal& op = b.op<Diagonal>();
    const IntSpan sizes = b.input_sizes(0);
    const Dims strides = contiguous_strides(sizes);
    const Line l = op.line(sizes, strides.data());
    const int64_t n = static_cast<int64_t>(sizes.size());
    Dims kept;
    for (int d = 0; d < n; ++d)
      if (d != wrap_dim(op.dim1, n) && d != wrap_dim(op.dim2, n)) kept.push_back(strides[d]);
    kept.push_back(l.stride);
    set_window_gradient(b, kept, l.start);
  }
};
WEFT_OP(Diagonal);

struct Unfold {
  static constexpr Schema schema{"unfold(Tensor self, int dimension, int size, int step) -> Tensor"};
  static constexpr uint32_t traits = kView | kLinear;
  int64_t dimension, size, step;

  void infer(Inputs in, Meta* out) const {
    const Tensor& a = in[0];
    const int64_t at = wrap_dim(dimension, a.ndim());
    const int64_t length = a.ndim() == 0 ? 1 : a.size(static_cast<int>(at));
    if (size < 0) fail("size is ", size, " but must be >= 0");
    if (size > length) fail("maximum size for tensor at dimension ", at, " is ", length, " but size is ", size);
    if (step <= 0) fail("step is ", step, " but must be > 0");
    copy_dims(a, out);
    const int64_t stride = a.ndim() == 0 ? 1 : out->strides[at];
    if (a.ndim() > 0) {
      out->sizes[at] = (length - size) / step + 1;
      if (__builtin_mul_overflow(out->strides[at], step, &out->strides[at])) out->strides[at] = 1;
    }
    insert_dim(out, out->ndim, size, stride);
  }
  static void vjp(Backward& b) {
    const Unfold& op = b.op<Unfold>();
    const IntSpan sizes = b.input_sizes(0);
    Dims strides = contiguous_strides(sizes);
    if (sizes.empty()) {
      strides.push_back(1);
    } else {
      const int at = static_cast<int>(wrap_dim(op.dimension, static_cast<int64_t>(sizes.size())));
      const int64_t inner = strides[at];
      if (b.output_sizes()[at] > 1) strides[at] *= op.step;
      strides.push_back(inner);
    }
    set_window_gradient(b, strides, 0);
  }
};
WEFT_OP(Unfold);

// ---- a copy with a part replaced -------------------------------------------------------------------

namespace {

// A copy of `a` with `source` where this view of a row-major tensor would look.
template <class ViewOp>
Tensor scatter_into(const ViewOp& view_op, const Tensor& a, const Tensor& source) {
  const Tensor row_major = pending(a.sizes(), a.dtype(), a->device);
  TensorImpl* in[] = {row_major.get()};
  Meta window;
  view_op.infer(Inputs(in, 1), &window);
  if (!std::equal(window.sizes, window.sizes + window.ndim, source.sizes().begin(), source.sizes().end())) {
    fail("expected src to have a size equal to the slice of self. src size = ", shape_text(source.sizes()),
         ", slice size = ", shape_text(window.shape()));
  }
  return place_in_copy(a, source, window.shape(), window.stride_span(), window.offset);
}

}  // namespace

struct SelectScatter {
  static constexpr Schema schema{"select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor"};
  static constexpr const char* backward_name = "SliceScatterBackward0";
  int64_t dim, index;

  Tensor compose(Inputs in) const { return scatter_into(Select{dim, index}, in[0], in[1]); }
};
WEFT_OP(SelectScatter);

struct SliceScatter {
  static constexpr Schema schema{
      "slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor"};
  static constexpr uint32_t traits = kExactOut;
  static constexpr const char* backward_name = "SliceScatterBackward0";
  int64_t dim;
  std::optional<int64_t> start, end;
  int64_t step;

  Tensor compose(Inputs in) const { return scatter_into(Slice{dim, start, end, step}, in[0], in[1]); }
};
WEFT_OP(SliceScatter);

struct DiagonalScatter {
  static constexpr Schema schema{
      "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"};
  static constexpr const char* backward_name = "SliceScatterBackward0";
  int64_t offset, dim1, dim2;

  Tensor compose(Inputs in) const { return scatter_into(Diagonal{offset, dim1, dim2}, in[0], in[1]); }
};
WEFT_OP(DiagonalScatter);

// ---- for C++ -----------------------------------------------------------------------------------------

namespace {
constexpr OpTable op_UnbindPart = with_node_name(op_Select, "UnbindBackward0");
constexpr OpTable op_SplitPart = with_node_name(op_Slice, "SplitBackward0");
constexpr OpTable op_SplitWithSizesPart = with_node_name(op_Slice, "SplitWithSizesBackward0");

Tensor one_of_several(Tensor view) {
  if (!view->has(kInference)) view->flags |= kViewMultiple;
  return view;
}
}  // namespace

Tensor unbound(const Tensor& a, int64_t dim, int64_t index) {
  return one_of_several(call(op_UnbindPart, Select{dim, index}, a));
}
Tensor split_part(const Tensor& a, int64_t dim, int64_t start, int64_t length, bool of_given_sizes) {
  const Slice part{dim, start, start + length, 1};
  return one_of_several(call(of_given_sizes ? op_SplitWithSizesPart : op_SplitPart, part, a));
}

Tensor view(const Tensor& a, IntSpan sizes) { return call(op_View, View{Dims(sizes)}, a); }

namespace {

// What shows memory that nobody else sees is not a view of anything.
Tensor own_memory(Tensor t) {
  if (TensorImpl* base = std::exchange(t->base, nullptr)) release(base);
  t->flags &= ~kViewLimits;
  return t;
}

}  // namespace

Tensor reshape(const Tensor& a, IntSpan sizes) {
  int64_t wanted[kMostDims], strides[kMostDims];
  infer_size(sizes, a.numel(), wanted);
  const IntSpan shape(wanted, sizes.size());
  if (strides_for_view(a, wanted, static_cast<int>(sizes.size()), strides)) return view(a, shape);
  return own_memory(view(contiguous_copy(a), shape));
}

Tensor expand(const Tensor& a, IntSpan sizes) { return call(op_Expand, Expand{Dims(sizes), false}, a); }
Tensor permute(const Tensor& a, IntSpan order) { return call(op_Permute, Permute{Dims(order)}, a); }
Tensor transpose(const Tensor& a, int64_t d0, int64_t d1) { return call(op_Transpose, Transpose{d0, d1}, a); }
Tensor squeeze(const Tensor& a, int64_t dim) { return call(op_SqueezeDim, SqueezeDim{Dims{dim}}, a); }
Tensor unsqueeze(const Tensor& a, int64_t dim) { return call(op_Unsqueeze, Unsqueeze{dim}, a); }
Tensor select(const Tensor& a, int64_t dim, int64_t index) { return call(op_Select, Select{dim, index}, a); }
Tensor slice(const Tensor& a, int64_t dim, int64_t start, int64_t end, int64_t step) {
  return call(op_Slice, Slice{dim, start, end, step}, a);
}
Tensor detach(const Tensor& a) { return call(op_Detach, Detach{}, a); }
Tensor view_of_all(const Tensor& a) { return call(op_Alias, Alias{}, a); }
Tensor diagonal(const Tensor& a, int64_t offset, int64_t dim1, int64_t dim2) {
  return call(op_Diagonal, Diagonal{offset, dim1, dim2}, a);
}

Tensor narrow(const Tensor& a, int64_t dim, int64_t start, int64_t length) {
  if (a.ndim() == 0) fail("narrow() cannot be applied to a 0-dim tensor.");
  if (length < 0) fail("narrow(): length must be non-negative.");
  const int64_t size = a.size(static_cast<int>(wrap_dim(dim, a.ndim())));
  if (start < -size || start > size) {
    fail(ErrorKind::Index, "start out of range (expected to be in range of [", -size, ", ", size, "], but got ", start,
         ")");
  }
  if (start < 0) start += size;
  if (length > size - start) fail("start (", start, ") + length (", length, ") exceeds dimension size (", size, ").");
  return slice(a, dim, start, start + length, 1);
}

}  // namespace weft
