// weft.Tensor: a heap type written by hand, because every operation makes one.
//
// Note [One Python object for one tensor]
// PyTensor holds a reference to its TensorImpl; TensorImpl::python points back without owning. When the
// last Python reference goes while the graph still holds the tensor, an object with attributes or of a
// subclass must not be lost: finalize() then turns ownership round (the impl owns the object, flag
// kOwnsPython) until somebody in Python asks for the tensor again.
//
// Note [Collected only when it can be part of a cycle]
// A plain tensor refers to no Python object, so the cycle collector need not know it. It starts to be
// tracked when it is given attributes or hooks; subclasses are tracked from the start.
#include "bind/object.h"

#include "bind/override.h"
#include "bind/tensor_slots.h"
#include "core/ops/functions.h"

namespace weft::bind {

PyTypeObject* tensor_type = nullptr;

namespace {

constexpr int kMostFreeTensors = 1024;
PyTensor* free_tensors = nullptr;
int free_count = 0;

PyTensor* new_object() {
  if (free_tensors) {
    PyTensor* self = free_tensors;
    free_tensors = reinterpret_cast<PyTensor*>(self->impl);
    --free_count;
    Py_INCREF(tensor_type);
    _Py_NewReference(reinterpret_cast<PyObject*>(self));
    return self;
  }
  return PyObject_GC_New(PyTensor, tensor_type);
}

void drop_impl(PyTensor* self) {
  if (TensorImpl* t = std::exchange(self->impl, nullptr)) {
    t->python = nullptr;
    release(t);
  }
}

void finalize(PyObject* object) {
  auto* self = reinterpret_cast<PyTensor*>(object);
  TensorImpl* t = self->impl;
  if (!t || t->refs == 1 || (!self->dict && Py_TYPE(object) == tensor_type)) return;
  // The graph keeps the tensor: it now keeps the object too.
  Py_INCREF(object);
  t->flags |= kOwnsPython;
  release(t);
}

// So that finalize runs again the next time: Python marks an object whose finalizer has run, in the
// lowest bit of the word before it.
void forget_finalized(PyObject* object) { reinterpret_cast<uintptr_t*>(object)[-1] &= ~uintptr_t{1}; }

void dealloc(PyObject* object) {
  auto* self = reinterpret_cast<PyTensor*>(object);
  PyTypeObject* type = Py_TYPE(object);
  const bool tracked = PyObject_GC_IsTracked(object);
  if (self->dict && type == tensor_type && PyObject_CallFinalizerFromDealloc(object) < 0) return;
  if (tracked) PyObject_GC_UnTrack(object);
  if (self->weakrefs) PyObject_ClearWeakRefs(object);
  Py_CLEAR(self->dict);
  drop_impl(self);
  if (type == tensor_type && free_count < kMostFreeTensors && !tracked) {
    self->impl = reinterpret_cast<TensorImpl*>(free_tensors);
    free_tensors = self;
    ++free_count;
  } else {
    PyObject_GC_Del(object);
  }
  Py_DECREF(type);
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<PyTensor*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->dict);
  // Hooks belong to the tensor alone when nobody else holds it; so does the node that made it.
  if (self->impl && self->impl->refs == 1) {
    if (const AutogradExtra* extra = self->impl->extra) {
      Py_VISIT(static_cast<PyObject*>(extra->hooks));
      Py_VISIT(static_cast<PyObject*>(extra->post_accumulate));
    }
    if (Node* n = self->impl->grad_fn; n && n->refs == 1) return visit_node(n, visit, arg);
  }
  return 0;
}

int clear(PyObject* object) {
  auto* self = reinterpret_cast<PyTensor*>(object);
  Py_CLEAR(self->dict);
  if (self->impl && self->impl->refs == 1 && self->impl->extra) {
    Ref hooks(static_cast<PyObject*>(std::exchange(self->impl->extra->hooks, nullptr)));
    Ref post(static_cast<PyObject*>(std::exchange(self->impl->extra->post_accumulate, nullptr)));
  }
  return 0;
}

int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
  const int result = PyObject_GenericSetAttr(self, name, value);
  if (reinterpret_cast<PyTensor*>(self)->dict && !PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
  return result;
}

// ---- as a container --------------------------------------------------------------------------------

Py_hash_t hash(PyObject* self) { return _Py_HashPointer(self); }

Py_ssize_t length(PyObject* self) {
  const TensorImpl* t = impl_of(self);
  if (t->ndim == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  return t->dims[0];
}

PyObject* iterate(PyObject* self) {
  if (is_exact_tensor(self)) return iterate_tensor(self);
  if (impl_of(self)->ndim == 0) return PyErr_Format(PyExc_TypeError, "iteration over a 0-d tensor");
  static PyObject* unbind = interned("unbind");
  Ref parts(PyObject_CallMethodNoArgs(self, unbind));
  return parts ? PyObject_GetIter(parts.get()) : nullptr;
}

// ---- attributes ------------------------------------------------------------------------------------

PyObject* get_shape(PyObject* self, void*) { return size_object(impl_of(self)->sizes()); }
PyObject* get_dtype(PyObject* self, void*) {
  PyObject* o = dtype_object(impl_of(self)->dtype);
  Py_INCREF(o);
  return o;
}
PyObject* get_device(PyObject* self, void*) { return device_object(impl_of(self)->device); }
PyObject* get_requires_grad(PyObject* self, void*) { return PyBool_FromLong(shows_requires_grad(impl_of(self))); }
int set_requires_grad(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    TensorImpl* t = impl_of(self);
    const int on = value ? PyObject_IsTrue(value) : -1;
    if (on < 0) return -1;
    if (needs_grad(t) && t->requires_grad() && t->grad_fn) {
      if (on) return 0;
      fail(
          "you can only change requires_grad flags of leaf variables. If you want to use a "
          "computed variable in a "
          "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
    }
    if (on && !is_differentiable(t->dtype)) {
      fail("only Tensors of floating point and complex dtype can require gradients (this one is ", dtype_name(t->dtype),
           ")");
    }
    if (on && t->has(kInference) && !context().inference) {
      fail("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    }
    ensure_value(t);
    if (t->grad_fn) release(std::exchange(t->grad_fn, nullptr));  // a leaf from now on
    t->set(kRequiresGrad, on);
    return 0;
  });
}
PyObject* get_is_leaf(PyObject* self, void*) {
  return guarded([&] {
    TensorImpl* t = impl_of(self);
    return PyBool_FromLong(!needs_grad(t) || !t->requires_grad() || !t->grad_fn);
  });
}
PyObject* get_grad_fn(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    TensorImpl* t = impl_of(self);
    if (!needs_grad(t) || !t->requires_grad()) Py_RETURN_NONE;
    return wrap_node(t->grad_fn);
  });
}
PyObject* get_stored_grad(PyObject* self, void*) {
  const TensorImpl* t = impl_of(self);
  if (!t->extra || !t->extra->grad) Py_RETURN_NONE;
  return wrap(t->extra->grad);
}
constexpr const char* kNoGradOfResults =
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
    "attribute won't be populated during autograd.backward(). If you indeed want the .grad field "
    "to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you "
    "access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead.";
PyObject* get_grad(PyObject* self, void*) {
  const TensorImpl* t = impl_of(self);
  const bool will_be_missed =
      t->requires_grad() && t->grad_fn && !t->has(kRetainsGrad) && !(t->extra && t->extra->grad);
  if (will_be_missed && PyErr_WarnEx(PyExc_UserWarning, kNoGradOfResults, 1) < 0) return nullptr;
  return get_stored_grad(self, nullptr);
}
int set_grad(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    TensorImpl* t = impl_of(self);
    if (!value || value == Py_None) {
      if (t->extra) t->extra->grad = Tensor();
      return 0;
    }
    if (!is_tensor(value))
      fail(ErrorKind::Type, "assigned grad expected to be a Tensor or None but got grad of type ",
           Py_TYPE(value)->tp_name);
    TensorImpl* g = impl_of(value);
    if (g == t) fail("can't assign Variable as its own grad");
    if (g->dtype != t->dtype) {
      fail("assigned grad has data of a different type: ", dtype_name(g->dtype), " for a tensor of ",
           dtype_name(t->dtype));
    }
    if (g->ndim != t->ndim || !std::equal(t->dims, t->dims + t->ndim, g->dims)) {
      fail("assigned grad has data of a different size: ", shape_text(g->sizes()), " for a tensor of ",
           shape_text(t->sizes()));
    }
    extra_of(t).grad = Tensor::share(g);
    return 0;
  });
}
PyObject* get_output_nr(PyObject* self, void*) { return PyLong_FromLong(impl_of(self)->output_nr); }
PyObject* get_version(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    TensorImpl* t = impl_of(self);
    ensure_value(t);
    if (t->has(kInference)) fail("Inference tensors do not track version counter.");
    return PyLong_FromUnsignedLong(t->storage->version);
  });
}
PyObject* get_base(PyObject* self, void*) {
  TensorImpl* base = impl_of(self)->base;
  if (!base) Py_RETURN_NONE;
  return wrap(Tensor::share(base));
}
// Only a name for the mark that `.data` leaves behind: Note [Where the chain was cut].
constexpr OpTable op_detach_in_place{"Detach_", Schema{"detach_(Tensor self) -> Tensor"}};
constexpr OpTable op_data{"Data", Schema{"data(Tensor self) -> Tensor"}};

PyObject* get_data(PyObject* self, void*) {
  return guarded([&] {
    TensorImpl* t = impl_of(self);
    ensure_value(t);
    Tensor copy = alias(Tensor::share(t));
    copy->flags |= kUntracked;
    if (shows_requires_grad(t)) copy->grad_fn = record_cut(op_data, t);
    return keeps_class(Py_TYPE(self)) ? wrap_as(Py_TYPE(self), std::move(copy)) : wrap(std::move(copy));
  });
}
int set_data(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    if (!value || !is_tensor(value))
      fail(ErrorKind::Type, "Variable data has to be a tensor, but got ", value ? Py_TYPE(value)->tp_name : "nothing");
    TensorImpl* t = impl_of(self);
    Tensor from = Tensor::share(impl_of(value));
    ensure_value(from.get());
    if (needs_grad(t) && !is_differentiable(from.dtype())) {
      fail("data set to a tensor that requires gradients must be floating point or complex dtype");
    }
    ensure_value(t);
    const bool same_form = from.dtype() == t->dtype && std::ranges::equal(from.sizes(), t->sizes());
    if (!same_form && t->requires_grad() && t->grad_fn) {
      fail("the data of a tensor that was computed cannot be exchanged for data of another shape or ",
           "dtype: ", describe(t), " by ", describe(from.get()), ". Its gradient would not fit; ",
           "detach() it first.");
    }
    if (!same_form) forget_accumulator(t);
    if (t->base) release(std::exchange(t->base, nullptr));
    Tensor fresh = alias(from);
    swap_contents(t, fresh.get());
    return 0;
  });
}
PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLong(impl_of(self)->ndim); }
PyObject* get_itemsize(PyObject* self, void*) { return PyLong_FromLong(item_size(impl_of(self)->dtype)); }
PyObject* get_nbytes(PyObject* self, void*) {
  return PyLong_FromLongLong(impl_of(self)->numel * item_size(impl_of(self)->dtype));
}
PyObject* get_false(PyObject*, void*) { Py_RETURN_FALSE; }
PyObject* get_self(PyObject* self, void*) {
  Py_INCREF(self);
  return self;
}
PyObject* get_imag(PyObject*, void*) {
  return PyErr_Format(PyExc_RuntimeError, "imag is not implemented for tensors with non-complex dtypes.");
}
PyObject* get_is_meta(PyObject* self, void*) { return PyBool_FromLong(impl_of(self)->device.type == DeviceType::Meta); }
// Through the dict a tensor can come to refer to itself.
PyObject* get_dict(PyObject* self, void*) {
  PyObject* dict = PyObject_GenericGetDict(self, nullptr);
  if (dict && !PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
  return dict;
}
int set_dict(PyObject* self, PyObject* value, void*) {
  const int result = PyObject_GenericSetDict(self, value, nullptr);
  if (!PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
  return result;
}
PyObject* get_is_cpu(PyObject* self, void*) { return PyBool_FromLong(impl_of(self)->device.type == DeviceType::CPU); }
PyObject* get_is_cuda(PyObject* self, void*) { return PyBool_FromLong(impl_of(self)->device.type == DeviceType::CUDA); }
PyObject* get_retains_grad(PyObject* self, void*) { return PyBool_FromLong(impl_of(self)->has(kRetainsGrad)); }
PyObject* get_name(PyObject* self, void*) {
  const TensorImpl* t = impl_of(self);
  if (!t->extra || t->extra->name.empty()) Py_RETURN_NONE;
  return PyUnicode_FromString(t->extra->name.c_str());
}
PyObject* get_hooks(PyObject* self, void* which) {
  const TensorImpl* t = impl_of(self);
  auto* hooks = !t->extra ? nullptr : static_cast<PyObject*>(which ? t->extra->post_accumulate : t->extra->hooks);
  if (!hooks) Py_RETURN_NONE;
  Py_INCREF(hooks);
  return hooks;
}
int set_hooks(PyObject* self, PyObject* value, void* which) {
  AutogradExtra& extra = extra_of(impl_of(self));
  void*& slot = which ? extra.post_accumulate : extra.hooks;
  Ref before(static_cast<PyObject*>(slot));
  slot = value && value != Py_None ? value : nullptr;
  Py_XINCREF(static_cast<PyObject*>(slot));
  if (!PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
  return 0;
}

PyGetSetDef attributes[] = {
    {"shape", get_shape, nullptr, "The size of each dimension.", nullptr},
    {"dtype", get_dtype, nullptr, nullptr, nullptr},
    {"device", get_device, nullptr, nullptr, nullptr},
    {"requires_grad", get_requires_grad, set_requires_grad, "Whether gradients flow to this tensor.", nullptr},
    {"is_leaf", get_is_leaf, nullptr, nullptr, nullptr},
    {"grad_fn", get_grad_fn, nullptr, "The node that recorded how this tensor was made.", nullptr},
    {"grad", get_grad, set_grad, nullptr, nullptr},
    {"_grad", get_stored_grad, set_grad, nullptr, nullptr},
    {"output_nr", get_output_nr, nullptr, nullptr, nullptr},
    {"_version", get_version, nullptr, nullptr, nullptr},
    {"_base", get_base, nullptr, nullptr, nullptr},
    {"data", get_data, set_data, nullptr, nullptr},
    {"ndim", get_ndim, nullptr, nullptr, nullptr},
    {"itemsize", get_itemsize, nullptr, nullptr, nullptr},
    {"nbytes", get_nbytes, nullptr, nullptr, nullptr},
    {"is_cpu", get_is_cpu, nullptr, nullptr, nullptr},
    {"is_cuda", get_is_cuda, nullptr, nullptr, nullptr},
    {"is_meta", get_is_meta, nullptr, nullptr, nullptr},
    {"is_sparse", get_false, nullptr, nullptr, nullptr},
    {"is_sparse_csr", get_false, nullptr, nullptr, nullptr},
    {"is_quantized", get_false, nullptr, nullptr, nullptr},
    {"is_nested", get_false, nullptr, nullptr, nullptr},
    {"is_mkldnn", get_false, nullptr, nullptr, nullptr},
    {"is_mps", get_false, nullptr, nullptr, nullptr},
    {"is_xpu", get_false, nullptr, nullptr, nullptr},
    {"is_xla", get_false, nullptr, nullptr, nullptr},
    {"is_hpu", get_false, nullptr, nullptr, nullptr},
    {"is_ipu", get_false, nullptr, nullptr, nullptr},
    {"is_mtia", get_false, nullptr, nullptr, nullptr},
    {"is_maia", get_false, nullptr, nullptr, nullptr},
    {"is_vulkan", get_false, nullptr, nullptr, nullptr},
    {"real", get_self, nullptr, "The tensor itself: its numbers are real.", nullptr},
    {"imag", get_imag, nullptr, nullptr, nullptr},
    {"retains_grad", get_retains_grad, nullptr, nullptr, nullptr},
    {"name", get_name, nullptr, nullptr, nullptr},
    {"_backward_hooks", get_hooks, set_hooks, nullptr, nullptr},
    {"_post_accumulate_grad_hooks", get_hooks, set_hooks, nullptr, reinterpret_cast<void*>(1)},
    {"__dict__", get_dict, set_dict, nullptr, nullptr},
    {}};

// ---- small methods that are called too often to be parsed -----------------------------------------

PyObject* m_dim(PyObject* self, PyObject*) { return PyLong_FromLong(impl_of(self)->ndim); }
PyObject* m_numel(PyObject* self, PyObject*) { return PyLong_FromLongLong(impl_of(self)->numel); }
PyObject* m_element_size(PyObject* self, PyObject*) { return PyLong_FromLong(item_size(impl_of(self)->dtype)); }

// size() and stride(): all of them, or that of one dimension.
PyObject* dims_or_one(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names, bool strides) {
  const Py_ssize_t all = count + (names ? PyTuple_GET_SIZE(names) : 0);
  const char* called = strides ? "stride" : "size";
  if (all > 1) return PyErr_Format(PyExc_TypeError, "%s() takes at most 1 argument (%zd given)", called, all);
  if (all > count && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "dim") != 0) {
    return PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", called,
                        PyTuple_GET_ITEM(names, 0));
  }
  PyObject* dim = all ? args[0] : Py_None;
  const TensorImpl* t = impl_of(self);
  return guarded([&]() -> PyObject* {
    if (dim == Py_None) {
      if (!strides) return size_object(t->sizes());
      Ref tuple(checked(PyTuple_New(t->ndim)));
      for (int d = 0; d < t->ndim; ++d) PyTuple_SET_ITEM(tuple.get(), d, PyLong_FromLongLong(t->strides()[d]));
      return tuple.release();
    }
    int64_t d;
    if (!PyIndex_Check(dim))
      fail(ErrorKind::Type, called, "(): argument 'dim' must be int, not ", Py_TYPE(dim)->tp_name);
    if (!index_value(dim, &d)) throw PythonError{};
    if (t->ndim == 0) fail(ErrorKind::Index, "dimension specified as ", d, " but tensor has no dimensions");
    const int64_t at = wrap_dim(d, t->ndim);
    return PyLong_FromLongLong(strides ? t->strides()[at] : t->sizes()[at]);
  });
}
PyObject* m_size(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return dims_or_one(self, args, count, names, false);
}
PyObject* m_stride(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return dims_or_one(self, args, count, names, true);
}
PyObject* m_storage_offset(PyObject* self, PyObject*) {
  return guarded([&] {
    ensure_value(impl_of(self));
    return PyLong_FromLongLong(impl_of(self)->storage_offset());
  });
}
PyObject* m_data_ptr(PyObject* self, PyObject*) {
  return guarded([&] {
    ensure_value(impl_of(self));
    return PyLong_FromVoidPtr(impl_of(self)->numel ? impl_of(self)->data : nullptr);
  });
}
PyObject* m_item(PyObject* self, PyObject*) {
  return guarded([&] {
    TensorImpl* t = impl_of(self);
    if (t->numel != 1) {
      fail("a Tensor with ", t->numel, " elements cannot be converted to Scalar (", describe(t),
           "); use tolist() for all of them");
    }
    return tensor_item(t);
  });
}
PyObject* m_complex(PyObject* self, PyObject*) {
  Ref value(PyNumber_Float(self));
  return value ? PyComplex_FromDoubles(PyFloat_AS_DOUBLE(value.get()), 0) : nullptr;
}
PyObject* m_is_same_size(PyObject* self, PyObject* other) {
  if (!is_tensor(other))
    return PyErr_Format(PyExc_TypeError, "is_same_size(): argument 'other' must be Tensor, not %s",
                        Py_TYPE(other)->tp_name);
  const TensorImpl *a = impl_of(self), *b = impl_of(other);
  return PyBool_FromLong(std::ranges::equal(a->sizes(), b->sizes()));
}
PyObject* m_is_set_to(PyObject* self, PyObject* other) {
  if (!is_tensor(other))
    return PyErr_Format(PyExc_TypeError, "is_set_to(): argument 'tensor' must be Tensor, not %s",
                        Py_TYPE(other)->tp_name);
  return guarded([&] {
    TensorImpl *a = impl_of(self), *b = impl_of(other);
    ensure_value(a);
    ensure_value(b);
    return PyBool_FromLong(a->storage == b->storage && a->data == b->data && a->dtype == b->dtype &&
                           std::ranges::equal(a->sizes(), b->sizes()) &&
                           std::ranges::equal(a->strides(), b->strides()));
  });
}
PyObject* m_is_view(PyObject* self, PyObject*) { return PyBool_FromLong(impl_of(self)->base != nullptr); }
PyObject* m_is_inference(PyObject* self, PyObject*) { return PyBool_FromLong(impl_of(self)->has(kInference)); }
PyObject* m_is_floating(PyObject* self, PyObject*) { return PyBool_FromLong(is_floating(impl_of(self)->dtype)); }
PyObject* m_is_complex(PyObject* self, PyObject*) { return PyBool_FromLong(is_complex(impl_of(self)->dtype)); }
PyObject* m_is_signed(PyObject* self, PyObject*) {
  return PyBool_FromLong(impl_of(self)->dtype != DType::Bool && impl_of(self)->dtype != DType::UInt8);
}
PyObject* m_requires_grad_(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"requires_grad", nullptr};
  PyObject* on = Py_True;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", const_cast<char**>(names), &on)) return nullptr;
  if (set_requires_grad(self, on, nullptr) < 0) return nullptr;
  Py_INCREF(self);
  return self;
}
PyObject* m_detach_(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    TensorImpl* t = impl_of(self);
    if (t->base) {
      fail(
          "Can't detach views in-place. Use detach() instead. If you are using "
          "DistributedDataParallel (DDP) for training, "
          "and gradient_as_bucket_view is set as True, gradients are views of DDP buckets.");
    }
    if (t->has(kRetainsGrad)) forget_retained(t);
    if (needs_grad(t)) {
      Node* cut = record_cut(op_detach_in_place, t);
      if (t->grad_fn) release(t->grad_fn);
      t->grad_fn = cut;
    }
    t->set(kRequiresGrad, false);
    t->output_nr = 0;
    Py_INCREF(self);
    return self;
  });
}
PyObject* m_retain_grad(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    TensorImpl* t = impl_of(self);
    if (!needs_grad(t)) fail("can't retain_grad on Tensor that has requires_grad=False (", describe(t), ")");
    keep_gradient(t);
    Py_RETURN_NONE;
  });
}
// Whether the channels (dimension 1) lie next to each other, as the fastest of all dimensions.
bool channels_lie_last(const TensorImpl* t, int ndim) {
  if (t->ndim != ndim) return false;
  int64_t expected = 1;
  const auto fits = [&](int d) {
    if (t->sizes()[d] == 1) return true;
    const bool same = t->strides()[d] == expected;
    expected *= t->sizes()[d];
    return same;
  };
  if (!fits(1)) return false;
  for (int d = ndim - 1; d > 1; --d)
    if (!fits(d)) return false;
  return fits(0);
}
PyObject* m_is_contiguous(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"memory_format", nullptr};
  PyObject* format = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", const_cast<char**>(names), &format)) return nullptr;
  const TensorImpl* t = impl_of(self);
  if (!format) return PyBool_FromLong(t->is_contiguous());
  Ref number(PyObject_GetAttrString(format, "_number"));
  if (!number) {
    return PyErr_Format(PyExc_TypeError,
                        "is_contiguous(): argument 'memory_format' must be torch.memory_format, not %s",
                        Py_TYPE(format)->tp_name);
  }
  switch (PyLong_AsLong(number.get())) {
    case 0: return PyBool_FromLong(t->is_contiguous());
    case 2: return PyBool_FromLong(channels_lie_last(t, 4));
    case 3: return PyBool_FromLong(channels_lie_last(t, 5));
    default:
      return PyErr_Format(PyExc_RuntimeError, "preserve memory format is unsupported by the contiguous operator");
  }
}
PyObject* m_same_object(PyObject* self, PyObject*) {
  Py_INCREF(self);
  return self;
}

#define WEFT_KW(f) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)), METH_VARARGS | METH_KEYWORDS
#define WEFT_FAST(f) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)), METH_FASTCALL | METH_KEYWORDS
PyMethodDef methods[] = {
    {"dim", m_dim, METH_NOARGS, "Number of dimensions."},
    {"ndimension", m_dim, METH_NOARGS, nullptr},
    {"numel", m_numel, METH_NOARGS, "Number of elements."},
    {"nelement", m_numel, METH_NOARGS, nullptr},
    {"element_size", m_element_size, METH_NOARGS, nullptr},
    {"size", WEFT_FAST(m_size), "The shape, or the size of one dimension."},
    {"stride", WEFT_FAST(m_stride), "Steps between neighbours in memory, in elements: of all dimensions or of one."},
    {"storage_offset", m_storage_offset, METH_NOARGS, nullptr},
    {"data_ptr", m_data_ptr, METH_NOARGS, nullptr},
    {"item", m_item, METH_NOARGS, "The one element, as a Python number."},
    {"__complex__", m_complex, METH_NOARGS, nullptr},
    {"is_same_size", m_is_same_size, METH_O, "Whether both have the same shape."},
    {"is_set_to", m_is_set_to, METH_O, "Whether both are the same elements of the same memory."},
    {"_is_view", m_is_view, METH_NOARGS, nullptr},
    {"is_inference", m_is_inference, METH_NOARGS, nullptr},
    {"is_floating_point", m_is_floating, METH_NOARGS, nullptr},
    {"is_complex", m_is_complex, METH_NOARGS, nullptr},
    {"is_signed", m_is_signed, METH_NOARGS, nullptr},
    {"is_contiguous", WEFT_KW(m_is_contiguous), nullptr},
    {"requires_grad_", WEFT_KW(m_requires_grad_), nullptr},
    {"detach_", m_detach_, METH_NOARGS, nullptr},
    {"retain_grad", m_retain_grad, METH_NOARGS, nullptr},
    {"positive", m_same_object, METH_NOARGS, nullptr},
    {}};

PyMemberDef members[] = {{"__dictoffset__", T_PYSSIZET, offsetof(PyTensor, dict), READONLY, nullptr},
                         {"__weaklistoffset__", T_PYSSIZET, offsetof(PyTensor, weakrefs), READONLY, nullptr},
                         {}};

// weft.Tensor(data) and subclasses: Python (weft/_tensor.py) decides what the arguments mean.
PyObject* construct(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static PyObject* decide = nullptr;
  if (!decide) {
    Ref module(PyImport_ImportModule("weft._tensor"));
    if (!module) return nullptr;
    decide = PyObject_GetAttrString(module.get(), "construct");
    if (!decide) return nullptr;
  }
  PyObject* plain = PyObject_Call(decide, args, kwargs);
  return plain ? as_type(plain, type) : nullptr;
}

const char* const kTensorDoc = "A multi-dimensional array of numbers of one type that remembers how it was computed.";
PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>(kTensorDoc)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_finalize, reinterpret_cast<void*>(finalize)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_setattro, reinterpret_cast<void*>(set_attribute)},
    {Py_tp_members, members},
    {Py_tp_getset, attributes},
    {Py_tp_methods, methods},
    {Py_tp_hash, reinterpret_cast<void*>(hash)},
    {Py_tp_iter, reinterpret_cast<void*>(iterate)},
    {Py_tp_new, reinterpret_cast<void*>(construct)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(export_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(release_export)},
    {Py_mp_length, reinterpret_cast<void*>(length)},
    {Py_mp_subscript, reinterpret_cast<void*>(tensor_getitem)},
    {Py_mp_ass_subscript, reinterpret_cast<void*>(tensor_setitem)},
};

}  // namespace

bool is_number(PyObject* o) { return PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o); }

Tensor number_to_tensor(PyObject* o) {
  if (PyBool_Check(o)) return wrapped_number(Scalar(o == Py_True));
  if (PyFloat_Check(o)) return wrapped_number(Scalar(PyFloat_AS_DOUBLE(o)));
  if (PyLong_Check(o)) {
    int overflow;
    const long long value = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow) fail("Overflow when unpacking long: the integer does not fit int64");
    return wrapped_number(Scalar(static_cast<int64_t>(value)));
  }
  if (PyComplex_Check(o)) {
    fail(ErrorKind::NotImplemented,
         "complex numbers have no arithmetic in weft yet; keep real and imaginary parts apart");
  }
  // numpy scalars and the like
  if (PyIndex_Check(o) && !PySequence_Check(o)) {
    Ref index(checked(PyNumber_Index(o)));
    return number_to_tensor(index.get());
  }
  if (Py_TYPE(o)->tp_as_number && Py_TYPE(o)->tp_as_number->nb_float && !PySequence_Check(o) &&
      !PyObject_CheckBuffer(o)) {
    Ref value(checked(PyNumber_Float(o)));
    return wrapped_number(Scalar(PyFloat_AS_DOUBLE(value.get())));
  }
  return Tensor();
}

PyObject* wrap(Tensor t) {
  TensorImpl* impl = t.get();
  if (!impl) Py_RETURN_NONE;
  if (auto* existing = static_cast<PyObject*>(impl->python)) {
    if (impl->flags & kOwnsPython) {
      // The reference the impl held becomes the caller's; the object holds the impl again.
      impl->flags &= ~kOwnsPython;
      t.detach_ref();
      forget_finalized(existing);
      return existing;
    }
    Py_INCREF(existing);
    return existing;
  }
  PyTensor* self = new_object();
  if (!self) return nullptr;
  self->impl = t.detach_ref();
  self->dict = nullptr;
  self->weakrefs = nullptr;
  impl->python = self;
  // Once in Python's hands it is an ordinary 0-dim tensor.
  impl->flags &= ~kWrappedNumber;
  return reinterpret_cast<PyObject*>(self);
}

PyObject* wrap_as(PyTypeObject* type, Tensor t) {
  if (type == tensor_type) return wrap(std::move(t));
  auto* self = reinterpret_cast<PyTensor*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->impl = t.detach_ref();
  self->impl->python = self;
  self->impl->flags &= ~kWrappedNumber;
  note_subclass(type);
  return reinterpret_cast<PyObject*>(self);
}

PyObject* wrap_list(std::vector<Tensor>& tensors, bool as_tuple) {
  const auto n = static_cast<Py_ssize_t>(tensors.size());
  Ref list(as_tuple ? PyTuple_New(n) : PyList_New(n));
  if (!list) return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = wrap(std::move(tensors[i]));
    if (!item) return nullptr;
    if (as_tuple) PyTuple_SET_ITEM(list.get(), i, item);
    else PyList_SET_ITEM(list.get(), i, item);
  }
  return list.release();
}

bool init_tensor_type(PyObject* module) {
  std::vector<PyType_Slot> all(std::begin(slots), std::end(slots));
  all.insert(all.end(), operator_slots().begin(), operator_slots().end());
  all.push_back({0, nullptr});
  PyType_Spec spec{"weft.Tensor", sizeof(PyTensor), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                   all.data()};
  tensor_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!tensor_type) return false;
  tensor_type->tp_name = "Tensor";  // as Python's own messages are to call it; its module is set already
  return PyModule_AddObjectRef(module, "Tensor", reinterpret_cast<PyObject*>(tensor_type)) == 0 &&
         init_overrides(module);
}

}  // namespace weft::bind
