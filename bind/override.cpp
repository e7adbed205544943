// Note [Subclasses of Tensor]
// A class derived from Tensor may define __torch_function__(cls, function, types, args, kwargs): it is
// then asked whenever one of its objects is an argument of an operation, as in PyTorch. The one that
// Tensor has runs the operation and gives the results the class of the argument. A class that is only
// a mark (Parameter) sets __torch_function__ = _disabled_torch_function_impl and is treated as Tensor.
//
// Operations, operators and indexing ask; attributes and methods that hand out numbers (shape, item,
// tolist) do not: they mean the same for every class.
#include "bind/override.h"

#include "core/ops/functions.h"

namespace weft::bind {

bool overrides_in_use = false;

namespace {

PyObject* name_override = nullptr;
PyObject* default_override = nullptr;   // what Tensor itself has
PyObject* disabled_override = nullptr;  // _disabled_torch_function_impl

// Set while a __torch_function__ runs the operation itself.
thread_local bool switched_off = false;

class SwitchedOff {
 public:
  SwitchedOff() : before_(std::exchange(switched_off, true)) {}
  ~SwitchedOff() { switched_off = before_; }

 private:
  bool before_;
};

PyObject* override_of(PyTypeObject* type) { return _PyType_Lookup(type, name_override); }

bool has_say(PyTypeObject* type) {
  if (type == tensor_type || type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type ||
      type == Py_TYPE(Py_None) || type == &PyUnicode_Type || type == &PyTuple_Type || type == &PyList_Type) {
    return false;
  }
  PyObject* found = override_of(type);
  return found && found != disabled_override;
}

// The arguments whose classes have a say, one for each class, a class before the ones it derives from.
struct Overloaded {
  std::vector<PyObject*> arguments;

  void look_at(PyObject* o) {
    PyTypeObject* type = Py_TYPE(o);
    if (!has_say(type)) return;
    auto at = arguments.end();
    for (auto it = arguments.begin(); it != arguments.end(); ++it) {
      if (Py_TYPE(*it) == type) return;
      if (at == arguments.end() && PyType_IsSubtype(type, Py_TYPE(*it))) at = it;
    }
    arguments.insert(at, o);
  }

  void look_into(PyObject* o) {
    if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) look_at(PySequence_Fast_ITEMS(o)[i]);
    } else {
      look_at(o);
    }
  }
};

bool is_argument(PyObject* o, PyObject* const* arguments, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i)
    if (arguments[i] == o) return true;
  return false;
}

// Results as objects of `type`; an argument that is handed back stays what it is.
PyObject* converted(PyObject* result, PyTypeObject* type, PyObject* const* arguments, Py_ssize_t count) {
  if (is_exact_tensor(result)) return is_argument(result, arguments, count) ? result : as_type(result, type);
  if (!PyTuple_Check(result) && !PyList_Check(result)) return result;
  Ref sequence(result);
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(result);
  Ref list(PyList_New(n));
  if (!list) return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_ITEMS(result)[i];
    Py_INCREF(item);
    // Only the container and this loop hold a fresh item: let go of it, so that as_type may reuse it.
    if (Py_REFCNT(result) == 1 && is_exact_tensor(item)) {
      Py_INCREF(Py_None);
      if (PyTuple_Check(result)) PyTuple_SET_ITEM(result, i, Py_None);
      else PyList_SET_ITEM(result, i, Py_None);
      Py_DECREF(item);
    }
    item = converted(item, type, arguments, count);
    if (!item) return nullptr;
    PyList_SET_ITEM(list.get(), i, item);
  }
  if (PyList_CheckExact(result)) return list.release();
  if (PyTuple_CheckExact(result)) return PyList_AsTuple(list.get());
  // A named tuple of Python's takes its items through _make, one of C's as they are.
  PyObject* type_object = reinterpret_cast<PyObject*>(Py_TYPE(result));
  if (PyObject_HasAttrString(type_object, "_make")) return PyObject_CallMethod(type_object, "_make", "O", list.get());
  return PyObject_CallOneArg(type_object, list.get());
}

PyObject* run_and_convert(PyTypeObject* type, PyObject* function, PyObject* const* arguments, Py_ssize_t count,
                          PyObject* names) {
  PyObject* result;
  {
    const SwitchedOff off;
    result = PyObject_Vectorcall(function, arguments, static_cast<size_t>(count), names);
  }
  const Py_ssize_t all = count + (names ? PyTuple_GET_SIZE(names) : 0);
  return result ? converted(result, type, arguments, all) : nullptr;
}

// Arguments as a tuple and a dict.
bool packed(PyObject* const* arguments, Py_ssize_t count, PyObject* names, Ref* args, Ref* kwargs) {
  *args = Ref(PyTuple_New(count));
  *kwargs = Ref(PyDict_New());
  if (!*args || !*kwargs) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Py_INCREF(arguments[i]);
    PyTuple_SET_ITEM(args->get(), i, arguments[i]);
  }
  for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); ++k) {
    if (PyDict_SetItem(kwargs->get(), PyTuple_GET_ITEM(names, k), arguments[count + k]) < 0) return false;
  }
  return true;
}

// Tensor.__torch_function__(function, types, args=(), kwargs=None)
PyObject* default_torch_function(PyObject* type, PyObject* given, PyObject* keywords) {
  static const char* names[] = {"func", "types", "args", "kwargs", nullptr};
  PyObject *function, *types, *args = nullptr, *kwargs = nullptr;
  if (!PyArg_ParseTupleAndKeywords(given, keywords, "OO|OO", const_cast<char**>(names), &function, &types, &args,
                                   &kwargs))
    return nullptr;
  Ref all(PySequence_Tuple(types));
  if (!all) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all.get()); ++i) {
    const int derived = PyObject_IsSubclass(type, PyTuple_GET_ITEM(all.get(), i));
    if (derived < 0) return nullptr;
    if (!derived) Py_RETURN_NOTIMPLEMENTED;
  }
  if (kwargs == Py_None) kwargs = nullptr;
  if (kwargs && !PyDict_Check(kwargs)) {
    return PyErr_Format(PyExc_TypeError, "__torch_function__(): kwargs must be a dict, not %s",
                        Py_TYPE(kwargs)->tp_name);
  }
  Ref positional(args ? PySequence_Tuple(args) : PyTuple_New(0));
  if (!positional) return nullptr;
  PyObject* result;
  {
    const SwitchedOff off;
    result = PyObject_Call(function, positional.get(), kwargs);
  }
  if (!result) return nullptr;
  return converted(result, reinterpret_cast<PyTypeObject*>(type), PySequence_Fast_ITEMS(positional.get()),
                   PyTuple_GET_SIZE(positional.get()));
}

PyObject* disabled_torch_function(PyObject*, PyObject*, PyObject*) { Py_RETURN_NOTIMPLEMENTED; }

// _switch_overrides(off) -> what was: for DisableTorchFunctionSubclass.
PyObject* switch_overrides(PyObject*, PyObject* off) {
  const int on = PyObject_IsTrue(off);
  if (on < 0) return nullptr;
  return PyBool_FromLong(std::exchange(switched_off, on != 0));
}

PyMethodDef default_method = {
    "__torch_function__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(default_torch_function)),
    METH_CLASS | METH_VARARGS | METH_KEYWORDS,
    "Runs an operation that was called with an object of this class; results are of the class as "
    "well."};
PyMethodDef functions[] = {
    {"_disabled_torch_function_impl",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(disabled_torch_function)), METH_VARARGS | METH_KEYWORDS,
     "As a class's __torch_function__: the class is treated as Tensor."},
    {"_switch_overrides", switch_overrides, METH_O, nullptr},
    {}};

}  // namespace

void note_subclass(PyTypeObject* type) {
  if (!overrides_in_use && has_say(type)) overrides_in_use = true;
}

bool keeps_class(PyTypeObject* type) { return type != tensor_type && override_of(type) == default_override; }

PyObject* as_type(PyObject* plain, PyTypeObject* type) {
  if (Py_TYPE(plain) == type) return plain;
  auto* object = reinterpret_cast<PyTensor*>(plain);
  Ref held(plain);
  return guarded([&]() -> PyObject* {
    Tensor t = Tensor::share(object->impl);
    if (Py_REFCNT(plain) == 1 && !object->dict && !object->weakrefs) {
      held = Ref();  // the tensor itself gets a new face
    } else {
      t = needs_grad(t.get()) ? view_of_all(t) : alias(t);
    }
    return wrap_as(type, std::move(t));
  });
}

bool overridden(PyObject* function, PyObject* const* arguments, Py_ssize_t count, PyObject* names, PyObject** result,
                PyObject* declined) {
  if (switched_off) return false;
  Overloaded overloaded;
  const Py_ssize_t all = count + (names ? PyTuple_GET_SIZE(names) : 0);
  for (Py_ssize_t i = 0; i < all; ++i) overloaded.look_into(arguments[i]);
  if (overloaded.arguments.empty()) return false;
  *result = nullptr;
  // The usual case: one class, and the rule that Tensor has.
  PyTypeObject* first = Py_TYPE(overloaded.arguments[0]);
  if (overloaded.arguments.size() == 1 && override_of(first) == default_override) {
    *result = run_and_convert(first, function, arguments, count, names);
    return true;
  }
  Ref args, kwargs, types(PyTuple_New(static_cast<Py_ssize_t>(overloaded.arguments.size())));
  if (!types || !packed(arguments, count, names, &args, &kwargs)) return true;
  for (size_t i = 0; i < overloaded.arguments.size(); ++i) {
    PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(overloaded.arguments[i]));
    Py_INCREF(type);
    PyTuple_SET_ITEM(types.get(), i, type);
  }
  for (PyObject* argument : overloaded.arguments) {
    // Bound to the object, so that a class method, a static one and a plain one are all called rightly.
    Ref method(PyObject_GetAttr(argument, name_override));
    if (!method) return true;
    Ref answer(PyObject_CallFunctionObjArgs(method.get(), function, types.get(), args.get(), kwargs.get(), nullptr));
    if (!answer) return true;
    if (answer.get() == Py_NotImplemented) continue;
    *result = answer.release();
    return true;
  }
  Py_XINCREF(declined);
  *result = declined;
  if (!declined) {
    Ref name(PyObject_GetAttrString(function, "__name__"));
    if (name) {
      PyErr_Format(PyExc_TypeError,
                   "Multiple dispatch failed for 'torch.%U'; all __torch_function__ handlers "
                   "returned NotImplemented, those of %R",
                   name.get(), types.get());
    }
  }
  return true;
}

bool operator_overridden(const char* name, const char* reflected, PyObject* a, PyObject* b, PyObject** result,
                         PyObject* declined) {
  if (switched_off) return false;
  Overloaded overloaded;
  overloaded.look_at(a);
  if (b) overloaded.look_into(b);
  if (overloaded.arguments.empty()) return false;
  const bool forward = is_tensor(a);
  Ref function(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_type), forward ? name : reflected));
  if (!function) {
    PyErr_Clear();
    return false;
  }
  PyObject* arguments[] = {forward ? a : b, forward ? b : a};
  return overridden(function.get(), arguments, b ? 2 : 1, nullptr, result, declined);
}

bool init_overrides(PyObject* module) {
  name_override = interned("__torch_function__");
  default_override = PyDescr_NewClassMethod(tensor_type, &default_method);
  if (!default_override || PyModule_AddFunctions(module, functions) < 0 ||
      PyObject_SetAttr(reinterpret_cast<PyObject*>(tensor_type), name_override, default_override) < 0) {
    return false;
  }
  disabled_override = PyObject_GetAttrString(module, "_disabled_torch_function_impl");
  return disabled_override != nullptr;
}

}  // namespace weft::bind
