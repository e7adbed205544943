#include "core/kernels/cpu/isa/indexing_table.h"

namespace weft::cpu::WEFT_ISA {
namespace {

// One of index - lowest and end - 1 - index is negative where an index is outside, and sign bits
// gather without a branch. (Near the ends of int64 one of the two may wrap around, never both.)
bool all_within(const int64_t* index, int64_t n, int64_t lowest, int64_t end) {
  const auto low = static_cast<uint64_t>(lowest), last = static_cast<uint64_t>(end) - 1;
  uint64_t signs = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto v = static_cast<uint64_t>(index[i]);
    signs |= (v - low) | (last - v);
  }
  return static_cast<int64_t>(signs) >= 0;
}

template <class T> void add_to(T* __restrict__ to, const T* __restrict__ from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

}  // namespace

const IndexingTable& indexing_table() {
  static const IndexingTable table = {all_within, add_to<float>, add_to<double>};
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
