// The inner loops of singular value decompositions, one table per instruction set.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa.h"

namespace weft::cpu {

// Columns are padded with zeros to a multiple of this many elements.
inline constexpr int64_t kSvdLanes = 16;

struct SvdTable {
  double (*dot)(const double* a, const double* b, int64_t n);
  // a.a, b.b and a.b in one pass
  void (*products)(const double* a, const double* b, int64_t n, double (&out)[3]);
  // a -= factor * b
  void (*subtract)(double* a, double factor, const double* b, int64_t n);
  // (a, b) = (c a - s b, s a + c b)
  void (*rotate)(double* a, double* b, int64_t n, double c, double s);
};

WEFT_ISA_TABLE(SvdTable, svd_table)

}  // namespace weft::cpu
