// Tile kernels of activations and of first derivatives.
#include "core/kernels/cpu/isa/tiles_loop.h"
#include "core/math/activation.h"
#include "core/math/gradient.h"

namespace weft::cpu::WEFT_ISA {

void set_activation(TileTable& table) { WEFT_ELEMENTWISE_ACTIVATION(WEFT_SET_TILES) }
void set_gradient(TileTable& table) { WEFT_ELEMENTWISE_GRADIENT(WEFT_SET_TILES) }

}  // namespace weft::cpu::WEFT_ISA
