// Where random numbers come from: a seed and how much of its stream has been used. See Note [Random
// streams] in core/math/philox.h. Operations without generator= draw from the default one.
#pragma once

#include <cstdint>

#include "core/math/philox.h"

namespace weft {

struct Generator {
  static constexpr uint64_t kUnseeded = 67280421310721;  // what PyTorch's generators start from

  uint64_t seed = kUnseeded;
  uint64_t offset = 0;

  void restart(uint64_t from) {
    seed = from;
    offset = 0;
  }
  // Restarts from a number of the system's.
  uint64_t reseed();

  // Hands the rest of the stream to `fill`, which returns how many steps it used.
  template <class Fill>
  void draw(Fill&& fill) {
    offset += static_cast<uint64_t>(fill(random::Stream{seed, offset}));
  }
};

// The process starts with one seeded by the system.
Generator& default_generator();
inline Generator& generator_or_default(Generator* given) { return given ? *given : default_generator(); }

}  // namespace weft
