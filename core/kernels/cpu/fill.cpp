#include "core/kernels/cpu/fill.h"

#include <algorithm>
#include <cstring>

#include "core/kernels/cpu/threads.h"
#include "core/math/types.h"

namespace weft::cpu {
namespace {

constexpr int64_t kPiece = int64_t{1} << 16;  // elements

// body(first, last) over pieces of [0, n).
template <class Body>
void in_pieces(int64_t n, Body&& body) {
  if (n <= kPiece) return body(int64_t{0}, n);
  parallel((n + kPiece - 1) / kPiece, [&](int64_t piece) { body(piece * kPiece, std::min(n, (piece + 1) * kPiece)); });
}

struct Item16 { uint64_t low, high; };

template <class Item>
void fill_with(void* out, int64_t n, const void* value) {
  Item item;
  std::memcpy(&item, value, sizeof item);
  in_pieces(n, [&](int64_t first, int64_t last) {
    std::fill(static_cast<Item*>(out) + first, static_cast<Item*>(out) + last, item);
  });
}

// Calls make.template operator()<T>() with the type that elements of `type` are stored as.
template <class Make>
void for_real_type(DType type, Make&& make) {
  switch (type) {
    case DType::Bool: return make.template operator()<bool>();
    case DType::UInt8: return make.template operator()<unsigned char>();
    case DType::Int8: return make.template operator()<signed char>();
    case DType::Int16: return make.template operator()<short>();
    case DType::Int32: return make.template operator()<int>();
    case DType::Int64: return make.template operator()<Int64>();
    case DType::Float16: return make.template operator()<Half>();
    case DType::BFloat16: return make.template operator()<BFloat16>();
    case DType::Float32: return make.template operator()<float>();
    default: return make.template operator()<double>();
  }
}

// out[i] = value(i), converted.
template <class Value>
void fill_from(DType type, void* out, int64_t n, Value value) {
  for_real_type(type, [&]<class T>() {
    T* const to = static_cast<T*>(out);
    in_pieces(n, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) to[i] = math::cast<T>(value(i));
    });
  });
}

template <class Number>
void linspace_in(DType type, Number start, Number end, void* out, int64_t n) {
  const Number step = n > 1 ? (end - start) / static_cast<Number>(n - 1) : Number(0);
  const int64_t half = n / 2;
  fill_from(type, out, n, [=](int64_t i) {
    return i < half || n == 1 ? start + step * static_cast<Number>(i) : end - step * static_cast<Number>(n - 1 - i);
  });
}

}  // namespace

void fill_items(int item_size, void* out, int64_t n, const void* value) {
  switch (item_size) {
    case 1: return fill_with<uint8_t>(out, n, value);
    case 2: return fill_with<uint16_t>(out, n, value);
    case 4: return fill_with<uint32_t>(out, n, value);
    case 8: return fill_with<uint64_t>(out, n, value);
    default: return fill_with<Item16>(out, n, value);
  }
}

void fill_arange(DType type, int64_t start, int64_t step, void* out, int64_t n) {
  fill_from(type, out, n, [=](int64_t i) {
    return static_cast<Int64>(static_cast<uint64_t>(start) + static_cast<uint64_t>(i) * static_cast<uint64_t>(step));
  });
}

void fill_arange(DType type, double start, double step, void* out, int64_t n) {
  fill_from(type, out, n, [=](int64_t i) { return start + static_cast<double>(i) * step; });
}

void fill_linspace(DType type, double start, double end, void* out, int64_t n) {
  if (type == DType::Float64) return linspace_in<double>(type, start, end, out, n);
  linspace_in<float>(type, static_cast<float>(start), static_cast<float>(end), out, n);
}

void fill_linspace(DType type, int64_t start, int64_t end, void* out, int64_t n) {
  const double step =
      n > 1 ? (static_cast<double>(end) - static_cast<double>(start)) / static_cast<double>(n - 1) : 0.0;
  const int64_t half = n / 2;
  fill_from(type, out, n, [=](int64_t i) {
    return i < half || n == 1 ? static_cast<double>(start) + step * static_cast<double>(i)
                              : static_cast<double>(end) - step * static_cast<double>(n - 1 - i);
  });
}

void zero_triangle(int item_size, Strided m, int64_t diagonal, bool below) {
  const int row_dim = m.ndim - 2, column_dim = m.ndim - 1;
  const int64_t rows = m.sizes[row_dim], columns = m.sizes[column_dim];
  const int64_t row_step = m.strides[row_dim], column_step = m.strides[column_dim];
  int64_t batches = 1;
  for (int d = 0; d < row_dim; ++d) batches *= m.sizes[d];
  if (batches == 0 || rows == 0 || columns == 0) return;
  // Kept within what the matrix has, so that nothing below overflows.
  diagonal = std::clamp(diagonal, -rows - 1, columns + 1);

  const int64_t rows_per_piece = std::max<int64_t>(1, kPiece / columns);
  const int64_t total = batches * rows;
  parallel((total + rows_per_piece - 1) / rows_per_piece, [&](int64_t piece) {
    const int64_t last = std::min(total, (piece + 1) * rows_per_piece);
    for (int64_t at = piece * rows_per_piece; at < last; ++at) {
      int64_t batch = at / rows;
      const int64_t row = at % rows;
      char* start = m.data + row * row_step;
      for (int d = row_dim; d-- > 0; batch /= m.sizes[d]) start += batch % m.sizes[d] * m.strides[d];
      // The diagonal passes through column row + diagonal: that column itself stays.
      const int64_t from = below ? 0 : std::clamp<int64_t>(row + diagonal + 1, 0, columns);
      const int64_t to = below ? std::clamp<int64_t>(row + diagonal, 0, columns) : columns;
      if (column_step == item_size) {
        std::memset(start + from * column_step, 0, static_cast<size_t>(to - from) * item_size);
      } else {
        for (int64_t j = from; j < to; ++j) std::memset(start + j * column_step, 0, item_size);
      }
    }
  });
}

}  // namespace weft::cpu
