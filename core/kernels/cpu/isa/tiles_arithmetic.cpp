// Tile kernels of arithmetic.
#include "core/kernels/cpu/isa/tiles_loop.h"
#include "core/math/arithmetic.h"

namespace weft::cpu::WEFT_ISA {

void set_arithmetic(TileTable& table) { WEFT_ELEMENTWISE_ARITHMETIC(WEFT_SET_TILES) }

}  // namespace weft::cpu::WEFT_ISA
