// An argument that has been parsed but not yet put into an operation's field.
#pragma once

#include <optional>
#include <string>
#include <type_traits>

#include "core/tensor/dims.h"
#include "core/tensor/options.h"
#include "core/tensor/scalar.h"
#include "core/tensor/tensor.h"

namespace weft {

struct Generator;

struct Value {
  enum class Kind : uint8_t { None, Int, Float, Bool, IntList, DType, Device, String, Generator, Options };

  Kind kind = Kind::None;
  union {
    int64_t integer = 0;  // Int, Bool, DType, Device (type * 256 + index), Options (its bytes)
    double floating;
    Generator* generator;
    const char* text;  // String, of `length` bytes
  };
  size_t length;
  Dims list;

  std::string_view string() const { return {text, length}; }
};

inline void read_value(const Value& v, int64_t& field) { field = v.integer; }
inline void read_value(const Value& v, bool& field) { field = v.integer != 0; }
inline void read_value(const Value& v, double& field) {
  field = v.kind == Value::Kind::Float ? v.floating : static_cast<double>(v.integer);
}
inline void read_value(const Value& v, Scalar& field) {
  if (v.kind == Value::Kind::Float) field = Scalar(v.floating);
  else if (v.kind == Value::Kind::Bool) field = Scalar(v.integer != 0);
  else field = Scalar(v.integer);
}
inline void read_value(const Value& v, DType& field) { field = static_cast<DType>(v.integer); }
inline void read_value(const Value& v, Device& field) {
  field = {static_cast<DeviceType>(v.integer / 256), static_cast<int8_t>(v.integer % 256)};
}
inline void read_value(const Value& v, Dims& field) {
  if (v.kind == Value::Kind::Int) field = Dims{v.integer};
  else field = v.list;
}
inline void read_value(const Value& v, std::string& field) { field = v.string(); }
inline void read_value(const Value& v, Generator*& field) {
  field = v.kind == Value::Kind::Generator ? v.generator : nullptr;
}
inline void read_value(const Value& v, CreationOptions& field) {
  std::memcpy(static_cast<void*>(&field), &v.integer, sizeof field);
}
template <class T>
void read_value(const Value& v, std::optional<T>& field) {
  if (v.kind == Value::Kind::None) {
    field.reset();
    return;
  }
  T item{};
  read_value(v, item);
  field = std::move(item);
}

}  // namespace weft
