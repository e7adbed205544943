// Free lists for the small blocks that every recorded operation needs: tensors, nodes, small storages.
// Touched only while the interpreter lock is held, hence no lock of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace weft {

inline constexpr size_t kBlockGrain = 16;
inline constexpr size_t kLargestBlock = 1024;
// More free blocks than this per size go back to malloc, so that a huge graph gives its memory back.
inline constexpr uint32_t kMostFreeBlocks = 8192;

struct FreeList {
  void* head = nullptr;
  uint32_t count = 0;
};
extern constinit FreeList free_lists[kLargestBlock / kBlockGrain + 1];

#if defined(WEFT_SANITIZE)
// A sanitizer must see every allocation for itself.
inline void* block_allocate(size_t bytes) { return std::malloc(bytes); }
inline void block_release(void* block, size_t) { std::free(block); }
#else
[[gnu::noinline]] void* block_allocate_slow(size_t bytes);

inline void* block_allocate(size_t bytes) {
  if (bytes <= kLargestBlock) {
    FreeList& list = free_lists[(bytes + kBlockGrain - 1) / kBlockGrain];
    if (void* block = list.head) {
      list.head = *static_cast<void**>(block);
      --list.count;
      return block;
    }
  }
  return block_allocate_slow(bytes);
}

inline void block_release(void* block, size_t bytes) {
  if (bytes <= kLargestBlock) {
    FreeList& list = free_lists[(bytes + kBlockGrain - 1) / kBlockGrain];
    if (list.count < kMostFreeBlocks) {
      *static_cast<void**>(block) = list.head;
      list.head = block;
      ++list.count;
      return;
    }
  }
  std::free(block);
}
#endif

}  // namespace weft
