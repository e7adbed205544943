// Normalisation of whole rows: layer norm, RMS norm, group norm.
#include "core/kernels/cpu/isa/normalise_parts.h"

namespace weft::cpu::WEFT_ISA {
namespace {

template <class T> WEFT_FN Moments<T> row_moments(const T* x, int64_t n, bool centered) {
  const auto chunk = [&](const T* at, int64_t count) -> Moments<T> {
    if (centered) return chunk_moments(at, count);
    return {static_cast<T>(count), T(0), reduce_chunk<reduction::SumOfSquares, T>(at, count, T(0))};
  };
  if (n <= kChunk) return chunk(x, n);
  Tree<Moments<T>> tree;
  const auto fold = [](Moments<T> a, Moments<T> b) { return merge(a, b); };
  for (int64_t i = 0; i < n; i += kChunk) tree.push(chunk(x + i, smaller(kChunk, n - i)), fold);
  return tree.end(fold);
}

template <bool weighted, class T>
WEFT_FN TwoSums<T> row_sums(const T* g, const T* x, const T* w, T mean, int64_t n) {
  if (n <= kChunk) return chunk_sums<weighted>(g, x, w, mean, n);
  Tree<TwoSums<T>> tree;
  const auto fold = [](TwoSums<T> a, TwoSums<T> b) { return add_sums(a, b); };
  for (int64_t i = 0; i < n; i += kChunk) {
    tree.push(chunk_sums<weighted>(g + i, x + i, weighted ? w + i : w, mean, smaller(kChunk, n - i)), fold);
  }
  return tree.end(fold);
}

template <bool has_weight, bool has_bias, class T>
WEFT_FN void scale_each(const T* x, T* y, const T* w, const T* b, T mean, T scale, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T normal = (x[i] - mean) * scale;
    y[i] = has_weight ? has_bias ? math::fma(normal, w[i], b[i]) : normal * w[i] : has_bias ? normal + b[i] : normal;
  }
}

template <bool weighted, class T>
WEFT_FN void backward_each(const T* g, const T* x, T* y, const T* w, T mean, T scale, T shift, T pull, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T part = weighted ? g[i] * w[i] : g[i];
    y[i] = scale * math::fma(-(x[i] - mean), pull, part - shift);
  }
}

template <class T> struct Rows {
  static void forward(const NormRows& p, int64_t first, int64_t last, const void* x_data, void* y_data, void* mean_data,
                      void* scale_data) {
    const int64_t n = p.channels * p.inner;
    const T* weight = static_cast<const T*>(p.weight);
    const T* bias = static_cast<const T*>(p.bias);
    for (int64_t r = first; r < last; ++r) {
      const T* x = static_cast<const T*>(x_data) + r * n;
      T* y = static_cast<T*>(y_data) + r * n;
      const Moments<T> moments = row_moments(x, n, p.centered);
      const T mean = moments.mean;
      const T scale = T(1) / math::sqrt(moments.spread / static_cast<T>(n) + static_cast<T>(p.eps));
      static_cast<T*>(mean_data)[r] = mean;
      static_cast<T*>(scale_data)[r] = scale;
      const int64_t channel = r % p.groups * p.channels;
      const T* w = weight ? weight + channel : nullptr;
      const T* b = bias ? bias + channel : nullptr;
      if (p.inner == 1) {
        if (w && b) scale_each<true, true>(x, y, w, b, mean, scale, n);
        else if (w) scale_each<true, false>(x, y, w, b, mean, scale, n);
        else if (b) scale_each<false, true>(x, y, w, b, mean, scale, n);
        else scale_each<false, false>(x, y, w, b, mean, scale, n);
        continue;
      }
      for (int64_t c = 0; c < p.channels; ++c, x += p.inner, y += p.inner) {
        const T slope = w ? scale * w[c] : scale, shift = b ? b[c] : T(0);
#pragma GCC ivdep
        for (int64_t i = 0; i < p.inner; ++i) y[i] = math::fma(x[i] - mean, slope, shift);
      }
    }
  }

  static void backward(const NormRows& p, int64_t first, int64_t last, const void* grad_data, const void* x_data,
                       const void* mean_data, const void* scale_data, void* y_data, void* grad_sums,
                       void* product_sums) {
    const int64_t n = p.channels * p.inner;
    const T* weight = static_cast<const T*>(p.weight);
    const T part = T(1) / static_cast<T>(n);
    for (int64_t r = first; r < last; ++r) {
      const T* g = static_cast<const T*>(grad_data) + r * n;
      const T* x = static_cast<const T*>(x_data) + r * n;
      T* y = static_cast<T*>(y_data) + r * n;
      const T mean = static_cast<const T*>(mean_data)[r], scale = static_cast<const T*>(scale_data)[r];
      const T* w = weight ? weight + r % p.groups * p.channels : nullptr;
      if (p.inner == 1 && !grad_sums) {
        const TwoSums<T> sums = w ? row_sums<true>(g, x, w, mean, n) : row_sums<false>(g, x, w, mean, n);
        const T shift = p.centered ? sums.sum * part : T(0), pull = sums.product_sum * part * scale * scale;
        if (w) backward_each<true>(g, x, y, w, mean, scale, shift, pull, n);
        else backward_each<false>(g, x, y, w, mean, scale, shift, pull, n);
        continue;
      }
      TwoSums<T> total = {T(0), T(0)};
      for (int64_t c = 0; c < p.channels; ++c) {
        const int64_t at = c * p.inner;
        const TwoSums<T> sums = row_sums<false, T>(g + at, x + at, nullptr, mean, p.inner);
        if (grad_sums) {
          static_cast<T*>(grad_sums)[r * p.channels + c] = sums.sum;
          static_cast<T*>(product_sums)[r * p.channels + c] = sums.product_sum * scale;
        }
        const T factor = w ? w[c] : T(1);
        total = {math::fma(factor, sums.sum, total.sum), math::fma(factor, sums.product_sum, total.product_sum)};
      }
      const T shift = p.centered ? total.sum * part : T(0), pull = total.product_sum * part * scale * scale;
      for (int64_t c = 0; c < p.channels; ++c, g += p.inner, x += p.inner, y += p.inner) {
        const T factor = w ? w[c] : T(1);
#pragma GCC ivdep
        for (int64_t i = 0; i < p.inner; ++i) {
          y[i] = scale * math::fma(-(x[i] - mean), pull, math::fma(g[i], factor, -shift));
        }
      }
    }
  }

  static constexpr NormRowLoops kLoops = {forward, backward};
};

}  // namespace

void set_norm_rows(NormTable& table) {
  table.rows_of_float = Rows<float>::kLoops;
  table.rows_of_double = Rows<double>::kLoops;
}

}  // namespace weft::cpu::WEFT_ISA
