// Which instruction set this process uses. Files in kernels/cpu/isa/ are compiled once per set, with
// WEFT_ISA defined as the set's name; each puts everything it defines in namespace
// weft::cpu::WEFT_ISA and exports one table of function pointers. The table is chosen at load time.
//
// Note [Nothing shared between instruction sets]
// The linker keeps one copy of an inline function or template instantiation. If two sets emitted the
// same symbol, AVX-512 code could end up being called on a machine without it. Hence files in isa/
// define everything inside namespace WEFT_ISA (or always_inline) and use no std:: templates.
#pragma once

namespace weft::cpu {

enum class Isa : int { baseline, avx2, avx512 };

// The best set of this machine, or the one named by WEFT_CPU=baseline|avx2|avx512.
Isa chosen_isa();
const char* isa_name(Isa isa);

}  // namespace weft::cpu

// Declares the per-set factories of a table type and picks the right one:
//   WEFT_ISA_TABLE(ReduceTable, reduce_table)  declares  const ReduceTable& reduce_table();
#if defined(WEFT_ONLY_BASELINE)  // processors for which there is one set only
#define WEFT_ISA_TABLE(Type, name)           \
  namespace baseline { const Type& name(); } \
  inline const Type& name() { return baseline::name(); }
#else
#define WEFT_ISA_TABLE(Type, name)                                              \
  namespace baseline { const Type& name(); }                                    \
  namespace avx2 { const Type& name(); }                                        \
  namespace avx512 { const Type& name(); }                                      \
  inline const Type& name() {                                                   \
    static const Type& chosen = chosen_isa() == Isa::avx512 ? avx512::name()    \
                                : chosen_isa() == Isa::avx2 ? avx2::name()      \
                                                            : baseline::name(); \
    return chosen;                                                              \
  }
#endif
