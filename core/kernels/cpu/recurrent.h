// The part of a gated recurrent cell that follows its two matrix products.
//
// Everything is Float32 or Float64. The elements of a row are adjacent; rows of inputs may lie anywhere,
// those of results follow one another.
#pragma once

#include <cstdint>

#include "core/math/dtype.h"

namespace weft::cpu {

struct RowsIn {
  const void* data;
  int64_t stride;  // bytes from row to row
};

struct CellSize { int64_t rows, units; };

void gru_cell(DType type, CellSize size, RowsIn in, RowsIn of, RowsIn before, void* state, void* gates);
void gru_cell_backward(DType type, CellSize size, RowsIn grad, RowsIn gates, RowsIn before, void* grad_in,
                       void* grad_of, void* grad_before);

void lstm_cell(DType type, CellSize size, RowsIn in, RowsIn of, RowsIn before, void* state, void* cell, void* gates);
// `grad` or `grad_cell` may have no data.
void lstm_cell_backward(DType type, CellSize size, RowsIn grad, RowsIn grad_cell, RowsIn gates, RowsIn before,
                        RowsIn cell, void* grad_in, void* grad_before);

}  // namespace weft::cpu
