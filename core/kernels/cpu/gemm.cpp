#include "core/kernels/cpu/gemm.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "core/kernels/cpu/gemm_kernels.h"
#include "core/kernels/cpu/gemm_plain.h"
#include "core/kernels/cpu/gemm_split.h"
#include "core/kernels/cpu/libraries.h"
#include "core/kernels/cpu/threads.h"

namespace weft::cpu {

namespace {

// ---- memory of one thread -----------------------------------------------------------------------

constexpr size_t kAlignment = 64;

struct Memory {
  void* data = nullptr;
  size_t bytes = 0;

  ~Memory() { ::operator delete(data, std::align_val_t(kAlignment)); }

  void* at_least(size_t wanted) {
    if (wanted > bytes) {
      ::operator delete(data, std::align_val_t(kAlignment));
      data = nullptr;
      bytes = 0;
      data = ::operator new(wanted, std::align_val_t(kAlignment));
      bytes = wanted;
    }
    return data;
  }
};

// One for each use within a piece; pieces are limited, so these are too.
struct Scratch { Memory packed, a, b, sums, line; };
thread_local Scratch scratch;

void* scratch_for_library(size_t bytes) { return scratch.packed.at_least(bytes); }

// ---- which kernel -------------------------------------------------------------------------------

bool libraries_wanted() {
  static const bool wanted = [] {
    const char* const forced = std::getenv("WEFT_GEMM");
    return forced == nullptr || std::strcmp(forced, "portable") != 0;
  }();
  return wanted;
}

bool onednn_wanted() {
  static const bool wanted = libraries_wanted() && library_available("onednn");
  return wanted;
}

bool openblas_wanted() {
  static const bool wanted = libraries_wanted() && library_available("openblas");
  return wanted;
}

bool openblas_wanted_for_f64() {
  static const bool wanted = openblas_wanted() && openblas_is_widest();
  return wanted;
}

inline double work_of(int64_t m, int64_t n, int64_t k) {
  return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

// Where packing and a library's call would cost more than they bring.
inline bool is_small(int64_t m, int64_t n, int64_t k) {
  if (m == 1 || n == 1 || k <= 4) return true;
  // Without fused multiply-adds weft's small kernels pay for their exactness.
  static const double small_work = chosen_isa() == Isa::baseline ? 32 * 32 * 32 : 64 * 64 * 64;
  return work_of(m, n, k) <= small_work;
}

inline bool is_half(DType dtype) { return dtype == DType::Float16 || dtype == DType::BFloat16; }

template <class Item> inline size_t bytes_of(int64_t elements, Item item) {
  return static_cast<size_t>(elements) * static_cast<size_t>(item);
}

MatrixView block_of(DType dtype, const MatrixView& view, int64_t row, int64_t column) {
  const int64_t offset = row * view.row_stride + column * view.col_stride;
  return {static_cast<const char*>(view.data) + offset * item_size(dtype), view.row_stride, view.col_stride};
}

// ---- operands that need a copy ------------------------------------------------------------------

using WidenLine = void (*)(int64_t n, const void* from, float* to);

WidenLine widening(DType dtype) {
  return dtype == DType::Float16 ? half_conversions().widen_f16 : half_conversions().widen_bf16;
}

template <class Item>
const void* gather_line(const void* from, int64_t length, int64_t stride) {
  const Item* const items = static_cast<const Item*>(from);
  Item* const line = static_cast<Item*>(scratch.line.at_least(bytes_of(length, sizeof(Item))));
  for (int64_t i = 0; i < length; ++i) line[i] = items[i * stride];
  return line;
}

// Lines of `length` elements, `line_stride` apart, become adjacent; float32 if `widen` is given.
void copy_lines(DType dtype, WidenLine widen, const void* from, int64_t lines, int64_t length, int64_t line_stride,
                int64_t stride, void* to) {
  const int64_t item = item_size(dtype);
  const int64_t to_item = widen == nullptr ? item : item_size(DType::Float32);
  for (int64_t l = 0; l < lines; ++l) {
    const void* line = static_cast<const char*>(from) + l * line_stride * item;
    if (stride != 1) {
      line = item == 2   ? gather_line<uint16_t>(line, length, stride)
             : item == 4 ? gather_line<float>(line, length, stride)
                         : gather_line<double>(line, length, stride);
    }
    char* const to_line = static_cast<char*>(to) + l * length * to_item;
    if (widen == nullptr) std::memcpy(to_line, line, bytes_of(length, item));
    else widen(length, line, reinterpret_cast<float*>(to_line));
  }
}

// A copy of the block without gaps, its lines along the same dimension as in `view` if it has
// lines.
MatrixView copy_block(DType dtype, WidenLine widen, const MatrixView& view, int64_t rows, int64_t columns,
                      Memory& memory) {
  const int64_t item = widen == nullptr ? item_size(dtype) : item_size(DType::Float32);
  void* const to = memory.at_least(bytes_of(rows * columns, item));
  if (view.row_stride == 1 && view.col_stride != 1) {
    copy_lines(dtype, widen, view.data, columns, rows, view.col_stride, 1, to);
    return {to, 1, rows};
  }
  copy_lines(dtype, widen, view.data, rows, columns, view.row_stride, view.col_stride, to);
  return {to, columns, 1};
}

void multiply(DType dtype, const Product& x);

// Through copies of both operands, a slice of the sums at a time. `widen` makes them float32.
void multiply_copies(DType dtype, WidenLine widen, const Product& x) {
  const int64_t deepest = widen == nullptr ? 2048 : 512;
  Product slice = x;
  for (int64_t p = 0; p < x.k; p += deepest) {
    slice.k = std::min(deepest, x.k - p);
    slice.a = copy_block(dtype, widen, block_of(dtype, x.a, 0, p), x.m, slice.k, scratch.a);
    slice.b = copy_block(dtype, widen, block_of(dtype, x.b, p, 0), slice.k, x.n, scratch.b);
    multiply(widen == nullptr ? dtype : DType::Float32, slice);
    slice.accumulate = true;
  }
}

// ---- one piece ----------------------------------------------------------------------------------

// On the calling thread. c of the 16 bit floats is float32.
void multiply(DType dtype, const Product& x) {
  const bool small = is_small(x.m, x.n, x.k);
  switch (dtype) {
    case DType::Float32:
      if (small) return small_products().f32(x);
      if (!onednn_wanted()) {
        return blocked_products().f32(x, scratch.packed.at_least(blocked_products().scratch_bytes));
      }
      if (!onednn_product_f32(x)) multiply_copies(dtype, nullptr, x);
      return;
    case DType::Float64:
      if (small) return small_products().f64(x);
      if (!openblas_wanted_for_f64()) {
        return blocked_products().f64(x, scratch.packed.at_least(blocked_products().scratch_bytes));
      }
      if (!openblas_product(dtype, x)) multiply_copies(dtype, nullptr, x);
      return;
    case DType::BFloat16:
      if (small || !onednn_wanted() || !onednn_multiplies_bf16()) { return multiply_copies(dtype, widening(dtype), x); }
      if (!onednn_product_bf16(x, scratch_for_library)) multiply_copies(dtype, nullptr, x);
      return;
    case DType::Float16: return multiply_copies(dtype, widening(dtype), x);
    case DType::Complex64:
    case DType::Complex128:
      if (openblas_wanted() && openblas_product(dtype, x)) return;
      return plain_product(dtype, x);
    default: return plain_product(dtype, x);
  }
}

// ---- float16 and bfloat16 results ---------------------------------------------------------------

// c = sums, or c += sums in float32, rounded once.
void round_row(DType dtype, int64_t n, float* sums, void* c, bool accumulate) {
  const HalfConversions& convert = half_conversions();
  const bool f16 = dtype == DType::Float16;
  if (accumulate) {
    float* const old = static_cast<float*>(scratch.line.at_least(bytes_of(n, sizeof(float))));
    widening(dtype)(n, c, old);
    for (int64_t j = 0; j < n; ++j) sums[j] = old[j] + sums[j];
  }
  (f16 ? convert.narrow_f16 : convert.narrow_bf16)(n, sums, c);
}

// One piece with c of its own dtype.
void multiply_and_round(DType dtype, const Product& x) {
  if (!is_half(dtype)) return multiply(dtype, x);
  Product in_float = x;
  in_float.c = scratch.sums.at_least(bytes_of(x.m * x.n, sizeof(float)));
  in_float.c_row_stride = x.n;
  in_float.accumulate = false;
  if (x.k == 0) std::memset(in_float.c, 0, bytes_of(x.m * x.n, sizeof(float)));
  multiply(dtype, in_float);
  for (int64_t i = 0; i < x.m; ++i) {
    round_row(dtype, x.n, static_cast<float*>(in_float.c) + i * x.n, static_cast<uint16_t*>(x.c) + i * x.c_row_stride,
              x.accumulate);
  }
}

// ---- all pieces ---------------------------------------------------------------------------------

// The piece's rows, columns and slice of the sums; c still points to the whole's element (0, 0).
struct Piece {
  Product product;
  int64_t row, column, part;
};

Piece piece_of(DType dtype, const Product& whole, const Split& split, int64_t index) {
  const int64_t column_block = index % split.column_blocks;
  const int64_t row_block = index / split.column_blocks % split.row_blocks;
  Piece piece{whole, row_block * split.block_rows, column_block * split.block_columns,
              index / (split.column_blocks * split.row_blocks)};
  const int64_t depth = piece.part * split.part_depth;
  Product& x = piece.product;
  x.m = std::min(split.block_rows, whole.m - piece.row);
  x.n = std::min(split.block_columns, whole.n - piece.column);
  x.k = std::min(split.part_depth, whole.k - depth);
  x.a = block_of(dtype, whole.a, piece.row, depth);
  x.b = block_of(dtype, whole.b, depth, piece.column);
  return piece;
}

void run_block(DType dtype, const Product& whole, const Split& split, int64_t index) {
  Piece piece = piece_of(dtype, whole, split, index);
  const int64_t offset = piece.row * whole.c_row_stride + piece.column;
  piece.product.c = static_cast<char*>(whole.c) + offset * item_size(dtype);
  multiply_and_round(dtype, piece.product);
}

// The first of `parts` matrices of `size` elements becomes the sum of all, in the range given. Part
// p meets part p + 1, then pairs meet pairs, and so on.
template <class T>
void add_parts(T* sums, int64_t size, int64_t parts, int64_t begin, int64_t end) {
  for (int64_t apart = 1; apart < parts; apart *= 2) {
    for (int64_t part = 0; part + apart < parts; part += 2 * apart) {
      T* const to = sums + part * size;
      const T* const from = to + apart * size;
      for (int64_t i = begin; i < end; ++i) to[i] += from[i];
    }
  }
}

template <class T>
void store_sums(DType dtype, const Product& x, T* sums, int64_t row) {
  void* const c = static_cast<char*>(x.c) + row * x.c_row_stride * item_size(dtype);
  T* const from = sums + row * x.n;
  if constexpr (sizeof(T) == sizeof(float)) {
    if (is_half(dtype)) return round_row(dtype, x.n, from, c, x.accumulate);
  }
  T* const to = static_cast<T*>(c);
  for (int64_t j = 0; j < x.n; ++j) to[j] = x.accumulate ? to[j] + from[j] : from[j];
}

// Sums cut along k: every part has a matrix of its own until all meet.
template <class T> void run_parts(DType dtype, const Product& x, const Split& split) {
  const int64_t size = x.m * x.n;
  Memory memory;
  T* const sums = static_cast<T*>(memory.at_least(bytes_of(size * split.parts, sizeof(T))));
  parallel(split.pieces(), [&](int64_t index) {
    Piece piece = piece_of(dtype, x, split, index);
    piece.product.c = sums + piece.part * size + piece.row * x.n + piece.column;
    piece.product.c_row_stride = x.n;
    piece.product.accumulate = false;
    multiply(dtype, piece.product);
  });
  const int64_t rows = std::max<int64_t>(1, (1 << 15) / x.n);
  parallel((x.m + rows - 1) / rows, [&](int64_t block) {
    const int64_t begin = block * rows, end = std::min(x.m, begin + rows);
    add_parts(sums, size, split.parts, begin * x.n, end * x.n);
    for (int64_t row = begin; row < end; ++row) store_sums(dtype, x, sums, row);
  });
}

constexpr int64_t kWantedPieces = 8;

void run(DType dtype, const Product& x) {
  const Split split = split_product(x.m, x.n, x.k, kWantedPieces);
  if (split.pieces() == 1) return multiply_and_round(dtype, x);
  if (split.parts == 1) {
    return parallel(split.pieces(), [&](int64_t index) { run_block(dtype, x, split, index); });
  }
  if (dtype == DType::Float64) return run_parts<double>(dtype, x, split);
  if (is_half(dtype) || dtype == DType::Float32) return run_parts<float>(dtype, x, split);
  // Integers and complex numbers are rare enough to be summed whole.
  Split whole_sums = split;
  whole_sums.parts = 1;
  whole_sums.part_depth = x.k;
  parallel(whole_sums.pieces(), [&](int64_t index) { run_block(dtype, x, whole_sums, index); });
}

}  // namespace

void gemm(DType dtype, int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, void* c, int64_t c_row_stride,
          bool accumulate) {
  if (m == 0 || n == 0) return;
  const Product x{m, n, k, a, b, c, m == 1 ? n : c_row_stride, accumulate};
  constexpr double kAlone = 2 * kLeastVectorWork;
  if (dtype == DType::Float32 && is_small(m, n, k) && work_of(m, n, k) < kAlone) { return small_products().f32(x); }
  run(dtype, x);
}

void gemm_batched(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k, MatrixView a, int64_t a_batch_stride,
                  MatrixView b, int64_t b_batch_stride, void* c, int64_t c_batch_stride, int64_t c_row_stride,
                  bool accumulate) {
  if (batch == 0 || m == 0 || n == 0) return;
  const bool rows_go_on =
      (m == 1 || a.row_stride * m == a_batch_stride) && (m == 1 || c_row_stride * m == c_batch_stride);
  if (batch == 1 || (b_batch_stride == 0 && rows_go_on)) {
    // One B for all: the batch is only more rows.
    if (batch > 1 && m == 1) {
      a.row_stride = a_batch_stride;
      c_row_stride = c_batch_stride;
    }
    return gemm(dtype, batch * m, n, k, a, b, c, c_row_stride, accumulate);
  }
  const auto product = [&](int64_t i) {
    const int64_t size = item_size(dtype);
    Product x{m, n, k, a, b, c, m == 1 ? n : c_row_stride, accumulate};
    x.a.data = static_cast<const char*>(a.data) + i * a_batch_stride * size;
    x.b.data = static_cast<const char*>(b.data) + i * b_batch_stride * size;
    x.c = static_cast<char*>(c) + i * c_batch_stride * size;
    return x;
  };
  const Split split = split_product(m, n, k, std::max<int64_t>(1, kWantedPieces / batch));
  if (split.parts > 1) {
    for (int64_t i = 0; i < batch; ++i) run(dtype, product(i));
    return;
  }
  const int64_t blocks = split.pieces();
  const double work = work_of(m, n, k);
  // Small products are handed out in groups.
  const int64_t group = blocks > 1 ? 1 : std::max<int64_t>(1, static_cast<int64_t>(kLeastWork / std::max(work, 64.0)));
  parallel((batch + group - 1) / group * blocks, [&](int64_t index) {
    const int64_t first = index / blocks * group, last = std::min(batch, first + group);
    for (int64_t i = first; i < last; ++i) run_block(dtype, product(i), split, index % blocks);
  });
}

const char* describe_products() {
  static const std::string text = [] {
    const std::string own = std::string("weft ") + isa_name(chosen_isa());
    const std::string f32 = onednn_wanted() ? "oneDNN" : own;
    const std::string f64 = openblas_wanted_for_f64() ? "OpenBLAS" : own;
    const std::string bf16 = onednn_wanted() && onednn_multiplies_bf16() ? "oneDNN" : f32 + " in float32";
    return "float32: " + f32 + "; bfloat16: " + bf16 + "; float16: " + f32 + " in float32; float64: " + f64 +
           "; complex: " + (openblas_wanted() ? "OpenBLAS" : "weft") + "; small and integer: " + own;
  }();
  return text.c_str();
}

}  // namespace weft::cpu
