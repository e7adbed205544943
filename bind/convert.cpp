// Python numbers and lists to tensors and back, and weft.tensor().
#include "bind/exchange.h"
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

// tolist() is a function of weft's own: the line that reads is its caller's.
void note_callers_read(TensorImpl* t) {
  PyFrameObject* const own = PyEval_GetFrame();
  const Ref caller(reinterpret_cast<PyObject*>(own ? PyFrame_GetBack(own) : nullptr));
  if (!caller || context().user_site_depth > 0) return note_value_read(t);
  auto* const running = reinterpret_cast<PyFrameObject*>(caller.get());
  const Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(running)));
  Context& now = context();
  now.user_site = {code.get(), PyFrame_GetLasti(running)};
  ++now.user_site_depth;
  note_value_read(t);
  --now.user_site_depth;
}

PyObject* to_list(PyObject*, PyObject* tensor) {
  return guarded([&] {
    TensorImpl* t = tensor_argument(tensor);
    if (t->grad_fn) note_callers_read(t);
    ensure_value(t);
    return t->ndim == 0 ? element(t->dtype, t->data) : nested_list(t, 0, t->data);
  });
}

// ---- nested sequences ------------------------------------------------------------------------------

bool is_sequence(PyObject* o) {
  return PyList_Check(o) || PyTuple_Check(o) ||
         (PySequence_Check(o) && !is_tensor(o) && !PyUnicode_Check(o) && !PyBytes_Check(o));
}

// Shape and dtype of nested sequences, found before memory is made.
struct NestedData {
  Dims shape;
  bool any_float = false, any_int = false, any_bool = false;
  std::optional<DType> other;  // of tensors and numpy's numbers

  [[noreturn]] void refuse(PyObject* o, int dim) {
    if (PyUnicode_Check(o) || PyBytes_Check(o)) {
      if (dim == 0) fail(ErrorKind::Type, "new(): invalid data type '", Py_TYPE(o)->tp_name, "'");
      fail(ErrorKind::Value, "too many dimensions '", Py_TYPE(o)->tp_name, "'");
    }
    if (PyComplex_Check(o)) {
      fail(ErrorKind::NotImplemented,
           "complex tensors have no arithmetic in weft yet; keep real and imaginary parts in two "
           "tensors");
    }
    fail(ErrorKind::Runtime, "Could not infer dtype of ", Py_TYPE(o)->tp_name);
  }

  void note(DType t) { other = other ? promote(*other, t) : t; }

  void note_number(PyObject* o, int dim) {
    DType t;
    if (PyFloat_CheckExact(o)) any_float = true;
    else if (PyBool_Check(o)) any_bool = true;
    else if (PyLong_CheckExact(o)) any_int = true;
    else if (is_tensor(o)) {
      const TensorImpl* element = impl_of(o);
      if (element->numel != 1) fail(ErrorKind::Value, "only one element tensors can be converted to Python scalars");
      note(element->dtype);
    } else if (is_array_scalar(o, &t)) note(t);
    else if (PyFloat_Check(o)) any_float = true;
    else if (PyIndex_Check(o)) any_int = true;
    else if (Py_TYPE(o)->tp_as_number && Py_TYPE(o)->tp_as_number->nb_float && !PyComplex_Check(o)) any_float = true;
    else refuse(o, dim);
  }

  void measure(PyObject* o) {
    Ref held = Ref::borrowed(o);
    while (is_sequence(held.get())) {
      if (shape.size() >= kMostDims) fail(ErrorKind::Value, "too many dimensions '", Py_TYPE(held.get())->tp_name, "'");
      const Py_ssize_t n = PySequence_Length(held.get());
      if (n < 0) throw PythonError{};
      shape.push_back(n);
      if (n == 0) return;
      held = Ref(checked(PySequence_GetItem(held.get(), 0)));
    }
  }

  void scan(PyObject* o, int dim) {
    const int dims = shape.size();
    if (dim == dims) {
      if (is_sequence(o)) {
        if (dim > 0 && shape[dim - 1] == 0) return;
        fail(ErrorKind::Type, "'", Py_TYPE(o)->tp_name,
             "' object cannot be interpreted as a number: the other elements of dimension ", dim - 1, " are numbers");
      }
      return note_number(o, dim);
    }
    if (!is_sequence(o))
      fail(ErrorKind::Type, "expected a sequence of length ", shape[dim], " at dim ", dim, " (got ",
           Py_TYPE(o)->tp_name, ")");
    Ref fast(checked(PySequence_Fast(o, "expected a sequence")));
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(fast.get());
    if (n != shape[dim])
      fail(ErrorKind::Value, "expected sequence of length ", shape[dim], " at dim ", dim, " (got ", n, ")");
    // What an element's own conversion does to the list must not matter: it is asked for its size each time.
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) {
      PyObject* item = PySequence_Fast_ITEMS(fast.get())[i];
      if (dim + 1 == dims && PyFloat_CheckExact(item)) any_float = true;
      else if (dim + 1 == dims && PyLong_CheckExact(item)) any_int = true;
      else {
        const Ref kept = Ref::borrowed(item);
        scan(item, dim + 1);
      }
    }
  }

  DType dtype() const {
    DType found = DType::Bool;
    if (!any_float && !any_int && !any_bool && !other) return default_dtype();
    if (any_int) found = DType::Int64;
    if (any_float) found = default_dtype();
    return other ? promote(*other, found) : found;
  }
};

// Most integers are of one digit of Python's, and read without a call.
bool is_small(PyObject* o, int64_t* out) {
  const auto* number = reinterpret_cast<const PyLongObject*>(o);
#if PY_VERSION_HEX >= 0x030c0000
  if (!PyUnstable_Long_IsCompact(number)) return false;
  *out = PyUnstable_Long_CompactValue(number);
#else
  const Py_ssize_t digits = Py_SIZE(number);
  if (digits < -1 || digits > 1) return false;
  *out = digits * static_cast<int64_t>(number->ob_digit[0]);
#endif
  return true;
}

int64_t integer_of(PyObject* o, DType t) {
  if (PyFloat_Check(o)) {
    const double v = PyFloat_AS_DOUBLE(o);
    if (!(v > -9.3e18 && v < 9.3e18))
      fail("value cannot be converted to type ", dtype_name(t), " without overflow: ", v);
    return static_cast<int64_t>(v);
  }
  if (is_tensor(o)) {
    Ref item(checked(tensor_item(impl_of(o))));
    return integer_of(item.get(), t);
  }
  int64_t small;
  if (PyLong_CheckExact(o) && is_small(o, &small)) return small;
  Ref index(PyLong_Check(o) ? Ref::borrowed(o).release() : checked(PyNumber_Long(o)));
  int overflow;
  const int64_t v = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  if (overflow) fail(ErrorKind::Value, "Overflow when unpacking long long: the integer does not fit int64");
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
    const int64_t v = integer_of(o, t);
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
    case DType::Int64: *reinterpret_cast<int64_t*>(at) = integer_of(o, t); break;
    case DType::Float16: *reinterpret_cast<Half*>(at) = math::float_to_half(static_cast<float>(double_of(o))); break;
    case DType::BFloat16:
      *reinterpret_cast<BFloat16*>(at) = math::float_to_bfloat16(static_cast<float>(double_of(o)));
      break;
    case DType::Float32: *reinterpret_cast<float*>(at) = static_cast<float>(double_of(o)); break;
    case DType::Float64: *reinterpret_cast<double*>(at) = double_of(o); break;
    default:
      fail(ErrorKind::NotImplemented, "complex tensors have no arithmetic in weft yet: cannot make one of ",
           dtype_name(t));
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
  const bool numbers = dim + 1 == shape.size();
  // The list may have been changed by an element's own conversion; never read past its end.
  for (int64_t i = 0; i < shape[dim]; ++i) {
    if (i >= PySequence_Fast_GET_SIZE(fast.get()))
      fail(ErrorKind::Value, "the sequence changed while it was being read");
    PyObject* value = PySequence_Fast_ITEMS(fast.get())[i];
    if (numbers && t == DType::Float32 && PyFloat_CheckExact(value)) {
      *reinterpret_cast<float*>(at) = static_cast<float>(PyFloat_AS_DOUBLE(value));
      at += item;
    } else if (numbers && t == DType::Float64 && PyFloat_CheckExact(value)) {
      *reinterpret_cast<double*>(at) = PyFloat_AS_DOUBLE(value);
      at += item;
    } else if (numbers && t == DType::Int64 && PyLong_CheckExact(value)) {
      auto* to = reinterpret_cast<int64_t*>(at);
      if (!is_small(value, to)) *to = integer_of(value, t);
      at += item;
    } else {
      const Ref held = Ref::borrowed(value);
      fill(t, shape, value, dim + 1, at);
    }
  }
}

// ---- weft.tensor -----------------------------------------------------------------------------------

struct TensorArguments {
  PyObject* data = nullptr;
  std::optional<DType> dtype;
  bool requires_grad = false;

  void take(PyObject* name, PyObject* value) {
    const auto is = [&](const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; };
    if (is("data")) {
      if (data) fail(ErrorKind::Type, "tensor() got multiple values for argument 'data'");
      data = value;
    } else if (is("dtype")) {
      DType t;
      if (value == Py_None) return;
      if (!dtype_from(value, &t))
        fail(ErrorKind::Type, "tensor(): argument 'dtype' must be torch.dtype, not ", Py_TYPE(value)->tp_name);
      dtype = t;
    } else if (is("device")) {
      Device d;
      if (value == Py_None) return;
      if (!device_from(value, &d)) throw PythonError{};
      if (d.type != DeviceType::CPU) {
        fail(ErrorKind::Runtime, "tensor(): device '", device_name(d),
             "' is not available in this build of weft; use device='cpu'");
      }
    } else if (is("requires_grad")) {
      const int on = PyObject_IsTrue(value);
      if (on < 0) throw PythonError{};
      requires_grad = on;
    } else if (is("pin_memory")) {
      const int on = PyObject_IsTrue(value);
      if (on < 0) throw PythonError{};
      if (on) fail(ErrorKind::Runtime, "tensor(): pin_memory=True needs an accelerator, and none is available");
    } else {
      fail(ErrorKind::Type, "tensor() got an unexpected keyword argument '", PyUnicode_AsUTF8(name), "'");
    }
  }
};

Tensor copy_of(PyObject* source, std::optional<DType> dtype) {
  if (PyErr_WarnEx(PyExc_UserWarning,
                   "tensor() of a tensor copies its values and cuts its history. Say what you "
                   "mean: x.clone() keeps gradients flowing, "
                   "x.detach().clone() does not.",
                   1) < 0) {
    throw PythonError{};
  }
  note_value_read(impl_of(source));
  const GradMode off(false);
  const Tensor from = Tensor::share(impl_of(source));
  Tensor copy = to_dtype(from, dtype.value_or(from.dtype()));
  return copy.get() == from.get() ? clone(copy) : copy;
}

// tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)
PyObject* make_tensor(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    TensorArguments given;
    if (count > 1) fail(ErrorKind::Type, "tensor() takes 1 positional argument but ", count, " were given");
    if (count == 1) given.data = args[0];
    for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); ++k)
      given.take(PyTuple_GET_ITEM(names, k), args[count + k]);
    if (!given.data) fail(ErrorKind::Type, "tensor() missing 1 required positional arguments: \"data\"");
    Tensor t = is_tensor(given.data) ? copy_of(given.data, given.dtype) : sequence_to_tensor(given.data, given.dtype);
    if (given.requires_grad) {
      if (!is_differentiable(t.dtype())) {
        fail(
            "Only Tensors of floating point and complex dtype can require gradients; this data has "
            "dtype ",
            dtype_name(t.dtype()), ": write numbers with a point, or give dtype=torch.float32");
      }
      t->set(kRequiresGrad, true);
    }
    return wrap(std::move(t));
  });
}

}  // namespace

Tensor sequence_to_tensor(PyObject* data, std::optional<DType> wanted) {
  if (is_tensor(data)) return to_dtype(Tensor::share(impl_of(data)), wanted.value_or(impl_of(data)->dtype));
  if (!PyList_Check(data) && !PyTuple_Check(data) && is_array(data)) {
    const GradMode off(false);
    const Tensor shared = buffer_to_tensor(data);
    Tensor copy = to_dtype(shared, wanted.value_or(shared.dtype()));
    return copy.get() == shared.get() ? clone(copy) : copy;
  }
  NestedData nested;
  nested.measure(data);
  nested.scan(data, 0);
  const DType t = wanted.value_or(nested.dtype());
  if (is_complex(t))
    fail(ErrorKind::NotImplemented, "complex tensors have no arithmetic in weft yet: cannot make one of ",
         dtype_name(t));
  Tensor out = empty(nested.shape, t);
  char* at = out->data;
  if (out.numel() > 0) fill(t, nested.shape, data, 0, at);
  return out;
}

PyObject* tensor_item(TensorImpl* t) {
  if (t->grad_fn) note_value_read(t);
  ensure_value(t);
  return element(t->dtype, t->data);
}

namespace {
PyMethodDef functions[] = {
    {"tensor", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(make_tensor)), METH_FASTCALL | METH_KEYWORDS,
     "tensor($module, data, *, dtype=None, device=None, requires_grad=False, "
     "pin_memory=False)\n--\n\n"
     "A new tensor with a copy of `data`: a number, (nested) lists or tuples of numbers, or an "
     "array.\n\n"
     "Without `dtype` it follows from the data: bool, int64, or the default floating-point type."},
    {"_to_list", to_list, METH_O, nullptr},
    {}};
}

bool init_conversions(PyObject* module) {
  return PyModule_AddFunctions(module, functions) == 0 && init_buffers(module) && init_dlpack(module);
}

}  // namespace weft::bind
