// The inner loops of scans, one table per instruction set. See Note [The fixed scan].
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa/reduce_convert.h"

namespace weft::cpu {

enum class ScanOp : int { Sum, Prod, LogAddExp };
inline constexpr int kScanOps = 3;

struct ScanKernel {
  void (*begin)(void* states, int64_t count) = nullptr;  // writes identities
  // n elements of one sequence, of which the first begins a segment; x and y may be the same.
  // `before` is rule 3's, for the first segment on entry and for the segment after n on return.
  void (*along)(const void* x, void* y, int64_t n, void* before) = nullptr;
  // The last local of every segment of n elements.
  void (*totals)(const void* x, int64_t n, void* totals) = nullptr;
  // One element of `width` sequences: local = fold(local, x), y = fold(before, local).
  void (*across)(const void* x, void* y, int64_t width, const void* before, void* local) = nullptr;
  // out[i] = fold(a[i], b[i]); out may be a or b.
  void (*fold)(const void* a, const void* b, void* out, int64_t count) = nullptr;
};

struct ScanTable { ScanKernel kernels[kScanOps][kComputes]; };

WEFT_ISA_TABLE(ScanTable, scan_table)

}  // namespace weft::cpu
