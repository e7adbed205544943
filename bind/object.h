// The Python objects of weft: what the files of bind/ share.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "core/graph/dispatch.h"
#include "core/tensor/tensor.h"

namespace weft { struct Generator; }

namespace weft::bind {

// Owns one reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  Ref(const Ref&) = delete;
  Ref(Ref&& other) noexcept : object_(other.release()) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  static Ref borrowed(PyObject* o) {
    Py_XINCREF(o);
    return Ref(o);
  }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// ---- tensors -----------------------------------------------------------------------------------

struct PyTensor {
  PyObject_HEAD TensorImpl* impl;
  PyObject* dict;
  PyObject* weakrefs;
};

extern PyTypeObject* tensor_type;
inline bool is_exact_tensor(PyObject* o) { return Py_TYPE(o) == tensor_type; }
inline bool is_tensor(PyObject* o) { return Py_TYPE(o) == tensor_type || PyType_IsSubtype(Py_TYPE(o), tensor_type); }
inline TensorImpl* impl_of(PyObject* o) { return reinterpret_cast<PyTensor*>(o)->impl; }
// The same for an object that may be anything; throws a TypeError where it is no tensor.
inline TensorImpl* tensor_argument(PyObject* o) {
  if (!is_tensor(o)) fail(ErrorKind::Type, "expected a Tensor, not ", Py_TYPE(o)->tp_name);
  return impl_of(o);
}

// The Python object of a tensor: the one that exists, or a new one. Takes over the handle.
PyObject* wrap(Tensor t);
// The same for a subclass.
PyObject* wrap_as(PyTypeObject* type, Tensor t);
PyObject* wrap_list(std::vector<Tensor>& tensors, bool as_tuple);
bool init_tensor_type(PyObject* module);

// Numbers: a Python number as a tensor that is weak in promotion. Null when `o` is not a number.
Tensor number_to_tensor(PyObject* o);
bool is_number(PyObject* o);

// ---- other objects -----------------------------------------------------------------------------

PyObject* dtype_object(DType t);             // borrowed
bool dtype_from(PyObject* o, DType* out);    // accepts bool, int and float too
PyObject* device_object(Device d);           // new
bool device_from(PyObject* o, Device* out);  // device or string; sets an error and returns false
bool is_device(PyObject* o);
bool init_small_types(PyObject* module);
extern PyTypeObject* device_type;

PyObject* size_object(IntSpan sizes);  // weft.Size
void set_size_type(PyObject* type);

PyObject* wrap_node(Node* n);  // grad_fn; new reference, None for null
// The Python objects that a node owns, for the cycle collector: hooks, metadata, a custom function's context.
int visit_node(Node* n, visitproc visit, void* arg);
bool init_node_type(PyObject* module);
bool init_op_functions(PyObject* module);
bool init_shapes(PyObject* module);
PyObject* iterate_tensor(PyObject* self);  // iter(tensor)
Generator* generator_from(PyObject* o);    // null when `o` is none
bool init_autograd(PyObject* module);
bool init_conversions(PyObject* module);
bool init_composed(PyObject* module);
bool init_observer(PyObject* module);
bool init_doctor(PyObject* module);
bool init_modes(PyObject* module);

// The named tuple of an operation with named results, null for others (bind/result_types.cpp).
PyTypeObject* named_result_type(const Schema& schema);
bool init_result_types(PyObject* module);
void init_sites();

// ---- errors ------------------------------------------------------------------------------------

// Call in a catch block: turns the C++ exception in flight into a Python one.
void translate_exception();
template <class Body>
PyObject* guarded(Body&& body) {
  try {
    return body();
  } catch (...) {
    translate_exception();
    return nullptr;
  }
}
template <class Body>
int guarded_int(Body&& body) {
  try {
    return body();
  } catch (...) {
    translate_exception();
    return -1;
  }
}
// Throws PythonError when a Python call failed.
inline PyObject* checked(PyObject* o) {
  if (!o) throw PythonError{};
  return o;
}

PyObject* interned(const char* text);  // borrowed, immortal

// A list or tuple of integers (int subclasses, 0-dim integer tensors) as Dims. False without an error
// set when `o` is not such a sequence.
bool dims_from(PyObject* o, Dims* out);
bool index_value(PyObject* o, int64_t* out);

// tensor[index] and tensor[index] = value.
PyObject* tensor_getitem(PyObject* self, PyObject* index);
int tensor_setitem(PyObject* self, PyObject* index, PyObject* value);
PyObject* tensor_item(TensorImpl* t);
// Nested lists, numbers and one-element tensors as a new tensor.
Tensor sequence_to_tensor(PyObject* data, std::optional<DType> dtype);
int export_buffer(PyObject* self, Py_buffer* view, int flags);
void release_export(PyObject* self, Py_buffer* view);

}  // namespace weft::bind
