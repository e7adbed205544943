// Views by strides, and the windows onto memory that the derivatives of views write through.
#include <algorithm>
#include <cstring>

#include "core/ops/shape.h"

namespace weft {

namespace {

// How far a view reaches from its first element, or a refusal.
int64_t checked_reach(IntSpan sizes, IntSpan strides) {
  checked_numel(sizes);
  int64_t reach = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return -1;
    int64_t along;
    if (strides[d] < 0)
      fail("as_strided: Negative strides are not supported at the moment, got strides: ", shape_text(strides));
    if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &along) || __builtin_add_overflow(reach, along, &reach)) {
      fail("as_strided: sizes ", shape_text(sizes), " and strides ", shape_text(strides),
           " reach further than can be addressed");
    }
  }
  return reach;
}

}  // namespace

struct AsStrided {
  static constexpr Schema schema{
      "as_strided(Tensor self, int[] size, int[] stride, int? storage_offset=None) -> Tensor"};
  static constexpr uint32_t traits = kView | kLinear | kSavesGeometry;
  static constexpr Saves saves{{input(0)}};  // only its strides are looked at
  Dims size, stride;
  std::optional<int64_t> storage_offset;

  void infer(Inputs in, Meta* out) const {
    const Tensor& a = in[0];
    ensure_value(a.get());
    if (size.size() != stride.size()) fail("mismatch in length of strides and shape");
    if (size.size() > kMostDims) fail("a tensor can have at most ", kMostDims, " dimensions");
    const int64_t offset = storage_offset.value_or(a->storage_offset());
    if (offset < 0) fail("Tensor: invalid storage offset ", offset);
    const int64_t reach = checked_reach(size, stride);
    const int64_t available = static_cast<int64_t>(a->storage->bytes) / item_size(a.dtype());
    if (reach >= 0 && (offset > available || reach + 1 > available - offset)) {
      fail("setStorage: sizes ", shape_text(size), ", strides ", shape_text(stride), ", storage offset ", offset,
           ", and itemsize ", item_size(a.dtype()), " requiring a storage size of ",
           (offset + reach + 1) * item_size(a.dtype()), " are out of bounds for storage of size ", a->storage->bytes);
    }
    out->dtype = a.dtype();
    out->device = a->device;
    out->strided = true;
    out->ndim = size.size();
    std::copy_n(size.data(), out->ndim, out->sizes);
    std::copy_n(stride.data(), out->ndim, out->strides);
    out->offset = reach < 0 ? 0 : offset - a->storage_offset();
  }
  // The gradient is gathered per memory cell, then read back through the input's own strides.
  static void vjp(Backward& b) {
    const AsStrided& op = b.op<AsStrided>();
    const Tensor a = b.input(0);
    const int64_t cells = std::max<int64_t>(checked_reach(a.sizes(), a.strides()) + 1, 0);
    const int64_t offset = op.storage_offset.value_or(a->storage_offset()) - a->storage_offset();
    const int64_t reach = checked_reach(op.size, op.stride);
    if (reach < 0) return b.set(0, zeros(a.sizes(), a.dtype()));
    // The view may show memory around the input; those cells are nobody's.
    const int64_t before = std::max<int64_t>(-offset, 0);
    const int64_t total = before + std::max(cells, offset + reach + 1);
    const Dims line{total};
    Tensor flat = place_in_zeros(b.grad(), line, op.stride, offset + before);
    Tensor mine = as_strided(flat, a.sizes(), a.strides(), before);
    if (may_overlap_itself(a.get())) {
      Tensor ones = full(a.sizes(), 1.0, a.dtype());
      Tensor count = as_strided(place_in_zeros(ones, line, a.strides(), before), a.sizes(), a.strides(), before);
      mine = div(mine, count);
    }
    b.set(0, mine);
  }
};
WEFT_OP(AsStrided);

// A gradient of the input's shape that is `grad` where the view looked and zero elsewhere.
struct ViewGradient {
  static constexpr Schema schema{"view_gradient(Tensor grad, int[] sizes, int[] strides, int offset) -> Tensor"};
  static constexpr uint32_t traits = kInternal | kLinear;
  static constexpr const char* backward_name = "SliceBackward0";
  Dims sizes, strides;
  int64_t offset;

  void infer(Inputs in, Meta* out) const { out->set(in[0].dtype(), in[0]->device, sizes); }
  void run(Inputs in, Tensor* out) const {
    std::memset(out[0]->data, 0, static_cast<size_t>(out[0].numel()) * item_size(out[0].dtype()));
    if (in[0].numel() == 0) return;
    Tensor window = alias(out[0], in[0].sizes(), strides, offset);
    if (!may_overlap_itself(window.get())) return copy_into(window, in[0]);
    // Elements seen several times receive the sum: added one step of the overlapping dimensions at a time.
    add_overlapping(window, in[0]);
  }
  static void vjp(Backward& b) {
    const ViewGradient& op = b.op<ViewGradient>();
    b.set(0, as_strided(contiguous(b.grad()), b.input_sizes(0), op.strides,
                        op.offset + contiguous(b.grad())->storage_offset()));
  }

 private:
  static void add_overlapping(const Tensor& to, const Tensor& from) {
    int widest = 0;  // peel off the dimension with the smallest stride until no overlap is left
    for (int d = 1; d < to.ndim(); ++d) {
      if (to.size(d) > 1 && (to.size(widest) == 1 || to.stride(d) < to.stride(widest))) widest = d;
    }
    Dims sizes, to_strides, from_strides;
    for (int d = 0; d < to.ndim(); ++d) {
      if (d == widest) continue;
      sizes.push_back(to.size(d));
      to_strides.push_back(to.stride(d));
      from_strides.push_back(from.stride(d));
    }
    for (int64_t i = 0; i < to.size(widest); ++i) {
      Tensor t = alias(to, sizes, to_strides, i * to.stride(widest));
      Tensor f = alias(from, sizes, from_strides, i * from.stride(widest));
      if (may_overlap_itself(t.get())) {
        add_overlapping(t, f);
      } else {
        const GradMode off(false);
        copy_into(t, add(t, f));
      }
    }
  }
};
WEFT_OP(ViewGradient);

// A base after one of its views was written to: the view's region comes from `src`.
struct AsStridedScatter {
  static constexpr Schema schema{
      "copy_slices(Tensor self, Tensor src, int[] base_strides, int[] size, int[] stride, int offset) -> Tensor"};
  static constexpr uint32_t traits = kInternal | kLinear;
  static constexpr const char* backward_name = "CopySlices";
  Dims base_strides, size, stride;
  int64_t offset;  // of the view, from the base's first element

  void infer(Inputs in, Meta* out) const {
    out->like(in[0]);
    out->strided = true;
    std::copy_n(base_strides.data(), base_strides.size(), out->strides);
  }
  void run(Inputs in, Tensor* out) const {
    copy_into(out[0], in[0]);
    copy_into(alias(out[0], size, stride, offset), in[1]);
  }
  static void vjp(Backward& b);
};
WEFT_OP(AsStridedScatter);

void AsStridedScatter::vjp(Backward& b) {
  const AsStridedScatter& op = b.op<AsStridedScatter>();
  if (b.needs(0)) { b.set(0, call(op_AsStridedScatter, op, b.grad(), zeros(op.size, b.output_dtype()))); }
  if (b.needs(1)) {
    // The gradient in the base's own layout, so that the view's strides mean the same cells.
    Tensor g = b.grad();
    Dims laid_out(g.strides());
    if (!(laid_out == op.base_strides)) {
      AsStridedScatter nothing{op.base_strides, Dims{0}, Dims{1}, 0};
      g = call(op_AsStridedScatter, nothing, g, zeros(Dims{0}, g.dtype()));
    }
    b.set(1, as_strided(g, op.size, op.stride, g->storage_offset() + op.offset));
  }
}

// ---- for C++ -----------------------------------------------------------------------------------------

Tensor as_strided(const Tensor& a, IntSpan sizes, IntSpan strides, int64_t offset) {
  return call(op_AsStrided, AsStrided{Dims(sizes), Dims(strides), offset}, a);
}

Tensor place_in_zeros(const Tensor& a, IntSpan sizes, IntSpan strides, int64_t offset) {
  return call(op_ViewGradient, ViewGradient{Dims(sizes), Dims(strides), offset}, a);
}

namespace { constexpr OpTable op_PlaceInCopy = with_node_name(op_AsStridedScatter, "SliceScatterBackward0"); }

Tensor place_in_copy(const Tensor& a, const Tensor& source, IntSpan sizes, IntSpan strides, int64_t offset) {
  return call(op_PlaceInCopy, AsStridedScatter{contiguous_strides(a.sizes()), Dims(sizes), Dims(strides), offset}, a,
              source);
}

Node* record_view_write(const Tensor& base, const Tensor& view) {
  const AsStridedScatter op{Dims(base.strides()), Dims(view.sizes()), Dims(view.strides()),
                            (view->data - base->data) / item_size(base.dtype())};
  TensorImpl* in[] = {base.get(), view.get()};
  Tensor out[] = {base};
  return record_node(op_AsStridedScatter, &op, Inputs(in, 2), out, 1, nullptr);
}

Node* record_view_again(const Tensor& base, const Tensor& view) {
  const AsStrided op{Dims(view.sizes()), Dims(view.strides()), view->storage_offset()};
  TensorImpl* in[] = {base.get()};
  Tensor out[] = {view};
  return record_node(op_AsStrided, &op, Inputs(in, 1), out, 1, nullptr);
}

}  // namespace weft
