// Tile kernels: one element-wise operation over one contiguous run, on the calling thread.
//
// `functor` points at the operation's functor (core/math/list.h); operations without parameters may
// pass null. Unused operands are null. `out` may be the very pointer of an operand whose elements
// have the size of out's; other overlaps are not allowed.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa.h"
#include "core/math/list.h"

namespace weft::cpu {

using TileFn = void (*)(const void* functor, int64_t n, void* out, const void* a, const void* b, const void* c);

inline constexpr int kItemSizes = 5;  // 1, 2, 4, 8 and 16 bytes
constexpr int item_size_index(int item_size) { return __builtin_ctz(unsigned(item_size)); }

struct TileTable {
  // By operation and compute dtype; null where kElementwiseInfo does not name the dtype.
  // Predicates write one byte, 0 or 1, per element. `where` reads its condition, a, as bytes.
  TileFn op[kElementwiseCount][kDTypes];

  TileFn cast[kDTypes][kDTypes];  // [from][to], reads a

  // Strides are in bytes. Indexed by item_size_index().
  void (*gather[kItemSizes])(int64_t n, void* to, const void* from, int64_t from_stride);
  void (*scatter[kItemSizes])(int64_t n, void* to, int64_t to_stride, const void* from);
  void (*fill[kItemSizes])(int64_t n, void* to, const void* value);

  TileFn of(Elementwise e, DType t) const { return op[static_cast<int>(e)][static_cast<int>(t)]; }
  TileFn of_cast(DType from, DType to) const { return cast[static_cast<int>(from)][static_cast<int>(to)]; }
};

WEFT_ISA_TABLE(TileTable, tile_table)

}  // namespace weft::cpu
