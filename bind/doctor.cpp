// The core's observations on the way to weft/doctor, which is imported when the first one is made.
#include "bind/doctor.h"

#include "bind/user_site.h"

namespace weft::bind {

bool doctor_is_on = true;

namespace {

bool step_awaited = false;  // the doctor has a question that the next step answers
uint32_t step_number = 0;   // of the optimiser that stepped last, counted by itself

// Calls weft.doctor._events.NAME(...). Nothing the doctor thinks stops a program, unless it raises on purpose.
template <class... Arguments>
Ref ask(const char* name, Arguments... arguments) {
  const Ref events(checked(PyImport_ImportModule("weft.doctor._events")));
  const Ref handler(checked(PyObject_GetAttrString(events.get(), name)));
  return Ref(checked(PyObject_CallFunctionObjArgs(handler.get(), arguments..., nullptr)));
}

// ---- lines -------------------------------------------------------------------------------------------

// Lines of the last steps, by number; code objects are owned.
constexpr uint32_t kStepsKept = 64;
constexpr uint32_t kPlainLeaves = 1000;
CallSite step_sites[kStepsKept];
uint32_t steps_taken = 0;
CallSite stale_site;  // the last line whose backward added to used gradients

void keep(CallSite& where, CallSite line) {
  Py_XINCREF(static_cast<PyObject*>(line.code));
  Py_XDECREF(static_cast<PyObject*>(std::exchange(where, line).code));
}

// ---- what the core notices ---------------------------------------------------------------------------

void stale_gradient(TensorImpl*) {
  const CallSite line = python.current_site();
  keep(stale_site, line);
  if (line.code) python.release(line.code);
}
void unoptimised_leaf(TensorImpl* leaf) {
  // Of plain leaf tensors nobody expects a step, unless a module holds them: the first few are looked at.
  // Parameters are objects of a class of their own.
  static uint32_t plain_leaves = 0;
  const Ref tensor(checked(wrap(Tensor::share(leaf))));
  if (is_exact_tensor(tensor.get()) && ++plain_leaves > kPlainLeaves) return;
  ask("unoptimised_leaf", tensor.get());
}
void suspicious_broadcast(Node* n) { ask("suspicious_broadcast", Ref(checked(wrap_node(n))).get()); }
void no_history(TensorImpl* root) { ask("no_history", Ref(checked(wrap(Tensor::share(root)))).get()); }

PyObject* set_doctor(PyObject*, PyObject* on) {
  const int truth = PyObject_IsTrue(on);
  if (truth < 0) return nullptr;
  const bool before = std::exchange(doctor_is_on, truth != 0);
  const PythonHooks nothing;
  python.stale_gradient = truth ? stale_gradient : nothing.stale_gradient;
  python.unoptimised_leaf = truth ? unoptimised_leaf : nothing.unoptimised_leaf;
  python.suspicious_broadcast = truth ? suspicious_broadcast : nothing.suspicious_broadcast;
  python.no_history = truth ? no_history : nothing.no_history;
  return PyBool_FromLong(before);
}

// ---- what the doctor asks ----------------------------------------------------------------------------

PyObject* await_step(PyObject*, PyObject*) {
  step_awaited = true;
  Py_RETURN_NONE;
}

PyObject* set_trace_cuts(PyObject*, PyObject* on) {
  const int truth = PyObject_IsTrue(on);
  if (truth < 0) return nullptr;
  context().trace_cuts = truth;
  Py_RETURN_NONE;
}

// [(text, mark, the node whose history ended there)]
PyObject* m_take_traced_cuts(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    Ref list(checked(PyList_New(0)));
    for (const TracedCut& t : take_traced_cuts()) {
      const Ref entry(Py_BuildValue("(sNN)", cut_name(t.cut).c_str(), wrap_node(t.cut), wrap_node(t.source)));
      release(t.cut);
      release(t.source);
      if (!entry || PyList_Append(list.get(), entry.get()) < 0) throw PythonError{};
    }
    return list.release();
  });
}

// _cut_node(tensor) -> (text, mark) of what cut the tensor off, or None
PyObject* cut_node(PyObject*, PyObject* tensor) {
  return guarded([&]() -> PyObject* {
    const TensorImpl* t = tensor_argument(tensor);
    if (!is_cut(t)) Py_RETURN_NONE;
    return checked(Py_BuildValue("(sN)", cut_name(t->grad_fn).c_str(), wrap_node(t->grad_fn)));
  });
}

// The arguments of a loss differ in shape.
PyObject* note_loss_sizes(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count != 2) fail(ErrorKind::Type, "_note_loss_sizes() takes two tensors");
    const bool recorded = tensor_argument(args[0])->requires_grad() || tensor_argument(args[1])->requires_grad();
    if (doctor_is_on && recorded && context().grad_enabled) ask("loss_sizes", args[0], args[1]);
    Py_RETURN_NONE;
  });
}

PyObject* get_step_number(PyObject*, PyObject*) { return PyLong_FromUnsignedLong(step_number); }
PyObject* forget_steps(PyObject*, PyObject*) {
  step_number = 0;
  Py_RETURN_NONE;
}

// A step that was not taken by the core: _observe_step(notes, params, frame), where the dict `notes` is the
// group's, and the frame that of the user's code that called step().
PyObject* observe_step(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count != 3 || !PyDict_Check(args[0]) || !PyList_Check(args[1]) || !PyFrame_Check(args[2])) {
      fail(ErrorKind::Type, "_observe_step() takes a dict, a list of tensors and a frame");
    }
    if (!doctor_is_on) Py_RETURN_NONE;
    auto* const frame = reinterpret_cast<PyFrameObject*>(args[2]);
    const Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    const uint32_t step = begin_step({code.get(), PyFrame_GetLasti(frame)});
    TensorImpl* stale = nullptr;
    uint32_t used_by = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[1]); ++i) {
      TensorImpl* leaf = tensor_argument(PyList_GET_ITEM(args[1], i));
      if (const uint32_t before = mark_gradient_used(leaf, step)) {
        stale = leaf;
        used_by = before;
      }
    }
    PyObject* taken = PyDict_GetItemString(args[0], "steps");
    StepNotes own{Ref::borrowed(args[0]).release(), taken ? static_cast<uint32_t>(PyLong_AsLong(taken)) : 0, 0};
    const Ref held(own.notes);
    end_step(own, args[1], stale, used_by);
    const Ref steps(checked(PyLong_FromUnsignedLong(own.steps)));
    if (PyDict_SetItemString(args[0], "steps", steps.get()) < 0) throw PythonError{};
    Py_RETURN_NONE;
  });
}

PyObject* last_read(PyObject*, PyObject*) { return site_object(context().last_read); }

PyObject* mark_optimised(PyObject*, PyObject* tensor) {
  return guarded([&]() -> PyObject* {
    tensor_argument(tensor)->flags |= kOptimised;
    Py_RETURN_NONE;
  });
}
PyObject* is_optimised(PyObject*, PyObject* tensor) {
  return guarded([&] { return PyBool_FromLong(tensor_argument(tensor)->has(kOptimised)); });
}

PyMethodDef functions[] = {
    {"_set_doctor", set_doctor, METH_O, "Whether observations are handed to weft.doctor; returns what was."},
    {"_await_step", await_step, METH_NOARGS, "The next step of any optimiser is told to the doctor."},
    {"_set_trace_cuts", set_trace_cuts, METH_O, "Whether every cut of a chain is listed with what it cut off."},
    {"_take_traced_cuts", m_take_traced_cuts, METH_NOARGS, "The list: (name, mark, node whose history ended)."},
    {"_cut_node", cut_node, METH_O, "(name, mark) of what cut this tensor off from its history, or None."},
    {"_last_read", last_read, METH_NOARGS, "Where a value with history was last turned into a plain number."},
    {"_step_number", get_step_number, METH_NOARGS, "How many steps the optimiser that stepped last has taken."},
    {"_forget_steps", forget_steps, METH_NOARGS, "No optimiser has stepped yet."},
    {"_note_loss_sizes", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(note_loss_sizes)), METH_FASTCALL,
     "The arguments of a loss differ in shape."},
    {"_observe_step", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(observe_step)), METH_FASTCALL,
     "A group's step that the core did not take itself: (notes, params, frame)."},
    {"_mark_optimised", mark_optimised, METH_O, "This leaf belongs to an optimiser."},
    {"_is_optimised", is_optimised, METH_O, "Whether this leaf belongs to an optimiser."},
    {}};

}  // namespace

uint32_t begin_step(CallSite caller) {
  if (++steps_taken == 0) ++steps_taken;  // 0 means none
  keep(step_sites[steps_taken % kStepsKept], caller);
  return steps_taken;
}

void end_step(StepNotes& own, PyObject* params, TensorImpl* stale, uint32_t used_by) {
  step_number = ++own.steps;
  if (stale) {
    const bool known = steps_taken - used_by < kStepsKept;
    const Ref parameter(checked(wrap(Tensor::share(stale))));
    const Ref cause(checked(site_object(known ? step_sites[used_by % kStepsKept] : CallSite{})));
    const Ref symptom(checked(site_object(stale_site)));
    ask("stale_gradient", parameter.get(), cause.get(), symptom.get());
  }
  if (own.steps < own.next && !step_awaited) return;
  if (!own.notes) own.notes = checked(PyDict_New());
  step_awaited = false;
  const Ref asleep = ask("step", own.notes, params);
  const long steps = PyLong_AsLong(asleep.get());
  if (steps < 0 && PyErr_Occurred()) throw PythonError{};
  own.next = own.steps + static_cast<uint32_t>(steps) + 1;
}

bool note_mode_mismatch(PyObject* module, PyObject* result) {
  return PyObject_IsTrue(ask("mode_mismatch", module, result).get()) == 1;
}

bool init_doctor(PyObject* module) {
  const Ref before(set_doctor(nullptr, Py_True));
  return before && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace weft::bind
