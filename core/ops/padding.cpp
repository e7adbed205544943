// Images made wider by what is in them already: mirrored, repeated or from the other end.
#include <algorithm>
#include <string>

#include "core/kernels/cpu/spatial.h"
#include "core/ops/create.h"
#include "core/ops/reduce_common.h"

namespace weft {

extern const OpTable op_ExtendEdges, op_ExtendEdgesGrad;

namespace {

constexpr int64_t kUnlockAt = 64 * 1024;
constexpr int64_t kMostPadding = int64_t{1} << 31;

// Before and after one dimension; negative numbers cut off.
struct Sides {
  int dim;
  int64_t before, after;
};

// pad names the last dimension first.
Sides sides_of(const Dims& pad, int i, int ndim) { return {ndim - 1 - i, pad[2 * i], pad[2 * i + 1]}; }

void check_sides(const std::string& mode, const Sides& e, int64_t size) {
  if (std::max(e.before, e.after) >= kMostPadding || std::min(e.before, e.after) <= -kMostPadding) {
    fail("pad: padding (", e.before, ", ", e.after, ") is too large");
  }
  if (mode == "reflect" && (e.before >= size || e.after >= size)) {
    fail("Argument #4: Padding size should be less than the corresponding input dimension, but got: padding (",
         e.before, ", ", e.after, ") at dimension ", e.dim, ", which has size ", size);
  }
  const int64_t left = size + std::min<int64_t>(e.before, 0) + std::min<int64_t>(e.after, 0);
  if (mode == "circular" && (e.before > left || e.after > left)) {
    fail("Padding value causes wrapping around more than once: padding (", e.before, ", ", e.after, ") at dimension ",
         e.dim, ", which has size ", size);
  }
  if (size + e.before + e.after < (mode == "circular" ? 0 : 1)) {
    fail(mode, " padding (", e.before, ", ", e.after, ") leaves nothing of dimension ", e.dim, ", which has size ",
         size);
  }
  if (mode == "replicate" && size == 0) fail("Expected a non-empty tensor for replicate padding");
}

// Which input every output along a dimension is.
cpu::Resampling positions_of(const std::string& mode, const Sides& e, int64_t in) {
  cpu::Resampling how{in, in + e.before + e.after, 1, {}, {}};
  how.position.reserve(static_cast<size_t>(how.out));
  // What is repeated from the other end is what a cut has left.
  const int64_t cut = std::max<int64_t>(-e.before, 0), left = in - cut - std::max<int64_t>(-e.after, 0);
  for (int64_t o = 0; o < how.out; ++o) {
    int64_t at = o - e.before;
    if (mode == "reflect") {
      if (at < 0) at = -at;
      if (at >= in) at = 2 * (in - 1) - at;
    } else if (mode == "replicate") {
      at = std::clamp<int64_t>(at, 0, in - 1);
    } else {
      at = cut + (at - cut + left) % std::max<int64_t>(left, 1);
    }
    how.position.push_back(at);
  }
  return how;
}

int64_t product_of(const int64_t* sizes, int count) {
  int64_t n = 1;
  for (int d = 0; d < count; ++d) n *= sizes[d];
  return n;
}

Tensor row_major(const Tensor& t, DType dtype) {
  const Tensor cast = values_as(t, dtype);
  return cast->is_contiguous() ? cast : detached_copy(cast);
}

// One dimension after the other, through a tensor of its own for each but the last.
template <class Kernel>
void run_along_each(const Dims& pad, const std::string& mode, const Tensor& from, bool back, IntSpan wide_or_narrow,
                    const Tensor& out, Kernel kernel) {
  const int ndim = from.ndim(), count = pad.size() / 2;
  Tensor now = from;
  for (int k = 0; k < count; ++k) {
    const Sides e = sides_of(pad, back ? count - 1 - k : k, ndim);
    const int64_t other = wide_or_narrow[e.dim];
    const auto how = positions_of(mode, e, back ? other : now.size(e.dim));
    Dims sizes(now.sizes());
    sizes[e.dim] = other;
    const bool last = k + 1 == count && out->is_contiguous() && out.dtype() == now.dtype();
    const Tensor next = last ? out : empty(sizes, now.dtype(), now->device);
    {
      const Unlocked unlocked(next.numel() >= kUnlockAt);
      kernel(now.dtype(), how, product_of(now->dims, e.dim), product_of(now->dims + e.dim + 1, ndim - e.dim - 1),
             now->data, next->data);
    }
    now = next;
  }
  if (now.get() != out.get()) copy_into(out, now);
}

}  // namespace

struct ExtendEdges {
  static constexpr Schema schema{"extend_edges(Tensor input, int[] pad, str mode) -> Tensor"};
  static constexpr uint32_t traits = kLinear;
  static constexpr const char* backward_name = "PadBackward0";
  Dims pad;
  std::string mode;  // reflect, replicate, circular

  void infer(Inputs in, Meta* out) const {
    const Tensor& x = in[0];
    if (mode != "reflect" && mode != "replicate" && mode != "circular") fail("unknown padding mode '", mode, "'");
    if (pad.empty() || pad.size() % 2 != 0 || pad.size() > 2 * x.ndim()) {
      fail("Padding length ", pad.size(), " does not fit an input of ", x.ndim(), " dimensions");
    }
    out->like(x);
    for (int i = 0; i < pad.size() / 2; ++i) {
      const Sides e = sides_of(pad, i, x.ndim());
      check_sides(mode, e, x.size(e.dim));
      out->sizes[e.dim] = x.size(e.dim) + e.before + e.after;
    }
  }
  void run(Inputs in, Tensor* out) const {
    if (out[0].numel() == 0) return;
    const Tensor x = row_major(in[0], in[0].dtype());
    const Dims sizes(out[0].sizes());
    run_along_each(pad, mode, x, false, sizes, out[0], cpu::resample);
  }
  static void vjp(Backward& b);
};
WEFT_OP(ExtendEdges);

// Internal: `sizes` are those of the input whose gradient this is.
struct ExtendEdgesGrad {
  static constexpr Schema schema{"extend_edges_grad(Tensor grad, int[] pad, str mode, int[] sizes) -> Tensor"};
  static constexpr uint32_t traits = kInternal | kLinear;
  static constexpr const char* backward_name = "PadBackwardBackward0";
  Dims pad;
  std::string mode;
  Dims sizes;

  void infer(Inputs in, Meta* out) const { out->set(in[0].dtype(), in[0]->device, sizes); }
  void run(Inputs in, Tensor* out) const {
    if (in[0].numel() == 0) return copy_into(out[0], zeros({}, out[0].dtype()));
    const bool wide = in[0].dtype() == DType::Float64;
    const Tensor grad = row_major(in[0], wide ? DType::Float64 : DType::Float32);
    run_along_each(pad, mode, grad, true, sizes, out[0], cpu::resample_gradient);
  }
  static void vjp(Backward& b) {
    const auto& [pad, mode, sizes] = b.op<ExtendEdgesGrad>();
    b.set(0, call(op_ExtendEdges, ExtendEdges{pad, mode}, b.grad()));
  }
};
WEFT_OP(ExtendEdgesGrad);

void ExtendEdges::vjp(Backward& b) {
  const auto& [pad, mode] = b.op<ExtendEdges>();
  b.set(0, call(op_ExtendEdgesGrad, ExtendEdgesGrad{pad, mode, Dims(b.input_sizes(0))}, b.grad()));
}

}  // namespace weft
