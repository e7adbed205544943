// Elements as unsigned keys whose order is the elements' order: a NaN is greater than every number,
// -0 equals 0.
#pragma once

#include <cstdint>

#include "core/math/types.h"

namespace weft::cpu {

template <int bytes> struct KeyOfSize { using type = uint32_t; };
template <> struct KeyOfSize<8> { using type = uint64_t; };

// Key<T>::of maps -0 to the key of 0 and every NaN to the largest key.
template <class T> struct Key {
  using Type = typename KeyOfSize<sizeof(T)>::type;
  static constexpr int kBits = sizeof(T) * 8;
  WEFT_FN static Type of(T x) {
    if constexpr (math::kIsFloat<T>) {
      constexpr Type sign = Type{1} << (kBits - 1);
      const Type bits = math::bits_of(x + T(0));  // -0 + 0 = 0
      const Type ordered = bits & sign ? ~bits : bits | sign;
      return x != x ? ~Type{0} : ordered;
    } else if constexpr (math::kIsBool<T>) {
      return x;
    } else if constexpr (math::kIsSigned<T>) {
      constexpr Type bias = Type{1} << (kBits - 1);
      return (static_cast<Type>(x) + bias) & (~Type{0} >> (sizeof(Type) * 8 - kBits));
    } else {
      return x;
    }
  }
};
template <class T> struct KeyOfShortFloat {
  using Type = uint32_t;
  static constexpr int kBits = 32;
  WEFT_FN static Type of(T x) { return Key<float>::of(math::widen(x)); }
};
template <> struct Key<Half> : KeyOfShortFloat<Half> {};
template <> struct Key<BFloat16> : KeyOfShortFloat<BFloat16> {};

}  // namespace weft::cpu
