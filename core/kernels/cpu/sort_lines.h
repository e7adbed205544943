// Lines of elements as entries to be sorted, and back: what sorting and selecting share.
#pragma once

#include "core/kernels/cpu/lines.h"
#include "core/kernels/cpu/sort_keys.h"
#include "core/kernels/cpu/threads.h"
#include "core/math/dtype.h"

namespace weft::cpu {

inline constexpr int64_t kSortPiece = 8192;  // elements of work below which another thread does not pay

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
inline constexpr int kKeyBits = sizeof(typename Key<T>::Type) == 4 ? 32 : 64;

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

// Calls body(first, end) for the lines of every piece of work.
template <class Body> void for_line_pieces(const Lines<3>& lines, Body body) {
  if (lines.count == 0) return;
  const int64_t per_piece = std::max<int64_t>(1, kSortPiece / std::max<int64_t>(1, lines.length));
  parallel((lines.count + per_piece - 1) / per_piece,
           [&](int64_t piece) { body(piece * per_piece, std::min(lines.count, (piece + 1) * per_piece)); });
}

// Calls body(line, buffer for `room` entries, spare buffer) for every line.
template <class Entry, class Body>
void for_each_line(const Lines<3>& lines, int64_t room, Body body) {
  for_line_pieces(lines, [&](int64_t first, int64_t end) {
    constexpr int64_t kOnStack = 256;
    Entry few[kOnStack];
    std::unique_ptr<Entry[]> many, spare;
    if (room > kOnStack) many = buffer_of<Entry>(room);
    Entry* entries = many ? many.get() : few;
    for (int64_t line = first; line < end; ++line) body(line, entries, spare);
  });
}

template <class T> bool is_nan_element(T x) { return math::is_nan(math::widen(x)); }

}  // namespace weft::cpu
