// The parts that the type Tensor is put together from.
#pragma once

#include <span>

#include "bind/object.h"

namespace weft::bind {

std::span<const PyType_Slot> operator_slots();  // bind/tensor_operators.cpp

}  // namespace weft::bind
