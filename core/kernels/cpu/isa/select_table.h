// The inner loops of selecting by rank, one table per instruction set.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa.h"
#include "core/math/dtype.h"

namespace weft::cpu {

struct SelectTable {
  // n elements, `step` bytes apart, as contiguous keys (see order_keys.h), or as their complements.
  // By element type; null for complex numbers.
  using ReadKeys = void (*)(const char* x, int64_t step, int64_t n, bool descending, void* keys);
  ReadKeys read_keys[kDTypes];
  // How many of n keys are smaller than `bound`.
  int64_t (*count_below_32)(const uint32_t* keys, int64_t n, uint32_t bound);
  int64_t (*count_below_64)(const uint64_t* keys, int64_t n, uint64_t bound);

  int64_t count_below(const uint32_t* keys, int64_t n, uint32_t bound) const { return count_below_32(keys, n, bound); }
  int64_t count_below(const uint64_t* keys, int64_t n, uint64_t bound) const { return count_below_64(keys, n, bound); }
};

WEFT_ISA_TABLE(SelectTable, select_table)

}  // namespace weft::cpu
