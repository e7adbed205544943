// The row-wise part of attention over one tile of scores, one table per instruction set.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa.h"

namespace weft::cpu {

// The largest tile. Rows fit into one chunk of the fixed tree.
inline constexpr int64_t kTileQueries = 64, kTileKeys = 256;

// A tile of scores (queries by keys, rows `columns` apart), and what hides keys from queries. At most one of
// the masks is given; both begin at the tile's first element.
struct ScoreTile {
  int64_t rows, columns;
  double scale;             // of the raw products
  const void* added;        // numbers of the scores' type, or null
  const bool* allowed;      // or null
  int64_t mask_row_stride;  // in elements, as is the next
  int64_t causal;           // row r sees the columns up to r + causal; use kSeesAll to see all of them
};
inline constexpr int64_t kSeesAll = int64_t{1} << 40;

struct AttentionRows {
  // Scores to exponentials of their distance from the largest score so far. `largest` and `sum` have one
  // number per row and are brought up to date; `rescale` receives what earlier results must be multiplied
  // with.
  void (*softmax)(const ScoreTile& tile, void* scores, void* largest, void* sum, void* rescale);
  // Scores to probabilities, given the logarithm of each row's sum, and gradients of probabilities to
  // gradients of raw products, given the rows' dots.
  void (*backward)(const ScoreTile& tile, void* scores, void* grads, const void* log_sum, const void* dots);
  // rows of y times a number each, y's rows `step` elements apart
  void (*scale_rows)(int64_t rows, int64_t columns, void* y, int64_t step, const void* factors);
  // The sum of a b along each row.
  void (*dots)(int64_t rows, int64_t columns, const void* a, int64_t a_step, const void* b, int64_t b_step, void* out);
  // 1 / sum, and largest + log(sum); of rows that saw nothing: 0, and infinity (so that exp(x - it) is 0).
  void (*finish)(int64_t rows, const void* largest, const void* sum, void* inverse, void* log_sum);
};

struct AttentionTable { AttentionRows rows_of_float, rows_of_double; };

WEFT_ISA_TABLE(AttentionTable, attention_table)

}  // namespace weft::cpu
