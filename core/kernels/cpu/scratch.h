// Memory that a kernel needs only while it runs, aligned to a cache line.
#pragma once

#include <cstddef>
#include <new>

namespace weft::cpu {

// Grows as needed and keeps what it has: meant to be thread_local or a kernel's own variable.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { ::operator delete(data_, kAlignment); }

  // Contents are not kept.
  char* at_least(size_t bytes) {
    if (bytes > bytes_) {
      ::operator delete(data_, kAlignment);
      data_ = nullptr;
      bytes_ = 0;
      data_ = ::operator new(bytes, kAlignment);
      bytes_ = bytes;
    }
    return static_cast<char*>(data_);
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace weft::cpu
