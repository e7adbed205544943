// The list of operations as data.
#pragma once

#include <span>

#include "core/ops/list.h"

namespace weft {

struct RegistryEntry {
  const OpTable* table;
  uint8_t forms;
};

std::span<const RegistryEntry> registry();

}  // namespace weft
