// A short list of integers (sizes, strides, dimensions) that lives in place up to four entries.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>

#include "core/tensor/block.h"

namespace weft {

inline constexpr int kMostDims = 64;

using IntSpan = std::span<const int64_t>;

class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values) { assign(values.begin(), static_cast<int>(values.size())); }
  explicit Dims(IntSpan values) { assign(values.data(), static_cast<int>(values.size())); }
  Dims(const Dims& other) { assign(other.data(), other.size_); }
  Dims(Dims&& other) noexcept { take(other); }
  Dims& operator=(const Dims& other) {
    if (this != &other) {
      release();
      assign(other.data(), other.size_);
    }
    return *this;
  }
  Dims& operator=(Dims&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }
  ~Dims() { release(); }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const int64_t* data() const { return size_ <= kInline ? in_place_ : heap_; }
  int64_t* data() { return size_ <= kInline ? in_place_ : heap_; }
  int64_t operator[](int i) const { return data()[i]; }
  int64_t& operator[](int i) { return data()[i]; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  operator IntSpan() const { return {data(), static_cast<size_t>(size_)}; }

  void push_back(int64_t value) {
    Dims longer;
    longer.resize(size_ + 1);
    std::memcpy(longer.data(), data(), sizeof(int64_t) * size_);
    longer[size_] = value;
    *this = std::move(longer);
  }
  // Contents are not kept.
  void resize(int n) {
    release();
    size_ = n;
    if (n > kInline) heap_ = static_cast<int64_t*>(block_allocate(sizeof(int64_t) * n));
  }

  friend bool operator==(const Dims& a, const Dims& b) {
    return a.size_ == b.size_ && std::memcmp(a.data(), b.data(), sizeof(int64_t) * a.size_) == 0;
  }

 private:
  static constexpr int kInline = 4;

  void assign(const int64_t* values, int n) {
    size_ = n;
    if (n > kInline) heap_ = static_cast<int64_t*>(block_allocate(sizeof(int64_t) * n));
    if (n > 0) std::memcpy(data(), values, sizeof(int64_t) * n);
  }
  void take(Dims& other) {
    size_ = other.size_;
    if (size_ > kInline) heap_ = other.heap_;
    else std::memcpy(in_place_, other.in_place_, sizeof in_place_);
    other.size_ = 0;
  }
  void release() {
    if (size_ > kInline) block_release(heap_, sizeof(int64_t) * size_);
    size_ = 0;
  }

  int size_ = 0;
  union {
    int64_t in_place_[kInline];
    int64_t* heap_;
  };
};

}  // namespace weft
