// Masks: fill, select and scatter where a mask is true; places of elements that are not zero.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/math/types.h"
#include "core/ops/indexing.h"

namespace weft {

extern const OpTable op_Where;

namespace {

constexpr int64_t kUnlockAt = 64 * 1024;

// The element of a 0-dim tensor.
double value_of(const Tensor& t) {
  const Tensor wide = empty({}, DType::Float64);
  copy_into(wide, t);
  return *wide.data<double>();
}

// A number that its new dtype cannot hold is refused; a fraction is cut off, a minus sign wraps.
void check_fits(const Tensor& value, DType to) {
  if (to == DType::Bool || to == DType::Float32 || to == DType::Float64 || is_complex(to)) return;
  const double v = value_of(value);
  bool fits = true;
  switch (to) {
    case DType::UInt8: fits = v >= -255 && v <= 255; break;
    case DType::Int8: fits = v >= -128 && v <= 127; break;
    case DType::Int16: fits = v >= -32768 && v <= 32767; break;
    case DType::Int32: fits = v >= std::numeric_limits<int>::min() && v <= std::numeric_limits<int>::max(); break;
    case DType::Int64: fits = !is_floating(value.dtype()) || (v >= -0x1p63 && v < 0x1p63); break;
    case DType::Float16: fits = !(std::abs(v) > 65504.0) || std::abs(v) == HUGE_VAL; break;
    case DType::BFloat16: fits = !(std::abs(v) > 3.38953139e38) || std::abs(v) == HUGE_VAL; break;
    default: break;
  }
  if (!fits) fail("value cannot be converted to type ", dtype_name(to), " without overflow");
}

int64_t count_true(const Tensor& mask, IntSpan shape) { return cpu::count_true(Layout(mask, shape)); }

// Self and mask broadcast against each other, as broadcast_into() has found.
struct MaskedPair {
  Layout self, mask;
  MaskedPair(const Tensor& a, const Tensor& m, IntSpan shape) : self(a, shape), mask(m, shape) {}
};

}  // namespace

void broadcast_into(const Tensor& a, const Tensor& b, Meta* out) {
  out->ndim = std::max(a.ndim(), b.ndim());
  for (int d = 0; d < out->ndim; ++d) {
    const int of_a = d - (out->ndim - a.ndim()), of_b = d - (out->ndim - b.ndim());
    const int64_t n = of_a < 0 ? 1 : a.size(of_a), m = of_b < 0 ? 1 : b.size(of_b);
    if (n != m && n != 1 && m != 1) {
      fail("The size of tensor a (", n, ") must match the size of tensor b (", m, ") at non-singleton dimension ", d);
    }
    out->sizes[d] = n == 1 ? m : n;
  }
}

struct MaskedFill {
  static constexpr Schema schema{"masked_fill(Tensor self, Tensor mask, Tensor|Scalar value) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf;
  static constexpr Saves saves{{input(1), 0, input(1)}};

  void infer(Inputs in, Meta* out) const {
    const Tensor &self = in[0], &mask = in[1], &value = in[2];
    if (mask.dtype() != DType::Bool) {
      fail("masked_fill_ only supports boolean masks, but got mask with dtype ", dtype_name(mask.dtype()));
    }
    if (value.ndim() != 0) {
      fail("masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ", value.ndim(),
           " dimension(s).");
    }
    out->dtype = self.dtype();
    out->device = self->device;
    broadcast_into(self, mask, out);
    checked_numel(out->shape());
  }
  void run(Inputs in, Tensor* out) const {
    check_not_written(in[1], out[0]);
    check_fits(in[2], out[0].dtype());
    const Tensor value = empty({}, out[0].dtype());
    copy_into(value, in[2]);
    TensorImpl* choice[] = {in[1].get(), value.get(), out[0].get()};
    run_pointwise(op_Where, nullptr, Inputs(choice, 3), out);
  }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, masked_fill(b.grad(), b.input(1), Scalar(0)));
    if (b.needs(2)) b.set(2, sum_all(where(b.input(1), b.grad(), number(int64_t{0}))));
  }
};
WEFT_OP(MaskedFill);

struct MaskedSelect {
  static constexpr Schema schema{"masked_select(Tensor self, Tensor mask) -> Tensor"};
  static constexpr uint32_t traits = kForcesValues | kLinear | kExactOut;
  static constexpr Saves saves{{input(1)}};

  void infer(Inputs in, Meta* out) const {
    if (in[1].dtype() != DType::Bool) fail("masked_select: expected BoolTensor for mask");
    ensure_value(in[1].get());
    Meta common;
    broadcast_into(in[0], in[1], &common);
    checked_numel(common.shape());
    out->dtype = in[0].dtype();
    out->device = in[0]->device;
    out->ndim = 1;
    out->sizes[0] = count_true(in[1], common.shape());
  }
  void run(Inputs in, Tensor* out) const {
    if (out[0].numel() == 0) return;
    Meta common;
    broadcast_into(in[0], in[1], &common);
    const MaskedPair pair(in[0], in[1], common.shape());
    Unlocked unlocked(out[0].numel() >= kUnlockAt);
    cpu::masked_select(item_size(in[0].dtype()), out[0]->data, pair.self, pair.mask);
  }
  static void vjp(Backward& b) {
    const Tensor mask = b.input(1), grad = b.grad();
    const IntSpan own = b.input_sizes(0);
    Dims shape;
    shape.resize(std::max(static_cast<int>(own.size()), mask.ndim()));
    for (int d = 0; d < shape.size(); ++d) {
      const int of_self = d - (shape.size() - static_cast<int>(own.size())), of_mask = d - (shape.size() - mask.ndim());
      const int64_t n = of_self < 0 ? 1 : own[of_self];
      shape[d] = n == 1 && of_mask >= 0 ? mask.size(of_mask) : n;
    }
    b.set(0, masked_scatter(zeros(shape, grad.dtype()), mask, grad));
  }
};
WEFT_OP(MaskedSelect);

struct MaskedScatter {
  static constexpr Schema schema{"masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf;
  static constexpr Saves saves{{input(1), 0, input(1)}};

  void infer(Inputs in, Meta* out) const {
    const Tensor &self = in[0], &mask = in[1], &source = in[2];
    if (mask.dtype() != DType::Bool) {
      fail("masked_scatter_ only supports boolean masks, but got mask with dtype ", scalar_type_name(mask.dtype()));
    }
    if (self.dtype() != source.dtype()) {
      fail("masked_scatter: expected self and source to have same dtypes but got", scalar_type_name(self.dtype()),
           " and ", scalar_type_name(source.dtype()));
    }
    out->dtype = self.dtype();
    out->device = self->device;
    broadcast_into(self, mask, out);
    checked_numel(out->shape());
  }
  void run(Inputs in, Tensor* out) const {
    check_not_written(in[1], out[0]);
    check_not_written(in[2], out[0]);
    if (in[2].numel() < count_true(in[1], out[0].sizes())) {
      fail("Number of elements of source < number of ones in mask");
    }
    const Tensor source = in[2]->is_contiguous() ? in[2] : detached_copy(in[2]);
    const MaskedPair pair(out[0], in[1], out[0].sizes());
    Unlocked unlocked(out[0].numel() >= kUnlockAt);
    cpu::masked_scatter(item_size(out[0].dtype()), pair.self, pair.mask, source->data);
  }
  static void vjp(Backward& b) {
    const Tensor mask = b.input(1), grad = b.grad();
    if (b.needs(0)) b.set(0, masked_fill(grad, mask, Scalar(0)));
    if (b.needs(2)) {
      const IntSpan sizes = b.input_sizes(2);
      b.set(2, reshape(padded_gradient(masked_select(grad, mask), Dims{checked_numel(sizes)}), sizes));
    }
  }
};
WEFT_OP(MaskedScatter);

struct Nonzero {
  static constexpr Schema schema{"nonzero(Tensor self) -> Tensor"};
  static constexpr uint32_t traits = kForcesValues | kNeverDifferentiable | kExactOut;

  void infer(Inputs in, Meta* out) const {
    ensure_value(in[0].get());
    out->dtype = DType::Int64;
    out->device = in[0]->device;
    out->ndim = 2;
    out->sizes[0] = cpu::count_nonzero_elements(in[0].dtype(), Layout(in[0]));
    out->sizes[1] = in[0].ndim();
  }
  void run(Inputs in, Tensor* out) const {
    if (out[0].numel() == 0) return;
    const Layout layout(in[0]);
    Unlocked unlocked(in[0].numel() >= kUnlockAt);
    cpu::nonzero(in[0].dtype(), layout, out[0].data<int64_t>());
  }
};
WEFT_OP(Nonzero);

// where(condition) alone: a tensor of coordinates for each dimension.
struct WhereNonzero {
  static constexpr Schema schema{"where.nonzero(Tensor condition) -> Tensor"};
  static constexpr uint32_t traits = kForcesValues | kNeverDifferentiable;

  void compose_list(Inputs in, std::vector<Tensor>& out) const {
    const Tensor condition = in[0].ndim() == 0 ? reshape(in[0], Dims{1}) : in[0];
    const Tensor places = nonzero(condition);
    for (int d = 0; d < condition.ndim(); ++d) out.push_back(select(places, 1, d));
  }
};
WEFT_OP(WhereNonzero);

// tensor.where(condition, other): as a method, the tensor is the first of the two that are chosen
// from.
struct WhereMethod {
  static constexpr Schema schema{"where.method(Tensor self, Tensor condition, Tensor|Scalar other) -> Tensor"};

  Tensor compose(Inputs in) const { return where(in[1], in[0], in[2]); }
};
WEFT_OP(WhereMethod);

// ---- for C++ ------------------------------------------------------------------------------------

Tensor masked_fill(const Tensor& a, const Tensor& mask, const Tensor& value) {
  return call(op_MaskedFill, MaskedFill{}, a, mask, value);
}
Tensor masked_fill(const Tensor& a, const Tensor& mask, Scalar value) {
  return masked_fill(a, mask, wrapped_number(value));
}
void masked_fill_in_place(const Tensor& a, const Tensor& mask, const Tensor& value) {
  TensorImpl* in[] = {a.get(), mask.get(), value.get()};
  apply_in_place(op_MaskedFill, nullptr, Inputs(in, 3));
}
Tensor masked_select(const Tensor& a, const Tensor& mask) { return call(op_MaskedSelect, MaskedSelect{}, a, mask); }
Tensor masked_scatter(const Tensor& a, const Tensor& mask, const Tensor& source) {
  return call(op_MaskedScatter, MaskedScatter{}, a, mask, source);
}
Tensor nonzero(const Tensor& a) { return call(op_Nonzero, Nonzero{}, a); }

}  // namespace weft
