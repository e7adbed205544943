#include "core/graph/generator.h"

#include <random>

namespace weft {

uint64_t Generator::reseed() {
  std::random_device device;
  restart(static_cast<uint64_t>(device()) << 32 | device());
  return seed;
}

Generator& default_generator() {
  static Generator generator = [] {
    Generator g;
    g.reseed();
    return g;
  }();
  return generator;
}

}  // namespace weft
