#include "core/kernels/cpu/isa/scan_table.h"
#include "core/math/exponential.h"
#include "core/math/reduction.h"

namespace weft::cpu::WEFT_ISA {
namespace {

using reduction::kSegment;

struct LogAddExp {
  template <class T> WEFT_FN static T identity() { return -math::infinity<T>(); }
  template <class T> WEFT_FN static T fold(T a, T b) { return math::Logaddexp()(a, b); }
};

template <class Op, class T> struct Scan {
  static void begin(void* states, int64_t count) {
    T* state = static_cast<T*>(states);
    for (int64_t i = 0; i < count; ++i) state[i] = Op::template identity<T>();
  }

  // Rule 2 for `segments` whole segments at a time: their chains of operations are independent.
  template <int segments> WEFT_FN static void locals(const T* x, T* y, T (&local)[segments]) {
    for (int s = 0; s < segments; ++s) local[s] = Op::template identity<T>();
    for (int i = 0; i < kSegment; ++i) {
#pragma GCC unroll 8
      for (int s = 0; s < segments; ++s) {
        local[s] = Op::fold(local[s], x[s * kSegment + i]);
        y[s * kSegment + i] = local[s];
      }
    }
  }

  WEFT_FN static void fold_before(T before, T* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = Op::fold(before, y[i]);
  }

  static void along(const void* x, void* y, int64_t n, void* before) {
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    T base = *static_cast<T*>(before);
    constexpr int kAtOnce = 4;
    int64_t i = 0;
    for (; i + kAtOnce * kSegment <= n; i += kAtOnce * kSegment) {
      T local[kAtOnce];
      locals<kAtOnce>(from + i, to + i, local);
      for (int s = 0; s < kAtOnce; ++s) {
        fold_before(base, to + i + s * kSegment, kSegment);
        base = Op::fold(base, local[s]);
      }
    }
    for (; i < n; i += kSegment) {
      const int64_t length = n - i < kSegment ? n - i : kSegment;
      T local = Op::template identity<T>();
      for (int64_t j = i; j < i + length; ++j) to[j] = local = Op::fold(local, from[j]);
      fold_before(base, to + i, length);
      base = Op::fold(base, local);
    }
    *static_cast<T*>(before) = base;
  }

  static void totals(const void* x, int64_t n, void* totals) {
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(totals);
    for (int64_t segment = 0; segment < n; segment += kSegment) {
      const int64_t end = segment + kSegment < n ? segment + kSegment : n;
      T local = Op::template identity<T>();
      for (int64_t i = segment; i < end; ++i) local = Op::fold(local, from[i]);
      *to++ = local;
    }
  }

  static void across(const void* x, void* y, int64_t width, const void* before, void* local) {
    // x and y may be the same, but then element by element.
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    const T* __restrict__ bases = static_cast<const T*>(before);
    T* __restrict__ locals = static_cast<T*>(local);
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) {
      const T folded = Op::fold(locals[i], from[i]);
      locals[i] = folded;
      to[i] = Op::fold(bases[i], folded);
    }
  }

  static void fold(const void* a, const void* b, void* out, int64_t count) {
    const T* left = static_cast<const T*>(a);
    const T* right = static_cast<const T*>(b);
    T* to = static_cast<T*>(out);
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) to[i] = Op::fold(left[i], right[i]);
  }

  static constexpr ScanKernel kKernel = {begin, along, totals, across, fold};
};

template <class Op> void set_for_numbers(ScanKernel (&kernels)[kComputes]) {
  kernels[static_cast<int>(Compute::Float32)] = Scan<Op, float>::kKernel;
  kernels[static_cast<int>(Compute::Float64)] = Scan<Op, double>::kKernel;
  kernels[static_cast<int>(Compute::Int64)] = Scan<Op, UInt64>::kKernel;
  kernels[static_cast<int>(Compute::Complex64)] = Scan<Op, Complex64>::kKernel;
  kernels[static_cast<int>(Compute::Complex128)] = Scan<Op, Complex128>::kKernel;
}

ScanTable make_table() {
  ScanTable table = {};
  set_for_numbers<reduction::Sum>(table.kernels[static_cast<int>(ScanOp::Sum)]);
  set_for_numbers<reduction::Prod>(table.kernels[static_cast<int>(ScanOp::Prod)]);
  ScanKernel(&log_add_exp)[kComputes] = table.kernels[static_cast<int>(ScanOp::LogAddExp)];
  log_add_exp[static_cast<int>(Compute::Float32)] = Scan<LogAddExp, float>::kKernel;
  log_add_exp[static_cast<int>(Compute::Float64)] = Scan<LogAddExp, double>::kKernel;
  return table;
}

}  // namespace

const ScanTable& scan_table() {
  static const ScanTable table = make_table();
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
