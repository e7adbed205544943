// Transposing images between planar and channels-last order.
#include "core/kernels/cpu/isa/spatial_table.h"

#include "core/kernels/cpu/gemm_vector.h"

namespace weft::cpu::WEFT_ISA {

namespace {

template <int... lanes> struct Lanes {};
template <int n, int... lanes> struct LanesUpTo : LanesUpTo<n - 1, n - 1, lanes...> {};
template <int... lanes> struct LanesUpTo<0, lanes...> { using type = Lanes<lanes...>; };

// Of two lines `step` apart, the squares of `step` elements off the diagonal change places.
template <int step, class V, int... lane> WEFT_INLINE void exchange(V& a, V& b, Lanes<lane...>) {
  constexpr int count = sizeof...(lane);
  const V first = __builtin_shufflevector(a, b, ((lane & step) != 0 ? count + lane - step : lane)...);
  b = __builtin_shufflevector(a, b, ((lane & step) != 0 ? count + lane : lane + step)...);
  a = first;
}

template <int step, class V, int lanes> WEFT_INLINE void exchange_all(V (&line)[lanes]) {
  if constexpr (step < lanes) {
    for (int i = 0; i < lanes; ++i) {
      if ((i & step) == 0) exchange<step>(line[i], line[i + step], typename LanesUpTo<lanes>::type{});
    }
    exchange_all<2 * step>(line);
  }
}

WEFT_INLINE void transpose_square(const float* from, int64_t from_line, float* to, int64_t to_line) {
  constexpr int lanes = kLanes<float>;
  using V = Vector<float, lanes>;
  V line[lanes];
  for (int i = 0; i < lanes; ++i) line[i] = load<V>(from + i * from_line);
  exchange_all<1>(line);
  for (int i = 0; i < lanes; ++i) store(to + i * to_line, line[i]);
}

void transpose_plainly(const float* from, int64_t from_line, int64_t lines, int64_t length, float* to,
                       int64_t to_line) {
  for (int64_t j = 0; j < length; ++j) {
    for (int64_t i = 0; i < lines; ++i) to[j * to_line + i] = from[i * from_line + j];
  }
}

// Fewer lines than a square has: as if there were more. What is stored too much lies in lines that are stored
// later; the last ones are left.
int64_t transpose_few_lines(const float* from, int64_t from_line, int64_t lines, int64_t length, float* to,
                            int64_t to_line) {
  constexpr int square = kLanes<float>;
  using V = Vector<float, square>;
  int64_t j = 0;
  for (; j + 2 * square <= length; j += square) {
    V line[square];
    for (int i = 0; i < square; ++i) line[i] = load<V>(from + (i < lines ? i : 0) * from_line + j);
    exchange_all<1>(line);
    for (int i = 0; i < square; ++i) store(to + (j + i) * to_line, line[i]);
  }
  return j;
}

// Lines shorter than a square: what is loaded too much lies in the lines behind; the last ones are left.
int64_t transpose_short_lines(const float* from, int64_t from_line, int64_t lines, int64_t length, float* to,
                              int64_t to_line) {
  constexpr int square = kLanes<float>;
  using V = Vector<float, square>;
  int64_t i = 0;
  for (; i + 2 * square <= lines; i += square) {
    V line[square];
    for (int k = 0; k < square; ++k) line[k] = load<V>(from + (i + k) * from_line);
    exchange_all<1>(line);
    for (int k = 0; k < length; ++k) store(to + k * to_line + i, line[k]);
  }
  return i;
}

void transpose(const float* from, int64_t from_line, int64_t lines, int64_t length, float* to, int64_t to_line) {
  constexpr int square = kLanes<float>;
  if (lines < square && to_line == lines) {
    const int64_t done = transpose_few_lines(from, from_line, lines, length, to, to_line);
    return transpose_plainly(from + done, from_line, lines, length - done, to + done * to_line, to_line);
  }
  if (length < square && from_line == length) {
    const int64_t done = transpose_short_lines(from, from_line, lines, length, to, to_line);
    return transpose_plainly(from + done * from_line, from_line, lines - done, length, to + done, to_line);
  }
  const int64_t whole_lines = lines / square * square, whole_length = length / square * square;
  for (int64_t j = 0; j < whole_length; j += square) {
    for (int64_t i = 0; i < whole_lines; i += square) {
      transpose_square(from + i * from_line + j, from_line, to + j * to_line + i, to_line);
    }
    transpose_plainly(from + whole_lines * from_line + j, from_line, lines - whole_lines, square,
                      to + j * to_line + whole_lines, to_line);
  }
  transpose_plainly(from + whole_length, from_line, lines, length - whole_length, to + whole_length * to_line, to_line);
}

}  // namespace

const SpatialTable& spatial_table() {
  static const SpatialTable table{transpose};
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
