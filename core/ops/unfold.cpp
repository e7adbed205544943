// The windows of an image as columns (nn.functional.unfold), and images from columns (fold).
#include <algorithm>
#include <string>

#include "core/kernels/cpu/spatial.h"
#include "core/ops/convolution.h"
#include "core/ops/reduce_common.h"

namespace weft {

extern const OpTable op_ImageToColumns, op_ColumnsToImage;

namespace {

constexpr int64_t kUnlockAt = 64 * 1024;
constexpr int kSpatial = 2;

void check_pair(const char* name, const char* what, const Dims& values, int64_t least, const char* must) {
  if (values.size() != kSpatial) fail("It is expected ", name, " equals to 2, but got size ", values.size());
  refuse_huge(name, values);
  if (values[0] >= least && values[1] >= least) return;
  fail(what, " should be ", must, ", but got height: ", values[0], " width: ", values[1]);
}

void check_windows(const Windows& w) {
  check_pair("kernel_size", "kernel size", w.kernel, 1, "greater than zero");
  check_pair("dilation", "dilation", w.dilation, 1, "greater than zero");
  check_pair("padding", "padding", w.padding, 0, "non-negative");
  check_pair("stride", "stride", w.stride, 1, "greater than zero");
}

std::string pair_text(const Dims& values) {
  return "(" + std::to_string(values[0]) + ", " + std::to_string(values[1]) + ")";
}

// How many windows there are along each dimension of an image of these spatial sizes.
Dims windows_in(IntSpan image, const Windows& w) {
  Dims count{0, 0};
  for (int d = 0; d < kSpatial; ++d) {
    refuse_huge("image size", Dims{image[d]});
    const int64_t room = image[d] + 2 * w.padding[d] - w.dilation[d] * (w.kernel[d] - 1) - 1;
    count[d] = room >= 0 ? room / w.stride[d] + 1 : 0;
  }
  return count;
}

cpu::ConvolutionShape shape_of(IntSpan image, const Windows& w, const Dims& count) {
  cpu::ConvolutionShape s{};
  const size_t rank = image.size();
  s.spatial = kSpatial;
  s.batch = rank == 4 ? image[0] : 1;
  s.groups = s.out_channels = 1;
  s.in_channels = image[rank - 3];
  for (int d = 0; d < kSpatial; ++d) {
    s.in[d] = image[rank - 2 + d];
    s.out[d] = count[d];
    s.kernel[d] = w.kernel[d];
    s.stride[d] = w.stride[d];
    s.padding[d] = w.padding[d];
    s.dilation[d] = w.dilation[d];
  }
  return s;
}

Tensor plain(const Tensor& t, DType dtype) {
  const Tensor cast = values_as(t, dtype);
  return cast->is_contiguous() ? cast : detached_copy(cast);
}

template <class Kernel> void run_moved(Kernel kernel, DType dtype, const cpu::ConvolutionShape& s, const Tensor& from,
                                       const Tensor& out) {
  const Tensor source = plain(from, dtype);
  const ImagesInto to(out, dtype, false);
  {
    const Unlocked unlocked(out.numel() >= kUnlockAt);
    kernel(dtype, s, source->data, to.data());
  }
  to.finish();
}

}  // namespace

struct ImageToColumns {
  static constexpr Schema schema{
      "im2col(Tensor input, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor"};
  static constexpr uint32_t traits = kLinear;
  static constexpr const char* backward_name = "Im2ColBackward0";
  Dims kernel, dilation, padding, stride;

  Windows windows() const { return {kernel, stride, padding, dilation}; }
  void infer(Inputs in, Meta* out) const {
    const Tensor& x = in[0];
    const Windows w = windows();
    check_windows(w);
    const int first = x.ndim() == 4 ? 1 : 0;
    bool fits = x.ndim() == 3 || x.ndim() == 4;
    for (int d = first; fits && d < x.ndim(); ++d) fits = x.size(d) != 0;
    if (!fits) {
      fail(
          "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
          "but got: ",
          shape_text(x.sizes()));
    }
    const Dims count = windows_in(x.sizes().last(2), w);
    if (count[0] < 1 || count[1] < 1) {
      fail("Given input with spatial size ", pair_text(Dims(x.sizes().last(2))), ", kernel_size=", pair_text(kernel),
           ", dilation=", pair_text(dilation), ", padding=", pair_text(padding),
           ", calculated shape of the array of sliding blocks as ", pair_text(count),
           ", but its components must be at least one.");
    }
    if (!is_floating(x.dtype()) && x.dtype() != DType::Bool) refuse_dtype("im2col", x.dtype());
    out->set(x.dtype(), x->device, x.sizes().first(first));
    int64_t rows;
    if (__builtin_mul_overflow(x.size(first), kernel[0] * kernel[1], &rows)) {
      fail("im2col: ", x.size(first), " channels of windows of ", pair_text(kernel), " are too many");
    }
    out->sizes[out->ndim++] = rows;
    out->sizes[out->ndim++] = count[0] * count[1];
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor& x = in[0];
    if (out[0].numel() == 0) return;
    const auto shape = shape_of(x.sizes(), windows(), windows_in(x.sizes().last(2), windows()));
    run_moved(cpu::unfold, x.dtype(), shape, x, out[0]);
  }
  static void vjp(Backward& b);
};
WEFT_OP(ImageToColumns);

struct ColumnsToImage {
  static constexpr Schema schema{
      "col2im(Tensor input, int[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> "
      "Tensor"};
  static constexpr uint32_t traits = kLinear;
  static constexpr const char* backward_name = "Col2ImBackward0";
  Dims output_size, kernel, dilation, padding, stride;

  Windows windows() const { return {kernel, stride, padding, dilation}; }
  void infer(Inputs in, Meta* out) const {
    const Tensor& x = in[0];
    const Windows w = windows();
    check_pair("output_size", "output_size", output_size, 1, "greater than zero");
    check_windows(w);
    const int first = x.ndim() == 3 ? 1 : 0;
    if ((x.ndim() != 2 && x.ndim() != 3) || x.size(first) == 0 || x.size(first + 1) == 0) {
      fail(
          "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
          "input, but got: ",
          shape_text(x.sizes()));
    }
    const int64_t rows = x.size(first), per_channel = kernel[0] * kernel[1];
    if (rows % per_channel != 0) {
      fail("Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)=",
           rows, " and kernel_size=", pair_text(kernel), ".");
    }
    const Dims count = windows_in(output_size, w);
    if (x.size(first + 1) != count[0] * count[1]) {
      fail("Given output_size=", pair_text(output_size), ", kernel_size=", pair_text(kernel),
           ", dilation=", pair_text(dilation), ", padding=", pair_text(padding), ", stride=", pair_text(stride),
           ", expected size of input's dimension 2 to match the calculated number of sliding blocks ", count[0], " * ",
           count[1], " = ", count[0] * count[1], ", but got input.size(2)=", x.size(first + 1), ".");
    }
    if (!is_floating(x.dtype())) refuse_dtype("col2im", x.dtype());
    out->set(x.dtype(), x->device, x.sizes().first(first));
    out->sizes[out->ndim++] = rows / per_channel;
    for (int64_t size : output_size) out->sizes[out->ndim++] = size;
  }
  void run(Inputs in, Tensor* out) const {
    if (out[0].numel() == 0) return;
    const auto shape = shape_of(out[0].sizes(), windows(), windows_in(output_size, windows()));
    run_moved(cpu::fold, compute_dtype(in[0].dtype()), shape, in[0], out[0]);
  }
  static void vjp(Backward& b) {
    const auto& [output_size, kernel, dilation, padding, stride] = b.op<ColumnsToImage>();
    b.set(0, call(op_ImageToColumns, ImageToColumns{kernel, dilation, padding, stride}, b.grad()));
  }
};
WEFT_OP(ColumnsToImage);

void ImageToColumns::vjp(Backward& b) {
  const auto& [kernel, dilation, padding, stride] = b.op<ImageToColumns>();
  const Dims sizes(b.input_sizes(0).last(2));
  b.set(0, call(op_ColumnsToImage, ColumnsToImage{sizes, kernel, dilation, padding, stride}, b.grad()));
}

}  // namespace weft
