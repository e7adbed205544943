// Work along one dim: a tensor as a set of lines. The lines are numbered in row-major order of the
// other dims; a kernel is given where a line begins and how far apart its elements are.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/strided.h"

namespace weft::cpu {

// The dims of up to three tensors of the same sizes without the one that the lines run along.
// Size 1 dims are dropped and dims that are one in all of the tensors are merged.
template <int tensors> struct Lines {
  int ndim = 0;
  int64_t count = 1;      // lines
  int64_t length = 1;     // elements per line
  int64_t step[tensors];  // bytes between the elements of a line
  int64_t sizes[kMaxDims];
  int64_t strides[tensors][kMaxDims];
  char* data[tensors];

  Lines(const Strided* const (&all)[tensors], int dim) {
    const Strided& first = *all[0];
    if (first.ndim > 0) length = first.sizes[dim];
    for (int t = 0; t < tensors; ++t) {
      data[t] = all[t]->data;
      step[t] = first.ndim > 0 ? all[t]->strides[dim] : 0;
    }
    for (int d = 0; d < first.ndim; ++d) {
      if (d == dim || first.sizes[d] == 1) continue;
      count *= first.sizes[d];
      bool merges = ndim > 0;
      for (int t = 0; t < tensors && merges; ++t) {
        merges = strides[t][ndim - 1] == first.sizes[d] * all[t]->strides[d];
      }
      if (!merges) sizes[ndim++] = 1;
      sizes[ndim - 1] *= first.sizes[d];
      for (int t = 0; t < tensors; ++t) strides[t][ndim - 1] = all[t]->strides[d];
    }
  }

  // Where line `index` of tensor t begins.
  char* line(int t, int64_t index) const {
    char* p = data[t];
    for (int d = ndim - 1; d >= 0; --d) {
      p += index % sizes[d] * strides[t][d];
      index /= sizes[d];
    }
    return p;
  }

  // How many lines from `index` on lie at the stride of the innermost dim.
  int64_t neighbours(int64_t index) const { return ndim == 0 ? 1 : sizes[ndim - 1] - index % sizes[ndim - 1]; }
  int64_t neighbour_stride(int t) const { return ndim == 0 ? 0 : strides[t][ndim - 1]; }
};

}  // namespace weft::cpu
