// tensor[...] and tensor[...] = value.
//
// Integers, slices, None and Ellipsis make one view together; tensors, lists and masks are gathered
// and handed to the operations index and index_put.
#include "core/ops/indexing.h"
#include "bind/exchange.h"
#include "bind/override.h"

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

[[noreturn]] void fail_too_many(const Tensor& t) {
  fail(ErrorKind::Index, "too many indices for tensor of dimension ", t.ndim());
}

int64_t integer_of(PyObject* o) {
  int overflow = 0;
  int64_t value;
  if (PyLong_CheckExact(o)) {
    value = PyLong_AsLongLongAndOverflow(o, &overflow);
  } else {
    Ref index(checked(PyNumber_Index(o)));
    value = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  }
  if (overflow) fail(ErrorKind::Value, "Overflow when unpacking long long");
  return value;
}

int64_t slice_bound(PyObject* o) {
  Ref index(PyLong_CheckExact(o) ? Ref::borrowed(o) : Ref(PyNumber_Index(o)));
  if (!index) {
    PyErr_Clear();
    fail(ErrorKind::Type, "slice indices must be integers or None or have an __index__ method");
  }
  int overflow;
  const int64_t value = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  return overflow > 0 ? INT64_MAX : overflow < 0 ? INT64_MIN + 1 : value;
}

struct SliceRange { int64_t first, length, step; };

SliceRange read_slice(PyObject* o, int64_t size) {
  const auto* s = reinterpret_cast<PySliceObject*>(o);
  const int64_t step = s->step == Py_None ? 1 : slice_bound(s->step);
  if (step <= 0) fail(ErrorKind::Value, step == 0 ? "slice step cannot be zero" : "step must be greater than zero");
  int64_t first = s->start == Py_None ? 0 : slice_bound(s->start);
  int64_t last = s->stop == Py_None ? size : slice_bound(s->stop);
  if (first < 0) first = std::max<int64_t>(first + size, 0);
  if (last < 0) last = std::max<int64_t>(last + size, 0);
  first = std::min(first, size);
  last = std::clamp(last, first, size);
  const int64_t span = last - first;
  return {first, span / step + (span % step != 0), step};
}

Tensor slice_to(const Tensor& t, int64_t dim, const SliceRange& r) {
  const int64_t end = r.length == 0 ? r.first : r.first + (r.length - 1) * r.step + 1;
  return slice(t, dim, r.first, end, r.step);
}

bool is_mask(const TensorImpl* t) { return t->dtype == DType::Bool || t->dtype == DType::UInt8; }

// A list, a tuple inside a tuple or an array as an index.
Tensor sequence_index(PyObject* o) {
  Tensor t = PyObject_CheckBuffer(o) && !PyBytes_Check(o) ? buffer_to_tensor(o) : sequence_to_tensor(o, std::nullopt);
  // Nothing says what an empty list is made of, and PyTorch takes whole parts of floats.
  const bool to_long = t.numel() == 0 ? !is_mask(t.get()) || !PyObject_CheckBuffer(o) : is_floating(t.dtype());
  if (to_long) t = to_dtype(t, DType::Int64);
  return t;
}

bool is_integer(PyObject* o) {
  return PyLong_CheckExact(o) || (PyIndex_Check(o) && !PyBool_Check(o) && !is_tensor(o) && !PySequence_Check(o));
}

bool is_sequence(PyObject* o) { return PySequence_Check(o) && !PyDict_Check(o); }

// Lists are indices of their own, but one that holds anything but numbers was meant as a tuple.
bool stands_for_tuple(PyObject* o) {
  if (!PyList_Check(o)) return false;
  const Py_ssize_t n = PyList_GET_SIZE(o);
  if (n >= 32) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PyList_GET_ITEM(o, i);
    if (is_tensor(item) || PySlice_Check(item) || item == Py_None || item == Py_Ellipsis ||
        (PySequence_Check(item) && !PyUnicode_Check(item))) {
      static bool warned[2];  // once for each kind of item
      const bool sequence = is_tensor(item) || PySequence_Check(item);
      if (!std::exchange(warned[sequence], true) &&
          PyErr_WarnEx(PyExc_UserWarning,
                       "Using a non-tuple sequence for multidimensional indexing is deprecated; "
                       "use x[tuple(seq)] "
                       "instead of x[seq].",
                       1) < 0) {
        throw PythonError{};
      }
      return true;
    }
  }
  return false;
}

// Reads what stands between the brackets, from left to right.
class Brackets {
 public:
  explicit Brackets(const Tensor& self) : self_(self), selection_(self.ndim()) {}

  void read(PyObject* index) {
    Ref as_tuple;
    if (!PyTuple_Check(index) && stands_for_tuple(index)) {
      as_tuple = Ref(checked(PyList_AsTuple(index)));
      index = as_tuple.get();
    }
    if (PyTuple_Check(index)) {
      const Py_ssize_t n = PyTuple_GET_SIZE(index);
      for (Py_ssize_t i = 0; i < n; ++i) read_item(PyTuple_GET_ITEM(index, i), index);
    } else {
      read_item(index, nullptr);
    }
    while (dim_ < self_.ndim()) keep();
  }

  bool advanced() const { return !indices_.empty(); }
  const std::vector<Tensor>& indices() const { return indices_; }
  bool viewed() const { return changes_ > 0; }

  // The tensor after integers, slices and new dimensions.
  Tensor view() const {
    switch (changes_) {
      case 0: return self_;
      case 1: return single();
      default: return basic_index(self_, selection_);
    }
  }

 private:
  enum class Change : uint8_t { Select, Slice, New };

  void read_item(PyObject* o, PyObject* all) {
    if (is_integer(o)) return select_at(integer_of(o));
    if (PySlice_Check(o)) return take_slice(o);
    if (o == Py_Ellipsis) return skip(all);
    if (o == Py_None) return insert();
    if (PyBool_Check(o)) {
      insert();
      return place(full(Dims{1}, o == Py_True, DType::Bool));
    }
    if (is_tensor(o)) return take_tensor(Tensor::share(impl_of(o)));
    if (is_sequence(o)) return take_tensor(sequence_index(o));
    fail(ErrorKind::Index,
         "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
         "indices (got ",
         Py_TYPE(o)->tp_name, ")");
  }

  void select_at(int64_t i) {
    if (dim_ >= self_.ndim()) {
      if (self_.ndim() > 0) fail_too_many(self_);
      fail(ErrorKind::Index,
           "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` "
           "in C++ "
           "to convert a 0-dim tensor to a number");
    }
    const int64_t size = self_.size(dim_);
    if (i < -size || i >= size) {
      fail(ErrorKind::Index, "index ", i, " is out of bounds for dimension ", selection_.results(), " with size ",
           size);
    }
    first_ = i;
    note(Change::Select);
    selection_.start(dim_++, i < 0 ? i + size : i);
  }

  void take_slice(PyObject* o) {
    if (self_.ndim() == 0) fail(ErrorKind::Index, "slice() cannot be applied to a 0-dim tensor.");
    if (dim_ >= self_.ndim()) fail_too_many(self_);
    const int64_t size = self_.size(dim_);
    const SliceRange range = read_slice(o, size);
    if (range.first == 0 && range.length == size && range.step == 1) return keep();
    range_ = range;
    note(Change::Slice);
    selection_.start(dim_, range.first);
    selection_.keep(dim_++, range.step, range.length);
  }

  void skip(PyObject* all) {
    int64_t specified = 0;
    for (Py_ssize_t i = 0; all && i < PyTuple_GET_SIZE(all); ++i) specified += consumed(PyTuple_GET_ITEM(all, i));
    if (specified > self_.ndim()) fail_too_many(self_);
    for (int64_t n = self_.ndim() - specified; n > 0; --n) {
      if (dim_ < self_.ndim()) keep();
      else ++dim_;
    }
  }

  // How many of the tensor's dimensions an item uses.
  static int64_t consumed(PyObject* o) {
    if (o == Py_None || o == Py_Ellipsis || PyBool_Check(o)) return 0;
    if (is_tensor(o) && is_mask(impl_of(o))) return impl_of(o)->ndim;
    if (is_integer(o) || PySlice_Check(o) || is_tensor(o) || !is_sequence(o)) return 1;
    const Tensor t = sequence_index(o);
    return is_mask(t.get()) ? t.ndim() : 1;
  }

  void insert() {
    note(Change::New);
    selection_.keep(-1, 1, 1);
  }

  void take_tensor(const Tensor& t) {
    if (t.ndim() == 0 && is_integral(t.dtype())) {
      if (!is_mask(t.get())) {
        ensure_value(t.get());
        return select_at(*to_dtype(detach(t), DType::Int64).data<int64_t>());
      }
      insert();
      return place(reshape(t, Dims{1}));
    }
    if (t.dtype() == DType::UInt8 &&
        PyErr_WarnEx(PyExc_UserWarning,
                     "indexing with dtype torch.uint8 is now deprecated, please use a dtype "
                     "torch.bool instead.",
                     1) < 0) {
      throw PythonError{};
    }
    const int uses = is_mask(t.get()) ? t.ndim() : 1;
    if (dim_ + uses > self_.ndim()) fail_too_many(self_);
    for (int d = 0; d < uses; ++d) keep();
    place(t, uses);
  }

  void keep() {
    selection_.keep(dim_, 1, self_.size(dim_));
    ++dim_;
  }

  // An index for the dimensions of the view that were kept last.
  void place(Tensor t, int uses = 1) {
    const size_t at = entries_for(selection_.results() - uses);
    indices_.resize(at + 1);
    indices_[at] = std::move(t);
  }
  // A mask is one entry for several dimensions.
  size_t entries_for(int dim) {
    size_t entry = 0;
    for (int d = 0; d < dim; ++entry) {
      const bool mask = entry < indices_.size() && indices_[entry] && is_mask(indices_[entry].get());
      d += mask ? indices_[entry]->ndim : 1;
    }
    return entry;
  }

  void note(Change change) {
    if (changes_++ > 0) return;
    change_ = change;
    changed_dim_ = selection_.results();
  }

  Tensor single() const {
    switch (change_) {
      case Change::Select: return select(self_, changed_dim_, first_);
      case Change::New: return unsqueeze(self_, changed_dim_);
      case Change::Slice: break;
    }
    return slice_to(self_, changed_dim_, range_);
  }

  const Tensor& self_;
  BasicSelection selection_;
  std::vector<Tensor> indices_;
  int dim_ = 0;      // of self, next to be used
  int changes_ = 0;  // items that make a view
  Change change_{};  // the first of them, and where it stands in the result
  int changed_dim_ = 0;
  int64_t first_ = 0;   // of the last integer
  SliceRange range_{};  // of the last slice
};

// Leading dimensions of size one are dropped from a value, as numpy does.
Tensor without_leading_ones(Tensor v) {
  if (v.ndim() == 0 || v.size(0) != 1) return v;
  int ones = 1;
  while (ones < v.ndim() && v.size(ones) == 1) ++ones;
  return view(v, v.sizes().subspan(static_cast<size_t>(ones)));
}

Tensor value_for(const Tensor& self, PyObject* value) {
  if (is_tensor(value)) return Tensor::share(impl_of(value));
  Tensor v = number_to_tensor(value);
  if (!v) {
    fail(ErrorKind::Type, "can't assign a ", Py_TYPE(value)->tp_name, " to a torch.", dtype_name(self.dtype()),
         " tensor");
  }
  return v;
}

Tensor read_item(const Tensor& t, PyObject* index) {
  if (PyLong_CheckExact(index) && t.ndim() > 0) {
    const int64_t i = integer_of(index), size = t.size(0);
    if (i >= -size && i < size) return select(t, 0, i);
  } else if (PySlice_Check(index) && t.ndim() > 0) {
    const SliceRange range = read_slice(index, t.size(0));
    if (range.first != 0 || range.length != t.size(0)) return slice_to(t, 0, range);
  } else if (is_tensor(index) && impl_of(index)->ndim > 0 && impl_of(index)->dtype != DType::UInt8 && t.ndim() > 0) {
    return weft::index(t, {Tensor::share(impl_of(index))});
  }
  Brackets brackets(t);
  brackets.read(index);
  if (brackets.advanced()) return weft::index(brackets.view(), brackets.indices());
  // t[...] and t[:] are views as well: another tensor over the same memory.
  return brackets.viewed() ? brackets.view() : view_of_all(t);
}

}  // namespace

PyObject* tensor_getitem(PyObject* self, PyObject* index) {
  if (may_be_overridden(self, index)) {
    PyObject* answer;
    if (operator_overridden("__getitem__", nullptr, self, index, &answer)) return answer;
  }
  return guarded([&] { return wrap(read_item(Tensor::share(impl_of(self)), index)); });
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
    const Tensor v = without_leading_ones(value_for(t, value));
    Brackets brackets(t);
    brackets.read(index);
    if (brackets.advanced()) index_put_into(brackets.view(), brackets.indices(), v);
    else copy_in_place(brackets.view(), v);
    return 0;
  });
}

}  // namespace weft::bind
