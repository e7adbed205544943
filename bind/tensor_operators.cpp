// What Tensor does under Python's operators: + - * / // % ** @ & | ^ << >> ~, comparisons, and as a
// number (bool, int, float).
#include "bind/tensor_slots.h"

#include "bind/exchange.h"
#include "bind/override.h"
#include "core/ops/functions.h"

namespace weft {
extern const OpTable op_Sub, op_Mul, op_Div, op_Neg, op_Pow, op_FloorDivide, op_Remainder, op_Abs, op_BitwiseAnd,
    op_BitwiseOr, op_BitwiseXor, op_BitwiseNot, op_ShiftLeft, op_ShiftRight, op_Eq, op_Ne, op_Lt, op_Le, op_Gt, op_Ge;
}

namespace weft::bind {
namespace {

// Tensor, number or neither, without any allocation for tensors.
struct Operand {
  Tensor temporary;
  TensorImpl* impl = nullptr;

  bool take(PyObject* o) {
    if (is_exact_tensor(o)) {
      impl = impl_of(o);
      return true;
    }
    if (PyFloat_CheckExact(o)) temporary = wrapped_number(Scalar(PyFloat_AS_DOUBLE(o)));
    else if (is_tensor(o)) {
      impl = impl_of(o);
      return true;
    } else temporary = number_to_tensor(o);
    if (!temporary && is_array(o)) temporary = buffer_to_tensor(o);
    impl = temporary.get();
    return impl != nullptr;
  }
};

// An operator's operation and the names of the methods that mean the same.
struct Operator {
  const OpTable* table;
  const char* method;
  const char* in_place;
  const char* reflected;
};

constexpr Operator add_operator{&op_Add, "add", "add_", "add"};
constexpr Operator subtract_operator{&op_Sub, "sub", "sub_", "__rsub__"};
constexpr Operator multiply_operator{&op_Mul, "mul", "mul_", "mul"};
constexpr Operator divide_operator{&op_Div, "div", "div_", "__rtruediv__"};
constexpr Operator power_operator{&op_Pow, "pow", "pow_", "__rpow__"};
constexpr Operator floor_divide_operator{&op_FloorDivide, "floor_divide", "floor_divide_", "__rfloordiv__"};
constexpr Operator remainder_operator{&op_Remainder, "remainder", "remainder_", "__rmod__"};
constexpr Operator and_operator{&op_BitwiseAnd, "bitwise_and", "bitwise_and_", "__rand__"};
constexpr Operator or_operator{&op_BitwiseOr, "bitwise_or", "bitwise_or_", "__ror__"};
constexpr Operator xor_operator{&op_BitwiseXor, "bitwise_xor", "bitwise_xor_", "__rxor__"};
constexpr Operator left_shift_operator{&op_ShiftLeft, "bitwise_left_shift", "bitwise_left_shift_", "__rlshift__"};
constexpr Operator right_shift_operator{&op_ShiftRight, "bitwise_right_shift", "bitwise_right_shift_", "__rrshift__"};
constexpr Operator compare_operators[] = {{&op_Lt, "lt", nullptr, "gt"}, {&op_Le, "le", nullptr, "ge"},
                                          {&op_Eq, "eq", nullptr, "eq"}, {&op_Ne, "ne", nullptr, "ne"},
                                          {&op_Gt, "gt", nullptr, "lt"}, {&op_Ge, "ge", nullptr, "le"}};
constexpr Operator negative_operator{&op_Neg, "neg", nullptr, nullptr};
constexpr Operator absolute_operator{&op_Abs, "abs", nullptr, nullptr};
constexpr Operator invert_operator{&op_BitwiseNot, "bitwise_not", nullptr, nullptr};

// For operators whose operands may change places: the tensor goes first, as it does in PyTorch's graphs.
bool number_comes_first(const Operator& op, PyObject* a) {
  return (op.table == &op_Add || op.table == &op_Mul) && !is_tensor(a);
}

PyObject* apply_binary(const Operator& op, PyObject* a, PyObject* b) {
  if (may_be_overridden(a, b)) {
    PyObject* result;
    if (operator_overridden(op.method, op.reflected, a, b, &result, Py_NotImplemented)) return result;
  }
  return guarded([&]() -> PyObject* {
    Operand x, y;
    if (!x.take(a) || !y.take(b)) {
      if (PyErr_Occurred()) return nullptr;
      Py_RETURN_NOTIMPLEMENTED;
    }
    TensorImpl* in[] = {x.impl, y.impl};
    if (number_comes_first(op, a)) std::swap(in[0], in[1]);
    Tensor out;
    apply(*op.table, nullptr, Inputs(in, 2), &out);
    return wrap(std::move(out));
  });
}

PyObject* apply_binary_in_place(const Operator& op, PyObject* a, PyObject* b) {
  if (may_be_overridden(a, b)) {
    PyObject* result;
    if (operator_overridden(op.in_place, op.in_place, a, b, &result, Py_NotImplemented)) return result;
  }
  return guarded([&]() -> PyObject* {
    Operand y;
    if (!y.take(b)) {
      if (PyErr_Occurred()) return nullptr;
      Py_RETURN_NOTIMPLEMENTED;
    }
    TensorImpl* in[] = {impl_of(a), y.impl};
    apply_in_place(*op.table, nullptr, Inputs(in, 2));
    Py_INCREF(a);
    return a;
  });
}

PyObject* apply_unary(const Operator& op, PyObject* a) {
  if (may_be_overridden(a)) {
    PyObject* result;
    if (operator_overridden(op.method, nullptr, a, nullptr, &result)) return result;
  }
  return guarded([&] {
    TensorImpl* in[] = {impl_of(a)};
    Tensor out;
    apply(*op.table, nullptr, Inputs(in, 1), &out);
    return wrap(std::move(out));
  });
}

template <const Operator& op> PyObject* binary(PyObject* a, PyObject* b) { return apply_binary(op, a, b); }
template <const Operator& op> PyObject* binary_in_place(PyObject* a, PyObject* b) {
  return apply_binary_in_place(op, a, b);
}
PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) return PyErr_Format(PyExc_TypeError, "pow() of a Tensor takes no third argument");
  return apply_binary(power_operator, a, b);
}
PyObject* power_in_place(PyObject* a, PyObject* b, PyObject*) { return apply_binary_in_place(power_operator, a, b); }
PyObject* negative(PyObject* a) { return apply_unary(negative_operator, a); }
PyObject* absolute(PyObject* a) { return apply_unary(absolute_operator, a); }
PyObject* invert(PyObject* a) {
  if (!is_integral(impl_of(a)->dtype)) {
    return PyErr_Format(PyExc_TypeError, "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
  }
  return apply_unary(invert_operator, a);
}
PyObject* positive(PyObject* a) {
  Py_INCREF(a);
  return a;
}

PyObject* matrix_product(PyObject* a, PyObject* b) {
  if (!is_tensor(a) || !is_tensor(b)) Py_RETURN_NOTIMPLEMENTED;
  if (may_be_overridden(a, b)) {
    PyObject* result;
    if (operator_overridden("matmul", "__rmatmul__", a, b, &result, Py_NotImplemented)) return result;
  }
  return guarded([&] { return wrap(matmul(Tensor::share(impl_of(a)), Tensor::share(impl_of(b)))); });
}

PyObject* compare(PyObject* a, PyObject* b, int op) { return apply_binary(compare_operators[op], a, b); }

// element in tensor
int contains(PyObject* self, PyObject* element) {
  if (!is_tensor(element) && !is_number(element)) {
    PyErr_Format(PyExc_RuntimeError, "Tensor.__contains__ only supports Tensor or scalar, but you passed in a %R.",
                 Py_TYPE(element));
    return -1;
  }
  Ref equal(apply_binary(compare_operators[2], element, self));
  if (!equal) return -1;
  return guarded_int([&] {
    TensorImpl* t = impl_of(equal.get());
    ensure_value(t);
    // A fresh result of any strides fills its memory without gaps.
    return std::find(t->data, t->data + t->numel, 1) != t->data + t->numel ? 1 : 0;
  });
}

// ---- as a number -----------------------------------------------------------------------------------

PyObject* single_value(PyObject* self) {
  return guarded([&]() -> PyObject* {
    TensorImpl* t = impl_of(self);
    if (t->numel != 1) {
      fail(ErrorKind::Value, "only one element tensors can be converted to Python scalars (this one is ", describe(t),
           ")");
    }
    return tensor_item(t);
  });
}

int truth(PyObject* self) {
  return guarded_int([&] {
    TensorImpl* t = impl_of(self);
    if (t->numel == 0) fail("Boolean value of Tensor with no values is ambiguous (", describe(t), ")");
    if (t->numel != 1) {
      fail("Boolean value of Tensor with more than one value is ambiguous (", describe(t),
           "). Use .any() or .all(), or compare with weft.equal().");
    }
    Ref value(checked(tensor_item(t)));
    return PyObject_IsTrue(value.get());
  });
}
PyObject* to_int(PyObject* self) {
  Ref value(single_value(self));
  return value ? PyNumber_Long(value.get()) : nullptr;
}
PyObject* to_float(PyObject* self) {
  Ref value(single_value(self));
  return value ? PyNumber_Float(value.get()) : nullptr;
}
PyObject* to_index(PyObject* self) {
  const TensorImpl* t = impl_of(self);
  if (t->numel != 1 || !is_integral(t->dtype)) {
    return PyErr_Format(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
  }
  return to_int(self);
}

#define WEFT_SLOT(f) reinterpret_cast<void*>(f)
const PyType_Slot slots[] = {
    {Py_nb_add, WEFT_SLOT(binary<add_operator>)},
    {Py_nb_subtract, WEFT_SLOT(binary<subtract_operator>)},
    {Py_nb_multiply, WEFT_SLOT(binary<multiply_operator>)},
    {Py_nb_true_divide, WEFT_SLOT(binary<divide_operator>)},
    {Py_nb_floor_divide, WEFT_SLOT(binary<floor_divide_operator>)},
    {Py_nb_remainder, WEFT_SLOT(binary<remainder_operator>)},
    {Py_nb_and, WEFT_SLOT(binary<and_operator>)},
    {Py_nb_or, WEFT_SLOT(binary<or_operator>)},
    {Py_nb_xor, WEFT_SLOT(binary<xor_operator>)},
    {Py_nb_lshift, WEFT_SLOT(binary<left_shift_operator>)},
    {Py_nb_rshift, WEFT_SLOT(binary<right_shift_operator>)},
    {Py_nb_power, WEFT_SLOT(power)},
    {Py_nb_negative, WEFT_SLOT(negative)},
    {Py_nb_positive, WEFT_SLOT(positive)},
    {Py_nb_absolute, WEFT_SLOT(absolute)},
    {Py_nb_invert, WEFT_SLOT(invert)},
    {Py_nb_matrix_multiply, WEFT_SLOT(matrix_product)},
    {Py_nb_inplace_add, WEFT_SLOT(binary_in_place<add_operator>)},
    {Py_nb_inplace_subtract, WEFT_SLOT(binary_in_place<subtract_operator>)},
    {Py_nb_inplace_multiply, WEFT_SLOT(binary_in_place<multiply_operator>)},
    {Py_nb_inplace_true_divide, WEFT_SLOT(binary_in_place<divide_operator>)},
    {Py_nb_inplace_floor_divide, WEFT_SLOT(binary_in_place<floor_divide_operator>)},
    {Py_nb_inplace_remainder, WEFT_SLOT(binary_in_place<remainder_operator>)},
    {Py_nb_inplace_and, WEFT_SLOT(binary_in_place<and_operator>)},
    {Py_nb_inplace_or, WEFT_SLOT(binary_in_place<or_operator>)},
    {Py_nb_inplace_xor, WEFT_SLOT(binary_in_place<xor_operator>)},
    {Py_nb_inplace_lshift, WEFT_SLOT(binary_in_place<left_shift_operator>)},
    {Py_nb_inplace_rshift, WEFT_SLOT(binary_in_place<right_shift_operator>)},
    {Py_nb_inplace_power, WEFT_SLOT(power_in_place)},
    {Py_nb_bool, WEFT_SLOT(truth)},
    {Py_nb_int, WEFT_SLOT(to_int)},
    {Py_nb_float, WEFT_SLOT(to_float)},
    {Py_nb_index, WEFT_SLOT(to_index)},
    {Py_sq_contains, WEFT_SLOT(contains)},
    {Py_tp_richcompare, WEFT_SLOT(compare)},
};
#undef WEFT_SLOT

}  // namespace

std::span<const PyType_Slot> operator_slots() { return slots; }

}  // namespace weft::bind
