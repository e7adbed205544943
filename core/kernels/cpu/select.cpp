// Selecting by rank: the k largest, the k-th, the median.
#include "core/kernels/cpu/isa/select_table.h"
#include "core/kernels/cpu/sort.h"
#include "core/kernels/cpu/sort_lines.h"

namespace weft::cpu {

namespace {

// Lines up to this length are selected from as keys, which stay in the cache.
constexpr int64_t kCachedLine = 1 << 16;

template <class K> struct Ranked {
  K key;
  int64_t below;  // how many keys are smaller
};

// The key of this rank (from 0), found bit by bit from the highest: a bit is set if no more than
// `rank` keys are smaller than what is known so far with that bit. Counting is the fastest that
// vectors can do. As soon as few keys are left in question, only those are looked at.
template <class K> Ranked<K> key_of_rank(const K* keys, int64_t n, int64_t rank, K* spare) {
  const SelectTable& table = select_table();
  constexpr int64_t kFewer = 8;
  const K* from = keys;
  int64_t count = n, dropped = 0;     // the keys that are looked at; those left out that are smaller
  int64_t below = 0, below_next = n;  // keys smaller than `known`; smaller than the end of its range
  K known = 0;
  for (K bit = K{1} << (sizeof(K) * 8 - 1); bit != 0; bit >>= 1) {
    const K middle = known | bit;
    const int64_t below_middle = dropped + table.count_below(from, count, middle);
    if (below_middle <= rank) {
      known = middle;
      below = below_middle;
    } else {
      below_next = below_middle;
    }
    if ((below_next - below) * kFewer > count) continue;
    int64_t kept = 0;
    for (int64_t i = 0; i < count; ++i) {
      spare[kept] = from[i];
      kept += static_cast<K>(from[i] - known) < bit;
    }
    from = spare;
    count = kept;
    dropped = below;
    if (kept == 1) return {spare[0], below};
  }
  return {known, below};
}

// The keys of one line at a time, and room for as many.
template <class K> struct LineKeys {
  SelectTable::ReadKeys read_keys;
  int64_t n;
  std::unique_ptr<K[]> keys, spare;

  LineKeys(DType type, int64_t n)
      : read_keys(select_table().read_keys[static_cast<int>(type)]),
        n(n),
        keys(buffer_of<K>(n)),
        spare(buffer_of<K>(n)) {}

  void read(const Lines<3>& lines, int64_t line, bool descending) {
    read_keys(lines.line(kX, line), lines.step[kX], n, descending, keys.get());
  }
  Ranked<K> ranked(int64_t rank) { return key_of_rank(keys.get(), n, rank, spare.get()); }

  // The place of the element with this rank; of equal ones the earlier has the lower rank.
  int64_t place_of_rank(int64_t rank) {
    const Ranked<K> found = ranked(rank);
    return place_of(found.key, rank - found.below);
  }
  int64_t place_of(K key, int64_t earlier_ones) const {
    for (int64_t i = 0;; ++i) {
      if (keys[i] == key && earlier_ones-- == 0) return i;
    }
  }

  // The entries of the k smallest, in order of their places. There is room for n.
  template <class Entry> void collect_smallest(int64_t k, Entry* entries) {
    const Ranked<K> last = ranked(k - 1);
    int64_t filled = 0;
    for (int64_t i = 0; i < n; ++i) {
      entries[filled] = Entry::make(keys[i], i);
      filled += keys[i] <= last.key;
    }
    if (filled == k) return;
    // Of the last one's equals, only the first.
    int64_t equals = k - last.below;
    for (int64_t i = filled = 0; filled < k; ++i) {
      if (entries[i].key() == last.key && equals-- <= 0) continue;
      entries[filled++] = entries[i];
    }
  }
};

template <class T> void write_place(const Lines<3>& lines, int64_t line, int64_t place) {
  const LongEntry entry = LongEntry::make(0, place);
  write_entries<T>(lines, line, &entry, 1);
}

// The k smallest of a long line without making entries of all of it: candidates that beat the
// worst of the best k so far are collected, and sifted whenever the buffer is full.
template <class T, class Entry>
int64_t candidates_for_smallest(const char* x, int64_t step, int64_t n, int64_t k, bool descending, Entry* entries,
                                int64_t room) {
  using KeyType = typename Key<T>::Type;
  const KeyType flip = descending ? ~KeyType{0} : KeyType{0};
  KeyType bound = ~KeyType{0};
  bool bounded = false;
  int64_t filled = 0;
  for (int64_t i = 0; i < n; ++i, x += step) {
    const KeyType key = Key<T>::of(*reinterpret_cast<const T*>(x)) ^ flip;
    // An equal key comes later, so it does not beat the bound.
    if (bounded && key >= bound) continue;
    entries[filled++] = Entry::make(key, i);
    if (filled == room) {
      std::nth_element(entries, entries + k - 1, entries + filled);
      bound = static_cast<KeyType>(entries[k - 1].key());
      bounded = true;
      filled = k;
    }
  }
  return filled;
}

template <class T> void topk_of_long_lines(int64_t k, int64_t room, bool largest, const Lines<3>& lines) {
  with_entry<T>(lines.length, [&](auto entry) {
    using Entry = decltype(entry);
    for_each_line<Entry>(lines, room, [&](int64_t line, Entry* entries, std::unique_ptr<Entry[]>&) {
      const int64_t filled =
          candidates_for_smallest<T>(lines.line(kX, line), lines.step[kX], lines.length, k, largest, entries, room);
      std::nth_element(entries, entries + (k - 1), entries + filled);
      std::sort(entries, entries + k);
      write_entries<T>(lines, line, entries, k);
    });
  });
}

template <class T> void topk_by_keys(DType type, int64_t k, bool largest, const Lines<3>& lines) {
  const int64_t n = lines.length;
  with_entry<T>(n, [&](auto entry) {
    using Entry = decltype(entry);
    for_line_pieces(lines, [&](int64_t first, int64_t end) {
      LineKeys<typename Key<T>::Type> keys(type, n);
      const auto entries = buffer_of<Entry>(n);
      std::unique_ptr<Entry[]> spare;
      for (int64_t line = first; line < end; ++line) {
        keys.read(lines, line, largest);
        keys.collect_smallest(k, entries.get());
        sort_entries<Entry, kKeyBits<T, Entry>>(entries.get(), k, spare);
        write_entries<T>(lines, line, entries.get(), k);
      }
    });
  });
}

template <class T> void kth_of_type(DType type, int64_t k, const Lines<3>& lines) {
  for_line_pieces(lines, [&](int64_t first, int64_t end) {
    LineKeys<typename Key<T>::Type> keys(type, lines.length);
    for (int64_t line = first; line < end; ++line) {
      keys.read(lines, line, false);
      write_place<T>(lines, line, keys.place_of_rank(k - 1));
    }
  });
}

template <class T> void median_of_type(DType type, bool ignore_nan, const Lines<3>& lines) {
  using K = typename Key<T>::Type;
  constexpr bool has_nan = math::kIsFloat<decltype(math::widen(T{}))>;
  constexpr K nan = ~K{0};
  const int64_t n = lines.length;
  for_line_pieces(lines, [&](int64_t first, int64_t end) {
    LineKeys<K> keys(type, n);
    for (int64_t line = first; line < end; ++line) {
      keys.read(lines, line, false);
      const int64_t numbers = has_nan ? select_table().count_below(keys.keys.get(), n, nan) : n;
      const bool is_nan = numbers < n && (!ignore_nan || numbers == 0);
      write_place<T>(lines, line, is_nan ? keys.place_of(nan, 0) : keys.place_of_rank((numbers - 1) / 2));
    }
  });
}

}  // namespace

void topk(DType type, int64_t k, bool largest, Strided x, Strided values, Strided indices, int dim) {
  if (k == 0) return;
  const Lines<3> lines({&x, &values, &indices}, dim);
  const int64_t room = std::max<int64_t>(4 * k, 1024);
  with_real_type(type, [&](auto element) {
    using T = decltype(element);
    if (lines.length > kCachedLine && lines.length > room) topk_of_long_lines<T>(k, room, largest, lines);
    else topk_by_keys<T>(type, k, largest, lines);
  });
}

void kth_value(DType type, int64_t k, Strided x, Strided values, Strided indices, int dim) {
  const Lines<3> lines({&x, &values, &indices}, dim);
  with_real_type(type, [&](auto element) { kth_of_type<decltype(element)>(type, k, lines); });
}

void median(DType type, bool ignore_nan, Strided x, Strided values, Strided indices, int dim) {
  const Lines<3> lines({&x, &values, &indices}, dim);
  with_real_type(type, [&](auto element) { median_of_type<decltype(element)>(type, ignore_nan, lines); });
}

}  // namespace weft::cpu
