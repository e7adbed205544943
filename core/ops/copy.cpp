// Copies and casts.
#include <algorithm>

#include "core/ops/functions.h"
#include "core/tensor/promotion.h"

namespace weft {

namespace {

// The layout of a copy: the source's own if it is dense, else row-major.
void infer_copy(const Tensor& a, DType dtype, Meta* out) {
  out->set(dtype, a->device, a.sizes());
  if (!a->is_contiguous() && is_dense(a.sizes(), a.strides())) {
    out->strided = true;
    std::copy_n(a.strides().data(), a.ndim(), out->strides);
  }
}

}  // namespace

struct Clone {
  static constexpr Schema schema{"clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"};
  static constexpr uint32_t traits = kLinear;
  std::optional<int64_t> memory_format;

  void infer(Inputs in, Meta* out) const {
    infer_copy(in[0], in[0].dtype(), out);
    if (memory_format.value_or(1) == 0) out->strided = false;
  }
  void run(Inputs in, Tensor* out) const { copy_into(out[0], in[0]); }
  static void vjp(Backward& b) { b.set(0, b.grad()); }
};
WEFT_OP(Clone);

struct Cast {
  static constexpr Schema schema{"cast(Tensor self, DType dtype) -> Tensor"};
  static constexpr uint32_t traits = kLinear;
  static constexpr const char* backward_name = "ToCopyBackward0";
  DType dtype;

  void infer(Inputs in, Meta* out) const {
    if (is_complex(dtype)) {
      fail(ErrorKind::NotImplemented, "complex tensors have no arithmetic in weft yet: cannot convert to ", dtype_name(dtype));
    }
    infer_copy(in[0], dtype, out);
  }
  void run(Inputs in, Tensor* out) const { copy_into(out[0], in[0]); }
  // The gradient is cast back where it is delivered.
  static void vjp(Backward& b) { b.set(0, b.grad()); }
};
WEFT_OP(Cast);

struct Copy {
  static constexpr Schema schema{"copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor"};
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
      fail("The expanded size of the tensor must match the existing size: copy_ cannot broadcast ", shape_text(src.sizes()),
           " to ", shape_text(self.sizes()));
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
    if (in[0]->is_contiguous()) return in[0];
    return call(op_Clone, Clone{int64_t{0}}, in[0]);
  }
};
WEFT_OP(Contiguous);

Tensor clone(const Tensor& a) { return call(op_Clone, Clone{}, a); }
Tensor contiguous_copy(const Tensor& a) { return call(op_Clone, Clone{int64_t{0}}, a); }
Tensor contiguous(const Tensor& a) { return a->is_contiguous() ? a : contiguous_copy(a); }

void copy_in_place(const Tensor& to, const Tensor& from) {
  TensorImpl* in[] = {to.get(), from.get()};
  const Copy op{false};
  apply_in_place(op_Copy, &op, Inputs(in, 2));
}

Tensor to_dtype(const Tensor& a, DType dtype) {
  if (a.dtype() == dtype && !a->has(kWrappedNumber)) return a;
  return call(op_Cast, Cast{dtype}, a);
}

}  // namespace weft
