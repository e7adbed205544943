// Squares of one vector's width are transposed in registers; every line of memory is touched once.
// Squares are taken block by block, so that the pages in use are few, and the next block's memory is
// asked for before this one is worked on: rows far apart are nothing the hardware can foresee.
#include "core/kernels/cpu/isa/reduce_lanes.h"
#include "core/kernels/cpu/isa/transpose_table.h"

namespace weft::cpu::WEFT_ISA {
namespace {

constexpr int64_t kBlock = 64;  // elements along each side of a block

// The lower (upper) halves of a and b, element by element in turns: a0 b0 a1 b1 ...
template <bool upper, class T, int... i>
WEFT_FN Vector<T> interleave(Vector<T> a, Vector<T> b, Indices<i...>) {
  using Index = decltype(Vector<T>{} < Vector<T>{});
  constexpr int from = upper ? kWidth<T> / 2 : 0;
  return __builtin_shuffle(a, b, Index{(i / 2 + from + (i % 2) * kWidth<T>)...});
}

// log2(width) times, each row is interleaved with the row half a square further down.
template <class T, int rounds> WEFT_FN void interleave_rows(Vector<T> (&v)[kWidth<T>]) {
  if constexpr (rounds > 1) {
    constexpr int half = kWidth<T> / 2;
    Vector<T> mixed[kWidth<T>];
#pragma GCC unroll 16
    for (int i = 0; i < half; ++i) {
      mixed[2 * i] = interleave<false, T>(v[i], v[i + half], FirstIndices<kWidth<T>>{});
      mixed[2 * i + 1] = interleave<true, T>(v[i], v[i + half], FirstIndices<kWidth<T>>{});
    }
#pragma GCC unroll 16
    for (int i = 0; i < kWidth<T>; ++i) v[i] = mixed[i];
    interleave_rows<T, rounds / 2>(v);
  }
}

template <class T> WEFT_FN void square(char* dst, int64_t dst_row, const char* src, int64_t src_row) {
  Vector<T> v[kWidth<T>];
#pragma GCC unroll 16
  for (int i = 0; i < kWidth<T>; ++i) v[i] = load(reinterpret_cast<const T*>(src + i * src_row));
  interleave_rows<T, kWidth<T>>(v);
#pragma GCC unroll 16
  for (int i = 0; i < kWidth<T>; ++i) store(reinterpret_cast<T*>(dst + i * dst_row), v[i]);
}

WEFT_FN void prefetch(const char* x, int64_t row, int64_t rows, int64_t bytes) {
  constexpr int64_t kLine = 64;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < bytes; i += kLine) __builtin_prefetch(x + r * row + i);
  }
}

template <class T>
WEFT_FN void block(char* dst, int64_t dst_row, const char* src, int64_t src_row, int64_t rows, int64_t columns) {
  constexpr int64_t item = sizeof(T), width = kWidth<T>;
  int64_t i = 0;
  for (; i + width <= rows; i += width) {
    int64_t j = 0;
    for (; j + width <= columns; j += width) {
      square<T>(dst + i * dst_row + j * item, dst_row, src + i * item + j * src_row, src_row);
    }
    for (; j < columns; ++j) {
      for (int64_t k = i; k < i + width; ++k) {
        __builtin_memcpy(dst + k * dst_row + j * item, src + k * item + j * src_row, item);
      }
    }
  }
  for (; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      __builtin_memcpy(dst + i * dst_row + j * item, src + i * item + j * src_row, item);
    }
  }
}

template <class T>
void transpose(char* dst, int64_t dst_row, const char* src, int64_t src_row, int64_t rows, int64_t columns) {
  constexpr int64_t item = sizeof(T);
  for (int64_t i = 0; i < rows; i += kBlock) {
    const int64_t height = rows - i < kBlock ? rows - i : kBlock;
    for (int64_t j = 0; j < columns; j += kBlock) {
      const int64_t width = columns - j < kBlock ? columns - j : kBlock;
      char* to = dst + i * dst_row + j * item;
      const char* from = src + i * item + j * src_row;
      if (j + kBlock < columns) {
        prefetch(from + kBlock * src_row, src_row, kBlock, height * item);
        prefetch(to + kBlock * item, dst_row, height, kBlock * item);
      }
      block<T>(to, dst_row, from, src_row, height, width);
    }
  }
}

}  // namespace

const TransposeTable& transpose_table() {
  static const TransposeTable table = {transpose<int>, transpose<Int64>};
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
