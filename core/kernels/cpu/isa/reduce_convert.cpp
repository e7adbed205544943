#include "core/kernels/cpu/isa/reduce_convert.h"

#include "core/math/types.h"

namespace weft::cpu::WEFT_ISA {
namespace {

template <class From, class To> void load(const char* x, int64_t stride, int64_t n, void* out) {
  To* __restrict__ to = static_cast<To*>(out);
  if (stride == sizeof(From)) {
    const From* __restrict__ from = reinterpret_cast<const From*>(x);
    for (int64_t i = 0; i < n; ++i) to[i] = math::cast<To>(from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i, x += stride) { to[i] = math::cast<To>(*reinterpret_cast<const From*>(x)); }
  }
}

template <class From> void nonzero(const char* x, int64_t stride, int64_t n, void* out) {
  int* __restrict__ to = static_cast<int*>(out);
  if (stride == sizeof(From)) {
    const From* __restrict__ from = reinterpret_cast<const From*>(x);
    for (int64_t i = 0; i < n; ++i) to[i] = math::cast<bool>(from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i, x += stride) { to[i] = math::cast<bool>(*reinterpret_cast<const From*>(x)); }
  }
}

template <class From, class To> void store(const void* x, int64_t n, char* out, int64_t stride) {
  const From* __restrict__ from = static_cast<const From*>(x);
  if (stride == sizeof(To)) {
    To* __restrict__ to = reinterpret_cast<To*>(out);
    for (int64_t i = 0; i < n; ++i) to[i] = math::cast<To>(from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i, out += stride) { *reinterpret_cast<To*>(out) = math::cast<To>(from[i]); }
  }
}

template <Compute compute, class C> struct Conversions {
  template <int t = 0> static void set(ConvertTable& table) {
    using T = typename TypeOf<static_cast<DType>(t)>::type;
    constexpr int c = static_cast<int>(compute);
    table.load[t][c] = load<T, C>;
    table.store[c][t] = store<C, T>;
    table.nonzero[t] = nonzero<T>;
    if constexpr (t + 1 < kDTypes) set<t + 1>(table);
  }
};

ConvertTable make_table() {
  ConvertTable table;
  Conversions<Compute::Float32, float>::set(table);
  Conversions<Compute::Float64, double>::set(table);
  Conversions<Compute::Int32, int>::set(table);
  Conversions<Compute::Int64, Int64>::set(table);
  Conversions<Compute::Complex64, Complex64>::set(table);
  Conversions<Compute::Complex128, Complex128>::set(table);
  return table;
}

}  // namespace

const ConvertTable& convert_table() {
  static const ConvertTable table = make_table();
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
