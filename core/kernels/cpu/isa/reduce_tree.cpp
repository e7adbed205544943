// One chunk of every reduction: along contiguous memory (lanes in registers) and side by side (a
// block of columns, their lanes in L1). See Note [The fixed tree] in core/math/reduction.h.
#include "core/kernels/cpu/isa/reduce_lanes.h"
#include "core/kernels/cpu/isa/reduce_parts.h"
#include "core/kernels/cpu/isa/reduce_table.h"

namespace weft::cpu::WEFT_ISA {
namespace {

using reduction::kLanes;

// T: what a lane holds. A: what a chunk's result is kept in (wider for small integers).
template <class Op, class T, class A> struct Tree {
  // Rule 3 on n < 2 h lanes of which the last ones may be missing.
  template <int n, int h> WEFT_FN static T fold_short(T (&lane)[n]) {
    if constexpr (h == 0) {
      return lane[0];
    } else {
      constexpr int kFolds = n - h < h ? n - h : h;
      for (int l = 0; l < kFolds; ++l) lane[l] = Op::fold(lane[l], lane[l + h]);
      return fold_short<n, h / 2>(lane);
    }
  }

  template <int n>
  static void short_rows(const char* x, int64_t row_stride, int64_t rows, const T* center, A* out) {
    for (int64_t r = 0; r < rows; ++r, x += row_stride) {
      const T* row = reinterpret_cast<const T*>(x);
      const T c = center ? center[r] : T{};
      T lane[n];
#pragma GCC unroll 8
      for (int l = 0; l < n; ++l) lane[l] = Op::take(Op::template identity<T>(), row[l], c);
      out[r] = static_cast<A>(fold_short<n, reduction::lanes_in_use(n) / 2>(lane));
    }
  }

  static void rows(const char* x, int64_t row_stride, int64_t rows, int64_t n, const void* center, int64_t, int64_t,
                   void* accumulators) {
    const T* centers = static_cast<const T*>(center);
    A* out = static_cast<A*>(accumulators);
    switch (n) {
      case 1: return short_rows<1>(x, row_stride, rows, centers, out);
      case 2: return short_rows<2>(x, row_stride, rows, centers, out);
      case 3: return short_rows<3>(x, row_stride, rows, centers, out);
      case 4: return short_rows<4>(x, row_stride, rows, centers, out);
      case 5: return short_rows<5>(x, row_stride, rows, centers, out);
      case 6: return short_rows<6>(x, row_stride, rows, centers, out);
      case 7: return short_rows<7>(x, row_stride, rows, centers, out);
      case 8: return short_rows<8>(x, row_stride, rows, centers, out);
    }
    for (int64_t r = 0; r < rows; ++r, x += row_stride) {
      out[r] = static_cast<A>(reduce_chunk<Op, T>(reinterpret_cast<const T*>(x), n, centers ? centers[r] : T{}));
    }
  }

  // Takes `depth` rows per lane, kLanes rows apart: a lane is loaded and stored once for all. A
  // fresh lane begins here.
  template <int depth, bool fresh = false>
  WEFT_FN static void take_row(T* __restrict__ lane, int64_t width, const char* x, int64_t row_stride,
                               const T* center) {
    const T* __restrict__ row[depth];
    for (int d = 0; d < depth; ++d) { row[d] = reinterpret_cast<const T*>(x + d * kLanes * row_stride); }
    if (center == nullptr) {
      for (int64_t c = 0; c < width; ++c) {
        T a = fresh ? Op::template identity<T>() : lane[c];
#pragma GCC unroll 8
        for (int d = 0; d < depth; ++d) a = Op::take(a, row[d][c], T{});
        lane[c] = a;
      }
    } else {
      for (int64_t c = 0; c < width; ++c) {
        T a = fresh ? Op::template identity<T>() : lane[c];
#pragma GCC unroll 8
        for (int d = 0; d < depth; ++d) a = Op::take(a, row[d][c], center[c]);
        lane[c] = a;
      }
    }
  }

  static constexpr int64_t kDepth = 8;  // rows that a lane takes at once

  template <bool fresh>
  static void take_rows(int64_t depth, T* lane, int64_t width, const char* x, int64_t row_stride, const T* center) {
    switch (depth) {
      case 1: return take_row<1, fresh>(lane, width, x, row_stride, center);
      case 2: return take_row<2, fresh>(lane, width, x, row_stride, center);
      case 3: return take_row<3, fresh>(lane, width, x, row_stride, center);
      case 4: return take_row<4, fresh>(lane, width, x, row_stride, center);
      case 5: return take_row<5, fresh>(lane, width, x, row_stride, center);
      case 6: return take_row<6, fresh>(lane, width, x, row_stride, center);
      case 7: return take_row<7, fresh>(lane, width, x, row_stride, center);
      case kDepth: return take_row<kDepth, fresh>(lane, width, x, row_stride, center);
    }
  }

  // All rows of one lane.
  static void take_lane(T* lane, int64_t width, const char* x, int64_t row_stride, int64_t rows, const T* center) {
    const int64_t first = rows < kDepth ? rows : kDepth;
    if (first == 0) {
      for (int64_t c = 0; c < width; ++c) lane[c] = Op::template identity<T>();
      return;
    }
    take_rows<true>(first, lane, width, x, row_stride, center);
    for (int64_t r = first; r < rows; r += kDepth) {
      take_rows<false>(rows - r < kDepth ? rows - r : kDepth, lane, width, x + r * kLanes * row_stride, row_stride,
                       center);
    }
  }

  // Whole lanes in the order in which rule 3 folds them: first the lanes that meet first (0 and 32,
  // then 16 and 48, ...), so that only a few of them wait at a time, close to the processor.
  static void column_chunks(const char* x, int64_t row_stride, int64_t width, int64_t n, const void* center,
                            void* accumulators) {
    constexpr int64_t kBlock = 512;
    constexpr int kMostWaiting = 7;  // log2(kLanes) + 1
    alignas(64) T waiting[kMostWaiting][kBlock];
    const int used = reduction::lanes_in_use(n);
    for (int64_t from = 0; from < width; from += kBlock) {
      const int64_t block = width - from < kBlock ? width - from : kBlock;
      const char* data = x + from * static_cast<int64_t>(sizeof(T));
      const T* centers = center == nullptr ? nullptr : static_cast<const T*>(center) + from;
      int count = 0, lane = 0;
      for (int i = 0; i < used; ++i) {
        const int64_t rows = lane < n ? (n - lane + kLanes - 1) / kLanes : 0;
        take_lane(waiting[count++], block, data + lane * row_stride, row_stride, rows, centers);
        for (int bits = i; bits & 1; bits >>= 1) {
          --count;
          fold_lanes(waiting[count - 1], waiting[count], block);
        }
        // i + 1 with its bits in reverse: counting from the highest bit down.
        int bit = used / 2;
        for (; lane & bit; bit /= 2) lane ^= bit;
        lane |= bit;
      }
      A* out = static_cast<A*>(accumulators) + from;
      for (int64_t c = 0; c < block; ++c) out[c] = static_cast<A>(waiting[0][c]);
    }
  }

  WEFT_FN static void fold_lanes(T* __restrict__ low, const T* __restrict__ high, int64_t count) {
    for (int64_t i = 0; i < count; ++i) low[i] = Op::fold(low[i], high[i]);
  }

  static void columns_begin(void* lanes, int64_t width, int64_t n) {
    T* lane = static_cast<T*>(lanes);
    const int64_t count = width * reduction::lanes_in_use(n);
    for (int64_t i = 0; i < count; ++i) lane[i] = Op::template identity<T>();
  }

  static void columns(void* lanes, int64_t width, const char* x, int64_t row_stride, int64_t rows, int64_t first_row,
                      const void* center) {
    T* all = static_cast<T*>(lanes);
    const T* centers = static_cast<const T*>(center);
    // Dense rows: kLanes of them lie as their lanes do.
    const bool dense =
        row_stride == width * static_cast<int64_t>(sizeof(T)) && center == nullptr && first_row % kLanes == 0;
    for (int64_t r = 0; r < rows; r += kDepth * kLanes, x += kDepth * kLanes * row_stride) {
      const int64_t left = rows - r < kDepth * kLanes ? rows - r : kDepth * kLanes;
      const int64_t whole = left / kLanes, deeper = left % kLanes;  // the first lanes take one row more
      if (dense) {
        if (deeper > 0) take_rows<false>(whole + 1, all, deeper * width, x, row_stride, nullptr);
        if (whole > 0) {
          take_rows<false>(whole, all + deeper * width, (kLanes - deeper) * width, x + deeper * row_stride, row_stride,
                           nullptr);
        }
        continue;
      }
      for (int64_t l = 0; l < kLanes && l < left; ++l) {
        T* lane = all + (first_row + l) % kLanes * width;
        take_rows<false>(whole + (l < deeper), lane, width, x + l * row_stride, row_stride, centers);
      }
    }
  }

  static void columns_end(void* lanes, int64_t width, int64_t n, int64_t, void* accumulators) {
    T* lane = static_cast<T*>(lanes);
    for (int64_t h = reduction::lanes_in_use(n) / 2; h > 0; h /= 2) fold_lanes(lane, lane + h * width, h * width);
    A* out = static_cast<A*>(accumulators);
    for (int64_t c = 0; c < width; ++c) out[c] = static_cast<A>(lane[c]);
  }

  static void fold(void* earlier, const void* later, int64_t count) {
    A* __restrict__ a = static_cast<A*>(earlier);
    const A* __restrict__ b = static_cast<const A*>(later);
    for (int64_t i = 0; i < count; ++i) a[i] = Op::fold(a[i], b[i]);
  }

  static constexpr TreeKernel kKernel = {sizeof(T),     sizeof(A), rows,        column_chunks,
                                         columns_begin, columns,   columns_end, fold};
};

template <class Op> void set_for_floats(TreeKernel (&kernels)[kComputes]) {
  kernels[static_cast<int>(Compute::Float32)] = Tree<Op, float, float>::kKernel;
  kernels[static_cast<int>(Compute::Float64)] = Tree<Op, double, double>::kKernel;
}

ReduceTable make_table() {
  ReduceTable table = {};
  auto at = [&](TreeOp op) -> TreeKernel(&)[kComputes] { return table.kernels[static_cast<int>(op)]; };
  constexpr int i32 = static_cast<int>(Compute::Int32), i64 = static_cast<int>(Compute::Int64);
  set_for_floats<reduction::Sum>(at(TreeOp::Sum));
  set_for_floats<reduction::Prod>(at(TreeOp::Prod));
  set_for_floats<reduction::Max>(at(TreeOp::Max));
  set_for_floats<reduction::Min>(at(TreeOp::Min));
  set_for_floats<reduction::NanSum>(at(TreeOp::NanSum));
  set_for_floats<reduction::SumOfSquares>(at(TreeOp::SumOfSquares));
  set_for_floats<reduction::SumOfAbs>(at(TreeOp::SumOfAbs));
  set_for_floats<reduction::SumOfSquaresAround>(at(TreeOp::SumOfSquaresAround));
  // Unsigned, because sums and products of integers wrap. A chunk of small integers fits an int.
  at(TreeOp::Sum)[i32] = Tree<reduction::Sum, int, Int64>::kKernel;
  at(TreeOp::Sum)[i64] = Tree<reduction::Sum, UInt64, UInt64>::kKernel;
  at(TreeOp::Prod)[i64] = Tree<reduction::Prod, UInt64, UInt64>::kKernel;
  at(TreeOp::Max)[i32] = Tree<reduction::Max, int, int>::kKernel;
  at(TreeOp::Max)[i64] = Tree<reduction::Max, Int64, Int64>::kKernel;
  at(TreeOp::Min)[i32] = Tree<reduction::Min, int, int>::kKernel;
  at(TreeOp::Min)[i64] = Tree<reduction::Min, Int64, Int64>::kKernel;
  set_arg_kernels(table);
  set_complex_kernels(table);
  return table;
}

}  // namespace

const ReduceTable& reduce_table() {
  static const ReduceTable table = make_table();
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
