// Comparisons, predicates and logic: everything that answers with a bool.
#pragma once

#include "core/math/types.h"

namespace weft::math {

struct Eq {
  template <class T> WEFT_FN bool operator()(T a, T b) const { return a == b; }
};
struct Ne {
  template <class T> WEFT_FN bool operator()(T a, T b) const { return a != b; }
};
struct Lt {
  template <class T> WEFT_FN bool operator()(T a, T b) const { return a < b; }
};
struct Le {
  template <class T> WEFT_FN bool operator()(T a, T b) const { return a <= b; }
};
struct Gt {
  template <class T> WEFT_FN bool operator()(T a, T b) const { return a > b; }
};
struct Ge {
  template <class T> WEFT_FN bool operator()(T a, T b) const { return a >= b; }
};

struct LogicalNot {
  template <class T> WEFT_FN bool operator()(T x) const { return x == T(0); }
};
struct LogicalAnd {
  template <class T> WEFT_FN bool operator()(T a, T b) const { return (a != T(0)) & (b != T(0)); }
};
struct LogicalOr {
  template <class T> WEFT_FN bool operator()(T a, T b) const { return (a != T(0)) | (b != T(0)); }
};
struct LogicalXor {
  template <class T> WEFT_FN bool operator()(T a, T b) const { return (a != T(0)) != (b != T(0)); }
};

struct Isnan {
  template <class T> WEFT_FN bool operator()(T x) const { return is_nan(x); }
};
struct Isinf {
  template <class T> WEFT_FN bool operator()(T x) const {
    if constexpr (kIsFloat<T>) return abs(x) == infinity<T>();
    else return false;
  }
};
struct Isfinite {
  template <class T> WEFT_FN bool operator()(T x) const { return is_finite(x); }
};
struct Isposinf {
  template <class T> WEFT_FN bool operator()(T x) const {
    if constexpr (kIsFloat<T>) return x == infinity<T>();
    else return false;
  }
};
struct Isneginf {
  template <class T> WEFT_FN bool operator()(T x) const {
    if constexpr (kIsFloat<T>) return x == -infinity<T>();
    else return false;
  }
};
struct Signbit {
  template <class T> WEFT_FN bool operator()(T x) const {
    if constexpr (kIsFloat<T>) return signbit(x);
    else return x < T(0);
  }
};

}  // namespace weft::math
