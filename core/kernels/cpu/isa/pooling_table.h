// Inner loops of pooling, one table per instruction set.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa.h"

namespace weft::cpu {

// Each takes one place of the window for a line of n outputs, which see elements `step` apart: x[i * step]
// for output i.
template <class T> struct PoolingLoops {
  // Where x is larger than best, or NaN, it becomes best; its position first + i * position_step goes to
  // `where`.
  void (*larger)(const T* x, int64_t step, int64_t n, T* best, int32_t* where, int32_t first, int32_t position_step);
  // Of n outputs, each sees the elements x[positions[place * n + i]]: the largest and its position.
  void (*largest)(const T* x, const int32_t* positions, int64_t places, int64_t n, T* best, int64_t* where);
  // sum[i] += x[i * step]
  void (*add)(const T* x, int64_t step, int64_t n, T* sum);
  // y[i * step] += x[i]
  void (*spread)(const T* x, int64_t n, T* y, int64_t step);
};

struct PoolingTable {
  PoolingLoops<float> of_float;
  PoolingLoops<double> of_double;

  const PoolingLoops<float>& loops(float) const { return of_float; }
  const PoolingLoops<double>& loops(double) const { return of_double; }
};

WEFT_ISA_TABLE(PoolingTable, pooling_table)

}  // namespace weft::cpu
