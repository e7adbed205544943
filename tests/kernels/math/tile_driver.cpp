// A C interface to the tile tables of all instruction sets, for the tests and benchmarks beside it.
#include <chrono>

#include "core/kernels/cpu/tiles.h"

using namespace weft;
using namespace weft::cpu;

namespace {

const TileTable& table_of(int isa) {
  return isa == 2 ? avx512::tile_table() : isa == 1 ? avx2::tile_table() : baseline::tile_table();
}

}  // namespace

extern "C" {

int elementwise_count() { return kElementwiseCount; }
const char* elementwise_name(int e) { return kElementwiseInfo[e].name; }

bool machine_has(int isa) {
  __builtin_cpu_init();
  if (isa == 2) return __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (isa == 1) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return true;
}

// 0 when done, 1 when the table has no such kernel.
int run_tile(int isa, int e, int dtype, const void* functor, int64_t n, void* out, const void* a,
             const void* b, const void* c) {
  const TileFn f = table_of(isa).op[e][dtype];
  if (f == nullptr) return 1;
  f(functor, n, out, a, b, c);
  return 0;
}

int run_cast(int isa, int from, int to, int64_t n, void* out, const void* a) {
  const TileFn f = table_of(isa).cast[from][to];
  if (f == nullptr) return 1;
  f(nullptr, n, out, a, nullptr, nullptr);
  return 0;
}

void run_gather(int isa, int size, int64_t n, void* to, const void* from, int64_t stride) {
  table_of(isa).gather[item_size_index(size)](n, to, from, stride);
}
void run_scatter(int isa, int size, int64_t n, void* to, int64_t stride, const void* from) {
  table_of(isa).scatter[item_size_index(size)](n, to, stride, from);
}
void run_fill(int isa, int size, int64_t n, void* to, const void* value) {
  table_of(isa).fill[item_size_index(size)](n, to, value);
}

// The least time of several runs, in nanoseconds per element.
double time_tile(int isa, int e, int dtype, const void* functor, int64_t n, void* out,
                 const void* a, const void* b, const void* c, int runs) {
  double best = 1e30;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    table_of(isa).op[e][dtype](functor, n, out, a, b, c);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    if (took.count() < best) best = took.count();
  }
  return best / static_cast<double>(n);
}
}
