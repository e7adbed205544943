// DLPack: tensors as descriptions that any library understands, in capsules. Both the first form and
// the versioned one, both ways, without copying.
#include "bind/exchange.h"

#include "core/graph/dispatch.h"

namespace weft::bind {
namespace {

// ---- the structures of DLPack, as its specification lays them out ------------------------------------

enum DeviceCode : int32_t { kCpuDevice = 1, kCudaDevice = 2, kCudaHostDevice = 3 };
enum TypeCode : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBFloat = 4, kComplex = 5, kBool = 6 };

struct DlDevice {
  int32_t type;
  int32_t id;
};
struct DlDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  int32_t ndim;
  DlDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct Managed {
  DlTensor tensor;
  void* owner;
  void (*deleter)(Managed*);
};
struct DlVersion { uint32_t major, minor; };
struct VersionedManaged {
  DlVersion version;
  void* owner;
  void (*deleter)(VersionedManaged*);
  uint64_t flags;
  DlTensor tensor;
};
constexpr uint64_t kReadOnly = 1, kIsCopied = 2;
constexpr DlVersion kVersion{1, 1};

// Names that say whether a capsule has been read; the second one is set by whoever reads it.
template <class M> constexpr const char* kFresh = "dltensor";
template <class M> constexpr const char* kUsed = "used_dltensor";
template <> constexpr const char* kFresh<VersionedManaged> = "dltensor_versioned";
template <> constexpr const char* kUsed<VersionedManaged> = "used_dltensor_versioned";

constexpr DlDataType kTypes[kDTypes] = {{kBool, 8, 1},   {kUInt, 8, 1},   {kInt, 8, 1},      {kInt, 16, 1},
                                        {kInt, 32, 1},   {kInt, 64, 1},   {kFloat, 16, 1},   {kBFloat, 16, 1},
                                        {kFloat, 32, 1}, {kFloat, 64, 1}, {kComplex, 64, 1}, {kComplex, 128, 1}};

DType dtype_of(DlDataType type) {
  for (int i = 0; i < kDTypes; ++i) {
    if (kTypes[i].code == type.code && kTypes[i].bits == type.bits && type.lanes == 1) return static_cast<DType>(i);
  }
  fail(ErrorKind::Runtime, "from_dlpack(): weft has no dtype for DLPack's type code ", int{type.code}, " with ",
       int{type.bits}, " bits and ", type.lanes, " lanes");
}

// ---- out ---------------------------------------------------------------------------------------------

template <class M>
struct Exported {
  M managed;
  Storage* storage;
  int64_t dims[2 * kMostDims];
};

// The reader may let go on any thread, whether it holds the interpreter lock or not.
template <class M>
void release_exported(M* managed) {
  const PyGILState_STATE state = PyGILState_Ensure();
  auto* exported = static_cast<Exported<M>*>(managed->owner);
  release(exported->storage);
  delete exported;
  PyGILState_Release(state);
}

// A capsule that nobody has read takes the tensor with it.
template <class M>
void release_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kFresh<M>)) return;
  auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule, kFresh<M>));
  if (managed->deleter) managed->deleter(managed);
}

template <class M>
PyObject* export_as(TensorImpl* t, bool copied) {
  auto* exported = new Exported<M>{};
  exported->storage = t->storage;
  retain(t->storage);
  t->storage->exposed = true;
  for (int d = 0; d < t->ndim; ++d) {
    exported->dims[d] = t->sizes()[d];
    // Consumers trip over strange steps where there is nothing to step over.
    exported->dims[t->ndim + d] = t->sizes()[d] < 2 ? 1 : t->strides()[d];
  }
  M& managed = exported->managed;
  managed.owner = exported;
  managed.deleter = release_exported<M>;
  managed.tensor = {t->numel ? t->data : nullptr,
                    {kCpuDevice, 0},
                    t->ndim,
                    kTypes[static_cast<int>(t->dtype)],
                    exported->dims,
                    exported->dims + t->ndim,
                    0};
  if constexpr (std::is_same_v<M, VersionedManaged>) {
    managed.version = kVersion;
    managed.flags = copied ? kIsCopied : 0;
  }
  PyObject* capsule = PyCapsule_New(&managed, kFresh<M>, release_capsule<M>);
  if (!capsule) managed.deleter(&managed);
  return capsule;
}

// _to_dlpack(tensor, versioned, copied)
PyObject* to_dlpack(PyObject*, PyObject* args) {
  PyObject* tensor;
  int versioned, copied;
  if (!PyArg_ParseTuple(args, "O!pp", tensor_type, &tensor, &versioned, &copied)) return nullptr;
  return guarded([&] {
    TensorImpl* t = impl_of(tensor);
    ensure_value(t);
    return versioned ? export_as<VersionedManaged>(t, copied) : export_as<Managed>(t, copied);
  });
}

// ---- in ----------------------------------------------------------------------------------------------

template <class M>
Tensor import_as(PyObject* capsule) {
  auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule, kFresh<M>));
  if (!managed) throw PythonError{};
  if constexpr (std::is_same_v<M, VersionedManaged>) {
    if (managed->version.major != kVersion.major) {
      fail(ErrorKind::Runtime, "from_dlpack(): weft reads DLPack ", kVersion.major,
           ".x, and the capsule is of version ", managed->version.major, ".", managed->version.minor);
    }
  }
  const DlTensor& from = managed->tensor;
  if (from.device.type != kCpuDevice && from.device.type != kCudaHostDevice) {
    fail(ErrorKind::Runtime, "from_dlpack(): the array lies on a device (DLPack device type ", from.device.type,
         ") that this build of weft does not have; move it to the CPU first");
  }
  const DType t = dtype_of(from.dtype);
  if (from.ndim < 0 || from.ndim > kMostDims)
    fail("from_dlpack(): ", from.ndim, " dimensions; a tensor has at most ", kMostDims);
  Dims sizes, strides;
  sizes.resize(from.ndim);
  strides.resize(from.ndim);
  for (int d = 0; d < from.ndim; ++d) sizes[d] = from.shape[d];
  const int64_t numel = checked_numel(sizes);
  int64_t expected = 1, last = 0;
  for (int d = from.ndim; d-- > 0; expected *= std::max<int64_t>(sizes[d], 1)) {
    strides[d] = from.strides ? from.strides[d] : expected;
    if (strides[d] < 0)
      fail(ErrorKind::Value, "from_dlpack(): tensors with negative strides are not supported; copy the array first");
    last += std::max<int64_t>(sizes[d] - 1, 0) * strides[d];
  }
  if constexpr (std::is_same_v<M, VersionedManaged>) {
    if (managed->flags & kReadOnly &&
        PyErr_WarnEx(PyExc_UserWarning, "The array is not writable: do not write into this tensor; clone() it first.",
                     1) < 0) {
      throw PythonError{};
    }
  }
  Tensor whole = empty(Dims{0}, t);
  release(whole->storage);
  const size_t bytes = numel ? static_cast<size_t>(last + 1) * item_size(t) : 0;
  whole->storage = storage_adopt(static_cast<char*>(from.data) + from.byte_offset, bytes, managed, [](void* owner) {
    auto* m = static_cast<M*>(owner);
    if (m->deleter) m->deleter(m);
  });
  whole->data = whole->storage->data;
  // From here on the storage lets go of the array, whatever happens.
  PyCapsule_SetName(capsule, kUsed<M>);
  return alias(whole, sizes, strides, 0);
}

PyObject* from_dlpack(PyObject*, PyObject* capsule) {
  return guarded([&]() -> PyObject* {
    if (PyCapsule_IsValid(capsule, kFresh<VersionedManaged>)) return wrap(import_as<VersionedManaged>(capsule));
    if (PyCapsule_IsValid(capsule, kFresh<Managed>)) return wrap(import_as<Managed>(capsule));
    fail(
        "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only "
        "once, so you might have already "
        "constructed a tensor from it once.");
  });
}

PyMethodDef functions[] = {
    {"_to_dlpack", to_dlpack, METH_VARARGS, nullptr}, {"_from_dlpack", from_dlpack, METH_O, nullptr}, {}};

}  // namespace

bool init_dlpack(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace weft::bind
