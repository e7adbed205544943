// Sorting of keys (see order_keys.h) that remember where they came from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "core/kernels/cpu/order_keys.h"

namespace weft::cpu {

// ---- entries: a key and the place it came from --------------------------------------------------

// Short keys and places share a word, which makes all entries different and comparing cheap.
struct ShortEntry {
  uint64_t word;
  static constexpr int64_t kMaxCount = int64_t{1} << 32;
  static ShortEntry make(uint32_t key, int64_t place) {
    return {static_cast<uint64_t>(key) << 32 | static_cast<uint64_t>(place)};
  }
  uint32_t key() const { return static_cast<uint32_t>(word >> 32); }
  int64_t place() const { return static_cast<int64_t>(word & 0xffffffffu); }
  friend bool operator<(ShortEntry a, ShortEntry b) { return a.word < b.word; }
};

struct LongEntry {
  uint64_t word;
  int64_t at;
  static LongEntry make(uint64_t key, int64_t place) { return {key, place}; }
  uint64_t key() const { return word; }
  int64_t place() const { return at; }
  friend bool operator<(const LongEntry& a, const LongEntry& b) {
    return a.word < b.word || (a.word == b.word && a.at < b.at);
  }
};

// A buffer that is not initialised.
template <class T> std::unique_ptr<T[]> buffer_of(int64_t n) {
  return std::unique_ptr<T[]>(new T[static_cast<size_t>(n)]);
}

// Sorts entries that are in order of their places, by key, keeping that order among equals: least
// significant digit first, a byte at a time; bytes that are the same in all keys are skipped.
template <class Entry, int key_bits> void radix_sort(Entry* entries, Entry* spare, int64_t n) {
  constexpr int kDigit = 8, kBuckets = 1 << kDigit, kDigits = key_bits / kDigit;
  int64_t counts[kDigits][kBuckets] = {};
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t key = entries[i].key();
    for (int d = 0; d < kDigits; ++d) ++counts[d][key >> (d * kDigit) & (kBuckets - 1)];
  }
  Entry *from = entries, *to = spare;
  for (int d = 0; d < kDigits; ++d) {
    int64_t* place = counts[d];
    const auto digit = [d](const Entry& e) { return static_cast<uint64_t>(e.key()) >> (d * kDigit) & (kBuckets - 1); };
    if (place[digit(from[0])] == n) continue;
    int64_t sum = 0;
    for (int b = 0; b < kBuckets; ++b) {
      const int64_t count = place[b];
      place[b] = sum;
      sum += count;
    }
    for (int64_t i = 0; i < n; ++i) to[place[digit(from[i])]++] = from[i];
    std::swap(from, to);
  }
  if (from != entries) std::memcpy(entries, from, sizeof(Entry) * static_cast<size_t>(n));
}

// Below this many entries comparing is faster than counting digits (measured).
template <int key_bits> inline constexpr int64_t kRadixFrom = key_bits == 32 ? 40 : 100;

// Sorts entries that are in order of their places. `spare` is made when it is first needed.
template <class Entry, int key_bits>
void sort_entries(Entry* entries, int64_t n, std::unique_ptr<Entry[]>& spare) {
  if (n < kRadixFrom<key_bits>) return std::sort(entries, entries + n);
  if (!spare) spare = buffer_of<Entry>(n);
  radix_sort<Entry, key_bits>(entries, spare.get(), n);
}

}  // namespace weft::cpu
