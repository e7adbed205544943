// Python numbers, lists, buffers and arrays to tensors and back.
#include <cstring>

#include "bind/object.h"
#include "core/math/types.h"
#include "core/ops/functions.h"
#include "core/tensor/promotion.h"

namespace weft::bind {
namespace {

PyObject* element(DType t, const char* at) {
  switch (t) {
    case DType::Bool: return PyBool_FromLong(*at != 0);
    case DType::UInt8: return PyLong_FromLong(*reinterpret_cast<const uint8_t*>(at));
    case DType::Int8: return PyLong_FromLong(*reinterpret_cast<const int8_t*>(at));
    case DType::Int16: return PyLong_FromLong(*reinterpret_cast<const int16_t*>(at));
    case DType::Int32: return PyLong_FromLong(*reinterpret_cast<const int32_t*>(at));
    case DType::Int64: return PyLong_FromLongLong(*reinterpret_cast<const int64_t*>(at));
    case DType::Float16: return PyFloat_FromDouble(math::half_to_float(*reinterpret_cast<const Half*>(at)));
    case DType::BFloat16: return PyFloat_FromDouble(math::bfloat16_to_float(*reinterpret_cast<const BFloat16*>(at)));
    case DType::Float32: return PyFloat_FromDouble(*reinterpret_cast<const float*>(at));
    case DType::Float64: return PyFloat_FromDouble(*reinterpret_cast<const double*>(at));
    case DType::Complex64: {
      const auto* z = reinterpret_cast<const float*>(at);
      return PyComplex_FromDoubles(z[0], z[1]);
    }
    case DType::Complex128: {
      const auto* z = reinterpret_cast<const double*>(at);
      return PyComplex_FromDoubles(z[0], z[1]);
    }
  }
  return nullptr;
}

PyObject* nested_list(const TensorImpl* t, int dim, const char* at) {
  const int64_t n = t->dims[dim], step = t->dims[t->ndim + dim] * item_size(t->dtype);
  Ref list(checked(PyList_New(n)));
  for (int64_t i = 0; i < n; ++i, at += step) {
    PyList_SET_ITEM(list.get(), i, checked(dim + 1 == t->ndim ? element(t->dtype, at) : nested_list(t, dim + 1, at)));
  }
  return list.release();
}

PyObject* to_list(PyObject*, PyObject* tensor) {
  return guarded([&] {
    TensorImpl* t = impl_of(tensor);
    ensure_value(t);
    return t->ndim == 0 ? element(t->dtype, t->data) : nested_list(t, 0, t->data);
  });
}

// ---- nested sequences ------------------------------------------------------------------------------

bool is_sequence(PyObject* o) { return PyList_Check(o) || PyTuple_Check(o) || (PySequence_Check(o) && !is_tensor(o) && !PyUnicode_Check(o)); }

struct NestedData {
  Dims shape;
  bool any_float = false, any_int = false, any_tensor = false;
  std::optional<DType> tensor_dtype;

  [[noreturn]] void refuse(PyObject* o) {
    if (PyUnicode_Check(o)) fail(ErrorKind::Type, "new(): invalid data type 'str'");
    if (PyComplex_Check(o)) {
      fail(ErrorKind::NotImplemented, "complex tensors have no arithmetic in weft yet; keep real and imaginary parts in two tensors");
    }
    fail(ErrorKind::Runtime, "Could not infer dtype of ", Py_TYPE(o)->tp_name);
  }

  void note_number(PyObject* o) {
    if (PyFloat_Check(o)) any_float = true;
    else if (PyBool_Check(o)) return;
    else if (PyLong_Check(o)) any_int = true;
    else if (is_tensor(o)) {
      const TensorImpl* t = impl_of(o);
      if (t->numel != 1) fail(ErrorKind::Value, "only one element tensors can be converted to Python scalars");
      any_tensor = true;
      tensor_dtype = tensor_dtype ? promote(*tensor_dtype, t->dtype) : t->dtype;
    } else if (PyIndex_Check(o)) any_int = true;
    else if (Py_TYPE(o)->tp_as_number && Py_TYPE(o)->tp_as_number->nb_float && !PyComplex_Check(o)) any_float = true;
    else refuse(o);
  }

  void measure(PyObject* o) {
    for (int depth = 0; is_sequence(o); ++depth) {
      if (depth >= kMostDims) fail(ErrorKind::Value, "too many dimensions '", Py_TYPE(o)->tp_name, "'");
      const Py_ssize_t n = PySequence_Length(o);
      if (n < 0) throw PythonError{};
      shape.push_back(n);
      if (n == 0) return;
      Ref first(checked(PySequence_GetItem(o, 0)));
      o = first.get();  // still held by its sequence
    }
  }

  void scan_all(PyObject* o) {
    if (shape.size() == 0 || shape[shape.size() - 1] != 0) return scan(o, 0);
    // An empty innermost level: only the lengths can be checked.
    scan_lengths(o, 0);
  }

  void scan_lengths(PyObject* o, int dim) {
    if (dim == shape.size()) return;
    if (!is_sequence(o) || PySequence_Length(o) != shape[dim]) {
      fail(ErrorKind::Value, "expected sequence of length ", shape[dim], " at dim ", dim);
    }
    Ref fast(checked(PySequence_Fast(o, "expected a sequence")));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) scan_lengths(PySequence_Fast_ITEMS(fast.get())[i], dim + 1);
  }

  void scan(PyObject* o, int dim) {
    if (dim == shape.size()) {
      if (is_sequence(o) ) fail(ErrorKind::Value, "expected a number at dim ", dim, ", got ", Py_TYPE(o)->tp_name);
      return note_number(o);
    }
    Ref fast(is_sequence(o) ? checked(PySequence_Fast(o, "expected a sequence")) : nullptr);
    if (!fast) fail(ErrorKind::Type, "expected a sequence of length ", shape[dim], " at dim ", dim, " (got ", Py_TYPE(o)->tp_name, ")");
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(fast.get());
    if (n != shape[dim]) fail(ErrorKind::Value, "expected sequence of length ", shape[dim], " at dim ", dim, " (got ", n, ")");
    PyObject** items = PySequence_Fast_ITEMS(fast.get());
    if (dim + 1 == shape.size()) {
      for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject* item = items[i];
        if (PyFloat_CheckExact(item)) any_float = true;
        else if (PyLong_CheckExact(item)) any_int = true;
        else scan(item, dim + 1);
      }
    } else {
      for (Py_ssize_t i = 0; i < n; ++i) scan(items[i], dim + 1);
    }
  }

  DType dtype() const {
    if (any_tensor) {
      DType t = *tensor_dtype;
      if (any_float && is_integral(t)) t = default_dtype();
      else if (any_int && t == DType::Bool) t = DType::Int64;
      return t;
    }
    return any_float ? default_dtype() : any_int ? DType::Int64 : shape.size() > 0 && shape[shape.size() - 1] == 0 ? default_dtype() : DType::Bool;
  }
};

int64_t integer_of(PyObject* o) {
  if (PyFloat_Check(o)) {
    const double v = PyFloat_AS_DOUBLE(o);
    if (!(v > -9.3e18 && v < 9.3e18)) fail(ErrorKind::Value, "cannot convert float ", v, " to an integer tensor");
    return static_cast<int64_t>(v);
  }
  if (is_tensor(o)) {
    Ref item(checked(tensor_item(impl_of(o))));
    return integer_of(item.get());
  }
  Ref index(PyLong_Check(o) ? Ref::borrowed(o).release() : checked(PyNumber_Long(o)));
  int overflow;
  const int64_t v = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  if (overflow) fail(ErrorKind::Runtime, "Overflow when unpacking long long");
  return v;
}

double double_of(PyObject* o) {
  if (PyFloat_CheckExact(o)) return PyFloat_AS_DOUBLE(o);
  const double v = PyFloat_AsDouble(o);
  if (v == -1 && PyErr_Occurred()) throw PythonError{};
  return v;
}

void store(DType t, char* at, PyObject* o) {
  auto whole = [&](int64_t low, int64_t high) {
    const int64_t v = integer_of(o);
    if (v < low || v > high) fail("value cannot be converted to type ", dtype_name(t), " without overflow: ", v);
    return v;
  };
  switch (t) {
    case DType::Bool: {
      const int truth = PyObject_IsTrue(o);
      if (truth < 0) throw PythonError{};
      *at = static_cast<char>(truth);
      break;
    }
    case DType::UInt8: *reinterpret_cast<uint8_t*>(at) = static_cast<uint8_t>(whole(-255, 255)); break;
    case DType::Int8: *reinterpret_cast<int8_t*>(at) = static_cast<int8_t>(whole(-128, 127)); break;
    case DType::Int16: *reinterpret_cast<int16_t*>(at) = static_cast<int16_t>(whole(-32768, 32767)); break;
    case DType::Int32: *reinterpret_cast<int32_t*>(at) = static_cast<int32_t>(whole(INT32_MIN, INT32_MAX)); break;
    case DType::Int64: *reinterpret_cast<int64_t*>(at) = integer_of(o); break;
    case DType::Float16: *reinterpret_cast<Half*>(at) = math::float_to_half(static_cast<float>(double_of(o))); break;
    case DType::BFloat16: *reinterpret_cast<BFloat16*>(at) = math::float_to_bfloat16(static_cast<float>(double_of(o))); break;
    case DType::Float32: *reinterpret_cast<float*>(at) = static_cast<float>(double_of(o)); break;
    case DType::Float64: *reinterpret_cast<double*>(at) = double_of(o); break;
    default: fail(ErrorKind::NotImplemented, "complex tensors have no arithmetic in weft yet: cannot make one of ", dtype_name(t));
  }
}

void fill(DType t, const Dims& shape, PyObject* o, int dim, char*& at) {
  const int64_t item = item_size(t);
  if (dim == shape.size()) {
    store(t, at, o);
    at += item;
    return;
  }
  Ref fast(checked(PySequence_Fast(o, "expected a sequence")));
  // The list may have been changed by an element's own conversion; never read past its end.
  for (int64_t i = 0; i < shape[dim]; ++i) {
    if (i >= PySequence_Fast_GET_SIZE(fast.get())) fail(ErrorKind::Value, "the sequence changed while it was being read");
    PyObject* value = PySequence_Fast_ITEMS(fast.get())[i];
    if (dim + 1 == shape.size() && t == DType::Float32 && PyFloat_CheckExact(value)) {
      *reinterpret_cast<float*>(at) = static_cast<float>(PyFloat_AS_DOUBLE(value));
      at += item;
    } else {
      Ref held = Ref::borrowed(value);
      fill(t, shape, value, dim + 1, at);
    }
  }
}

PyObject* tensor_from_data(PyObject*, PyObject* args) {
  PyObject *data, *dtype;
  if (!PyArg_ParseTuple(args, "OO", &data, &dtype)) return nullptr;
  return guarded([&] {
    std::optional<DType> wanted;
    if (dtype != Py_None) {
      DType t;
      if (!dtype_from(dtype, &t)) fail(ErrorKind::Type, "tensor(): argument 'dtype' must be torch.dtype, not ", Py_TYPE(dtype)->tp_name);
      wanted = t;
    }
    return wrap(sequence_to_tensor(data, wanted));
  });
}

// ---- memory shared with others ---------------------------------------------------------------------

const char* buffer_format(DType t) {
  switch (t) {
    case DType::Bool: return "?";
    case DType::UInt8: return "B";
    case DType::Int8: return "b";
    case DType::Int16: return "h";
    case DType::Int32: return "i";
    case DType::Int64: return "q";
    case DType::Float16: return "e";
    case DType::Float32: return "f";
    case DType::Float64: return "d";
    default: return nullptr;
  }
}

bool dtype_of_format(const char* format, Py_ssize_t item, DType* out) {
  if (!format) format = "B";
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == 0 || format[1] != 0) return false;
  switch (*format) {
    case '?': *out = DType::Bool; return item == 1;
    case 'B': *out = DType::UInt8; return item == 1;
    case 'b': case 'c': *out = DType::Int8; return item == 1;
    case 'h': *out = DType::Int16; return item == 2;
    case 'i': case 'l': case 'q': case 'n':
      *out = item == 4 ? DType::Int32 : DType::Int64;
      return item == 4 || item == 8;
    case 'e': *out = DType::Float16; return item == 2;
    case 'f': *out = DType::Float32; return item == 4;
    case 'd': *out = DType::Float64; return item == 8;
  }
  return false;
}

void release_buffer(void* owner) {
  auto* view = static_cast<Py_buffer*>(owner);
  PyBuffer_Release(view);
  delete view;
}

// _from_buffer(object): a tensor over the memory of anything with the buffer protocol.
PyObject* from_buffer(PyObject*, PyObject* object) {
  return guarded([&]() -> PyObject* {
    auto view = std::make_unique<Py_buffer>();
    if (PyObject_GetBuffer(object, view.get(), PyBUF_STRIDED | PyBUF_FORMAT | PyBUF_WRITABLE) < 0) {
      PyErr_Clear();
      if (PyObject_GetBuffer(object, view.get(), PyBUF_STRIDED | PyBUF_FORMAT) < 0) throw PythonError{};
    }
    struct Guard { Py_buffer* view; bool armed = true; ~Guard() { if (armed) PyBuffer_Release(view); } } guard{view.get()};
    DType t;
    if (!dtype_of_format(view->format, view->itemsize, &t)) {
      fail(ErrorKind::Type, "can't convert an array of format '", view->format ? view->format : "", "' to a tensor. The supported "
           "types are: float64, float32, float16, int64, int32, int16, int8, uint8, and bool.");
    }
    if (view->ndim > kMostDims) fail("an array of ", view->ndim, " dimensions has more than ", kMostDims);
    Dims sizes, strides;
    sizes.resize(view->ndim);
    strides.resize(view->ndim);
    int64_t reach = 0;
    bool empty_array = false;
    for (int d = 0; d < view->ndim; ++d) {
      sizes[d] = view->shape[d];
      if (view->strides[d] < 0) {
        fail(ErrorKind::Value, "At least one stride in the given numpy array is negative, and tensors with negative strides are "
             "not currently supported. (You can probably work around this by making a copy of your array  with array.copy().) ");
      }
      if (view->strides[d] % view->itemsize != 0) {
        fail(ErrorKind::Value, "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory.");
      }
      strides[d] = view->strides[d] / view->itemsize;
      if (sizes[d] == 0) empty_array = true;
      reach += std::max<int64_t>(sizes[d] - 1, 0) * strides[d];
    }
    Tensor whole = empty(Dims{0}, t);
    release(whole->storage);
    whole->storage = storage_adopt(view->buf, empty_array ? 0 : (reach + 1) * view->itemsize, view.get(), release_buffer);
    whole->data = whole->storage->data;
    guard.armed = false;
    view.release();
    return wrap(alias(whole, sizes, strides, 0));
  });
}

// Shape and strides in bytes, for as long as somebody looks at the buffer.
struct Exported {
  Py_ssize_t shape[kMostDims], strides[kMostDims];
};

}  // namespace

int export_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  return guarded_int([&] {
    TensorImpl* t = impl_of(self);
    ensure_value(t);
    const char* format = buffer_format(t->dtype);
    if (!format) {
      PyErr_Format(PyExc_BufferError, "%s has no buffer format; convert the tensor first, for example with .float()", dtype_name(t->dtype));
      return -1;
    }
    auto* exported = new Exported;
    for (int d = 0; d < t->ndim; ++d) {
      exported->shape[d] = t->dims[d];
      exported->strides[d] = t->dims[t->ndim + d] * item_size(t->dtype);
    }
    if (!(flags & PyBUF_STRIDES) && !t->is_contiguous()) {
      delete exported;
      PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous");
      return -1;
    }
    t->storage->exposed = true;
    view->buf = t->data;
    view->len = t->numel * item_size(t->dtype);
    view->itemsize = item_size(t->dtype);
    view->readonly = 0;
    view->ndim = t->ndim;
    view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
    view->shape = exported->shape;
    view->strides = exported->strides;
    view->suboffsets = nullptr;
    view->internal = exported;
    // The memory must outlive the view even if the tensor is resized or rebound.
    retain(t->storage);
    Py_INCREF(self);
    view->obj = self;
    return 0;
  });
}

void release_export(PyObject* self, Py_buffer* view) {
  delete static_cast<Exported*>(view->internal);
  if (TensorImpl* t = impl_of(self)) release(t->storage);
}

Tensor sequence_to_tensor(PyObject* data, std::optional<DType> wanted) {
  if (is_tensor(data)) return to_dtype(Tensor::share(impl_of(data)), wanted.value_or(impl_of(data)->dtype));
  NestedData nested;
  nested.measure(data);
  nested.scan_all(data);
  const DType t = wanted.value_or(nested.dtype());
  Tensor out = empty(nested.shape, t);
  char* at = out->data;
  if (out.numel() > 0) fill(t, nested.shape, data, 0, at);
  return out;
}

PyObject* tensor_item(TensorImpl* t) {
  ensure_value(t);
  return element(t->dtype, t->data);
}

namespace {
PyMethodDef functions[] = {{"_tensor_from_data", tensor_from_data, METH_VARARGS, nullptr},
                           {"_from_buffer", from_buffer, METH_O, nullptr},
                           {"_to_list", to_list, METH_O, nullptr},
                           {}};
}

bool init_conversions(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace weft::bind
