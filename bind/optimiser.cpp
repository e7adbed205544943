// The steps of weft/optim: one call updates all parameters of a group.
//
// Note [One call per step]
// An optimiser of a thousand small parameters must not cost a thousand times Python. An Updater remembers,
// for every parameter of a group, the tensors that the optimiser's `state` keeps for it, so that a step
// walks plain pointers. What it remembers may be overtaken by the user: state is an open dict, load_state_dict()
// exchanges it, parameters come and go. Nobody has to say so: an entry is used only if the list still
// holds the same parameter and its dict has not been written to since, and is looked up anew otherwise.
// The Updater itself is never saved or copied.
#include <cstring>

#include "bind/doctor.h"
#include "bind/user_site.h"
#include "core/ops/update.h"

namespace weft::bind {
namespace {

using math::update::kMostScalars;
using math::update::kMostStates;
constexpr int kMostNames = kMostScalars + kMostStates;

// ---- a rule, and what its state is called -------------------------------------------------------------

struct PyRule {
  PyObject_HEAD const cpu::UpdateRule* rule;
  PyObject* names[kMostNames];  // of scalars, then of states; owned
};
PyTypeObject* rule_type = nullptr;

int names_of(const PyRule* self) { return self->rule->scalars + self->rule->states; }

// _UpdateRule(name, scalars, states)
PyObject* new_rule(PyTypeObject* type, PyObject* args, PyObject*) {
  const char* name;
  PyObject *scalars, *states;
  if (!PyArg_ParseTuple(args, "sO!O!", &name, &PyTuple_Type, &scalars, &PyTuple_Type, &states)) return nullptr;
  const cpu::UpdateRule* rule = cpu::find_update_rule(name);
  if (!rule) return PyErr_Format(PyExc_ValueError, "there is no update rule '%s'", name);
  if (PyTuple_GET_SIZE(scalars) != rule->scalars || PyTuple_GET_SIZE(states) != rule->states) {
    return PyErr_Format(PyExc_ValueError, "the update rule '%s' keeps %d numbers and %d tensors", name, rule->scalars,
                        rule->states);
  }
  auto* self = PyObject_New(PyRule, type);
  if (!self) return nullptr;
  self->rule = rule;
  for (int k = 0; k < names_of(self); ++k) {
    PyObject* text = k < rule->scalars ? PyTuple_GET_ITEM(scalars, k) : PyTuple_GET_ITEM(states, k - rule->scalars);
    Py_INCREF(text);
    self->names[k] = text;
  }
  return reinterpret_cast<PyObject*>(self);
}
void rule_dealloc(PyObject* object) {
  auto* self = reinterpret_cast<PyRule*>(object);
  for (int k = 0; k < names_of(self); ++k) Py_DECREF(self->names[k]);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF(type);
}

PyType_Slot rule_slots[] = {{Py_tp_new, reinterpret_cast<void*>(new_rule)},
                            {Py_tp_dealloc, reinterpret_cast<void*>(rule_dealloc)},
                            {0, nullptr}};
PyType_Spec rule_spec = {"weft._core._UpdateRule", sizeof(PyRule), 0, Py_TPFLAGS_DEFAULT, rule_slots};

// ---- what an updater remembers ------------------------------------------------------------------------

// A number that changes whenever the dict does. Newer Pythons have none: there, entries are looked up at
// every step.
uint64_t version_of([[maybe_unused]] PyObject* dict) {
#if PY_VERSION_HEX < 0x030C0000
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#else
  static uint64_t never_the_same = 0;
  return ++never_the_same;
#endif
}

struct Entry {
  Ref param;
  Ref state;  // the parameter's own dict in the optimiser's state; null until it has been found
  uint64_t state_version = 0;
  Ref items[kMostNames];  // the tensors in it, as the rule names them
  bool missing = false;   // reported as having no state
};

struct PyUpdater {
  PyObject_HEAD PyRule* rule;  // owned, as is the next
  PyObject* states;            // the optimiser's state; null before the first step
  uint64_t states_version;
  bool running;
  StepNotes doctor;
  std::vector<Entry>* entries;
  std::vector<Update>* updates;  // the same, as the core sees them
};
PyTypeObject* updater_type = nullptr;

void forget(PyUpdater* self) {
  std::vector<Entry> before;
  before.swap(*self->entries);
  self->updates->clear();
  Ref rule(reinterpret_cast<PyObject*>(std::exchange(self->rule, nullptr)));
  Ref states(std::exchange(self->states, nullptr));
}

void remember_rule(PyUpdater* self, PyObject* rule, PyObject* states) {
  forget(self);
  Py_INCREF(rule);
  Py_INCREF(states);
  self->rule = reinterpret_cast<PyRule*>(rule);
  self->states = states;
  self->states_version = 0;
}

void remember_param(PyUpdater* self, Py_ssize_t i, PyObject* param) {
  if (!is_tensor(param))
    fail(ErrorKind::Type, "optimizer can only optimize Tensors, but one of the params is ", Py_TYPE(param)->tp_name);
  Entry& entry = (*self->entries)[i];
  entry = Entry();
  entry.param = Ref::borrowed(param);
  Update& update = (*self->updates)[i];
  update = Update{};
  update.param = impl_of(param);
  update.position = static_cast<int>(i);
}

PyObject* looked_up(PyObject* dict, PyObject* key) {
  PyObject* found = PyDict_GetItemWithError(dict, key);
  if (!found && PyErr_Occurred()) throw PythonError{};
  return found;
}

// Looks for the parameter's tensors. False when some are not there (or are not tensors).
bool find_state(PyUpdater* self, Py_ssize_t i) {
  Entry& entry = (*self->entries)[i];
  Update& update = (*self->updates)[i];
  const cpu::UpdateRule& rule = *self->rule->rule;
  entry.state = Ref();
  PyObject* state = nullptr;
  if (names_of(self->rule) > 0) {
    state = looked_up(self->states, entry.param.get());
    if (!state || !PyDict_Check(state)) return false;
  }
  for (int k = 0; k < names_of(self->rule); ++k) {
    PyObject* item = looked_up(state, self->rule->names[k]);
    if (!item || !is_tensor(item)) return false;
    if (entry.items[k].get() != item) entry.items[k] = Ref::borrowed(item);
    (k < rule.scalars ? update.scalars[k] : update.states[k - rule.scalars]) = impl_of(item);
  }
  if (state) {
    entry.state = Ref::borrowed(state);
    entry.state_version = version_of(state);
  }
  update.fresh |= std::exchange(entry.missing, false);
  return true;
}

bool is_current(const PyUpdater* self, const Entry& entry) {
  return names_of(self->rule) == 0 || (entry.state && version_of(entry.state.get()) == entry.state_version);
}

// ---- a step -------------------------------------------------------------------------------------------

void read_numbers(const PyRule* rule, PyObject* numbers, double* out) {
  if (PyTuple_GET_SIZE(numbers) != rule->rule->numbers)
    fail(ErrorKind::Type, "the update rule '", rule->rule->name, "' takes ", rule->rule->numbers, " numbers");
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(numbers); ++k) {
    PyObject* number = PyTuple_GET_ITEM(numbers, k);
    if (PyFloat_CheckExact(number)) {
      out[k] = PyFloat_AS_DOUBLE(number);
    } else if (PyBool_Check(number)) {
      out[k] = number == Py_True;
    } else {
      Ref converted(checked(PyNumber_Float(number)));  // a tensor of one element too
      out[k] = PyFloat_AS_DOUBLE(converted.get());
    }
  }
}

class Running {
 public:
  explicit Running(PyUpdater* self) : self_(self) {
    if (self->running) fail("step(): this optimizer is in the middle of a step, on another thread");
    self->running = true;
  }
  ~Running() { self_->running = false; }
  Running(const Running&) = delete;

 private:
  PyUpdater* self_;
};

// step(rule, params, states, numbers): updates every parameter that has a gradient, and returns None.
// Where some have no state yet it changes nothing and returns a list of them, for the caller to make
// their state (zeros) and to call again.
PyObject* updater_step(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  auto* self = reinterpret_cast<PyUpdater*>(object);
  if (count != 4 || Py_TYPE(args[0]) != rule_type || !PyList_Check(args[1]) || !PyDict_Check(args[2]) ||
      !PyTuple_Check(args[3])) {
    return PyErr_Format(PyExc_TypeError, "step() takes a rule, a list of parameters, a dict of states, and numbers");
  }
  return guarded([&]() -> PyObject* {
    double numbers[cpu::kMostUpdateNumbers];
    read_numbers(reinterpret_cast<PyRule*>(args[0]), args[3], numbers);
    const Running running(self);
    PyObject *const params = args[1], *const states = args[2];
    if (reinterpret_cast<PyObject*>(self->rule) != args[0] || self->states != states)
      remember_rule(self, args[0], states);
    const bool same_states = version_of(states) == self->states_version;
    const Py_ssize_t length = PyList_GET_SIZE(params);
    std::vector<Entry>& entries = *self->entries;
    std::vector<Update>& updates = *self->updates;
    if (static_cast<Py_ssize_t>(entries.size()) != length) {
      entries.resize(length);
      updates.resize(length);
    }
    Ref missing;
    Py_ssize_t with_gradient = 0;
    for (Py_ssize_t i = 0; i < length; ++i) {
      if (entries[i].param.get() != PyList_GET_ITEM(params, i)) remember_param(self, i, PyList_GET_ITEM(params, i));
      if (!gradient_of(updates[i].param)) {
        if (!same_states) entries[i].state = Ref();  // looked up when it has a gradient again
        continue;
      }
      ++with_gradient;
      if (same_states && is_current(self, entries[i])) continue;
      if (find_state(self, i)) continue;
      if (!missing) missing = Ref(checked(PyList_New(0)));
      if (PyList_Append(missing.get(), entries[i].param.get()) < 0) throw PythonError{};
      entries[i].missing = true;
    }
    if (missing) return missing.release();
    self->states_version = version_of(states);
    const CallersLine line;
    if (with_gradient == 0) {
      if (doctor_is_on) end_step(self->doctor, params, nullptr, 0);
      Py_RETURN_NONE;
    }
    if (with_gradient == length) {
      update_all(*self->rule->rule, numbers, updates);
    } else {
      std::vector<Update> some;
      some.reserve(with_gradient);
      for (const Update& u : updates)
        if (gradient_of(u.param)) some.push_back(u);
      update_all(*self->rule->rule, numbers, some);
    }
    const uint32_t step = begin_step(line.site());
    TensorImpl* stale = nullptr;
    uint32_t used_by = 0;
    for (Update& u : updates) {
      if (!gradient_of(u.param)) continue;
      u.fresh = false;
      if (const uint32_t before = mark_gradient_used(u.param, step)) {
        stale = u.param;
        used_by = before;
      }
    }
    if (doctor_is_on) end_step(self->doctor, params, stale, used_by);
    Py_RETURN_NONE;
  });
}

PyObject* new_updater(PyTypeObject* type, PyObject*, PyObject*) {
  auto* self = reinterpret_cast<PyUpdater*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->entries = new std::vector<Entry>;
  self->updates = new std::vector<Update>;
  return reinterpret_cast<PyObject*>(self);
}

int updater_traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<PyUpdater*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->states);
  Py_VISIT(self->doctor.notes);
  for (const Entry& entry : *self->entries) {
    Py_VISIT(entry.param.get());
    Py_VISIT(entry.state.get());
    for (const Ref& item : entry.items) Py_VISIT(item.get());
  }
  return 0;
}
int updater_clear(PyObject* object) {
  forget(reinterpret_cast<PyUpdater*>(object));
  Py_CLEAR(reinterpret_cast<PyUpdater*>(object)->doctor.notes);
  return 0;
}
void updater_dealloc(PyObject* object) {
  auto* self = reinterpret_cast<PyUpdater*>(object);
  PyObject_GC_UnTrack(object);
  updater_clear(object);
  delete self->entries;
  delete self->updates;
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_Del(object);
  Py_DECREF(type);
}

PyMethodDef updater_methods[] = {{"step", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(updater_step)),
                                  METH_FASTCALL, "Updates all parameters of a group that have a gradient."},
                                 {}};
PyType_Slot updater_slots[] = {{Py_tp_new, reinterpret_cast<void*>(new_updater)},
                               {Py_tp_dealloc, reinterpret_cast<void*>(updater_dealloc)},
                               {Py_tp_traverse, reinterpret_cast<void*>(updater_traverse)},
                               {Py_tp_clear, reinterpret_cast<void*>(updater_clear)},
                               {Py_tp_methods, updater_methods},
                               {0, nullptr}};
PyType_Spec updater_spec = {"weft._core._Updater", sizeof(PyUpdater), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                            updater_slots};

// _clear_gradients(params): sets `.grad` of each to None.
PyObject* clear_gradients(PyObject*, PyObject* params) {
  return guarded([&]() -> PyObject* {
    Ref list(checked(PySequence_Fast(params, "expected a sequence of tensors")));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
      TensorImpl* t = tensor_argument(PySequence_Fast_GET_ITEM(list.get(), i));
      if (t->extra && t->extra->grad) const Tensor before = std::move(t->extra->grad);
    }
    Py_RETURN_NONE;
  });
}

PyMethodDef module_functions[] = {{"_clear_gradients", clear_gradients, METH_O, nullptr}, {}};

}  // namespace

bool init_optimisers(PyObject* module) {
  rule_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&rule_spec));
  updater_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&updater_spec));
  return rule_type && updater_type &&
         PyModule_AddObjectRef(module, "_UpdateRule", reinterpret_cast<PyObject*>(rule_type)) == 0 &&
         PyModule_AddObjectRef(module, "_Updater", reinterpret_cast<PyObject*>(updater_type)) == 0 &&
         PyModule_AddFunctions(module, module_functions) == 0;
}

}  // namespace weft::bind
