// The kernels as C functions, for ctypes.
#include "core/kernels/cpu/isa.h"
#include "core/kernels/cpu/random.h"
#include "core/kernels/cpu/reduce.h"
#include "core/kernels/cpu/scan.h"
#include "core/kernels/cpu/softmax.h"
#include "core/kernels/cpu/sort.h"
#include "core/kernels/cpu/threads.h"

using namespace weft;
using namespace weft::cpu;

extern "C" {

const char* isa() { return isa_name(chosen_isa()); }
void threads(int n) { set_num_threads(n); }

void reduce_c(int kind, int in, int out, void* out_data, const Strided* outer, int reduced_ndim,
              const int64_t* sizes, const int64_t* strides, int64_t* index) {
  reduce(static_cast<Reduction>(kind), static_cast<DType>(in), static_cast<DType>(out), out_data,
         *outer, reduced_ndim, sizes, strides, index);
}

void moments_c(int in, int out, void* mean, void* spread, int kind, double correction,
               const Strided* outer, int reduced_ndim, const int64_t* sizes,
               const int64_t* strides) {
  moments(static_cast<DType>(in), static_cast<DType>(out), mean, spread, static_cast<Spread>(kind),
          correction, *outer, reduced_ndim, sizes, strides);
}

void scan_c(int kind, int in, int out, const Strided* x, const Strided* y, int dim) {
  scan(static_cast<Scan>(kind), static_cast<DType>(in), static_cast<DType>(out), *x, *y, dim);
}

void extreme_c(int kind, int type, const Strided* x, const Strided* values, const Strided* indices,
               int dim) {
  running_extreme(static_cast<Extreme>(kind), static_cast<DType>(type), *x, *values, *indices, dim);
}

void softmax_c(int kind, int in, int out, const Strided* x, const Strided* y, int dim) {
  softmax(static_cast<Softmax>(kind), static_cast<DType>(in), static_cast<DType>(out), *x, *y, dim);
}

void softmax_backward_c(int kind, int in, int out, const Strided* grad, const Strided* y,
                        const Strided* grad_x, int dim) {
  softmax_backward(static_cast<Softmax>(kind), static_cast<DType>(in), static_cast<DType>(out),
                   *grad, *y, *grad_x, dim);
}

void log_sum_exp_c(int in, int out, const Strided* x, const Strided* y, int dim) {
  log_sum_exp(static_cast<DType>(in), static_cast<DType>(out), *x, *y, dim);
}

void sort_c(int type, bool descending, const Strided* x, const Strided* values,
            const Strided* indices, int dim) {
  sort(static_cast<DType>(type), descending, *x, *values, *indices, dim);
}

void topk_c(int type, int64_t k, bool largest, const Strided* x, const Strided* values,
            const Strided* indices, int dim) {
  topk(static_cast<DType>(type), k, largest, *x, *values, *indices, dim);
}

void kth_c(int type, int64_t k, const Strided* x, const Strided* values, const Strided* indices,
           int dim) {
  kth_value(static_cast<DType>(type), k, *x, *values, *indices, dim);
}

void median_c(int type, bool ignore_nan, const Strided* x, const Strided* values,
              const Strided* indices, int dim) {
  median(static_cast<DType>(type), ignore_nan, *x, *values, *indices, dim);
}

void mode_c(int type, const Strided* x, const Strided* values, const Strided* indices, int dim) {
  mode(static_cast<DType>(type), *x, *values, *indices, dim);
}

int64_t unique_c(int type, bool consecutive, const void* x, int64_t n, void* values,
                 int64_t* inverse, int64_t* counts) {
  const DType t = static_cast<DType>(type);
  return consecutive ? unique_consecutive(t, x, n, values, inverse, counts)
                     : unique(t, x, n, values, inverse, counts);
}

// `what`: the distributions of random.h in order.
int64_t fill_c(int what, uint64_t seed, uint64_t offset, int type, double a, double b, void* out,
               int64_t n) {
  const Stream stream{seed, offset};
  const DType t = static_cast<DType>(type);
  switch (what) {
    case 0: return fill_uniform(stream, t, a, b, out, n);
    case 1: return fill_normal(stream, t, a, b, out, n);
    case 2: return fill_log_normal(stream, t, a, b, out, n);
    case 3: return fill_exponential(stream, t, a, out, n);
    case 4: return fill_cauchy(stream, t, a, b, out, n);
    case 5: return fill_geometric(stream, t, a, out, n);
    case 6: return fill_bernoulli(stream, t, a, out, n);
    default: return fill_permutation(stream, t, out, n);
  }
}

int64_t integers_c(uint64_t seed, uint64_t offset, int type, int64_t low, int64_t high, void* out,
                   int64_t n) {
  return fill_integers({seed, offset}, static_cast<DType>(type), low, high, out, n);
}

int64_t bernoulli_c(uint64_t seed, uint64_t offset, int type, int p_type, const void* p, void* out,
                    int64_t n) {
  return fill_bernoulli({seed, offset}, static_cast<DType>(type), static_cast<DType>(p_type), p,
                        out, n);
}

int64_t multinomial_c(uint64_t seed, uint64_t offset, int type, const void* weights, int64_t rows,
                      int64_t categories, int64_t draws, bool replacement, int64_t* out) {
  const DType t = static_cast<DType>(type);
  if (multinomial_problem(t, weights, rows, categories, draws, replacement)) return -1;
  return fill_multinomial({seed, offset}, t, weights, rows, categories, draws, replacement, out);
}

void philox_c(uint64_t seed, uint64_t counter, uint32_t* out) {
  const random::Words made = random::philox(seed, counter);
  for (int i = 0; i < 4; ++i) out[i] = made.w[i];
}

}  // extern "C"
