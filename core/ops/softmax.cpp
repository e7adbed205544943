// Softmax, log-softmax, log-sum-exp and the first derivatives of the first two.
#include "core/ops/softmax.h"

#include <algorithm>
#include <cmath>

#include "core/kernels/cpu/softmax.h"
#include "core/ops/reduce_common.h"
#include "core/tensor/promotion.h"

namespace weft {

namespace {

constexpr int64_t kLargeSoftmax = 16 * 1024;

int axis(const Tensor& a, int64_t dim) { return static_cast<int>(wrap_dim(dim, a.ndim())); }

void infer_softmax(const char* name, const Tensor& a, int64_t dim, std::optional<DType> dtype, Meta* out) {
  require_floating(name, dtype.value_or(a.dtype()));
  refuse_complex(name, a.dtype());
  wrap_dim(dim, a.ndim());
  out->set(dtype.value_or(a.dtype()), a->device, a.sizes());
}

void run_softmax(cpu::Softmax kind, const Tensor& a, int64_t dim, const Tensor& out) {
  const Tensor x = is_floating(a.dtype()) ? a : values_as(a, out.dtype());
  Unlocked unlocked(a.numel() >= kLargeSoftmax);
  cpu::softmax(kind, x.dtype(), out.dtype(), KernelView(x), KernelView(out), axis(a, dim));
}

void infer_softmax_grad(const char* name, Inputs in, int64_t dim, Meta* out) {
  const IntSpan g = in[0].sizes(), y = in[1].sizes();
  require_floating(name, in[0].dtype());
  require_floating(name, in[1].dtype());
  wrap_dim(dim, in[0].ndim());
  if (!std::equal(g.begin(), g.end(), y.begin(), y.end()))
    fail(name, "(): ", shape_text(g), " and ", shape_text(y), " differ");
  out->like(in[0]);
}

void run_softmax_grad(cpu::Softmax kind, Inputs in, int64_t dim, const Tensor& out) {
  const Tensor y = values_as(in[1], in[0].dtype());
  Unlocked unlocked(out.numel() >= kLargeSoftmax);
  cpu::softmax_backward(kind, y.dtype(), out.dtype(), KernelView(in[0]), KernelView(y), KernelView(out),
                        axis(out, dim));
}

Tensor sum_along(const Tensor& a, int64_t dim) { return sum(a, Dims{dim}, true); }

}  // namespace

// ---- softmax ----------------------------------------------------------------------------------------

struct SoftmaxGrad {  // y (g - sum(g y))
  static constexpr Schema schema{"softmax_grad(Tensor grad, Tensor output, int dim) -> Tensor"};
  static constexpr Saves saves{{input(1), input(0) | input(1)}};
  static constexpr const char* backward_name = "SoftmaxBackwardDataBackward0";
  int64_t dim;

  void infer(Inputs in, Meta* out) const { infer_softmax_grad("softmax_grad", in, dim, out); }
  void run(Inputs in, Tensor* out) const { run_softmax_grad(cpu::Softmax::Plain, in, dim, out[0]); }
  static void vjp(Backward& b);
};
WEFT_OP(SoftmaxGrad);

void SoftmaxGrad::vjp(Backward& b) {
  const int64_t dim = b.op<SoftmaxGrad>().dim;
  const Tensor again = b.grad(), y = b.input(1);
  if (b.needs(0)) b.set(0, call(op_SoftmaxGrad, SoftmaxGrad{dim}, again, y));
  if (b.needs(1)) {
    const Tensor g = b.input(0);
    b.set(1, again * (g - sum_along(g * y, dim)) - g * sum_along(again * y, dim));
  }
}

struct Softmax {
  static constexpr Schema schema{"softmax(Tensor self, int dim, DType? dtype=None) -> Tensor"};
  static constexpr uint32_t traits = kExactOut;
  static constexpr Saves saves{{output(0)}};
  int64_t dim;
  std::optional<DType> dtype;

  void infer(Inputs in, Meta* out) const { infer_softmax("softmax", in[0], dim, dtype, out); }
  void run(Inputs in, Tensor* out) const { run_softmax(cpu::Softmax::Plain, in[0], dim, out[0]); }
  static void vjp(Backward& b) {
    b.set(0, call(op_SoftmaxGrad, SoftmaxGrad{b.op<Softmax>().dim}, b.grad(), b.output()));
  }
};
WEFT_OP(Softmax);

// ---- log-softmax ------------------------------------------------------------------------------------

struct LogSoftmaxGrad {  // g - exp(y) sum(g)
  static constexpr Schema schema{"log_softmax_grad(Tensor grad, Tensor output, int dim) -> Tensor"};
  static constexpr Saves saves{{input(1), input(0) | input(1)}};
  static constexpr const char* backward_name = "LogSoftmaxBackwardDataBackward0";
  int64_t dim;

  void infer(Inputs in, Meta* out) const { infer_softmax_grad("log_softmax_grad", in, dim, out); }
  void run(Inputs in, Tensor* out) const { run_softmax_grad(cpu::Softmax::Log, in, dim, out[0]); }
  static void vjp(Backward& b) {
    const int64_t dim = b.op<LogSoftmaxGrad>().dim;
    const Tensor again = b.grad(), weighted = again * exp(b.input(1));
    if (b.needs(0)) b.set(0, again - sum_along(weighted, dim));
    if (b.needs(1)) b.set(1, neg(weighted * sum_along(b.input(0), dim)));
  }
};
WEFT_OP(LogSoftmaxGrad);

struct LogSoftmax {
  static constexpr Schema schema{"log_softmax(Tensor self, int dim, DType? dtype=None) -> Tensor"};
  static constexpr uint32_t traits = kExactOut;
  static constexpr Saves saves{{output(0)}};
  int64_t dim;
  std::optional<DType> dtype;

  void infer(Inputs in, Meta* out) const { infer_softmax("log_softmax", in[0], dim, dtype, out); }
  void run(Inputs in, Tensor* out) const { run_softmax(cpu::Softmax::Log, in[0], dim, out[0]); }
  static void vjp(Backward& b) {
    b.set(0, call(op_LogSoftmaxGrad, LogSoftmaxGrad{b.op<LogSoftmax>().dim}, b.grad(), b.output()));
  }
};
WEFT_OP(LogSoftmax);

Tensor softmax(const Tensor& a, int64_t dim) { return call(op_Softmax, Softmax{dim, {}}, a); }
Tensor log_softmax(const Tensor& a, int64_t dim) { return call(op_LogSoftmax, LogSoftmax{dim, {}}, a); }

// ---- log-sum-exp ------------------------------------------------------------------------------------

struct Logsumexp {
  static constexpr Schema schema{"logsumexp(Tensor self, int[] dim, bool keepdim=False) -> Tensor"};
  static constexpr uint32_t traits = kReduction;
  static constexpr Saves saves{{input(0) | output(0)}};
  Dims dim;
  bool keepdim;

  ReducedDims dims(int rank) const { return {rank, std::optional<Dims>(dim)}; }
  void infer(Inputs in, Meta* out) const {
    const Tensor& a = in[0];
    refuse_complex("logsumexp", a.dtype());
    out->dtype = is_floating(a.dtype()) ? a.dtype() : default_dtype();
    out->device = a->device;
    dims(a.ndim()).shape_into(a.sizes(), keepdim, out);
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor x = is_floating(in[0].dtype()) ? in[0] : values_as(in[0], out[0].dtype());
    if (out[0].numel() == 0) return;
    if (x.numel() == 0) return copy_into(out[0], wrapped_number(Scalar(-HUGE_VAL)));  // the logarithm of an empty sum
    Unlocked unlocked(x.numel() >= kLargeSoftmax);
    if (dim.size() == 1 && x.ndim() > 0) {
      const int at = axis(x, dim[0]);
      return cpu::log_sum_exp(x.dtype(), out[0].dtype(), KernelView(x), KernelView(out[0], x, at), at);
    }
    const Tensor rows = reduced_last(x);
    cpu::log_sum_exp(x.dtype(), out[0].dtype(), KernelView(rows), KernelView(out[0], rows, 1), 1);
  }
  static void vjp(Backward& b) {
    const Logsumexp& op = b.op<Logsumexp>();
    const Tensor x = b.input(0);
    const ReducedDims dims = op.dims(x.ndim());
    const Tensor y = with_reduced_dims(b.output(), x.sizes(), dims, op.keepdim);
    b.set(0, with_reduced_dims(b.grad(), x.sizes(), dims, op.keepdim) * exp(x - y));
  }

 private:
  // Kept dimensions by reduced ones, as a contiguous matrix.
  Tensor reduced_last(const Tensor& x) const {
    const ReducedDims reduced = dims(x.ndim());
    Dims sizes, strides;
    for (const bool wanted : {false, true}) {
      for (int d = 0; d < x.ndim(); ++d) {
        if (reduced.reduced[d] != wanted) continue;
        sizes.push_back(x.size(d));
        strides.push_back(x.stride(d));
      }
    }
    const Tensor ordered = detached_copy(alias(x, sizes, strides, 0));
    const int64_t length = reduced.count(x.sizes()), rows = x.numel() / length;
    return alias(ordered, Dims{rows, length}, Dims{length, 1}, 0);
  }
};
WEFT_OP(Logsumexp);

}  // namespace weft
