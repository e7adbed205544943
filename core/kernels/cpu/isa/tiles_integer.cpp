// Tile kernels of integers' own operations and of rounding.
#include "core/kernels/cpu/isa/tiles_loop.h"
#include "core/math/arithmetic.h"
#include "core/math/rounding.h"

namespace weft::cpu::WEFT_ISA {

void set_integer(TileTable& table) { WEFT_ELEMENTWISE_INTEGER(WEFT_SET_TILES) }
void set_rounding(TileTable& table) { WEFT_ELEMENTWISE_ROUNDING(WEFT_SET_TILES) }

}  // namespace weft::cpu::WEFT_ISA
