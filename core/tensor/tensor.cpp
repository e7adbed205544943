#include "core/tensor/tensor.h"

#include <algorithm>
#include <cstring>

#include "core/math/types.h"
#include "core/tensor/callsite.h"
#include "core/tensor/promotion.h"

namespace weft {

constinit PythonHooks python;
LiveCounts live{};

// Of core/graph, which lies above and knows what nodes are.
void release_node(Node* node);
void forget_retained(TensorImpl* t);
void forget_pending(TensorImpl* t);

namespace {

constexpr int kInPlaceDims = 3;

size_t heap_dims_bytes(int ndim) { return sizeof(int64_t) * 2 * ndim; }

TensorImpl* new_impl(int ndim, DType dtype, Device device) {
  auto* t = static_cast<TensorImpl*>(block_allocate(sizeof(TensorImpl)));
  t->refs = 1;
  t->dtype = dtype;
  t->device = device;
  t->ndim = static_cast<uint8_t>(ndim);
  t->flags = 0;
  t->output_nr = 0;
  t->view_version = 0;
  t->storage = nullptr;
  t->data = nullptr;
  t->grad_fn = nullptr;
  t->extra = nullptr;
  t->python = nullptr;
  t->base = nullptr;
  t->dims = ndim <= kInPlaceDims ? t->in_place : static_cast<int64_t*>(block_allocate(heap_dims_bytes(ndim)));
  ++live.tensors;
  return t;
}

// Sizes and row-major strides; the number of elements is returned after checking that it fits.
int64_t set_contiguous_dims(TensorImpl* t, IntSpan sizes) {
  const int ndim = t->ndim;
  int64_t* out_sizes = t->dims;
  int64_t* out_strides = t->dims + ndim;
  int64_t numel = 1;
  for (int d = ndim; d-- > 0;) {
    out_sizes[d] = sizes[d];
    out_strides[d] = numel;
    numel *= std::max<int64_t>(sizes[d], 1);
  }
  for (int d = 0; d < ndim; ++d)
    if (sizes[d] == 0) return 0;
  return numel;
}

void check_rank(size_t ndim) {
  if (ndim > kMostDims) fail("a tensor can have at most ", kMostDims, " dimensions, got ", ndim);
}

}  // namespace

int64_t checked_numel(IntSpan sizes) {
  int64_t numel = 1;
  bool empty = false;
  for (int64_t s : sizes) {
    if (s < 0) fail("Trying to create tensor with negative dimension ", s, ": ", shape_text(sizes));
    if (s == 0) {
      empty = true;
      continue;
    }
    if (__builtin_mul_overflow(numel, s, &numel) || numel > (int64_t{1} << 58)) {
      fail("a tensor of shape ", shape_text(sizes), " has more elements than can be addressed");
    }
  }
  return empty ? 0 : numel;
}

Tensor pending(IntSpan sizes, DType dtype, Device device) {
  check_rank(sizes.size());
  checked_numel(sizes);
  Tensor t = Tensor::adopt(new_impl(static_cast<int>(sizes.size()), dtype, device));
  t->numel = set_contiguous_dims(t.get(), sizes);
  t->flags = kContiguous | kPending;
  return t;
}

void attach_storage(TensorImpl* t) {
  t->storage = storage_allocate(static_cast<size_t>(t->numel) * item_size(t->dtype), t->device);
  t->data = t->storage->data;
  t->flags &= ~kPending;
}

Tensor empty(IntSpan sizes, DType dtype, Device device) {
  Tensor t = pending(sizes, dtype, device);
  attach_storage(t.get());
  return t;
}

Tensor empty_strided(IntSpan sizes, IntSpan strides, DType dtype, Device device) {
  check_rank(sizes.size());
  const int64_t numel = checked_numel(sizes);
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    int64_t reach;
    if (strides[d] < 0) fail("strides must not be negative, got ", shape_text(strides));
    if (__builtin_mul_overflow(std::max<int64_t>(sizes[d] - 1, 0), strides[d], &reach) ||
        __builtin_add_overflow(last, reach, &last) || last > (int64_t{1} << 58)) {
      fail("strides ", shape_text(strides), " reach further than can be addressed");
    }
  }
  TensorImpl* t = new_impl(static_cast<int>(sizes.size()), dtype, device);
  Tensor owner = Tensor::adopt(t);
  std::copy(sizes.begin(), sizes.end(), t->dims);
  std::copy(strides.begin(), strides.end(), t->dims + t->ndim);
  t->numel = numel;
  t->storage = storage_allocate(numel ? static_cast<size_t>(last + 1) * item_size(dtype) : 0, device);
  t->data = t->storage->data;
  refresh_contiguity(t);
  return owner;
}

Tensor alias(const Tensor& of, IntSpan sizes, IntSpan strides, int64_t offset) {
  check_rank(sizes.size());
  TensorImpl* t = new_impl(static_cast<int>(sizes.size()), of->dtype, of->device);
  int64_t numel = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    t->dims[d] = sizes[d];
    t->dims[t->ndim + d] = strides[d];
    numel *= sizes[d];
  }
  t->numel = numel;
  t->storage = of->storage;
  retain(t->storage);
  t->data = of->data + offset * item_size(of->dtype);
  refresh_contiguity(t);
  return Tensor::adopt(t);
}

Tensor alias(const Tensor& of) { return alias(of, of.sizes(), of.strides(), 0); }

void swap_contents(TensorImpl* a, TensorImpl* b) {
  Storage* before = a->storage != b->storage ? a->storage : nullptr;
  if (before) retain(before);
  std::swap(a->storage, b->storage);
  std::swap(a->data, b->data);
  std::swap(a->numel, b->numel);
  std::swap(a->dtype, b->dtype);
  // Sizes of few dimensions live inside the object, so both the pointer and the contents change places.
  const bool a_heap = a->dims != a->in_place, b_heap = b->dims != b->in_place;
  std::swap(a->ndim, b->ndim);
  std::swap(a->dims, b->dims);
  std::swap(a->in_place, b->in_place);
  if (!b_heap) a->dims = a->in_place;
  if (!a_heap) b->dims = b->in_place;
  refresh_contiguity(a);
  refresh_contiguity(b);
  if (before) retire(before);
}

Tensor wrapped_number(Scalar value) {
  const DType dtype = value.kind == Scalar::Kind::Float ? DType::Float64
                      : value.kind == Scalar::Kind::Int ? DType::Int64
                                                        : DType::Bool;
  TensorImpl* t = new_impl(0, dtype, Device{});
  t->numel = 1;
  t->flags = kContiguous | kWrappedNumber;
  t->storage = storage_allocate(8, Device{});
  t->data = t->storage->data;
  if (dtype == DType::Bool) *t->data = static_cast<char>(value.integer != 0);
  else std::memcpy(t->data, &value.integer, 8);
  return Tensor::adopt(t);
}

namespace {

// Finishing a tensor may drop the last reference to the next one (a chain of bases or gradients);
// the queue keeps that from becoming recursion.
TensorImpl* dying = nullptr;
bool draining = false;

void finish(TensorImpl* t) {
  if (t->flags & kRetainsGrad) forget_retained(t);
  if (t->flags & kPending) forget_pending(t);
  if (t->grad_fn) release_node(t->grad_fn);
  if (AutogradExtra* extra = t->extra) {
    if (extra->hooks) python.release(extra->hooks);
    if (extra->post_accumulate) python.release(extra->post_accumulate);
    delete extra;
  }
  if (t->base) release(t->base);
  if (t->storage) release(t->storage);
  if (t->ndim > kInPlaceDims) block_release(t->dims, heap_dims_bytes(t->ndim));
  block_release(t, sizeof(TensorImpl));
  --live.tensors;
}

}  // namespace

void tensor_destroy(TensorImpl* t) {
  if (t->flags & kOwnsPython) {
    // The object takes the tensor back and dies with it.
    t->flags &= ~kOwnsPython;
    t->refs = 1;
    return python.release(t->python);
  }
  if (!t->extra && !t->base && !t->grad_fn) return finish(t);
  if (draining) {
    t->python = dying;  // no Python object is left at this point, so the field can link the queue
    dying = t;
    return;
  }
  draining = true;
  finish(t);
  while (TensorImpl* next = dying) {
    dying = static_cast<TensorImpl*>(next->python);
    finish(next);
  }
  draining = false;
}

AutogradExtra& extra_of(TensorImpl* t) {
  if (!t->extra) t->extra = new AutogradExtra;
  return *t->extra;
}

bool is_contiguous(IntSpan sizes, IntSpan strides) {
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1) {
      if (strides[d] != expected) {
        for (size_t rest = 0; rest < d; ++rest)
          if (sizes[rest] == 0) return true;
        return false;
      }
      expected *= sizes[d];
    }
  }
  return true;
}

void refresh_contiguity(TensorImpl* t) { t->set(kContiguous, is_contiguous(t->sizes(), t->strides())); }

bool is_dense(IntSpan sizes, IntSpan strides) {
  int order[kMostDims];
  int n = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1) order[n++] = static_cast<int>(d);
  }
  std::sort(order, order + n, [&](int a, int b) { return strides[a] < strides[b]; });
  int64_t expected = 1;
  for (int i = 0; i < n; ++i) {
    if (strides[order[i]] != expected) return false;
    expected *= sizes[order[i]];
  }
  return true;
}

bool may_overlap_itself(const TensorImpl* t) {
  if (t->is_contiguous()) return false;
  int order[kMostDims];
  int n = 0;
  const IntSpan sizes = t->sizes(), strides = t->strides();
  for (int d = 0; d < t->ndim; ++d) {
    if (sizes[d] > 1) {
      if (strides[d] == 0) return true;
      order[n++] = d;
    }
  }
  std::sort(order, order + n, [&](int a, int b) { return strides[a] < strides[b]; });
  int64_t reach = 0;
  for (int i = 0; i < n; ++i) {
    if (strides[order[i]] <= reach) return true;
    reach += strides[order[i]] * (sizes[order[i]] - 1);
  }
  return false;
}

std::string shape_text(IntSpan sizes) {
  std::string text = "[";
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (d) text += ", ";
    text += std::to_string(sizes[d]);
  }
  return text + "]";
}

const char* dtype_name(DType t) {
  static constexpr const char* names[kDTypes] = {"bool",    "uint8",   "int8",      "int16",
                                                 "int32",   "int64",   "float16",   "bfloat16",
                                                 "float32", "float64", "complex64", "complex128"};
  return names[static_cast<int>(t)];
}

std::string device_name(Device d) {
  if (d.type == DeviceType::CPU) return "cpu";
  if (d.type == DeviceType::Meta) return "meta";
  return d.index < 0 ? "cuda" : "cuda:" + std::to_string(d.index);
}

std::string describe(const TensorImpl* t) {
  if (!t) return "None";
  std::string text = std::string(dtype_name(t->dtype)) + shape_text(t->sizes());
  if (t->device.type != DeviceType::CPU) text += " on " + device_name(t->device);
  return text;
}

}  // namespace weft
