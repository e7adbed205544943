#include "core/kernels/cpu/isa/pooling_table.h"

#include "core/kernels/cpu/gemm_vector.h"

namespace weft::cpu::WEFT_ISA {

namespace {

// Steps of 1 and 2 are known to the compiler, so that it can read whole vectors.
template <class T, int known_step>
void larger_loop(const T* __restrict x, int64_t any_step, int64_t n, T* __restrict best, int32_t* __restrict where,
                 int32_t first, int32_t position_step) {
  const int64_t step = known_step > 0 ? known_step : any_step;
  for (int64_t i = 0; i < n; ++i) {
    const T value = x[i * step];
    const bool takes = (value > best[i]) | (value != value);
    best[i] = takes ? value : best[i];
    where[i] = takes ? first + static_cast<int32_t>(i) * position_step : where[i];
  }
}

template <class T>
void larger(const T* x, int64_t step, int64_t n, T* best, int32_t* where, int32_t first, int32_t position_step) {
  if (step == 1) larger_loop<T, 1>(x, 1, n, best, where, first, position_step);
  else if (step == 2) larger_loop<T, 2>(x, 2, n, best, where, first, position_step);
  else larger_loop<T, 0>(x, step, n, best, where, first, position_step);
}

template <class T>
void largest(const T* __restrict x, const int32_t* __restrict positions, int64_t places, int64_t n, T* __restrict best,
             int64_t* __restrict where) {
  constexpr int64_t kBlock = 64;
  T values[kBlock];
  int32_t found[kBlock];
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t count = n - first < kBlock ? n - first : kBlock;
    const int32_t* at = positions + first;
    for (int64_t i = 0; i < count; ++i) {
      values[i] = x[at[i]];
      found[i] = at[i];
    }
    for (int64_t place = 1; place < places; ++place) {
      at += n;
      for (int64_t i = 0; i < count; ++i) {
        const T value = x[at[i]];
        const bool takes = (value > values[i]) | (value != value);
        values[i] = takes ? value : values[i];
        found[i] = takes ? at[i] : found[i];
      }
    }
    for (int64_t i = 0; i < count; ++i) best[first + i] = values[i];
    for (int64_t i = 0; i < count; ++i) where[first + i] = found[i];
  }
}

template <class T, int known_step> void add_loop(const T* __restrict x, int64_t any_step, int64_t n,
                                                 T* __restrict sum) {
  const int64_t step = known_step > 0 ? known_step : any_step;
  for (int64_t i = 0; i < n; ++i) sum[i] += x[i * step];
}

template <class T> void add(const T* x, int64_t step, int64_t n, T* sum) {
  if (step == 1) add_loop<T, 1>(x, 1, n, sum);
  else if (step == 2) add_loop<T, 2>(x, 2, n, sum);
  else add_loop<T, 0>(x, step, n, sum);
}

template <class T> void spread(const T* __restrict x, int64_t n, T* __restrict y, int64_t step) {
  if (step == 1)
    for (int64_t i = 0; i < n; ++i) y[i] += x[i];
  else
    for (int64_t i = 0; i < n; ++i) y[i * step] += x[i];
}

}  // namespace

const PoolingTable& pooling_table() {
  static const PoolingTable table{{larger<float>, largest<float>, add<float>, spread<float>},
                                  {larger<double>, largest<double>, add<double>, spread<double>}};
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
