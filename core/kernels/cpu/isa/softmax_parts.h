// The parts of one instruction set's SoftmaxTable. Included by files of isa/ only.
//
// Note [Sums of exponentials]
// Softmax divides by a sum in which one large number may meet thousands of small ones: added in
// float32, their rounding errors are what most of softmax's error would be. So exponentials are added
// in float64, in the chunks of the fixed tree (core/math/reduction.h) but with kExpLanes lanes, and the
// sum is rounded to the elements' type once. Along and across memory alike.
#pragma once

#include "core/kernels/cpu/isa/softmax_table.h"

namespace weft::cpu::WEFT_ISA {

inline constexpr int kExpLanes = 32;

void set_row_loops(SoftmaxTable& table);  // softmax_rows.cpp

}  // namespace weft::cpu::WEFT_ISA
