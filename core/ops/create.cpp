// Operations that make tensors.
//
// Note [Creation]
// An operation that creates takes no tensor (or one to be like), so its schema ends in `Options
// options`: dtype=, layout=, device=, pin_memory= and requires_grad=. bind/ reads them, and sets
// requires_grad on the finished leaf; infer_created() checks them against the contract.
#include "core/ops/create.h"

#include <algorithm>
#include <cmath>

#include "core/kernels/cpu/fill.h"
#include "core/kernels/cpu/indexing.h"
#include "core/math/types.h"
#include "core/tensor/promotion.h"

namespace weft {

// ---- contracts -------------------------------------------------------------------------------------

void refuse_complex(const char* name) {
  fail(ErrorKind::NotImplemented, name,
       ": complex tensors have no arithmetic in weft yet; keep real and imaginary parts in "
       "two tensors");
}

void refuse_dtype(const char* name, DType dtype) {
  fail(ErrorKind::NotImplemented, '"', name, "\" not implemented for '", dtype_name(dtype), "'");
}

namespace {

void check_options(const char* name, const CreationOptions& options, const Meta& out) {
  check_device(out.device);
  if (is_complex(out.dtype)) refuse_complex(name);
  if (options.requires_grad && !is_differentiable(out.dtype)) {
    fail("Only Tensors of floating point and complex dtype can require gradients (", name, " of ",
         dtype_name(out.dtype), ")");
  }
}

}  // namespace

void infer_created(const char* name, IntSpan sizes, const CreationOptions& options, DType dtype, Meta* out) {
  if (sizes.size() > kMostDims)
    fail(name, ": a tensor can have at most ", kMostDims, " dimensions, got ", sizes.size());
  checked_numel(sizes);
  out->set(options.dtype_or(dtype), options.device_or(Device{}), sizes);
  check_options(name, options, *out);
}

void infer_like(const char* name, const Tensor& model, const CreationOptions& options,
                std::optional<int64_t> memory_format, Meta* out) {
  out->set(options.dtype_or(model.dtype()), options.device_or(model->device), model.sizes());
  check_options(name, options, *out);
  lay_out(out, memory_format.value_or(kPreserveFormat), model);
}

// ---- memory formats --------------------------------------------------------------------------------

namespace {

// Row-major strides over the dimensions in this order, the last one innermost.
void stride_in_order(const int64_t* sizes, const int* order, int ndim, int64_t* strides) {
  int64_t next = 1;
  for (int i = ndim; i-- > 0;) {
    strides[order[i]] = next;
    next *= std::max<int64_t>(sizes[order[i]], 1);
  }
}

constexpr int kChannelsLastOrder[] = {0, 2, 3, 4, 1};
constexpr int kPlanarOrder[] = {0, 2, 3, 1};

const int* channels_last_order(int64_t memory_format, int ndim) {
  const int wanted = memory_format == kChannelsLast ? 4 : 5;
  if (ndim != wanted) {
    fail("required rank ", wanted, " tensor to use ", wanted == 4 ? "channels_last" : "channels_last_3d", " format");
  }
  return wanted == 4 ? kPlanarOrder : kChannelsLastOrder;
}

// The order in which a tensor's dimensions lie in memory, outermost first, as far as its strides say:
// a dimension of stride 0 stays where it is among the others.
void memory_order(const Tensor& t, int* order) {
  for (int d = 0; d < t.ndim(); ++d) order[d] = d;
  for (int i = t.ndim() - 2; i >= 0; --i) {
    int inner = i;
    for (int outer = i + 1; outer < t.ndim(); ++outer) {
      const int64_t a = t.stride(order[inner]), b = t.stride(order[outer]);
      if (a == 0 || b == 0) continue;
      const bool belongs_inside = a < b || (a == b && t.size(order[inner]) < t.size(order[outer]));
      if (!belongs_inside) {
        if (a > b) break;
        continue;
      }
      std::swap(order[inner], order[outer]);
      inner = outer;
    }
  }
}

}  // namespace

void lay_out(Meta* out, int64_t memory_format, const Tensor& model) {
  out->strided = false;
  if (memory_format == kContiguousFormat) return;
  if (memory_format == kPreserveFormat) {
    if (model->is_contiguous()) return;
    out->strided = true;
    if (is_dense(model.sizes(), model.strides())) {
      std::copy_n(model.strides().data(), model.ndim(), out->strides);
    } else {
      int order[kMostDims];
      memory_order(model, order);
      stride_in_order(out->sizes, order, out->ndim, out->strides);
    }
    return;
  }
  const int* order = channels_last_order(memory_format, out->ndim);
  out->strided = true;
  stride_in_order(out->sizes, order, out->ndim, out->strides);
}

bool is_laid_out(const Tensor& t, int64_t memory_format) {
  if (memory_format == kContiguousFormat) return t->is_contiguous();
  if (memory_format == kPreserveFormat) return true;
  const int* order = channels_last_order(memory_format, t.ndim());
  int64_t expected = 1;
  for (int i = t.ndim(); i-- > 0;) {
    if (t.size(order[i]) == 0) return true;
    if (t.size(order[i]) == 1) continue;
    if (t.stride(order[i]) != expected) return false;
    expected *= t.size(order[i]);
  }
  return true;
}

// ---- values ----------------------------------------------------------------------------------------

namespace {

// Whether a number is outside the range of a dtype. Infinity fits every floating type.
bool overflows(Scalar value, DType dtype) {
  auto outside = [&](double low, double high) {
    if (!value.is_floating()) {
      return static_cast<double>(value.integer) < low || static_cast<double>(value.integer) > high;
    }
    return !(value.floating >= low && value.floating <= high);
  };
  switch (dtype) {
    case DType::UInt8: return outside(-255, 255);
    case DType::Int8: return outside(-128, 127);
    case DType::Int16: return outside(-32768, 32767);
    case DType::Int32: return outside(-2147483648.0, 2147483647.0);
    case DType::Int64: return value.is_floating() && !(value.floating >= -0x1p63 && value.floating < 0x1p63);
    case DType::Float16: return std::isfinite(value.to_double()) && outside(-65504, 65504);
    case DType::BFloat16: return std::isfinite(value.to_double()) && outside(-0x1.fep127, 0x1.fep127);
    case DType::Float32: return std::isfinite(value.to_double()) && outside(-0x1.fffffep127, 0x1.fffffep127);
    default: return false;
  }
}

template <DType t>
void store_number(Scalar value, void* to) {
  using T = typename TypeOf<t>::type;
  const T stored = value.is_floating() ? math::cast<T>(value.floating) : math::cast<T>(Int64{value.integer});
  std::memcpy(to, &stored, sizeof stored);
}

}  // namespace

StoredNumber stored_number(Scalar value, DType dtype) {
  if (overflows(value, dtype)) fail("value cannot be converted to type ", dtype_name(dtype), " without overflow");
  StoredNumber n{};
  switch (dtype) {
    case DType::Bool: store_number<DType::Bool>(value, n.bytes); break;
    case DType::UInt8: store_number<DType::UInt8>(value, n.bytes); break;
    case DType::Int8: store_number<DType::Int8>(value, n.bytes); break;
    case DType::Int16: store_number<DType::Int16>(value, n.bytes); break;
    case DType::Int32: store_number<DType::Int32>(value, n.bytes); break;
    case DType::Int64: store_number<DType::Int64>(value, n.bytes); break;
    case DType::Float16: store_number<DType::Float16>(value, n.bytes); break;
    case DType::BFloat16: store_number<DType::BFloat16>(value, n.bytes); break;
    case DType::Float32: store_number<DType::Float32>(value, n.bytes); break;
    case DType::Float64: store_number<DType::Float64>(value, n.bytes); break;
    default: refuse_complex("fill");
  }
  return n;
}

namespace {

// Dense tensors are one run of memory in whatever order of dimensions; any other layout is walked.
void fill_bytes(const Tensor& t, const StoredNumber& value) {
  const int size = item_size(t.dtype());
  if (t.numel() == 0) return;
  if (t->is_contiguous() || is_dense(t.sizes(), t.strides())) {
    return cpu::fill_items(size, t->data, t.numel(), value.bytes);
  }
  int64_t strides[kMostDims], still[kMostDims] = {};
  for (int d = 0; d < t.ndim(); ++d) strides[d] = t.stride(d) * size;
  cpu::copy_strided(size, {t->data, t.ndim(), t.sizes().data(), strides},
                    {const_cast<char*>(value.bytes), t.ndim(), t.sizes().data(), still});
}

void fill_zero(const Tensor& t) {
  if (t->is_contiguous()) std::memset(t->data, 0, static_cast<size_t>(t.numel()) * item_size(t.dtype()));
  else fill_bytes(t, StoredNumber{});
}

}  // namespace

Scalar single_number(const Tensor& t) {
  ensure_value(t.get());
  const DType type = is_integral(t.dtype()) ? DType::Int64 : DType::Float64;
  Tensor wide = empty({}, type);
  copy_into(wide, t);
  return is_integral(type) ? Scalar(*wide.data<int64_t>()) : Scalar(*wide.data<double>());
}

void fill_value(const Tensor& t, Scalar value) { fill_bytes(t, stored_number(value, t.dtype())); }

// ---- of one value ----------------------------------------------------------------------------------

struct Empty {
  static constexpr Schema schema{"empty(int[] size, *, Options options, MemoryFormat? memory_format=None) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  Dims size;
  CreationOptions options;
  std::optional<int64_t> memory_format;

  void infer(Inputs, Meta* out) const {
    infer_created("empty", size, options, default_dtype(), out);
    if (memory_format == kPreserveFormat) fail("empty: memory_format=weft.preserve_format needs a tensor to be like");
    if (memory_format) lay_out(out, *memory_format, Tensor());
  }
  void run(Inputs, Tensor*) const {}
};
WEFT_OP(Empty);

struct EmptyStrided {
  static constexpr Schema schema{"empty_strided(int[] size, int[] stride, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  Dims size, stride;
  CreationOptions options;

  void infer(Inputs, Meta* out) const {
    infer_created("empty_strided", size, options, default_dtype(), out);
    if (size.size() != stride.size()) {
      fail("dimensionality of sizes (", size.size(), ") must match dimensionality of strides (", stride.size(), ")");
    }
    for (int64_t s : stride)
      if (s < 0) fail("empty_strided: strides must not be negative, got ", shape_text(stride));
    out->strided = true;
    std::copy(stride.begin(), stride.end(), out->strides);
  }
  void run(Inputs, Tensor*) const {}
};
WEFT_OP(EmptyStrided);

struct Zeros {
  static constexpr Schema schema{"zeros(int[] size, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  Dims size;
  CreationOptions options;

  void infer(Inputs, Meta* out) const { infer_created("zeros", size, options, default_dtype(), out); }
  void run(Inputs, Tensor* out) const { fill_zero(out[0]); }
};
WEFT_OP(Zeros);

struct Ones {
  static constexpr Schema schema{"ones(int[] size, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  Dims size;
  CreationOptions options;

  void infer(Inputs, Meta* out) const { infer_created("ones", size, options, default_dtype(), out); }
  void run(Inputs, Tensor* out) const { fill_value(out[0], Scalar(1)); }
};
WEFT_OP(Ones);

struct Full {
  static constexpr Schema schema{"full(int[] size, Scalar fill_value, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  Dims size;
  Scalar value;
  CreationOptions options;

  void infer(Inputs, Meta* out) const {
    infer_created("full", size, options, value.natural_dtype(default_dtype()), out);
    stored_number(value, out->dtype);
  }
  void run(Inputs, Tensor* out) const { fill_value(out[0], value); }
};
WEFT_OP(Full);

struct ScalarTensor {
  static constexpr Schema schema{"scalar_tensor(Scalar s, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  Scalar value;
  CreationOptions options;

  void infer(Inputs, Meta* out) const {
    infer_created("scalar_tensor", {}, options, default_dtype(), out);
    stored_number(value, out->dtype);
  }
  void run(Inputs, Tensor* out) const { fill_value(out[0], value); }
};
WEFT_OP(ScalarTensor);

// ---- like another tensor ---------------------------------------------------------------------------

struct EmptyLike {
  static constexpr Schema schema{
      "empty_like(Tensor self, *, Options options, MemoryFormat? memory_format=None) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  CreationOptions options;
  std::optional<int64_t> memory_format;

  void infer(Inputs in, Meta* out) const { infer_like("empty_like", in[0], options, memory_format, out); }
  void run(Inputs, Tensor*) const {}
};
WEFT_OP(EmptyLike);

struct ZerosLike {
  static constexpr Schema schema{
      "zeros_like(Tensor self, *, Options options, MemoryFormat? memory_format=None) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  CreationOptions options;
  std::optional<int64_t> memory_format;

  void infer(Inputs in, Meta* out) const { infer_like("zeros_like", in[0], options, memory_format, out); }
  void run(Inputs, Tensor* out) const { fill_zero(out[0]); }
};
WEFT_OP(ZerosLike);

struct OnesLike {
  static constexpr Schema schema{
      "ones_like(Tensor self, *, Options options, MemoryFormat? memory_format=None) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  CreationOptions options;
  std::optional<int64_t> memory_format;

  void infer(Inputs in, Meta* out) const { infer_like("ones_like", in[0], options, memory_format, out); }
  void run(Inputs, Tensor* out) const { fill_value(out[0], Scalar(1)); }
};
WEFT_OP(OnesLike);

struct FullLike {
  static constexpr Schema schema{
      "full_like(Tensor self, Scalar fill_value, *, Options options, MemoryFormat? memory_format=None) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  Scalar value;
  CreationOptions options;
  std::optional<int64_t> memory_format;

  void infer(Inputs in, Meta* out) const {
    infer_like("full_like", in[0], options, memory_format, out);
    stored_number(value, out->dtype);
  }
  void run(Inputs, Tensor* out) const { fill_value(out[0], value); }
};
WEFT_OP(FullLike);

namespace {

// tensor.new_*: another shape, but the tensor's dtype and device.
void infer_new(const char* name, const Tensor& model, IntSpan size, CreationOptions options, Meta* out) {
  if (!options.has_device) {
    options.has_device = true;
    options.device = model->device;
  }
  infer_created(name, size, options, model.dtype(), out);
}

}  // namespace

struct NewEmpty {
  static constexpr Schema schema{"new_empty(Tensor self, int[] size, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  Dims size;
  CreationOptions options;

  void infer(Inputs in, Meta* out) const { infer_new("new_empty", in[0], size, options, out); }
  void run(Inputs, Tensor*) const {}
};
WEFT_OP(NewEmpty);

struct NewZeros {
  static constexpr Schema schema{"new_zeros(Tensor self, int[] size, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  Dims size;
  CreationOptions options;

  void infer(Inputs in, Meta* out) const { infer_new("new_zeros", in[0], size, options, out); }
  void run(Inputs, Tensor* out) const { fill_zero(out[0]); }
};
WEFT_OP(NewZeros);

struct NewOnes {
  static constexpr Schema schema{"new_ones(Tensor self, int[] size, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  Dims size;
  CreationOptions options;

  void infer(Inputs in, Meta* out) const { infer_new("new_ones", in[0], size, options, out); }
  void run(Inputs, Tensor* out) const { fill_value(out[0], Scalar(1)); }
};
WEFT_OP(NewOnes);

struct NewFull {
  static constexpr Schema schema{"new_full(Tensor self, int[] size, Scalar fill_value, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  Dims size;
  Scalar value;
  CreationOptions options;

  void infer(Inputs in, Meta* out) const {
    infer_new("new_full", in[0], size, options, out);
    stored_number(value, out->dtype);
  }
  void run(Inputs, Tensor* out) const { fill_value(out[0], value); }
};
WEFT_OP(NewFull);

struct NewEmptyStrided {
  static constexpr Schema schema{
      "new_empty_strided(Tensor self, int[] size, int[] stride, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  Dims size, stride;
  CreationOptions options;

  void infer(Inputs in, Meta* out) const {
    CreationOptions own = options;
    own.dtype = options.dtype_or(in[0].dtype());
    own.device = options.device_or(in[0]->device);
    own.has_dtype = own.has_device = true;
    EmptyStrided{size, stride, own}.infer(in, out);
  }
  void run(Inputs, Tensor*) const {}
};
WEFT_OP(NewEmptyStrided);

// ---- filling what exists ---------------------------------------------------------------------------

struct Fill {
  static constexpr Schema schema{"fill(Tensor self, Tensor|Scalar value) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kLinear;

  void infer(Inputs in, Meta* out) const {
    const Tensor &self = in[0], &value = in[1];
    if (value.ndim() > 0) {
      fail("fill_ only supports 0-dimension value tensor but got tensor with ", value.ndim(), " dimensions.");
    }
    out->set(self.dtype(), self->device, self.sizes());
    lay_out(out, kPreserveFormat, self);
    // The range of a Python number is known; the value of a tensor is converted as it is.
    if (value->has(kWrappedNumber) && !(value->flags & kPending)) stored_number(number_in(value), self.dtype());
  }
  void run(Inputs in, Tensor* out) const {
    if (in[1]->has(kWrappedNumber)) fill_value(out[0], number_in(in[1]));
    else copy_into(out[0], in[1]);
  }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, zeros(b.output_sizes(), b.output_dtype()));
    if (b.needs(1)) b.set(1, sum_all(b.grad()));
  }

 private:
  static Scalar number_in(const Tensor& value) {
    if (value.dtype() == DType::Float64) return Scalar(*value.data<double>());
    if (value.dtype() == DType::Bool) return Scalar(*value->data != 0);
    return Scalar(*value.data<int64_t>());
  }
};
WEFT_OP(Fill);

struct Zero {
  static constexpr Schema schema{"zero(Tensor self) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kLinear;

  void infer(Inputs in, Meta* out) const { out->like(in[0]); }
  void run(Inputs, Tensor* out) const { fill_zero(out[0]); }
  static void vjp(Backward& b) { b.set(0, zeros(b.output_sizes(), b.output_dtype())); }
};
WEFT_OP(Zero);

Tensor zeros_like(const Tensor& a) { return call(op_ZerosLike, ZerosLike{}, a); }

// ---- sequences -------------------------------------------------------------------------------------

struct ArangeFrom {
  static constexpr Schema schema{
      "arange.start_step(Scalar start, Scalar end, Scalar step=1, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  Scalar start, end, step;
  CreationOptions options;

  void infer(Inputs, Meta* out) const {
    const bool whole = !start.is_floating() && !end.is_floating() && !step.is_floating();
    const DType dtype = options.dtype_or(whole ? DType::Int64 : default_dtype());
    if (dtype == DType::Bool) refuse_dtype("arange", dtype);
    const Dims size{length(dtype)};
    infer_created("arange", size, options, dtype, out);
  }
  void run(Inputs, Tensor* out) const {
    const DType dtype = out[0].dtype();
    if (is_integral(dtype)) cpu::fill_arange(dtype, start.to_int(), step.to_int(), out[0]->data, out[0].numel());
    else cpu::fill_arange(dtype, start.to_double(), step.to_double(), out[0]->data, out[0].numel());
  }

 private:
  int64_t length(DType dtype) const {
    const double from = start.to_double(), to = end.to_double(), by = step.to_double();
    if (!std::isfinite(from) || !std::isfinite(to) || !std::isfinite(by)) fail("unsupported range: ", from, " -> ", to);
    const bool whole = dtype == DType::Int64;
    for (const Scalar& s : {start, end, step}) {
      if (is_integral(dtype) && s.is_floating() && std::fabs(s.floating) >= 0x1p63) {
        fail("arange: ", s.floating, " does not fit ", dtype_name(dtype));
      }
    }
    if (by == 0) fail("step must be nonzero");
    if (whole && step.to_int() == 0)
      fail(ErrorKind::Value, "step must be nonzero as ", dtype_name(dtype), ", but is ", by);
    if (by > 0 ? from > to : from < to) fail("upper bound and lower bound inconsistent with step sign");
    double steps;
    if (whole) {
      const __int128 span = static_cast<__int128>(end.to_int()) - start.to_int(), each = step.to_int();
      steps = static_cast<double>(span / each + (span % each != 0));
    } else {
      steps = std::ceil((to - from) / by);
    }
    if (!(steps >= 0 && steps < 0x1p62)) fail("invalid size, possible overflow?");
    return static_cast<int64_t>(steps);
  }
};
WEFT_OP(ArangeFrom);

struct Arange {
  static constexpr Schema schema{"arange(Scalar end, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  Scalar end;
  CreationOptions options;

  void infer(Inputs in, Meta* out) const { from_zero().infer(in, out); }
  void run(Inputs in, Tensor* out) const { from_zero().run(in, out); }

 private:
  ArangeFrom from_zero() const { return {Scalar(0), end, Scalar(1), options}; }
};
WEFT_OP(Arange);

struct Linspace {
  static constexpr Schema schema{"linspace(Scalar start, Scalar end, int steps, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  Scalar start, end;
  int64_t steps;
  CreationOptions options;

  void infer(Inputs, Meta* out) const {
    if (steps < 0) fail("number of steps must be non-negative");
    const Dims size{steps};
    infer_created("linspace", size, options, default_dtype(), out);
    if (out->dtype == DType::Bool) refuse_dtype("linspace", out->dtype);
    if (is_integral(out->dtype)) {
      stored_number(start, out->dtype);
      stored_number(end, out->dtype);
    }
  }
  void run(Inputs, Tensor* out) const {
    const DType dtype = out[0].dtype();
    if (is_integral(dtype)) cpu::fill_linspace(dtype, start.to_int(), end.to_int(), out[0]->data, steps);
    else cpu::fill_linspace(dtype, start.to_double(), end.to_double(), out[0]->data, steps);
  }
};
WEFT_OP(Linspace);

struct LinspaceTensors {
  static constexpr Schema schema{
      "linspace.tensors(Tensor|Scalar start, Tensor|Scalar end, int steps, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable | kForcesValues;
  int64_t steps;
  CreationOptions options;

  void infer(Inputs in, Meta* out) const {
    if (in[0].ndim() > 0 || in[1].ndim() > 0) {
      fail("linspace only supports 0-dimensional start and end tensors, but got start with ", in[0].ndim(),
           " dimension(s) and end with ", in[1].ndim(), " dimension(s).");
    }
    between(in).infer(in, out);
  }
  void run(Inputs in, Tensor* out) const { between(in).run(in, out); }

 private:
  Linspace between(Inputs in) const { return {single_number(in[0]), single_number(in[1]), steps, options}; }
};
WEFT_OP(LinspaceTensors);

// ---- matrices --------------------------------------------------------------------------------------

struct EyeOf {
  static constexpr Schema schema{"eye.m(int n, int m, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  int64_t n, m;
  CreationOptions options;

  void infer(Inputs, Meta* out) const {
    if (n < 0) fail("n must be greater or equal to 0, got ", n);
    if (m < 0) fail("m must be greater or equal to 0, got ", m);
    const Dims size{n, m};
    infer_created("eye", size, options, default_dtype(), out);
  }
  void run(Inputs, Tensor* out) const {
    fill_zero(out[0]);
    const Dims size{std::min(n, m)}, stride{m + 1};
    fill_value(alias(out[0], size, stride, 0), Scalar(1));
  }
};
WEFT_OP(EyeOf);

struct Eye {
  static constexpr Schema schema{"eye(int n, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  int64_t n;
  CreationOptions options;

  void infer(Inputs in, Meta* out) const { EyeOf{n, n, options}.infer(in, out); }
  void run(Inputs in, Tensor* out) const { EyeOf{n, n, options}.run(in, out); }
};
WEFT_OP(Eye);

namespace {

// The triangle of a row x column matrix on or below (above) a diagonal: row r holds columns
// [first, first + count).
struct Triangle {
  int64_t row, column, offset;
  bool upper;

  struct Run { int64_t first, count; };
  Run in_row(int64_t r) const {
    const int64_t at = std::clamp(r + offset, int64_t{-1}, column);  // the diagonal's column
    if (upper) return {std::max<int64_t>(at, 0), column - std::max<int64_t>(at, 0)};
    return {0, std::min(at + 1, column)};
  }
  // On and below diagonal `at`: rows that grow by one, then full ones.
  int64_t count_lower(int64_t at) const {
    const int64_t first = std::min(std::max<int64_t>(0, -at), row);
    const int64_t full = std::clamp(column - at, first, row);
    return (full - first) * (first + full + 2 * at + 1) / 2 + (row - full) * column;
  }
  int64_t count() const { return upper ? row * column - count_lower(offset - 1) : count_lower(offset); }
  void infer(const char* name, const CreationOptions& options, Meta* out) {
    if (row < 0) fail("row must be non-negative, got ", row);
    if (column < 0) fail("column must be non-negative, got ", column);
    const Dims matrix{row, column};
    checked_numel(matrix);
    offset = std::clamp(offset, -row - 1, column + 1);
    const Dims size{2, count()};
    infer_created(name, size, options, DType::Int64, out);
    if (out->dtype != DType::Int64 && out->dtype != DType::Int32) refuse_dtype(name, out->dtype);
  }
  template <class T>
  void fill(T* rows, T* columns) const {
    // Rows without elements may be very many: those before the first and after the last are skipped.
    const T* end = columns;
    for (int64_t r = std::max<int64_t>(0, upper ? 0 : -offset); rows != end; ++r) {
      const Run run = in_row(r);
      for (int64_t c = run.first; c < run.first + run.count; ++c) {
        *rows++ = static_cast<T>(r);
        *columns++ = static_cast<T>(c);
      }
    }
  }
  void run(const Tensor& out) {
    offset = std::clamp(offset, -row - 1, column + 1);
    if (out.dtype() == DType::Int64) fill(out.data<int64_t>(), out.data<int64_t>() + out.size(1));
    else fill(out.data<int32_t>(), out.data<int32_t>() + out.size(1));
  }
};

}  // namespace

struct TrilIndices {
  static constexpr Schema schema{"tril_indices(int row, int col, int offset=0, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  int64_t row, column, offset;
  CreationOptions options;

  void infer(Inputs, Meta* out) const { Triangle{row, column, offset, false}.infer("tril_indices", options, out); }
  void run(Inputs, Tensor* out) const { Triangle{row, column, offset, false}.run(out[0]); }
};
WEFT_OP(TrilIndices);

struct TriuIndices {
  static constexpr Schema schema{"triu_indices(int row, int col, int offset=0, *, Options options) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  int64_t row, column, offset;
  CreationOptions options;

  void infer(Inputs, Meta* out) const { Triangle{row, column, offset, true}.infer("triu_indices", options, out); }
  void run(Inputs, Tensor* out) const { Triangle{row, column, offset, true}.run(out[0]); }
};
WEFT_OP(TriuIndices);

}  // namespace weft
