#include "core/kernels/cpu/convolution.h"

#include "core/kernels/cpu/convolution_onednn.h"
#include "core/kernels/cpu/convolution_portable.h"

namespace weft::cpu {

namespace {

// Below this many multiply-adds the library's call costs more than it brings.
constexpr double kSmallWork = 1 << 14;

bool suits_library(DType dtype, const ConvolutionShape& shape) {
  return dtype == DType::Float32 && shape.work() > kSmallWork;
}

}  // namespace

void convolve(DType dtype, const ConvolutionShape& shape, Images x, const void* weight, const void* bias, Images y) {
  if (suits_library(dtype, shape) && onednn_convolve(shape, x, weight, bias, y)) return;
  portable_convolve(dtype, shape, x, weight, bias, y);
}

void convolve_input_gradient(DType dtype, const ConvolutionShape& shape, Images grad_y, const void* weight,
                             const void* bias, Images grad_x) {
  if (suits_library(dtype, shape) && onednn_convolve_input_gradient(shape, grad_y, weight, bias, grad_x)) return;
  portable_input_gradient(dtype, shape, grad_y, weight, bias, grad_x);
}

void convolve_weight_gradient(DType dtype, const ConvolutionShape& shape, Images x, Images grad_y, void* grad_weight,
                              void* grad_bias) {
  if (suits_library(dtype, shape) && onednn_convolve_weight_gradient(shape, x, grad_y, grad_weight, grad_bias)) return;
  portable_weight_gradient(dtype, shape, x, grad_y, grad_weight, grad_bias);
}

}  // namespace weft::cpu
