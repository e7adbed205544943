// A Python number on its way into an operation: bool, int or float, exactly as it was written.
#pragma once

#include <cstdint>

#include "core/math/dtype.h"

namespace weft {

struct Scalar {
  enum class Kind : uint8_t { Bool, Int, Float };

  Scalar() : integer(0) {}
  Scalar(bool v) : integer(v), kind(Kind::Bool) {}
  Scalar(int v) : integer(v) {}
  Scalar(int64_t v) : integer(v) {}
  Scalar(double v) : floating(v), kind(Kind::Float) {}

  bool is_floating() const { return kind == Kind::Float; }
  double to_double() const { return is_floating() ? floating : static_cast<double>(integer); }
  int64_t to_int() const { return is_floating() ? static_cast<int64_t>(floating) : integer; }
  DType natural_dtype(DType default_float) const {
    return kind == Kind::Bool ? DType::Bool : kind == Kind::Int ? DType::Int64 : default_float;
  }
  friend bool operator==(const Scalar& a, const Scalar& b) {
    return a.kind == b.kind && a.integer == b.integer;  // by bits: -0.0 and 0.0 differ, NaN equals itself
  }

  union {
    int64_t integer;
    double floating;
  };
  Kind kind = Kind::Int;
};

}  // namespace weft
