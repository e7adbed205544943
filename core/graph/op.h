// What an operation is. See Note [An operation is one struct].
//
// Note [An operation is one struct]
// An operation is a plain aggregate. Its fields are its attributes; its static members are its rules:
//
//   struct Mul {
//     static constexpr Schema schema{"mul(Tensor self, Tensor other) -> Tensor"};
//     static constexpr Pointwise pointwise{Elementwise::mul};        // or infer() and run() of its own
//     static constexpr Saves saves{{input(1), input(0)}};            // to differentiate 0, keep 1; ...
//     static void vjp(Backward& b) { ... }
//   };
//   WEFT_OP(Mul);
//
// `infer` is the contract: it sees the shape, dtype and device of every argument, and either fills in
// those of the results or throws. Nothing else leads to `run`, so a kernel may assume what its contract
// states. make_table() turns the struct into one constant OpTable; a rule that is missing is a visible
// null. Node (core/graph/node.h) holds the fields by value.
#pragma once

#include <new>
#include <span>
#include <vector>

#include "core/graph/fields.h"
#include "core/graph/schema.h"
#include "core/graph/value.h"
#include "core/math/list.h"
#include "core/tensor/tensor.h"

namespace weft {

struct Node;
class Backward;
struct OpTable;

// The tensors an operation is given. An optional tensor that was left out is a null handle.
class Inputs {
 public:
  Inputs(TensorImpl* const* items, int count) : items_(items), count_(count) {}
  int size() const { return count_; }
  const Tensor& operator[](int i) const { return reinterpret_cast<const Tensor&>(items_[i]); }
  TensorImpl* const* data() const { return items_; }

 private:
  TensorImpl* const* items_;
  int count_;
};
static_assert(sizeof(Tensor) == sizeof(TensorImpl*));

// What the contract says of a result. Arrays are left uninitialised on purpose: only `ndim` entries count.
struct Meta {
  DType dtype;
  Device device;
  bool strided = false;  // `strides` are given; otherwise row-major
  int ndim = 0;
  int64_t offset = 0;  // views: elements from the start of the viewed tensor's data
  int64_t sizes[kMostDims];
  int64_t strides[kMostDims];

  void like(const Tensor& t) { set(t.dtype(), t->device, t.sizes()); }
  void set(DType type, Device where, IntSpan shape) {
    dtype = type;
    device = where;
    ndim = static_cast<int>(shape.size());
    for (int d = 0; d < ndim; ++d) sizes[d] = shape[d];
  }
  IntSpan shape() const { return {sizes, static_cast<size_t>(ndim)}; }
  IntSpan stride_span() const { return {strides, static_cast<size_t>(ndim)}; }
};

enum Trait : uint32_t {
  kElementwise = 1 << 0,
  kView = 1 << 1,
  kReduction = 1 << 2,
  kLinear = 1 << 3,
  kRandom = 1 << 4,
  kUpdatesSelf = 1 << 5,   // run() writes into a result that already holds a copy of the first input
  kForcesValues = 1 << 6,  // the shape of the result depends on values
  kNeverDifferentiable = 1 << 7,
  kInternal = 1 << 8,              // not callable from Python by name (derivative helpers, leaves)
  kFirstOutputOnly = 1 << 9,       // later results (indices) carry no gradient
  kSavesGeometry = 1 << 13,        // looks only at shape and strides of what it saves: later writes do not matter
  kExactOut = 1 << 10,             // out= must have the dtype of the result: nothing is cast into it
  kOutChoosesDtype = 1 << 11,      // the dtype of out= stands in for a `dtype` that was not given
  kTruthOut = 1 << 12,             // out= must be bool or uint8
  kAnyOut = 1 << 14,               // out= may have any dtype
  kRunsWithoutGradient = 1 << 15,  // its derivative is asked even when no gradient has come in
};

// How an element-wise operation chooses the dtype it computes in and the dtype of its result.
enum class Promote : uint8_t {
  Arithmetic,    // compute and return the promoted dtype
  Number,        // as Arithmetic, but bool becomes int64
  Float,         // integers become the default floating dtype
  Compare,       // compute in the promoted dtype, return bool
  Predicate,     // as Compare; named apart because bool and integers have trivial answers
  SelectSecond,  // where: the first input is a condition
  Exact,         // compute in the first input's dtype
};

struct Pointwise {
  Elementwise kernel;
  Promote promote = Promote::Arithmetic;
};

// Results of one operation (a list of tensors counts as none of them).
inline constexpr int kMostResults = 3;

// Saves: which inputs and outputs must be kept so that input i can be differentiated.
constexpr uint32_t input(int i) { return 1u << i; }
constexpr uint32_t output(int k) { return 1u << (16 + k); }
struct Saves { uint32_t for_input[4] = {}; };

using InferRule = void (*)(const void* op, Inputs in, Meta* out);
using RunRule = void (*)(const void* op, Inputs in, Tensor* out);
using VjpRule = void (*)(Backward&);

struct OpTable {
  const char* struct_name;
  Schema schema;
  uint32_t traits = 0;
  uint16_t field_bytes = 0;
  uint8_t outputs = 1;
  bool list_input = false;  // takes Tensor[]: the number of inputs varies
  Saves saves{};
  const Pointwise* pointwise = nullptr;
  InferRule infer = nullptr;
  RunRule run = nullptr;
  VjpRule vjp = nullptr;
  // Fills the fields from parsed arguments, in the order of the schema's attributes.
  void (*build)(const Value* attributes, void* op) = nullptr;
  void (*copy)(void* to, const void* from) = nullptr;
  void (*destroy)(void* op) = nullptr;  // null when there is nothing to do
  bool (*equal)(const void* a, const void* b) = nullptr;
  uint64_t (*hash)(const void* op) = nullptr;
  std::string (*text)(const void* op) = nullptr;
  // The functor's parameters, for element-wise operations that have some. Room for 64 bytes.
  void (*functor)(const void* op, void* room) = nullptr;
  // What an element-wise operation's contract demands beyond broadcasting and promotion.
  void (*check)(const void* op, Inputs in) = nullptr;
  // Looks at values, before the kernel writes anything: integers cannot be divided by zero.
  void (*check_values)(Inputs in) = nullptr;
  const char* backward_name = nullptr;
  void (*on_release)(void* op) = nullptr;  // told when a backward pass has freed the node's saved values
  // Instead of infer and run: built of other operations, in C++ because it is called so often.
  Tensor (*compose)(const void* op, Inputs in) = nullptr;
  void (*compose_list)(const void* op, Inputs in, std::vector<Tensor>& out) = nullptr;

  std::string_view name() const { return schema.name(); }
  bool has(Trait t) const { return traits & t; }
};

// Rules of all element-wise operations (core/graph/pointwise.cpp).
void infer_pointwise(const OpTable& table, const void* op, Inputs in, Meta* out);
void run_pointwise(const OpTable& table, const void* op, Inputs in, Tensor* out);

template <class Op>
constexpr OpTable make_table(const char* struct_name) {
  OpTable t{struct_name, Op::schema};
  static_assert(Op::schema.outputs <= kMostResults, "dispatch has room for no more results");
  t.outputs = static_cast<uint8_t>(Op::schema.outputs);
  t.list_input = Op::schema.text.find("Tensor[]") != std::string_view::npos ||
                 Op::schema.text.find("Tensor?[]") != std::string_view::npos;
  constexpr bool internal = requires { requires(Op::traits & kInternal) != 0; };
  if constexpr (!internal) {
    static_assert(field_count<Op>() == static_cast<size_t>(Op::schema.attributes),
                  "an operation's fields must be its schema's attributes, in order");
  }
  if constexpr (requires { Op::traits; }) t.traits = Op::traits;
  t.field_bytes = std::is_empty_v<Op> ? 0 : (sizeof(Op) + 7) / 8 * 8;
  if constexpr (requires { Op::saves; }) t.saves = Op::saves;
  if constexpr (requires { Op::backward_name; }) t.backward_name = Op::backward_name;
  if constexpr (requires { Op::pointwise; }) {
    t.pointwise = &Op::pointwise;
    t.traits |= kElementwise;
  }
  if constexpr (requires (const Op& op, Inputs in, Meta* out) { op.infer(in, out); }) {
    t.infer = [](const void* op, Inputs in, Meta* out) { static_cast<const Op*>(op)->infer(in, out); };
  }
  if constexpr (requires (const Op& op, Inputs in, Tensor* out) { op.run(in, out); }) {
    t.run = [](const void* op, Inputs in, Tensor* out) { static_cast<const Op*>(op)->run(in, out); };
  }
  if constexpr (requires (const Op& op, Inputs in) { op.compose(in); }) {
    t.compose = [](const void* op, Inputs in) { return static_cast<const Op*>(op)->compose(in); };
  }
  if constexpr (requires (const Op& op, Inputs in, std::vector<Tensor>& out) { op.compose_list(in, out); }) {
    t.compose_list = [](const void* op, Inputs in, std::vector<Tensor>& out) {
      static_cast<const Op*>(op)->compose_list(in, out);
    };
  }
  if constexpr (requires (Backward& b) { Op::vjp(b); }) t.vjp = [](Backward& b) { Op::vjp(b); };
  if constexpr (requires (const Op& op) { op.functor(); }) {
    t.functor = [](const void* op, void* room) {
      auto functor = static_cast<const Op*>(op)->functor();
      static_assert(sizeof functor <= 64);
      std::memcpy(room, &functor, sizeof functor);
    };
  }
  if constexpr (requires (const Op& op, Inputs in) { op.check(in); }) {
    // Operators (x - y) are called without fields.
    if constexpr (std::is_empty_v<Op>) t.check = [](const void*, Inputs in) { Op{}.check(in); };
    else t.check = [](const void* op, Inputs in) { static_cast<const Op*>(op)->check(in); };
  }
  if constexpr (requires (Inputs in) { Op::check_values(in); }) t.check_values = Op::check_values;
  if constexpr (!std::is_empty_v<Op>) {
    t.copy = [](void* to, const void* from) { new (to) Op(*static_cast<const Op*>(from)); };
    if constexpr (!std::is_trivially_destructible_v<Op>) {
      t.destroy = [](void* op) { static_cast<Op*>(op)->~Op(); };
    }
    if constexpr (!internal) {
      t.build = [](const Value* attributes, void* op) {
        auto* fresh = new (op) Op{};
        with_fields(*fresh, [&](auto&... field) { (read_value(*attributes++, field), ...); });
      };
    }
    t.equal = fields_equal<Op>;
    t.hash = fields_hash<Op>;
    t.text = fields_text<Op>;
  }
  return t;
}

// Ends the struct of an operation: its table is `op_<name>`, listed in core/ops/list.h.
#define WEFT_OP(Struct)             \
  extern const OpTable op_##Struct; \
  constexpr OpTable op_##Struct = make_table<Struct>(#Struct)

// The same operation under another name or with other names for its parameters.
#define WEFT_OP_ALIAS(Struct, Of, text) \
  extern const OpTable op_##Struct;     \
  constexpr OpTable op_##Struct = with_schema(op_##Of, Schema{text})

consteval OpTable with_schema(OpTable table, Schema schema) {
  table.schema = schema;
  return table;
}

// A part of an operation whose node is to be called otherwise.
consteval OpTable with_node_name(OpTable table, const char* backward_name) {
  table.backward_name = backward_name;
  return table;
}

}  // namespace weft
