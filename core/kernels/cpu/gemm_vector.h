// The machine's widest vectors and a fused multiply-add on them, for the files in isa/ only.
// See Note [Nothing shared between instruction sets]: everything here is inlined.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "core/math/machine.h"

#define WEFT_INLINE inline __attribute__((always_inline))

namespace weft::cpu::WEFT_ISA {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

template <class T> inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <class T, int lanes> struct VectorOf { typedef T type __attribute__((vector_size(sizeof(T) * lanes))); };
template <class T> struct VectorOf<T, 1> { using type = T; };
template <class T, int lanes> using Vector = typename VectorOf<T, lanes>::type;

template <class V, class T> WEFT_INLINE V load(const T* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <class V, class T> WEFT_INLINE void store(T* to, V v) { __builtin_memcpy(to, &v, sizeof v); }

// x - 0 keeps the sign of zero, which 0 + x would not.
template <class V, class T> WEFT_INLINE V splat(T x) { return x - V{}; }

// a b + c with one rounding.
template <class T, int lanes>
WEFT_INLINE Vector<T, lanes> fused(Vector<T, lanes> a, Vector<T, lanes> b, Vector<T, lanes> c) {
  if constexpr (lanes == 1) {
    return math::fma(a, b, c);
#if defined(__AVX512F__)
  } else if constexpr (lanes * sizeof(T) == 64 && sizeof(T) == 4) {
    return (Vector<T, lanes>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
  } else if constexpr (lanes * sizeof(T) == 64) {
    return (Vector<T, lanes>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#endif
#if defined(__AVX2__)
  } else if constexpr (lanes * sizeof(T) == 32 && sizeof(T) == 4) {
    return (Vector<T, lanes>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
  } else if constexpr (lanes * sizeof(T) == 32) {
    return (Vector<T, lanes>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
  } else if constexpr (lanes * sizeof(T) == 16 && sizeof(T) == 4) {
    return (Vector<T, lanes>)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
  } else if constexpr (lanes * sizeof(T) == 16) {
    return (Vector<T, lanes>)_mm_fmadd_pd((__m128d)a, (__m128d)b, (__m128d)c);
#endif
  } else {
    Vector<T, lanes> result;
    for (int l = 0; l < lanes; ++l) result[l] = math::fma(a[l], b[l], c[l]);
    return result;
  }
}

// Four by four elements: rows become columns. For T of which four fit a vector.
template <class T> inline constexpr bool kTransposesFours = 4 * sizeof(T) <= kVectorBytes;

template <class T>
WEFT_INLINE void transpose_four(const T* from, int64_t from_line, T* to, int64_t to_line) {
  using V = Vector<T, 4>;
  const V w = load<V>(from), x = load<V>(from + from_line), y = load<V>(from + 2 * from_line),
          z = load<V>(from + 3 * from_line);
  const V wx_low = __builtin_shufflevector(w, x, 0, 4, 1, 5);
  const V wx_high = __builtin_shufflevector(w, x, 2, 6, 3, 7);
  const V yz_low = __builtin_shufflevector(y, z, 0, 4, 1, 5);
  const V yz_high = __builtin_shufflevector(y, z, 2, 6, 3, 7);
  store(to, __builtin_shufflevector(wx_low, yz_low, 0, 1, 4, 5));
  store(to + to_line, __builtin_shufflevector(wx_low, yz_low, 2, 3, 6, 7));
  store(to + 2 * to_line, __builtin_shufflevector(wx_high, yz_high, 0, 1, 4, 5));
  store(to + 3 * to_line, __builtin_shufflevector(wx_high, yz_high, 2, 3, 6, 7));
}

}  // namespace weft::cpu::WEFT_ISA
