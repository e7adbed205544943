// The element types, named once. Everything in core/math is included by g++ and by NVRTC alike,
// so nothing here may include a header of the host.
#pragma once

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
#define WEFT_FN __host__ __device__ inline
#else
#define WEFT_FN inline __attribute__((always_inline))
#endif

namespace weft {

// The order is that of promotion: within a category the later type wins.
enum class DType : unsigned char {
  Bool,
  UInt8,
  Int8,
  Int16,
  Int32,
  Int64,
  Float16,
  BFloat16,
  Float32,
  Float64,
  Complex64,
  Complex128,
};
inline constexpr int kDTypes = 12;

WEFT_FN constexpr bool is_complex(DType t) { return t >= DType::Complex64; }
WEFT_FN constexpr bool is_floating(DType t) { return t >= DType::Float16 && t <= DType::Float64; }
WEFT_FN constexpr bool is_integral(DType t) { return t <= DType::Int64; }  // bool included
WEFT_FN constexpr bool is_differentiable(DType t) { return t >= DType::Float16; }

WEFT_FN constexpr int item_size(DType t) {
  constexpr unsigned char sizes[kDTypes] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return sizes[static_cast<int>(t)];
}

}  // namespace weft
