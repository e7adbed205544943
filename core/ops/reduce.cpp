// Sums and what is made of them.
#include "core/ops/reduce_common.h"

#include "core/tensor/promotion.h"

namespace weft {

struct Sum {
  static constexpr Schema schema{"sum(Tensor self, int[]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor"};
  static constexpr uint32_t traits = kReduction | kLinear;
  std::optional<Dims> dim;
  bool keepdim;
  std::optional<DType> dtype;

  void infer(Inputs in, Meta* out) const {
    const Tensor& a = in[0];
    out->dtype = dtype.value_or(is_integral(a.dtype()) ? DType::Int64 : a.dtype());
    out->device = a->device;
    ReducedDims(a.ndim(), dim).shape_into(a.sizes(), keepdim, out);
  }
  void run(Inputs in, Tensor* out) const {
    const DType to = out[0].dtype();
    const ReducedDims dims(in[0].ndim(), dim);
    // The kernel sums into floats or int64; anything else asked for is cast before or after.
    if (to == DType::Bool) return run_reduction(cpu::Reduction::Any, in[0], dims, out[0]);
    const bool direct = to == in[0].dtype() || (to == DType::Int64 && is_integral(in[0].dtype()));
    if (direct && (is_floating(to) || to == DType::Int64)) return run_reduction(cpu::Reduction::Sum, in[0], dims, out[0]);
    const DType through = is_floating(to) ? to : DType::Int64;
    Tensor cast = empty(in[0].sizes(), through);
    copy_into(cast, in[0]);
    if (through == to) return run_reduction(cpu::Reduction::Sum, cast, dims, out[0]);
    Tensor wide = empty(out[0].sizes(), through);
    run_reduction(cpu::Reduction::Sum, cast, dims, wide);
    copy_into(out[0], wide);
  }
  static void vjp(Backward& b) {
    const Sum& op = b.op<Sum>();
    b.set(0, expand_reduced(b.grad(), b.input_sizes(0), op.dim ? IntSpan(*op.dim) : IntSpan(), op.keepdim));
  }
};
WEFT_OP(Sum);

Tensor sum(const Tensor& a, IntSpan dims, bool keepdim) { return call(op_Sum, Sum{Dims(dims), keepdim, {}}, a); }
Tensor sum_all(const Tensor& a) { return call(op_Sum, Sum{{}, false, {}}, a); }

Tensor sum_to(const Tensor& gradient, IntSpan sizes) {
  const int shift = gradient.ndim() - static_cast<int>(sizes.size());
  Dims summed;
  for (int d = 0; d < gradient.ndim(); ++d) {
    if (d < shift || (sizes[d - shift] == 1 && gradient.size(d) != 1)) summed.push_back(d);
  }
  if (summed.empty()) return shift == 0 ? gradient : reshape(gradient, sizes);
  Tensor reduced = sum(gradient, summed, true);
  return shift > 0 ? reshape(reduced, sizes) : reduced;
}

Tensor expand_reduced(const Tensor& reduced, IntSpan sizes, IntSpan dims, bool keepdim) {
  if (keepdim || sizes.empty() || dims.empty()) return expand(reduced, sizes);
  Dims shape(sizes);
  for (int64_t d : dims) shape[static_cast<int>(wrap_dim(d, shape.size()))] = 1;
  return expand(reshape(reduced, shape), sizes);
}

}  // namespace weft
