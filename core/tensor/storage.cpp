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

// Small data lives right behind its storage, in one block. Middle sizes come from malloc and are kept in
// lists by size. Large ones are kept for a while after use: fresh pages from the system cost more than most
// kernels that fill them.
enum Placement : uint8_t { kBehind, kMiddle, kLarge, kForeign };

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

constexpr size_t kHugePage = size_t{2} << 20;

// Fresh pages from the system. From two huge pages on it is asked for those, and the range begins at one:
// a kernel that streams over small pages spends a good part of its time looking pages up.
void* map_pages(size_t bytes) {
  const bool huge = bytes >= 2 * kHugePage;
  const size_t mapped = huge ? bytes + kHugePage : bytes;
  void* start = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED || !huge) return start;
  const auto address = reinterpret_cast<uintptr_t>(start);
  const uintptr_t aligned = (address + kHugePage - 1) / kHugePage * kHugePage;
  if (aligned > address) munmap(start, aligned - address);
  if (const size_t rest = address + kHugePage - aligned; rest > 0)
    munmap(reinterpret_cast<char*>(aligned) + bytes, rest);
  madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);  // where the system has none, nothing is lost
  return reinterpret_cast<void*>(aligned);
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
  void* data = map_pages(bytes);
  if (data == MAP_FAILED) {
    for (KeptRange& range : kept) munmap(range.data, range.bytes);
    kept.clear();
    kept_bytes = 0;
    data = map_pages(bytes);
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

// Sizes in steps of about an eighth, so that little is wasted and few lists are needed.
struct MiddleSize {
  size_t bytes;
  int list;
};
constexpr int kMiddleLists = 48;

MiddleSize middle_size(size_t bytes) {
  struct Range { size_t most, step; };
  constexpr Range ranges[] = {
      {size_t{4} << 10, 256}, {size_t{32} << 10, size_t{2} << 10}, {kLargeFrom, size_t{16} << 10}};
  int list = 0;
  for (const Range& range : ranges) {
    const size_t steps = (bytes + range.step - 1) / range.step;
    if (steps * range.step <= range.most) return {steps * range.step, list + static_cast<int>(steps) - 1};
    list += static_cast<int>(range.most / range.step);
  }
  __builtin_unreachable();
}

FreeList middle_lists[kMiddleLists];
constexpr size_t kMostKeptOfOneSize = size_t{1} << 20;

char* allocate_middle(size_t bytes) {
  const MiddleSize size = middle_size(bytes);
  FreeList& list = middle_lists[size.list];
  if (void* data = list.head) {
    list.head = *static_cast<void**>(data);
    --list.count;
    return static_cast<char*>(data);
  }
  auto* data = static_cast<char*>(std::aligned_alloc(kAlignment, size.bytes));
  if (!data) fail(ErrorKind::Runtime, "not enough memory: you tried to allocate ", bytes, " bytes");
  return data;
}

void release_middle(char* data, [[maybe_unused]] size_t bytes) {
#if !defined(WEFT_SANITIZE)
  const MiddleSize size = middle_size(bytes);
  FreeList& list = middle_lists[size.list];
  if (list.count * size.bytes < kMostKeptOfOneSize) {
    *reinterpret_cast<void**>(data) = list.head;
    list.head = data;
    ++list.count;
    return;
  }
#endif
  std::free(data);
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
  const uint8_t placement = bytes >= kLargeFrom ? kLarge : kMiddle;
  size_t held = bytes;
  char* data = placement == kLarge ? allocate_large(held) : allocate_middle(bytes);
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
    case kMiddle: release_middle(s->data, s->bytes); break;
    case kLarge: release_large(s->data, rounded_large(s->bytes)); break;
    case kForeign:
      if (s->release_owner) s->release_owner(s->owner);
      break;
  }
  block_release(s, sizeof(Storage));
}

namespace {

uint64_t last_ticket = 0;
std::vector<uint64_t> running_kernels;               // tickets, in the order of their beginning
std::vector<std::pair<uint64_t, Storage*>> retired;  // with the last ticket given out before

}  // namespace

uint64_t kernel_begins() {
  running_kernels.push_back(++last_ticket);
  return last_ticket;
}

void kernel_ended(uint64_t ticket) {
  std::erase(running_kernels, ticket);
  if (retired.empty()) return;
  const uint64_t oldest = running_kernels.empty() ? last_ticket + 1 : running_kernels.front();
  std::vector<Storage*> unused;
  std::erase_if(retired, [&](const auto& entry) {
    if (entry.first >= oldest) return false;
    unused.push_back(entry.second);
    return true;
  });
  for (Storage* s : unused) release(s);
}

void retire(Storage* s) {
  if (running_kernels.empty()) release(s);
  else retired.emplace_back(last_ticket, s);
}

}  // namespace weft
