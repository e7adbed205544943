#include "core/kernels/cpu/softmax.h"

#include <algorithm>
#include <memory>

#include "core/kernels/cpu/isa/reduce_convert.h"
#include "core/kernels/cpu/isa/softmax_table.h"
#include "core/kernels/cpu/lines.h"
#include "core/kernels/cpu/threads.h"
#include "core/math/reduction.h"

namespace weft::cpu {

namespace {

constexpr int64_t kPieceElements = 16384;
constexpr int64_t kTile = 16;  // strided lines are copied in tiles of 16 by 16

int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

// How one operand is brought into rows and back.
struct Operand {
  int64_t step = 0, neighbour = 0;  // bytes between elements of a line, and between lines
  ConvertTable::Load load = nullptr;
  ConvertTable::Store store = nullptr;
  int64_t size = 0;  // of the compute type
  bool is_compute = false;

  bool lies_in_rows(int64_t lines, int64_t n) const {
    return is_compute && (n == 1 || step == size) && (lines == 1 || neighbour == n * size);
  }
  bool lines_are_interleaved() const { return magnitude(neighbour) < magnitude(step); }
};

template <class T>
void load_interleaved(const Operand& from, const char* x, int64_t lines, int64_t n, T* rows) {
  alignas(64) T tile[kTile][kTile];
  for (int64_t first = 0; first < lines; first += kTile) {
    const int64_t width = std::min(kTile, lines - first);
    for (int64_t i = 0; i < n; i += kTile) {
      const int64_t depth = std::min(kTile, n - i);
      const char* corner = x + first * from.neighbour + i * from.step;
      for (int64_t k = 0; k < depth; ++k) from.load(corner + k * from.step, from.neighbour, width, tile[k]);
      for (int64_t r = 0; r < width; ++r) {
        for (int64_t k = 0; k < depth; ++k) rows[(first + r) * n + i + k] = tile[k][r];
      }
    }
  }
}

template <class T>
void store_interleaved(const Operand& to, const T* rows, int64_t lines, int64_t n, char* y) {
  alignas(64) T tile[kTile][kTile];
  for (int64_t first = 0; first < lines; first += kTile) {
    const int64_t width = std::min(kTile, lines - first);
    for (int64_t i = 0; i < n; i += kTile) {
      const int64_t depth = std::min(kTile, n - i);
      for (int64_t r = 0; r < width; ++r) {
        for (int64_t k = 0; k < depth; ++k) tile[k][r] = rows[(first + r) * n + i + k];
      }
      char* corner = y + first * to.neighbour + i * to.step;
      for (int64_t k = 0; k < depth; ++k) to.store(tile[k], width, corner + k * to.step, to.neighbour);
    }
  }
}

void load_rows(const Operand& from, const char* x, int64_t lines, int64_t n, char* rows) {
  if (from.lines_are_interleaved()) {
    if (from.size == 4) return load_interleaved(from, x, lines, n, reinterpret_cast<float*>(rows));
    return load_interleaved(from, x, lines, n, reinterpret_cast<double*>(rows));
  }
  for (int64_t r = 0; r < lines; ++r) { from.load(x + r * from.neighbour, from.step, n, rows + r * n * from.size); }
}

void store_rows(const Operand& to, const char* rows, int64_t lines, int64_t n, char* y) {
  if (to.lines_are_interleaved()) {
    if (to.size == 4) return store_interleaved(to, reinterpret_cast<const float*>(rows), lines, n, y);
    return store_interleaved(to, reinterpret_cast<const double*>(rows), lines, n, y);
  }
  for (int64_t r = 0; r < lines; ++r) { to.store(rows + r * n * to.size, n, y + r * to.neighbour, to.step); }
}

Compute compute_of_both(DType in, DType out) {
  return in == DType::Float64 || out == DType::Float64 ? Compute::Float64 : Compute::Float32;
}

const SoftmaxRows& row_loops(Compute compute) {
  const SoftmaxTable& table = softmax_table();
  return compute == Compute::Float64 ? table.rows_of_double : table.rows_of_float;
}
const SoftmaxColumns& column_loops(Compute compute) {
  const SoftmaxTable& table = softmax_table();
  return compute == Compute::Float64 ? table.columns_of_double : table.columns_of_float;
}

// Runs over all lines of the operands, of which the last is the result, with `result_length`
// elements per line. by_rows(rows of each operand, lines) is given contiguous rows, copied where
// need be; by_columns(columns of each operand, lines) is used where elements of neighbouring lines
// are neighbours in all operands.
template <int count, class ByRows, class ByColumns>
void for_all_lines(const Lines<count>& lines, const DType (&types)[count], Compute compute, int64_t result_length,
                   ByRows by_rows, ByColumns by_columns) {
  if (lines.count == 0 || lines.length == 0) return;
  const int64_t n = lines.length;
  Operand operands[count];
  bool all_are_columns = true;
  for (int t = 0; t < count; ++t) {
    Operand& o = operands[t];
    o.step = lines.step[t];
    o.neighbour = lines.neighbour_stride(t);
    o.load = convert_table().loads(types[t], compute);
    o.store = convert_table().stores(compute, types[t]);
    o.size = size_of(compute);
    o.is_compute = is_stored_as(types[t], compute);
    const bool one_row = t == count - 1 && result_length == 1;
    all_are_columns =
        all_are_columns && o.is_compute && o.neighbour == o.size && (one_row || o.lines_are_interleaved());
  }
  const int64_t inner = lines.neighbours(0);
  const int64_t width = all_are_columns ? std::min(inner, kSoftmaxColumns)
                                        : std::min(inner, std::max<int64_t>(kTile, kPieceElements / n));
  const int64_t blocks = (inner + width - 1) / width;
  const int64_t units = lines.count / inner * blocks;
  const int64_t per_piece = std::max<int64_t>(1, kPieceElements / (n * width));
  parallel((units + per_piece - 1) / per_piece, [&](int64_t piece) {
    std::unique_ptr<char[]> buffers[count];
    const int64_t end = std::min(units, (piece + 1) * per_piece);
    for (int64_t unit = piece * per_piece; unit < end; ++unit) {
      const int64_t first = unit % blocks * width;
      const int64_t line = unit / blocks * inner + first;
      const int64_t number = std::min(width, inner - first);
      if (all_are_columns) {
        Columns columns[count];
        for (int t = 0; t < count; ++t) columns[t] = {lines.line(t, line), operands[t].step};
        by_columns(columns, number);
        continue;
      }
      char* rows[count];
      bool in_place[count];
      for (int t = 0; t < count; ++t) {
        const int64_t length = t == count - 1 ? result_length : n;
        rows[t] = lines.line(t, line);
        in_place[t] = operands[t].lies_in_rows(number, length);
        if (in_place[t]) continue;
        if (!buffers[t]) { buffers[t].reset(new char[static_cast<size_t>(width * length * operands[t].size)]); }
        if (t < count - 1) load_rows(operands[t], rows[t], number, length, buffers[t].get());
        rows[t] = buffers[t].get();
      }
      by_rows(rows, number);
      if (!in_place[count - 1]) {
        store_rows(operands[count - 1], rows[count - 1], number, result_length, lines.line(count - 1, line));
      }
    }
  });
}

}  // namespace

void softmax(Softmax kind, DType in, DType out, Strided x, Strided y, int dim) {
  const Compute compute = compute_of_both(in, out);
  const SoftmaxRows& rows = row_loops(compute);
  const SoftmaxColumns& columns = column_loops(compute);
  const auto by_rows = kind == Softmax::Log ? rows.log_softmax : rows.softmax;
  const auto by_columns = kind == Softmax::Log ? columns.log_softmax : columns.softmax;
  const Lines<2> lines({&x, &y}, dim);
  const int64_t n = lines.length;
  for_all_lines<2>(
      lines, {in, out}, compute, n, [&](char* const* all, int64_t count) { by_rows(all[0], all[1], count, n); },
      [&](const Columns* all, int64_t count) { by_columns(all[0], all[1], n, count); });
}

void softmax_backward(Softmax kind, DType in, DType out, Strided grad, Strided y, Strided grad_x, int dim) {
  const Compute compute = compute_of_both(in, out);
  const SoftmaxRows& rows = row_loops(compute);
  const SoftmaxColumns& columns = column_loops(compute);
  const bool log = kind == Softmax::Log;
  const auto by_rows = log ? rows.log_softmax_backward : rows.softmax_backward;
  const auto by_columns = log ? columns.log_softmax_backward : columns.softmax_backward;
  const Lines<3> lines({&grad, &y, &grad_x}, dim);
  const int64_t n = lines.length;
  for_all_lines<3>(
      lines, {in, in, out}, compute, n,
      [&](char* const* all, int64_t count) { by_rows(all[0], all[1], all[2], count, n); },
      [&](const Columns* all, int64_t count) { by_columns(all[0], all[1], all[2], n, count); });
}

void log_sum_exp(DType in, DType out, Strided x, Strided y, int dim) {
  const Compute compute = compute_of_both(in, out);
  const SoftmaxRows& rows = row_loops(compute);
  const SoftmaxColumns& columns = column_loops(compute);
  const Lines<2> lines({&x, &y}, dim);
  const int64_t n = lines.length;
  for_all_lines<2>(
      lines, {in, out}, compute, 1,
      [&](char* const* all, int64_t count) { rows.log_sum_exp(all[0], all[1], count, n); },
      [&](const Columns* all, int64_t count) { columns.log_sum_exp(all[0], all[1], n, count); });
}

}  // namespace weft::cpu
