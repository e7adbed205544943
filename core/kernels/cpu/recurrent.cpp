#include "core/kernels/cpu/recurrent.h"

#include <algorithm>

#include "core/kernels/cpu/isa/recurrent_table.h"
#include "core/kernels/cpu/threads.h"

namespace weft::cpu {

namespace {

constexpr int64_t kPieceUnits = 4096;

const CellRows& loops_of(DType type) {
  return type == DType::Float64 ? cell_table().rows_of_double : cell_table().rows_of_float;
}

const void* row(RowsIn rows, int64_t r) { return static_cast<const char*>(rows.data) + r * rows.stride; }
const void* row_or_null(RowsIn rows, int64_t r) { return rows.data ? row(rows, r) : nullptr; }

// Row r of a result whose rows have `width` elements.
struct Result {
  int64_t units, item;
  void* row(void* data, int64_t r, int width) const { return static_cast<char*>(data) + r * width * units * item; }
};

template <class Body> void for_each_row(CellSize size, Body body) {
  const int64_t per_piece = std::max<int64_t>(1, kPieceUnits / std::max<int64_t>(1, size.units));
  parallel((size.rows + per_piece - 1) / per_piece, [&](int64_t piece) {
    const int64_t end = std::min(size.rows, (piece + 1) * per_piece);
    for (int64_t r = piece * per_piece; r < end; ++r) body(r);
  });
}

}  // namespace

void gru_cell(DType type, CellSize size, RowsIn in, RowsIn of, RowsIn before, void* state, void* gates) {
  const CellRows& loops = loops_of(type);
  const Result out{size.units, item_size(type)};
  for_each_row(size, [&](int64_t r) {
    loops.gru(size.units, row(in, r), row(of, r), row(before, r), out.row(state, r, 1), out.row(gates, r, 4));
  });
}

void gru_cell_backward(DType type, CellSize size, RowsIn grad, RowsIn gates, RowsIn before, void* grad_in,
                       void* grad_of, void* grad_before) {
  const CellRows& loops = loops_of(type);
  const Result out{size.units, item_size(type)};
  for_each_row(size, [&](int64_t r) {
    loops.gru_backward(size.units, row(grad, r), row(gates, r), row(before, r), out.row(grad_in, r, 3),
                       out.row(grad_of, r, 3), out.row(grad_before, r, 1));
  });
}

void lstm_cell(DType type, CellSize size, RowsIn in, RowsIn of, RowsIn before, void* state, void* cell, void* gates) {
  const CellRows& loops = loops_of(type);
  const Result out{size.units, item_size(type)};
  for_each_row(size, [&](int64_t r) {
    loops.lstm(size.units, row(in, r), row(of, r), row(before, r), out.row(state, r, 1), out.row(cell, r, 1),
               out.row(gates, r, 4));
  });
}

void lstm_cell_backward(DType type, CellSize size, RowsIn grad, RowsIn grad_cell, RowsIn gates, RowsIn before,
                        RowsIn cell, void* grad_in, void* grad_before) {
  const CellRows& loops = loops_of(type);
  const Result out{size.units, item_size(type)};
  for_each_row(size, [&](int64_t r) {
    loops.lstm_backward(size.units, row_or_null(grad, r), row_or_null(grad_cell, r), row(gates, r), row(before, r),
                        row(cell, r), out.row(grad_in, r, 4), out.row(grad_before, r, 1));
  });
}

}  // namespace weft::cpu
