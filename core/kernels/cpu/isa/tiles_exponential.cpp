// Tile kernels of exponentials, logarithms and powers.
#include "core/kernels/cpu/isa/tiles_loop.h"
#include "core/math/exponential.h"

namespace weft::cpu::WEFT_ISA {

void set_exponential(TileTable& table) { WEFT_ELEMENTWISE_EXPONENTIAL(WEFT_SET_TILES) }

}  // namespace weft::cpu::WEFT_ISA
