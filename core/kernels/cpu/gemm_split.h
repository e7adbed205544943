// How one product is cut into pieces: by its sizes only, see Note [The same bits for any number of
// threads] in gemm.h.
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft::cpu {

struct Split {
  int64_t block_rows, block_columns;  // of C
  int64_t parts, part_depth;          // of the sums along k
  int64_t row_blocks, column_blocks;

  int64_t pieces() const { return row_blocks * column_blocks * parts; }
};

namespace split_detail {

inline int64_t blocks(int64_t size, int64_t block) { return (size + block - 1) / block; }
inline int64_t half(int64_t size, int64_t multiple) { return blocks(blocks(size, 2), multiple) * multiple; }

}  // namespace split_detail

// A piece is worth handing to another thread from this many multiply-adds on; a product with a
// vector is bound by memory and so takes longer per multiply-add.
inline constexpr double kLeastWork = 1 << 20;
inline constexpr double kLeastVectorWork = 1 << 17;
// Beyond this, pieces are cut further whatever their number: scratch memory stays small.
inline constexpr double kMostWork = 64 << 20;
inline constexpr double kMostVectorWork = 1 << 20;

// `wanted` pieces suit the caller; very large products give more.
inline Split split_product(int64_t m, int64_t n, int64_t k, int64_t wanted) {
  using split_detail::blocks;
  using split_detail::half;
  constexpr int64_t kLeastRows = 64, kLeastColumns = 128, kLeastDepth = 1024;
  Split split{m, n, 1, k, 1, 1};
  const bool vector = m == 1 || n == 1;
  const double least = vector ? kLeastVectorWork : kLeastWork;
  const double most = vector ? kMostVectorWork : kMostWork;
  const auto work = [&] {
    return static_cast<double>(split.block_rows) * static_cast<double>(split.block_columns) *
           static_cast<double>(split.part_depth);
  };
  if (work() < 2 * least) return split;
  split.block_rows = std::min<int64_t>(m, n == 1 ? m : 256);
  split.block_columns = std::min<int64_t>(n, m == 1 ? n : 512);
  const auto count = [&] {
    split.row_blocks = blocks(m, split.block_rows);
    split.column_blocks = blocks(n, split.block_columns);
    return split.pieces();
  };
  while (work() >= 2 * least && (count() < wanted || work() > most)) {
    const bool wide = split.block_columns > split.block_rows;
    if (split.block_columns >= 2 * kLeastColumns && (wide || split.block_rows < 2 * kLeastRows)) {
      split.block_columns = half(split.block_columns, 64);
    } else if (split.block_rows >= 2 * kLeastRows) {
      split.block_rows = half(split.block_rows, 32);
    } else {
      break;
    }
  }
  while (count() < wanted && split.part_depth >= 2 * kLeastDepth && work() >= 2 * least) {
    split.part_depth = half(split.part_depth, 256);
    split.parts = blocks(k, split.part_depth);
  }
  return split;
}

}  // namespace weft::cpu
