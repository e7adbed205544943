// float16 and bfloat16 to float32 and back, for products that are computed in float32.
#include <stdint.h>

#include "core/kernels/cpu/gemm_kernels.h"
#include "core/math/types.h"

namespace weft::cpu::WEFT_ISA {

namespace {

template <class H> void widen_run(int64_t n, const void* from, float* to) {
  const H* const values = static_cast<const H*>(from);
  for (int64_t i = 0; i < n; ++i) to[i] = math::widen(values[i]);
}

template <class H> void narrow_run(int64_t n, const float* from, void* to) {
  H* const values = static_cast<H*>(to);
  for (int64_t i = 0; i < n; ++i) values[i] = math::cast<H>(from[i]);
}

}  // namespace

const HalfConversions& half_conversions() {
  static constexpr HalfConversions table{widen_run<Half>, widen_run<BFloat16>, narrow_run<Half>, narrow_run<BFloat16>};
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
