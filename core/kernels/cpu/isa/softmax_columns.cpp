// Softmax across memory: a block of neighbouring columns at a time, each in the fixed tree. The
// block's lanes and partial sums stay in L1.
#include "core/kernels/cpu/isa/softmax_parts.h"
#include "core/math/reduction.h"
#include "core/math/softmax.h"

namespace weft::cpu::WEFT_ISA {
namespace {

using reduction::kChunk;
using reduction::Max;
using reduction::Sum;

constexpr int64_t kColumns = kSoftmaxColumns;

template <class T> WEFT_FN const T* row_of(Columns x, int64_t i) {
  return reinterpret_cast<const T*>(x.data + i * x.step);
}
template <class T> WEFT_FN T* row_to(Columns y, int64_t i) { return reinterpret_cast<T*>(y.data + i * y.step); }

// The fixed tree of every column, fed row by row.
template <class T, int kLanes = reduction::kLanes> struct TreeOfColumns {
  alignas(64) T lanes[kLanes][kColumns];
  T waiting[48][kColumns];  // rule 4
  int count = 0;
  int64_t chunks = 0;
  int used = 0;

  // Calls add(row i, lane to add it to) for all rows and writes the sums.
  template <class Out, class Add> WEFT_FN void sum(int64_t n, int64_t width, Out* sums, Add add) {
    for (int64_t first = 0; first < n; first += kChunk) {
      const int64_t rows = n - first < kChunk ? n - first : kChunk;
      used = reduction::lanes_in_use(rows < kLanes ? rows : kLanes);
      for (int l = 0; l < used; ++l) {
        for (int64_t c = 0; c < width; ++c) lanes[l][c] = T(0);
      }
      for (int64_t i = 0; i < rows; ++i) add(first + i, lanes[i % kLanes]);
      for (int h = used / 2; h > 0; h /= 2) {
        for (int l = 0; l < h; ++l) fold(lanes[l], lanes[l + h], width);
      }
      for (int64_t c = 0; c < width; ++c) waiting[count][c] = lanes[0][c];
      ++count;
      for (int64_t bits = chunks++; bits & 1; bits >>= 1) merge(width);
    }
    while (count > 1) merge(width);
    for (int64_t c = 0; c < width; ++c) sums[c] = static_cast<Out>(waiting[0][c]);
  }

  WEFT_FN static void fold(T* __restrict__ a, const T* __restrict__ b, int64_t width) {
    for (int64_t c = 0; c < width; ++c) a[c] = Sum::fold(a[c], b[c]);
  }
  WEFT_FN void merge(int64_t width) {
    --count;
    fold(waiting[count - 1], waiting[count], width);
  }
};

// See Note [Sums of exponentials].
using TreeOfExponentials = TreeOfColumns<double, kExpLanes>;

template <class T> struct Loops {
  WEFT_FN static void largest_of(Columns x, int64_t n, int64_t width, T* __restrict__ largest) {
    for (int64_t c = 0; c < width; ++c) largest[c] = Max::identity<T>();
    for (int64_t i = 0; i < n; ++i) {
      const T* __restrict__ row = row_of<T>(x, i);
      for (int64_t c = 0; c < width; ++c) largest[c] = Max::fold(largest[c], row[c]);
    }
  }

  WEFT_FN static void sum_of_exp(Columns x, const T* shift, int64_t n, int64_t width, double* sums) {
    TreeOfExponentials tree;
    tree.sum(n, width, sums, [&](int64_t i, double* __restrict__ lane) {
      const T* __restrict__ row = row_of<T>(x, i);
      for (int64_t c = 0; c < width; ++c) lane[c] = lane[c] + static_cast<double>(math::exp_below(row[c], shift[c]));
    });
  }

  static void softmax(Columns x, Columns y, int64_t n, int64_t width) {
    alignas(64) T largest[kColumns], high[kColumns], low[kColumns];
    alignas(64) double sums[kColumns];
    largest_of(x, n, width, largest);
    TreeOfExponentials tree;
    tree.sum(n, width, sums, [&](int64_t i, double* __restrict__ lane) {
      const T* row = row_of<T>(x, i);
      T* to = row_to<T>(y, i);
#pragma GCC ivdep
      for (int64_t c = 0; c < width; ++c) {
        const T exponential = math::exp_below(row[c], largest[c]);
        to[c] = exponential;
        lane[c] = lane[c] + static_cast<double>(exponential);
      }
    });
    for (int64_t c = 0; c < width; ++c) {
      const auto inverse = math::inverse_of_sum(sums[c], T());
      high[c] = inverse.hi;
      low[c] = inverse.lo;
    }
    for (int64_t i = 0; i < n; ++i) {
      T* __restrict__ to = row_to<T>(y, i);
      for (int64_t c = 0; c < width; ++c) to[c] = math::times_pair(to[c], high[c], low[c]);
    }
  }

  static void log_softmax(Columns x, Columns y, int64_t n, int64_t width) {
    alignas(64) T largest[kColumns], log_sums[kColumns];
    alignas(64) double sums[kColumns];
    largest_of(x, n, width, largest);
    sum_of_exp(x, largest, n, width, sums);
    for (int64_t c = 0; c < width; ++c) log_sums[c] = static_cast<T>(math::log(sums[c]));
    for (int64_t i = 0; i < n; ++i) {
      const T* row = row_of<T>(x, i);
      T* to = row_to<T>(y, i);
#pragma GCC ivdep
      for (int64_t c = 0; c < width; ++c) to[c] = (row[c] - largest[c]) - log_sums[c];
    }
  }

  static void softmax_backward(Columns grad, Columns y, Columns grad_x, int64_t n, int64_t width) {
    alignas(64) T sums[kColumns];
    TreeOfColumns<T> tree;
    tree.sum(n, width, sums, [&](int64_t i, T* __restrict__ lane) {
      const T* g = row_of<T>(grad, i);
      const T* p = row_of<T>(y, i);
      for (int64_t c = 0; c < width; ++c) lane[c] = lane[c] + g[c] * p[c];
    });
    for (int64_t i = 0; i < n; ++i) {
      const T* g = row_of<T>(grad, i);
      const T* p = row_of<T>(y, i);
      T* to = row_to<T>(grad_x, i);
#pragma GCC ivdep
      for (int64_t c = 0; c < width; ++c) to[c] = p[c] * (g[c] - sums[c]);
    }
  }

  static void log_softmax_backward(Columns grad, Columns y, Columns grad_x, int64_t n, int64_t width) {
    alignas(64) T sums[kColumns];
    TreeOfColumns<T> tree;
    tree.sum(n, width, sums, [&](int64_t i, T* __restrict__ lane) {
      const T* g = row_of<T>(grad, i);
      for (int64_t c = 0; c < width; ++c) lane[c] = lane[c] + g[c];
    });
    for (int64_t i = 0; i < n; ++i) {
      const T* g = row_of<T>(grad, i);
      const T* log_p = row_of<T>(y, i);
      T* to = row_to<T>(grad_x, i);
#pragma GCC ivdep
      for (int64_t c = 0; c < width; ++c) to[c] = g[c] - math::exp(log_p[c]) * sums[c];
    }
  }

  static void log_sum_exp(Columns x, Columns y, int64_t n, int64_t width) {
    alignas(64) T largest[kColumns];
    alignas(64) double sums[kColumns];
    largest_of(x, n, width, largest);
    sum_of_exp(x, largest, n, width, sums);
    T* to = row_to<T>(y, 0);
    for (int64_t c = 0; c < width; ++c) {
      // Subtracting an infinity leaves NaN where the result is that infinity.
      const T result = static_cast<T>(static_cast<double>(largest[c]) + math::log(sums[c]));
      to[c] = math::abs(largest[c]) == math::infinity<T>() ? largest[c] : result;
    }
  }

  static constexpr SoftmaxColumns kLoops = {softmax, log_softmax, softmax_backward, log_softmax_backward, log_sum_exp};
};

SoftmaxTable make_table() {
  SoftmaxTable table;
  set_row_loops(table);
  table.columns_of_float = Loops<float>::kLoops;
  table.columns_of_double = Loops<double>::kLoops;
  return table;
}

}  // namespace

const SoftmaxTable& softmax_table() {
  static const SoftmaxTable table = make_table();
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
