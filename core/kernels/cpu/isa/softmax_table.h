// The inner loops of softmax, one table per instruction set.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa.h"

namespace weft::cpu {

// Rows of n elements each, one after the other, in the compute type. y may be x (grad_x grad).
struct SoftmaxKernel {
  void (*softmax)(const void* x, void* y, int64_t rows, int64_t n);
  void (*log_softmax)(const void* x, void* y, int64_t rows, int64_t n);
  void (*softmax_backward)(const void* grad, const void* y, void* grad_x, int64_t rows, int64_t n);
  void (*log_softmax_backward)(const void* grad, const void* y, void* grad_x, int64_t rows, int64_t n);
  void (*log_sum_exp)(const void* x, void* y, int64_t rows, int64_t n);  // y: one per row
};

struct SoftmaxTable {
  SoftmaxKernel of_float, of_double;
};

WEFT_ISA_TABLE(SoftmaxTable, softmax_table)

}  // namespace weft::cpu
