// Pooling: the largest element or the average of every window of an image.
#include "core/kernels/cpu/pooling.h"

#include <algorithm>
#include <string>

#include "core/ops/convolution.h"
#include "core/ops/reduce_common.h"

namespace weft {

extern const OpTable op_MaxWindows, op_MaxAdaptive, op_AverageWindows, op_AverageWindowsGrad, op_AverageAdaptive,
    op_AverageAdaptiveGrad, op_AddAtIndices, op_TakeAtIndices;

namespace {

constexpr int64_t kUnlockAt = 64 * 1024;
constexpr const char* kCounts[] = {"", "one int", "two ints", "three ints"};
constexpr const char* kRanks[] = {"", "2D or 3D", "3D or 4D", "4D or 5D"};

// ---- checks -------------------------------------------------------------------------------------

// The names of functions end in 1d, 2d or 3d.
int spatial_of(const char* name) { return std::string_view(name).rbegin()[1] - '0'; }

Dims list_of(const char* name, const char* parameter, const Dims& given) {
  const int spatial = spatial_of(name);
  if (given.size() == spatial) return given;
  if (given.size() != 1) {
    fail(name, ": ", parameter, " must either be a single int, or a tuple of ", kCounts[spatial], ", got ",
         shape_text(given));
  }
  return spatial_list(parameter, given, spatial);
}

[[noreturn, gnu::cold]] void fail_window(const char* name, const char* what, const char* must, const Dims& got) {
  fail(what, " should be ", must, ", but got ", shape_text(got), " (", name, ")");
}

void check_windows(const char* name, const Windows& w) {
  const auto any = [](const Dims& values, auto bad) { return std::any_of(values.begin(), values.end(), bad); };
  const auto not_positive = [](int64_t v) { return v <= 0; };
  if (any(w.stride, [](int64_t v) { return v == 0; })) fail("stride should not be zero (", name, ")");
  if (any(w.kernel, not_positive)) fail_window(name, "kernel size", "greater than zero", w.kernel);
  if (any(w.stride, not_positive)) fail_window(name, "stride", "greater than zero", w.stride);
  if (any(w.dilation, not_positive)) fail_window(name, "dilation", "greater than zero", w.dilation);
  refuse_huge("kernel size", w.kernel);
  refuse_huge("stride", w.stride);
  refuse_huge("dilation", w.dilation);
  for (int d = 0; d < w.kernel.size(); ++d) {
    if (w.padding[d] < 0) fail("pad must be non-negative, but got pad: ", w.padding[d], " (", name, ")");
    if (w.padding[d] > ((w.kernel[d] - 1) * w.dilation[d] + 1) / 2) {
      fail("pad should be at most half of effective kernel size, but got pad=", w.padding[d],
           ", kernel_size=", w.kernel[d], " and dilation=", w.dilation[d], " (", name, ")");
    }
  }
}

// An image with or without a batch, none of whose other sizes is 0.
void check_images(const char* name, const Tensor& x, int spatial) {
  const bool right_rank = x.ndim() == spatial + 1 || x.ndim() == spatial + 2;
  bool empty = false;
  for (int d = right_rank ? x.ndim() - spatial - 1 : 0; d < x.ndim(); ++d) empty = empty || x.size(d) == 0;
  if (!right_rank) {
    fail(name, ": non-empty ", kRanks[spatial], " (batch mode) tensor expected for input. Expected ", kRanks[spatial],
         " (batch mode) tensor with optional 0 dim batch size for input, but got:", shape_text(x.sizes()));
  }
  if (empty) {
    fail(name, ": Expected ", kRanks[spatial],
         " (batch mode) tensor with optional 0 dim batch size for input, but got:", shape_text(x.sizes()));
  }
}

void check_dtype(const char* name, const Tensor& x, bool integers) {
  refuse_complex(name, x.dtype());
  if (x.dtype() == DType::Bool || (!integers && !is_floating(x.dtype()))) refuse_dtype(name, x.dtype());
}

int64_t pooled_size(int64_t in, const Windows& w, int d, bool ceil_mode) {
  const int64_t room =
      in + 2 * w.padding[d] - w.dilation[d] * (w.kernel[d] - 1) - 1 + (ceil_mode ? w.stride[d] - 1 : 0);
  int64_t out = (room >= 0 ? room / w.stride[d] : -((-room + w.stride[d] - 1) / w.stride[d])) + 1;
  // With ceil_mode the last window must still begin inside the image or before it.
  if (ceil_mode && (out - 1) * w.stride[d] >= in + w.padding[d]) --out;
  return out;
}

// The shape of what pooling gives, channels-last where the input is.
void infer_pooled(const char* name, const Tensor& x, const Windows& w, bool ceil_mode, Meta* out) {
  const int spatial = w.kernel.size();
  check_images(name, x, spatial);
  check_windows(name, w);
  out->set(x.dtype(), x->device, x.sizes().first(x.ndim() - spatial));
  bool too_small = false;
  for (int d = 0; d < spatial; ++d) {
    const int64_t size = x.size(x.ndim() - spatial + d);
    refuse_huge("image size", Dims{size});
    out->sizes[out->ndim++] = pooled_size(size, w, d, ceil_mode);
    too_small = too_small || out->sizes[out->ndim - 1] < 1;
  }
  if (too_small) {
    fail("Given input size: (", sizes_text(x.sizes().last(spatial + 1)), "). Calculated output size: (",
         sizes_text(out->shape().last(spatial + 1)), "). Output size is too small (", name, ")");
  }
  set_images(x, is_channels_last(x), out);
}

void infer_adaptive(const char* name, const Tensor& x, const Dims& output, Meta* out) {
  const int spatial = output.size();
  if (x.ndim() != spatial + 1 && x.ndim() != spatial + 2) {
    fail(name, "(): Expected ", kRanks[spatial], " tensor, but got ", shape_text(x.sizes()));
  }
  for (int d = x.ndim() - spatial; d < x.ndim(); ++d) {
    if (x.size(d) != 0) continue;
    fail(name, "(): Expected input to have non-zero size for non-batch dimensions, but input has sizes ",
         shape_text(x.sizes()), " with dimension ", d, " being empty");
  }
  out->set(x.dtype(), x->device, x.sizes().first(x.ndim() - spatial));
  for (int64_t size : output) {
    if (size < 0) {
      fail(name, ": elements of output_size must be greater than or equal to 0 but received ", shape_text(output));
    }
    out->sizes[out->ndim++] = size;
  }
  refuse_huge("output_size", output);
  set_images(x, is_channels_last(x), out);
}

// ---- kernels ------------------------------------------------------------------------------------

// The geometry without its windows: batch and channels of an image of these sizes.
cpu::PoolingShape planes_of(IntSpan sizes, int spatial) {
  cpu::PoolingShape s{};
  const int rank = static_cast<int>(sizes.size());
  s.batch = rank == spatial + 2 ? sizes[0] : 1;
  s.channels = sizes[rank - spatial - 1];
  for (int d = 0; d < cpu::kMostSpatial - spatial; ++d) s.along[d] = cpu::adaptive_windows(1, 1);
  return s;
}

cpu::PoolingShape windows_shape(IntSpan in, IntSpan out, const Windows& w, bool count_padding, double divisor) {
  const int spatial = w.kernel.size(), missing = cpu::kMostSpatial - spatial;
  cpu::PoolingShape s = planes_of(in, spatial);
  s.divisor = divisor;
  for (int d = 0; d < spatial; ++d) {
    s.along[missing + d] = cpu::regular_windows(in[in.size() - spatial + d], out[out.size() - spatial + d], w.kernel[d],
                                                w.stride[d], w.padding[d], w.dilation[d], count_padding);
  }
  return s;
}

cpu::PoolingShape adaptive_shape(IntSpan in, IntSpan out, int spatial) {
  cpu::PoolingShape s = planes_of(in, spatial);
  for (int d = 0; d < spatial; ++d) {
    s.along[cpu::kMostSpatial - spatial + d] =
        cpu::adaptive_windows(in[in.size() - spatial + d], out[out.size() - spatial + d]);
  }
  return s;
}

// Integers of any size are compared and added as int64.
DType pooling_dtype(DType dtype) { return is_floating(dtype) ? compute_dtype(dtype) : DType::Int64; }

void run_max(const cpu::PoolingShape& shape, const Tensor& x, Tensor* out) {
  if (out[0].numel() == 0) return;
  const DType dtype = pooling_dtype(x.dtype());
  const ImagesOf from(x, dtype);
  const bool channels_last = cpu::Images(from).channels_last;
  const ImagesInto values(out[0], dtype, channels_last), indices(out[1], DType::Int64, channels_last);
  {
    const Unlocked unlocked(x.numel() >= kUnlockAt);
    cpu::pool_max(dtype, shape, from, values, reinterpret_cast<int64_t*>(indices.data()));
  }
  values.finish();
  indices.finish();
}

template <class Kernel>
void run_average(Kernel kernel, const cpu::PoolingShape& shape, const Tensor& x, const Tensor& out) {
  if (out.numel() == 0) return;
  const DType dtype = pooling_dtype(x.dtype());
  if (x.numel() == 0) return copy_into(out, zeros({}, out.dtype()));
  const ImagesOf from(x, dtype);
  const ImagesInto to(out, dtype, cpu::Images(from).channels_last);
  {
    const Unlocked unlocked(x.numel() >= kUnlockAt);
    kernel(dtype, shape, from, to);
  }
  to.finish();
}

Tensor add_at_indices(const Tensor& values, const Tensor& indices, IntSpan sizes, int64_t spatial);
Tensor take_at_indices(const Tensor& values, const Tensor& indices, int64_t spatial);

Tensor plain(const Tensor& t, DType dtype) {
  const Tensor cast = values_as(t, dtype);
  return cast->is_contiguous() ? cast : detached_copy(cast);
}

// Elements of one channel's plane.
int64_t plane_size(IntSpan sizes, int64_t spatial) {
  int64_t n = 1;
  for (int64_t size : sizes.last(static_cast<size_t>(spatial))) n *= size;
  return n;
}

}  // namespace

// ---- the largest element ------------------------------------------------------------------------

// Internal, as are all with indices or gradients: the functions further below see to lists and indices.
//
// The values, and where in its channel's plane each one lies.
struct MaxWindows {
  static constexpr Schema schema{
      "max_windows(Tensor input, str name, int[] kernel_size, int[] stride, int[] padding, int[] dilation, "
      "bool ceil_mode) -> (Tensor values, Tensor indices)"};
  static constexpr uint32_t traits = kInternal | kFirstOutputOnly;
  static constexpr Saves saves{{output(1)}};
  static constexpr const char* backward_name = "MaxPool2DWithIndicesBackward0";
  std::string name;
  Dims kernel, stride, padding, dilation;
  bool ceil_mode;

  Windows windows() const { return {kernel, stride, padding, dilation}; }
  void infer(Inputs in, Meta* out) const {
    infer_pooled(name.c_str(), in[0], windows(), ceil_mode, out);
    check_dtype(name.c_str(), in[0], true);
    out[1] = out[0];
    out[1].dtype = DType::Int64;
  }
  void run(Inputs in, Tensor* out) const {
    if (out[0].numel() == 0) return;
    run_max(windows_shape(in[0].sizes(), out[0].sizes(), windows(), false, 0), in[0], out);
  }
  static void vjp(Backward& b) {
    b.set(0, add_at_indices(b.grad(), b.output(1), b.input_sizes(0), b.op<MaxWindows>().kernel.size()));
  }
};
WEFT_OP(MaxWindows);

struct MaxAdaptive {
  static constexpr Schema schema{
      "max_adaptive(Tensor input, str name, int[] output_size) -> (Tensor values, Tensor indices)"};
  static constexpr uint32_t traits = kInternal | kFirstOutputOnly;
  static constexpr Saves saves{{output(1)}};
  static constexpr const char* backward_name = "AdaptiveMaxPool2DBackward0";
  std::string name;
  Dims output_size;

  void infer(Inputs in, Meta* out) const {
    infer_adaptive(name.c_str(), in[0], output_size, out);
    check_dtype(name.c_str(), in[0], false);
    out[1] = out[0];
    out[1].dtype = DType::Int64;
  }
  void run(Inputs in, Tensor* out) const {
    if (out[0].numel() == 0) return;
    run_max(adaptive_shape(in[0].sizes(), out[0].sizes(), output_size.size()), in[0], out);
  }
  static void vjp(Backward& b) {
    b.set(0, add_at_indices(b.grad(), b.output(1), b.input_sizes(0), b.op<MaxAdaptive>().output_size.size()));
  }
};
WEFT_OP(MaxAdaptive);

// Zeros of the given sizes, to which values are added at their indices into a channel's plane, which is the
// last `spatial` dimensions.
struct AddAtIndices {
  static constexpr Schema schema{"add_at_indices(Tensor input, Tensor indices, int[] sizes, int spatial) -> Tensor"};
  static constexpr uint32_t traits = kInternal | kLinear;
  static constexpr Saves saves{{input(1)}};
  Dims sizes;
  int64_t spatial;

  void infer(Inputs in, Meta* out) const { out->set(in[0].dtype(), in[0]->device, sizes); }
  void run(Inputs in, Tensor* out) const {
    if (in[0].numel() == 0) return copy_into(out[0], zeros({}, out[0].dtype()));
    const DType dtype = compute_dtype(in[0].dtype());
    const Tensor values = plain(in[0], dtype), indices = plain(in[1], DType::Int64);
    const ImagesInto to(out[0], dtype, false);
    const int64_t wide = plane_size(sizes, spatial), narrow = plane_size(values.sizes(), spatial);
    {
      const Unlocked unlocked(out[0].numel() >= kUnlockAt);
      cpu::add_at_indices(dtype, values.numel() / narrow, wide, narrow, values->data, indices.data<int64_t>(),
                          to.data());
    }
    to.finish();
  }
  static void vjp(Backward& b) { b.set(0, take_at_indices(b.grad(), b.input(1), b.op<AddAtIndices>().spatial)); }
};
WEFT_OP(AddAtIndices);

// The other way: the elements of planes at these indices.
struct TakeAtIndices {
  static constexpr Schema schema{"take_at_indices(Tensor input, Tensor indices, int spatial) -> Tensor"};
  static constexpr uint32_t traits = kInternal | kLinear;
  static constexpr Saves saves{{input(1)}};
  int64_t spatial;

  void infer(Inputs in, Meta* out) const { out->set(in[0].dtype(), in[0]->device, in[1].sizes()); }
  void run(Inputs in, Tensor* out) const {
    if (out[0].numel() == 0) return;
    const DType dtype = in[0].dtype();
    const Tensor values = plain(in[0], dtype), indices = plain(in[1], DType::Int64);
    const ImagesInto to(out[0], dtype, false);
    const int64_t wide = plane_size(values.sizes(), spatial), narrow = plane_size(indices.sizes(), spatial);
    {
      const Unlocked unlocked(out[0].numel() >= kUnlockAt);
      cpu::take_at_indices(dtype, indices.numel() / narrow, wide, narrow, values->data, indices.data<int64_t>(),
                           to.data());
    }
    to.finish();
  }
  static void vjp(Backward& b) {
    b.set(0, add_at_indices(b.grad(), b.input(1), b.input_sizes(0), b.op<TakeAtIndices>().spatial));
  }
};
WEFT_OP(TakeAtIndices);

// max_unpool: the last of several values for one place stays.
struct PutAtIndices {
  static constexpr Schema schema{"put_at_indices(Tensor input, Tensor indices, int[] output_size) -> Tensor"};
  static constexpr Saves saves{{input(1)}};
  static constexpr const char* backward_name = "MaxUnpool2DBackward0";
  Dims output_size;

  void infer(Inputs in, Meta* out) const {
    const Tensor &x = in[0], &indices = in[1];
    const int spatial = output_size.size();
    if (indices.dtype() != DType::Int64) {
      fail("elements in indices should be type int64 but got: ", dtype_name(indices.dtype()));
    }
    if (x.ndim() != spatial + 1 && x.ndim() != spatial + 2) {
      fail("Input to max_unpooling", spatial, "d should be a ", spatial + 1, "d or ", spatial + 2,
           "d Tensor, but got a tensor with ", x.ndim(), " dims.");
    }
    if (!std::ranges::equal(x.sizes(), indices.sizes())) {
      fail("Expected shape of indices to be same as that of the input tensor (", shape_text(x.sizes()),
           ") but got indices tensor with shape: ", shape_text(indices.sizes()));
    }
    for (int d = 1; d < x.ndim(); ++d) {
      if (x.size(d) > 0) continue;
      fail("max_unpooling", spatial, "d(): Expected input to have non-zero size for non-batch dimensions, but got ",
           shape_text(x.sizes()), " with dimension ", d, " being empty.");
    }
    check_dtype("max_unpooling", x, true);
    out->set(x.dtype(), x->device, x.sizes().first(x.ndim() - spatial));
    for (int64_t size : output_size) {
      if (size < 0) fail("output_size of max_unpool must not be negative, got ", shape_text(output_size));
      out->sizes[out->ndim++] = size;
    }
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor values = plain(in[0], in[0].dtype()), indices = plain(in[1], DType::Int64);
    if (values.numel() == 0) return;
    const int64_t spatial = output_size.size();
    const int64_t wide = plane_size(output_size, spatial), narrow = plane_size(values.sizes(), spatial);
    if (const int64_t* bad = cpu::find_index_outside(indices.data<int64_t>(), indices.numel(), wide)) {
      std::string sizes = sizes_text(output_size);
      fail("Found an invalid max index: ", *bad, " (output volumes are of size ", sizes, ")");
    }
    const ImagesInto to(out[0], values.dtype(), false);
    {
      const Unlocked unlocked(out[0].numel() >= kUnlockAt);
      cpu::put_at_indices(values.dtype(), values.numel() / narrow, wide, narrow, values->data, indices.data<int64_t>(),
                          to.data());
    }
    to.finish();
  }
  static void vjp(Backward& b) {
    b.set(0, take_at_indices(b.grad(), b.input(1), b.op<PutAtIndices>().output_size.size()));
  }
};
WEFT_OP(PutAtIndices);

// ---- averages -----------------------------------------------------------------------------------

struct AverageWindows {
  static constexpr Schema schema{
      "average_windows(Tensor input, str name, int[] kernel_size, int[] stride, int[] padding, bool ceil_mode, "
      "bool count_include_pad, int divisor) -> Tensor"};
  static constexpr uint32_t traits = kInternal | kLinear;
  static constexpr const char* backward_name = "AvgPool2DBackward0";
  std::string name;
  Dims kernel, stride, padding;
  bool ceil_mode, count_include_pad;
  int64_t divisor;  // 0: the number of elements

  Windows windows() const { return {kernel, stride, padding, spatial_list("dilation", Dims{1}, kernel.size())}; }
  cpu::PoolingShape shape(IntSpan in, IntSpan out) const {
    return windows_shape(in, out, windows(), count_include_pad, static_cast<double>(divisor));
  }
  void infer(Inputs in, Meta* out) const {
    infer_pooled(name.c_str(), in[0], windows(), ceil_mode, out);
    if (in[0].dtype() != DType::Int64) check_dtype(name.c_str(), in[0], false);
  }
  void run(Inputs in, Tensor* out) const {
    run_average(cpu::pool_average, shape(in[0].sizes(), out[0].sizes()), in[0], out[0]);
  }
  static void vjp(Backward& b);
};
WEFT_OP(AverageWindows);

// The gradient of averages, whose own gradient is averages again.
struct AverageWindowsGrad {
  static constexpr Schema schema{
      "average_windows_grad(Tensor grad, str name, int[] kernel_size, int[] stride, int[] padding, bool ceil_mode, "
      "bool count_include_pad, int divisor, int[] sizes) -> Tensor"};
  static constexpr uint32_t traits = kInternal | kLinear;
  static constexpr const char* backward_name = "AvgPool2DBackwardBackward0";
  std::string name;
  Dims kernel, stride, padding;
  bool ceil_mode, count_include_pad;
  int64_t divisor;
  Dims sizes;

  AverageWindows forward() const { return {name, kernel, stride, padding, ceil_mode, count_include_pad, divisor}; }
  void infer(Inputs in, Meta* out) const {
    out->set(in[0].dtype(), in[0]->device, sizes);
    set_images(in[0], is_channels_last(in[0]), out);
  }
  void run(Inputs in, Tensor* out) const {
    run_average(cpu::pool_average_gradient, forward().shape(sizes, in[0].sizes()), in[0], out[0]);
  }
  static void vjp(Backward& b) { b.set(0, call(op_AverageWindows, b.op<AverageWindowsGrad>().forward(), b.grad())); }
};
WEFT_OP(AverageWindowsGrad);

void AverageWindows::vjp(Backward& b) {
  const auto& [name, kernel, stride, padding, ceil_mode, count_include_pad, divisor] = b.op<AverageWindows>();
  const AverageWindowsGrad grad{
      name, kernel, stride, padding, ceil_mode, count_include_pad, divisor, Dims(b.input_sizes(0))};
  b.set(0, call(op_AverageWindowsGrad, grad, b.grad()));
}

struct AverageAdaptive {
  static constexpr Schema schema{"average_adaptive(Tensor input, str name, int[] output_size) -> Tensor"};
  static constexpr uint32_t traits = kInternal | kLinear;
  static constexpr const char* backward_name = "AdaptiveAvgPool2DBackward0";
  std::string name;
  Dims output_size;

  void infer(Inputs in, Meta* out) const {
    infer_adaptive(name.c_str(), in[0], output_size, out);
    check_dtype(name.c_str(), in[0], false);
  }
  void run(Inputs in, Tensor* out) const {
    if (out[0].numel() == 0) return;
    run_average(cpu::pool_average, adaptive_shape(in[0].sizes(), out[0].sizes(), output_size.size()), in[0], out[0]);
  }
  static void vjp(Backward& b);
};
WEFT_OP(AverageAdaptive);

struct AverageAdaptiveGrad {
  static constexpr Schema schema{
      "average_adaptive_grad(Tensor grad, str name, int[] output_size, int[] sizes) -> Tensor"};
  static constexpr uint32_t traits = kInternal | kLinear;
  static constexpr const char* backward_name = "AdaptiveAvgPool2DBackwardBackward0";
  std::string name;
  Dims output_size, sizes;

  void infer(Inputs in, Meta* out) const {
    out->set(in[0].dtype(), in[0]->device, sizes);
    set_images(in[0], is_channels_last(in[0]), out);
  }
  void run(Inputs in, Tensor* out) const {
    if (in[0].numel() == 0) return copy_into(out[0], zeros({}, out[0].dtype()));
    run_average(cpu::pool_average_gradient, adaptive_shape(sizes, in[0].sizes(), output_size.size()), in[0], out[0]);
  }
  static void vjp(Backward& b) {
    const auto& [name, output_size, sizes] = b.op<AverageAdaptiveGrad>();
    b.set(0, call(op_AverageAdaptive, AverageAdaptive{name, output_size}, b.grad()));
  }
};
WEFT_OP(AverageAdaptiveGrad);

void AverageAdaptive::vjp(Backward& b) {
  const auto& [name, output_size] = b.op<AverageAdaptive>();
  const AverageAdaptiveGrad grad{name, output_size, Dims(b.input_sizes(0))};
  b.set(0, call(op_AverageAdaptiveGrad, grad, b.grad()));
}

namespace {

Tensor add_at_indices(const Tensor& values, const Tensor& indices, IntSpan sizes, int64_t spatial) {
  return call(op_AddAtIndices, AddAtIndices{Dims(sizes), spatial}, values, indices);
}

Tensor take_at_indices(const Tensor& values, const Tensor& indices, int64_t spatial) {
  return call(op_TakeAtIndices, TakeAtIndices{spatial}, values, indices);
}

// ---- the functions PyTorch names ----------------------------------------------------------------

// Without a stride, windows follow each other.
Windows windows_of(const char* name, const Dims& kernel, const std::optional<Dims>& stride, const Dims& padding,
                   const Dims& dilation) {
  Windows w{
      list_of(name, "kernel_size", kernel), {}, list_of(name, "padding", padding), list_of(name, "dilation", dilation)};
  w.stride = stride && !stride->empty() ? list_of(name, "stride", *stride) : w.kernel;
  return w;
}

struct ValuesAndIndices { Tensor values, indices; };

ValuesAndIndices max_pool(const char* name, const Tensor& x, const Dims& kernel, const std::optional<Dims>& stride,
                          const Dims& padding, const Dims& dilation, bool ceil_mode) {
  const Windows w = windows_of(name, kernel, stride, padding, dilation);
  const MaxWindows op{name, w.kernel, w.stride, w.padding, w.dilation, ceil_mode};
  TensorImpl* const items[] = {x.get()};
  Tensor out[2];
  apply(op_MaxWindows, &op, Inputs(items, 1), out);
  return {std::move(out[0]), std::move(out[1])};
}

Tensor average_pool(const char* name, const Tensor& x, const Dims& kernel, const std::optional<Dims>& stride,
                    const Dims& padding, bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor) {
  if (divisor && *divisor == 0) fail("divisor must be not zero (", name, ")");
  const Windows w = windows_of(name, kernel, stride, padding, Dims{1});
  const AverageWindows op{name, w.kernel, w.stride, w.padding, ceil_mode, count_include_pad, divisor.value_or(0)};
  return call(op_AverageWindows, op, x);
}

Tensor adaptive_average(const char* name, const Tensor& x, const Dims& given) {
  const Dims output_size = list_of(name, "output_size", given);
  return call(op_AverageAdaptive, AverageAdaptive{name, output_size}, x);
}

}  // namespace

#define WEFT_MAX_POOL(Struct, name, list)                                                                          \
  struct Struct {                                                                                                  \
    static constexpr Schema schema{#name "(Tensor input, " list " kernel_size, " list "? stride=None, " list       \
                                         " padding=0, " list " dilation=1, bool ceil_mode=False) -> Tensor"};      \
    Dims kernel_size;                                                                                              \
    std::optional<Dims> stride;                                                                                    \
    Dims padding, dilation;                                                                                        \
    bool ceil_mode;                                                                                                \
                                                                                                                   \
    Tensor compose(Inputs in) const {                                                                              \
      return max_pool(#name, in[0], kernel_size, stride, padding, dilation, ceil_mode).values;                     \
    }                                                                                                              \
  };                                                                                                               \
  WEFT_OP(Struct);                                                                                                 \
                                                                                                                   \
  struct Struct##WithIndices {                                                                                     \
    static constexpr Schema schema{#name "_with_indices(Tensor input, " list " kernel_size, " list                 \
                                         "? stride=None, " list " padding=0, " list                                \
                                         " dilation=1, bool ceil_mode=False) -> (Tensor values, Tensor indices)"}; \
    Dims kernel_size;                                                                                              \
    std::optional<Dims> stride;                                                                                    \
    Dims padding, dilation;                                                                                        \
    bool ceil_mode;                                                                                                \
                                                                                                                   \
    void compose_list(Inputs in, std::vector<Tensor>& out) const {                                                 \
      auto both = max_pool(#name, in[0], kernel_size, stride, padding, dilation, ceil_mode);                       \
      out = {std::move(both.values), std::move(both.indices)};                                                     \
    }                                                                                                              \
  };                                                                                                               \
  WEFT_OP(Struct##WithIndices);

WEFT_MAX_POOL(MaxPool1d, max_pool1d, "int[1]")
WEFT_MAX_POOL(MaxPool2d, max_pool2d, "int[2]")
WEFT_MAX_POOL(MaxPool3d, max_pool3d, "int[3]")

struct AvgPool1d {
  static constexpr Schema schema{
      "avg_pool1d(Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, bool ceil_mode=False, "
      "bool count_include_pad=True) -> Tensor"};
  Dims kernel_size;
  std::optional<Dims> stride;
  Dims padding;
  bool ceil_mode, count_include_pad;

  Tensor compose(Inputs in) const {
    return average_pool("avg_pool1d", in[0], kernel_size, stride, padding, ceil_mode, count_include_pad, {});
  }
};
WEFT_OP(AvgPool1d);

#define WEFT_AVERAGE_POOL(Struct, name, list)                                                                          \
  struct Struct {                                                                                                      \
    static constexpr Schema schema{                                                                                    \
        #name "(Tensor input, " list " kernel_size, " list "? stride=None, " list                                      \
              " padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> "         \
              "Tensor"};                                                                                               \
    static constexpr uint32_t traits = kExactOut;                                                                      \
    Dims kernel_size;                                                                                                  \
    std::optional<Dims> stride;                                                                                        \
    Dims padding;                                                                                                      \
    bool ceil_mode, count_include_pad;                                                                                 \
    std::optional<int64_t> divisor_override;                                                                           \
                                                                                                                       \
    Tensor compose(Inputs in) const {                                                                                  \
      return average_pool(#name, in[0], kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override); \
    }                                                                                                                  \
  };                                                                                                                   \
  WEFT_OP(Struct);

WEFT_AVERAGE_POOL(AvgPool2d, avg_pool2d, "int[2]")
WEFT_AVERAGE_POOL(AvgPool3d, avg_pool3d, "int[3]")

#define WEFT_ADAPTIVE_POOL(Average, Max, suffix, list)                                                           \
  struct Average {                                                                                               \
    static constexpr Schema schema{"adaptive_avg_pool" suffix "(Tensor input, " list " output_size) -> Tensor"}; \
    Dims output_size;                                                                                            \
                                                                                                                 \
    Tensor compose(Inputs in) const { return adaptive_average("adaptive_avg_pool" suffix, in[0], output_size); } \
  };                                                                                                             \
  WEFT_OP(Average);                                                                                              \
                                                                                                                 \
  struct Max {                                                                                                   \
    static constexpr Schema schema{"adaptive_max_pool" suffix "_with_indices(Tensor input, " list                \
                                   " output_size) -> (Tensor values, Tensor indices)"};                          \
    Dims output_size;                                                                                            \
                                                                                                                 \
    void compose_list(Inputs in, std::vector<Tensor>& out) const {                                               \
      static constexpr const char* name = "adaptive_max_pool" suffix;                                            \
      const MaxAdaptive op{name, list_of(name, "output_size", output_size)};                                     \
      out.resize(2);                                                                                             \
      apply(op_MaxAdaptive, &op, in, out.data());                                                                \
    }                                                                                                            \
  };                                                                                                             \
  WEFT_OP(Max);

WEFT_ADAPTIVE_POOL(AdaptiveAvgPool1d, AdaptiveMaxPool1dWithIndices, "1d", "int[1]")
WEFT_ADAPTIVE_POOL(AdaptiveAvgPool2d, AdaptiveMaxPool2dWithIndices, "2d", "int[2]")
WEFT_ADAPTIVE_POOL(AdaptiveAvgPool3d, AdaptiveMaxPool3dWithIndices, "3d", "int[3]")

}  // namespace weft
