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
#include <optional>

#include "bind/doctor.h"
#include "bind/user_site.h"
#include "core/graph/site.h"

namespace weft::bind {
namespace {

enum ModuleFlag : uint8_t {
  kMayHaveHooks = 1 << 0,
  kOwnForward = 1 << 1,  // forward() is weft's own code
  kModeKnown = 1 << 2,   // the doctor knows about its mode
};

struct PyModule {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* dict;
  PyObject* weakrefs;
  ModuleTag* tag;  // stands for this module in the graph
  uint8_t flags;
};

PyModule* module_of(PyObject* o) { return reinterpret_cast<PyModule*>(o); }

PyTypeObject* base_type = nullptr;
PyTypeObject* module_class = nullptr;  // weft.nn.Module

struct Names {
  PyObject *parameters, *buffers, *modules, *training, *forward, *call, *call_impl, *wrapped_call_impl,
      *call_with_hooks, *getattr, *getattribute, *set_registered, *call_super_init, *init_subclass, *named_modules;
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
  const Ref held = Ref::borrowed(mapping);  // its code may put another in its place
  PyObject* found = PyObject_GetItem(mapping, name);
  if (!found && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
  return found;
}

bool is_filled(PyObject* mapping) { return PyDict_Check(mapping) ? PyDict_GET_SIZE(mapping) > 0 : true; }

// Whether one of the three dictionaries has the name: 1, 0, or -1 with an error.
int registers(const PyModule* self, PyObject* which, PyObject* name) {
  PyObject* mapping = own_value(self, which);
  if (!mapping) return PyErr_Occurred() ? -1 : 0;
  if (!is_filled(mapping)) return 0;
  const Ref held = Ref::borrowed(mapping);
  return PySequence_Contains(mapping, name);
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

bool is_call_hooks(PyObject* name) {
  for (PyObject* hooks : names.call_hooks) {
    if (PyUnicode_Compare(name, hooks) == 0) return true;
  }
  return false;
}

// One of the dictionaries that are made when first asked for.
PyObject* lazy_attribute(PyModule* self, PyObject* name) {
  if (!lazy_attributes || !own_value(self, names.parameters)) return nullptr;
  PyObject* kind = PyDict_GetItemWithError(lazy_attributes, name);
  if (!kind) return nullptr;
  Ref made(PyObject_CallNoArgs(kind));
  if (!made || PyDict_SetItem(self->dict, name, made.get()) < 0) return nullptr;
  if (is_call_hooks(name)) self->flags |= kMayHaveHooks;
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

// _own(name): what stands in the instance's dictionary, or None; without giving that dictionary away.
PyObject* m_own(PyObject* self, PyObject* name) {
  PyObject* found = own_value(module_of(self), name);
  if (!found && PyErr_Occurred()) return nullptr;
  if (!found) Py_RETURN_NONE;
  Py_INCREF(found);
  return found;
}

// _forget_own(name): takes it out of there.
PyObject* m_forget_own(PyObject* object, PyObject* name) {
  PyModule* self = module_of(object);
  if (own_value(self, name) && PyDict_DelItem(self->dict, name) < 0) return nullptr;
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

// ---- everything below a module ---------------------------------------------------------------------

struct Walk {
  PyObject* which;  // the dictionary to collect from
  Ref modules{PySet_New(nullptr)}, seen{PySet_New(nullptr)}, found{PyList_New(0)};
};

// Adds what is new to a set: 1 if it was new, 0, or -1 with an error.
int add_new(const Ref& set, PyObject* o) {
  const int known = PySet_Contains(set.get(), o);
  return known != 0 ? (known < 0 ? -1 : 0) : PySet_Add(set.get(), o) < 0 ? -1 : 1;
}

// 1: done; 0: this module has ways of its own, so that Python has to go through it; -1: an error.
int collect(PyObject* module, Walk& walk) {
  PyTypeObject* type = Py_TYPE(module);
  if (!PyType_IsSubtype(type, base_type) ||
      _PyType_Lookup(type, names.named_modules) != _PyType_Lookup(module_class, names.named_modules)) {
    return 0;
  }
  const int is_new = add_new(walk.modules, module);
  if (is_new <= 0) return is_new < 0 ? -1 : 1;
  // Held, because a hash function of somebody's own may exchange what is being walked.
  const Ref own = Ref::borrowed(own_value(module_of(module), walk.which));
  const Ref below = Ref::borrowed(own_value(module_of(module), names.modules));
  if (!own || !below || !PyDict_CheckExact(own.get()) || !PyDict_CheckExact(below.get())) {
    return PyErr_Occurred() ? -1 : 0;
  }
  PyObject* value;
  for (Py_ssize_t at = 0; PyDict_Next(own.get(), &at, nullptr, &value);) {
    if (value == Py_None) continue;
    const Ref held = Ref::borrowed(value);
    const int fresh = add_new(walk.seen, value);
    if (fresh < 0 || (fresh && PyList_Append(walk.found.get(), value) < 0)) return -1;
  }
  for (Py_ssize_t at = 0; PyDict_Next(below.get(), &at, nullptr, &value);) {
    if (value == Py_None) continue;
    const Ref held = Ref::borrowed(value);
    if (Py_EnterRecursiveCall(" while walking through modules") != 0) return -1;
    const int done = collect(value, walk);
    Py_LeaveRecursiveCall();
    if (done <= 0) return done;
  }
  return 1;
}

// _collect(name): the values of that dictionary in this module and all below, each once; None if a class
// goes through its modules in a way of its own.
PyObject* m_collect(PyObject* self, PyObject* which) {
  if (!module_class) Py_RETURN_NONE;
  Walk walk{which};
  if (!walk.modules || !walk.seen || !walk.found) return nullptr;
  const int done = collect(self, walk);
  if (done < 0) return nullptr;
  if (done == 0) Py_RETURN_NONE;
  return walk.found.release();
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
    if (buffer && (is_exact_tensor(value) || value == Py_None) && global_buffer_hooks &&
        PyDict_GET_SIZE(global_buffer_hooks) == 0) {
      if (PyObject_SetItem(own_value(self, names.buffers), name, value) < 0) return nullptr;
      Py_RETURN_NONE;
    }
    plain = !parameter && !module && !buffer;
  }
  if (!plain) return PyObject_CallMethodObjArgs(object, names.set_registered, name, value, nullptr);
  if (starts_with_underscore(name) && is_call_hooks(name)) self->flags |= kMayHaveHooks;
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

ModuleTag* tag_of(PyObject* self) {
  ModuleTag*& tag = module_of(self)->tag;
  if (!tag) tag = make_module_tag(self);
  return tag;
}

// self.forward(...), where an attribute of the instance goes before the class.
PyObject* call_forward(PyObject* self, PyObject* const* args, size_t flags, PyObject* keywords) {
  const ModuleCall call(tag_of(self));
  // Nodes recorded in weft's own layers belong to the line that called the layer.
  std::optional<UserSite> caller;
  std::optional<UserCode> users;
  if (module_of(self)->flags & kOwnForward) {
    caller.emplace();
  } else if (context().user_site_depth > 0) {
    users.emplace();
  }
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

PyObject* call_module(PyObject* self, PyObject* const* args, size_t flags, PyObject* keywords) {
  const int hooks = has_hooks(module_of(self));
  if (hooks == 0) return call_forward(self, args, flags, keywords);
  if (hooks < 0) return nullptr;
  std::optional<UserSite> caller;
  if (module_of(self)->flags & kOwnForward) caller.emplace();
  const Ref slow(PyObject_GetAttr(self, names.call_with_hooks));
  return slow ? PyObject_Vectorcall(slow.get(), args, flags, keywords) : nullptr;
}

// Training without gradients, or gradients in evaluation mode, of the module that the user called.
PyObject* check_mode(PyObject* self, PyObject* result) {
  PyObject* training = own_value(module_of(self), names.training);
  if (!training || PyBool_Check(training) == 0 || (training == Py_True) == context().grad_enabled) return result;
  const Ref held(result);
  return guarded([&] {
    if (!note_mode_mismatch(self, held.get())) module_of(self)->flags |= kModeKnown;
    return Ref::borrowed(held.get()).release();
  });
}

// The class's __call__ of C++, also for `super().__call__(...)`.
PyObject* slow_call(PyObject* self, PyObject* args, PyObject* keywords) {
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  if (!keywords || PyDict_GET_SIZE(keywords) == 0) {
    return call_module(self, PySequence_Fast_ITEMS(args), static_cast<size_t>(count), nullptr);
  }
  const Ref keys(PySequence_Tuple(keywords));
  if (!keys) return nullptr;
  std::vector<PyObject*> all(PySequence_Fast_ITEMS(args), PySequence_Fast_ITEMS(args) + count);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i) {
    all.push_back(PyDict_GetItemWithError(keywords, PyTuple_GET_ITEM(keys.get(), i)));
  }
  return call_module(self, all.data(), static_cast<size_t>(count), keys.get());
}

PyObject* vectorcall(PyObject* self, PyObject* const* args, size_t flags, PyObject* keywords) {
  if (Py_TYPE(self)->tp_call == slow_call) {
    const bool watched = doctor_is_on && !context().scope && !(module_of(self)->flags & kModeKnown);
    PyObject* result = call_module(self, args, flags, keywords);
    return watched && result ? check_mode(self, result) : result;
  }
  // The class was given a __call__ of its own after it had been made.
  const Ref call(PyObject_GetAttr(self, names.call));
  return call ? PyObject_Vectorcall(call.get(), args, flags, keywords) : nullptr;
}

// The two ways of calling without __call__, for classes that change it.
PyObject* m_call_impl(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return call_module(self, args, static_cast<size_t>(count), keywords);
}
PyObject* m_call_forward(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return call_forward(self, args, static_cast<size_t>(count), keywords);
}

// ---- making ----------------------------------------------------------------------------------------

// Whether the class runs a forward() of weft's own: of a layer, not of a user's class.
bool has_own_forward(PyTypeObject* type) {
  PyObject* forward = _PyType_Lookup(type, names.forward);
  if (!forward || !PyFunction_Check(forward)) return false;
  PyObject* where = PyFunction_GetModule(forward);
  const char* name = where && PyUnicode_Check(where) ? PyUnicode_AsUTF8(where) : nullptr;
  return name && std::strncmp(name, "weft.", 5) == 0;
}

PyObject* make(PyTypeObject* type, PyObject*, PyObject*) {
  static PyObject* const no_arguments = PyTuple_New(0);
  PyObject* self = PyBaseObject_Type.tp_new(type, no_arguments, nullptr);  // refuses abstract classes
  if (!self) return nullptr;
  module_of(self)->vectorcall = vectorcall;
  if (has_own_forward(type)) module_of(self)->flags |= kOwnForward;
  return self;
}

// Module.__init__: arguments are an error, unless the class passes them on.
int initialise(PyObject* object, PyObject* args, PyObject* keywords) {
  PyModule* self = module_of(object);
  const bool chained = _PyType_Lookup(Py_TYPE(object), names.call_super_init) == Py_True;
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
  PyObject* const own_getattribute = _PyType_Lookup(base_type, names.getattribute);
  if (_PyType_Lookup(type, names.getattr) == own_getattr &&
      _PyType_Lookup(type, names.getattribute) == own_getattribute) {
    type->tp_getattro = get_attribute;
  }
  if (type->tp_call == slow_call) {
    if (module_class && _PyType_Lookup(type, names.call_impl) != _PyType_Lookup(module_class, names.call_impl)) {
      if (PyObject_SetAttr(cls, names.call, _PyType_Lookup(type, names.wrapped_call_impl)) < 0) return nullptr;
    } else {
      type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    }
  }
  PyType_Modified(type);
  Py_RETURN_NONE;
}

// __getstate__: a copy of the dictionary, which is not given away.
PyObject* m_getstate(PyObject* object, PyObject*) {
  PyObject* dict = dict_of(module_of(object));
  return dict ? PyDict_Copy(dict) : nullptr;
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
  if (ModuleTag* tag = module_of(object)->tag) {
    tag->object = nullptr;
    release(tag);
  }
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
    {"_call_impl", as_method(m_call_impl), METH_FASTCALL | METH_KEYWORDS, nullptr},
    {"_call_forward", as_method(m_call_forward), METH_FASTCALL | METH_KEYWORDS, nullptr},
    {"_own", m_own, METH_O, nullptr},
    {"_collect", m_collect, METH_O, nullptr},
    {"_forget_own", m_forget_own, METH_O, nullptr},
    {"__getstate__", m_getstate, METH_NOARGS, nullptr},
    {"__setstate__", m_setstate, METH_O, nullptr},
    {"__init_subclass__", as_method(init_subclass), METH_VARARGS | METH_KEYWORDS | METH_CLASS, nullptr},
    {}};
PyGetSetDef attributes[] = {{"__dict__", get_dict, set_dict, nullptr, nullptr}, {}};
PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(PyModule, vectorcall), READONLY, nullptr},
                         {"__dictoffset__", T_PYSSIZET, offsetof(PyModule, dict), READONLY, nullptr},
                         {"__weaklistoffset__", T_PYSSIZET, offsetof(PyModule, weakrefs), READONLY, nullptr},
                         {}};
PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(slow_call)},
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

// _set_module_parts(Module, lazy attributes, four dictionaries of global hooks, those of buffers)
PyObject* set_parts(PyObject*, PyObject* args) {
  PyObject** g = global_call_hooks;
  PyObject* cls;
  if (!PyArg_ParseTuple(args, "OO!O!O!O!O!O!", &cls, &PyDict_Type, &lazy_attributes, &PyDict_Type, &g[0], &PyDict_Type,
                        &g[1], &PyDict_Type, &g[2], &PyDict_Type, &g[3], &PyDict_Type, &global_buffer_hooks)) {
    return nullptr;
  }
  module_class = reinterpret_cast<PyTypeObject*>(cls);
  for (PyObject* part : {cls, lazy_attributes, g[0], g[1], g[2], g[3], global_buffer_hooks}) {
    Py_INCREF(part);  // for as long as the process lives
  }
  Py_RETURN_NONE;
}

PyObject* was_called(PyObject*, PyObject* object) {
  if (!PyObject_TypeCheck(object, base_type)) return PyErr_Format(PyExc_TypeError, "expected a Module");
  return PyBool_FromLong(module_of(object)->tag != nullptr);
}

PyMethodDef functions[] = {{"_set_module_parts", set_parts, METH_VARARGS, nullptr},
                           {"_was_called", was_called, METH_O, "Whether this module has ever been called."},
                           {}};

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
           interned("__getattribute__"),
           interned("_set_registered"),
           interned("call_super_init"),
           interned("__init_subclass__"),
           interned("named_modules"),
           {interned("_forward_hooks"), interned("_forward_pre_hooks"), interned("_backward_hooks"),
            interned("_backward_pre_hooks")}};
  base_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return base_type && PyModule_AddObjectRef(module, "ModuleBase", reinterpret_cast<PyObject*>(base_type)) == 0 &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace weft::bind
