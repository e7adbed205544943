// A tensor: dtype, shape, strides, a place in a storage, and where it came from.
//
// Reference counts are plain integers: they are touched only while the interpreter lock is held.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/math/dtype.h"
#include "core/tensor/dims.h"
#include "core/tensor/error.h"
#include "core/tensor/scalar.h"
#include "core/tensor/storage.h"

namespace weft {

struct Node;           // core/graph/node.h
struct AutogradExtra;  // below
class Tensor;

enum TensorFlag : uint16_t {
  kRequiresGrad = 1 << 0,
  kWrappedNumber = 1 << 1,  // came from a Python number: weakest in type promotion
  kUntracked = 1 << 2,      // made by `.data`: writes do not count as a new version
  kInference = 1 << 3,      // made under inference_mode: never recorded, versions not tracked
  kContiguous = 1 << 4,
  kPending = 1 << 5,  // recorded, not computed yet (deferred schedule); `storage` is null
  // How a view was made that must not be written to under autograd; handed on to its own views.
  kViewNoGrad = 1 << 6,       // under no_grad
  kViewMultiple = 1 << 7,     // as one of several views made by one operation (split, unbind, chunk)
  kViewInFunction = 1 << 11,  // by a custom function
  kViewInference = 1 << 12,   // under inference_mode, of a normal tensor
  kViewLimits = kViewNoGrad | kViewMultiple | kViewInFunction | kViewInference,
  kRetainsGrad = 1 << 8,
  kPacked = 1 << 10,          // stands in a node for a value that a saved-tensor hook has packed
  kOptimised = 1 << 13,       // belongs to an optimiser
  kMetUnoptimised = 1 << 14,  // had a gradient without belonging to one: told once
  kOwnsPython = 1 << 9,       // the Python object outlived its last reference: see bind/tensor_type.cpp
};

struct TensorImpl {
  uint32_t refs;
  DType dtype;
  Device device;
  uint8_t ndim;
  uint16_t flags;
  uint16_t output_nr;
  uint32_t view_version;  // version at which a view's grad_fn was derived from its base
  Storage* storage;
  char* data;
  int64_t numel;
  Node* grad_fn;         // owned
  AutogradExtra* extra;  // owned, made when first needed
  void* python;          // the one Python object for this tensor, if somebody holds it
  TensorImpl* base;      // owned: of which tensor this is a view
  int64_t* dims;         // sizes, then strides (in elements)
  int64_t in_place[6];

  IntSpan sizes() const { return {dims, ndim}; }
  IntSpan strides() const { return {dims + ndim, ndim}; }
  bool has(TensorFlag flag) const { return flags & flag; }
  void set(TensorFlag flag, bool on) { flags = on ? (flags | flag) : (flags & ~flag); }
  bool requires_grad() const { return flags & kRequiresGrad; }
  bool is_contiguous() const { return flags & kContiguous; }
  int64_t storage_offset() const { return storage ? (data - storage->data) / item_size(dtype) : 0; }
};

void tensor_destroy(TensorImpl* impl);

inline void retain(TensorImpl* t) { ++t->refs; }
inline void release(TensorImpl* t) {
  if (--t->refs == 0) tensor_destroy(t);
}

class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other) : impl_(other.impl_) {
    if (impl_) retain(impl_);
  }
  Tensor(Tensor&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  Tensor& operator=(const Tensor& other) {
    Tensor copy(other);
    std::swap(impl_, copy.impl_);
    return *this;
  }
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(impl_, other.impl_);
    return *this;
  }
  ~Tensor() {
    if (impl_) release(impl_);
  }

  static Tensor adopt(TensorImpl* impl) {
    Tensor t;
    t.impl_ = impl;
    return t;
  }
  static Tensor share(TensorImpl* impl) {
    if (impl) retain(impl);
    return adopt(impl);
  }

  TensorImpl* get() const { return impl_; }
  TensorImpl* detach_ref() { return std::exchange(impl_, nullptr); }
  TensorImpl* operator->() const { return impl_; }
  explicit operator bool() const { return impl_ != nullptr; }

  DType dtype() const { return impl_->dtype; }
  int ndim() const { return impl_->ndim; }
  int64_t numel() const { return impl_->numel; }
  int64_t size(int d) const { return impl_->dims[d]; }
  int64_t stride(int d) const { return impl_->dims[impl_->ndim + d]; }
  IntSpan sizes() const { return impl_->sizes(); }
  IntSpan strides() const { return impl_->strides(); }
  template <class T> T* data() const { return reinterpret_cast<T*>(impl_->data); }

 private:
  TensorImpl* impl_ = nullptr;
};

// What only some tensors need: a gradient, hooks, a place in the deferred schedule.
struct AutogradExtra {
  Tensor grad;
  Node* accumulator = nullptr;  // not owned: the AccumulateGrad node of a leaf, while a graph holds it
  void* hooks = nullptr;        // Python dicts, owned through python_hooks
  void* post_accumulate = nullptr;
  // See Note [Gradients that were used already] in core/graph/diagnosis.h.
  uint32_t used_by_step = 0, used_version = 0;
  uint32_t stale_step = 0, stale_version = 0;
  std::string name;
};
AutogradExtra& extra_of(TensorImpl* t);

// New contiguous tensor with memory that is not initialised. Throws when there is no such memory.
Tensor empty(IntSpan sizes, DType dtype, Device device = {});
Tensor empty_strided(IntSpan sizes, IntSpan strides, DType dtype, Device device = {});
// A tensor of that shape without memory: to be computed later.
Tensor pending(IntSpan sizes, DType dtype, Device device);
void attach_storage(TensorImpl* t);
// Another tensor over the same memory. `offset` counts elements from the start of `of`'s data.
Tensor alias(const Tensor& of, IntSpan sizes, IntSpan strides, int64_t offset);
Tensor alias(const Tensor& of);
// Exchanges memory, dtype and shape; flags of recording, history and Python objects stay.
void swap_contents(TensorImpl* a, TensorImpl* b);
// The 0-dim tensor of a Python number.
Tensor wrapped_number(Scalar value);
Tensor full_scalar(Scalar value, DType dtype, Device device = {});

// Product of sizes; throws if it does not fit.
int64_t checked_numel(IntSpan sizes);
void refresh_contiguity(TensorImpl* t);
bool is_contiguous(IntSpan sizes, IntSpan strides);
// Whether the elements fill a range of memory without gaps or overlap (in some order of dimensions).
bool is_dense(IntSpan sizes, IntSpan strides);
bool may_overlap_itself(const TensorImpl* t);

std::string shape_text(IntSpan sizes);      // [2, 3]
std::string describe(const TensorImpl* t);  // float32[2, 3]
const char* dtype_name(DType t);            // float32
std::string device_name(Device d);          // cpu, cuda:0

struct LiveCounts { int64_t tensors, storages, nodes, bytes; };
extern LiveCounts live;

}  // namespace weft
