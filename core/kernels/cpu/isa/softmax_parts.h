// The parts of one instruction set's SoftmaxTable. Included by files of isa/ only.
#pragma once

#include "core/kernels/cpu/isa/softmax_table.h"

namespace weft::cpu::WEFT_ISA {

void set_row_loops(SoftmaxTable& table);  // softmax_rows.cpp

}  // namespace weft::cpu::WEFT_ISA
