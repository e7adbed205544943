// Memory shared with numpy and everything else that speaks the buffer protocol.
#include "bind/exchange.h"

#include <sys/mman.h>

#include <cstring>

#include "core/ops/functions.h"

namespace weft::bind {
namespace {

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
    case 'b':
    case 'c': *out = DType::Int8; return item == 1;
    case 'h': *out = DType::Int16; return item == 2;
    case 'i':
    case 'l':
    case 'q':
    case 'n': *out = item == 4 ? DType::Int32 : DType::Int64; return item == 4 || item == 8;
    case 'e': *out = DType::Float16; return item == 2;
    case 'f': *out = DType::Float32; return item == 4;
    case 'd': *out = DType::Float64; return item == 8;
  }
  return false;
}

// A view of somebody's buffer, released at the end unless it has been handed on.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  ~Buffer() {
    if (open_) PyBuffer_Release(view_.get());
  }
  bool get(PyObject* o, int flags) {
    if (PyObject_GetBuffer(o, view_.get(), flags) < 0) {
      PyErr_Clear();
      return false;
    }
    return open_ = true;
  }
  Py_buffer* operator->() const { return view_.get(); }
  // A storage over `data`, inside the buffer, that keeps the buffer alive.
  Storage* adopt(void* data, size_t bytes) {
    Storage* s = storage_adopt(data, bytes, view_.get(), [](void* owner) {
      auto* view = static_cast<Py_buffer*>(owner);
      PyBuffer_Release(view);
      delete view;
    });
    open_ = false;
    view_.release();
    return s;
  }

 private:
  std::unique_ptr<Py_buffer> view_ = std::make_unique<Py_buffer>();
  bool open_ = false;
};

Tensor over_storage(Storage* storage, DType t, IntSpan sizes, IntSpan strides) {
  Tensor whole = empty(Dims{0}, t);
  release(whole->storage);
  whole->storage = storage;
  whole->data = storage->data;
  return alias(whole, sizes, strides, 0);
}

[[noreturn]] void refuse_array(PyObject* o, const char* format) {
  // Of numpy's arrays the dtype says more than the format, which some of them do not even have.
  Ref dtype(PyObject_GetAttrString(o, "dtype"));
  if (dtype) {
    Ref order(PyObject_GetAttrString(dtype.get(), "byteorder"));
    if (order && PyUnicode_Check(order.get()) && PyUnicode_CompareWithASCIIString(order.get(), ">") == 0) {
      fail(ErrorKind::Value,
           "given numpy array has byte order different from the native byte order. Conversion "
           "between byte orders "
           "is currently not supported.");
    }
  }
  PyErr_Clear();
  Ref text(dtype ? PyObject_Str(dtype.get()) : nullptr);
  const char* shown = text ? PyUnicode_AsUTF8(text.get()) : format;
  PyErr_Clear();
  fail(ErrorKind::Type, "can't convert np.ndarray of type ", shown ? shown : "unknown",
       ". The only supported types are: float64, "
       "float32, float16, int64, int32, int16, int8, uint8, and bool.");
}

// _from_buffer(object): a tensor over the memory of anything with the buffer protocol.
PyObject* from_buffer(PyObject*, PyObject* object) {
  return guarded([&] { return wrap(buffer_to_tensor(object)); });
}

// _from_bytes(buffer, dtype, count, offset): frombuffer().
PyObject* from_bytes(PyObject*, PyObject* args) {
  PyObject *object, *dtype;
  long long count, offset;
  if (!PyArg_ParseTuple(args, "OOLL", &object, &dtype, &count, &offset)) return nullptr;
  return guarded([&] {
    DType t;
    if (!dtype_from(dtype, &t))
      fail(ErrorKind::Type, "frombuffer(): argument 'dtype' must be torch.dtype, not ", Py_TYPE(dtype)->tp_name);
    if (!PyObject_CheckBuffer(object)) fail(ErrorKind::Value, "object does not implement Python buffer protocol.");
    Buffer buffer;
    if (!buffer.get(object, PyBUF_WRITABLE)) {
      if (!buffer.get(object, PyBUF_SIMPLE))
        fail(ErrorKind::Value, "frombuffer(): the buffer is not one contiguous piece of memory");
      if (PyErr_WarnEx(PyExc_UserWarning,
                       "The given buffer is not writable: do not write into this tensor; clone() it first.", 1) < 0) {
        throw PythonError{};
      }
    }
    const int64_t length = buffer->len, item = item_size(t);
    if (length == 0 || count == 0)
      fail(ErrorKind::Value, "both buffer length (", length, ") and count (", count, ") must not be 0");
    if (offset < 0 || offset >= length) {
      fail(ErrorKind::Value, "offset (", offset, " bytes) must be non-negative and no greater than buffer length (",
           length, " bytes) minus 1");
    }
    if (count < 0) {
      if ((length - offset) % item != 0) {
        fail(ErrorKind::Value, "buffer length (", length - offset, " bytes) after offset (", offset,
             " bytes) must be a multiple of element size (", item, ")");
      }
      count = (length - offset) / item;
    } else if (count > (length - offset) / item) {
      fail(ErrorKind::Value, "requested buffer length (", count, " * ", item, " bytes) after offset (", offset,
           " bytes) must not be greater than actual buffer length (", length, " bytes)");
    }
    Storage* storage = buffer.adopt(static_cast<char*>(buffer->buf) + offset, static_cast<size_t>(count * item));
    return wrap(over_storage(storage, t, Dims{count}, Dims{1}));
  });
}

// ---- storages --------------------------------------------------------------------------------------

// _storage_bytes(tensor): all memory behind a tensor, as bytes.
PyObject* storage_bytes(PyObject*, PyObject* tensor) {
  return guarded([&] {
    TensorImpl* t = tensor_argument(tensor);
    ensure_value(t);
    Storage* s = t->storage;
    retain(s);
    return wrap(over_storage(s, DType::UInt8, Dims{static_cast<int64_t>(s->bytes)}, Dims{1}));
  });
}

// _over_storage(bytes, dtype, sizes, strides, offset): another tensor over the memory behind `bytes`.
PyObject* tensor_over_storage(PyObject*, PyObject* args) {
  PyObject *bytes, *dtype, *size_list, *stride_list;
  long long offset;
  if (!PyArg_ParseTuple(args, "O!OOOL", tensor_type, &bytes, &dtype, &size_list, &stride_list, &offset)) return nullptr;
  return guarded([&] {
    DType t;
    Dims sizes, strides;
    if (!dtype_from(dtype, &t) || !dims_from(size_list, &sizes) || !dims_from(stride_list, &strides) ||
        sizes.size() != strides.size()) {
      fail(ErrorKind::Type, "_over_storage(bytes, dtype, sizes, strides, offset)");
    }
    ensure_value(impl_of(bytes));
    Storage* s = impl_of(bytes)->storage;
    const int64_t numel = checked_numel(sizes);
    int64_t last = offset;
    bool fits = offset >= 0;
    for (int d = 0; d < sizes.size() && numel > 0; ++d) {
      int64_t reach;
      fits = fits && strides[d] >= 0 && !__builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) &&
             !__builtin_add_overflow(last, reach, &last);
    }
    if (!fits || (numel > 0 && last >= static_cast<int64_t>(s->bytes) / item_size(t))) {
      fail(ErrorKind::Value, "a tensor of shape ", shape_text(sizes), " and strides ", shape_text(strides),
           " at offset ", offset, " does not lie inside its storage of ", s->bytes, " bytes");
    }
    retain(s);
    Tensor whole = over_storage(s, t, Dims{0}, Dims{1});
    return wrap(alias(whole, sizes, strides, numel > 0 ? offset : 0));
  });
}

// ---- memory that forked processes share -------------------------------------------------------------

struct SharedPages {
  void* memory;
  size_t bytes;
};
void release_shared(void* owner) {
  auto* pages = static_cast<SharedPages*>(owner);
  munmap(pages->memory, pages->bytes);
  delete pages;
}
bool is_shared(const Storage* s) { return s->release_owner == release_shared; }

PyObject* m_is_shared(PyObject*, PyObject* tensor) {
  return guarded([&] {
    ensure_value(tensor_argument(tensor));
    ensure_value(tensor_argument(tensor));
    return PyBool_FromLong(is_shared(tensor_argument(tensor)->storage));
  });
}

// _share_memory(tensor): moves its storage to pages that processes forked from now on will share.
PyObject* share_memory(PyObject*, PyObject* tensor) {
  return guarded([&]() -> PyObject* {
    TensorImpl* t = tensor_argument(tensor);
    ensure_value(t);
    Storage* before = t->storage;
    if (is_shared(before)) Py_RETURN_NONE;
    if (before->refs > 1) {
      fail("share_memory_() moves the memory of ", describe(t),
           ", but other tensors look at the same memory: call it on the tensor "
           "itself, before views of it are made");
    }
    const size_t bytes = std::max<size_t>(before->bytes, 1);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail(ErrorKind::Memory, "share_memory_(): no memory for ", bytes, " bytes");
    std::memcpy(memory, before->data, before->bytes);
    Storage* after = storage_adopt(memory, before->bytes, new SharedPages{memory, bytes}, release_shared);
    after->version = before->version;
    t->data = after->data + (t->data - before->data);
    t->storage = after;
    release(before);
    Py_RETURN_NONE;
  });
}

PyMethodDef functions[] = {{"_from_buffer", from_buffer, METH_O, nullptr},
                           {"_from_bytes", from_bytes, METH_VARARGS, nullptr},
                           {"_storage_bytes", storage_bytes, METH_O, nullptr},
                           {"_over_storage", tensor_over_storage, METH_VARARGS, nullptr},
                           {"_is_shared", m_is_shared, METH_O, nullptr},
                           {"_share_memory", share_memory, METH_O, nullptr},
                           {}};

// Shape and strides in bytes, for as long as somebody looks at a tensor's buffer, and the storage that
// must outlive the view even if the tensor is resized or rebound.
struct Exported {
  Storage* storage;
  Py_ssize_t shape[kMostDims], strides[kMostDims];
};

// Whether a tensor lies in memory the way a consumer asks for.
bool layout_fits(const TensorImpl* t, int flags) {
  const auto asks = [flags](int what) { return (flags & what) == what; };
  Dims sizes(t->sizes()), strides(t->strides());
  std::reverse(sizes.data(), sizes.data() + sizes.size());
  std::reverse(strides.data(), strides.data() + strides.size());
  const bool columns = is_contiguous(sizes, strides);
  if (asks(PyBUF_ANY_CONTIGUOUS)) return t->is_contiguous() || columns;
  if (asks(PyBUF_F_CONTIGUOUS)) return columns;
  if (asks(PyBUF_C_CONTIGUOUS)) return t->is_contiguous();
  return asks(PyBUF_STRIDES) || t->is_contiguous();
}

}  // namespace

bool is_array(PyObject* o) {
  static PyObject* name = interned("__array_interface__");
  return PyObject_CheckBuffer(o) && !PyLong_Check(o) && _PyType_Lookup(Py_TYPE(o), name) != nullptr;
}

bool is_array_scalar(PyObject* o, DType* out) {
  if (!PyObject_CheckBuffer(o)) return false;
  Buffer buffer;
  return buffer.get(o, PyBUF_STRIDED_RO | PyBUF_FORMAT) && buffer->ndim == 0 &&
         dtype_of_format(buffer->format, buffer->itemsize, out);
}

Tensor buffer_to_tensor(PyObject* object) {
  Buffer buffer;
  if (!buffer.get(object, PyBUF_STRIDED | PyBUF_FORMAT) && !buffer.get(object, PyBUF_STRIDED_RO | PyBUF_FORMAT)) {
    refuse_array(object, nullptr);
  }
  DType t;
  if (!dtype_of_format(buffer->format, buffer->itemsize, &t)) refuse_array(object, buffer->format);
  if (buffer->ndim > kMostDims) fail("an array of ", buffer->ndim, " dimensions has more than ", kMostDims);
  Dims sizes, strides;
  sizes.resize(buffer->ndim);
  strides.resize(buffer->ndim);
  int64_t reach = 0;
  bool no_elements = false;
  for (int d = 0; d < buffer->ndim; ++d) {
    sizes[d] = buffer->shape[d];
    if (buffer->strides[d] < 0) {
      fail(ErrorKind::Value,
           "At least one stride in the given numpy array is negative, and tensors with negative "
           "strides are "
           "not currently supported. (You can probably work around this by making a copy of your "
           "array  with array.copy().) ");
    }
    if (buffer->strides[d] % buffer->itemsize != 0) {
      fail(ErrorKind::Value,
           "given numpy array strides not a multiple of the element byte size. Copy the numpy "
           "array to reallocate the memory.");
    }
    strides[d] = buffer->strides[d] / buffer->itemsize;
    if (sizes[d] == 0) no_elements = true;
    reach += std::max<int64_t>(sizes[d] - 1, 0) * strides[d];
  }
  const size_t bytes = no_elements ? 0 : static_cast<size_t>((reach + 1) * buffer->itemsize);
  return over_storage(buffer.adopt(buffer->buf, bytes), t, sizes, strides);
}

int export_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  return guarded_int([&] {
    TensorImpl* t = impl_of(self);
    ensure_value(t);
    if (needs_grad(t)) {
      PyErr_SetString(PyExc_BufferError, "a tensor that requires grad does not show its memory; use tensor.detach()");
      return -1;
    }
    const char* format = buffer_format(t->dtype);
    if (!format) {
      PyErr_Format(PyExc_BufferError, "%s has no buffer format; convert the tensor first, for example with .float()",
                   dtype_name(t->dtype));
      return -1;
    }
    if (!layout_fits(t, flags)) {
      PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous");
      return -1;
    }
    auto* exported = new Exported;
    for (int d = 0; d < t->ndim; ++d) {
      exported->shape[d] = t->dims[d];
      exported->strides[d] = t->dims[t->ndim + d] * item_size(t->dtype);
    }
    t->storage->exposed = true;
    retain(t->storage);
    exported->storage = t->storage;
    view->buf = t->data;
    view->len = t->numel * item_size(t->dtype);
    view->itemsize = item_size(t->dtype);
    view->readonly = 0;
    view->ndim = t->ndim;
    view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
    view->shape = flags & PyBUF_ND ? exported->shape : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? exported->strides : nullptr;
    view->suboffsets = nullptr;
    view->internal = exported;
    Py_INCREF(self);
    view->obj = self;
    return 0;
  });
}

void release_export(PyObject*, Py_buffer* view) {
  auto* exported = static_cast<Exported*>(view->internal);
  release(exported->storage);
  delete exported;
}

bool init_buffers(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace weft::bind
