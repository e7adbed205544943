#include "core/kernels/cpu/isa.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace weft::cpu {

namespace {

// Each set asks for everything its compiler flags allow, not only for the feature that names it.
Isa best_isa() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
                    __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
  if (avx512) return Isa::avx512;
  if (avx2) return Isa::avx2;
#endif
  return Isa::baseline;
}

Isa isa_from_environment(Isa best) {
  const char* wanted = std::getenv("WEFT_CPU");
  if (wanted == nullptr) return best;
  for (Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (std::strcmp(wanted, isa_name(isa)) == 0) return isa < best ? isa : best;
  }
  return best;
}

}  // namespace

Isa chosen_isa() {
  static const Isa chosen = isa_from_environment(best_isa());
  return chosen;
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::baseline: return "baseline";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
  }
  return "unknown";
}

}  // namespace weft::cpu
