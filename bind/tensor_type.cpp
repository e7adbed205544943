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

#include <cstring>

#include "core/ops/functions.h"
#include "core/tensor/promotion.h"

namespace weft {
extern const OpTable op_Sub, op_Mul, op_Div, op_Neg, op_Pow, op_Matmul, op_Eq, op_Ne, op_Lt, op_Le, op_Gt, op_Ge;
}

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
#if PY_VERSION_HEX < 0x030d0000
  // So that finalize runs again the next time: the collector's mark lives in the word before the object.
  reinterpret_cast<uintptr_t*>(object)[-1] &= ~uintptr_t{1};
#endif
}

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
  // Hooks belong to the tensor alone when nobody else holds it.
  if (self->impl && self->impl->refs == 1 && self->impl->extra) {
    Py_VISIT(static_cast<PyObject*>(self->impl->extra->hooks));
    Py_VISIT(static_cast<PyObject*>(self->impl->extra->post_accumulate));
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

// ---- arithmetic ------------------------------------------------------------------------------------

// Tensor, number or neither, without any allocation for tensors.
struct Operand {
  Tensor temporary;
  TensorImpl* impl = nullptr;

  bool take(PyObject* o) {
    if (is_exact_tensor(o)) { impl = impl_of(o); return true; }
    if (PyFloat_CheckExact(o)) temporary = wrapped_number(Scalar(PyFloat_AS_DOUBLE(o)));
    else if (is_tensor(o)) { impl = impl_of(o); return true; }
    else temporary = number_to_tensor(o);
    impl = temporary.get();
    return impl != nullptr;
  }
};

template <const OpTable* table>
PyObject* binary(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    Operand x, y;
    if (!x.take(a) || !y.take(b)) {
      if (PyErr_Occurred()) return nullptr;
      Py_RETURN_NOTIMPLEMENTED;
    }
    TensorImpl* in[] = {x.impl, y.impl};
    Tensor out;
    apply(*table, nullptr, Inputs(in, 2), &out);
    return wrap(std::move(out));
  });
}

template <const OpTable* table>
PyObject* binary_in_place(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    Operand y;
    if (!y.take(b)) {
      if (PyErr_Occurred()) return nullptr;
      Py_RETURN_NOTIMPLEMENTED;
    }
    TensorImpl* in[] = {impl_of(a), y.impl};
    apply_in_place(*table, nullptr, Inputs(in, 2));
    Py_INCREF(a);
    return a;
  });
}

PyObject* power(PyObject* a, PyObject* b, PyObject*) { return binary<&op_Pow>(a, b); }
PyObject* power_in_place(PyObject* a, PyObject* b, PyObject*) { return binary_in_place<&op_Pow>(a, b); }

PyObject* negative(PyObject* a) {
  return guarded([&] {
    TensorImpl* in[] = {impl_of(a)};
    Tensor out;
    apply(op_Neg, nullptr, Inputs(in, 1), &out);
    return wrap(std::move(out));
  });
}
PyObject* positive(PyObject* a) {
  Py_INCREF(a);
  return a;
}

PyObject* matrix_product(PyObject* a, PyObject* b) {
  if (!is_tensor(a) || !is_tensor(b)) Py_RETURN_NOTIMPLEMENTED;
  return guarded([&] { return wrap(matmul(Tensor::share(impl_of(a)), Tensor::share(impl_of(b)))); });
}

PyObject* compare(PyObject* a, PyObject* b, int op) {
  static constexpr const OpTable* tables[] = {&op_Lt, &op_Le, &op_Eq, &op_Ne, &op_Gt, &op_Ge};
  return guarded([&]() -> PyObject* {
    Operand x, y;
    if (!x.take(a) || !y.take(b)) {
      if (PyErr_Occurred()) return nullptr;
      Py_RETURN_NOTIMPLEMENTED;
    }
    TensorImpl* in[] = {x.impl, y.impl};
    Tensor out;
    apply(*tables[op], nullptr, Inputs(in, 2), &out);
    return wrap(std::move(out));
  });
}

Py_hash_t hash(PyObject* self) { return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(self) >> 4); }

// The value of a one-element tensor, for bool(), int() and float().
PyObject* single_value(PyObject* self, const char* what) {
  return guarded([&]() -> PyObject* {
    const TensorImpl* t = impl_of(self);
    if (t->numel != 1) {
      if (std::strcmp(what, "bool") == 0) {
        if (t->numel == 0) fail("Boolean value of Tensor with no values is ambiguous (", describe(t), ")");
        fail("Boolean value of Tensor with more than one value is ambiguous (", describe(t),
             "). Use .any() or .all(), or compare with weft.equal().");
      }
      fail("a Tensor with ", t->numel, " elements cannot be converted to Scalar (", describe(t), ")");
    }
    return tensor_item(impl_of(self));
  });
}

int truth(PyObject* self) {
  Ref value(single_value(self, "bool"));
  return value ? PyObject_IsTrue(value.get()) : -1;
}
PyObject* to_int(PyObject* self) {
  Ref value(single_value(self, "int"));
  return value ? PyNumber_Long(value.get()) : nullptr;
}
PyObject* to_float(PyObject* self) {
  Ref value(single_value(self, "float"));
  return value ? PyNumber_Float(value.get()) : nullptr;
}
PyObject* to_index(PyObject* self) {
  const TensorImpl* t = impl_of(self);
  if (t->numel != 1 || !is_integral(t->dtype)) {
    return PyErr_Format(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
  }
  Ref value(single_value(self, "index"));
  return value ? PyNumber_Long(value.get()) : nullptr;
}

Py_ssize_t length(PyObject* self) {
  const TensorImpl* t = impl_of(self);
  if (t->ndim == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  return t->dims[0];
}

// ---- attributes ------------------------------------------------------------------------------------

PyObject* get_shape(PyObject* self, void*) { return size_object(impl_of(self)->sizes()); }
PyObject* get_dtype(PyObject* self, void*) {
  PyObject* o = dtype_object(impl_of(self)->dtype);
  Py_INCREF(o);
  return o;
}
PyObject* get_device(PyObject* self, void*) { return device_object(impl_of(self)->device); }
PyObject* get_requires_grad(PyObject* self, void*) {
  return guarded([&] { return PyBool_FromLong(needs_grad(impl_of(self))); });
}
int set_requires_grad(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    TensorImpl* t = impl_of(self);
    const int on = value ? PyObject_IsTrue(value) : -1;
    if (on < 0) return -1;
    if (needs_grad(t) && t->grad_fn) {
      if (on) return 0;
      fail("you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
           "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
    }
    if (on && !is_differentiable(t->dtype)) {
      fail("only Tensors of floating point and complex dtype can require gradients (this one is ", dtype_name(t->dtype), ")");
    }
    if (on && t->has(kInference) && !context().inference) {
      fail("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    }
    t->set(kRequiresGrad, on);
    return 0;
  });
}
PyObject* get_is_leaf(PyObject* self, void*) {
  return guarded([&] {
    TensorImpl* t = impl_of(self);
    return PyBool_FromLong(!needs_grad(t) || !t->grad_fn);
  });
}
PyObject* get_grad_fn(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    TensorImpl* t = impl_of(self);
    if (!needs_grad(t)) Py_RETURN_NONE;
    return wrap_node(t->grad_fn);
  });
}
PyObject* get_grad(PyObject* self, void*) {
  const TensorImpl* t = impl_of(self);
  if (!t->extra || !t->extra->grad) Py_RETURN_NONE;
  return wrap(t->extra->grad);
}
int set_grad(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    TensorImpl* t = impl_of(self);
    if (!value || value == Py_None) {
      if (t->extra) t->extra->grad = Tensor();
      return 0;
    }
    if (!is_tensor(value)) fail(ErrorKind::Type, "assigned grad expected to be a Tensor or None but got grad of type ", Py_TYPE(value)->tp_name);
    TensorImpl* g = impl_of(value);
    if (g == t) fail("can't assign Variable as its own grad");
    if (g->dtype != t->dtype) {
      fail("assigned grad has data of a different type: ", dtype_name(g->dtype), " for a tensor of ", dtype_name(t->dtype));
    }
    if (g->ndim != t->ndim || !std::equal(t->dims, t->dims + t->ndim, g->dims)) {
      fail("assigned grad has data of a different size: ", shape_text(g->sizes()), " for a tensor of ", shape_text(t->sizes()));
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
PyObject* get_data(PyObject* self, void*) {
  return guarded([&] {
    TensorImpl* t = impl_of(self);
    ensure_value(t);
    Tensor copy = alias(Tensor::share(t));
    copy->flags |= kUntracked;
    return wrap(std::move(copy));
  });
}
int set_data(PyObject* self, PyObject* value, void*) {
  return guarded_int([&] {
    if (!value || !is_tensor(value)) fail(ErrorKind::Type, "Variable data has to be a tensor, but got ", value ? Py_TYPE(value)->tp_name : "nothing");
    TensorImpl* t = impl_of(self);
    Tensor from = Tensor::share(impl_of(value));
    ensure_value(from.get());
    if (needs_grad(t) && !is_differentiable(from.dtype())) {
      fail("data set to a tensor that requires gradients must be floating point or complex dtype");
    }
    Tensor fresh = alias(from);
    std::swap(t->storage, fresh->storage);
    std::swap(t->data, fresh->data);
    std::swap(t->numel, fresh->numel);
    std::swap(t->dtype, fresh->dtype);
    const bool own_heap = t->dims != t->in_place, new_heap = fresh->dims != fresh->in_place;
    std::swap(t->ndim, fresh->ndim);
    std::swap(t->dims, fresh->dims);
    std::swap(t->in_place, fresh->in_place);
    if (!new_heap) t->dims = t->in_place;
    if (!own_heap) fresh->dims = fresh->in_place;
    refresh_contiguity(t);
    return 0;
  });
}
PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLong(impl_of(self)->ndim); }
PyObject* get_itemsize(PyObject* self, void*) { return PyLong_FromLong(item_size(impl_of(self)->dtype)); }
PyObject* get_nbytes(PyObject* self, void*) {
  return PyLong_FromLongLong(impl_of(self)->numel * item_size(impl_of(self)->dtype));
}
PyObject* get_false(PyObject*, void*) { Py_RETURN_FALSE; }
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
    {"_grad", get_grad, set_grad, nullptr, nullptr},
    {"output_nr", get_output_nr, nullptr, nullptr, nullptr},
    {"_version", get_version, nullptr, nullptr, nullptr},
    {"_base", get_base, nullptr, nullptr, nullptr},
    {"data", get_data, set_data, nullptr, nullptr},
    {"ndim", get_ndim, nullptr, nullptr, nullptr},
    {"itemsize", get_itemsize, nullptr, nullptr, nullptr},
    {"nbytes", get_nbytes, nullptr, nullptr, nullptr},
    {"is_cpu", get_is_cpu, nullptr, nullptr, nullptr},
    {"is_cuda", get_is_cuda, nullptr, nullptr, nullptr},
    {"is_sparse", get_false, nullptr, nullptr, nullptr},
    {"is_quantized", get_false, nullptr, nullptr, nullptr},
    {"is_nested", get_false, nullptr, nullptr, nullptr},
    {"is_meta", get_false, nullptr, nullptr, nullptr},
    {"is_mkldnn", get_false, nullptr, nullptr, nullptr},
    {"retains_grad", get_retains_grad, nullptr, nullptr, nullptr},
    {"name", get_name, nullptr, nullptr, nullptr},
    {"_backward_hooks", get_hooks, set_hooks, nullptr, nullptr},
    {"_post_accumulate_grad_hooks", get_hooks, set_hooks, nullptr, reinterpret_cast<void*>(1)},
    {}};

// ---- small methods that are called too often to be parsed -----------------------------------------

PyObject* m_dim(PyObject* self, PyObject*) { return PyLong_FromLong(impl_of(self)->ndim); }
PyObject* m_numel(PyObject* self, PyObject*) { return PyLong_FromLongLong(impl_of(self)->numel); }
PyObject* m_element_size(PyObject* self, PyObject*) { return PyLong_FromLong(item_size(impl_of(self)->dtype)); }

PyObject* dims_or_one(PyObject* self, PyObject* args, PyObject* kwargs, bool strides) {
  static const char* names[] = {"dim", nullptr};
  PyObject* dim = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", const_cast<char**>(names), &dim)) return nullptr;
  const TensorImpl* t = impl_of(self);
  return guarded([&]() -> PyObject* {
    if (dim == Py_None) {
      if (!strides) return size_object(t->sizes());
      Ref tuple(checked(PyTuple_New(t->ndim)));
      for (int d = 0; d < t->ndim; ++d) PyTuple_SET_ITEM(tuple.get(), d, PyLong_FromLongLong(t->strides()[d]));
      return tuple.release();
    }
    int64_t d;
    if (!index_value(dim, &d)) throw PythonError{};
    if (t->ndim == 0) fail(ErrorKind::Index, "dimension specified as ", d, " but tensor has no dimensions");
    const int64_t at = wrap_dim(d, t->ndim);
    return PyLong_FromLongLong(strides ? t->strides()[at] : t->sizes()[at]);
  });
}
PyObject* m_size(PyObject* self, PyObject* args, PyObject* kwargs) { return dims_or_one(self, args, kwargs, false); }
PyObject* m_stride(PyObject* self, PyObject* args, PyObject* kwargs) { return dims_or_one(self, args, kwargs, true); }
PyObject* m_storage_offset(PyObject* self, PyObject*) {
  return guarded([&] { ensure_value(impl_of(self)); return PyLong_FromLongLong(impl_of(self)->storage_offset()); });
}
PyObject* m_data_ptr(PyObject* self, PyObject*) {
  return guarded([&] {
    ensure_value(impl_of(self));
    return PyLong_FromVoidPtr(impl_of(self)->numel ? impl_of(self)->data : nullptr);
  });
}
PyObject* m_item(PyObject* self, PyObject*) { return single_value(self, "item"); }
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
      fail("Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for training, "
           "and gradient_as_bucket_view is set as True, gradients are views of DDP buckets.");
    }
    if (t->grad_fn) release(std::exchange(t->grad_fn, nullptr));
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
    if (!t->grad_fn || t->has(kRetainsGrad)) Py_RETURN_NONE;
    t->flags |= kRetainsGrad;
    extra_of(t->grad_fn).retained.push_back(t);
    Py_RETURN_NONE;
  });
}
PyObject* m_is_contiguous(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"memory_format", nullptr};
  PyObject* format = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", const_cast<char**>(names), &format)) return nullptr;
  return PyBool_FromLong(impl_of(self)->is_contiguous());
}
PyObject* m_same_object(PyObject* self, PyObject*) { Py_INCREF(self); return self; }

#define WEFT_KW(f) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)), METH_VARARGS | METH_KEYWORDS
PyMethodDef methods[] = {
    {"dim", m_dim, METH_NOARGS, "Number of dimensions."},
    {"ndimension", m_dim, METH_NOARGS, nullptr},
    {"numel", m_numel, METH_NOARGS, "Number of elements."},
    {"nelement", m_numel, METH_NOARGS, nullptr},
    {"element_size", m_element_size, METH_NOARGS, nullptr},
    {"size", WEFT_KW(m_size), nullptr},
    {"stride", WEFT_KW(m_stride), nullptr},
    {"storage_offset", m_storage_offset, METH_NOARGS, nullptr},
    {"data_ptr", m_data_ptr, METH_NOARGS, nullptr},
    {"item", m_item, METH_NOARGS, "The one element, as a Python number."},
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

PyObject* not_callable_yet(PyTypeObject* type, PyObject* args, PyObject* kwargs);

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_finalize, reinterpret_cast<void*>(finalize)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_setattro, reinterpret_cast<void*>(set_attribute)},
    {Py_tp_members, members},
    {Py_tp_getset, attributes},
    {Py_tp_methods, methods},
    {Py_tp_hash, reinterpret_cast<void*>(hash)},
    {Py_tp_richcompare, reinterpret_cast<void*>(compare)},
    {Py_tp_new, reinterpret_cast<void*>(not_callable_yet)},
    {Py_nb_add, reinterpret_cast<void*>(binary<&op_Add>)},
    {Py_nb_subtract, reinterpret_cast<void*>(binary<&op_Sub>)},
    {Py_nb_multiply, reinterpret_cast<void*>(binary<&op_Mul>)},
    {Py_nb_true_divide, reinterpret_cast<void*>(binary<&op_Div>)},
    {Py_nb_power, reinterpret_cast<void*>(power)},
    {Py_nb_negative, reinterpret_cast<void*>(negative)},
    {Py_nb_positive, reinterpret_cast<void*>(positive)},
    {Py_nb_matrix_multiply, reinterpret_cast<void*>(matrix_product)},
    {Py_nb_inplace_add, reinterpret_cast<void*>(binary_in_place<&op_Add>)},
    {Py_nb_inplace_subtract, reinterpret_cast<void*>(binary_in_place<&op_Sub>)},
    {Py_nb_inplace_multiply, reinterpret_cast<void*>(binary_in_place<&op_Mul>)},
    {Py_nb_inplace_true_divide, reinterpret_cast<void*>(binary_in_place<&op_Div>)},
    {Py_nb_inplace_power, reinterpret_cast<void*>(power_in_place)},
    {Py_nb_bool, reinterpret_cast<void*>(truth)},
    {Py_nb_int, reinterpret_cast<void*>(to_int)},
    {Py_nb_float, reinterpret_cast<void*>(to_float)},
    {Py_nb_index, reinterpret_cast<void*>(to_index)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(export_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(release_export)},
    {Py_mp_length, reinterpret_cast<void*>(length)},
    {Py_mp_subscript, reinterpret_cast<void*>(tensor_getitem)},
    {Py_mp_ass_subscript, reinterpret_cast<void*>(tensor_setitem)},
    {0, nullptr}};
PyType_Spec spec = {"weft.Tensor", sizeof(PyTensor), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

// weft.Tensor(data) and subclasses: Python (weft/_tensor.py) decides what the arguments mean.
PyObject* not_callable_yet(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static PyObject* construct = nullptr;
  if (!construct) {
    Ref module(PyImport_ImportModule("weft._tensor"));
    if (!module) return nullptr;
    construct = PyObject_GetAttrString(module.get(), "construct");
    if (!construct) return nullptr;
  }
  Ref plain(PyObject_Call(construct, args, kwargs));
  if (!plain) return nullptr;
  if (type == tensor_type) return plain.release();
  return guarded([&] {
    TensorImpl* t = impl_of(plain.get());
    return wrap_as(type, t->refs == 1 && Py_REFCNT(plain.get()) == 1 ? alias(Tensor::share(t)) : alias(Tensor::share(t)));
  });
}

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
    fail(ErrorKind::NotImplemented, "complex numbers have no arithmetic in weft yet; keep real and imaginary parts apart");
  }
  // numpy scalars and the like
  if (PyIndex_Check(o) && !PySequence_Check(o)) {
    Ref index(checked(PyNumber_Index(o)));
    return number_to_tensor(index.get());
  }
  if (Py_TYPE(o)->tp_as_number && Py_TYPE(o)->tp_as_number->nb_float && !PySequence_Check(o) && !PyObject_CheckBuffer(o)) {
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

// For core/tensor: the object that a dying tensor owned goes with it.
bool init_tensor_type(PyObject* module) {
  tensor_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return tensor_type && PyModule_AddObjectRef(module, "Tensor", reinterpret_cast<PyObject*>(tensor_type)) == 0;
}

}  // namespace weft::bind
