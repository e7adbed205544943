// What indexing does over long runs of memory, one table per instruction set.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa.h"

namespace weft::cpu {

struct IndexingTable {
  // Whether every one of n indices lies in [lowest, end), for -end <= lowest <= 0 <= end.
  bool (*all_within)(const int64_t* index, int64_t n, int64_t lowest, int64_t end);
  // to[i] += from[i]
  void (*add_floats)(float* to, const float* from, int64_t n);
  void (*add_doubles)(double* to, const double* from, int64_t n);
};

WEFT_ISA_TABLE(IndexingTable, indexing_table)

}  // namespace weft::cpu
