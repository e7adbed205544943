#include "core/graph/values.h"

#include <algorithm>
#include <cstring>

#include "core/graph/dispatch.h"
#include "core/kernels/cpu/indexing.h"
#include "core/kernels/cpu/pointwise.h"

namespace weft {

namespace {

// From here on several threads copy faster than one.
constexpr int64_t kLargeCopy = int64_t{1} << 20;

void copy_contiguous(TensorImpl* out, const TensorImpl* in) {
  const int item = item_size(out->dtype);
  const int64_t bytes = out->numel * item;
  const bool apart = out->data + bytes <= in->data || in->data + bytes <= out->data;
  if (bytes < kLargeCopy || !apart) {
    std::memmove(out->data, in->data, static_cast<size_t>(bytes));
    return;
  }
  const int64_t numel = out->numel, stride = item;
  const Unlocked unlocked(true);
  cpu::copy_strided(item, {out->data, 1, &numel, &stride}, {in->data, 1, &numel, &stride});
}

}  // namespace

void copy_into(const Tensor& to, const Tensor& from) {
  ensure_value(from.get());
  TensorImpl* out = to.get();
  const TensorImpl* in = from.get();
  if (out->numel == 0) return;
  if (out->dtype == in->dtype && out->is_contiguous() && in->is_contiguous() && out->numel == in->numel) {
    return copy_contiguous(out, in);
  }
  const int shift = out->ndim - in->ndim;
  int64_t strides[kMostDims];
  bool full = shift == 0;
  for (int d = 0; d < out->ndim; ++d) {
    const bool own = d >= shift && (in->dims[d - shift] != 1 || out->dims[d] == 1);
    if (shift < 0 || (own && in->dims[d - shift] != out->dims[d])) {
      fail("copy: a tensor of shape ", shape_text(in->sizes()), " does not fit one of shape ",
           shape_text(out->sizes()));
    }
    strides[d] = own ? in->dims[in->ndim + d - shift] : 0;
    full = full && own;
  }
  cpu::PointwiseCall call{};
  call.ndim = out->ndim;
  call.sizes = out->dims;
  call.numel = out->numel;
  call.operands = 2;
  call.operand[0] = {out->data, out->dtype, in->dtype, out->is_contiguous(), out->dims + out->ndim};
  call.operand[1] = {in->data, in->dtype, in->dtype, full && in->is_contiguous(), strides};
  Unlocked unlocked(out->numel >= 64 * 1024);
  cpu::run_pointwise(call);
}

Tensor detached_copy(const Tensor& a) {
  Tensor copy = empty(a.sizes(), a.dtype(), a->device);
  copy_into(copy, a);
  return copy;
}

Tensor full(IntSpan sizes, Scalar value, DType dtype, Device device) {
  Tensor t = empty(sizes, dtype, device);
  copy_into(t, wrapped_number(value));
  return t;
}

Tensor zeros(IntSpan sizes, DType dtype, Device device) {
  Tensor t = empty(sizes, dtype, device);
  std::memset(t->data, 0, static_cast<size_t>(t->numel) * item_size(dtype));
  return t;
}

void resize_output(TensorImpl* out, IntSpan sizes) {
  if (out->ndim == static_cast<int>(sizes.size()) && std::equal(sizes.begin(), sizes.end(), out->dims)) return;
  if (out->numel != 0) {
    fail("an out= tensor of shape ", shape_text(out->sizes()), " cannot hold a result of shape ", shape_text(sizes),
         ". Pass an empty tensor, or one of the right shape.");
  }
  if (out->storage && out->storage->owner)
    fail("Trying to resize storage that is not resizable: it belongs to another library");
  if (out->requires_grad()) fail("cannot resize variables that require grad");
  if (out->base)
    fail("an out= tensor that is a view cannot be resized from ", shape_text(out->sizes()), " to ", shape_text(sizes));
  Tensor fresh = empty(sizes, out->dtype, out->device);
  swap_contents(out, fresh.get());
}

}  // namespace weft
