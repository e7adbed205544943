// What a function that creates a tensor is told besides its shape: dtype=, device=, requires_grad=.
// (layout= and pin_memory= are accepted where they ask for what every weft tensor is.)
#pragma once

#include "core/math/dtype.h"
#include "core/tensor/storage.h"

namespace weft {

struct CreationOptions {
  DType dtype{};
  bool has_dtype = false;
  Device device{};
  bool has_device = false;
  bool requires_grad = false;

  DType dtype_or(DType otherwise) const { return has_dtype ? dtype : otherwise; }
  Device device_or(Device otherwise) const { return has_device ? device : otherwise; }
  friend bool operator==(const CreationOptions&, const CreationOptions&) = default;
};
static_assert(sizeof(CreationOptions) <= sizeof(int64_t));

}  // namespace weft
