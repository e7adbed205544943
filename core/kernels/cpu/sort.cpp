#include "core/kernels/cpu/sort.h"

#include "core/kernels/cpu/sort_lines.h"

namespace weft::cpu {

namespace {

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
