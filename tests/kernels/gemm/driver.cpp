// A C interface to the products and the thread pool, for the tests in this folder.
#include "core/kernels/cpu/gemm.h"
#include "core/kernels/cpu/libraries.h"
#include "core/kernels/cpu/threads.h"

using namespace weft;
using namespace weft::cpu;

extern "C" {

void product(int dtype, int64_t m, int64_t n, int64_t k, const void* a, int64_t a_row,
             int64_t a_col, const void* b, int64_t b_row, int64_t b_col, void* c, int64_t c_row,
             bool accumulate) {
  gemm(static_cast<DType>(dtype), m, n, k, {a, a_row, a_col}, {b, b_row, b_col}, c, c_row,
       accumulate);
}

void products(int dtype, int64_t batch, int64_t m, int64_t n, int64_t k, const void* a,
              int64_t a_batch, int64_t a_row, int64_t a_col, const void* b, int64_t b_batch,
              int64_t b_row, int64_t b_col, void* c, int64_t c_batch, int64_t c_row,
              bool accumulate) {
  gemm_batched(static_cast<DType>(dtype), batch, m, n, k, {a, a_row, a_col}, a_batch,
               {b, b_row, b_col}, b_batch, c, c_batch, c_row, accumulate);
}

void use_libraries_in(const char* directory) { set_library_dir(directory); }
const char* describe() { return describe_products(); }

void use_threads(int n) { set_num_threads(n); }
int threads() { return num_threads(); }

// Adds 1 to each of `count` counters, and `inner` more through a nested call.
void count_pieces(int64_t count, int64_t inner, int64_t* counters) {
  parallel(count, [&](int64_t piece) {
    counters[piece] += 1;
    parallel(inner, [&](int64_t) { counters[piece] += 1; });
  });
}

}  // extern "C"
