// Tensors as plain values: copies, fills and sizes, without history.
#pragma once

#include "core/tensor/tensor.h"

namespace weft {

Tensor zeros(IntSpan sizes, DType dtype, Device device = {});
Tensor full(IntSpan sizes, Scalar value, DType dtype, Device device = {});
// Copies with casting and broadcasting. The memory of the two must not overlap, unless it is the same.
void copy_into(const Tensor& to, const Tensor& from);
Tensor detached_copy(const Tensor& a);
// Gives an out= tensor the size of its result.
void resize_output(TensorImpl* out, IntSpan sizes);

}  // namespace weft
