// Sums and products of complex numbers by the fixed tree: plain loops over the lanes.
#include "core/kernels/cpu/isa/reduce_parts.h"
#include "core/kernels/cpu/isa/reduce_table.h"
#include "core/math/reduction.h"

namespace weft::cpu::WEFT_ISA {
namespace {

using reduction::kLanes;

template <class Op, class T> struct ComplexTree {
  static void rows(const char* x, int64_t row_stride, int64_t rows, int64_t n, const void*, int64_t, int64_t,
                   void* accumulators) {
    T* out = static_cast<T*>(accumulators);
    for (int64_t r = 0; r < rows; ++r, x += row_stride) {
      T lane[kLanes];
      columns_begin(lane, 1, n);
      columns(lane, 1, x, sizeof(T), n, 0, nullptr);
      columns_end(lane, 1, n, 0, out + r);
    }
  }

  static void columns_begin(void* lanes, int64_t width, int64_t n) {
    T* lane = static_cast<T*>(lanes);
    const int64_t count = width * reduction::lanes_in_use(n);
    for (int64_t i = 0; i < count; ++i) lane[i] = Op::template identity<T>();
  }

  static void columns(void* lanes, int64_t width, const char* x, int64_t row_stride, int64_t rows, int64_t first_row,
                      const void*) {
    for (int64_t r = 0; r < rows; ++r, x += row_stride) {
      T* __restrict__ lane = static_cast<T*>(lanes) + (first_row + r) % kLanes * width;
      const T* __restrict__ row = reinterpret_cast<const T*>(x);
      for (int64_t c = 0; c < width; ++c) lane[c] = Op::take(lane[c], row[c], T{});
    }
  }

  static void columns_end(void* lanes, int64_t width, int64_t n, int64_t, void* accumulators) {
    T* lane = static_cast<T*>(lanes);
    for (int64_t h = reduction::lanes_in_use(n) / 2; h > 0; h /= 2) { fold(lane, lane + h * width, h * width); }
    T* out = static_cast<T*>(accumulators);
    for (int64_t c = 0; c < width; ++c) out[c] = lane[c];
  }

  static void fold(void* earlier, const void* later, int64_t count) {
    T* a = static_cast<T*>(earlier);
    const T* b = static_cast<const T*>(later);
    for (int64_t i = 0; i < count; ++i) a[i] = Op::fold(a[i], b[i]);
  }

  static constexpr TreeKernel kKernel = {sizeof(T),     sizeof(T), rows,        nullptr,
                                         columns_begin, columns,   columns_end, fold};
};

template <class Op> void set_kernels(TreeKernel (&kernels)[kComputes]) {
  kernels[static_cast<int>(Compute::Complex64)] = ComplexTree<Op, Complex64>::kKernel;
  kernels[static_cast<int>(Compute::Complex128)] = ComplexTree<Op, Complex128>::kKernel;
}

}  // namespace

void set_complex_kernels(ReduceTable& table) {
  set_kernels<reduction::Sum>(table.kernels[static_cast<int>(TreeOp::Sum)]);
  set_kernels<reduction::Prod>(table.kernels[static_cast<int>(TreeOp::Prod)]);
}

}  // namespace weft::cpu::WEFT_ISA
