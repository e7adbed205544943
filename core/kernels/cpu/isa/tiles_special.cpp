// Tile kernels of the error and gamma functions.
#include "core/kernels/cpu/isa/tiles_loop.h"
#include "core/math/gamma.h"
#include "core/math/special.h"

namespace weft::cpu::WEFT_ISA {

void set_special(TileTable& table) { WEFT_ELEMENTWISE_SPECIAL(WEFT_SET_TILES) }

}  // namespace weft::cpu::WEFT_ISA
