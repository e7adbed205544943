// The inner loops of gated cells, one table per instruction set.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa.h"

namespace weft::cpu {

// One row (one example) of `units` units. Gates lie one after the other: all of the first, then all of the
// second, ...
struct CellRows {
  // in and of: 3 sums each; gates: 4 results (reset, update, fresh, hidden).
  void (*gru)(int64_t units, const void* in, const void* of, const void* before, void* state, void* gates);
  void (*gru_backward)(int64_t units, const void* grad, const void* gates, const void* before, void* grad_in,
                       void* grad_of, void* grad_before);
  // in and of: 4 sums each; gates: 4 results (input, forget, fresh, output).
  void (*lstm)(int64_t units, const void* in, const void* of, const void* before, void* state, void* cell, void* gates);
  // grad or grad_cell may be null.
  void (*lstm_backward)(int64_t units, const void* grad, const void* grad_cell, const void* gates, const void* before,
                        const void* cell, void* grad_in, void* grad_before);
};

struct CellTable { CellRows rows_of_float, rows_of_double; };

WEFT_ISA_TABLE(CellTable, cell_table)

}  // namespace weft::cpu
