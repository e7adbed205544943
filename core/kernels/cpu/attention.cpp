#include "core/kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "core/kernels/cpu/gemm.h"
#include "core/kernels/cpu/isa/attention_table.h"
#include "core/kernels/cpu/threads.h"

namespace weft::cpu {

namespace {

const AttentionRows& loops_of(DType type) {
  return type == DType::Float64 ? attention_table().rows_of_double : attention_table().rows_of_float;
}

// One head's matrix from some row on.
struct Matrix {
  char* data;
  int64_t row_stride, col_stride, item;

  Matrix(const HeadsView& of, int64_t batch, int64_t head, int64_t item)
      : data(of.data + (batch * of.batch_stride + head * of.head_stride) * item),
        row_stride(of.row_stride),
        col_stride(of.col_stride),
        item(item) {}
  char* row(int64_t r) const { return data + r * row_stride * item; }
  MatrixView from(int64_t r) const { return {row(r), row_stride, col_stride}; }
  MatrixView transposed_from(int64_t r) const { return {row(r), col_stride, row_stride}; }
};

// What the computation of one head works with.
class Head {
 public:
  Head(DType type, const AttentionShape& shape, const MaskView& mask, int64_t batch, int64_t head)
      : type(type), item(item_size(type)), shape_(shape), mask_(mask) {
    mask_begin_ = mask.kind == MaskView::None
                      ? nullptr
                      : mask.data + (batch * mask.batch_stride + head * mask.head_stride) * mask_item();
  }
  ScoreTile tile(int64_t query, int64_t rows, int64_t key, int64_t columns) const {
    ScoreTile t{
        rows, columns, shape_.scale, nullptr, nullptr, mask_.row_stride, shape_.causal ? query - key : kSeesAll};
    if (mask_begin_) {
      const char* at = mask_begin_ + (query * mask_.row_stride + key) * mask_item();
      if (mask_.kind == MaskView::Added) t.added = at;
      else t.allowed = reinterpret_cast<const bool*>(at);
    }
    return t;
  }
  // Where the keys end that one of these queries may see.
  int64_t keys_seen(int64_t query, int64_t rows) const {
    return shape_.causal ? std::min(shape_.keys, query + rows) : shape_.keys;
  }

  DType type;
  int64_t item;

 private:
  int64_t mask_item() const { return mask_.kind == MaskView::Added ? item : 1; }
  const AttentionShape& shape_;
  const MaskView& mask_;
  const char* mask_begin_;
};

std::unique_ptr<char[]> room(int64_t elements, int64_t item) {
  return std::unique_ptr<char[]>(new char[static_cast<size_t>(elements * item)]);
}

template <class T> void fill_row(char* data, int64_t n, T value) { std::fill_n(reinterpret_cast<T*>(data), n, value); }

void clear_rows(const Matrix& m, int64_t first, int64_t rows, int64_t columns) {
  for (int64_t r = first; r < first + rows; ++r) { std::memset(m.row(r), 0, static_cast<size_t>(columns * m.item)); }
}

void forward_tile_row(const Head& head, const AttentionShape& shape, const Matrix& q, const Matrix& k, const Matrix& v,
                      const Matrix& out, char* log_sum, int64_t query) {
  const AttentionRows& loops = loops_of(head.type);
  const int64_t rows = std::min(kTileQueries, shape.queries - query), item = head.item;
  const auto scores = room(rows * std::min(kTileKeys, std::max<int64_t>(1, shape.keys)), item);
  alignas(64) char state[4][kTileQueries * sizeof(double)];
  char *largest = state[0], *sum = state[1], *rescale = state[2], *inverse = state[3];
  if (head.type == DType::Float64) fill_row(largest, rows, -HUGE_VAL);
  else fill_row(largest, rows, -HUGE_VALF);
  std::memset(sum, 0, sizeof state[1]);
  const int64_t end = head.keys_seen(query, rows);
  if (end == 0) clear_rows(out, query, rows, shape.value_width);
  for (int64_t key = 0; key < end; key += kTileKeys) {
    const int64_t columns = std::min(kTileKeys, end - key);
    gemm(head.type, rows, columns, shape.width, q.from(query), k.transposed_from(key), scores.get(), columns, false);
    loops.softmax(head.tile(query, rows, key, columns), scores.get(), largest, sum, rescale);
    if (key > 0) loops.scale_rows(rows, shape.value_width, out.row(query), out.row_stride, rescale);
    gemm(head.type, rows, shape.value_width, columns, {scores.get(), columns, 1}, v.from(key), out.row(query),
         out.row_stride, key > 0);
  }
  loops.finish(rows, largest, sum, inverse, log_sum + query * item);
  loops.scale_rows(rows, shape.value_width, out.row(query), out.row_stride, inverse);
}

}  // namespace

void attention(DType type, const AttentionShape& shape, const HeadsView& q, const HeadsView& k, const HeadsView& v,
               const MaskView& mask, const HeadsView& out, void* log_sum) {
  const int64_t item = item_size(type), share = shape.heads / shape.key_heads;
  const int64_t blocks = (shape.queries + kTileQueries - 1) / kTileQueries;
  parallel(shape.batch * shape.heads * blocks, [&](int64_t piece) {
    const int64_t block = piece % blocks, h = piece / blocks % shape.heads, b = piece / (blocks * shape.heads);
    const Head head(type, shape, mask, b, h);
    forward_tile_row(head, shape, Matrix(q, b, h, item), Matrix(k, b, h / share, item), Matrix(v, b, h / share, item),
                     Matrix(out, b, h, item),
                     static_cast<char*>(log_sum) + (b * shape.heads + h) * shape.queries * item, block * kTileQueries);
  });
}

void attention_backward(DType type, const AttentionShape& shape, const HeadsView& grad, const HeadsView& q,
                        const HeadsView& k, const HeadsView& v, const MaskView& mask, const HeadsView& out,
                        const void* log_sum, const HeadsView& grad_q, const HeadsView& grad_k,
                        const HeadsView& grad_v) {
  const AttentionRows& loops = loops_of(type);
  const int64_t item = item_size(type), share = shape.heads / shape.key_heads;
  parallel(shape.batch * shape.key_heads, [&](int64_t piece) {
    const int64_t key_head = piece % shape.key_heads, b = piece / shape.key_heads;
    const Matrix keys(k, b, key_head, item), values(v, b, key_head, item);
    const Matrix to_k(grad_k, b, key_head, item), to_v(grad_v, b, key_head, item);
    const int64_t tile_elements = std::min(kTileQueries, shape.queries) * std::min(kTileKeys, shape.keys);
    const auto scores = room(tile_elements, item), grads = room(tile_elements, item);
    const auto dots = room(shape.queries, item);
    clear_rows(to_k, 0, shape.keys, shape.width);
    clear_rows(to_v, 0, shape.keys, shape.value_width);
    for (int64_t h = key_head * share; h < (key_head + 1) * share; ++h) {
      const Head head(type, shape, mask, b, h);
      const Matrix queries(q, b, h, item), g(grad, b, h, item), y(out, b, h, item), to_q(grad_q, b, h, item);
      const char* sums = static_cast<const char*>(log_sum) + (b * shape.heads + h) * shape.queries * item;
      clear_rows(to_q, 0, shape.queries, shape.width);
      loops.dots(shape.queries, shape.value_width, g.data, g.row_stride, y.data, y.row_stride, dots.get());
      for (int64_t query = 0; query < shape.queries; query += kTileQueries) {
        const int64_t rows = std::min(kTileQueries, shape.queries - query), end = head.keys_seen(query, rows);
        for (int64_t key = 0; key < end; key += kTileKeys) {
          const int64_t columns = std::min(kTileKeys, end - key);
          char *const p = scores.get(), *const s = grads.get();
          gemm(type, rows, columns, shape.width, queries.from(query), keys.transposed_from(key), p, columns, false);
          gemm(type, rows, columns, shape.value_width, g.from(query), values.transposed_from(key), s, columns, false);
          loops.backward(head.tile(query, rows, key, columns), p, s, sums + query * item, dots.get() + query * item);
          gemm(type, columns, shape.value_width, rows, {p, 1, columns}, g.from(query), to_v.row(key), to_v.row_stride,
               true);
          gemm(type, columns, shape.width, rows, {s, 1, columns}, queries.from(query), to_k.row(key), to_k.row_stride,
               true);
          gemm(type, rows, shape.width, columns, {s, columns, 1}, keys.from(key), to_q.row(query), to_q.row_stride,
               true);
        }
      }
    }
  });
}

}  // namespace weft::cpu
