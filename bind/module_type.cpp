// weft._core.ModuleBase: what calling a module and reading its attributes cost, because both happen once
// per layer and step. Everything else about modules is Python (weft/nn/modules/module.py).
//
// Note [A module's dictionaries]
// As in PyTorch, parameters, buffers and submodules live in three dictionaries of the instance's __dict__,
// where anybody may look and poke. The dictionaries of hooks are made when somebody first asks for one:
// until then the flag kMayHaveHooks is off, and a call does not look for hooks at all. Whoever can have put
// hooks there without us seeing it (asked for __dict__, restored a pickle, assigned the attribute) has set
// the flag on the way, and then the dictionaries themselves are asked.
//
// Note [Classes made from ModuleBase]
// Python gives every class that has a __getattr__ in sight the slow attribute slot, and (before 3.12) takes
// the fast call slot from classes written in Python. __init_subclass__ puts both back where the class does not
// redefine them; when somebody redefines them later, Python itself exchanges the slots again.
#include <cstring>

#include "bind/object.h"

namespace weft::bind {
namespace {

enum ModuleFlag : uint8_t {
  kMayHaveHooks = 1 << 0,
};

struct PyModule {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* dict;
  PyObject* weakrefs;
  uint8_t flags;
};

PyModule* module_of(PyObject* o) { return reinterpret_cast<PyModule*>(o); }

PyTypeObject* base_type = nullptr;

struct Names {
  PyObject *parameters, *buffers, *modules, *training, *forward, *call, *call_impl, *wrapped_call_impl,
      *call_with_hooks, *getattr, *set_registered, *call_super_init, *init_subclass, *is_buffer, *no_attribute;
  PyObject* call_hooks[4];  // those that a call must run
} names;

PyObject* lazy_attributes = nullptr;  // name -> the class to make it of
PyObject* global_call_hooks[4] = {};  // dictionaries of hooks of all modules
PyObject* global_buffer_hooks = nullptr;

// ---- dictionaries ----------------------------------------------------------------------------------

PyObject* dict_of(PyModule* self) {
  if (!self->dict) self->dict = PyDict_New();
  return self->dict;
}

// Borrowed; null without an error where it is missing.
PyObject* own_value(const PyModule* self, PyObject* name) {
  return self->dict ? PyDict_GetItemWithError(self->dict, name) : nullptr;
}

// New reference. A dictionary of a class of somebody's own may compute its values.
PyObject* lookup(PyObject* mapping, PyObject* name) {
  if (PyDict_CheckExact(mapping) || Py_TYPE(mapping) == &PyODict_Type) {
    PyObject* found = PyDict_GetItemWithError(mapping, name);
    Py_XINCREF(found);
    return found;
  }
  PyObject* found = PyObject_GetItem(mapping, name);
  if (!found && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
  return found;
}

bool is_filled(PyObject* mapping) { return PyDict_Check(mapping) ? PyDict_GET_SIZE(mapping) > 0 : true; }

// Whether one of the three dictionaries has the name: 1, 0, or -1 with an error.
int registers(const PyModule* self, PyObject* which, PyObject* name) {
  PyObject* mapping = own_value(self, which);
  if (!mapping) return PyErr_Occurred() ? -1 : 0;
  return is_filled(mapping) ? PySequence_Contains(mapping, name) : 0;
}

// A parameter, buffer or submodule; null without an error where there is none.
PyObject* registered(PyModule* self, PyObject* name) {
  for (PyObject* which : {names.parameters, names.modules, names.buffers}) {
    PyObject* mapping = own_value(self, which);
    if (!mapping) {
      if (PyErr_Occurred()) return nullptr;
      continue;
    }
    if (!is_filled(mapping)) continue;
    PyObject* found = lookup(mapping, name);
    if (found || PyErr_Occurred()) return found;
  }
  return nullptr;
}

// One of the dictionaries that are made when first asked for.
PyObject* lazy_attribute(PyModule* self, PyObject* name) {
  if (!lazy_attributes || !own_value(self, names.parameters)) return nullptr;
  PyObject* kind = PyDict_GetItemWithError(lazy_attributes, name);
  if (!kind) return nullptr;
  Ref made(PyObject_CallNoArgs(kind));
  if (!made || PyDict_SetItem(self->dict, name, made.get()) < 0) return nullptr;
  self->flags |= kMayHaveHooks;
  return made.release();
}

bool starts_with_underscore(PyObject* name) {
  return PyUnicode_GET_LENGTH(name) > 0 && PyUnicode_READ_CHAR(name, 0) == '_';
}

PyObject* beyond_usual(PyObject* object, PyObject* name) {
  PyModule* self = module_of(object);
  PyObject* found = registered(self, name);
  if (!found && !PyErr_Occurred() && starts_with_underscore(name)) found = lazy_attribute(self, name);
  if (!found && !PyErr_Occurred()) {
    PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", Py_TYPE(object)->tp_name, name);
  }
  return found;
}

// ---- reading attributes ----------------------------------------------------------------------------

PyObject* get_attribute(PyObject* self, PyObject* name) {
  // Of a class with a __getattr__ or __getattribute__ of its own, only the usual way: Python calls the rest.
  if (Py_TYPE(self)->tp_getattro != get_attribute) return PyObject_GenericGetAttr(self, name);
  PyObject* found = _PyObject_GenericGetAttrWithDict(self, name, module_of(self)->dict, /*suppress=*/1);
  if (found || PyErr_Occurred()) return found;
  return beyond_usual(self, name);
}

PyObject* m_getattr(PyObject* self, PyObject* name) {
  if (!PyUnicode_Check(name)) return PyErr_Format(PyExc_TypeError, "attribute name must be string");
  return beyond_usual(self, name);
}

PyObject* get_dict(PyObject* object, void*) {
  PyModule* self = module_of(object);
  self->flags |= kMayHaveHooks;
  PyObject* dict = dict_of(self);
  Py_XINCREF(dict);
  return dict;
}

int set_dict(PyObject* object, PyObject* value, void*) {
  module_of(object)->flags |= kMayHaveHooks;
  return PyObject_GenericSetDict(object, value, nullptr);
}

// ---- writing attributes ----------------------------------------------------------------------------

// Whether a value may be something to register: a module, or a tensor that is marked as parameter or buffer.
bool may_register(PyObject* value) {
  if (is_exact_tensor(value)) return reinterpret_cast<PyTensor*>(value)->dict != nullptr;
  return PyType_IsSubtype(Py_TYPE(value), base_type) || PyType_IsSubtype(Py_TYPE(value), tensor_type);
}

PyObject* m_setattr(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  if (count != 2) return PyErr_Format(PyExc_TypeError, "__setattr__() takes exactly 2 arguments (%zd given)", count);
  PyModule* self = module_of(object);
  PyObject *name = args[0], *value = args[1];
  if (!PyUnicode_Check(name)) {
    return PyErr_Format(PyExc_TypeError, "attribute name must be string, not '%s'", Py_TYPE(name)->tp_name);
  }
  bool plain = !may_register(value);
  if (plain) {
    const int parameter = registers(self, names.parameters, name);
    const int module = parameter ? 0 : registers(self, names.modules, name);
    const int buffer = parameter || module ? 0 : registers(self, names.buffers, name);
    if (parameter < 0 || module < 0 || buffer < 0) return nullptr;
    if (buffer && (is_exact_tensor(value) || value == Py_None) && PyDict_GET_SIZE(global_buffer_hooks) == 0) {
      if (PyObject_SetItem(own_value(self, names.buffers), name, value) < 0) return nullptr;
      Py_RETURN_NONE;
    }
    plain = !parameter && !module && !buffer;
  }
  if (!plain) return PyObject_CallMethodObjArgs(object, names.set_registered, name, value, nullptr);
  if (starts_with_underscore(name)) {
    for (PyObject* hooks : names.call_hooks) {
      if (PyUnicode_Compare(name, hooks) == 0) self->flags |= kMayHaveHooks;
    }
  }
  if (PyObject_GenericSetAttr(object, name, value) < 0) return nullptr;
  Py_RETURN_NONE;
}

// ---- calling ---------------------------------------------------------------------------------------

// Whether a hook has to run: 1, 0, or -1 with an error.
int has_hooks(const PyModule* self) {
  for (PyObject* hooks : global_call_hooks) {
    if (hooks && PyDict_GET_SIZE(hooks) > 0) return 1;
  }
  if (!(self->flags & kMayHaveHooks)) return 0;
  for (PyObject* name : names.call_hooks) {
    PyObject* hooks = own_value(self, name);
    if (!hooks && PyErr_Occurred()) return -1;
    if (hooks && is_filled(hooks)) return 1;
  }
  return 0;
}

constexpr Py_ssize_t kMostOnStack = 8;

// function(self, *args), without making a bound method.
PyObject* call_with_self(PyObject* function, PyObject* self, PyObject* const* args, size_t flags, PyObject* keywords) {
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  const Py_ssize_t all = count + (keywords ? PyTuple_GET_SIZE(keywords) : 0);
  if (flags & PY_VECTORCALL_ARGUMENTS_OFFSET) {
    auto** shifted = const_cast<PyObject**>(args) - 1;
    PyObject* before = std::exchange(shifted[0], self);
    PyObject* result = PyObject_Vectorcall(function, shifted, static_cast<size_t>(count) + 1, keywords);
    shifted[0] = before;
    return result;
  }
  PyObject* on_stack[kMostOnStack + 1];
  std::unique_ptr<PyObject*[]> on_heap;
  PyObject** with_self = on_stack;
  if (all > kMostOnStack) {
    on_heap.reset(new PyObject*[static_cast<size_t>(all) + 1]);
    with_self = on_heap.get();
  }
  with_self[0] = self;
  std::copy(args, args + all, with_self + 1);
  return PyObject_Vectorcall(function, with_self, static_cast<size_t>(count) + 1, keywords);
}

PyObject* call_forward(PyObject* self, PyObject* const* args, size_t flags, PyObject* keywords) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject* own = own_value(module_of(self), names.forward);
  if (own || PyErr_Occurred()) {
    if (!own) return nullptr;
    const Ref held = Ref::borrowed(own);
    return PyObject_Vectorcall(own, args, flags, keywords);
  }
  PyObject* function = _PyType_Lookup(type, names.forward);
  if (function && PyType_HasFeature(Py_TYPE(function), Py_TPFLAGS_METHOD_DESCRIPTOR)) {
    const Ref held = Ref::borrowed(function);
    return call_with_self(function, self, args, flags, keywords);
  }
  const Ref bound(PyObject_GetAttr(self, names.forward));
  return bound ? PyObject_Vectorcall(bound.get(), args, flags, keywords) : nullptr;
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, size_t flags, PyObject* keywords) {
  if (Py_TYPE(self)->tp_call != PyVectorcall_Call) {  // the class was given a __call__ after it had been made
    const Ref call(PyObject_GetAttr(self, names.call));
    return call ? PyObject_Vectorcall(call.get(), args, flags, keywords) : nullptr;
  }
  const int hooks = has_hooks(module_of(self));
  if (hooks == 0) return call_forward(self, args, flags, keywords);
  if (hooks < 0) return nullptr;
  const Ref slow(PyObject_GetAttr(self, names.call_with_hooks));
  return slow ? PyObject_Vectorcall(slow.get(), args, flags, keywords) : nullptr;
}

// ---- making ----------------------------------------------------------------------------------------

PyObject* make(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self) module_of(self)->vectorcall = vectorcall;
  return self;
}

// Module.__init__: arguments are an error, unless the class passes them on.
int initialise(PyObject* object, PyObject* args, PyObject* keywords) {
  PyModule* self = module_of(object);
  const Ref passes_on(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(object)), names.call_super_init));
  if (!passes_on) return -1;
  const bool chained = passes_on.get() == Py_True;
  const char* name = Py_TYPE(object)->tp_name;
  if (!chained && keywords && PyDict_GET_SIZE(keywords) > 0) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    PyDict_Next(keywords, &at, &key, &value);
    PyErr_Format(PyExc_TypeError, "%s.__init__() got an unexpected keyword argument '%U'", name, key);
    return -1;
  }
  if (!chained && PyTuple_GET_SIZE(args) > 0) {
    PyErr_Format(PyExc_TypeError, "%s.__init__() takes 1 positional argument but %zd were given", name,
                 PyTuple_GET_SIZE(args) + 1);
    return -1;
  }
  PyObject* dict = dict_of(self);
  if (!dict || PyDict_SetItem(dict, names.training, Py_True) < 0) return -1;
  for (PyObject* which : {names.parameters, names.buffers, names.modules}) {
    const Ref empty(PyDict_New());
    if (!empty || PyDict_SetItem(dict, which, empty.get()) < 0) return -1;
  }
  if (!chained) return 0;
  const Ref next(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PySuper_Type), base_type, object, nullptr));
  const Ref init(next ? PyObject_GetAttrString(next.get(), "__init__") : nullptr);
  return init && Ref(PyObject_Call(init.get(), args, keywords)) ? 0 : -1;
}

// See Note [Classes made from ModuleBase].
PyObject* init_subclass(PyObject* cls, PyObject* args, PyObject* keywords) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  const Ref next(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PySuper_Type), base_type, cls, nullptr));
  const Ref inherited(next ? PyObject_GetAttr(next.get(), names.init_subclass) : nullptr);
  if (!inherited || !Ref(PyObject_Call(inherited.get(), args, keywords))) return nullptr;

  PyObject* const own_getattr = _PyType_Lookup(base_type, names.getattr);
  PyObject* const own_getattribute = _PyType_Lookup(base_type, names.no_attribute);
  if (_PyType_Lookup(type, names.getattr) == own_getattr &&
      _PyType_Lookup(type, names.no_attribute) == own_getattribute) {
    type->tp_getattro = get_attribute;
  }
  PyObject* const implementation = _PyType_Lookup(type, names.call_impl);
  PyObject* const wrapped = _PyType_Lookup(type, names.wrapped_call_impl);
  if (type->tp_call == PyVectorcall_Call) {
    const Ref own = Ref(PyObject_GetAttrString(reinterpret_cast<PyObject*>(base_type), "_plain_call_impl"));
    if (!own) PyErr_Clear();
    if (own && implementation && wrapped && implementation != own.get()) {
      if (PyObject_SetAttr(cls, names.call, wrapped) < 0) return nullptr;
    } else {
      type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    }
  }
  PyType_Modified(type);
  Py_RETURN_NONE;
}

// __setstate__: what a pickle or a copy holds.
PyObject* m_setstate(PyObject* object, PyObject* state) {
  PyModule* self = module_of(object);
  if (!PyDict_Check(state)) {
    return PyErr_Format(PyExc_TypeError, "the state of a module is a dict, not %s", Py_TYPE(state)->tp_name);
  }
  PyObject* dict = dict_of(self);
  if (!dict || PyDict_Update(dict, state) < 0) return nullptr;
  for (PyObject* name : names.call_hooks) {
    if (PyDict_GetItemWithError(dict, name)) self->flags |= kMayHaveHooks;
  }
  Py_RETURN_NONE;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(module_of(self)->dict);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(module_of(self)->dict);
  return 0;
}

void dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (module_of(object)->weakrefs) PyObject_ClearWeakRefs(object);
  clear(object);
  type->tp_free(object);
  Py_DECREF(type);
}

template <class F>
PyCFunction as_method(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

PyMethodDef methods[] = {
    {"__getattr__", m_getattr, METH_O, nullptr},
    {"__setattr__", as_method(m_setattr), METH_FASTCALL, nullptr},
    {"__setstate__", m_setstate, METH_O, nullptr},
    {"__init_subclass__", as_method(init_subclass), METH_VARARGS | METH_KEYWORDS | METH_CLASS, nullptr},
    {}};
PyGetSetDef attributes[] = {{"__dict__", get_dict, set_dict, nullptr, nullptr}, {}};
PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(PyModule, vectorcall), READONLY, nullptr},
                         {"__dictoffset__", T_PYSSIZET, offsetof(PyModule, dict), READONLY, nullptr},
                         {"__weaklistoffset__", T_PYSSIZET, offsetof(PyModule, weakrefs), READONLY, nullptr},
                         {}};
PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
                       {Py_tp_new, reinterpret_cast<void*>(make)},
                       {Py_tp_init, reinterpret_cast<void*>(initialise)},
                       {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                       {Py_tp_getset, attributes},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {0, nullptr}};
PyType_Spec spec = {"weft._core.ModuleBase", sizeof(PyModule), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

// _set_module_parts(lazy attributes, four dictionaries of global hooks, those of buffers)
PyObject* set_parts(PyObject*, PyObject* args) {
  PyObject** g = global_call_hooks;
  if (!PyArg_ParseTuple(args, "OO!O!O!O!O!", &lazy_attributes, &PyDict_Type, &g[0], &PyDict_Type, &g[1], &PyDict_Type,
                        &g[2], &PyDict_Type, &g[3], &PyDict_Type, &global_buffer_hooks)) {
    return nullptr;
  }
  for (PyObject* part : {lazy_attributes, g[0], g[1], g[2], g[3], global_buffer_hooks}) {
    Py_INCREF(part);  // for as long as the process lives
  }
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"_set_module_parts", set_parts, METH_VARARGS, nullptr}, {}};

}  // namespace

bool init_module_type(PyObject* module) {
  names = {interned("_parameters"),
           interned("_buffers"),
           interned("_modules"),
           interned("training"),
           interned("forward"),
           interned("__call__"),
           interned("_call_impl"),
           interned("_wrapped_call_impl"),
           interned("_call_with_hooks"),
           interned("__getattr__"),
           interned("_set_registered"),
           interned("call_super_init"),
           interned("__init_subclass__"),
           interned("_is_buffer"),
           interned("__getattribute__"),
           {interned("_forward_hooks"), interned("_forward_pre_hooks"), interned("_backward_hooks"),
            interned("_backward_pre_hooks")}};
  base_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return base_type && PyModule_AddObjectRef(module, "ModuleBase", reinterpret_cast<PyObject*>(base_type)) == 0 &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace weft::bind
