// Rows that become columns, one table per instruction set.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa.h"

namespace weft::cpu {

struct TransposeTable {
  // dst[i][j] = src[j][i] for i < rows, j < columns: rows of dst and of src lie dst_row and src_row
  // bytes apart, their elements side by side. For elements of 4 and of 8 bytes.
  using Loop = void (*)(char* dst, int64_t dst_row, const char* src, int64_t src_row, int64_t rows, int64_t columns);
  Loop items_of_4, items_of_8;

  Loop of(int64_t item_size) const { return item_size == 4 ? items_of_4 : item_size == 8 ? items_of_8 : nullptr; }
};

WEFT_ISA_TABLE(TransposeTable, transpose_table)

}  // namespace weft::cpu
