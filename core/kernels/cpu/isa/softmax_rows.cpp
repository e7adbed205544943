// Softmax along contiguous memory.
#include "core/kernels/cpu/isa/reduce_lanes.h"
#include "core/kernels/cpu/isa/softmax_parts.h"
#include "core/math/softmax.h"

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

template <class T> WEFT_FN void exp_into(const T* x, T* __restrict__ y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = math::exp(x[i]);
}
// Each element has a shift of its own, which is no smaller.
template <class T> WEFT_FN void exp_below_into(const T* x, const T* shifts, T* __restrict__ y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = math::exp_below(x[i], shifts[i]);
}
template <class T> WEFT_FN void fill(T* y, T value, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = value;
}
// One chunk of a sum of exponentials (see Note [Sums of exponentials]).
template <class T> WEFT_FN double sum_of_exponentials(const T* x, int64_t n) {
  constexpr int kStep = kWidth<double>, kVectors = kExpLanes / kStep;
  typedef T Narrow __attribute__((vector_size(kStep * sizeof(T))));
  Vector<double> v[kVectors] = {};
  const auto add = [&](const T* from) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int k = 0; k < kVectors; ++k) {
      Narrow narrow;
      __builtin_memcpy(&narrow, from + k * kStep, sizeof narrow);
      v[k] += __builtin_convertvector(narrow, Vector<double>);
    }
  };
  int64_t i = 0;
  for (; i + kExpLanes <= n; i += kExpLanes) add(x + i);
  if (i < n) {
    T rest[kExpLanes] = {};
    for (int64_t j = i; j < n; ++j) rest[j - i] = x[j];
    add(rest);
  }
#pragma GCC unroll 8
  for (int half = kVectors / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int k = 0; k < half; ++k) v[k] += v[k + half];
  }
  return fold_within<Sum, double, kStep / 2>(v[0]);
}

// The sum of exp(x - shift) over a row of any length, none of whose elements is larger than shift;
// exponentials go to y where it is not null.
template <class T> WEFT_FN double sum_of_exp(const T* x, T shift, T* y, int64_t n) {
  alignas(64) T own[kChunk];
  ChunkSums<double> sums;
  for (int64_t i = 0; i < n; i += kChunk) {
    const int64_t count = smaller(kChunk, n - i);
    T* exponentials = y ? y + i : own;
    if (x == y) {
      for (int64_t j = i; j < i + count; ++j) y[j] = math::exp_below(y[j], shift);
    } else {
      const T* from = x + i;
      T* __restrict__ to = exponentials;
      for (int64_t j = 0; j < count; ++j) to[j] = math::exp_below(from[j], shift);
    }
    sums.push(sum_of_exponentials(exponentials, count));
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
    alignas(64) T shifts[kChunk];
    for (int64_t row = 0; row < rows;) {
      if (n >= kLongRow) {
        scale(to, sum_of_exp(from, row_max(from, n), to, n), n);
        ++row, from += n, to += n;
        continue;
      }
      const int64_t batch = smaller(kChunk / n, rows - row);
      for (int64_t r = 0; r < batch; ++r) fill(shifts + r * n, row_max(from + r * n, n), n);
      if (x == y) {
        for (int64_t i = 0; i < batch * n; ++i) to[i] = math::exp_below(to[i], shifts[i]);
      } else {
        exp_below_into(from, shifts, to, batch * n);
      }
      for (int64_t r = 0; r < batch; ++r) { scale(to + r * n, sum_of_exponentials(to + r * n, n), n); }
      row += batch, from += batch * n, to += batch * n;
    }
  }

  static void log_softmax(const void* x, void* y, int64_t rows, int64_t n) {
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    alignas(64) T exponentials[kChunk], shifts[kChunk];
    for (int64_t row = 0; row < rows;) {
      if (n >= kLongRow) {
        const T largest = row_max(from, n);
        const T log_sum = static_cast<T>(math::log(sum_of_exp<T>(from, largest, nullptr, n)));
        for (int64_t i = 0; i < n; ++i) to[i] = (from[i] - largest) - log_sum;
        ++row, from += n, to += n;
        continue;
      }
      const int64_t batch = smaller(kChunk / n, rows - row);
      for (int64_t r = 0; r < batch; ++r) fill(shifts + r * n, row_max(from + r * n, n), n);
      exp_below_into(from, shifts, exponentials, batch * n);
      for (int64_t r = 0; r < batch; ++r) {
        const T log_sum = static_cast<T>(math::log(sum_of_exponentials(exponentials + r * n, n)));
        for (int64_t i = r * n; i < (r + 1) * n; ++i) to[i] = (from[i] - shifts[i]) - log_sum;
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
          exp_into(log_p + i, exponentials, count);
          for (int64_t j = 0; j < count; ++j) to[i + j] = g[i + j] - exponentials[j] * sum;
        }
        ++row, g += n, log_p += n, to += n;
        continue;
      }
      const int64_t batch = smaller(kChunk / n, rows - row);
      exp_into(log_p, exponentials, batch * n);
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
      // Subtracting an infinity would leave NaN where the result is that infinity.
      static_cast<T*>(y)[row] =
          math::abs(largest) == math::infinity<T>()
              ? largest
              : static_cast<T>(static_cast<double>(largest) + math::log(sum_of_exp<T>(from, largest, nullptr, n)));
    }
  }

  WEFT_FN static void scale(T* y, double sum, int64_t n) {
    const auto inverse = math::inverse_of_sum(sum, T());
    for (int64_t i = 0; i < n; ++i) y[i] = math::times_pair(y[i], inverse.hi, inverse.lo);
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
