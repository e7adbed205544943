// Ways through strided tensors that the indexing kernels share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/kernels/cpu/strided.h"
#include "core/math/types.h"

namespace weft::cpu {

// Elements of work below which another thread does not pay.
inline constexpr int64_t kPieceElements = 1 << 15;

struct Item16 { uint64_t low, high; };

// Calls body with a value of an unsigned type of this size.
template <class Body> void with_item(int item_size, Body&& body) {
  switch (item_size) {
    case 1: return body(uint8_t{});
    case 2: return body(uint16_t{});
    case 4: return body(uint32_t{});
    case 8: return body(uint64_t{});
    case 16: return body(Item16{});
    default: __builtin_unreachable();
  }
}

// Calls body with a value of the dtype's type.
template <class Body> void with_dtype(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::Bool: return body(bool{});
    case DType::UInt8: return body((unsigned char){});
    case DType::Int8: return body((signed char){});
    case DType::Int16: return body(short{});
    case DType::Int32: return body(int{});
    case DType::Int64: return body(Int64{});
    case DType::Float16: return body(Half{});
    case DType::BFloat16: return body(BFloat16{});
    case DType::Float32: return body(float{});
    case DType::Float64: return body(double{});
    case DType::Complex64: return body(Complex64{});
    case DType::Complex128: return body(Complex128{});
  }
}

template <class T> T& at(char* p) { return *reinterpret_cast<T*>(p); }
template <class T> const T& at(const char* p) { return *reinterpret_cast<const T*>(p); }

inline int64_t element_count(int ndim, const int64_t* sizes) {
  int64_t count = 1;
  for (int d = 0; d < ndim; ++d) count *= sizes[d];
  return count;
}
inline int64_t element_count(const Strided& x) { return element_count(x.ndim, x.sizes); }

// The dimensions that several tensors share. Added from the outermost; size 1 is dropped and
// dimensions that are one in all tensors are merged.
template <int tensors> struct SharedDims {
  int ndim = 0;
  int64_t sizes[kMaxDims];
  int64_t strides[kMaxDims][tensors];

  void add(int64_t size, const int64_t (&of)[tensors]) {
    if (size == 1) return;
    bool merges = ndim > 0;
    for (int t = 0; t < tensors && merges; ++t) merges = strides[ndim - 1][t] == size * of[t];
    if (!merges) sizes[ndim++] = 1;
    sizes[ndim - 1] *= size;
    std::copy_n(of, tensors, strides[ndim - 1]);
  }

  int64_t count() const { return element_count(ndim, sizes); }

  // Elements [begin, end) in row-major order, in runs along the last dimension:
  // run(position of the first, how many, offset of the first in each tensor).
  template <class Run> void for_runs(int64_t begin, int64_t end, Run&& run) const {
    if (begin >= end) return;
    int64_t offsets[tensors] = {};
    if (ndim <= 1) {
      for (int t = 0; t < tensors; ++t) offsets[t] = begin * run_stride(t);
      run(begin, end - begin, offsets);
      return;
    }
    const int64_t length = sizes[ndim - 1];
    int64_t counters[kMaxDims];
    int64_t rest = begin;
    for (int d = ndim - 1; d >= 0; --d) {
      counters[d] = rest % sizes[d];
      rest /= sizes[d];
      for (int t = 0; t < tensors; ++t) offsets[t] += counters[d] * strides[d][t];
    }
    int64_t first = counters[ndim - 1];
    for (int64_t position = begin;;) {
      const int64_t n = std::min(length - first, end - position);
      run(position, n, offsets);
      position += n;
      if (position == end) return;
      for (int t = 0; t < tensors; ++t) offsets[t] -= first * strides[ndim - 1][t];
      first = 0;
      int d = ndim - 2;
      while (++counters[d] == sizes[d]) {
        for (int t = 0; t < tensors; ++t) offsets[t] -= (sizes[d] - 1) * strides[d][t];
        counters[d--] = 0;
      }
      for (int t = 0; t < tensors; ++t) offsets[t] += strides[d][t];
    }
  }

  int64_t run_stride(int tensor) const { return ndim == 0 ? 0 : strides[ndim - 1][tensor]; }
};

}  // namespace weft::cpu
