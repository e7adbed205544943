// Tile kernels of circular and hyperbolic functions.
#include "core/kernels/cpu/isa/tiles_loop.h"
#include "core/math/hyperbolic.h"
#include "core/math/trigonometric.h"

namespace weft::cpu::WEFT_ISA {

void set_trigonometric(TileTable& table) { WEFT_ELEMENTWISE_TRIGONOMETRIC(WEFT_SET_TILES) }
void set_hyperbolic(TileTable& table) { WEFT_ELEMENTWISE_HYPERBOLIC(WEFT_SET_TILES) }

}  // namespace weft::cpu::WEFT_ISA
