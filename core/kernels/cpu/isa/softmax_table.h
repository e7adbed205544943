// The inner loops of softmax, one table per instruction set.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa.h"

namespace weft::cpu {

// Rows of n elements each, one after the other, in the compute type. y may be x (grad_x grad).
struct SoftmaxRows {
  void (*softmax)(const void* x, void* y, int64_t rows, int64_t n);
  void (*log_softmax)(const void* x, void* y, int64_t rows, int64_t n);
  void (*softmax_backward)(const void* grad, const void* y, void* grad_x, int64_t rows, int64_t n);
  void (*log_softmax_backward)(const void* grad, const void* y, void* grad_x, int64_t rows, int64_t n);
  void (*log_sum_exp)(const void* x, void* y, int64_t rows, int64_t n);  // y: one per row
};

inline constexpr int64_t kSoftmaxColumns = 64;  // side by side at most

// Where element 0 of the first column lies, and how many bytes on the next element lies. The same
// element of the next column is its neighbour.
struct Columns {
  char* data;
  int64_t step;
};

// `width` columns of n elements each, in the compute type.
struct SoftmaxColumns {
  void (*softmax)(Columns x, Columns y, int64_t n, int64_t width);
  void (*log_softmax)(Columns x, Columns y, int64_t n, int64_t width);
  void (*softmax_backward)(Columns grad, Columns y, Columns grad_x, int64_t n, int64_t width);
  void (*log_softmax_backward)(Columns grad, Columns y, Columns grad_x, int64_t n, int64_t width);
  void (*log_sum_exp)(Columns x, Columns y, int64_t n, int64_t width);  // y: one row
};

struct SoftmaxTable {
  SoftmaxRows rows_of_float, rows_of_double;
  SoftmaxColumns columns_of_float, columns_of_double;
};

WEFT_ISA_TABLE(SoftmaxTable, softmax_table)

}  // namespace weft::cpu
