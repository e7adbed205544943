// The lanes of a chunk in vector registers. Included by files of isa/ only.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "core/math/reduction.h"

namespace weft::cpu::WEFT_ISA {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

template <class T> struct VectorOf { typedef T type __attribute__((vector_size(kVectorBytes))); };
template <class T> using Vector = typename VectorOf<T>::type;
template <class T> inline constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(T));

template <class T> WEFT_FN Vector<T> load(const T* p) {
  Vector<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class T> WEFT_FN void store(T* p, Vector<T> v) { __builtin_memcpy(p, &v, sizeof v); }
template <class T> WEFT_FN Vector<T> broadcast(T x) { return x - Vector<T>{}; }

// The first `count` elements at p, then `padding`. Nothing beyond them is read.
template <class T> WEFT_FN Vector<T> load_partial(const T* p, Int64 count, Vector<T> padding) {
  if (count >= kWidth<T>) return load(p);
  if (count <= 0) return padding;
#if defined(__AVX512F__)
  const unsigned mask = (1u << count) - 1;
  if constexpr (sizeof(T) == 4) {
    return (Vector<T>)_mm512_mask_loadu_epi32((__m512i)padding, static_cast<__mmask16>(mask), p);
  } else {
    return (Vector<T>)_mm512_mask_loadu_epi64((__m512i)padding, static_cast<__mmask8>(mask), p);
  }
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) {
    const __m256i mask =
        _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const __m256i loaded = _mm256_maskload_epi32(reinterpret_cast<const int*>(p), mask);
    return (Vector<T>)_mm256_blendv_epi8((__m256i)padding, loaded, mask);
  } else {
    const __m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
    const __m256i loaded = _mm256_maskload_epi64(reinterpret_cast<const long long*>(p), mask);
    return (Vector<T>)_mm256_blendv_epi8((__m256i)padding, loaded, mask);
  }
#else
  Vector<T> v = padding;
  for (int i = 0; i < count; ++i) v[i] = p[i];
  return v;
#endif
}

template <int... i> struct Indices {};
template <int n> using FirstIndices = Indices<__integer_pack(n)...>;

// v with element i + half in place i.
template <int half, class T, int... i>
WEFT_FN Vector<T> upper_half(Vector<T> v, Indices<i...>) {
  using Index = decltype(Vector<T>{} < Vector<T>{});
  return __builtin_shuffle(v, Index{((i + half) % kWidth<T>)...});
}

template <class Op, class T, int half>
WEFT_FN T fold_within(Vector<T> v) {
  if constexpr (half == 0) {
    return v[0];
  } else {
    const Vector<T> folded = Op::fold(v, upper_half<half, T>(v, FirstIndices<kWidth<T>>{}));
    return fold_within<Op, T, half / 2>(folded);
  }
}

template <class Op, class T> struct Lanes {
  static constexpr int kVectors = reduction::kLanes / kWidth<T>;
  Vector<T> v[kVectors];

  WEFT_FN void begin() {
#pragma GCC unroll 32
    for (int k = 0; k < kVectors; ++k) v[k] = broadcast(Op::template identity<T>());
  }
  WEFT_FN void take(const T* x, Vector<T> center) {
#pragma GCC unroll 32
    for (int k = 0; k < kVectors; ++k) v[k] = Op::take(v[k], load(x + k * kWidth<T>), center);
  }
  WEFT_FN void take_partial(const T* x, Int64 count, Vector<T> center) {
    const Vector<T> padding = Op::padding(broadcast(Op::template identity<T>()), center);
#pragma GCC unroll 32
    for (int k = 0; k < kVectors; ++k) {
      const Int64 left = count - k * kWidth<T>;
      v[k] = Op::take(v[k], load_partial(x + k * kWidth<T>, left, padding), center);
    }
  }
  WEFT_FN T end() {
#pragma GCC unroll 32
    for (int half = kVectors / 2; half > 0; half /= 2) {
#pragma GCC unroll 32
      for (int k = 0; k < half; ++k) v[k] = Op::fold(v[k], v[k + half]);
    }
    return fold_within<Op, T, kWidth<T> / 2>(v[0]);
  }
};

// Asks for the memory that a loop along x will read some microseconds from now: the hardware stops
// at the end of every page, and here the next chunk usually lies in the next pages. Asking for what
// does not exist is harmless.
template <class T> WEFT_FN void prefetch_lanes(const T* x) {
  constexpr int kAhead = 4096, kLine = 64;
  const char* from = reinterpret_cast<const char*>(x) + kAhead;
#pragma GCC unroll 8
  for (int i = 0; i < reduction::kLanes * static_cast<int>(sizeof(T)); i += kLine) __builtin_prefetch(from + i);
}

// One chunk along contiguous memory.
template <class Op, class T> WEFT_FN T reduce_chunk(const T* x, Int64 n, T center) {
  const Vector<T> centers = broadcast(center);
  Lanes<Op, T> lanes;
  lanes.begin();
  Int64 i = 0;
  for (; i + reduction::kLanes <= n; i += reduction::kLanes) {
    prefetch_lanes(x + i);
    lanes.take(x + i, centers);
  }
  if (i < n) lanes.take_partial(x + i, n - i, centers);
  return lanes.end();
}

}  // namespace weft::cpu::WEFT_ISA
