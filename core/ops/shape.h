// What the families that join, split and rearrange tensors offer to each other and to bind/.
#pragma once

#include "core/ops/functions.h"

namespace weft {

// Parts of a tensor, of which there are several: see Note [Several views of one tensor] in core/ops/join.cpp.
Tensor unbound(const Tensor& a, int64_t dim, int64_t index);  // of unbind() and of iteration
Tensor split_part(const Tensor& a, int64_t dim, int64_t start, int64_t length, bool of_given_sizes);

Tensor cat(const std::vector<Tensor>& tensors, int64_t dim);
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim);

// Zeros of a shape, with `a` in the window that these strides and this offset describe (over row-major
// memory). Cells that the window shows several times receive the sum.
Tensor place_in_zeros(const Tensor& a, IntSpan sizes, IntSpan strides, int64_t offset);
// A copy of `a`, row-major, with `source` in such a window, which must not show a cell twice.
Tensor place_in_copy(const Tensor& a, const Tensor& source, IntSpan sizes, IntSpan strides, int64_t offset);

Tensor diagonal(const Tensor& a, int64_t offset, int64_t dim1, int64_t dim2);

Dims contiguous_strides(IntSpan sizes);

}  // namespace weft
