#include "core/kernels/cpu/gemm_plain.h"

#include <algorithm>

#include "core/math/arithmetic.h"

namespace weft::cpu {

namespace {

template <class T> inline T plus_product(T sum, T a, T b) { return math::plus(sum, math::times(a, b)); }
template <class C> inline C plus_complex_product(C sum, C a, C b) {
  return {sum.re + (a.re * b.re - a.im * b.im), sum.im + (a.re * b.im + a.im * b.re)};
}
inline Complex64 plus_product(Complex64 sum, Complex64 a, Complex64 b) { return plus_complex_product(sum, a, b); }
inline Complex128 plus_product(Complex128 sum, Complex128 a, Complex128 b) { return plus_complex_product(sum, a, b); }

// Row by row of C; along C's row where b allows it, which the compiler turns into vectors.
template <class T> void multiply(const Product& x) {
  const T* const a = static_cast<const T*>(x.a.data);
  const T* const b = static_cast<const T*>(x.b.data);
  for (int64_t i = 0; i < x.m; ++i) {
    const T* const a_row = a + i * x.a.row_stride;
    T* const c = static_cast<T*>(x.c) + i * x.c_row_stride;
    if (!x.accumulate) std::fill_n(c, x.n, T{});
    if (x.b.row_stride == 1 && x.b.col_stride != 1) {
      for (int64_t j = 0; j < x.n; ++j) {
        const T* const b_column = b + j * x.b.col_stride;
        T sum = c[j];
        for (int64_t p = 0; p < x.k; ++p) { sum = plus_product(sum, a_row[p * x.a.col_stride], b_column[p]); }
        c[j] = sum;
      }
    } else {
      for (int64_t p = 0; p < x.k; ++p) {
        const T from_a = a_row[p * x.a.col_stride];
        const T* const b_row = b + p * x.b.row_stride;
        if (x.b.col_stride == 1) {
          for (int64_t j = 0; j < x.n; ++j) c[j] = plus_product(c[j], from_a, b_row[j]);
        } else {
          for (int64_t j = 0; j < x.n; ++j) { c[j] = plus_product(c[j], from_a, b_row[j * x.b.col_stride]); }
        }
      }
    }
  }
}

}  // namespace

void plain_product(DType dtype, const Product& x) {
  switch (dtype) {
    case DType::Bool: return multiply<bool>(x);
    case DType::UInt8: return multiply<unsigned char>(x);
    case DType::Int8: return multiply<signed char>(x);
    case DType::Int16: return multiply<short>(x);
    case DType::Int32: return multiply<int>(x);
    case DType::Int64: return multiply<Int64>(x);
    case DType::Complex64: return multiply<Complex64>(x);
    case DType::Complex128: return multiply<Complex128>(x);
    default: __builtin_unreachable();  // has a kernel of its own
  }
}

}  // namespace weft::cpu
