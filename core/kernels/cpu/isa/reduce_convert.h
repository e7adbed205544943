// Elements of any type and stride to contiguous elements of a compute type, and back.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa.h"
#include "core/math/dtype.h"

namespace weft::cpu {

// The types that loops compute in; every element type is converted to one of them.
enum class Compute : int { Float32, Float64, Int32, Int64, Complex64, Complex128 };
inline constexpr int kComputes = 6;
inline constexpr int kComputeSizes[kComputes] = {4, 8, 4, 8, 8, 16};
inline constexpr int kMaxComputeSize = 16;

// The narrowest compute type that holds every value of t.
constexpr Compute compute_of(DType t) {
  switch (t) {
    case DType::Int64: return Compute::Int64;
    case DType::Float16:
    case DType::BFloat16:
    case DType::Float32: return Compute::Float32;
    case DType::Float64: return Compute::Float64;
    case DType::Complex64: return Compute::Complex64;
    case DType::Complex128: return Compute::Complex128;
    default: return Compute::Int32;
  }
}
constexpr int size_of(Compute compute) { return kComputeSizes[static_cast<int>(compute)]; }

// Whether elements of t lie in memory as the compute type wants them.
constexpr bool is_stored_as(DType t, Compute compute) {
  return compute_of(t) == compute && item_size(t) == size_of(compute);
}

struct ConvertTable {
  // n elements, `stride` bytes apart, to contiguous ones.
  using Load = void (*)(const char* x, int64_t stride, int64_t n, void* out);
  using Store = void (*)(const void* x, int64_t n, char* out, int64_t stride);
  Load load[kDTypes][kComputes];
  Load nonzero[kDTypes];  // 0 or 1 as Compute::Int32
  Store store[kComputes][kDTypes];

  Load loads(DType from, Compute to) const { return load[static_cast<int>(from)][static_cast<int>(to)]; }
  Store stores(Compute from, DType to) const { return store[static_cast<int>(from)][static_cast<int>(to)]; }
};

WEFT_ISA_TABLE(ConvertTable, convert_table)

}  // namespace weft::cpu
