// Convolutions, transposed convolutions and their gradients, which are again of these three kinds.
#include "core/ops/convolution.h"

#include <algorithm>
#include <string>

#include "core/ops/products.h"
#include "core/ops/reduce_common.h"
#include "core/ops/shape.h"

namespace weft {

extern const OpTable op_Convolve, op_ConvolveTransposed, op_ConvolveWeightGrad;

// ---- shared with other operations on images -----------------------------------------------------

Dims spatial_list(const char* name, const Dims& given, int spatial) {
  if (given.size() == spatial) return given;
  if (given.size() != 1) {
    fail("expected ", name, " to be a single integer value or a list of ", spatial,
         " values to match the convolution dimensions, but got ", name, "=", shape_text(given));
  }
  Dims all;
  all.resize(spatial);
  std::fill_n(all.data(), spatial, given[0]);
  return all;
}

void refuse_huge(const char* name, const Dims& values) {
  for (int64_t value : values) {
    if (value <= -kLargestWindow || value >= kLargestWindow) {
      fail(name, " of ", value, " is too large: at most ", kLargestWindow - 1, " is supported");
    }
  }
}

std::string sizes_text(IntSpan sizes) {
  std::string text;
  for (int64_t size : sizes) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

bool is_channels_last(const Tensor& t) {
  if (t->is_contiguous()) return false;
  return (t.ndim() == 4 && is_laid_out(t, kChannelsLast)) || (t.ndim() == 5 && is_laid_out(t, kChannelsLast3d));
}

void set_images(const Tensor& like, bool channels_last, Meta* out) {
  out->strided = false;
  if (channels_last) lay_out(out, out->ndim == 4 ? kChannelsLast : kChannelsLast3d, like);
}

ImagesOf::ImagesOf(const Tensor& t, DType dtype) : tensor_(values_as(t, dtype)), channels_last_(false) {
  if (tensor_->is_contiguous()) return;
  channels_last_ = is_channels_last(tensor_);
  if (!channels_last_) tensor_ = detached_copy(tensor_);
}

ImagesInto::ImagesInto(const Tensor& target, DType dtype) : ImagesInto(target, dtype, is_channels_last(target)) {}

ImagesInto::ImagesInto(const Tensor& target, DType dtype, bool channels_last)
    : target_(target), tensor_(target), channels_last_(channels_last) {
  const int64_t format = !channels_last ? kContiguousFormat : target.ndim() == 4 ? kChannelsLast : kChannelsLast3d;
  if (target.dtype() == dtype && is_laid_out(target, format)) return;
  Meta meta;
  meta.set(dtype, target->device, target.sizes());
  set_images(target, channels_last, &meta);
  tensor_ = meta.strided ? empty_strided(meta.shape(), meta.stride_span(), dtype) : empty(meta.shape(), dtype);
}

void ImagesInto::finish() const {
  if (tensor_.get() != target_.get()) copy_into(target_, tensor_);
}

namespace {

// ---- checks -------------------------------------------------------------------------------------

[[noreturn, gnu::cold]] void fail_types(const char* other, const Tensor& input, const Tensor& parameter) {
  fail("Input type (", dtype_name(input.dtype()), ") and ", other, " type (", dtype_name(parameter.dtype()),
       ") should be the same: convert the input with .to(", other, ".dtype)");
}

void check_windows(const Dims& stride, const Dims& padding, const Dims& dilation, int64_t groups) {
  const auto any = [](const Dims& values, auto bad) { return std::any_of(values.begin(), values.end(), bad); };
  const auto not_positive = [](int64_t v) { return v <= 0; };
  if (any(padding, [](int64_t v) { return v < 0; })) fail("negative padding is not supported");
  if (any(stride, not_positive)) fail("non-positive stride is not supported");
  if (any(dilation, not_positive)) fail("non-positive dilation is not supported");
  if (groups <= 0) fail("non-positive groups is not supported");
  refuse_huge("stride", stride);
  refuse_huge("padding", padding);
  refuse_huge("dilation", dilation);
}

void check_weight(const Tensor& weight, int64_t groups) {
  if (weight.size(0) < groups || weight.size(0) == 0) {
    fail("Given groups=", groups, ", expected weight to be at least ", groups,
         " at dimension 0, but got weight of size ", shape_text(weight.sizes()), " instead");
  }
  if (weight.size(0) % groups != 0) {
    fail("Given groups=", groups, ", expected weight to be divisible by ", groups,
         " at dimension 0, but got weight of size ", shape_text(weight.sizes()), " instead");
  }
  refuse_huge("kernel size", Dims(weight.sizes()));
  for (int d = 2; d < weight.ndim(); ++d) {
    if (weight.size(d) == 0) fail("kernel size should be greater than zero, but got ", shape_text(weight.sizes()));
  }
}

void check_bias(const char* given, const Tensor& weight, const Tensor& bias, int64_t channels) {
  if (!bias || (bias.ndim() == 1 && bias.size(0) == channels)) return;
  fail("Given ", given, "weight of size ", shape_text(weight.sizes()), ", expected bias to be 1-dimensional with ",
       channels, " elements, but got bias of size ", shape_text(bias.sizes()), " instead");
}

void check_dtypes(Inputs in, const char* name) {
  if (in[0].dtype() != in[1].dtype()) fail_types("weight", in[0], in[1]);
  if (in.size() > 2 && in[2] && in[0].dtype() != in[2].dtype()) fail_types("bias", in[0], in[2]);
  refuse_complex(name, in[0].dtype());
  if (in[0].dtype() == DType::Bool) fail(ErrorKind::NotImplemented, "\"", name, "\" not implemented for 'Bool'");
}

void check_spatial(const Tensor& t) {
  for (int d = 2; d < t.ndim(); ++d) {
    if (t.size(d) != 0) continue;
    fail("Only zero batch or zero channel inputs are supported, but got input shape: ", shape_text(t.sizes()));
  }
}

// ---- kernels ------------------------------------------------------------------------------------

// `x` is what the convolution (not transposed) reads, `y` what it writes.
cpu::ConvolutionShape shape_of(IntSpan x, IntSpan kernel, IntSpan y, const Dims& stride, const Dims& padding,
                               const Dims& dilation, int64_t groups) {
  cpu::ConvolutionShape s{};
  s.spatial = static_cast<int>(kernel.size());
  s.batch = x[0];
  s.groups = groups;
  s.in_channels = x[1];
  s.out_channels = y[1];
  for (int d = 0; d < s.spatial; ++d) {
    s.in[d] = x[d + 2];
    s.out[d] = y[d + 2];
    s.kernel[d] = kernel[d];
    s.stride[d] = stride[d];
    s.padding[d] = padding[d];
    s.dilation[d] = dilation[d];
  }
  return s;
}

IntSpan kernel_of(const Tensor& weight) { return weight.sizes().subspan(2); }

// A convolution of nothing: its bias, or 0.
void fill_with_bias(const Tensor& out, const Tensor& bias) {
  if (!bias) return copy_into(out, zeros({}, out.dtype()));
  Dims sizes, strides;
  sizes.resize(out.ndim() - 1);
  strides.resize(out.ndim() - 1);
  for (int d = 0; d + 1 < out.ndim(); ++d) {
    sizes[d] = d == 0 ? bias.size(0) : 1;
    strides[d] = d == 0 ? bias.stride(0) : 1;
  }
  copy_into(out, alias(bias, sizes, strides, 0));
}

// Parameters as kernels take them: row-major, in the dtype they compute in.
Tensor plain(const Tensor& t, DType dtype) {
  if (!t) return t;
  const Tensor cast = values_as(t, dtype);
  return cast->is_contiguous() ? cast : detached_copy(cast);
}
const void* data_or_null(const Tensor& t) { return t ? t->data : nullptr; }

bool is_long(const cpu::ConvolutionShape& shape) { return shape.work() >= 128.0 * 128 * 128; }

// ---- calls of each other ------------------------------------------------------------------------

Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride, const Dims& padding,
                const Dims& dilation, int64_t groups);
Tensor convolve_transposed(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& sizes,
                           const Dims& stride, const Dims& padding, const Dims& dilation, int64_t groups);
struct WeightGradients { Tensor weight, bias; };
WeightGradients weight_gradients(const Tensor& x, const Tensor& grad, const Dims& kernel, const Dims& stride,
                                 const Dims& padding, const Dims& dilation, int64_t groups, bool with_bias);

// An output padding beyond the stride makes room for windows that the transposed convolution's input did
// not have.
Tensor cut_to(IntSpan sizes, Tensor convolved) {
  for (int d = 2; d < convolved.ndim(); ++d) {
    if (convolved.size(d) > sizes[d]) convolved = narrow(convolved, d, 0, sizes[d]);
  }
  return convolved;
}

Tensor sum_of_channels(const Tensor& grad) {
  Dims dims;
  dims.resize(grad.ndim() - 1);
  for (int d = 0; d + 1 < grad.ndim(); ++d) dims[d] = d == 0 ? 0 : d + 1;
  return sum(grad, dims, false);
}

}  // namespace

// ---- the three operations -----------------------------------------------------------------------

// Internal, as are the others: the functions that PyTorch names see to ranks and lengths of lists.
struct Convolve {
  static constexpr Schema schema{
      "convolve(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> "
      "Tensor"};
  static constexpr uint32_t traits = kInternal;
  static constexpr Saves saves{{input(1), input(0), 0}};
  static constexpr const char* backward_name = "ConvolutionBackward0";
  Dims stride, padding, dilation;
  int64_t groups;

  void infer(Inputs in, Meta* out) const {
    const Tensor &x = in[0], &weight = in[1], &bias = in[2];
    const int spatial = weight.ndim() - 2;
    check_windows(stride, padding, dilation, groups);
    check_weight(weight, groups);
    if (x.size(1) != weight.size(1) * groups) {
      fail("Given groups=", groups, ", weight of size ", shape_text(weight.sizes()), ", expected input",
           shape_text(x.sizes()), " to have ", weight.size(1) * groups, " channels, but got ", x.size(1),
           " channels instead: dimension 1 of the input holds the channels");
    }
    check_bias("", weight, bias, weight.size(0));
    out->set(x.dtype(), x->device, x.sizes().first(1));
    out->sizes[out->ndim++] = weight.size(0);
    Dims padded, kernel;
    padded.resize(spatial);
    kernel.resize(spatial);
    bool fits = true;
    for (int d = 0; d < spatial; ++d) {
      padded[d] = x.size(d + 2) + 2 * padding[d];
      kernel[d] = (weight.size(d + 2) - 1) * dilation[d] + 1;
      fits = fits && padded[d] >= kernel[d];
      if (fits) out->sizes[out->ndim++] = (padded[d] - kernel[d]) / stride[d] + 1;
    }
    if (!fits) {
      fail("Calculated padded input size per channel: (", sizes_text(padded), "). Kernel size: (", sizes_text(kernel),
           "). Kernel size can't be greater than actual input size");
    }
    check_spatial(x);
    check_dtypes(in, "conv");
    set_images(x, is_channels_last(x) || is_channels_last(weight), out);
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor &x = in[0], &bias = in[2];
    if (out[0].numel() == 0) return;
    if (x.numel() == 0) return fill_with_bias(out[0], bias);
    const DType dtype = compute_dtype(x.dtype());
    const Tensor weight = plain(in[1], dtype), added = plain(bias, dtype);
    const auto shape = shape_of(x.sizes(), kernel_of(weight), out[0].sizes(), stride, padding, dilation, groups);
    const ImagesOf from(x, dtype);
    const ImagesInto to(out[0], dtype);
    {
      const Unlocked unlocked(is_long(shape));
      cpu::convolve(dtype, shape, from, weight->data, data_or_null(added), to);
    }
    to.finish();
  }
  static void vjp(Backward& b) {
    const auto& [stride, padding, dilation, groups] = b.op<Convolve>();
    const Tensor& g = b.grad();
    if (b.needs(0)) {
      const Dims sizes(b.input_sizes(0).subspan(2));
      b.set(0, convolve_transposed(g, b.input(1), {}, sizes, stride, padding, dilation, groups));
    }
    if (b.needs(1)) {
      const Dims kernel(b.input_sizes(1).subspan(2));
      auto grads = weight_gradients(b.input(0), g, kernel, stride, padding, dilation, groups, b.needs(2));
      b.set(1, std::move(grads.weight));
      if (b.needs(2)) b.set(2, std::move(grads.bias));
    } else if (b.needs(2)) {
      b.set(2, sum_of_channels(g));
    }
  }
};
WEFT_OP(Convolve);

// The gradient of a convolution's input as an operation of its own: `input` is the gradient of the result,
// `sizes` are the spatial sizes of what it is the gradient of.
struct ConvolveTransposed {
  static constexpr Schema schema{
      "convolve_transposed(Tensor input, Tensor weight, Tensor? bias, int[] sizes, int[] stride, int[] padding, "
      "int[] dilation, int groups) -> Tensor"};
  static constexpr uint32_t traits = kInternal;
  static constexpr Saves saves{{input(1), input(0), 0}};
  static constexpr const char* backward_name = "ConvolutionBackward0";
  Dims sizes, stride, padding, dilation;
  int64_t groups;

  void infer(Inputs in, Meta* out) const {
    const Tensor &x = in[0], &weight = in[1], &bias = in[2];
    check_windows(stride, padding, dilation, groups);
    check_weight(weight, groups);
    if (x.size(1) != weight.size(0)) {
      fail("Given transposed=1, weight of size ", shape_text(weight.sizes()), ", expected input", shape_text(x.sizes()),
           " to have ", weight.size(0), " channels, but got ", x.size(1),
           " channels instead: dimension 1 of the input holds the channels");
    }
    check_bias("transposed=1, ", weight, bias, weight.size(1) * groups);
    out->set(x.dtype(), x->device, x.sizes().first(1));
    out->sizes[out->ndim++] = weight.size(1) * groups;
    for (int64_t size : sizes) out->sizes[out->ndim++] = size;
    check_spatial(x);
    check_dtypes(in, "conv_transpose");
    set_images(x, is_channels_last(x) || is_channels_last(weight), out);
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor &x = in[0], &bias = in[2];
    if (out[0].numel() == 0) return;
    if (x.numel() == 0) return fill_with_bias(out[0], bias);
    const DType dtype = compute_dtype(x.dtype());
    const Tensor weight = plain(in[1], dtype), added = plain(bias, dtype);
    const auto shape = shape_of(out[0].sizes(), kernel_of(weight), x.sizes(), stride, padding, dilation, groups);
    const ImagesOf from(x, dtype);
    const ImagesInto to(out[0], dtype);
    {
      const Unlocked unlocked(is_long(shape));
      cpu::convolve_input_gradient(dtype, shape, from, weight->data, data_or_null(added), to);
    }
    to.finish();
  }
  static void vjp(Backward& b) {
    const auto& [sizes, stride, padding, dilation, groups] = b.op<ConvolveTransposed>();
    const Tensor& g = b.grad();
    if (b.needs(0)) {
      b.set(0, cut_to(b.input_sizes(0), convolve(g, b.input(1), {}, stride, padding, dilation, groups)));
    }
    if (b.needs(1)) {
      const Dims kernel(b.input_sizes(1).subspan(2));
      b.set(1, weight_gradients(g, b.input(0), kernel, stride, padding, dilation, groups, false).weight);
    }
    if (b.needs(2)) b.set(2, sum_of_channels(g));
  }
};
WEFT_OP(ConvolveTransposed);

// The gradients of a convolution's weight and bias: of `kernel`'s sizes, and of one number per channel.
struct ConvolveWeightGrad {
  static constexpr Schema schema{
      "convolve_weight_grad(Tensor input, Tensor grad, int[] kernel, int[] stride, int[] padding, int[] dilation, "
      "int groups, bool with_bias) -> (Tensor weight, Tensor bias)"};
  static constexpr uint32_t traits = kInternal;
  static constexpr Saves saves{{input(1), input(0)}};
  static constexpr const char* backward_name = "ConvolutionBackwardBackward0";
  Dims kernel, stride, padding, dilation;
  int64_t groups;
  bool with_bias;

  void infer(Inputs in, Meta* out) const {
    const Tensor &x = in[0], &g = in[1];
    const int64_t channels[] = {g.size(1), x.size(1) / groups};
    out[0].set(x.dtype(), x->device, channels);
    for (int64_t size : kernel) out[0].sizes[out[0].ndim++] = size;
    const int64_t biases[] = {with_bias ? g.size(1) : 0};
    out[1].set(x.dtype(), x->device, biases);
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor &x = in[0], &g = in[1];
    if (x.numel() == 0 || g.numel() == 0) {
      for (int i = 0; i < 2; ++i) copy_into(out[i], zeros({}, out[i].dtype()));
      if (with_bias && g.numel() > 0) copy_into(out[1], sum_of_channels(detach(g)));
      return;
    }
    const DType dtype = compute_dtype(x.dtype());
    const auto shape = shape_of(x.sizes(), kernel, g.sizes(), stride, padding, dilation, groups);
    const ImagesOf from(x, dtype), grad(g, dtype);
    const ImagesInto weight(out[0], dtype), bias(out[1], dtype);
    {
      const Unlocked unlocked(is_long(shape));
      cpu::convolve_weight_gradient(dtype, shape, from, grad, weight.data(), with_bias ? bias.data() : nullptr);
    }
    weight.finish();
    bias.finish();
  }
  static void vjp(Backward& b) {
    const auto& [kernel, stride, padding, dilation, groups, with_bias] = b.op<ConvolveWeightGrad>();
    const Tensor &of_weight = b.grad(0), of_bias = with_bias ? b.grad(1) : Tensor{};
    if (b.needs(0) && of_weight) {
      const Dims sizes(b.input_sizes(0).subspan(2));
      b.set(0, convolve_transposed(b.input(1), of_weight, {}, sizes, stride, padding, dilation, groups));
    }
    if (!b.needs(1)) return;
    if (of_weight) {
      const Tensor all = convolve(b.input(0), of_weight, of_bias, stride, padding, dilation, groups);
      b.set(1, cut_to(b.input_sizes(1), all));
    } else if (of_bias) {
      b.set(1, per_channel(of_bias, b.input_sizes(1)));
    }
  }

 private:
  static Tensor per_channel(const Tensor& values, IntSpan sizes) {
    Dims shape(sizes);
    for (int d = 0; d < shape.size(); ++d) shape[d] = d == 1 ? sizes[1] : 1;
    return expand(reshape(values, shape), sizes);
  }
};
WEFT_OP(ConvolveWeightGrad);

namespace {

Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride, const Dims& padding,
                const Dims& dilation, int64_t groups) {
  return call(op_Convolve, Convolve{stride, padding, dilation, groups}, x, weight, bias);
}

Tensor convolve_transposed(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& sizes,
                           const Dims& stride, const Dims& padding, const Dims& dilation, int64_t groups) {
  return call(op_ConvolveTransposed, ConvolveTransposed{sizes, stride, padding, dilation, groups}, x, weight, bias);
}

WeightGradients weight_gradients(const Tensor& x, const Tensor& grad, const Dims& kernel, const Dims& stride,
                                 const Dims& padding, const Dims& dilation, int64_t groups, bool with_bias) {
  const ConvolveWeightGrad op{kernel, stride, padding, dilation, groups, with_bias};
  TensorImpl* const items[] = {x.get(), grad.get()};
  Tensor out[2];
  apply(op_ConvolveWeightGrad, &op, Inputs(items, 2), out);
  return {std::move(out[0]), std::move(out[1])};
}

// ---- the functions PyTorch names ----------------------------------------------------------------

// What all of them begin with: a batch, and parameters of the right rank.
struct Prepared {
  Tensor batch;
  bool unbatched;
  Dims stride, padding, dilation;
};

Prepared prepare(const char* name, int spatial, Inputs in, const Dims& stride, const Dims& padding,
                 const Dims& dilation) {
  const Tensor &x = in[0], &weight = in[1];
  if (x.ndim() != spatial + 1 && x.ndim() != spatial + 2) {
    fail("Expected ", spatial + 1, "D (unbatched) or ", spatial + 2, "D (batched) input to ", name,
         ", but got input of size: ", shape_text(x.sizes()));
  }
  if (weight.ndim() < 3) fail("weight should have at least three dimensions, but got ", describe(weight.get()));
  if (weight.ndim() != spatial + 2) {
    fail("expected stride to be a single integer value or a list of ", weight.ndim() - 2,
         " values to match the convolution dimensions, but got stride=", shape_text(stride), ": ", name,
         " takes a weight of ", spatial + 2, " dimensions, got ", shape_text(weight.sizes()));
  }
  const bool unbatched = x.ndim() == spatial + 1;
  return {unbatched ? unsqueeze(x, 0) : x, unbatched, spatial_list("stride", stride, spatial),
          spatial_list("padding", padding, spatial), spatial_list("dilation", dilation, spatial)};
}

Tensor convolution(const char* name, int spatial, Inputs in, const Dims& stride, const Dims& padding,
                   const Dims& dilation, int64_t groups) {
  const Prepared p = prepare(name, spatial, in, stride, padding, dilation);
  const Tensor result = convolve(p.batch, in[1], in[2], p.stride, p.padding, p.dilation, groups);
  return p.unbatched ? squeeze(result, 0) : result;
}

// padding='same': as many outputs as inputs. Where the padding is odd, the end gets more.
Tensor padded_to_same(const Tensor& x, const Tensor& weight, const Dims& dilation, Dims* padding) {
  Dims sizes(x.sizes());
  for (int d = 0; d < padding->size(); ++d) {
    const int64_t total = dilation[d] * (weight.size(d + 2) - 1);
    (*padding)[d] = total / 2;
    sizes[d + 2] += total % 2;
  }
  if (std::equal(sizes.begin(), sizes.end(), x.sizes().begin())) return x;
  return place_in_zeros(x, sizes, contiguous_strides(sizes), 0);
}

Tensor convolution(const char* name, int spatial, Inputs in, const Dims& stride, const std::string& padding,
                   const Dims& dilation, int64_t groups) {
  if (padding != "same" && padding != "valid") fail("Invalid padding string: '", padding, "' (use 'same' or 'valid')");
  Prepared p = prepare(name, spatial, in, stride, Dims{0}, dilation);
  check_windows(p.stride, p.padding, p.dilation, groups);
  Tensor x = p.batch;
  if (padding == "same") {
    for (int64_t step : p.stride) {
      if (step != 1) fail("padding='same' is not supported for strided convolutions");
    }
    x = padded_to_same(x, in[1], p.dilation, &p.padding);
  }
  const Tensor result = convolve(x, in[1], in[2], p.stride, p.padding, p.dilation, groups);
  return p.unbatched ? squeeze(result, 0) : result;
}

void check_output_padding(const Dims& output_padding, const Dims& stride, const Dims& dilation) {
  refuse_huge("output_padding", output_padding);
  for (int64_t value : output_padding) {
    if (value < 0) fail("negative output_padding is not supported");
  }
  for (int d = 0; d < output_padding.size(); ++d) {
    if (output_padding[d] < stride[d] || output_padding[d] < dilation[d]) continue;
    fail("output padding must be smaller than either stride or dilation, but got output_padding: ",
         shape_text(output_padding), " stride: ", shape_text(stride), " dilation: ", shape_text(dilation));
  }
}

Tensor transposed_convolution(const char* name, int spatial, Inputs in, const Dims& stride, const Dims& padding,
                              const Dims& output_padding, int64_t groups, const Dims& dilation) {
  const Prepared p = prepare(name, spatial, in, stride, padding, dilation);
  const Dims more = spatial_list("output_padding", output_padding, spatial);
  check_windows(p.stride, p.padding, p.dilation, groups);
  check_output_padding(more, p.stride, p.dilation);
  check_weight(in[1], groups);
  check_spatial(p.batch);
  Dims sizes;
  sizes.resize(spatial);
  for (int d = 0; d < spatial; ++d) {
    refuse_huge("input size", Dims{p.batch.size(d + 2)});
    sizes[d] = (p.batch.size(d + 2) - 1) * p.stride[d] - 2 * p.padding[d] + p.dilation[d] * (in[1].size(d + 2) - 1) +
               more[d] + 1;
  }
  if (std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 1; })) {
    fail("Given input size per channel: (", sizes_text(p.batch.sizes().subspan(2)),
         "). Calculated output size per channel: (", sizes_text(sizes), "). Output size is too small");
  }
  const Tensor result = convolve_transposed(p.batch, in[1], in[2], sizes, p.stride, p.padding, p.dilation, groups);
  return p.unbatched ? squeeze(result, 0) : result;
}

}  // namespace

#define WEFT_CONVOLUTION(Struct, name, spatial, list)                                                                \
  struct Struct {                                                                                                    \
    static constexpr Schema schema{#name "(Tensor input, Tensor weight, Tensor? bias=None, " list " stride=1, " list \
                                         " padding=0, " list " dilation=1, int groups=1) -> Tensor"};                \
    static constexpr const char* backward_name = "ConvolutionBackward0";                                             \
    Dims stride, padding, dilation;                                                                                  \
    int64_t groups;                                                                                                  \
                                                                                                                     \
    Tensor compose(Inputs in) const { return convolution(#name, spatial, in, stride, padding, dilation, groups); }   \
  };                                                                                                                 \
  WEFT_OP(Struct);                                                                                                   \
                                                                                                                     \
  struct Struct##Named {                                                                                             \
    static constexpr Schema schema{#name ".padding(Tensor input, Tensor weight, Tensor? bias=None, " list            \
                                         " stride=1, str padding='valid', " list                                     \
                                         " dilation=1, int groups=1) -> Tensor"};                                    \
    static constexpr const char* backward_name = "ConvolutionBackward0";                                             \
    Dims stride;                                                                                                     \
    std::string padding;                                                                                             \
    Dims dilation;                                                                                                   \
    int64_t groups;                                                                                                  \
                                                                                                                     \
    Tensor compose(Inputs in) const { return convolution(#name, spatial, in, stride, padding, dilation, groups); }   \
  };                                                                                                                 \
  WEFT_OP(Struct##Named);

WEFT_CONVOLUTION(Conv1d, conv1d, 1, "int[1]")
WEFT_CONVOLUTION(Conv2d, conv2d, 2, "int[2]")
WEFT_CONVOLUTION(Conv3d, conv3d, 3, "int[3]")

#define WEFT_TRANSPOSED_CONVOLUTION(Struct, name, spatial, list)                                                     \
  struct Struct {                                                                                                    \
    static constexpr Schema schema{#name "(Tensor input, Tensor weight, Tensor? bias=None, " list " stride=1, " list \
                                         " padding=0, " list " output_padding=0, int groups=1, " list                \
                                         " dilation=1) -> Tensor"};                                                  \
    static constexpr const char* backward_name = "ConvolutionBackward0";                                             \
    Dims stride, padding, output_padding;                                                                            \
    int64_t groups;                                                                                                  \
    Dims dilation;                                                                                                   \
                                                                                                                     \
    Tensor compose(Inputs in) const {                                                                                \
      return transposed_convolution(#name, spatial, in, stride, padding, output_padding, groups, dilation);          \
    }                                                                                                                \
  };                                                                                                                 \
  WEFT_OP(Struct);

WEFT_TRANSPOSED_CONVOLUTION(ConvTranspose1d, conv_transpose1d, 1, "int[1]")
WEFT_TRANSPOSED_CONVOLUTION(ConvTranspose2d, conv_transpose2d, 2, "int[2]")
WEFT_TRANSPOSED_CONVOLUTION(ConvTranspose3d, conv_transpose3d, 3, "int[3]")

}  // namespace weft
