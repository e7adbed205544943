// Copies and conversions.
#include <algorithm>

#include "core/ops/create.h"
#include "core/tensor/promotion.h"

namespace weft {

namespace {

void infer_copy(const Tensor& a, DType dtype, std::optional<int64_t> memory_format, Meta* out) {
  out->set(dtype, a->device, a.sizes());
  lay_out(out, memory_format.value_or(kPreserveFormat), a);
}

}  // namespace

struct Clone {
  static constexpr Schema schema{"clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"};
  static constexpr uint32_t traits = kLinear;
  std::optional<int64_t> memory_format;

  void infer(Inputs in, Meta* out) const { infer_copy(in[0], in[0].dtype(), memory_format, out); }
  void run(Inputs in, Tensor* out) const { copy_into(out[0], in[0]); }
  static void vjp(Backward& b) { b.set(0, b.grad()); }
};
WEFT_OP(Clone);

struct Cast {
  static constexpr Schema schema{"cast(Tensor self, DType dtype, MemoryFormat? memory_format=None) -> Tensor"};
  static constexpr uint32_t traits = kLinear;
  static constexpr const char* backward_name = "ToCopyBackward0";
  DType dtype;
  std::optional<int64_t> memory_format;

  void infer(Inputs in, Meta* out) const {
    if (is_complex(dtype)) refuse_complex("to");
    infer_copy(in[0], dtype, memory_format, out);
  }
  void run(Inputs in, Tensor* out) const { copy_into(out[0], in[0]); }
  // The gradient is cast back where it is delivered.
  static void vjp(Backward& b) { b.set(0, b.grad()); }
};
WEFT_OP(Cast);

struct Copy {
  static constexpr Schema schema{"copy(Tensor self, Tensor|Scalar src, bool non_blocking=False) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf;
  static constexpr const char* backward_name = "CopyBackwards";
  bool non_blocking;

  void infer(Inputs in, Meta* out) const {
    const Tensor &self = in[0], &src = in[1];
    bool fits = src.ndim() <= self.ndim();
    for (int d = 1; fits && d <= src.ndim(); ++d) {
      const int64_t n = src.size(src.ndim() - d);
      fits = n == 1 || n == self.size(self.ndim() - d);
    }
    if (!fits) {
      fail("The expanded size of the tensor must match the existing size: copy_ cannot broadcast ",
           shape_text(src.sizes()), " to ", shape_text(self.sizes()));
    }
    out->like(self);
  }
  void run(Inputs in, Tensor* out) const { copy_into(out[0], in[1]); }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, zeros(b.output_sizes(), b.output_dtype()));
    if (b.needs(1)) b.set(1, b.grad());
  }
};
WEFT_OP(Copy);

struct Contiguous {
  static constexpr Schema schema{"contiguous(Tensor self, *, MemoryFormat memory_format=contiguous_format) -> Tensor"};
  int64_t memory_format;

  Tensor compose(Inputs in) const {
    if (memory_format == kPreserveFormat) fail("preserve memory format is unsupported by the contiguous operator");
    if (is_laid_out(in[0], memory_format)) return in[0];
    return call(op_Clone, Clone{memory_format}, in[0]);
  }
};
WEFT_OP(Contiguous);

// ---- conversions -----------------------------------------------------------------------------------

namespace {

// What a tensor counts as: any order of dimensions but channels-last counts as contiguous.
MemoryFormat nearest_format(const Tensor& a) {
  if (a->is_contiguous()) return kContiguousFormat;
  if (a.ndim() == 4 && is_laid_out(a, kChannelsLast)) return kChannelsLast;
  if (a.ndim() == 5 && is_laid_out(a, kChannelsLast3d)) return kChannelsLast3d;
  return kContiguousFormat;
}

// A tensor that is already as it is wanted is returned itself.
Tensor converted(const Tensor& a, DType dtype, Device device, bool copy, std::optional<int64_t> memory_format) {
  check_device(device);
  const bool same_layout = !memory_format || *memory_format == kPreserveFormat || *memory_format == nearest_format(a);
  if (a.dtype() == dtype && same_layout && !copy && !a->has(kWrappedNumber)) return a;
  return call(op_Cast, Cast{dtype, memory_format}, a);
}

}  // namespace

struct ToDType {
  static constexpr Schema schema{
      "to.dtype(Tensor self, DType dtype, bool non_blocking=False, bool copy=False, *, "
      "MemoryFormat? memory_format=None) -> Tensor"};
  static constexpr const char* backward_name = "ToCopyBackward0";
  DType dtype;
  bool non_blocking, copy;
  std::optional<int64_t> memory_format;

  Tensor compose(Inputs in) const { return converted(in[0], dtype, in[0]->device, copy, memory_format); }
};
WEFT_OP(ToDType);

struct ToDevice {
  static constexpr Schema schema{
      "to(Tensor self, Device? device=None, DType? dtype=None, bool non_blocking=False, bool copy=False, *, "
      "MemoryFormat? memory_format=None) -> Tensor"};
  static constexpr const char* backward_name = "ToCopyBackward0";
  std::optional<Device> device;
  std::optional<DType> dtype;
  bool non_blocking, copy;
  std::optional<int64_t> memory_format;

  Tensor compose(Inputs in) const {
    return converted(in[0], dtype.value_or(in[0].dtype()), device.value_or(in[0]->device), copy, memory_format);
  }
};
WEFT_OP(ToDevice);

struct ToOther {
  static constexpr Schema schema{
      "to.other(Tensor self, Tensor other, bool non_blocking=False, bool copy=False, *, "
      "MemoryFormat? memory_format=None) -> Tensor"};
  static constexpr const char* backward_name = "ToCopyBackward0";
  bool non_blocking, copy;
  std::optional<int64_t> memory_format;

  Tensor compose(Inputs in) const { return converted(in[0], in[1].dtype(), in[1]->device, copy, memory_format); }
};
WEFT_OP(ToOther);

struct TypeAs {
  static constexpr Schema schema{"type_as(Tensor self, Tensor other) -> Tensor"};
  static constexpr const char* backward_name = "ToCopyBackward0";

  Tensor compose(Inputs in) const { return converted(in[0], in[1].dtype(), in[1]->device, false, {}); }
};
WEFT_OP(TypeAs);

struct ToCpu {
  static constexpr Schema schema{"cpu(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"};
  static constexpr const char* backward_name = "ToCopyBackward0";
  std::optional<int64_t> memory_format;

  Tensor compose(Inputs in) const { return converted(in[0], in[0].dtype(), Device{}, false, memory_format); }
};
WEFT_OP(ToCpu);

struct ToCuda {
  static constexpr Schema schema{
      "cuda(Tensor self, Device? device=None, bool non_blocking=False, *, MemoryFormat? memory_format=None) -> Tensor"};
  static constexpr const char* backward_name = "ToCopyBackward0";
  std::optional<Device> device;
  bool non_blocking;
  std::optional<int64_t> memory_format;

  Tensor compose(Inputs in) const {
    return converted(in[0], in[0].dtype(), device.value_or(Device{DeviceType::CUDA, 0}), false, memory_format);
  }
};
WEFT_OP(ToCuda);

#define WEFT_CONVERSION(Struct, name, type)                                                                        \
  struct Struct {                                                                                                  \
    static constexpr Schema schema{name "(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"};           \
    static constexpr const char* backward_name = "ToCopyBackward0";                                                \
    std::optional<int64_t> memory_format;                                                                          \
                                                                                                                   \
    Tensor compose(Inputs in) const { return converted(in[0], DType::type, in[0]->device, false, memory_format); } \
  };                                                                                                               \
  WEFT_OP(Struct)

WEFT_CONVERSION(ToBool, "bool", Bool);
WEFT_CONVERSION(ToByte, "byte", UInt8);
WEFT_CONVERSION(ToChar, "char", Int8);
WEFT_CONVERSION(ToShort, "short", Int16);
WEFT_CONVERSION(ToInt, "int", Int32);
WEFT_CONVERSION(ToLong, "long", Int64);
WEFT_CONVERSION(ToHalf, "half", Float16);
WEFT_CONVERSION(ToBFloat16, "bfloat16", BFloat16);
WEFT_CONVERSION(ToFloat, "float", Float32);
WEFT_CONVERSION(ToDouble, "double", Float64);
#undef WEFT_CONVERSION

// ---- for C++ -----------------------------------------------------------------------------------------

Tensor clone(const Tensor& a) { return call(op_Clone, Clone{}, a); }
Tensor contiguous_copy(const Tensor& a) { return call(op_Clone, Clone{kContiguousFormat}, a); }
Tensor contiguous(const Tensor& a) { return a->is_contiguous() ? a : contiguous_copy(a); }

void copy_in_place(const Tensor& to, const Tensor& from) {
  TensorImpl* in[] = {to.get(), from.get()};
  const Copy op{false};
  apply_in_place(op_Copy, &op, Inputs(in, 2));
}

Tensor to_dtype(const Tensor& a, DType dtype) {
  if (a.dtype() == dtype && !a->has(kWrappedNumber)) return a;
  return call(op_Cast, Cast{dtype, {}}, a);
}

}  // namespace weft
