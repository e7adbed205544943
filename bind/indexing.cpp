// tensor[...] and tensor[...] = value.
//
// Integers, slices, None and Ellipsis make views, one after the other; tensors, lists and masks are
// gathered and handed to the operations index and index_put.
#include "bind/override.h"
#include "core/ops/functions.h"

namespace weft::bind {

bool index_value(PyObject* o, int64_t* out) {
  Ref index(PyNumber_Index(o));
  if (!index) return false;
  *out = PyLong_AsLongLong(index.get());
  return !(*out == -1 && PyErr_Occurred());
}

bool dims_from(PyObject* o, Dims* out) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  out->resize(static_cast<int>(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_ITEMS(o)[i];
    if (PyLong_CheckExact(item)) {
      int overflow;
      (*out)[static_cast<int>(i)] = PyLong_AsLongLongAndOverflow(item, &overflow);
      if (overflow) fail(ErrorKind::Overflow, "Overflow when unpacking long: a size does not fit int64");
      continue;
    }
    if (PyFloat_Check(item) || PyBool_Check(item) || !PyIndex_Check(item)) return false;
    if (!index_value(item, &(*out)[static_cast<int>(i)])) {
      PyErr_Clear();
      return false;
    }
  }
  return true;
}

namespace {

struct SliceRange {
  std::optional<int64_t> start, stop;
  int64_t step = 1;
};

int64_t slice_bound(PyObject* o) {
  int64_t value;
  Ref index(PyNumber_Index(o));
  if (!index) {
    PyErr_Clear();
    fail(ErrorKind::Type, "slice indices must be integers or None or have an __index__ method");
  }
  int overflow;
  value = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  return overflow > 0 ? INT64_MAX : overflow < 0 ? INT64_MIN + 1 : value;
}

SliceRange read_slice(PyObject* o) {
  const auto* s = reinterpret_cast<PySliceObject*>(o);
  SliceRange r;
  if (s->start != Py_None) r.start = slice_bound(s->start);
  if (s->stop != Py_None) r.stop = slice_bound(s->stop);
  if (s->step != Py_None) r.step = slice_bound(s->step);
  if (r.step <= 0) fail(ErrorKind::Value, "step must be greater than zero");
  return r;
}

bool is_integer(PyObject* o) { return PyLong_CheckExact(o) || (PyIndex_Check(o) && !PyBool_Check(o) && !is_tensor(o) && !PySequence_Check(o)); }

Tensor take_integer(const Tensor& t, int64_t dim, PyObject* o) {
  if (t.ndim() <= dim) {
    if (t.ndim() == 0) {
      fail(ErrorKind::Index, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
           "convert a 0-dim tensor to a number");
    }
    fail(ErrorKind::Index, "too many indices for tensor of dimension ", t.ndim());
  }
  int64_t i;
  if (!index_value(o, &i)) throw PythonError{};
  const int64_t size = t.size(static_cast<int>(dim));
  if (i < -size || i >= size) {
    fail(ErrorKind::Index, "index ", i, " is out of bounds for dimension ", dim, " with size ", size);
  }
  return select(t, dim, i);
}

Tensor take_slice(const Tensor& t, int64_t dim, PyObject* o) {
  if (t.ndim() == 0) fail(ErrorKind::Index, "slice() cannot be applied to a 0-dim tensor.");
  if (t.ndim() <= dim) fail(ErrorKind::Index, "too many indices for tensor of dimension ", t.ndim());
  const SliceRange r = read_slice(o);
  return slice(t, dim, r.start.value_or(0), r.stop.value_or(INT64_MAX), r.step);
}

// How many of the tensor's dimensions an index consumes.
int64_t consumed(PyObject* o) {
  if (o == Py_None || o == Py_Ellipsis || PyBool_Check(o)) return 0;
  if (is_tensor(o)) {
    const TensorImpl* t = impl_of(o);
    return t->dtype == DType::Bool || t->dtype == DType::UInt8 ? t->ndim : 1;
  }
  return 1;
}

// The tensor after all views have been taken, and the advanced indices for its dimensions (null: all).
struct Applied {
  Tensor view;
  std::vector<Tensor> indices;
  bool advanced = false;
  bool viewed = false;   // `view` is not the tensor itself
};

Tensor index_tensor(PyObject* o) {
  if (is_tensor(o)) return Tensor::share(impl_of(o));
  return sequence_to_tensor(o, std::nullopt);
}

Applied apply_index(const Tensor& self, PyObject* index) {
  Applied a{self, {}, false, false};
  Ref as_tuple;
  if (!PyTuple_Check(index)) {
    as_tuple = Ref(checked(PyTuple_Pack(1, index)));
    index = as_tuple.get();
  }
  const Py_ssize_t n = PyTuple_GET_SIZE(index);
  int64_t specified = 0;
  for (Py_ssize_t i = 0; i < n; ++i) specified += consumed(PyTuple_GET_ITEM(index, i));
  int64_t dim = 0;
  auto place = [&](Tensor t) {
    a.advanced = true;
    a.indices.resize(static_cast<size_t>(dim) + 1);
    a.indices[static_cast<size_t>(dim)] = std::move(t);
  };
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(index, i);
    if (is_integer(o)) {
      a.view = take_integer(a.view, dim, o);
      a.viewed = true;
    } else if (PySlice_Check(o)) {
      a.view = take_slice(a.view, dim++, o);
      a.viewed = true;
    } else if (o == Py_Ellipsis) {
      dim += self.ndim() - specified;
      if (dim < 0) fail(ErrorKind::Index, "too many indices for tensor of dimension ", self.ndim());
    } else if (o == Py_None) {
      a.view = unsqueeze(a.view, dim++);
      a.viewed = true;
    } else if (PyBool_Check(o)) {
      a.view = unsqueeze(a.view, dim);
      a.viewed = true;
      place(full(Dims{1}, o == Py_True, DType::Bool));
      ++dim;
    } else if (is_tensor(o)) {
      const TensorImpl* t = impl_of(o);
      if (t->ndim == 0 && is_integral(t->dtype)) {
        if (t->dtype == DType::Bool || t->dtype == DType::UInt8) {
          a.view = unsqueeze(a.view, dim);
          a.viewed = true;
          place(reshape(Tensor::share(impl_of(o)), Dims{1}));
          ++dim;
        } else {
          a.view = take_integer(a.view, dim, o);
          a.viewed = true;
        }
      } else {
        place(Tensor::share(impl_of(o)));
        dim += std::max<int64_t>(consumed(o), 1);
      }
    } else if (PySequence_Check(o) && !PyUnicode_Check(o)) {
      Tensor t = index_tensor(o);
      if (t.numel() == 0) t = to_dtype(t, DType::Int64);
      const bool mask = t.dtype() == DType::Bool || t.dtype() == DType::UInt8;
      const int64_t uses = mask ? t.ndim() : 1;
      place(std::move(t));
      dim += uses;
    } else {
      fail(ErrorKind::Index, "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
           "indices (got ", Py_TYPE(o)->tp_name, ")");
    }
  }
  return a;
}

}  // namespace

PyObject* tensor_getitem(PyObject* self, PyObject* index) {
  if (may_be_overridden(self, index)) {
    PyObject* answer;
    if (operator_overridden("__getitem__", nullptr, self, index, &answer)) return answer;
  }
  return guarded([&]() -> PyObject* {
    const Tensor t = Tensor::share(impl_of(self));
    if (PyLong_CheckExact(index)) return wrap(take_integer(t, 0, index));
    if (PySlice_Check(index)) return wrap(take_slice(t, 0, index));
    Applied a = apply_index(t, index);
    if (a.advanced) return wrap(weft::index(a.view, a.indices));
    // t[...] and t[()] are views as well: another tensor over the same memory.
    return wrap(a.viewed ? std::move(a.view) : view_of_all(t));
  });
}

int tensor_setitem(PyObject* self, PyObject* index, PyObject* value) {
  if (value && overrides_in_use) {
    static PyObject* const function = PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), "__setitem__");
    PyObject* const arguments[] = {self, index, value};
    PyObject* answer;
    if (overridden(function, arguments, 3, nullptr, &answer)) {
      Py_XDECREF(answer);
      return answer ? 0 : -1;
    }
  }
  return guarded_int([&] {
    if (!value) fail(ErrorKind::Type, "Tensor does not support deleting items");
    const Tensor t = Tensor::share(impl_of(self));
    Tensor v;
    if (is_tensor(value)) {
      v = Tensor::share(impl_of(value));
    } else {
      v = number_to_tensor(value);
      if (!v) {
        fail(ErrorKind::Type, "can't assign a ", Py_TYPE(value)->tp_name, " to a torch.", dtype_name(t.dtype()), " tensor");
      }
    }
    Applied a = apply_index(t, index);
    if (a.advanced) {
      index_put_into(a.view, a.indices, v);
    } else {
      // Leading dimensions of size one are dropped from the value, as numpy does.
      while (v.ndim() > a.view.ndim() && v.size(0) == 1) v = squeeze(v, 0);
      copy_in_place(a.viewed ? a.view : t, v);
    }
    return 0;
  });
}

}  // namespace weft::bind
