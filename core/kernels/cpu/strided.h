// A view of raw memory: what every kernel that takes any layout is given.
#pragma once

#include <cstdint>

namespace weft::cpu {

struct Strided {
  char* data;
  int ndim;
  const int64_t* sizes;
  const int64_t* strides;  // in bytes, of any sign
};

inline constexpr int kMaxDims = 64;

}  // namespace weft::cpu
