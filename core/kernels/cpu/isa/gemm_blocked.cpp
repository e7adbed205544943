// Matrix products through packed blocks, for where no library is: a block of B that fits the second
// cache and a block of A that fits the first meet in tiles that fit the registers.
#include <stddef.h>
#include <stdint.h>

#include "core/kernels/cpu/gemm_kernels.h"
#include "core/kernels/cpu/gemm_vector.h"

namespace weft::cpu::WEFT_ISA {

namespace {

// Rows and vectors of a tile, chosen so that its sums, one row of B and one element of A fit the
// registers (32 of them with AVX-512, else 16).
constexpr int kTileRows = kVectorBytes == 64 ? 8 : kVectorBytes == 32 ? 6 : 4;
constexpr int kTileVectors = kVectorBytes == 64 ? 3 : 2;
template <class T> constexpr int kTileColumns = kTileVectors * kLanes<T>;

constexpr int64_t kDepth = 256;
constexpr int64_t kBlockRows = 96;
constexpr int64_t kBlockColumns = 384;
static_assert(kBlockRows % kTileRows == 0);
static_assert(kBlockColumns % kTileColumns<float> == 0);

constexpr size_t kPackedA = kBlockRows * kDepth * sizeof(double);
constexpr size_t kPackedB = kBlockColumns * kDepth * sizeof(double);

WEFT_INLINE int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }

// Without a fused instruction the two roundings of a b + c are far cheaper than an exact one.
template <class T> WEFT_INLINE auto multiply_add(Vector<T, kLanes<T>> a, Vector<T, kLanes<T>> b,
                                                 Vector<T, kLanes<T>> c) {
#if defined(__FMA__)
  return fused<T, kLanes<T>>(a, b, c);
#else
  return a * b + c;
#endif
}

// Packs `count` lines of `depth` elements into panels of `width` lines, element by element along
// the depth; a last panel that is not full is filled up with zeros.
template <class T, int width>
void pack(int64_t count, int64_t depth, const T* from, int64_t line_stride, int64_t depth_stride, T* to) {
  for (int64_t first = 0; first < count; first += width, to += width * depth) {
    const int64_t lines = smaller(width, count - first);
    const T* const panel = from + first * line_stride;
    if (lines == width && line_stride == 1) {
      for (int64_t p = 0; p < depth; ++p) {
        __builtin_memcpy(to + p * width, panel + p * depth_stride, width * sizeof(T));
      }
      continue;
    }
    int64_t l = 0;
    if constexpr (kTransposesFours<T>) {
      if (depth_stride == 1) {
        for (; l + 4 <= lines; l += 4) {
          const T* const four = panel + l * line_stride;
          int64_t p = 0;
          for (; p + 4 <= depth; p += 4) transpose_four(four + p, line_stride, to + p * width + l, width);
          for (; p < depth; ++p) {
            for (int64_t t = 0; t < 4; ++t) to[p * width + l + t] = four[t * line_stride + p];
          }
        }
      }
    }
    for (; l < width; ++l) {
      const T* const line = panel + l * line_stride;
      for (int64_t p = 0; p < depth; ++p) { to[p * width + l] = l < lines ? line[p * depth_stride] : T(0); }
    }
  }
}

// tile = (panel of A) (the first `vectors` vectors of a panel of B)
template <class T, int vectors>
void multiply_tile(int64_t depth, const T* a, const T* b, T* c, int64_t c_row, bool add) {
  using V = Vector<T, kLanes<T>>;
  V sums[kTileRows][vectors] = {};
  for (int64_t p = 0; p < depth; ++p, a += kTileRows, b += kTileColumns<T>) {
    V from_b[vectors];
    for (int v = 0; v < vectors; ++v) from_b[v] = load<V>(b + v * kLanes<T>);
    for (int r = 0; r < kTileRows; ++r) {
      const V from_a = splat<V>(a[r]);
      for (int v = 0; v < vectors; ++v) { sums[r][v] = multiply_add<T>(from_a, from_b[v], sums[r][v]); }
    }
  }
  for (int r = 0; r < kTileRows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      T* const to = c + r * c_row + v * kLanes<T>;
      store(to, add ? load<V>(to) + sums[r][v] : sums[r][v]);
    }
  }
}

// A tile at the edge of C: computed whole, stored in part.
template <class T>
void multiply_edge(int64_t depth, const T* a, const T* b, T* c, int64_t c_row, bool add, int64_t rows,
                   int64_t columns) {
  T whole[kTileRows * kTileColumns<T>];
  if (columns <= kLanes<T>) {
    multiply_tile<T, 1>(depth, a, b, whole, kTileColumns<T>, false);
  } else if (columns <= 2 * kLanes<T>) {
    multiply_tile<T, 2>(depth, a, b, whole, kTileColumns<T>, false);
  } else {
    multiply_tile<T, kTileVectors>(depth, a, b, whole, kTileColumns<T>, false);
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < columns; ++j) {
      const T sum = whole[r * kTileColumns<T> + j];
      T& to = c[r * c_row + j];
      to = add ? to + sum : sum;
    }
  }
}

template <class T> void multiply(const Product& x, void* scratch) {
  const T* const a = static_cast<const T*>(x.a.data);
  const T* const b = static_cast<const T*>(x.b.data);
  T* const packed_a = static_cast<T*>(scratch);
  T* const packed_b = reinterpret_cast<T*>(static_cast<char*>(scratch) + kPackedA);
  for (int64_t j0 = 0; j0 < x.n; j0 += kBlockColumns) {
    const int64_t columns = smaller(kBlockColumns, x.n - j0);
    for (int64_t p0 = 0; p0 < x.k; p0 += kDepth) {
      const int64_t depth = smaller(kDepth, x.k - p0);
      const bool add = x.accumulate || p0 > 0;
      pack<T, kTileColumns<T>>(columns, depth, b + p0 * x.b.row_stride + j0 * x.b.col_stride, x.b.col_stride,
                               x.b.row_stride, packed_b);
      for (int64_t i0 = 0; i0 < x.m; i0 += kBlockRows) {
        const int64_t rows = smaller(kBlockRows, x.m - i0);
        pack<T, kTileRows>(rows, depth, a + i0 * x.a.row_stride + p0 * x.a.col_stride, x.a.row_stride, x.a.col_stride,
                           packed_a);
        T* const c = static_cast<T*>(x.c) + i0 * x.c_row_stride + j0;
        for (int64_t j = 0; j < columns; j += kTileColumns<T>) {
          for (int64_t i = 0; i < rows; i += kTileRows) {
            const T* const from_a = packed_a + i * depth;
            const T* const from_b = packed_b + j * depth;
            T* const to = c + i * x.c_row_stride + j;
            if (i + kTileRows <= rows && j + kTileColumns<T> <= columns) {
              multiply_tile<T, kTileVectors>(depth, from_a, from_b, to, x.c_row_stride, add);
            } else {
              multiply_edge(depth, from_a, from_b, to, x.c_row_stride, add, smaller(kTileRows, rows - i),
                            smaller(kTileColumns<T>, columns - j));
            }
          }
        }
      }
    }
  }
}

}  // namespace

const BlockedProducts& blocked_products() {
  static constexpr BlockedProducts table{multiply<float>, multiply<double>, kPackedA + kPackedB};
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
