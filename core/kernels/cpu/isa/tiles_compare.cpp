// Tile kernels of comparisons, predicates and logic.
#include "core/kernels/cpu/isa/tiles_loop.h"
#include "core/math/compare.h"

namespace weft::cpu::WEFT_ISA {

void set_compare(TileTable& table) { WEFT_ELEMENTWISE_COMPARE(WEFT_SET_TILES) }

}  // namespace weft::cpu::WEFT_ISA
