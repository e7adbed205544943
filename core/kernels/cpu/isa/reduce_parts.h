// The parts of one instruction set's ReduceTable that reduce_tree.cpp does not fill itself.
// Included by files of isa/ only.
#pragma once

#include "core/kernels/cpu/isa/reduce_table.h"

namespace weft::cpu::WEFT_ISA {

void set_arg_kernels(ReduceTable& table);      // reduce_arg.cpp
void set_complex_kernels(ReduceTable& table);  // reduce_complex.cpp

}  // namespace weft::cpu::WEFT_ISA
