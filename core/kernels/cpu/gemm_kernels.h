// The kernels of matrix products that are compiled once per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/kernels/cpu/gemm.h"
#include "core/kernels/cpu/isa.h"

namespace weft::cpu {

// One product, or one piece of one: C (m x n) = A (m x k) B (k x n), or C += A B.
struct Product {
  int64_t m, n, k;
  MatrixView a, b;
  void* c;
  int64_t c_row_stride;
  bool accumulate;
};

// Small products, straight from the operands' memory, any strides. The same bits on every set.
struct SmallProducts {
  void (*f32)(const Product&);
  void (*f64)(const Product&);
};
WEFT_ISA_TABLE(SmallProducts, small_products)

// Products of any size through packed blocks, for where no library is. `scratch` is aligned to 64
// bytes.
struct BlockedProducts {
  void (*f32)(const Product&, void* scratch);
  void (*f64)(const Product&, void* scratch);
  size_t scratch_bytes;
};
WEFT_ISA_TABLE(BlockedProducts, blocked_products)

// Conversions between float32 and the 16 bit floats, for contiguous runs.
struct HalfConversions {
  void (*widen_f16)(int64_t n, const void* from, float* to);
  void (*widen_bf16)(int64_t n, const void* from, float* to);
  void (*narrow_f16)(int64_t n, const float* from, void* to);
  void (*narrow_bf16)(int64_t n, const float* from, void* to);
};
WEFT_ISA_TABLE(HalfConversions, half_conversions)

}  // namespace weft::cpu
