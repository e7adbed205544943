// Subclasses of Tensor. See Note [Subclasses of Tensor] in bind/override.cpp.
#pragma once

#include "bind/object.h"

namespace weft::bind {

// False until the first object of a class that has a say in what operations do: programs without
// such classes pay for one test of this flag.
extern bool overrides_in_use;

// Whether a class of one of the arguments takes the call over. Then `result` is what it answered
// (null with an error set where it raised); otherwise the operation runs as usual.
bool overridden(PyObject* function, PyObject* const* arguments, Py_ssize_t count, PyObject* names, PyObject** result,
                PyObject* declined = nullptr);

// The same for an operator: `name` is that of the method that means the same, `reflected` that of the
// one for when only `b` is a tensor. Where every class declines, the answer is `declined`, or an error.
bool operator_overridden(const char* name, const char* reflected, PyObject* a, PyObject* b, PyObject** result,
                         PyObject* declined = nullptr);

inline bool may_be_overridden(PyObject* a) { return overrides_in_use && !is_exact_tensor(a); }
inline bool may_be_overridden(PyObject* a, PyObject* b) {
  return overrides_in_use && !(is_exact_tensor(a) && is_exact_tensor(b));
}

// Whether results made from a tensor of this class are of the class as well.
bool keeps_class(PyTypeObject* type);

// `plain`, which is handed over, as an object of `type`: the same tensor if nobody else has seen it.
PyObject* as_type(PyObject* plain, PyTypeObject* type);

// Called whenever an object of a subclass is made.
void note_subclass(PyTypeObject* type);

bool init_overrides(PyObject* module);

}  // namespace weft::bind
