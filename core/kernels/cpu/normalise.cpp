#include "core/kernels/cpu/normalise.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/kernels/cpu/threads.h"
#include "core/math/reduction.h"

namespace weft::cpu {

namespace {

using reduction::kChunk;

constexpr int64_t kPieceElements = 32 * 1024;

template <class Body> void with_type(DType type, Body body) {
  if (type == DType::Float64) body(double{});
  else body(float{});
}

template <class T> const NormRowLoops& row_loops() {
  return sizeof(T) == 8 ? norm_table().rows_of_double : norm_table().rows_of_float;
}
template <class T> const NormChannelLoops& channel_loops() {
  return sizeof(T) == 8 ? norm_table().channels_of_double : norm_table().channels_of_float;
}
template <class T> const NormColumnLoops& column_loops() {
  return sizeof(T) == 8 ? norm_table().columns_of_double : norm_table().columns_of_float;
}

int64_t pieces_of(int64_t count, int64_t per_piece) { return (count + per_piece - 1) / per_piece; }

// Numbers that live as long as one call.
template <class T> class Numbers {
 public:
  explicit Numbers(int64_t count) {
    if (count > kFew) many_.reset(new T[static_cast<size_t>(count)]);
  }
  T* data() { return many_ ? many_.get() : few_; }
  T& operator[](int64_t i) { return data()[i]; }

 private:
  static constexpr int64_t kFew = 256;
  T few_[kFew];
  std::unique_ptr<T[]> many_;
};

// Joins the results of chunks by rule 4 of the fixed tree: join(i, j) adds those of j to those of i.
template <class Join> void join_chunks(int64_t chunks, Join join) {
  int64_t waiting[64];
  int count = 0;
  const auto last_two = [&] {
    --count;
    join(waiting[count - 1], waiting[count]);
  };
  for (int64_t i = 0; i < chunks; ++i) {
    waiting[count++] = i;
    for (int64_t bits = i; bits & 1; bits >>= 1) last_two();
  }
  while (count > 1) last_two();
}

// Calls body(rows of the chunk, columns of the block) for a matrix cut into both.
template <class Body> void for_each_block(int64_t rows, int64_t columns, Body body) {
  const int64_t blocks = pieces_of(columns, kNormColumns), chunks = pieces_of(rows, kChunk);
  // Blocks of few rows are handed out in groups.
  const int64_t group = std::max<int64_t>(1, kPieceElements / (kNormColumns * std::min<int64_t>(rows, kChunk)));
  parallel(pieces_of(blocks * chunks, group), [&](int64_t piece) {
    for (int64_t i = piece * group; i < std::min(blocks * chunks, (piece + 1) * group); ++i) {
      const int64_t column = i % blocks * kNormColumns, chunk = i / blocks;
      body(chunk, chunk * kChunk, std::min<int64_t>(kChunk, rows - chunk * kChunk), column,
           std::min(kNormColumns, columns - column));
    }
  });
}

// The sums of g, and of g (x - mean) scale with a mean and a scale per row, down the columns of a matrix.
// Without x only the former.
template <class T>
void sum_columns(int64_t rows, int64_t columns, const T* g, const T* x, const T* mean, const T* scale, T* sum,
                 T* product_sum) {
  const int64_t chunks = pieces_of(rows, kChunk);
  Numbers<T> sums(chunks > 1 ? chunks * columns : 0), products(chunks > 1 && x ? chunks * columns : 0);
  T* const to = chunks > 1 ? sums.data() : sum;
  T* const to_product = chunks > 1 ? products.data() : product_sum;
  for_each_block(rows, columns, [&](int64_t chunk, int64_t row, int64_t count, int64_t column, int64_t width) {
    const int64_t from = row * columns + column, at = chunk * columns + column;
    column_loops<T>().sums_of_rows({count, width, columns}, g + from, x ? x + from : nullptr, x ? mean + row : nullptr,
                                   x ? scale + row : nullptr, to + at, x ? to_product + at : nullptr);
  });
  if (chunks == 1) return;
  join_chunks(chunks, [&](int64_t i, int64_t j) {
    for (int64_t c = 0; c < columns; ++c) {
      sums[i * columns + c] += sums[j * columns + c];
      if (x) products[i * columns + c] += products[j * columns + c];
    }
  });
  std::copy_n(sums.data(), columns, sum);
  if (x) std::copy_n(products.data(), columns, product_sum);
}

// ---- channels --------------------------------------------------------------------------------------

template <class T> struct Factors {
  const T* weight;
  const T* bias;
  explicit Factors(ChannelFactors f) : weight(static_cast<const T*>(f.weight)), bias(static_cast<const T*>(f.bias)) {}
  T weight_of(int64_t c) const { return weight ? weight[c] : T(1); }
  T bias_of(int64_t c) const { return bias ? bias[c] : T(0); }
};

// From a channel's sum of squared distances.
template <class T> struct Statistics {
  T *mean, *scale, *variance;
  int64_t count;
  double eps;
  void finish(int64_t c, T spread) const {
    const T n = static_cast<T>(count);
    scale[c] = T(1) / std::sqrt(spread / n + static_cast<T>(eps));
    variance[c] = spread / (n - T(1));
  }
};

template <class T> void moments_of_columns(const Channels& shape, const T* x, const Statistics<T>& out) {
  const int64_t columns = shape.channels, chunks = pieces_of(shape.rows, kChunk);
  Numbers<T> means(chunks * columns), spreads(chunks * columns);
  for_each_block(shape.rows, columns, [&](int64_t chunk, int64_t row, int64_t count, int64_t column, int64_t width) {
    const int64_t at = chunk * columns + column;
    column_loops<T>().moments({count, width, columns}, x + row * columns + column, &means[at], &spreads[at]);
  });
  Numbers<T> counts(chunks);
  for (int64_t i = 0; i < chunks; ++i) counts[i] = static_cast<T>(std::min<int64_t>(kChunk, shape.rows - i * kChunk));
  join_chunks(chunks, [&](int64_t i, int64_t j) {
    const T count = counts[i] + counts[j], share = counts[j] / count;
    for (int64_t c = 0; c < columns; ++c) {
      T &mean = means[i * columns + c], &spread = spreads[i * columns + c];
      const T apart = means[j * columns + c] - mean;
      mean = std::fma(apart, share, mean);
      spread = spread + spreads[j * columns + c] + apart * apart * counts[i] * share;
    }
    counts[i] = count;
  });
  for (int64_t c = 0; c < columns; ++c) {
    out.mean[c] = means[c];
    out.finish(c, spreads[c]);
  }
}

template <class T>
void forward_columns(const Channels& shape, const T* x, Factors<T> factors, T* y, const T* mean, const T* scale) {
  Numbers<T> slopes(shape.channels), shifts(shape.channels);
  for (int64_t c = 0; c < shape.channels; ++c) {
    slopes[c] = scale[c] * factors.weight_of(c);
    shifts[c] = factors.bias_of(c);
  }
  const int64_t per_piece = std::max<int64_t>(1, kPieceElements / shape.channels);
  parallel(pieces_of(shape.rows, per_piece), [&](int64_t piece) {
    const int64_t row = piece * per_piece, count = std::min(per_piece, shape.rows - row);
    const int64_t from = row * shape.channels;
    column_loops<T>().apply({count, shape.channels, shape.channels}, x + from, y + from, mean, slopes.data(),
                            shifts.data());
  });
}

template <class T>
void forward_channels(const Channels& shape, const T* x, Factors<T> factors, T* y, T* mean, T* scale, T* variance,
                      double eps) {
  const Statistics<T> statistics{mean, scale, variance, shape.count(), eps};
  if (shape.side_by_side) {
    if (variance) moments_of_columns(shape, x, statistics);
    return forward_columns(shape, x, factors, y, mean, scale);
  }
  const NormChannelLoops& loops = channel_loops<T>();
  const auto apply = [&](ChannelRuns runs, int64_t from, int64_t c) {
    loops.apply(runs, x + from, y + from, mean[c], scale[c] * factors.weight_of(c), factors.bias_of(c));
  };
  if (!variance) {  // nothing asks for a channel as a whole: through memory as it lies
    const int64_t length = shape.runs.length, all = shape.runs.runs * shape.channels;
    const int64_t per_piece = std::max<int64_t>(1, kPieceElements / length);
    return parallel(pieces_of(all, per_piece), [&](int64_t piece) {
      for (int64_t i = piece * per_piece; i < std::min(all, (piece + 1) * per_piece); ++i) {
        apply({1, length, length}, i * length, i % shape.channels);
      }
    });
  }
  const int64_t per_piece = std::max<int64_t>(1, kPieceElements / shape.count());
  parallel(pieces_of(shape.channels, per_piece), [&](int64_t piece) {
    for (int64_t c = piece * per_piece; c < std::min(shape.channels, (piece + 1) * per_piece); ++c) {
      T spread;
      loops.moments(shape.runs, x + c * shape.runs.length, mean + c, &spread);
      statistics.finish(c, spread);
      apply(shape.runs, c * shape.runs.length, c);
    }
  });
}

// What the gradient of a channel's elements is made of: (g - shift - (x - mean) pull) slope.
template <class T> struct Slopes {
  T slope, shift, pull;
  Slopes(T weight, T scale, bool of_batch, int64_t count, T sum, T product_sum)
      : slope(weight * scale),
        shift(of_batch ? sum / static_cast<T>(count) : T(0)),
        pull(of_batch ? product_sum / static_cast<T>(count) * scale * scale : T(0)) {}
};

template <class T>
void sums_of_columns(const Channels& shape, const T* g, const T* x, const T* mean, T* sum, T* product_sum) {
  const int64_t columns = shape.channels, chunks = pieces_of(shape.rows, kChunk);
  Numbers<T> sums(chunks * columns), products(chunks * columns);
  for_each_block(shape.rows, columns, [&](int64_t chunk, int64_t row, int64_t count, int64_t column, int64_t width) {
    const int64_t from = row * columns + column, at = chunk * columns + column;
    column_loops<T>().sums({count, width, columns}, g + from, x + from, mean + column, &sums[at], &products[at]);
  });
  join_chunks(chunks, [&](int64_t i, int64_t j) {
    for (int64_t c = 0; c < columns; ++c) {
      sums[i * columns + c] += sums[j * columns + c];
      products[i * columns + c] += products[j * columns + c];
    }
  });
  std::copy_n(sums.data(), columns, sum);
  std::copy_n(products.data(), columns, product_sum);
}

template <class T>
void backward_channels(const Channels& shape, const T* g, const T* x, Factors<T> factors, const T* mean, const T* scale,
                       bool of_batch, T* grad_x, T* grad_weight, T* grad_bias) {
  const int64_t channels = shape.channels, count = shape.count();
  const auto store = [&](int64_t c, T sum, T product_sum) {
    if (grad_weight) grad_weight[c] = product_sum * scale[c];
    if (grad_bias) grad_bias[c] = sum;
    return Slopes<T>(factors.weight_of(c), scale[c], of_batch, count, sum, product_sum);
  };
  if (shape.side_by_side) {
    Numbers<T> sums(channels), products(channels), slopes(channels), shifts(channels), pulls(channels);
    sums_of_columns(shape, g, x, mean, sums.data(), products.data());
    for (int64_t c = 0; c < channels; ++c) {
      const Slopes<T> of = store(c, sums[c], products[c]);
      slopes[c] = of.slope, shifts[c] = of.shift, pulls[c] = of.pull;
    }
    const int64_t per_piece = std::max<int64_t>(1, kPieceElements / channels);
    return parallel(pieces_of(shape.rows, per_piece), [&](int64_t piece) {
      const int64_t row = piece * per_piece, rows = std::min(per_piece, shape.rows - row), from = row * channels;
      column_loops<T>().backward({rows, channels, channels}, g + from, x + from, grad_x + from, mean, slopes.data(),
                                 shifts.data(), pulls.data());
    });
  }
  const NormChannelLoops& loops = channel_loops<T>();
  const int64_t per_piece = std::max<int64_t>(1, kPieceElements / count);
  parallel(pieces_of(channels, per_piece), [&](int64_t piece) {
    for (int64_t c = piece * per_piece; c < std::min(channels, (piece + 1) * per_piece); ++c) {
      const int64_t from = c * shape.runs.length;
      T sum, product_sum;
      loops.sums(shape.runs, g + from, x + from, mean[c], &sum, &product_sum);
      const Slopes<T> of = store(c, sum, product_sum);
      loops.backward(shape.runs, g + from, x + from, grad_x + from, mean[c], of.slope, of.shift, of.pull);
    }
  });
}

}  // namespace

void normalise_rows(DType type, const NormRows& shape, int64_t rows, const void* x, void* y, void* mean, void* scale) {
  with_type(type, [&](auto zero) {
    const auto& loops = row_loops<decltype(zero)>();
    const int64_t per_piece = std::max<int64_t>(1, kPieceElements / (shape.channels * shape.inner));
    parallel(pieces_of(rows, per_piece), [&](int64_t piece) {
      loops.forward(shape, piece * per_piece, std::min(rows, (piece + 1) * per_piece), x, y, mean, scale);
    });
  });
}

void normalise_rows_backward(DType type, const NormRows& shape, int64_t rows, const void* grad, const void* x,
                             const void* mean, const void* scale, void* grad_x, void* grad_weight, void* grad_bias) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const auto& loops = row_loops<T>();
    const bool wanted = grad_weight || grad_bias, single = shape.inner == 1 && shape.groups == 1;
    const int64_t per_piece = std::max<int64_t>(1, kPieceElements / (shape.channels * shape.inner));
    const int64_t sums = wanted && !single ? rows * shape.channels : 0;
    Numbers<T> grad_sums(sums), product_sums(sums);
    parallel(pieces_of(rows, per_piece), [&](int64_t piece) {
      loops.backward(shape, piece * per_piece, std::min(rows, (piece + 1) * per_piece), grad, x, mean, scale, grad_x,
                     sums ? grad_sums.data() : nullptr, sums ? product_sums.data() : nullptr);
    });
    if (!wanted) return;
    const int64_t columns = shape.channels * shape.groups;
    if (!single) {
      const auto sum = [&](Numbers<T>& of, void* to) {
        if (to)
          sum_columns<T>(rows / shape.groups, columns, of.data(), nullptr, nullptr, nullptr, static_cast<T*>(to),
                         nullptr);
      };
      sum(grad_sums, grad_bias);
      return sum(product_sums, grad_weight);
    }
    Numbers<T> unwanted(grad_bias ? 0 : columns);
    sum_columns(rows, columns, static_cast<const T*>(grad), grad_weight ? static_cast<const T*>(x) : nullptr,
                static_cast<const T*>(mean), static_cast<const T*>(scale),
                grad_bias ? static_cast<T*>(grad_bias) : unwanted.data(), static_cast<T*>(grad_weight));
  });
}

void normalise_channels(DType type, const Channels& shape, const void* x, ChannelFactors factors, void* y, void* mean,
                        void* scale, void* variance, double eps) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    forward_channels(shape, static_cast<const T*>(x), Factors<T>(factors), static_cast<T*>(y), static_cast<T*>(mean),
                     static_cast<T*>(scale), static_cast<T*>(variance), eps);
  });
}

void normalise_channels_backward(DType type, const Channels& shape, const void* grad, const void* x,
                                 ChannelFactors factors, const void* mean, const void* scale, bool of_batch,
                                 void* grad_x, void* grad_weight, void* grad_bias) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    backward_channels(shape, static_cast<const T*>(grad), static_cast<const T*>(x), Factors<T>(factors),
                      static_cast<const T*>(mean), static_cast<const T*>(scale), of_batch, static_cast<T*>(grad_x),
                      static_cast<T*>(grad_weight), static_cast<T*>(grad_bias));
  });
}

}  // namespace weft::cpu
