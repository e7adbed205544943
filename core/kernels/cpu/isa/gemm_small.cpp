// Small matrix products and products with a vector, straight from the operands' memory.
//
// Every element's sum has one order, given by the strides and sizes alone: along k by fused
// multiply-adds, in chunks of kChunk, each chunk's sum added to C. Vector widths and tiles differ
// between instruction sets; the order does not, so neither do the bits.
#include <stddef.h>
#include <stdint.h>

#include "core/kernels/cpu/gemm_kernels.h"
#include "core/kernels/cpu/gemm_vector.h"

namespace weft::cpu::WEFT_ISA {

namespace {

constexpr int64_t kChunk = 256;

// Where k is adjacent in both operands, sums are kept in this many bytes of lanes, on every set.
constexpr int kDotBytes = 64;
template <class T> constexpr int kDotLanes = kDotBytes / static_cast<int>(sizeof(T));

// One chunk of one product, with typed pointers.
template <class T> struct Chunk {
  int64_t m, n, k;
  const T* a;
  int64_t a_row, a_col;
  const T* b;
  int64_t b_row, b_col;
  T* c;
  int64_t c_row;
  bool add;
};

template <class T, class V> WEFT_INLINE void put(T* c, V sum, bool add) { store(c, add ? load<V>(c) + sum : sum); }

// ---- b's columns are adjacent: vectors run along n ----------------------------------------------

template <class T, int lanes, int vectors, int rows>
WEFT_INLINE void multiply_tile(const Chunk<T>& x, int64_t i, int64_t j) {
  using V = Vector<T, lanes>;
  V sums[rows][vectors] = {};
  const T* a = x.a + i * x.a_row;
  const T* b = x.b + j;
  for (int64_t p = 0; p < x.k; ++p, a += x.a_col, b += x.b_row) {
    V from_b[vectors];
    for (int v = 0; v < vectors; ++v) from_b[v] = load<V>(b + v * lanes);
    for (int r = 0; r < rows; ++r) {
      const V from_a = splat<V>(a[r * x.a_row]);
      for (int v = 0; v < vectors; ++v) { sums[r][v] = fused<T, lanes>(from_a, from_b[v], sums[r][v]); }
    }
  }
  T* c = x.c + i * x.c_row + j;
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) put(c + r * x.c_row + v * lanes, sums[r][v], x.add);
  }
}

template <class T, int lanes, int vectors>
void multiply_strip(const Chunk<T>& x, int64_t j) {
  int64_t i = 0;
  if constexpr (vectors <= 4) {
    for (; i + 4 <= x.m; i += 4) multiply_tile<T, lanes, vectors, 4>(x, i, j);
  }
  switch (x.m - i) {
    case 3: return multiply_tile<T, lanes, vectors, 3>(x, i, j);
    case 2: return multiply_tile<T, lanes, vectors, 2>(x, i, j);
    case 1: return multiply_tile<T, lanes, vectors, 1>(x, i, j);
  }
}

// The last columns, fewer than a vector.
#if defined(__AVX512F__)

WEFT_INLINE Vector<float, 16> load_first(int count, const float* from) {
  return (Vector<float, 16>)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from);
}
WEFT_INLINE Vector<double, 8> load_first(int count, const double* from) {
  return (Vector<double, 8>)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1), from);
}
WEFT_INLINE void store_first(int count, float* to, Vector<float, 16> v) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), (__m512)v);
}
WEFT_INLINE void store_first(int count, double* to, Vector<double, 8> v) {
  _mm512_mask_storeu_pd(to, static_cast<__mmask8>((1u << count) - 1), (__m512d)v);
}

template <class T, int rows>
WEFT_INLINE void multiply_masked_tile(const Chunk<T>& x, int64_t i, int64_t j) {
  constexpr int lanes = kLanes<T>;
  using V = Vector<T, lanes>;
  const int count = static_cast<int>(x.n - j);
  V sums[rows] = {};
  const T* a = x.a + i * x.a_row;
  const T* b = x.b + j;
  for (int64_t p = 0; p < x.k; ++p, a += x.a_col, b += x.b_row) {
    const V from_b = load_first(count, b);
    for (int r = 0; r < rows; ++r) { sums[r] = fused<T, lanes>(splat<V>(a[r * x.a_row]), from_b, sums[r]); }
  }
  for (int r = 0; r < rows; ++r) {
    T* const c = x.c + (i + r) * x.c_row + j;
    store_first(count, c, x.add ? load_first(count, c) + sums[r] : sums[r]);
  }
}

template <class T> WEFT_INLINE void multiply_rest(const Chunk<T>& x, int64_t j) {
  // Whole vectors where one fits: what a masked store wrote cannot be read back at once.
  switch (x.n - j) {
    case 8:
      if constexpr (sizeof(T) == 4) return multiply_strip<T, 8, 1>(x, j);
      break;
    case 4: return multiply_strip<T, 4, 1>(x, j);
    case 2: return multiply_strip<T, 2, 1>(x, j);
    case 1: return multiply_strip<T, 1, 1>(x, j);
  }
  int64_t i = 0;
  for (; i + 8 <= x.m; i += 8) multiply_masked_tile<T, 8>(x, i, j);
  for (; i + 2 <= x.m; i += 2) multiply_masked_tile<T, 2>(x, i, j);
  for (; i < x.m; ++i) multiply_masked_tile<T, 1>(x, i, j);
}

#else

template <class T, int lanes> WEFT_INLINE void multiply_rest_by_halves(const Chunk<T>& x, int64_t j) {
  if ((x.n - j) & lanes) {
    multiply_strip<T, lanes, 1>(x, j);
    j += lanes;
  }
  if constexpr (lanes > 1) multiply_rest_by_halves<T, lanes / 2>(x, j);
}

template <class T> WEFT_INLINE void multiply_rest(const Chunk<T>& x, int64_t j) {
  multiply_rest_by_halves<T, kLanes<T> / 2>(x, j);
}

#endif

template <class T, int vectors>
WEFT_INLINE int64_t multiply_strips(const Chunk<T>& x, int64_t j) {
  constexpr int columns = vectors * kLanes<T>;
  for (; j + columns <= x.n; j += columns) multiply_strip<T, kLanes<T>, vectors>(x, j);
  return j;
}

template <class T> WEFT_INLINE void multiply_rows(const Chunk<T>& x) {
  constexpr bool many_registers = kVectorBytes == 64;
  int64_t j = 0;
  // Few rows leave registers for more columns, which hides the latency of the additions.
  if (x.m <= (many_registers ? 3 : 1)) j = multiply_strips<T, 8>(x, j);
  if constexpr (many_registers) j = multiply_strips<T, 4>(x, j);
  j = multiply_strips<T, 2>(x, j);
  j = multiply_strips<T, 1>(x, j);
  if (j < x.n) multiply_rest(x, j);
}

// One column times one row: bound by memory, so in C's own order.
template <class T, bool add> WEFT_INLINE void multiply_outer(const Chunk<T>& x) {
  constexpr int lanes = kLanes<T>;
  using V = Vector<T, lanes>;
  const T* const b = x.b;
  const int64_t n = x.n;
  for (int64_t i = 0; i < x.m; ++i) {
    const T from_a = x.a[i * x.a_row];
    T* const c = x.c + i * x.c_row;
    int64_t j = 0;
    for (; j + 4 * lanes <= n; j += 4 * lanes) {
      for (int v = 0; v < 4 * lanes; v += lanes) { put(c + j + v, splat<V>(from_a) * load<V>(b + j + v), add); }
    }
    for (; j + lanes <= n; j += lanes) put(c + j, splat<V>(from_a) * load<V>(b + j), add);
    for (; j < n; ++j) put(c + j, from_a * b[j], add);
  }
}

// ---- b's rows are adjacent: each element is a dot product ---------------------------------------

// The sum of all lanes: lane l meets lane l + half, then half of that, and so on.
WEFT_INLINE float sum_of_lanes(Vector<float, 4> v) {
  const auto two = __builtin_shufflevector(v, v, 0, 1) + __builtin_shufflevector(v, v, 2, 3);
  return two[0] + two[1];
}
WEFT_INLINE double sum_of_lanes(Vector<double, 2> v) { return v[0] + v[1]; }
#if defined(__AVX2__)
WEFT_INLINE float sum_of_lanes(Vector<float, 8> v) {
  return sum_of_lanes(__builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7));
}
WEFT_INLINE double sum_of_lanes(Vector<double, 4> v) {
  return sum_of_lanes(__builtin_shufflevector(v, v, 0, 1) + __builtin_shufflevector(v, v, 2, 3));
}
#endif
#if defined(__AVX512F__)
WEFT_INLINE float sum_of_lanes(Vector<float, 16> v) {
  return sum_of_lanes(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                      __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
}
WEFT_INLINE double sum_of_lanes(Vector<double, 8> v) {
  return sum_of_lanes(__builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7));
}
#endif

// The lanes of several vectors, taken as one row.
template <class V> WEFT_INLINE auto sum_of_parts(const V (&parts)[1]) { return sum_of_lanes(parts[0]); }
template <class V> WEFT_INLINE auto sum_of_parts(const V (&parts)[2]) { return sum_of_lanes(parts[0] + parts[1]); }
template <class V> WEFT_INLINE auto sum_of_parts(const V (&parts)[4]) {
  return sum_of_lanes((parts[0] + parts[2]) + (parts[1] + parts[3]));
}

// The sums of several vectors' lanes, in the same order as above, sharing the shuffles.
template <class T, int columns, class Parts>
WEFT_INLINE void sums_of_parts(const Parts (&parts)[columns], T (&sums)[columns]) {
#pragma GCC unroll 4
  for (int s = 0; s < columns; ++s) sums[s] = sum_of_parts(parts[s]);
}
#if defined(__AVX512F__)
WEFT_INLINE void sums_of_parts(const Vector<float, 16> (&v)[4][1], float (&sums)[4]) {
  const auto meet_8 = [](Vector<float, 16> x, Vector<float, 16> y) __attribute__((always_inline)) {
    return __builtin_shufflevector(x, y, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
           __builtin_shufflevector(x, y, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  };
  const auto x = meet_8(v[0][0], v[1][0]);
  const auto y = meet_8(v[2][0], v[3][0]);
  const auto four = __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
                    __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  const auto two = four + __builtin_shufflevector(four, four, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  const auto one = two + __builtin_shufflevector(two, two, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  store(sums, __builtin_shufflevector(one, one, 0, 4, 8, 12));
}
#elif defined(__AVX2__)
WEFT_INLINE void sums_of_parts(const Vector<float, 8> (&v)[4][2], float (&sums)[4]) {
  const auto meet_4 = [](Vector<float, 8> x, Vector<float, 8> y) __attribute__((always_inline)) {
    return __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11) +
           __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15);
  };
  const auto x = meet_4(v[0][0] + v[0][1], v[1][0] + v[1][1]);
  const auto y = meet_4(v[2][0] + v[2][1], v[3][0] + v[3][1]);
  const auto two = __builtin_shufflevector(x, y, 0, 1, 8, 9, 4, 5, 12, 13) +
                   __builtin_shufflevector(x, y, 2, 3, 10, 11, 6, 7, 14, 15);
  const auto one = two + __builtin_shufflevector(two, two, 1, 0, 3, 2, 5, 4, 7, 6);
  store(sums, __builtin_shufflevector(one, one, 0, 4, 2, 6));
}
#endif

template <class T, int rows, int columns>
WEFT_INLINE void dot_tile(const Chunk<T>& x, int64_t i, int64_t j) {
  constexpr int lanes = kLanes<T>;
  constexpr int parts = kDotBytes / kVectorBytes;
  using V = Vector<T, lanes>;
  V sums[rows][columns][parts] = {};
  const T* a = x.a + i * x.a_row;
  const T* b = x.b + j * x.b_col;
  int64_t p = 0;
  for (; p + kDotLanes<T> <= x.k; p += kDotLanes<T>) {
    for (int part = 0; part < parts; ++part) {
      V from_a[rows];
      for (int r = 0; r < rows; ++r) from_a[r] = load<V>(a + r * x.a_row + p + part * lanes);
      for (int s = 0; s < columns; ++s) {
        const V from_b = load<V>(b + s * x.b_col + p + part * lanes);
        for (int r = 0; r < rows; ++r) { sums[r][s][part] = fused<T, lanes>(from_a[r], from_b, sums[r][s][part]); }
      }
    }
  }
  T totals[rows][columns];
#pragma GCC unroll 4  // or the sums live in memory
  for (int r = 0; r < rows; ++r) sums_of_parts(sums[r], totals[r]);
  for (; p < x.k; ++p) {
    for (int r = 0; r < rows; ++r) {
      for (int s = 0; s < columns; ++s) {
        totals[r][s] = math::fma(a[r * x.a_row + p], b[s * x.b_col + p], totals[r][s]);
      }
    }
  }
  T* const c = x.c + i * x.c_row + j;
  for (int r = 0; r < rows; ++r) { put(c + r * x.c_row, load<Vector<T, columns>>(totals[r]), x.add); }
}

template <class T, int rows> void dot_rows(const Chunk<T>& x, int64_t i) {
  constexpr int widest = kVectorBytes == 16 ? 2 : 4;
  int64_t j = 0;
  for (; j + widest <= x.n; j += widest) dot_tile<T, rows, widest>(x, i, j);
  for (; j < x.n; ++j) dot_tile<T, rows, 1>(x, i, j);
}

template <class T> WEFT_INLINE void multiply_dots(const Chunk<T>& x) {
  int64_t i = 0;
  if constexpr (kVectorBytes == 64) {
    for (; i + 4 <= x.m; i += 4) dot_rows<T, 4>(x, i);
    for (; i + 2 <= x.m; i += 2) dot_rows<T, 2>(x, i);
  }
  for (; i < x.m; ++i) dot_rows<T, 1>(x, i);
}

// ---- other strides: through copies on the stack -------------------------------------------------

template <class T> __attribute__((noinline)) void multiply_dots_copying_a(const Chunk<T>& x) {
  T row[kChunk];
  for (int64_t i = 0; i < x.m; ++i) {
    for (int64_t p = 0; p < x.k; ++p) row[p] = x.a[i * x.a_row + p * x.a_col];
    Chunk<T> one = x;
    one.m = 1;
    one.a = row;
    one.a_col = 1;
    one.c = x.c + i * x.c_row;
    multiply_dots(one);
  }
}

template <class T>
WEFT_INLINE void copy_panel(const Chunk<T>& x, int64_t j, int64_t columns, T* panel, int64_t row) {
  int64_t s = 0;
  if (kTransposesFours<T> && x.b_row == 1) {
    for (; s + 4 <= columns; s += 4) {
      const T* const from = x.b + (j + s) * x.b_col;
      int64_t p = 0;
      if constexpr (kTransposesFours<T>) {
        for (; p + 4 <= x.k; p += 4) transpose_four(from + p, x.b_col, panel + p * row + s, row);
      }
      for (; p < x.k; ++p) {
        for (int64_t t = 0; t < 4; ++t) panel[p * row + s + t] = from[t * x.b_col + p];
      }
    }
  }
  for (; s < columns; ++s) {
    const T* const from = x.b + (j + s) * x.b_col;
    for (int64_t p = 0; p < x.k; ++p) panel[p * row + s] = from[p * x.b_row];
  }
}

template <class T> __attribute__((noinline)) void multiply_rows_copying_b(const Chunk<T>& x) {
  constexpr int64_t elements = 32768 / static_cast<int64_t>(sizeof(T));
  constexpr int64_t widest = 64;
  T panel[elements];
  // A panel holds whole sums: where k is long, panels are narrower.
  const int64_t width = x.k <= elements / widest ? widest : elements / kChunk;
  for (int64_t j = 0; j < x.n; j += width) {
    Chunk<T> strip = x;
    strip.n = x.n - j < width ? x.n - j : width;
    strip.b = panel;
    strip.b_row = strip.n;
    strip.c = x.c + j;
    copy_panel(x, j, strip.n, panel, strip.b_row);
    multiply_rows(strip);
  }
}

template <class T> WEFT_INLINE void multiply_chunk(const Chunk<T>& x) {
  // With more rows, copying b costs less than summing across lanes for every element.
  const bool dots = x.b_row == 1 && (x.k >= kDotLanes<T> ? x.m <= 4 + x.k / 16 : x.m == 1);
  if (dots && (x.b_col != 1 || x.n == 1)) {
    if (x.a_col == 1) multiply_dots(x);
    else multiply_dots_copying_a(x);
  } else if (x.b_col == 1 || x.n == 1) {
    if (x.k != 1) multiply_rows(x);
    else if (x.add) multiply_outer<T, true>(x);
    else multiply_outer<T, false>(x);
  } else {
    multiply_rows_copying_b(x);
  }
}

template <class T> void multiply(const Product& product) {
  Chunk<T> x{product.m,
             product.n,
             product.k,
             static_cast<const T*>(product.a.data),
             product.a.row_stride,
             product.a.col_stride,
             static_cast<const T*>(product.b.data),
             product.b.row_stride,
             product.b.col_stride,
             static_cast<T*>(product.c),
             product.c_row_stride,
             product.accumulate};
  if (x.n == 1 && x.c_row == 1 && x.m > 1) {
    // A column is a row of the transposed product, where vectors have something to run along.
    const Chunk<T> column = x;
    x.m = 1;
    x.n = column.m;
    x.a = column.b;
    x.a_col = column.b_row;
    x.b = column.a;
    x.b_row = column.a_col;
    x.b_col = column.a_row;
  }
  if (x.k <= kChunk) return multiply_chunk(x);
  for (int64_t left = x.k; left > 0; left -= kChunk) {
    x.k = left < kChunk ? left : kChunk;
    multiply_chunk(x);
    x.a += kChunk * x.a_col;
    x.b += kChunk * x.b_row;
    x.add = true;
  }
}

}  // namespace

const SmallProducts& small_products() {
  static constexpr SmallProducts table{multiply<float>, multiply<double>};
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
