// The inner loops of reductions, one table per instruction set.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa.h"
#include "core/kernels/cpu/isa/reduce_convert.h"

namespace weft::cpu {

enum class TreeOp : int {
  Sum,
  Prod,
  Max,
  Min,
  NanSum,
  SumOfSquares,
  SumOfAbs,
  SumOfSquaresAround,
  ArgMax,
  ArgMin,
};
inline constexpr int kTreeOps = 10;

// The accumulator of ArgMax and ArgMin: the value, in its compute type, and where it was found.
struct Found {
  alignas(8) char value[8];
  int64_t index;
};

// How one chunk at a time is reduced (see Note [The fixed tree]). `x` points at elements of the
// compute type; strides are in bytes; `center` holds one number per row (column) or is null;
// `first` is the place of the chunk's first element in its sequence, and `first_step` how much
// further on that of the next row lies. All null: not supported.
struct TreeKernel {
  int lane_size = 0;
  int accumulator_size = 0;
  // Chunks along contiguous memory: `rows` of them, n elements each, one accumulator each.
  void (*rows)(const char* x, int64_t row_stride, int64_t rows, int64_t n, const void* center, int64_t first,
               int64_t first_step, void* accumulators) = nullptr;
  // `width` chunks side by side, n elements each, that can be read where they are; or null. Not for
  // narrow blocks.
  void (*column_chunks)(const char* x, int64_t row_stride, int64_t width, int64_t n, const void* center,
                        void* accumulators) = nullptr;
  // The same, a few rows at a time. The lanes of all columns lie in `lanes`.
  void (*columns_begin)(void* lanes, int64_t width, int64_t n) = nullptr;
  void (*columns)(void* lanes, int64_t width, const char* x, int64_t row_stride, int64_t rows, int64_t first_row,
                  const void* center) = nullptr;
  void (*columns_end)(void* lanes, int64_t width, int64_t n, int64_t first, void* accumulators) = nullptr;
  // earlier[i] = fold(earlier[i], later[i])
  void (*fold)(void* earlier, const void* later, int64_t count) = nullptr;
};

struct ReduceTable { TreeKernel kernels[kTreeOps][kComputes]; };

WEFT_ISA_TABLE(ReduceTable, reduce_table)

}  // namespace weft::cpu
