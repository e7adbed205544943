#include "core/kernels/cpu/isa/reduce_convert.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "core/math/types.h"

namespace weft::cpu::WEFT_ISA {
namespace {

#if defined(__F16C__)
// The machine's own conversion: the same numbers as math::cast (of NaN, another one).
WEFT_FN int64_t load_halves(const Half* from, int64_t n, float* to) {
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    _mm512_storeu_ps(to + i, _mm512_cvtph_ps(halves));
  }
#endif
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
  return i;
}
#else
WEFT_FN int64_t load_halves(const Half*, int64_t, float*) { return 0; }
#endif
template <class From, class To> WEFT_FN int64_t load_halves(const From*, int64_t, To*) { return 0; }

template <class From, class To> void load(const char* x, int64_t stride, int64_t n, void* out) {
  To* __restrict__ to = static_cast<To*>(out);
  if (stride == sizeof(From)) {
    const From* __restrict__ from = reinterpret_cast<const From*>(x);
    for (int64_t i = load_halves(from, n, to); i < n; ++i) to[i] = math::cast<To>(from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i, x += stride) { to[i] = math::cast<To>(*reinterpret_cast<const From*>(x)); }
  }
}

template <class From> void nonzero(const char* x, int64_t stride, int64_t n, void* out) {
  int* __restrict__ to = static_cast<int*>(out);
  if (stride == sizeof(From)) {
    const From* __restrict__ from = reinterpret_cast<const From*>(x);
    for (int64_t i = 0; i < n; ++i) to[i] = math::cast<bool>(from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i, x += stride) { to[i] = math::cast<bool>(*reinterpret_cast<const From*>(x)); }
  }
}

template <class From, class To> void store(const void* x, int64_t n, char* out, int64_t stride) {
  const From* __restrict__ from = static_cast<const From*>(x);
  if (stride == sizeof(To)) {
    To* __restrict__ to = reinterpret_cast<To*>(out);
    for (int64_t i = 0; i < n; ++i) to[i] = math::cast<To>(from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i, out += stride) { *reinterpret_cast<To*>(out) = math::cast<To>(from[i]); }
  }
}

template <Compute compute, class C> struct Conversions {
  template <int t = 0> static void set(ConvertTable& table) {
    using T = typename TypeOf<static_cast<DType>(t)>::type;
    constexpr int c = static_cast<int>(compute);
    table.load[t][c] = load<T, C>;
    table.store[c][t] = store<C, T>;
    table.nonzero[t] = nonzero<T>;
    if constexpr (t + 1 < kDTypes) set<t + 1>(table);
  }
};

ConvertTable make_table() {
  ConvertTable table;
  Conversions<Compute::Float32, float>::set(table);
  Conversions<Compute::Float64, double>::set(table);
  Conversions<Compute::Int32, int>::set(table);
  Conversions<Compute::Int64, Int64>::set(table);
  Conversions<Compute::Complex64, Complex64>::set(table);
  Conversions<Compute::Complex128, Complex128>::set(table);
  return table;
}

}  // namespace

const ConvertTable& convert_table() {
  static const ConvertTable table = make_table();
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
