#include "core/kernels/cpu/isa/select_table.h"
#include "core/kernels/cpu/order_keys.h"

namespace weft::cpu::WEFT_ISA {
namespace {

template <class T> void read_keys(const char* x, int64_t step, int64_t n, bool descending, void* keys) {
  using KeyType = typename Key<T>::Type;
  const KeyType flip = descending ? ~KeyType{0} : KeyType{0};
  KeyType* __restrict__ to = static_cast<KeyType*>(keys);
  if (step == sizeof(T)) {
    const T* __restrict__ from = reinterpret_cast<const T*>(x);
    for (int64_t i = 0; i < n; ++i) to[i] = Key<T>::of(from[i]) ^ flip;
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = Key<T>::of(*reinterpret_cast<const T*>(x + i * step)) ^ flip;
  }
}

template <class K> int64_t count_below(const K* keys, int64_t n, K bound) {
  constexpr int64_t kBlock = int64_t{1} << 30;  // counters as wide as the keys fill vectors alike
  int64_t total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = n - begin < kBlock ? n : begin + kBlock;
    K count = 0;
    for (int64_t i = begin; i < end; ++i) count += keys[i] < bound;
    total += static_cast<int64_t>(count);
  }
  return total;
}

template <int t = 0> void set_readers(SelectTable& table) {
  using T = typename TypeOf<static_cast<DType>(t)>::type;
  if constexpr (!is_complex(static_cast<DType>(t))) table.read_keys[t] = read_keys<T>;
  if constexpr (t + 1 < kDTypes) set_readers<t + 1>(table);
}

SelectTable make_table() {
  SelectTable table = {};
  set_readers(table);
  table.count_below_32 = count_below<uint32_t>;
  table.count_below_64 = count_below<uint64_t>;
  return table;
}

}  // namespace

const SelectTable& select_table() {
  static const SelectTable table = make_table();
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
