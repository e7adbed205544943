#include "core/kernels/cpu/sort.h"

#include "core/kernels/cpu/lines.h"
#include "core/kernels/cpu/sort_keys.h"
#include "core/kernels/cpu/threads.h"

namespace weft::cpu {

namespace {

constexpr int64_t kPieceElements = 8192;

template <class Visit> void with_real_type(DType type, Visit visit) {
  switch (type) {
    case DType::Bool: return visit(bool{});
    case DType::UInt8: return visit(static_cast<unsigned char>(0));
    case DType::Int8: return visit(static_cast<signed char>(0));
    case DType::Int16: return visit(short{});
    case DType::Int32: return visit(int{});
    case DType::Int64: return visit(Int64{});
    case DType::Float16: return visit(Half{});
    case DType::BFloat16: return visit(BFloat16{});
    case DType::Float32: return visit(float{});
    case DType::Float64: return visit(double{});
    default: return;  // complex numbers have no order
  }
}

// The entry type for lines of n elements of T.
template <class T, class Visit> void with_entry(int64_t n, Visit visit) {
  if constexpr (sizeof(typename Key<T>::Type) == 4) {
    if (n <= ShortEntry::kMaxCount) return visit(ShortEntry{});
  }
  visit(LongEntry{});
}

// One line of x as entries. Descending keys are complemented: equal elements keep their order.
template <class T, class Entry>
void read_entries(const char* x, int64_t step, int64_t n, bool descending, Entry* entries) {
  using KeyType = typename Key<T>::Type;
  const KeyType flip = descending ? ~KeyType{0} : KeyType{0};
  for (int64_t i = 0; i < n; ++i, x += step) {
    entries[i] = Entry::make(Key<T>::of(*reinterpret_cast<const T*>(x)) ^ flip, i);
  }
}

template <class T, class Entry>
constexpr int kKeyBits = sizeof(typename Key<T>::Type) == 4 ? 32 : 64;

enum : int { kX, kValues, kIndices };

// Writes the elements that entries came from, and where they came from.
template <class T, class Entry>
void write_entries(const Lines<3>& lines, int64_t line, const Entry* entries, int64_t n) {
  const char* x = lines.line(kX, line);
  if (lines.data[kValues] != nullptr) {
    char* to = lines.line(kValues, line);
    for (int64_t i = 0; i < n; ++i, to += lines.step[kValues]) {
      *reinterpret_cast<T*>(to) = *reinterpret_cast<const T*>(x + entries[i].place() * lines.step[kX]);
    }
  }
  if (lines.data[kIndices] != nullptr) {
    char* to = lines.line(kIndices, line);
    for (int64_t i = 0; i < n; ++i, to += lines.step[kIndices]) {
      *reinterpret_cast<int64_t*>(to) = entries[i].place();
    }
  }
}

// Calls body(line, buffer for `room` entries, spare buffer) for every line.
template <class Entry, class Body>
void for_each_line(const Lines<3>& lines, int64_t room, Body body) {
  if (lines.count == 0) return;
  const int64_t per_piece = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(1, lines.length));
  parallel((lines.count + per_piece - 1) / per_piece, [&](int64_t piece) {
    constexpr int64_t kOnStack = 256;
    Entry few[kOnStack];
    std::unique_ptr<Entry[]> many, spare;
    if (room > kOnStack) many = buffer_of<Entry>(room);
    Entry* entries = many ? many.get() : few;
    const int64_t end = std::min(lines.count, (piece + 1) * per_piece);
    for (int64_t line = piece * per_piece; line < end; ++line) body(line, entries, spare);
  });
}

// The k smallest of a long line without making entries of all of it: candidates that beat the
// worst of the best k so far are collected, and sifted whenever the buffer is full.
template <class T, class Entry>
int64_t collect_smallest(const char* x, int64_t step, int64_t n, int64_t k, bool descending, Entry* entries,
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

template <class T> void topk_of_type(int64_t k, bool largest, const Lines<3>& lines) {
  with_entry<T>(lines.length, [&](auto entry) {
    using Entry = decltype(entry);
    const int64_t n = lines.length, room = std::min(n, std::max<int64_t>(4 * k, 1024));
    for_each_line<Entry>(lines, room, [&](int64_t line, Entry* entries, std::unique_ptr<Entry[]>&) {
      const char* x = lines.line(kX, line);
      int64_t filled = n;
      if (room < n) {
        filled = collect_smallest<T>(x, lines.step[kX], n, k, largest, entries, room);
      } else {
        read_entries<T>(x, lines.step[kX], n, largest, entries);
      }
      if (k < filled) std::nth_element(entries, entries + k, entries + filled);
      std::sort(entries, entries + k);
      write_entries<T>(lines, line, entries, k);
    });
  });
}

template <class T> bool is_nan_element(T x) { return math::is_nan(math::widen(x)); }

// Writes the element with `rank` (from 0) among the n entries.
template <class T, class Entry>
void write_rank(const Lines<3>& lines, int64_t line, Entry* entries, int64_t n, int64_t rank) {
  std::nth_element(entries, entries + rank, entries + n);
  write_entries<T>(lines, line, entries + rank, 1);
}

template <class T>
void median_of_type(bool ignore_nan, const Lines<3>& lines) {
  with_entry<T>(lines.length, [&](auto entry) {
    using Entry = decltype(entry);
    for_each_line<Entry>(lines, lines.length, [&](int64_t line, Entry* entries, std::unique_ptr<Entry[]>&) {
      const char* x = lines.line(kX, line);
      int64_t n = lines.length, nans = 0, first_nan = 0;
      for (int64_t i = n - 1; i >= 0; --i) {
        if (!is_nan_element(*reinterpret_cast<const T*>(x + i * lines.step[kX]))) continue;
        first_nan = i;
        ++nans;
      }
      if (nans > 0 && (!ignore_nan || nans == n)) {
        entries[0] = Entry::make(0, first_nan);
        return write_entries<T>(lines, line, entries, 1);
      }
      read_entries<T>(x, lines.step[kX], n, false, entries);
      write_rank<T>(lines, line, entries, n,
                    (n - nans - 1) / 2);  // NaNs have the highest ranks
    });
  });
}

template <class T> void mode_of_type(const Lines<3>& lines) {
  with_entry<T>(lines.length, [&](auto entry) {
    using Entry = decltype(entry);
    for_each_line<Entry>(lines, lines.length, [&](int64_t line, Entry* entries, std::unique_ptr<Entry[]>& spare) {
      const int64_t n = lines.length;
      read_entries<T>(lines.line(kX, line), lines.step[kX], n, false, entries);
      sort_entries<Entry, kKeyBits<T, Entry>>(entries, n, spare);
      int64_t best = 0, best_length = 0, begin = 0;
      for (int64_t i = 1; i <= n; ++i) {
        if (i < n && entries[i].key() == entries[begin].key()) continue;
        if (i - begin > best_length) {
          best_length = i - begin;
          best = i - 1;
        }
        begin = i;
      }
      write_entries<T>(lines, line, entries + best, 1);
    });
  });
}

}  // namespace

void sort(DType type, bool descending, Strided x, Strided values, Strided indices, int dim) {
  const Lines<3> lines({&x, &values, &indices}, dim);
  with_real_type(type, [&](auto element) {
    using T = decltype(element);
    with_entry<T>(lines.length, [&](auto entry) {
      using Entry = decltype(entry);
      for_each_line<Entry>(lines, lines.length, [&](int64_t line, Entry* entries, std::unique_ptr<Entry[]>& spare) {
        read_entries<T>(lines.line(kX, line), lines.step[kX], lines.length, descending, entries);
        sort_entries<Entry, kKeyBits<T, Entry>>(entries, lines.length, spare);
        write_entries<T>(lines, line, entries, lines.length);
      });
    });
  });
}

void topk(DType type, int64_t k, bool largest, Strided x, Strided values, Strided indices, int dim) {
  if (k == 0) return;
  const Lines<3> lines({&x, &values, &indices}, dim);
  with_real_type(type, [&](auto element) { topk_of_type<decltype(element)>(k, largest, lines); });
}

void kth_value(DType type, int64_t k, Strided x, Strided values, Strided indices, int dim) {
  const Lines<3> lines({&x, &values, &indices}, dim);
  with_real_type(type, [&](auto element) {
    using T = decltype(element);
    with_entry<T>(lines.length, [&](auto entry) {
      using Entry = decltype(entry);
      for_each_line<Entry>(lines, lines.length, [&](int64_t line, Entry* entries, std::unique_ptr<Entry[]>&) {
        read_entries<T>(lines.line(kX, line), lines.step[kX], lines.length, false, entries);
        write_rank<T>(lines, line, entries, lines.length, k - 1);
      });
    });
  });
}

void median(DType type, bool ignore_nan, Strided x, Strided values, Strided indices, int dim) {
  const Lines<3> lines({&x, &values, &indices}, dim);
  with_real_type(type, [&](auto element) { median_of_type<decltype(element)>(ignore_nan, lines); });
}

void mode(DType type, Strided x, Strided values, Strided indices, int dim) {
  const Lines<3> lines({&x, &values, &indices}, dim);
  with_real_type(type, [&](auto element) { mode_of_type<decltype(element)>(lines); });
}

int64_t unique(DType type, const void* x, int64_t n, void* values, int64_t* inverse, int64_t* counts) {
  int64_t distinct = 0;
  with_real_type(type, [&](auto element) {
    using T = decltype(element);
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(values);
    with_entry<T>(n, [&](auto entry) {
      using Entry = decltype(entry);
      const auto entries = buffer_of<Entry>(n);
      std::unique_ptr<Entry[]> spare;
      read_entries<T>(static_cast<const char*>(x), sizeof(T), n, false, entries.get());
      sort_entries<Entry, kKeyBits<T, Entry>>(entries.get(), n, spare);
      for (int64_t i = 0; i < n; ++i) {
        const T value = from[entries[i].place()];
        const bool is_new = i == 0 || entries[i].key() != entries[i - 1].key() || is_nan_element(value);
        if (is_new) {
          if (counts) counts[distinct] = 0;
          to[distinct++] = value;
        }
        if (counts) ++counts[distinct - 1];
        if (inverse) inverse[entries[i].place()] = distinct - 1;
      }
    });
  });
  return distinct;
}

int64_t unique_consecutive(DType type, const void* x, int64_t n, void* values, int64_t* inverse, int64_t* counts) {
  int64_t distinct = 0;
  with_real_type(type, [&](auto element) {
    using T = decltype(element);
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(values);
    for (int64_t i = 0; i < n; ++i) {
      if (i == 0 || math::widen(from[i]) != math::widen(from[i - 1])) {
        if (counts) counts[distinct] = 0;
        to[distinct++] = from[i];
      }
      if (counts) ++counts[distinct - 1];
      if (inverse) inverse[i] = distinct - 1;
    }
  });
  return distinct;
}

void argsort_keys(const uint64_t* keys, int64_t n, int64_t* order) {
  // The high halves settle nearly everything; the rest is put right among their equals.
  if (n > ShortEntry::kMaxCount) {
    const auto entries = buffer_of<LongEntry>(n);
    for (int64_t i = 0; i < n; ++i) entries[i] = LongEntry::make(keys[i], i);
    std::sort(entries.get(), entries.get() + n);
    for (int64_t i = 0; i < n; ++i) order[i] = entries[i].place();
    return;
  }
  const auto entries = buffer_of<ShortEntry>(n);
  std::unique_ptr<ShortEntry[]> spare;
  for (int64_t i = 0; i < n; ++i) entries[i] = ShortEntry::make(static_cast<uint32_t>(keys[i] >> 32), i);
  sort_entries<ShortEntry, 32>(entries.get(), n, spare);
  for (int64_t begin = 0; begin < n;) {
    int64_t end = begin + 1;
    while (end < n && entries[end].key() == entries[begin].key()) ++end;
    if (end - begin > 1) {
      std::stable_sort(entries.get() + begin, entries.get() + end,
                       [&](ShortEntry a, ShortEntry b) { return keys[a.place()] < keys[b.place()]; });
    }
    begin = end;
  }
  for (int64_t i = 0; i < n; ++i) order[i] = entries[i].place();
}

}  // namespace weft::cpu
