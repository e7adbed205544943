// The table of tile kernels of one instruction set.
#include "core/kernels/cpu/isa/tiles_loop.h"

namespace weft::cpu::WEFT_ISA {

const TileTable& tile_table() {
  static const TileTable table = [] {
    TileTable t{};
    set_arithmetic(t);
    set_integer(t);
    set_compare(t);
    set_rounding(t);
    set_exponential(t);
    set_trigonometric(t);
    set_hyperbolic(t);
    set_special(t);
    set_activation(t);
    set_gradient(t);
    set_cast(t);
    set_moves(t);
    return t;
  }();
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
