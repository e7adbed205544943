#include "core/kernels/cpu/rows.h"

#include <algorithm>
#include <numeric>

#include "core/kernels/cpu/indexing_walk.h"
#include "core/math/compare.h"

namespace weft::cpu {

namespace {

template <class T> bool is_nan(T x) {
  const auto wide = math::widen(x);
  return wide != wide;
}

template <class T> bool less(T a, T b) {
  if (is_nan(b)) return !is_nan(a);
  return math::widen(a) < math::widen(b);
}

template <class T> bool row_less(const T* a, const T* b, int64_t width) {
  for (int64_t i = 0; i < width; ++i) {
    if (less(a[i], b[i])) return true;
    if (less(b[i], a[i])) return false;
  }
  return false;
}

template <class T> bool rows_equal(const T* a, const T* b, int64_t width) {
  for (int64_t i = 0; i < width; ++i) {
    if (!(math::widen(a[i]) == math::widen(b[i]))) return false;
  }
  return true;
}

// Calls body with the rows as an array of their type.
template <class Body> void with_rows(DType type, const void* rows, Body&& body) {
  with_dtype(type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!math::kIsComplex<T>) body(static_cast<const T*>(rows));
  });
}

}  // namespace

void order_rows(DType type, const void* rows, int64_t count, int64_t width, int64_t* order) {
  std::iota(order, order + count, int64_t{0});
  with_rows(type, rows, [&](const auto* first) {
    std::stable_sort(order, order + count,
                     [&](int64_t a, int64_t b) { return row_less(first + a * width, first + b * width, width); });
  });
}

int64_t group_rows(DType type, const void* rows, int64_t count, int64_t width, const int64_t* order, int64_t* group) {
  int64_t groups = 0;
  with_rows(type, rows, [&](const auto* first) {
    for (int64_t i = 0; i < count; ++i) {
      const bool same = i > 0 && rows_equal(first + order[i - 1] * width, first + order[i] * width, width);
      groups += !same;
      group[i] = groups - 1;
    }
  });
  return groups;
}

}  // namespace weft::cpu
