#include "core/ops/registry.h"

namespace weft {

#define WEFT_DECLARE(Struct, forms) extern const OpTable op_##Struct;
WEFT_OPS(WEFT_DECLARE)
#undef WEFT_DECLARE

std::span<const RegistryEntry> registry() {
#define WEFT_ENTRY(Struct, forms) {&op_##Struct, forms},
  static const RegistryEntry entries[] = {WEFT_OPS(WEFT_ENTRY)};
#undef WEFT_ENTRY
  return entries;
}

}  // namespace weft
