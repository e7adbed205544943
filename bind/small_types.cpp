// dtype and device objects.
#include <cstring>

#include "bind/object.h"

namespace weft::bind {

PyTypeObject* device_type = nullptr;

namespace {

PyTypeObject* dtype_type = nullptr;
PyObject* dtypes[kDTypes];
PyObject* size_type = nullptr;

struct PyDType { PyObject_HEAD DType value; };
struct PyDevice { PyObject_HEAD Device value; };

DType value_of(PyObject* o) { return reinterpret_cast<PyDType*>(o)->value; }
Device device_of(PyObject* o) { return reinterpret_cast<PyDevice*>(o)->value; }

PyObject* dtype_repr(PyObject* self) { return PyUnicode_FromFormat("torch.%s", dtype_name(value_of(self))); }
PyObject* dtype_reduce(PyObject* self, PyObject*) { return PyUnicode_FromString(dtype_name(value_of(self))); }

PyObject* dtype_itemsize(PyObject* self, void*) { return PyLong_FromLong(item_size(value_of(self))); }
PyObject* dtype_is_floating(PyObject* self, void*) { return PyBool_FromLong(is_floating(value_of(self))); }
PyObject* dtype_is_complex(PyObject* self, void*) { return PyBool_FromLong(is_complex(value_of(self))); }
PyObject* dtype_is_signed(PyObject* self, void*) {
  return PyBool_FromLong(value_of(self) != DType::Bool && value_of(self) != DType::UInt8);
}
PyObject* dtype_get_name(PyObject* self, void*) { return PyUnicode_FromString(dtype_name(value_of(self))); }

PyGetSetDef dtype_attributes[] = {{"itemsize", dtype_itemsize, nullptr, "bytes per element", nullptr},
                                  {"is_floating_point", dtype_is_floating, nullptr, nullptr, nullptr},
                                  {"is_complex", dtype_is_complex, nullptr, nullptr, nullptr},
                                  {"is_signed", dtype_is_signed, nullptr, nullptr, nullptr},
                                  {"name", dtype_get_name, nullptr, "the name without a prefix", nullptr},
                                  {}};
PyMethodDef dtype_methods[] = {{"__reduce__", dtype_reduce, METH_NOARGS, nullptr}, {}};
PyType_Slot dtype_slots[] = {{Py_tp_repr, reinterpret_cast<void*>(dtype_repr)},
                             {Py_tp_getset, dtype_attributes},
                             {Py_tp_methods, dtype_methods},
                             {0, nullptr}};
PyType_Spec dtype_spec = {"weft.dtype", sizeof(PyDType), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          dtype_slots};

bool parse_device(const char* text, Device* out) {
  const char* colon = std::strchr(text, ':');
  const std::string kind(text, colon ? static_cast<size_t>(colon - text) : std::strlen(text));
  int64_t index = -1;
  if (colon) {
    char* end;
    index = std::strtoll(colon + 1, &end, 10);
    if (end == colon + 1 || *end || index < 0 || index > 127) {
      PyErr_Format(PyExc_RuntimeError, "Invalid device string: '%s'", text);
      return false;
    }
  }
  if (kind == "cpu") *out = {DeviceType::CPU, static_cast<int8_t>(index)};
  else if (kind == "cuda") *out = {DeviceType::CUDA, static_cast<int8_t>(index)};
  else if (kind == "meta") *out = {DeviceType::Meta, static_cast<int8_t>(index)};
  else {
    PyErr_Format(PyExc_RuntimeError, "Expected one of cpu, cuda, meta device type at start of device string: %s", text);
    return false;
  }
  return true;
}

const char* device_kind(Device d) {
  return d.type == DeviceType::CPU ? "cpu" : d.type == DeviceType::CUDA ? "cuda" : "meta";
}

// device("cpu"), device("cuda:1"), device("cuda", 1), device(1), device(other)
PyObject* new_device(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* first;
  PyObject* index = Py_None;
  static const char* names[] = {"type", "index", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O", const_cast<char**>(names), &first, &index)) return nullptr;
  Device d;
  if (PyLong_Check(first)) {
    if (index != Py_None) return PyErr_Format(PyExc_TypeError, "device(): the first argument is an index already");
    index = first;
    d.type = DeviceType::CUDA;
  } else if (!device_from(first, &d)) {
    return nullptr;
  } else if (PyUnicode_Check(first)) {
    const bool has_index = std::strchr(PyUnicode_AsUTF8(first), ':') != nullptr;
    if (has_index && index != Py_None) {
      return PyErr_Format(PyExc_RuntimeError,
                          "type (string) must not include an index because index was passed explicitly: %U", first);
    }
    if (!has_index) d.index = -1;
  }
  if (index != Py_None) {
    const long i = PyLong_AsLong(index);
    if (i == -1 && PyErr_Occurred()) return nullptr;
    if (i < 0 || i > 127) return PyErr_Format(PyExc_RuntimeError, "device index must be between 0 and 127, got %ld", i);
    d.index = static_cast<int8_t>(i);
  }
  auto* self = PyObject_New(PyDevice, type);
  if (self) self->value = d;
  return reinterpret_cast<PyObject*>(self);
}

PyObject* device_str(PyObject* self) {
  const Device d = device_of(self);
  return d.index < 0 ? PyUnicode_FromString(device_kind(d)) : PyUnicode_FromFormat("%s:%d", device_kind(d), d.index);
}
PyObject* device_repr(PyObject* self) {
  const Device d = device_of(self);
  return d.index < 0 ? PyUnicode_FromFormat("device(type='%s')", device_kind(d))
                     : PyUnicode_FromFormat("device(type='%s', index=%d)", device_kind(d), d.index);
}
PyObject* device_compare(PyObject* a, PyObject* b, int op) {
  if (Py_TYPE(b) != device_type || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((device_of(a) == device_of(b)) == (op == Py_EQ));
}
Py_hash_t device_hash(PyObject* self) {
  return static_cast<int>(device_of(self).type) * 256 + device_of(self).index + 1;
}
PyObject* device_get_type(PyObject* self, void*) { return PyUnicode_FromString(device_kind(device_of(self))); }
PyObject* device_get_index(PyObject* self, void*) {
  if (device_of(self).index < 0) Py_RETURN_NONE;
  return PyLong_FromLong(device_of(self).index);
}
// with weft.device("cpu"): new tensors are made there.
PyObject* device_enter(PyObject* self, PyObject*) {
  if (device_of(self).type != DeviceType::CPU) {
    return PyErr_Format(PyExc_RuntimeError, "device '%S' is not available in this build of weft; use 'cpu'", self);
  }
  Py_INCREF(self);
  return self;
}
PyObject* device_exit(PyObject*, PyObject*) { Py_RETURN_NONE; }
PyObject* device_reduce(PyObject* self, PyObject*) {
  Ref text(device_str(self));
  return text ? Py_BuildValue("O(O)", device_type, text.get()) : nullptr;
}

PyGetSetDef device_attributes[] = {
    {"type", device_get_type, nullptr, nullptr, nullptr}, {"index", device_get_index, nullptr, nullptr, nullptr}, {}};
PyMethodDef device_methods[] = {{"__reduce__", device_reduce, METH_NOARGS, nullptr},
                                {"__enter__", device_enter, METH_NOARGS, nullptr},
                                {"__exit__", device_exit, METH_VARARGS, nullptr},
                                {}};
PyType_Slot device_slots[] = {{Py_tp_new, reinterpret_cast<void*>(new_device)},
                              {Py_tp_repr, reinterpret_cast<void*>(device_repr)},
                              {Py_tp_str, reinterpret_cast<void*>(device_str)},
                              {Py_tp_richcompare, reinterpret_cast<void*>(device_compare)},
                              {Py_tp_hash, reinterpret_cast<void*>(device_hash)},
                              {Py_tp_getset, device_attributes},
                              {Py_tp_methods, device_methods},
                              {0, nullptr}};
PyType_Spec device_spec = {"weft.device", sizeof(PyDevice), 0, Py_TPFLAGS_DEFAULT, device_slots};

}  // namespace

PyObject* dtype_object(DType t) { return dtypes[static_cast<int>(t)]; }

bool dtype_from(PyObject* o, DType* out) {
  if (Py_TYPE(o) == dtype_type) *out = value_of(o);
  else if (o == reinterpret_cast<PyObject*>(&PyFloat_Type)) *out = DType::Float64;
  else if (o == reinterpret_cast<PyObject*>(&PyLong_Type)) *out = DType::Int64;
  else if (o == reinterpret_cast<PyObject*>(&PyBool_Type)) *out = DType::Bool;
  else return false;
  return true;
}

bool is_device(PyObject* o) { return Py_TYPE(o) == device_type; }

bool device_from(PyObject* o, Device* out) {
  if (is_device(o)) {
    *out = device_of(o);
  } else if (PyUnicode_Check(o)) {
    if (!parse_device(PyUnicode_AsUTF8(o), out)) return false;
  } else {
    PyErr_Format(PyExc_TypeError, "expected a device or a string such as 'cpu', not %s", Py_TYPE(o)->tp_name);
    return false;
  }
  if (out->type == DeviceType::CPU) out->index = 0;
  return true;
}

PyObject* device_object(Device d) {
  auto* self = PyObject_New(PyDevice, device_type);
  if (!self) return nullptr;
  self->value = d;
  if (d.type == DeviceType::CPU) self->value.index = -1;
  return reinterpret_cast<PyObject*>(self);
}

void set_size_type(PyObject* type) {
  Py_INCREF(type);
  Py_XSETREF(size_type, type);
}

PyObject* size_object(IntSpan sizes) {
  auto* type = reinterpret_cast<PyTypeObject*>(size_type ? size_type : reinterpret_cast<PyObject*>(&PyTuple_Type));
  // A subclass of tuple: room for the items is part of the object.
  PyObject* out = size_type ? type->tp_alloc(type, static_cast<Py_ssize_t>(sizes.size())) : PyTuple_New(sizes.size());
  if (!out) return nullptr;
  for (size_t d = 0; d < sizes.size(); ++d) PyTuple_SET_ITEM(out, d, PyLong_FromLongLong(sizes[d]));
  return out;
}

bool init_small_types(PyObject* module) {
  dtype_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&dtype_spec));
  device_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&device_spec));
  if (!dtype_type || !device_type) return false;
  for (int i = 0; i < kDTypes; ++i) {
    auto* o = PyObject_New(PyDType, dtype_type);
    if (!o) return false;
    o->value = static_cast<DType>(i);
    dtypes[i] = reinterpret_cast<PyObject*>(o);
    Py_INCREF(o);
    if (PyModule_AddObject(module, dtype_name(o->value), dtypes[i]) < 0) return false;
  }
  return PyModule_AddObjectRef(module, "dtype", reinterpret_cast<PyObject*>(dtype_type)) == 0 &&
         PyModule_AddObjectRef(module, "device", reinterpret_cast<PyObject*>(device_type)) == 0;
}

}  // namespace weft::bind
