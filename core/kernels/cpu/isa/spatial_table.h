// Inner loops over images, one table per instruction set.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa.h"

namespace weft::cpu {

struct SpatialTable {
  // to[j * to_line + i] = from[i * from_line + j] for all i < lines, j < length.
  void (*transpose)(const float* from, int64_t from_line, int64_t lines, int64_t length, float* to, int64_t to_line);
};

WEFT_ISA_TABLE(SpatialTable, spatial_table)

}  // namespace weft::cpu
