// Walks the fields of a plain aggregate. Equality, hash, printing and the building of an operation from
// parsed arguments all derive from this one walk; none of them is ever written by hand.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "core/tensor/dims.h"
#include "core/tensor/options.h"
#include "core/tensor/scalar.h"
#include "core/tensor/tensor.h"

namespace weft {

struct AnyField {
  template <class T>
  operator T() const;
};

template <class T, size_t... I>
constexpr bool can_initialise(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyField{})...}; };
}

template <class T, size_t N = 8>
constexpr size_t field_count() {
  if constexpr (N == 0) return 0;
  else if constexpr (can_initialise<T>(std::make_index_sequence<N>())) return N;
  else return field_count<T, N - 1>();
}

// visit(field...) in order of declaration.
template <class T, class Visit>
decltype(auto) with_fields(T& object, Visit&& visit) {
  constexpr size_t n = field_count<std::remove_const_t<T>>();
  if constexpr (n == 0) return visit();
  else if constexpr (n == 1) {
    auto& [a] = object;
    return visit(a);
  } else if constexpr (n == 2) {
    auto& [a, b] = object;
    return visit(a, b);
  } else if constexpr (n == 3) {
    auto& [a, b, c] = object;
    return visit(a, b, c);
  } else if constexpr (n == 4) {
    auto& [a, b, c, d] = object;
    return visit(a, b, c, d);
  } else if constexpr (n == 5) {
    auto& [a, b, c, d, e] = object;
    return visit(a, b, c, d, e);
  } else if constexpr (n == 6) {
    auto& [a, b, c, d, e, f] = object;
    return visit(a, b, c, d, e, f);
  } else if constexpr (n == 7) {
    auto& [a, b, c, d, e, f, g] = object;
    return visit(a, b, c, d, e, f, g);
  } else {
    auto& [a, b, c, d, e, f, g, h] = object;
    return visit(a, b, c, d, e, f, g, h);
  }
}

// Equality by bits, so that a NaN attribute equals itself and -0.0 differs from 0.0.
template <class T>
bool field_equal(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) return std::memcmp(&a, &b, sizeof(T)) == 0;
  else return a == b;
}
template <class T>
bool field_equal(const std::optional<T>& a, const std::optional<T>& b) {
  return a.has_value() == b.has_value() && (!a || field_equal(*a, *b));
}
inline bool field_equal(const Tensor& a, const Tensor& b) { return a.get() == b.get(); }

inline uint64_t mix(uint64_t seed, uint64_t value) {
  seed ^= value + 0x9e3779b97f4a7c15u + (seed << 6) + (seed >> 2);
  return seed * 0xff51afd7ed558ccdu;
}
template <class T>
uint64_t field_hash(const T& v) {
  if constexpr (std::is_floating_point_v<T>) {
    uint64_t bits = 0;
    std::memcpy(&bits, &v, sizeof v);
    return bits;
  } else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) return static_cast<uint64_t>(v);
  else if constexpr (std::is_same_v<T, Scalar>) return mix(static_cast<uint64_t>(v.kind), v.integer);
  else if constexpr (std::is_same_v<T, Device>) return static_cast<uint64_t>(v.type) * 256 + v.index;
  else if constexpr (std::is_same_v<T, Tensor>) return reinterpret_cast<uint64_t>(v.get());
  else if constexpr (std::is_same_v<T, CreationOptions>) {
    uint64_t bits = 0;
    std::memcpy(&bits, &v, sizeof v);
    return bits;
  } else if constexpr (std::is_pointer_v<T>) return reinterpret_cast<uint64_t>(v);
  else {
    uint64_t h = 0;
    for (const auto& item : v) h = mix(h, field_hash(item));
    return h;
  }
}
template <class T>
uint64_t field_hash(const std::optional<T>& v) {
  return v ? mix(1, field_hash(*v)) : 0;
}

// As Python writes it: the shortest text that reads back as the same number.
inline std::string number_text(double v) {
  char room[32];
  std::string text(room, std::to_chars(room, room + sizeof room, v).ptr);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

template <class T>
std::string field_text(const T& v) {
  if constexpr (std::is_same_v<T, bool>) return v ? "True" : "False";
  else if constexpr (std::is_same_v<T, DType>) return dtype_name(v);
  else if constexpr (std::is_enum_v<T>) return std::to_string(static_cast<int>(v));
  else if constexpr (std::is_floating_point_v<T>) return number_text(v);
  else if constexpr (std::is_arithmetic_v<T>) return std::to_string(v);
  else if constexpr (std::is_same_v<T, Scalar>)
    return v.is_floating() ? number_text(v.floating) : std::to_string(v.integer);
  else if constexpr (std::is_same_v<T, Device>) return device_name(v);
  else if constexpr (std::is_same_v<T, Dims>) return shape_text(v);
  else if constexpr (std::is_same_v<T, std::string>) return v;
  else if constexpr (std::is_same_v<T, CreationOptions>)
    return v.has_dtype ? std::string("dtype=") + dtype_name(v.dtype) : "";
  else return "...";
}
template <class T>
std::string field_text(const std::optional<T>& v) {
  return v ? field_text(*v) : "None";
}

template <class Op>
bool fields_equal(const void* a, const void* b) {
  return with_fields(*static_cast<const Op*>(a), [&](const auto&... x) {
    return with_fields(*static_cast<const Op*>(b),
                       [&](const auto&... y) { return (field_equal(x, y) && ... && true); });
  });
}
template <class Op>
uint64_t fields_hash(const void* op) {
  return with_fields(*static_cast<const Op*>(op), [](const auto&... x) {
    uint64_t h = 0;
    ((h = mix(h, field_hash(x))), ...);
    return h;
  });
}
template <class Op>
std::string fields_text(const void* op) {
  return with_fields(*static_cast<const Op*>(op), [](const auto&... x) {
    std::string text;
    ((text += (text.empty() ? "" : ", ") + field_text(x)), ...);
    return text;
  });
}

}  // namespace weft
