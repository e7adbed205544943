// Convolutions as products of weft's own, for what oneDNN does not carry: see convolution.h.
#pragma once

#include "core/kernels/cpu/convolution.h"

namespace weft::cpu {

void portable_convolve(DType dtype, const ConvolutionShape& shape, Images x, const void* weight, const void* bias,
                       Images y);
void portable_input_gradient(DType dtype, const ConvolutionShape& shape, Images grad_y, const void* weight,
                             const void* bias, Images grad_x);
void portable_weight_gradient(DType dtype, const ConvolutionShape& shape, Images x, Images grad_y, void* grad_weight,
                              void* grad_bias);

}  // namespace weft::cpu
