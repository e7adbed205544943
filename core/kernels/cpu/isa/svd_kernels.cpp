#include "core/kernels/cpu/isa/reduce_lanes.h"
#include "core/kernels/cpu/isa/svd_table.h"

namespace weft::cpu::WEFT_ISA {
namespace {

using reduction::Sum;

// kSvdLanes running sums, folded in halves: one order of addition for every instruction set.
struct RunningSum {
  static constexpr int kVectors = kSvdLanes / kWidth<double>;
  Vector<double> v[kVectors];

  WEFT_FN void begin() {
#pragma GCC unroll 8
    for (int k = 0; k < kVectors; ++k) v[k] = Vector<double>{};
  }
  WEFT_FN void add(const double* a, const double* b) {
#pragma GCC unroll 8
    for (int k = 0; k < kVectors; ++k) v[k] += load(a + k * kWidth<double>) * load(b + k * kWidth<double>);
  }
  WEFT_FN double end() {
#pragma GCC unroll 8
    for (int half = kVectors / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
      for (int k = 0; k < half; ++k) v[k] += v[k + half];
    }
    return fold_within<Sum, double, kWidth<double> / 2>(v[0]);
  }
};

double dot(const double* a, const double* b, int64_t n) {
  RunningSum sum;
  sum.begin();
  for (int64_t i = 0; i < n; i += kSvdLanes) sum.add(a + i, b + i);
  return sum.end();
}

void products(const double* a, const double* b, int64_t n, double (&out)[3]) {
  RunningSum aa, bb, ab;
  aa.begin();
  bb.begin();
  ab.begin();
  for (int64_t i = 0; i < n; i += kSvdLanes) {
    aa.add(a + i, a + i);
    bb.add(b + i, b + i);
    ab.add(a + i, b + i);
  }
  out[0] = aa.end();
  out[1] = bb.end();
  out[2] = ab.end();
}

void subtract(double* __restrict__ a, double factor, const double* __restrict__ b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) a[i] = a[i] - factor * b[i];
}

void rotate(double* __restrict__ a, double* __restrict__ b, int64_t n, double c, double s) {
  for (int64_t i = 0; i < n; ++i) {
    const double x = a[i], y = b[i];
    a[i] = c * x - s * y;
    b[i] = s * x + c * y;
  }
}

}  // namespace

const SvdTable& svd_table() {
  static const SvdTable table = {dot, products, subtract, rotate};
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
