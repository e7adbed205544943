// What Python's syntax and attributes say about a tensor's shape: iteration, T, mT, H and mH.
#include "bind/override.h"
#include "core/ops/shape.h"

namespace weft::bind {
namespace {

// ---- iteration -------------------------------------------------------------------------------------

// The elements along the first dimension, each made when it is asked for, so that the memory of one
// serves the next.
struct PyTensorIterator {
  PyObject_HEAD TensorImpl* tensor;  // owned
  int64_t next, length;
};

PyTypeObject* iterator_type = nullptr;

void iterator_dealloc(PyObject* self) {
  release(reinterpret_cast<PyTensorIterator*>(self)->tensor);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject* iterator_next(PyObject* object) {
  auto* self = reinterpret_cast<PyTensorIterator*>(object);
  if (self->next >= self->length) return nullptr;
  return guarded([&] {
    const TensorImpl* t = self->tensor;
    if (t->ndim == 0 || t->dims[0] != self->length) fail("the tensor changed its shape while it was iterated over");
    return wrap(unbound(Tensor::share(self->tensor), 0, self->next++));
  });
}

PyObject* iterator_length_hint(PyObject* object, PyObject*) {
  const auto* self = reinterpret_cast<PyTensorIterator*>(object);
  return PyLong_FromLongLong(self->length - self->next);
}

PyMethodDef iterator_methods[] = {{"__length_hint__", iterator_length_hint, METH_NOARGS, nullptr}, {}};
PyType_Slot iterator_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(iterator_dealloc)},
                                {Py_tp_iter, reinterpret_cast<void*>(PyObject_SelfIter)},
                                {Py_tp_iternext, reinterpret_cast<void*>(iterator_next)},
                                {Py_tp_methods, iterator_methods},
                                {0, nullptr}};
PyType_Spec iterator_spec = {"weft._core.TensorIterator", sizeof(PyTensorIterator), 0, Py_TPFLAGS_DEFAULT,
                             iterator_slots};

// ---- transposes ------------------------------------------------------------------------------------

void warn(const char* text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) throw PythonError{};
}

Tensor swap_last_two(const Tensor& t, const char* name) {
  if (t.ndim() == 0) {
    warn((std::string("Tensor.") + name + " is deprecated on 0-D tensors, where it is the identity.").c_str());
    return view_of_all(t);
  }
  if (t.ndim() == 1) fail("tensor.", name, " is only supported on matrices or batches of matrices. Got 1-D tensor.");
  return transpose(t, -2, -1);
}

// Of the class of `self` where that is a subclass: see Note [Subclasses of Tensor].
PyObject* like(PyObject* self, Tensor t) {
  return keeps_class(Py_TYPE(self)) ? wrap_as(Py_TYPE(self), std::move(t)) : wrap(std::move(t));
}

PyObject* get_transposed(PyObject* self, void*) {
  return guarded([&] {
    const Tensor t = Tensor::share(impl_of(self));
    if (t.ndim() == 2) return like(self, transpose(t, 0, 1));
    warn(t.ndim() == 0
             ? "Tensor.T is deprecated on 0-D tensors, where it is the identity."
             : "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated. Use "
               "`x.mT` to transpose batches of matrices or `x.permute(*range(x.ndim - 1, -1, -1))` to reverse "
               "the dimensions of a tensor.");
    Dims reversed;
    reversed.resize(t.ndim());
    for (int d = 0; d < t.ndim(); ++d) reversed[d] = t.ndim() - 1 - d;
    return like(self, permute(t, reversed));
  });
}

PyObject* get_adjoint(PyObject* self, void*) {
  return guarded([&] {
    const Tensor t = Tensor::share(impl_of(self));
    if (t.ndim() == 1 || t.ndim() > 2) {
      fail("tensor.H is only supported on matrices (2-D tensors). Got ", t.ndim(), "-D tensor.",
           t.ndim() > 2 ? " For batches of matrices, consider using tensor.mH" : "");
    }
    return like(self, swap_last_two(t, "H"));
  });
}

PyObject* get_matrix_transposed(PyObject* self, void* name) {
  return guarded(
      [&] { return like(self, swap_last_two(Tensor::share(impl_of(self)), static_cast<const char*>(name))); });
}

PyGetSetDef transposes[] = {
    {"T", get_transposed, nullptr, "The transpose of a matrix.", nullptr},
    {"H", get_adjoint, nullptr, "The transpose of a (real) matrix.", nullptr},
    {"mT", get_matrix_transposed, nullptr, "The last two dimensions exchanged.", const_cast<char*>("mT")},
    {"mH", get_matrix_transposed, nullptr, "The last two dimensions exchanged.", const_cast<char*>("mH")},
    {}};

}  // namespace

PyObject* iterate_tensor(PyObject* self) {
  return guarded([&]() -> PyObject* {
    TensorImpl* t = impl_of(self);
    if (t->ndim == 0) fail(ErrorKind::Type, "iteration over a 0-d tensor");
    auto* iterator = PyObject_New(PyTensorIterator, iterator_type);
    if (!iterator) return nullptr;
    retain(t);
    iterator->tensor = t;
    iterator->next = 0;
    iterator->length = t->dims[0];
    return reinterpret_cast<PyObject*>(iterator);
  });
}

bool init_shapes(PyObject*) {
  iterator_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&iterator_spec));
  if (!iterator_type) return false;
  for (PyGetSetDef* attribute = transposes; attribute->name; ++attribute) {
    Ref descriptor(PyDescr_NewGetSet(tensor_type, attribute));
    if (!descriptor ||
        PyObject_SetAttrString(reinterpret_cast<PyObject*>(tensor_type), attribute->name, descriptor.get()) < 0) {
      return false;
    }
  }
  return true;
}

}  // namespace weft::bind
