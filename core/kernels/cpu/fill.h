// Filling memory: with one value, with a sequence, with a triangle of zeros.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/strided.h"
#include "core/math/dtype.h"

namespace weft::cpu {

// n adjacent elements of `item_size` bytes (1, 2, 4, 8 or 16), each a copy of *value.
void fill_items(int item_size, void* out, int64_t n, const void* value);

// out[i] = start + i * step, of a real type other than bool. Integers wrap.
void fill_arange(DType type, int64_t start, int64_t step, void* out, int64_t n);
void fill_arange(DType type, double start, double step, void* out, int64_t n);

// n numbers from start to end, both included; the second half is counted from the end, so that the
// last one is exact. Integer types round toward zero.
void fill_linspace(DType type, double start, double end, void* out, int64_t n);
void fill_linspace(DType type, int64_t start, int64_t end, void* out, int64_t n);

// Zeros above (or, with `below`, below) a diagonal of the last two dimensions.
void zero_triangle(int item_size, Strided matrices, int64_t diagonal, bool below);

}  // namespace weft::cpu
