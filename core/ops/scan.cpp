// Running sums and products.
//
// Note [Derivatives of products]
// With y = x_0 x_1 ... the textbook derivative y / x_j fails where x_j is zero, and so does anything that
// divides. Here every product of the others is made from running products of what comes before and after,
// and what a running product passes back is a linear recurrence:
//   dx_j = (x_0 ... x_{j-1}) r_j,   r_j = g_j + x_{j+1} r_{j+1}.
// The recurrence is an operation whose derivative is the same recurrence in the other direction, so all of
// it can be differentiated as often as one likes, in linear time.
#include "core/ops/scan.h"

#include <algorithm>
#include <cmath>

#include "core/kernels/cpu/recurrence.h"
#include "core/kernels/cpu/scan.h"
#include "core/ops/reduce_common.h"

namespace weft {

namespace {

int axis(const Tensor& a, int64_t dim) { return static_cast<int>(wrap_dim(dim, a.ndim())); }

void infer_scan(const char* name, const Tensor& a, int64_t dim, DType result, Meta* out) {
  refuse_complex(name, result);
  refuse_complex(name, a.dtype());
  if (result == DType::Bool) fail(ErrorKind::NotImplemented, "\"", name, "\" not implemented for 'bool'");
  wrap_dim(dim, a.ndim());
  out->set(result, a->device, a.sizes());
}
DType dtype_of_scan(const Tensor& a, std::optional<DType> dtype) {
  return dtype.value_or(is_integral(a.dtype()) ? DType::Int64 : a.dtype());
}

// The kernel scans into floats or int64; any other result is cast before or after.
void run_scan(cpu::Scan kind, const Tensor& in, int64_t dim, bool reverse, const Tensor& out) {
  const int at = axis(in, dim);
  const bool integers = is_integral(out.dtype());
  const Tensor from = integers && !is_integral(in.dtype()) ? values_as(in, DType::Int64) : in;
  const Tensor to = integers && out.dtype() != DType::Int64 ? empty(out.sizes(), DType::Int64) : out;
  KernelView x(from), y(to);
  if (reverse) {
    x.reverse(at);
    y.reverse(at);
  }
  {
    Unlocked unlocked(in.numel() >= 64 * 1024);
    cpu::scan(kind, from.dtype(), to.dtype(), x, y, at);
  }
  if (to.get() != out.get()) copy_into(out, to);
}

Tensor product_gradient(const Tensor& g, const Tensor& x, const Tensor& y, int64_t dim, bool reverse) {
  const int64_t onwards = reverse ? -1 : 1;
  return shift_along(y, dim, onwards, 1.0) * linear_scan(g, shift_along(x, dim, -onwards, 0.0), dim, !reverse);
}

}  // namespace

// ---- in both directions ---------------------------------------------------------------------------

struct RunningSum {
  static constexpr Schema schema{"running_sum(Tensor self, int dim, bool reverse) -> Tensor"};
  static constexpr uint32_t traits = kLinear;
  int64_t dim;
  bool reverse;

  void infer(Inputs in, Meta* out) const { infer_scan("cumsum", in[0], dim, dtype_of_scan(in[0], {}), out); }
  void run(Inputs in, Tensor* out) const { run_scan(cpu::Scan::Sum, in[0], dim, reverse, out[0]); }
  static void vjp(Backward& b) { b.set(0, running_sum(b.grad(), b.op<RunningSum>().dim, !b.op<RunningSum>().reverse)); }
};
WEFT_OP(RunningSum);

struct RunningProduct {
  static constexpr Schema schema{"running_product(Tensor self, int dim, bool reverse) -> Tensor"};
  static constexpr Saves saves{{input(0) | output(0)}};
  int64_t dim;
  bool reverse;

  void infer(Inputs in, Meta* out) const { infer_scan("cumprod", in[0], dim, dtype_of_scan(in[0], {}), out); }
  void run(Inputs in, Tensor* out) const { run_scan(cpu::Scan::Prod, in[0], dim, reverse, out[0]); }
  static void vjp(Backward& b) {
    const RunningProduct& op = b.op<RunningProduct>();
    b.set(0, product_gradient(b.grad(), b.input(0), b.output(), op.dim, op.reverse));
  }
};
WEFT_OP(RunningProduct);

struct LinearScan {
  static constexpr Schema schema{"linear_scan(Tensor self, Tensor coefficient, int dim, bool reverse) -> Tensor"};
  static constexpr Saves saves{{input(1), input(1) | output(0)}};
  int64_t dim;
  bool reverse;

  void infer(Inputs in, Meta* out) const {
    require_floating("linear_scan", in[0].dtype());
    if (!std::equal(in[0].sizes().begin(), in[0].sizes().end(), in[1].sizes().begin(), in[1].sizes().end())) {
      fail("linear_scan(): ", shape_text(in[0].sizes()), " and ", shape_text(in[1].sizes()), " differ");
    }
    infer_scan("linear_scan", in[0], dim, in[0].dtype(), out);
  }
  void run(Inputs in, Tensor* out) const {
    const int at = axis(in[0], dim);
    // Half precision is carried along in float32.
    const DType type = in[0].dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
    const Tensor a = values_as(in[0], type), coefficient = values_as(in[1], type);
    const Tensor to = out[0].dtype() == type ? out[0] : empty(out[0].sizes(), type);
    KernelView x(a), c(coefficient), y(to);
    if (reverse) {
      x.reverse(at);
      c.reverse(at);
      y.reverse(at);
    }
    {
      Unlocked unlocked(a.numel() >= 64 * 1024);
      cpu::linear_recurrence(type, x, c, y, at);
    }
    if (to.get() != out[0].get()) copy_into(out[0], to);
  }
  static void vjp(Backward& b) {
    const LinearScan& op = b.op<LinearScan>();
    const int64_t onwards = op.reverse ? -1 : 1;
    const Tensor s = linear_scan(b.grad(), shift_along(b.input(1), op.dim, -onwards, 0.0), op.dim, !op.reverse);
    if (b.needs(0)) b.set(0, s);
    if (b.needs(1)) b.set(1, s * shift_along(b.output(), op.dim, onwards, 0.0));
  }
};
WEFT_OP(LinearScan);

struct ShiftAlong {
  static constexpr Schema schema{"shift_along(Tensor self, int dim, int by, float fill) -> Tensor"};
  static constexpr uint32_t traits = kLinear;
  int64_t dim, by;
  double fill;

  void infer(Inputs in, Meta* out) const {
    wrap_dim(dim, in[0].ndim());
    if (by != 1 && by != -1) fail("shift_along(): by must be 1 or -1, got ", by);
    out->like(in[0]);
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor edge = wrapped_number(Scalar(fill));
    if (in[0].ndim() == 0) return copy_into(out[0], edge);
    const int at = axis(in[0], dim);
    const int64_t n = in[0].size(at);
    if (n == 0) return;
    auto part = [&](const Tensor& t, int64_t start, int64_t length) {
      Dims sizes(t.sizes());
      sizes[at] = length;
      return alias(t, sizes, t.strides(), start * t.stride(at));
    };
    copy_into(part(out[0], by > 0 ? 1 : 0, n - 1), part(in[0], by > 0 ? 0 : 1, n - 1));
    copy_into(part(out[0], by > 0 ? 0 : n - 1, 1), edge);
  }
  static void vjp(Backward& b) { b.set(0, shift_along(b.grad(), b.op<ShiftAlong>().dim, -b.op<ShiftAlong>().by, 0.0)); }
};
WEFT_OP(ShiftAlong);

Tensor running_sum(const Tensor& a, int64_t dim, bool reverse) {
  return call(op_RunningSum, RunningSum{dim, reverse}, a);
}
Tensor running_product(const Tensor& a, int64_t dim, bool reverse) {
  return call(op_RunningProduct, RunningProduct{dim, reverse}, a);
}
Tensor linear_scan(const Tensor& a, const Tensor& coefficient, int64_t dim, bool reverse) {
  return call(op_LinearScan, LinearScan{dim, reverse}, a, coefficient);
}
Tensor shift_along(const Tensor& a, int64_t dim, int64_t by, double fill) {
  return call(op_ShiftAlong, ShiftAlong{dim, by, fill}, a);
}

// ---- as PyTorch names them ------------------------------------------------------------------------

struct Cumsum {
  static constexpr Schema schema{"cumsum(Tensor self, int dim, *, DType? dtype=None) -> Tensor"};
  static constexpr uint32_t traits = kLinear | kOutChoosesDtype;
  int64_t dim;
  std::optional<DType> dtype;

  void infer(Inputs in, Meta* out) const { infer_scan("cumsum", in[0], dim, dtype_of_scan(in[0], dtype), out); }
  void run(Inputs in, Tensor* out) const { run_scan(cpu::Scan::Sum, in[0], dim, false, out[0]); }
  static void vjp(Backward& b) { b.set(0, running_sum(b.grad(), b.op<Cumsum>().dim, true)); }
};
WEFT_OP(Cumsum);

struct Cumprod {
  static constexpr Schema schema{"cumprod(Tensor self, int dim, *, DType? dtype=None) -> Tensor"};
  static constexpr uint32_t traits = kOutChoosesDtype;
  static constexpr Saves saves{{input(0) | output(0)}};
  int64_t dim;
  std::optional<DType> dtype;

  void infer(Inputs in, Meta* out) const { infer_scan("cumprod", in[0], dim, dtype_of_scan(in[0], dtype), out); }
  void run(Inputs in, Tensor* out) const { run_scan(cpu::Scan::Prod, in[0], dim, false, out[0]); }
  static void vjp(Backward& b) {
    const Tensor y = b.output();
    b.set(0, product_gradient(b.grad(), to_dtype(b.input(0), y.dtype()), y, b.op<Cumprod>().dim, false));
  }
};
WEFT_OP(Cumprod);

struct Logcumsumexp {
  static constexpr Schema schema{"logcumsumexp(Tensor self, int dim) -> Tensor"};
  static constexpr uint32_t traits = kExactOut;
  static constexpr Saves saves{{input(0) | output(0)}};
  int64_t dim;

  void infer(Inputs in, Meta* out) const {
    require_floating("logcumsumexp", in[0].dtype());
    infer_scan("logcumsumexp", in[0], dim, in[0].dtype(), out);
  }
  void run(Inputs in, Tensor* out) const { run_scan(cpu::Scan::LogAddExp, in[0], dim, false, out[0]); }
  // dx_j = exp(x_j - y_j) s_j with s_j = g_j + exp(y_j - y_{j+1}) s_{j+1}. As y never decreases, no
  // exponential overflows. Equal infinities are no distance apart.
  static void vjp(Backward& b) {
    const int64_t dim = b.op<Logcumsumexp>().dim;
    const Tensor x = b.input(0), y = b.output(), zero = number(0.0);
    auto ratio = [&](const Tensor& small, const Tensor& large) {
      return exp(where(eq(small, large), zero, small - large));
    };
    const Tensor next = shift_along(y, dim, -1, HUGE_VAL);
    b.set(0, ratio(x, y) * linear_scan(b.grad(), ratio(y, next), dim, true));
  }
};
WEFT_OP(Logcumsumexp);

}  // namespace weft
