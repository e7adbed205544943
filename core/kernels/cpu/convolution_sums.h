// Partial sums of the weights' gradient: see Note [How a convolution is cut] in convolution.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/kernels/cpu/threads.h"

namespace weft::cpu {

template <class T> void add_lines(T* sums, const T* more, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) sums[i] += more[i];
}

// The first of `parts` lines of `size` elements becomes the sum of all: part p meets part p + 1, then pairs
// meet pairs, and so on.
template <class T> void add_parts(T* sums, int64_t size, int64_t parts) {
  constexpr int64_t kPieceElements = 16384;
  parallel((size + kPieceElements - 1) / kPieceElements, [&](int64_t piece) {
    const int64_t begin = piece * kPieceElements, end = std::min(size, begin + kPieceElements);
    for (int64_t apart = 1; apart < parts; apart *= 2) {
      for (int64_t part = 0; part + apart < parts; part += 2 * apart) {
        add_lines(sums + part * size, sums + (part + apart) * size, begin, end);
      }
    }
  });
}

}  // namespace weft::cpu
