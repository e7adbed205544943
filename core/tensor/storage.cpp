#include "core/tensor/storage.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/tensor/block.h"
#include "core/tensor/callsite.h"
#include "core/tensor/tensor.h"

namespace weft {
namespace {

// Small data lives right behind its storage, in one block. Middle sizes come from malloc. Large ones are
// kept for a while after use: fresh pages from the system cost more than most kernels that fill them.
enum Placement : uint8_t { kBehind, kMalloc, kLarge, kForeign };

constexpr size_t kAlignment = 64;
constexpr size_t kMostBehind = kLargestBlock - sizeof(Storage);
constexpr size_t kLargeFrom = size_t{256} << 10;
constexpr size_t kMostKept = size_t{192} << 20;

struct KeptRange {
  char* data;
  size_t bytes;
};
std::vector<KeptRange> kept;
size_t kept_bytes = 0;

size_t rounded_large(size_t bytes) {
  const size_t step = bytes < (size_t{4} << 20) ? size_t{64} << 10 : size_t{1} << 20;
  return (bytes + step - 1) / step * step;
}

size_t available_memory() {
  size_t kilobytes = 0;
  if (std::FILE* info = std::fopen("/proc/meminfo", "r")) {
    char line[128];
    while (std::fgets(line, sizeof line, info)) {
      if (std::sscanf(line, "MemAvailable: %zu kB", &kilobytes) == 1) break;
    }
    std::fclose(info);
  }
  return kilobytes ? kilobytes * 1024 : static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

char* allocate_large(size_t& bytes) {
  bytes = rounded_large(bytes);
  for (size_t i = kept.size(); i-- > 0;) {
    if (kept[i].bytes == bytes) {
      char* data = kept[i].data;
      kept.erase(kept.begin() + i);
      kept_bytes -= bytes;
      return data;
    }
  }
  check_memory(bytes);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    for (KeptRange& range : kept) munmap(range.data, range.bytes);
    kept.clear();
    kept_bytes = 0;
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) { fail(ErrorKind::Runtime, "not enough memory: you tried to allocate ", bytes, " bytes"); }
  }
  return static_cast<char*>(data);
}

void release_large(char* data, size_t bytes) {
#if !defined(WEFT_SANITIZE)
  if (bytes <= kMostKept / 2) {
    while (kept_bytes + bytes > kMostKept) {
      kept_bytes -= kept.front().bytes;
      munmap(kept.front().data, kept.front().bytes);
      kept.erase(kept.begin());
    }
    kept.push_back({data, bytes});
    kept_bytes += bytes;
    return;
  }
#endif
  munmap(data, bytes);
}

size_t block_bytes(size_t bytes) { return sizeof(Storage) + std::max<size_t>(bytes, 8); }

}  // namespace

void check_memory(size_t bytes) {
  static const char* limit_text = std::getenv("WEFT_MEMORY_LIMIT");
  static const size_t limit = limit_text ? std::strtoull(limit_text, nullptr, 10) : SIZE_MAX;
  const size_t in_use = static_cast<size_t>(live.bytes);
  const size_t left = std::min(bytes < (size_t{64} << 20) ? SIZE_MAX : available_memory() + kept_bytes,
                               limit > in_use ? limit - in_use : 0);
  if (bytes >= left) {
    fail("not enough memory: you tried to allocate ", bytes, " bytes, with ", in_use, " bytes in use by tensors and ",
         left, " bytes left");
  }
}

Storage* storage_allocate(size_t bytes, Device device) {
  if (bytes <= kMostBehind) {
    auto* s = new (block_allocate(block_bytes(bytes))) Storage;
    s->data = reinterpret_cast<char*>(s + 1);
    s->bytes = bytes;
    s->device = device;
    s->placement = kBehind;
    ++live.storages;
    live.bytes += bytes;
    return s;
  }
  char* data;
  uint8_t placement = kMalloc;
  size_t held = bytes;
  if (bytes >= kLargeFrom) {
    data = allocate_large(held);
    placement = kLarge;
  } else {
    held = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    data = static_cast<char*>(std::aligned_alloc(kAlignment, held));
    if (!data) fail(ErrorKind::Runtime, "not enough memory: you tried to allocate ", bytes, " bytes");
  }
  auto* s = new (block_allocate(sizeof(Storage))) Storage;
  s->data = data;
  s->bytes = bytes;
  s->device = device;
  s->placement = placement;
  ++live.storages;
  live.bytes += bytes;
  return s;
}

Storage* storage_adopt(void* data, size_t bytes, void* owner, void (*release_owner)(void*)) {
  auto* s = new (block_allocate(sizeof(Storage))) Storage;
  s->data = static_cast<char*>(data);
  s->bytes = bytes;
  s->owner = owner;
  s->release_owner = release_owner;
  s->exposed = true;
  s->placement = kForeign;
  ++live.storages;
  return s;
}

void storage_destroy(Storage* s) {
  if (s->writer_code) release_code(s->writer_code);
  --live.storages;
  if (s->placement != kForeign) live.bytes -= s->bytes;
  switch (s->placement) {
    case kBehind: return block_release(s, block_bytes(s->bytes));
    case kMalloc: std::free(s->data); break;
    case kLarge: release_large(s->data, rounded_large(s->bytes)); break;
    case kForeign:
      if (s->release_owner) s->release_owner(s->owner);
      break;
  }
  block_release(s, sizeof(Storage));
}

}  // namespace weft
