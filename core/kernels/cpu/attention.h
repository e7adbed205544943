// Attention without the matrix of all scores: softmax(scale q k^T + mask) v and its derivative, in tiles.
//
// Note [Attention in tiles]
// A tile of scores (some queries by some keys) is made by one matrix product and used up by the next. The
// softmax runs along: of every query only the largest score so far and the sum of exponentials are kept, and
// what has been gathered is rescaled when a larger score turns up. Backward makes every tile again from the
// logarithm of the sum, the only thing besides the result that forward keeps.
//
// Tiles have fixed sizes, a query's tiles come in order, and the gradients of one key/value head are summed by
// one piece in order: the same bits for any number of threads.
#pragma once

#include <cstdint>

#include "core/math/dtype.h"

namespace weft::cpu {

// (batch, heads, rows, columns), strides in elements.
struct HeadsView {
  char* data;
  int64_t batch_stride, head_stride, row_stride, col_stride;
};

struct MaskView {
  enum Kind { None, Added, Allowed } kind;  // numbers of the scores' type, or bool
  const char* data;
  int64_t batch_stride, head_stride, row_stride;  // columns are adjacent
};

struct AttentionShape {
  int64_t batch, heads, key_heads;  // key_heads divides heads: neighbouring heads share keys and values
  int64_t queries, keys, width, value_width;
  bool causal;  // query i sees the keys up to i
  double scale;
};

// Float32 or Float64, all of one type. Columns of `out` and of gradients are adjacent; log_sum is contiguous,
// one number per query. Results need not be initialised.
void attention(DType type, const AttentionShape& shape, const HeadsView& q, const HeadsView& k, const HeadsView& v,
               const MaskView& mask, const HeadsView& out, void* log_sum);
// Gradients are contiguous or have equally spaced rows.
void attention_backward(DType type, const AttentionShape& shape, const HeadsView& grad, const HeadsView& q,
                        const HeadsView& k, const HeadsView& v, const MaskView& mask, const HeadsView& out,
                        const void* log_sum, const HeadsView& grad_q, const HeadsView& grad_k, const HeadsView& grad_v);

}  // namespace weft::cpu
