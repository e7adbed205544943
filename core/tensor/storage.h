// The memory behind tensors. One storage may be seen by many tensors (views); it carries the version
// counter that tells whether a value saved for backward has been overwritten since.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

enum class DeviceType : uint8_t { CPU, CUDA, Meta };

struct Device {
  DeviceType type = DeviceType::CPU;
  int8_t index = 0;
  friend bool operator==(Device, Device) = default;
};

struct Storage {
  uint32_t refs = 1;
  uint32_t version = 0;
  char* data = nullptr;
  size_t bytes = 0;
  // Set when the memory belongs to somebody else (numpy, DLPack, a file): called once at the end.
  void (*release_owner)(void* owner) = nullptr;
  void* owner = nullptr;
  // The line that last wrote in place, for the report on an overwritten saved value. See CallSite.
  void* writer_code = nullptr;
  int32_t writer_instruction = 0;
  Device device{};
  bool exposed = false;     // shown to numpy, DLPack or another process: may change without a version
  bool read_later = false;  // a deferred operation will still read this memory
  uint8_t placement = 0;    // how the memory was obtained; private to storage.cpp
};

// Throws when that much memory is not to be had: the system would promise any amount and later kill the
// process. The environment variable WEFT_MEMORY_LIMIT (bytes, read once) lowers what tensors may use.
void check_memory(size_t bytes);

Storage* storage_allocate(size_t bytes, Device device);
Storage* storage_adopt(void* data, size_t bytes, void* owner, void (*release_owner)(void*));
void storage_destroy(Storage* storage);

inline void retain(Storage* s) { ++s->refs; }
inline void release(Storage* s) {
  if (--s->refs == 0) storage_destroy(s);
}
// Gives up a storage that a tensor has exchanged for another (`x.data = y`, a resized out=). A kernel of
// another thread may be working on it without the lock; it is freed when all that began before are done.
void retire(Storage* s);

}  // namespace weft
