// Images of another size: one dimension at a time, so that every number of them is the same two operations.
#include <algorithm>
#include <cmath>
#include <string>

#include "core/kernels/cpu/spatial.h"
#include "core/ops/create.h"
#include "core/ops/reduce_common.h"

namespace weft {

extern const OpTable op_Resample, op_ResampleGrad;

namespace {

// Where output o lies among the inputs, in the precision that PyTorch computes it in: the nearest element
// depends on it.
template <class Real> struct Placement {
  Real scale;
  bool align_corners;

  Placement(int64_t in, int64_t out, bool align, double factor) : align_corners(align) {
    if (align) scale = out > 1 ? static_cast<Real>(in - 1) / static_cast<Real>(out - 1) : Real(0);
    else scale = factor > 0 ? static_cast<Real>(1.0 / factor) : static_cast<Real>(in) / static_cast<Real>(out);
  }
  Real operator()(int64_t o) const {
    if (align_corners) return scale * static_cast<Real>(o);
    return scale * (static_cast<Real>(o) + Real(0.5)) - Real(0.5);
  }
};

template <class Real> int64_t floor_of(Real x) { return static_cast<int64_t>(std::floor(static_cast<float>(x))); }

template <class Real>
cpu::Resampling resampling(int64_t in, int64_t out, const std::string& mode, bool align_corners, double factor) {
  const bool nearest = mode == "nearest", exact = mode == "nearest-exact", cubic = mode == "cubic";
  cpu::Resampling how{in, out, nearest || exact ? 1 : cubic ? 4 : 2, {}, {}};
  how.position.reserve(out * how.taps);
  how.weight.reserve(out * how.taps);
  const auto tap = [&](int64_t position, Real weight) {
    how.position.push_back(std::clamp<int64_t>(position, 0, in - 1));
    how.weight.push_back(static_cast<double>(weight));
  };
  const Placement<Real> place(in, out, align_corners, factor);
  for (int64_t o = 0; o < out; ++o) {
    if (nearest) {
      tap(floor_of(place.scale * static_cast<Real>(o)), 1);
      continue;
    }
    const Real at = cubic ? place(o) : std::max(place(o), Real(0));
    if (exact) {
      tap(floor_of(at + Real(0.5)), 1);
      continue;
    }
    const int64_t before = std::min(floor_of(at), in - 1);
    const Real beyond = std::clamp(at - static_cast<Real>(before), Real(0), Real(1));
    if (!cubic) {
      const Real weight = in == out ? Real(0) : beyond;
      tap(in == out ? o : before, Real(1) - weight);
      tap((in == out ? o : before) + 1, weight);
      continue;
    }
    // Keys' cubic convolution with a = -0.75: one polynomial near the position, one further away.
    constexpr Real a = Real(-0.75);
    const auto near = [&](Real x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
    const auto far = [&](Real x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
    tap(before - 1, far(beyond + 1));
    tap(before, near(beyond));
    tap(before + 1, near(1 - beyond));
    tap(before + 2, far(2 - beyond));
  }
  return how;
}

cpu::Resampling resampling(DType dtype, int64_t in, int64_t out, const std::string& mode, bool align, double factor) {
  return dtype == DType::Float64 ? resampling<double>(in, out, mode, align, factor)
                                 : resampling<float>(in, out, mode, align, factor);
}

int64_t product_of(IntSpan sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

Tensor contiguous_values(const Tensor& t) { return t->is_contiguous() ? t : detached_copy(t); }

constexpr int64_t kUnlockAt = 64 * 1024;

// A result that is computed in row-major memory, wherever it belongs.
template <class Kernel> void run_contiguous(const Tensor& out, Kernel kernel) {
  const Tensor to = out->is_contiguous() ? out : empty(out.sizes(), out.dtype(), out->device);
  {
    const Unlocked unlocked(out.numel() >= kUnlockAt);
    kernel(to->data);
  }
  if (to.get() != out.get()) copy_into(out, to);
}

}  // namespace

struct Resample {
  static constexpr Schema schema{
      "resample(Tensor input, int dim, int size, str mode, bool align_corners, float scale_factor) -> Tensor"};
  static constexpr uint32_t traits = kLinear;
  static constexpr const char* backward_name = "UpsampleBackward0";
  int64_t dim, size;
  std::string mode;  // nearest, nearest-exact, linear, cubic
  bool align_corners;
  double scale_factor;  // 0: the ratio of the sizes

  void infer(Inputs in, Meta* out) const {
    const Tensor& x = in[0];
    const int at = static_cast<int>(wrap_dim(dim, x.ndim()));
    if (x.size(at) < 1 || size < 1 || size >= int64_t{1} << 40) {
      fail("Input and output sizes should be greater than 0, but got input ", x.size(at), " and output ", size,
           " along dimension ", at);
    }
    const bool nearest = mode.starts_with("nearest");
    if (!nearest && mode != "linear" && mode != "cubic") fail("resample: unknown mode '", mode, "'");
    const DType dtype = x.dtype();
    if (dtype != DType::Float32 && dtype != DType::Float64 && !(nearest && dtype == DType::UInt8)) {
      refuse_dtype("upsample", dtype);
    }
    out->like(x);
    out->sizes[at] = size;
  }
  void run(Inputs in, Tensor* out) const {
    if (out[0].numel() == 0) return;
    const Tensor x = contiguous_values(in[0]);
    const int at = static_cast<int>(wrap_dim(dim, x.ndim()));
    const auto how = resampling(x.dtype(), x.size(at), size, mode, align_corners, scale_factor);
    run_contiguous(out[0], [&](void* to) {
      cpu::resample(x.dtype(), how, product_of(x.sizes().first(at)), product_of(x.sizes().subspan(at + 1)), x->data,
                    to);
    });
  }
  static void vjp(Backward& b);
};
WEFT_OP(Resample);

struct ResampleGrad {
  static constexpr Schema schema{
      "resample_grad(Tensor grad, int dim, int size, str mode, bool align_corners, float scale_factor) -> Tensor"};
  static constexpr uint32_t traits = kInternal | kLinear;
  static constexpr const char* backward_name = "UpsampleBackwardBackward0";
  int64_t dim, size;  // of the input whose gradient this is
  std::string mode;
  bool align_corners;
  double scale_factor;

  void infer(Inputs in, Meta* out) const {
    out->like(in[0]);
    out->sizes[wrap_dim(dim, in[0].ndim())] = size;
  }
  void run(Inputs in, Tensor* out) const {
    if (out[0].numel() == 0) return;
    const Tensor g = contiguous_values(in[0]);
    const int at = static_cast<int>(wrap_dim(dim, g.ndim()));
    const auto how = resampling(g.dtype(), size, g.size(at), mode, align_corners, scale_factor);
    run_contiguous(out[0], [&](void* to) {
      cpu::resample_gradient(g.dtype(), how, product_of(g.sizes().first(at)), product_of(g.sizes().subspan(at + 1)),
                             g->data, to);
    });
  }
  static void vjp(Backward& b) {
    const auto& [dim, size, mode, align_corners, scale_factor] = b.op<ResampleGrad>();
    const int64_t of_grad = b.input_sizes(0)[wrap_dim(dim, static_cast<int64_t>(b.input_sizes(0).size()))];
    b.set(0, call(op_Resample, Resample{dim, of_grad, mode, align_corners, scale_factor}, b.grad()));
  }
};
WEFT_OP(ResampleGrad);

void Resample::vjp(Backward& b) {
  const auto& [dim, size, mode, align_corners, scale_factor] = b.op<Resample>();
  const int64_t of_input = b.input_sizes(0)[wrap_dim(dim, static_cast<int64_t>(b.input_sizes(0).size()))];
  b.set(0, call(op_ResampleGrad, ResampleGrad{dim, of_input, mode, align_corners, scale_factor}, b.grad()));
}

}  // namespace weft
