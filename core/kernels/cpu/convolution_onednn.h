// float32 convolutions by oneDNN. Each returns false, and has written nothing, where the library is
// missing or would take its slow reference code.
#pragma once

#include "core/kernels/cpu/convolution.h"

namespace weft::cpu {

bool onednn_convolve(const ConvolutionShape& shape, Images x, const void* weight, const void* bias, Images y);
bool onednn_convolve_input_gradient(const ConvolutionShape& shape, Images grad_y, const void* weight, const void* bias,
                                    Images grad_x);
bool onednn_convolve_weight_gradient(const ConvolutionShape& shape, Images x, Images grad_y, void* grad_weight,
                                     void* grad_bias);

}  // namespace weft::cpu
