// A schema, read once into a form that arguments can be matched against quickly.
#pragma once

#include <string>
#include <vector>

#include "bind/object.h"

namespace weft::bind {

enum class ParameterKind : uint8_t {
  Tensor,
  TensorList,
  Int,
  Float,
  Bool,
  Scalar,
  IntList,
  DType,
  Device,
  String,
  Generator,
  MemoryFormat,
  Options,
};

struct Parameter {
  PyObject* name;                   // interned
  PyObject* second_name = nullptr;  // what PyTorch calls it as well: input, axis, keepdims
  std::string text;
  ParameterKind kind;
  bool optional = false;      // None is accepted
  bool takes_number = false;  // Tensor|Scalar
  bool has_default = false;
  bool keyword_only = false;
  Value default_value;
};

struct Signature {
  const OpTable* table;
  uint8_t forms;
  std::vector<Parameter> parameters;
  int positional = 0;  // how many may be given by position
  int required_tensors = 0;
  PyTypeObject* result_type = nullptr;  // named results
  int options = -1;                     // which attribute is the CreationOptions of a creating operation

  explicit Signature(const OpTable* table, uint8_t forms);
  std::string text() const;
};

// The arguments of one call, matched: tensors in order, then the values of the attributes in order.
class Matched {
 public:
  Matched() = default;
  Matched(const Matched&) = delete;
  ~Matched() {
    for (int i = 0; i < attribute_count_; ++i) attributes()[i].~Value();
  }

  std::vector<Tensor> temporaries;
  TensorImpl* few[6];
  std::vector<TensorImpl*> many;
  int tensors = 0;

  Value* attributes() { return reinterpret_cast<Value*>(room_); }
  template <class... From>
  Value& add_attribute(const From&... from) {
    return *new (attributes() + attribute_count_++) Value(from...);
  }

  void push(TensorImpl* t) {
    if (many.empty() && tensors < 6) {
      few[tensors++] = t;
      return;
    }
    if (many.empty()) many.assign(few, few + tensors);
    many.push_back(t);
    ++tensors;
  }
  Inputs inputs() const { return {many.empty() ? few : many.data(), tensors}; }

 private:
  // Made one by one: most operations have fewer than there is room for.
  alignas(Value) char room_[8 * sizeof(Value)];
  int attribute_count_ = 0;
};

// Why a call did not fit; made into text only when it is the only signature or all have failed.
struct Mismatch {
  std::string reason;
  bool wanted = false;  // build the text
};

// Arguments as vectorcall gives them: `count` positional, then the values of `names`.
struct Arguments {
  PyObject* const* items;
  Py_ssize_t count;
  PyObject* names;  // tuple or null
  PyObject* self;   // of a method call, or null
};

// False: does not fit (see mismatch). Throws for values that can never be right (overflow).
bool match(const Signature& signature, const Arguments& arguments, Matched* matched, Mismatch* mismatch);

}  // namespace weft::bind
