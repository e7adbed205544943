// Softmax along contiguous memory.
#include "core/kernels/cpu/isa/reduce_lanes.h"
#include "core/kernels/cpu/isa/softmax_parts.h"
#include "core/math/exponential.h"

namespace weft::cpu::WEFT_ISA {
namespace {

using reduction::kChunk;
using reduction::Max;
using reduction::Sum;

WEFT_FN int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Rule 4 of the fixed tree: takes chunk results in order.
template <class T> struct ChunkSums {
  T waiting[48];
  int count = 0;
  int64_t chunks = 0;

  WEFT_FN void push(T sum) {
    waiting[count++] = sum;
    for (int64_t bits = chunks++; bits & 1; bits >>= 1) merge();
  }
  WEFT_FN T end() {
    if (count == 0) return T(0);
    while (count > 1) merge();
    return waiting[0];
  }
  WEFT_FN void merge() {
    --count;
    waiting[count - 1] = Sum::fold(waiting[count - 1], waiting[count]);
  }
};

template <class T> WEFT_FN T row_max(const T* x, int64_t n) {
  T largest = Max::identity<T>();
  for (int64_t i = 0; i < n; i += kChunk) {
    largest = Max::fold(largest, reduce_chunk<Max, T>(x + i, smaller(kChunk, n - i), T(0)));
  }
  return largest;
}

template <class T> WEFT_FN void exp_into(const T* x, T shift, T* __restrict__ y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = math::exp(x[i] - shift);
}
template <class T> WEFT_FN void subtract(const T* x, T a, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] - a;
}

// The sum of exp(x - shift) over a row of any length; exponentials go to y where it is not null.
template <class T> WEFT_FN T sum_of_exp(const T* x, T shift, T* y, int64_t n) {
  alignas(64) T own[kChunk];
  ChunkSums<T> sums;
  for (int64_t i = 0; i < n; i += kChunk) {
    const int64_t count = smaller(kChunk, n - i);
    T* exponentials = y ? y + i : own;
    if (x == y) {
      for (int64_t j = i; j < i + count; ++j) y[j] = math::exp(y[j] - shift);
    } else {
      exp_into(x + i, shift, exponentials, count);
    }
    sums.push(reduce_chunk<Sum, T>(exponentials, count, T(0)));
  }
  return sums.end();
}

// One chunk of the sum of a[i] b[i].
template <class T> WEFT_FN T sum_of_products(const T* a, const T* b, int64_t n) {
  Lanes<Sum, T> lanes;
  lanes.begin();
  const Vector<T> zero = {};
  int64_t i = 0;
  for (; i + reduction::kLanes <= n; i += reduction::kLanes) {
#pragma GCC unroll 32
    for (int k = 0; k < lanes.kVectors; ++k) {
      const int64_t at = i + k * kWidth<T>;
      lanes.v[k] = lanes.v[k] + load(a + at) * load(b + at);
    }
  }
  if (i < n) {
#pragma GCC unroll 32
    for (int k = 0; k < lanes.kVectors; ++k) {
      const int64_t at = i + k * kWidth<T>;
      lanes.v[k] = lanes.v[k] + load_partial(a + at, n - at, zero) * load_partial(b + at, n - at, zero);
    }
  }
  return lanes.end();
}

// Rows shorter than this are handled together, so that their exponentials make one long loop.
constexpr int64_t kLongRow = 256;

template <class T> struct Rows {
  static void softmax(const void* x, void* y, int64_t rows, int64_t n) {
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    alignas(64) T difference[kChunk];
    for (int64_t row = 0; row < rows;) {
      if (n >= kLongRow) {
        scale(to, sum_of_exp(from, row_max(from, n), to, n), n);
        ++row, from += n, to += n;
        continue;
      }
      const int64_t batch = smaller(kChunk / n, rows - row);
      for (int64_t r = 0; r < batch; ++r) { subtract(from + r * n, row_max(from + r * n, n), difference + r * n, n); }
      exp_into(difference, T(0), to, batch * n);
      for (int64_t r = 0; r < batch; ++r) { scale(to + r * n, reduce_chunk<Sum, T>(to + r * n, n, T(0)), n); }
      row += batch, from += batch * n, to += batch * n;
    }
  }

  static void log_softmax(const void* x, void* y, int64_t rows, int64_t n) {
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    alignas(64) T exponentials[kChunk];
    for (int64_t row = 0; row < rows;) {
      if (n >= kLongRow) {
        const T largest = row_max(from, n);
        const T log_sum = math::log(sum_of_exp<T>(from, largest, nullptr, n));
        for (int64_t i = 0; i < n; ++i) to[i] = (from[i] - largest) - log_sum;
        ++row, from += n, to += n;
        continue;
      }
      const int64_t batch = smaller(kChunk / n, rows - row);
      for (int64_t r = 0; r < batch; ++r) { subtract(from + r * n, row_max(from + r * n, n), to + r * n, n); }
      exp_into(to, T(0), exponentials, batch * n);
      for (int64_t r = 0; r < batch; ++r) {
        const T sum = reduce_chunk<Sum, T>(exponentials + r * n, n, T(0));
        subtract(to + r * n, math::log(sum), to + r * n, n);
      }
      row += batch, from += batch * n, to += batch * n;
    }
  }

  static void softmax_backward(const void* grad, const void* y, void* grad_x, int64_t rows, int64_t n) {
    const T* g = static_cast<const T*>(grad);
    const T* p = static_cast<const T*>(y);
    T* to = static_cast<T*>(grad_x);
    for (int64_t row = 0; row < rows; ++row, g += n, p += n, to += n) {
      ChunkSums<T> sums;
      for (int64_t i = 0; i < n; i += kChunk) { sums.push(sum_of_products(g + i, p + i, smaller(kChunk, n - i))); }
      const T sum = sums.end();
      for (int64_t i = 0; i < n; ++i) to[i] = p[i] * (g[i] - sum);
    }
  }

  static void log_softmax_backward(const void* grad, const void* y, void* grad_x, int64_t rows, int64_t n) {
    const T* g = static_cast<const T*>(grad);
    const T* log_p = static_cast<const T*>(y);
    T* to = static_cast<T*>(grad_x);
    alignas(64) T exponentials[kChunk];
    for (int64_t row = 0; row < rows;) {
      if (n >= kLongRow) {
        const T sum = row_sum(g, n);
        for (int64_t i = 0; i < n; i += kChunk) {
          const int64_t count = smaller(kChunk, n - i);
          exp_into(log_p + i, T(0), exponentials, count);
          for (int64_t j = 0; j < count; ++j) to[i + j] = g[i + j] - exponentials[j] * sum;
        }
        ++row, g += n, log_p += n, to += n;
        continue;
      }
      const int64_t batch = smaller(kChunk / n, rows - row);
      exp_into(log_p, T(0), exponentials, batch * n);
      for (int64_t r = 0; r < batch; ++r) {
        const T sum = reduce_chunk<Sum, T>(g + r * n, n, T(0));
        for (int64_t i = r * n; i < (r + 1) * n; ++i) to[i] = g[i] - exponentials[i] * sum;
      }
      row += batch, g += batch * n, log_p += batch * n, to += batch * n;
    }
  }

  static void log_sum_exp(const void* x, void* y, int64_t rows, int64_t n) {
    const T* from = static_cast<const T*>(x);
    for (int64_t row = 0; row < rows; ++row, from += n) {
      const T largest = row_max(from, n);
      // Subtracting an infinity would leave NaN where the sum is an infinity.
      const T shift = math::abs(largest) == math::infinity<T>() ? T(0) : largest;
      static_cast<T*>(y)[row] = shift + math::log(sum_of_exp<T>(from, shift, nullptr, n));
    }
  }

  WEFT_FN static void scale(T* y, T sum, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = y[i] / sum;
  }

  WEFT_FN static T row_sum(const T* x, int64_t n) {
    ChunkSums<T> sums;
    for (int64_t i = 0; i < n; i += kChunk) { sums.push(reduce_chunk<Sum, T>(x + i, smaller(kChunk, n - i), T(0))); }
    return sums.end();
  }

  static constexpr SoftmaxRows kLoops = {softmax, log_softmax, softmax_backward, log_softmax_backward, log_sum_exp};
};

}  // namespace

void set_row_loops(SoftmaxTable& table) {
  table.rows_of_float = Rows<float>::kLoops;
  table.rows_of_double = Rows<double>::kLoops;
}

}  // namespace weft::cpu::WEFT_ISA
