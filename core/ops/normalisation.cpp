// Layer, RMS, group, instance and batch norm.
//
// Two operations carry them all: RowNorm, where every row has a mean and a scale of its own, and BatchNorm,
// where every channel has. The derivative of either is an operation with a kernel, too, whose own derivative
// is written with ordinary operations that take the statistics anew from the input, so that derivatives of
// any order are right.
#include <algorithm>
#include <limits>

#include "core/graph/context.h"
#include "core/kernels/cpu/normalise.h"
#include "core/math/machine.h"
#include "core/ops/create.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce_common.h"
#include "core/ops/wide.h"

namespace weft {

extern const OpTable op_Lerp;

namespace {

constexpr int64_t kLargeNorm = 16 * 1024;

double epsilon_of(DType wide) {
  return wide == DType::Float64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

// As kernels take it: contiguous and wide. Null stays null.
Tensor dense(const Tensor& t, DType wide) {
  if (!t) return t;
  const Tensor values = values_as(t, wide);
  return values->is_contiguous() ? values : detached_copy(values);
}
void* data_of(const Tensor& t) { return t ? t->data : nullptr; }

// A result in the kernels' dtype: the tensor itself or one whose values are rounded into it.
Tensor wide_result(const Tensor& out, DType wide) {
  return out.dtype() == wide ? out : empty_strided(out.sizes(), out.strides(), wide, out->device);
}
void finish_result(const Tensor& out, const Tensor& wide) {
  if (wide.get() != out.get()) copy_into(out, wide);
}

void refuse_other_dtype(const char* name, const char* which, const Tensor& t, DType dtype) {
  if (!t || t.dtype() == dtype) return;
  const bool half = dtype == DType::Float16 || dtype == DType::BFloat16;
  if (half && t.dtype() == DType::Float32) return;
  fail("mixed dtype (CPU): ", name, "() expects ", which, " to have the input's scalar type ", dtype_name(dtype),
       half ? " (or float32)" : "", " but found ", dtype_name(t.dtype()), "; convert it with .to(input.dtype)");
}

Tensor total(const Tensor& a, const Tensor& b) { return !a ? b : !b ? a : a + b; }

// ---- derivatives of derivatives --------------------------------------------------------------------

// y = w (x - m) / sqrt(v + eps) + b, where m and v are taken over `dims` (centered) or m is 0.
struct NormRule {
  Dims dims;
  bool centered;
  double eps;
};

struct NormSlopes { Tensor grad, input, weight; };

// The first derivative takes (g, x, w) to the gradients of x, w and b. This is its derivative, given the
// gradients u, v, t that come in for those three, of which any may be null. All shapes broadcast.
NormSlopes slopes_of_backward(const NormRule& rule, const Tensor& g, const Tensor& x, const Tensor& w, const Tensor& u,
                              const Tensor& v, const Tensor& t) {
  int64_t count = 1;
  for (int64_t d : rule.dims) count *= x.size(static_cast<int>(d));
  const auto mean = [&](const Tensor& a) { return sum(a, rule.dims, true) * (1.0 / static_cast<double>(count)); };
  const Tensor centered = rule.centered ? x - mean(x) : x;
  const Tensor scale = rsqrt(mean(square(centered)) + rule.eps);
  const Tensor normal = centered * scale;
  // From the gradient of `normal` to that of x; its own transpose.
  const auto through = [&](const Tensor& a) {
    const Tensor pulled = a - normal * mean(a * normal);
    return scale * (rule.centered ? pulled - mean(a) : pulled);
  };
  const Tensor weighted = w ? g * w : g;
  NormSlopes out;
  Tensor to_normal;
  if (u) {
    const Tensor through_u = through(u);
    out.grad = w ? w * through_u : through_u;
    if (w) out.weight = g * through_u;
    to_normal = neg(scale * (u * mean(weighted * normal) + weighted * mean(u * normal)));
  }
  if (v) {
    out.grad = total(out.grad, v * normal);
    to_normal = total(to_normal, g * v);
  }
  if (t) out.grad = total(out.grad, t);
  if (out.grad && out.grad.numel() != g.numel()) out.grad = expand(out.grad, g.sizes());
  if (to_normal) out.input = through(to_normal);
  if (u) out.input = out.input - scale * normal * mean(u * through(weighted));
  return out;
}

}  // namespace

// ---- rows: layer, RMS, group and instance norm -------------------------------------------------------

// See cpu::NormRows. Results: the normalised input, and mean and scale of every row.
struct RowNorm {
  static constexpr Schema schema{
      "row_norm(Tensor input, Tensor? weight, Tensor? bias, int channels, int inner, int groups, bool centered, float "
      "eps) -> (Tensor, Tensor, Tensor)"};
  static constexpr uint32_t traits = kFirstOutputOnly;
  static constexpr uint32_t kKept = input(0) | input(1) | output(1) | output(2);
  static constexpr Saves saves{{kKept, kKept, kKept}};
  static constexpr const char* backward_name = "NativeLayerNormBackward0";
  int64_t channels, inner, groups;
  bool centered;
  double eps;

  int64_t rows(int64_t numel) const {
    const int64_t length = channels * inner;
    return length == 0 ? 0 : numel / length;
  }
  cpu::NormRows shape(const Tensor& weight, const Tensor& bias) const {
    return {channels, inner, groups, data_of(weight), data_of(bias), centered, eps};
  }
  void check(Inputs in) const {
    const Tensor &x = in[0], &weight = in[1], &bias = in[2];
    require_floating("layer_norm", x.dtype());
    int64_t length = 0, all = 0;
    const bool fits = channels >= 0 && inner >= 0 && groups > 0 && !__builtin_mul_overflow(channels, inner, &length) &&
                      !__builtin_mul_overflow(std::max(length, channels), groups, &all);
    if (!fits || (length != 0 ? x.numel() % (length * groups) != 0 : x.numel() != 0)) {
      fail("row_norm(): ", shape_text(x.sizes()), " does not consist of rows of ", channels, " x ", inner, " in ",
           groups, " groups");
    }
    for (int i = 1; i < 3; ++i) {
      const Tensor& t = i == 1 ? weight : bias;
      if (!t) continue;
      refuse_other_dtype("norm", i == 1 ? "weight" : "bias", t, x.dtype());
      if (t.ndim() != 1 || t.numel() != channels * groups) {
        fail("row_norm(): ", channels * groups, " weights expected, got ", describe(t.get()));
      }
    }
  }
  void infer(Inputs in, Meta* out) const {
    check(in);
    const int64_t sizes[] = {rows(in[0].numel())};
    out[0].set(in[0].dtype(), in[0]->device, in[0].sizes());
    for (int k = 1; k < 3; ++k) out[k].set(wide_dtype(in[0].dtype()), in[0]->device, sizes);
  }
  void run(Inputs in, Tensor* out) const {
    if (in[0].numel() == 0) return;
    const DType wide = out[1].dtype();
    const Tensor x = dense(in[0], wide), weight = dense(in[1], wide), bias = dense(in[2], wide);
    const Tensor y = wide_result(out[0], wide);
    {
      const Unlocked unlocked(x.numel() >= kLargeNorm);
      cpu::normalise_rows(wide, shape(weight, bias), out[1].numel(), x->data, y->data, out[1]->data, out[2]->data);
    }
    finish_result(out[0], y);
  }
  static void vjp(Backward& b);
};
WEFT_OP(RowNorm);

// Results: the gradients of input, weight and bias; the latter two are empty unless wanted.
struct RowNormGrad {
  static constexpr Schema schema{
      "row_norm_grad(Tensor grad, Tensor input, Tensor mean, Tensor scale, Tensor? weight, int channels, int inner, "
      "int "
      "groups, bool centered, float eps, bool wants_weight, bool wants_bias) -> (Tensor, Tensor, Tensor)"};
  static constexpr uint32_t kKept = input(0) | input(1) | input(4);
  static constexpr Saves saves{{kKept, kKept, kKept, kKept}};
  static constexpr const char* backward_name = "NativeLayerNormBackwardBackward0";
  int64_t channels, inner, groups;
  bool centered;
  double eps;
  bool wants_weight, wants_bias;

  void infer(Inputs in, Meta* out) const {
    const Tensor &g = in[0], &x = in[1];
    const RowNorm forward{channels, inner, groups, centered, eps};
    const Tensor none;
    TensorImpl* const of_forward[] = {x.get(), in[4].get(), none.get()};
    forward.check(Inputs(of_forward, 3));
    if (!std::equal(g.sizes().begin(), g.sizes().end(), x.sizes().begin(), x.sizes().end())) {
      fail("row_norm_grad(): ", shape_text(g.sizes()), " and ", shape_text(x.sizes()), " differ");
    }
    require_floating("row_norm_grad", g.dtype());
    for (int i = 2; i < 4; ++i) {
      if (in[i].numel() == forward.rows(x.numel()) && in[i].dtype() == wide_dtype(x.dtype()) &&
          in[i]->is_contiguous()) {
        continue;
      }
      fail("row_norm_grad(): one mean and one scale for each row expected, got ", describe(in[i].get()));
    }
    const DType of_weight = in[4] ? in[4].dtype() : x.dtype();
    const int64_t count[] = {channels * groups}, nothing[] = {0};
    out[0].set(x.dtype(), x->device, x.sizes());
    out[1].set(of_weight, x->device, wants_weight ? count : nothing);
    out[2].set(of_weight, x->device, wants_bias ? count : nothing);
  }
  void run(Inputs in, Tensor* out) const {
    const DType wide = in[2].dtype();
    if (in[1].numel() == 0) {
      for (int k = 1; k < 3; ++k) fill_value(out[k], Scalar(0.0));
      return;
    }
    const Tensor g = dense(in[0], wide), x = dense(in[1], wide), weight = dense(in[4], wide);
    Tensor results[3];
    for (int k = 0; k < 3; ++k) results[k] = wide_result(out[k], wide);
    {
      const Unlocked unlocked(x.numel() >= kLargeNorm);
      cpu::normalise_rows_backward(wide, {channels, inner, groups, data_of(weight), nullptr, centered, eps},
                                   in[2].numel(), g->data, x->data, in[2]->data, in[3]->data, results[0]->data,
                                   wants_weight ? results[1]->data : nullptr, wants_bias ? results[2]->data : nullptr);
    }
    for (int k = 0; k < 3; ++k) finish_result(out[k], results[k]);
  }
  static void vjp(Backward& b) {
    const RowNormGrad& op = b.op<RowNormGrad>();
    const Tensor g = b.input(0), x = b.input(1), weight = b.input(4);
    const int64_t length = op.channels * op.inner;
    const Dims rows{length == 0 ? 0 : x.numel() / (length * op.groups), op.groups, op.channels, op.inner};
    const Dims channels{op.groups, op.channels, 1};
    const auto as = [](const Tensor& t, const Dims& sizes) { return t ? reshape(t, sizes) : t; };
    const NormSlopes slopes = slopes_of_backward(
        {Dims{2, 3}, op.centered, op.eps}, as(g, rows), as(x, rows), as(weight, channels), as(b.grad(0), rows),
        op.wants_weight ? as(b.grad(1), channels) : Tensor(), op.wants_bias ? as(b.grad(2), channels) : Tensor());
    if (b.needs(0) && slopes.grad) b.set(0, reshape(slopes.grad, g.sizes()));
    if (b.needs(1) && slopes.input) b.set(1, reshape(slopes.input, x.sizes()));
    if (weight && b.needs(4) && slopes.weight) b.set(4, reshape(sum_to(slopes.weight, channels), weight.sizes()));
  }
};
WEFT_OP(RowNormGrad);

void RowNorm::vjp(Backward& b) {
  const RowNorm& op = b.op<RowNorm>();
  if (!b.grad()) return;
  const bool wants_weight = b.needs(1), wants_bias = b.needs(2);
  const RowNormGrad grad{op.channels, op.inner, op.groups, op.centered, op.eps, wants_weight, wants_bias};
  const Tensor x = b.input(0), weight = b.input(1), mean = b.output(1), scale = b.output(2);
  TensorImpl* in[] = {b.grad().get(), x.get(), mean.get(), scale.get(), weight.get()};
  Tensor out[3];
  apply(op_RowNormGrad, &grad, Inputs(in, 5), out);
  if (b.needs(0)) b.set(0, std::move(out[0]));
  if (wants_weight) b.set(1, std::move(out[1]));
  if (wants_bias) b.set(2, std::move(out[2]));
}

constexpr OpTable op_GroupRowNorm = with_node_name(op_RowNorm, "NativeGroupNormBackward0");
constexpr OpTable op_RmsRowNorm = with_node_name(op_RowNorm, "FusedRmsNormBackward0");

namespace {

struct NormResults { Tensor y, mean, scale; };
NormResults row_norm(const OpTable& table, const RowNorm& op, const Tensor& x, const Tensor& weight,
                     const Tensor& bias) {
  TensorImpl* in[] = {x.get(), weight.get(), bias.get()};
  Tensor out[3];
  apply(table, &op, Inputs(in, 3), out);
  return {std::move(out[0]), std::move(out[1]), std::move(out[2])};
}

void check_normalized(const char* which, const Tensor& t, IntSpan shape) {
  if (!t || std::equal(shape.begin(), shape.end(), t.sizes().begin(), t.sizes().end())) return;
  fail("Expected ", which, " to be of same shape as normalized_shape, but got ", which, " of shape ",
       shape_text(t.sizes()), " and normalized_shape = ", shape_text(shape));
}

// How many elements the last dimensions of x that `shape` names have.
int64_t normalized_count(const Tensor& x, IntSpan shape, const Tensor& weight, const Tensor& bias) {
  if (shape.empty()) {
    fail(
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
        "normalized_shape = []");
  }
  check_normalized("weight", weight, shape);
  check_normalized("bias", bias, shape);
  const IntSpan sizes = x.sizes();
  if (sizes.size() < shape.size() || !std::equal(shape.begin(), shape.end(), sizes.end() - shape.size())) {
    std::string wanted = "[*";
    for (int64_t s : shape) wanted += ", " + std::to_string(s);
    fail("Given normalized_shape=", shape_text(shape), ", expected input with shape ", wanted,
         "], but got input of size", shape_text(sizes));
  }
  int64_t count = 1;
  for (int64_t s : shape) count *= s;
  return count;
}

Tensor flat(const Tensor& t) { return t && t.ndim() != 1 ? reshape(t, Dims{t.numel()}) : t; }

}  // namespace

struct LayerNorm {
  static constexpr Schema schema{
      "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> "
      "Tensor"};
  Dims normalized_shape;
  double eps;

  Tensor compose(Inputs in) const {
    require_floating("layer_norm", in[0].dtype());
    const int64_t count = normalized_count(in[0], normalized_shape, in[1], in[2]);
    return row_norm(op_RowNorm, {count, 1, 1, true, eps}, in[0], flat(in[1]), flat(in[2])).y;
  }
};
WEFT_OP(LayerNorm);

struct RmsNorm {
  static constexpr Schema schema{
      "rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor"};
  Dims normalized_shape;
  std::optional<double> eps;

  Tensor compose(Inputs in) const {
    const Tensor &x = in[0], none;
    require_floating("rms_norm", x.dtype());
    const int64_t count = normalized_count(x, normalized_shape, in[1], none);
    const double added = eps ? *eps : epsilon_of(wide_dtype(x.dtype()));
    return row_norm(op_RmsRowNorm, {count, 1, 1, false, added}, x, flat(in[1]), none).y;
  }
};
WEFT_OP(RmsNorm);

namespace {

// The error that statistics of a single value are.
void refuse_single_value(const char* of, int64_t values, const std::string& size) {
  if (values == 1) fail(ErrorKind::Value, "Expected more than 1 ", of, " when training, got input size ", size);
}

std::string torch_size(IntSpan sizes) { return "torch.Size(" + shape_text(sizes) + ")"; }

[[noreturn, gnu::cold]] void fail_few_dims(const char* name, const Tensor& x) {
  fail(ErrorKind::Index, "Dimension out of range (expected to be in range of [-1, 0], but got 1): ", name,
       "() takes (batch, channels, ...), got ", describe(x.get()));
}

// Elements of one example's channel.
int64_t places(const Tensor& x) {
  int64_t count = 1;
  for (int d = 2; d < x.ndim(); ++d) count *= x.size(d);
  return count;
}

void check_channels(const char* which, const Tensor& t, const Tensor& x) {
  if (!t || (t.ndim() == 1 && t.numel() == x.size(1))) return;
  fail("Expected ", which, " to be a vector of size equal to the number of channels in input, but got ", which,
       " of shape ", shape_text(t.sizes()), " and input of shape ", shape_text(x.sizes()));
}

}  // namespace

struct GroupNorm {
  static constexpr Schema schema{
      "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor"};
  int64_t num_groups;
  double eps;

  Tensor compose(Inputs in) const {
    const Tensor& x = in[0];
    if (x.ndim() < 2) fail("Expected at least 2 dimensions for input tensor but received ", x.ndim());
    require_floating("group_norm", x.dtype());
    if (num_groups <= 0) fail("Expected num groups to be greater than 0, got ", num_groups);
    const int64_t channels = x.size(1), inner = places(x);
    if (channels % num_groups != 0) {
      fail("Expected number of channels in input to be divisible by num_groups, but got input of shape ",
           shape_text(x.sizes()), " and num_groups=", num_groups);
    }
    check_channels("weight", in[1], x);
    check_channels("bias", in[2], x);
    if (x.numel() > 0)
      refuse_single_value("value per channel", channels / num_groups * inner * x.size(0), shape_text(x.sizes()));
    return row_norm(op_GroupRowNorm, {channels / num_groups, inner, num_groups, true, eps}, x, in[1], in[2]).y;
  }
};
WEFT_OP(GroupNorm);

// ---- channels: batch norm --------------------------------------------------------------------------

namespace {

cpu::Channels channels_of(const Tensor& x) {
  const int64_t channels = x.size(1), inner = places(x), batch = x.size(0);
  if (inner != 1 && x->is_contiguous()) return {channels, false, {batch, inner, channels * inner}, 0};
  return {channels, true, {}, batch * inner};
}

int64_t channels_last_of(const Tensor& x) { return x.ndim() == 5 ? kChannelsLast3d : kChannelsLast; }

bool lies_channels_last(const Tensor& x) {
  return (x.ndim() == 4 || x.ndim() == 5) && !x->is_contiguous() && is_laid_out(x, channels_last_of(x));
}

// As kernels take it: contiguous or channels last, and wide.
Tensor dense_batch(const Tensor& x, DType wide, bool channels_last) {
  const Tensor values = values_as(x, wide);
  if (channels_last ? lies_channels_last(values) : values->is_contiguous()) return values;
  Meta meta;
  meta.set(wide, x->device, x.sizes());
  if (!channels_last) return detached_copy(values);
  lay_out(&meta, channels_last_of(x), Tensor());
  const Tensor copy = empty_strided(meta.shape(), meta.stride_span(), wide, x->device);
  copy_into(copy, values);
  return copy;
}

void set_batch(const Tensor& x, Meta* out) {
  out->set(x.dtype(), x->device, x.sizes());
  if (lies_channels_last(x)) lay_out(out, channels_last_of(x), Tensor());
}

void check_parameter(const char* which, const Tensor& t, const Tensor& x) {
  if (t && t.numel() != x.size(1)) fail(which, " should contain ", x.size(1), " elements not ", t.numel());
}

}  // namespace

// Results: the normalised input; the mean of every channel; its scale and, in training, under it the variance
// of samples, which the running statistics want. Mean and scale are those of the batch in training, and
// otherwise the running ones.
struct BatchNorm {
  static constexpr Schema schema{
      "batch_norm_forward(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool "
      "training, float eps) -> (Tensor, Tensor, Tensor)"};
  static constexpr uint32_t traits = kFirstOutputOnly;
  static constexpr uint32_t kKept = input(0) | input(1) | output(1) | output(2);
  static constexpr Saves saves{{kKept, kKept, kKept}};
  static constexpr const char* backward_name = "NativeBatchNormBackward0";
  bool training;
  double eps;

  void infer(Inputs in, Meta* out) const {
    const Tensor& x = in[0];
    require_floating("batch_norm", x.dtype());
    if (x.ndim() < 2) fail_few_dims("batch_norm", x);
    check_parameter("running_mean", in[3], x);
    check_parameter("running_var", in[4], x);
    check_parameter("weight", in[1], x);
    check_parameter("bias", in[2], x);
    refuse_other_dtype("batch_norm", "weight", in[1], x.dtype());
    refuse_other_dtype("batch_norm", "bias", in[2], x.dtype());
    refuse_other_dtype("batch_norm", "running_mean", in[3], x.dtype());
    refuse_other_dtype("batch_norm", "running_var", in[4], x.dtype());
    if (!training && (!in[3] || !in[4])) {
      fail(in[3] ? "running_var" : "running_mean", " must be defined in evaluation mode");
    }
    const int64_t channels[] = {x.size(1)}, scales[] = {training ? 2 : 1, x.size(1)};
    set_batch(x, &out[0]);
    out[1].set(wide_dtype(x.dtype()), x->device, channels);
    out[2].set(wide_dtype(x.dtype()), x->device, scales);
  }
  void run(Inputs in, Tensor* out) const {
    const DType wide = out[1].dtype();
    if (!training) {
      copy_into(out[1], in[3]);
      const Tensor variance = dense(in[4], wide);
      write_scale(variance, out[2]);
    }
    if (in[0].numel() == 0) return;
    const int64_t channels = out[1].numel();
    const Tensor x = dense_batch(in[0], wide, lies_channels_last(in[0]));
    const Tensor weight = dense(in[1], wide), bias = dense(in[2], wide), y = wide_result(out[0], wide);
    {
      const Unlocked unlocked(x.numel() >= kLargeNorm);
      cpu::normalise_channels(wide, channels_of(x), x->data, {data_of(weight), data_of(bias)}, y->data, out[1]->data,
                              out[2]->data, training ? out[2]->data + channels * item_size(wide) : nullptr, eps);
    }
    finish_result(out[0], y);
  }
  static void vjp(Backward& b);

 private:
  void write_scale(const Tensor& variance, const Tensor& scale) const {
    const auto write = [&]<class T>(T) {
      const T *from = variance.data<T>(), added = static_cast<T>(eps);
      for (int64_t c = 0; c < scale.numel(); ++c) scale.data<T>()[c] = T(1) / math::sqrt(from[c] + added);
    };
    if (scale.dtype() == DType::Float64) write(double{});
    else write(float{});
  }
};
WEFT_OP(BatchNorm);

struct BatchNormGrad {
  static constexpr Schema schema{
      "batch_norm_grad(Tensor grad, Tensor input, Tensor mean, Tensor scale, Tensor? weight, bool training, float eps, "
      "bool wants_weight, bool wants_bias) -> (Tensor, Tensor, Tensor)"};
  static constexpr uint32_t kKept = input(0) | input(1) | input(2) | input(3) | input(4);
  static constexpr Saves saves{{kKept, kKept, kKept, kKept}};
  static constexpr const char* backward_name = "NativeBatchNormBackwardBackward0";
  bool training;
  double eps;
  bool wants_weight, wants_bias;

  void infer(Inputs in, Meta* out) const {
    const Tensor &g = in[0], &x = in[1];
    require_floating("batch_norm_grad", x.dtype());
    require_floating("batch_norm_grad", g.dtype());
    if (x.ndim() < 2 || !std::equal(g.sizes().begin(), g.sizes().end(), x.sizes().begin(), x.sizes().end())) {
      fail("batch_norm_grad(): ", shape_text(g.sizes()), " and ", shape_text(x.sizes()), " do not fit");
    }
    check_parameter("weight", in[4], x);
    for (int i = 2; i < 4; ++i) {
      const int64_t numbers = in[i].numel();
      if ((i == 2 ? numbers == x.size(1) : numbers >= x.size(1)) && in[i].dtype() == wide_dtype(x.dtype()) &&
          in[i]->is_contiguous())
        continue;
      fail("batch_norm_grad(): one mean and one scale for each channel expected, got ", describe(in[i].get()));
    }
    const DType of_weight = in[4] ? in[4].dtype() : x.dtype();
    const int64_t channels[] = {x.size(1)}, nothing[] = {0};
    set_batch(x, &out[0]);
    out[1].set(of_weight, x->device, wants_weight ? channels : nothing);
    out[2].set(of_weight, x->device, wants_bias ? channels : nothing);
  }
  void run(Inputs in, Tensor* out) const {
    const DType wide = in[2].dtype();
    if (in[1].numel() == 0) {
      for (int k = 1; k < 3; ++k) fill_value(out[k], Scalar(0.0));
      return;
    }
    const bool channels_last = lies_channels_last(in[1]);
    const Tensor g = dense_batch(in[0], wide, channels_last), x = dense_batch(in[1], wide, channels_last);
    const Tensor weight = dense(in[4], wide);
    Tensor results[3];
    for (int k = 0; k < 3; ++k) results[k] = wide_result(out[k], wide);
    {
      const Unlocked unlocked(x.numel() >= kLargeNorm);
      cpu::normalise_channels_backward(
          wide, channels_of(x), g->data, x->data, {data_of(weight), nullptr}, in[2]->data, in[3]->data, training,
          results[0]->data, wants_weight ? results[1]->data : nullptr, wants_bias ? results[2]->data : nullptr);
    }
    for (int k = 0; k < 3; ++k) finish_result(out[k], results[k]);
  }
  static void vjp(Backward& b) {
    const BatchNormGrad& op = b.op<BatchNormGrad>();
    const Tensor g = b.input(0), x = b.input(1), weight = b.input(4);
    Dims channels, others;
    channels.resize(x.ndim());
    others.resize(x.ndim() - 1);
    for (int d = 0; d < x.ndim(); ++d) {
      channels[d] = d == 1 ? x.size(1) : 1;
      if (d != 1) others[d == 0 ? 0 : d - 1] = d;
    }
    const auto as_channels = [&](const Tensor& t) { return t ? reshape(t, channels) : t; };
    const Tensor w = as_channels(weight), &u = b.grad(0);
    const Tensor v = op.wants_weight ? as_channels(b.grad(1)) : Tensor();
    const Tensor t = op.wants_bias ? as_channels(b.grad(2)) : Tensor();
    NormSlopes slopes;
    if (op.training) {
      slopes = slopes_of_backward({others, true, op.eps}, g, x, w, u, v, t);
    } else {  // mean and scale are constants
      const Tensor scale = as_channels(select(b.input(3), 0, 0)), normal = (x - as_channels(b.input(2))) * scale;
      if (u) slopes.grad = w ? u * scale * w : u * scale;
      if (v) slopes.grad = total(slopes.grad, v * normal);
      if (t) slopes.grad = total(slopes.grad, t);
      if (slopes.grad && slopes.grad.numel() != g.numel()) slopes.grad = expand(slopes.grad, g.sizes());
      if (v) slopes.input = g * v * scale;
      if (u && w) slopes.weight = g * u * scale;
    }
    if (b.needs(0) && slopes.grad) b.set(0, slopes.grad);
    if (b.needs(1) && slopes.input) b.set(1, slopes.input);
    if (weight && b.needs(4) && slopes.weight) b.set(4, reshape(sum_to(slopes.weight, channels), weight.sizes()));
  }
};
WEFT_OP(BatchNormGrad);

void BatchNorm::vjp(Backward& b) {
  const BatchNorm& op = b.op<BatchNorm>();
  if (!b.grad()) return;
  const bool wants_weight = b.needs(1), wants_bias = b.needs(2);
  const BatchNormGrad grad{op.training, op.eps, wants_weight, wants_bias};
  const Tensor x = b.input(0), weight = b.input(1), mean = b.output(1), scale = b.output(2);
  TensorImpl* in[] = {b.grad().get(), x.get(), mean.get(), scale.get(), weight.get()};
  Tensor out[3];
  apply(op_BatchNormGrad, &grad, Inputs(in, 5), out);
  if (b.needs(0)) b.set(0, std::move(out[0]));
  if (wants_weight) b.set(1, std::move(out[1]));
  if (wants_bias) b.set(2, std::move(out[2]));
}

namespace {

// running += momentum (of_batch - running)
void move_running(const Tensor& running, const Tensor& of_batch, double momentum) {
  if (!running) return;
  const Tensor end = to_dtype(of_batch, running.dtype()), weight = number(momentum);
  TensorImpl* in[] = {running.get(), end.get(), weight.get()};
  apply_in_place(op_Lerp, nullptr, Inputs(in, 3));
}

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                  const Tensor& bias, bool training, double momentum, double eps) {
  if (training && !(eps > 0)) {
    fail(ErrorKind::Value, "batch_norm eps must be positive during training, but got ", eps);
  }
  if (training && x.ndim() >= 2 && x.size(1) != 0) {
    refuse_single_value("value per channel", x.numel() / x.size(1), torch_size(x.sizes()));
  }
  if (x.ndim() == 1 && x.numel() == 0) return clone(x);
  const BatchNorm op{training, eps};
  TensorImpl* in[] = {x.get(), weight.get(), bias.get(), running_mean.get(), running_var.get()};
  Tensor out[3];
  apply(op_BatchNorm, &op, Inputs(in, 5), out);
  if (training && x.numel() > 0 && (running_mean || running_var)) {
    const GradMode off(false);
    move_running(running_mean, out[1], momentum);
    move_running(running_var, select(out[2], 0, 1), momentum);
  }
  return std::move(out[0]);
}

}  // namespace

struct BatchNormNd {
  static constexpr Schema schema{
      "batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? bias=None, "
      "bool "
      "training=False, float momentum=0.1, float eps=1e-05) -> Tensor"};
  bool training;
  double momentum, eps;

  Tensor compose(Inputs in) const { return batch_norm(in[0], in[1], in[2], in[3], in[4], training, momentum, eps); }
};
WEFT_OP(BatchNormNd);

struct InstanceNorm {
  static constexpr Schema schema{
      "instance_norm(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None, Tensor? "
      "bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-05) -> Tensor"};
  bool use_input_stats;
  double momentum, eps;

  Tensor compose(Inputs in) const {
    const Tensor &x = in[0], &running_mean = in[1], &running_var = in[2];
    if (!use_input_stats && (!running_mean || !running_var)) {
      fail("Expected running_mean and running_var to be defined when use_input_stats is false");
    }
    if (!use_input_stats) return batch_norm(x, running_mean, running_var, in[3], in[4], false, momentum, eps);
    if (x.ndim() < 2) fail_few_dims("instance_norm", x);
    require_floating("instance_norm", x.dtype());
    const int64_t inner = places(x), channels = x.size(1);
    refuse_single_value("spatial element", inner, torch_size(x.sizes()));
    check_parameter("running_mean", running_mean, x);
    check_parameter("running_var", running_var, x);
    check_parameter("weight", in[3], x);
    check_parameter("bias", in[4], x);
    const RowNorm op{1, inner, std::max<int64_t>(1, channels), true, eps};
    NormResults results = row_norm(op_GroupRowNorm, op, x, in[3], in[4]);
    if (x.numel() > 0 && (running_mean || running_var)) {
      const GradMode off(false);
      // The mean of what the examples of the batch have; variances of samples.
      const Dims shape{x.size(0), channels};
      const auto over_batch = [&](const Tensor& t) {
        return sum(reshape(t, shape), Dims{0}, false) * (1.0 / static_cast<double>(x.size(0)));
      };
      move_running(running_mean, over_batch(results.mean), momentum);
      const double samples = static_cast<double>(inner) / static_cast<double>(inner - 1);
      const Tensor scale = to_dtype(results.scale, DType::Float64);
      move_running(running_var, over_batch((reciprocal(square(scale)) + -eps) * samples), momentum);
    }
    return std::move(results.y);
  }
};
WEFT_OP(InstanceNorm);

}  // namespace weft
