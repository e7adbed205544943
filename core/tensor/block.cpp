#include "core/tensor/block.h"

#include "core/tensor/error.h"

namespace weft {

constinit FreeList free_lists[kLargestBlock / kBlockGrain + 1];

#if !defined(WEFT_SANITIZE)
void* block_allocate_slow(size_t bytes) {
  // Rounded up, so that the block fits every request of its size class once it is on a free list.
  const size_t rounded = (bytes + kBlockGrain - 1) / kBlockGrain * kBlockGrain;
  void* block = std::malloc(rounded);
  if (!block) fail(ErrorKind::Memory, "out of memory: ", rounded, " bytes could not be allocated");
  return block;
}
#endif

}  // namespace weft
