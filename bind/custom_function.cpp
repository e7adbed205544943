// weft.autograd.Function: apply(), and the nodes it records. weft/autograd/function.py is the other half:
// the context, and results that need thought (several, views, inputs, dirty ones).
#include <cstring>

#include "bind/saved_value.h"
#include "bind/user_site.h"
#include "core/autograd/engine.h"
#include "core/ops/functions.h"

namespace weft::bind {

std::vector<Tensor> tensor_list(PyObject* sequence, const char* what, bool none_allowed);

namespace {

// Of weft/autograd/function.py, handed over when it is imported.
struct Parts {
  PyObject* context_type;                    // FunctionCtx
  PyObject* finish;                          // finish(cls, context, args, result, recording)
  PyObject* positional;                      // positional(forward, args, kwargs)
  PyObject *setup_context, *backward, *vjp;  // those that Function itself has
} parts{};

struct Names {
  PyObject *forward, *setup_context, *backward, *vjp, *needs_input_grad, *to_save, *dirty_tensors, *non_differentiable,
      *materialize_grads, *saved, *node;
} names{};

// A Python object in a node.
class Held {
 public:
  Held() = default;
  explicit Held(PyObject* o) : object_(o) { Py_INCREF(o); }
  Held(const Held& other) : object_(other.object_) { Py_XINCREF(object_); }
  Held& operator=(const Held&) = delete;
  ~Held() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  bool operator==(const Held& other) const { return object_ == other.object_; }
  const char* begin() const { return nullptr; }  // no part in hashing
  const char* end() const { return nullptr; }

 private:
  PyObject* object_ = nullptr;
};

struct PythonFunction {
  static constexpr Schema schema{"python_function(Tensor[] inputs) -> Tensor"};
  static constexpr uint32_t traits = kInternal | kRunsWithoutGradient;
  Held function;                 // the class
  Held context;                  // what backward calls `ctx`
  std::vector<uint32_t> places;  // of the tensors among forward's arguments
  std::string results;           // what forward returned: t for a tensor, - for anything else

  static void vjp(Backward& b);
};

bool is_true(PyObject* o, PyObject* name) {
  Ref value(checked(PyObject_GetAttr(o, name)));
  const int truth = PyObject_IsTrue(value.get());
  if (truth < 0) throw PythonError{};
  return truth != 0;
}

// `backward`, or `vjp`, which is another name for it.
Ref rule_of(PyObject* function) {
  Ref backward(checked(PyObject_GetAttr(function, names.backward)));
  Ref vjp(checked(PyObject_GetAttr(function, names.vjp)));
  if (vjp.get() == parts.vjp) return backward;
  if (backward.get() != parts.backward) {
    fail(
        "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
        "implement one of them.");
  }
  return vjp;
}

// Takes what the user's backward returned apart.
void take_gradients(Backward& b, const PythonFunction& f, PyObject* found) {
  Ref tuple(checked(PyTuple_Check(found) ? Ref::borrowed(found).release() : PyTuple_Pack(1, found)));
  Ref needs(checked(PyObject_GetAttr(f.context.get(), names.needs_input_grad)));
  const Py_ssize_t expected = PyTuple_GET_SIZE(needs.get());
  Py_ssize_t count = PyTuple_GET_SIZE(tuple.get());
  while (count > expected && PyTuple_GET_ITEM(tuple.get(), count - 1) == Py_None) --count;
  if (count != expected) {
    fail("function ", b.node()->name(), " returned an incorrect number of gradients (expected ", expected, ", got ",
         PyTuple_GET_SIZE(tuple.get()), ")");
  }
  size_t next = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const bool was_tensor = next < f.places.size() && f.places[next] == static_cast<uint32_t>(i);
    const int input = was_tensor ? static_cast<int>(next++) : -1;
    PyObject* g = PyTuple_GET_ITEM(tuple.get(), i);
    if (g == Py_None) continue;
    if (!was_tensor) {
      fail("function ", b.node()->name(), " returned a gradient different from None at position ", i + 1,
           ", but the corresponding forward input was not a Variable");
    }
    if (!is_tensor(g)) {
      fail(ErrorKind::Type, "expected Variable or None (got ", Py_TYPE(g)->tp_name, ") as gradient ", i + 1, " of ",
           b.node()->name());
    }
    if (b.node()->edges()[input]) b.set(input, Tensor::share(impl_of(g)));
  }
}

void PythonFunction::vjp(Backward& b) {
  const PythonFunction& f = b.op<PythonFunction>();
  const Ref function = Ref::borrowed(f.function.get()), ctx = Ref::borrowed(f.context.get());
  const bool materialize = is_true(ctx.get(), names.materialize_grads);
  std::vector<Ref> gradients;
  std::vector<PyObject*> arguments{ctx.get()};
  int k = 0;
  for (char kind : f.results) {
    Tensor g;
    if (kind == 't') {
      g = b.grad(k);
      if (!g && materialize) g = zeros(b.output_sizes(k), b.output_dtype(k));
      ++k;
    }
    gradients.emplace_back(checked(wrap(std::move(g))));
    arguments.push_back(gradients.back().get());
  }
  Ref node(checked(wrap_node(b.node())));
  // While backward runs, the context knows its node: saved results get their history from it.
  struct Linked {
    PyObject* context;
    ~Linked() {
      PyObject *type, *value, *trace;
      PyErr_Fetch(&type, &value, &trace);
      if (PyObject_SetAttr(context, names.node, Py_None) < 0) PyErr_Clear();
      PyErr_Restore(type, value, trace);
    }
  } linked{ctx.get()};
  if (PyObject_SetAttr(ctx.get(), names.node, node.get()) < 0) throw PythonError{};
  // The lines that run now are the user's own.
  const UserCode user_code;
  const Ref rule = rule_of(function.get());
  Ref found(checked(PyObject_Vectorcall(rule.get(), arguments.data(), arguments.size(), nullptr)));
  take_gradients(b, f, found.get());
}

void release_python_function(void* fields) {
  PyObject* ctx = static_cast<PythonFunction*>(fields)->context.get();
  if (PyObject_SetAttr(ctx, names.saved, Py_None) < 0) PyErr_Clear();
}
constexpr OpTable python_function_table() {
  OpTable t = make_table<PythonFunction>("PythonFunction");
  t.on_release = release_python_function;
  return t;
}
constexpr OpTable op_PythonFunction = python_function_table();

// A view that a custom function returns has the history the function gives it, and must keep it:
// writing to the view or to its base would put another in its place.
void limit_view(TensorImpl* t, bool one_of_several) {
  t->view_version = t->storage->version;
  t->flags = (t->flags & ~kViewLimits) | (one_of_several ? kViewMultiple : kViewInFunction);
}

struct Result {
  Tensor tensor;
  bool differentiable, dirty;
};

void record_function(const PythonFunction& op, const std::vector<TensorImpl*>& inputs, std::span<Result> results) {
  if (results.size() > 255) fail("a custom function may have at most 255 results, got ", results.size());
  for (TensorImpl* t : inputs) needs_grad(t);
  std::vector<Tensor> out;
  int with_history = 0;
  for (const Result& r : results) {
    out.push_back(r.tensor);
    with_history += r.differentiable;
  }
  Node* n = record_node(op_PythonFunction, &op, Inputs(inputs.data(), static_cast<int>(inputs.size())), out.data(),
                        static_cast<int>(out.size()), nullptr);
  struct Release {
    Node* n;
    ~Release() { release(n); }
  } held{n};
  extra_of(n).name = std::string(reinterpret_cast<PyTypeObject*>(op.function.get())->tp_name) + "Backward";
  for (size_t k = 0; k < results.size(); ++k) {
    TensorImpl* t = out[k].get();
    if (!results[k].differentiable) continue;
    retain(n);
    if (results[k].dirty) {
      rebase_history(t, n, static_cast<int>(k));
    } else {
      set_history(t, n, static_cast<int>(k));
      if (t->base) limit_view(t, with_history > 1);
    }
    // Backward may refer to the result, which owns it.
    Ref object(checked(wrap(out[k])));
    if (!PyObject_GC_IsTracked(object.get())) PyObject_GC_Track(object.get());
  }
}

// _record_function(cls, context, places, results, inputs, outputs, differentiable, dirty)
PyObject* m_record_function(PyObject*, PyObject* args) {
  PyObject *function, *ctx, *places, *inputs, *outputs, *differentiable, *dirty;
  const char* results;
  if (!PyArg_ParseTuple(args, "OOOsOOOO", &function, &ctx, &places, &results, &inputs, &outputs, &differentiable,
                        &dirty)) {
    return nullptr;
  }
  return guarded([&]() -> PyObject* {
    PythonFunction op{Held(function), Held(ctx), {}, results};
    Dims at;
    if (!dims_from(places, &at)) fail(ErrorKind::Type, "places must be integers");
    op.places.assign(at.begin(), at.end());
    const std::vector<Tensor> in = tensor_list(inputs, "inputs", false);
    std::vector<TensorImpl*> items;
    for (const Tensor& t : in) items.push_back(t.get());
    std::vector<Result> all;
    for (Tensor& t : tensor_list(outputs, "outputs", false)) {
      const auto k = static_cast<Py_ssize_t>(all.size());
      all.push_back({std::move(t), PySequence_Fast_ITEMS(differentiable)[k] == Py_True,
                     PySequence_Fast_ITEMS(dirty)[k] == Py_True});
    }
    record_function(op, items, all);
    Py_RETURN_NONE;
  });
}

bool is_empty_tuple(PyObject* ctx, PyObject* name) {
  Ref value(checked(PyObject_GetAttr(ctx, name)));
  return PyTuple_Check(value.get()) && PyTuple_GET_SIZE(value.get()) == 0;
}

// ctx.save_for_backward() has only noted what to save.
void save_tensors(PyObject* ctx, PyObject* result) {
  Ref wanted(checked(PyObject_GetAttr(ctx, names.to_save)));
  const Py_ssize_t count = PyTuple_GET_SIZE(wanted.get());
  if (count == 0) return;
  Ref saved(checked(PyTuple_New(count)));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PyTuple_GET_ITEM(wanted.get(), i);
    if (item == Py_None) Py_INCREF(item);
    else item = save_value(item, item == result ? 0 : -1);
    PyTuple_SET_ITEM(saved.get(), i, item);
  }
  Ref none(checked(PyTuple_New(0)));
  if (PyObject_SetAttr(ctx, names.saved, saved.get()) < 0 || PyObject_SetAttr(ctx, names.to_save, none.get()) < 0) {
    throw PythonError{};
  }
}

// One new floating-point tensor and no special wishes: the usual case.
bool is_simple(PyObject* result, PyObject* ctx, PyObject* const* args, Py_ssize_t count) {
  if (!is_tensor(result) || !is_floating(impl_of(result)->dtype)) return false;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (args[i] == result) return false;
  return is_empty_tuple(ctx, names.dirty_tensors) && is_empty_tuple(ctx, names.non_differentiable);
}

PyObject* apply(PyObject* cls, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    Ref forward(checked(PyObject_GetAttr(cls, names.forward)));
    Ref setup(checked(PyObject_GetAttr(cls, names.setup_context)));
    const bool takes_context = setup.get() == parts.setup_context;
    Ref resolved;
    if (keywords && takes_context) {
      fail(ErrorKind::Type, reinterpret_cast<PyTypeObject*>(cls)->tp_name,
           ".apply() takes no keyword arguments, unless the function has a setup_context");
    }
    if (!takes_context) {
      // A rule gives one gradient for each parameter, so names and defaults are resolved first.
      Ref given(checked(PyTuple_New(count))), named(checked(PyDict_New()));
      for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(given.get(), i, Ref::borrowed(args[i]).release());
      for (Py_ssize_t i = 0; keywords && i < PyTuple_GET_SIZE(keywords); ++i) {
        if (PyDict_SetItem(named.get(), PyTuple_GET_ITEM(keywords, i), args[count + i]) < 0) throw PythonError{};
      }
      resolved = Ref(
          checked(PyObject_CallFunctionObjArgs(parts.positional, forward.get(), given.get(), named.get(), nullptr)));
      args = PySequence_Fast_ITEMS(resolved.get());
      count = PyTuple_GET_SIZE(resolved.get());
    }
    Ref ctx(checked(PyObject_CallNoArgs(parts.context_type)));
    Ref needs(checked(PyTuple_New(count)));
    bool any = false;
    for (Py_ssize_t i = 0; i < count; ++i) {
      const bool on = is_tensor(args[i]) && shows_requires_grad(impl_of(args[i]));
      any = any || on;
      PyTuple_SET_ITEM(needs.get(), i, PyBool_FromLong(on));
    }
    if (PyObject_SetAttr(ctx.get(), names.needs_input_grad, needs.get()) < 0) throw PythonError{};
    const bool recording = context().grad_enabled && any;
    std::vector<PyObject*> with_context{ctx.get()};
    with_context.insert(with_context.end(), args, args + count);

    const GradMode off(false);
    Ref result(checked(takes_context
                           ? PyObject_Vectorcall(forward.get(), with_context.data(), with_context.size(), nullptr)
                           : PyObject_Vectorcall(forward.get(), args, static_cast<size_t>(count), nullptr)));
    if (!takes_context) {
      Ref done(checked(PyObject_CallFunctionObjArgs(setup.get(), ctx.get(), resolved.get(), result.get(), nullptr)));
    }
    const CallersLine line;
    if (!recording || !is_simple(result.get(), ctx.get(), args, count)) {
      Ref all(checked(PyTuple_New(count)));
      for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(all.get(), i, Ref::borrowed(args[i]).release());
      return checked(PyObject_CallFunctionObjArgs(parts.finish, cls, ctx.get(), all.get(), result.get(),
                                                  recording ? Py_True : Py_False, nullptr));
    }
    PythonFunction op{Held(cls), Held(ctx.get()), {}, "t"};
    std::vector<TensorImpl*> inputs;
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (!is_tensor(args[i])) continue;
      op.places.push_back(static_cast<uint32_t>(i));
      inputs.push_back(impl_of(args[i]));
    }
    Result one{Tensor::share(impl_of(result.get())), true, false};
    record_function(op, inputs, {&one, 1});
    save_tensors(ctx.get(), result.get());
    return result.release();
  });
}

// _set_function_parts(FunctionCtx, finish, positional, setup_context, backward, vjp)
PyObject* set_parts(PyObject*, PyObject* args) {
  PyObject** const all[] = {&parts.context_type,  &parts.finish,   &parts.positional,
                            &parts.setup_context, &parts.backward, &parts.vjp};
  if (!PyArg_ParseTuple(args, "OOOOOO", all[0], all[1], all[2], all[3], all[4], all[5])) return nullptr;
  for (PyObject** part : all) Py_INCREF(*part);  // for as long as the process lives
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"_record_function", m_record_function, METH_VARARGS, nullptr},
                           {"_set_function_parts", set_parts, METH_VARARGS, nullptr},
                           {}};
PyMethodDef base_methods[] = {{"apply", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(apply)),
                               METH_CLASS | METH_FASTCALL | METH_KEYWORDS,
                               "apply($cls, *args, **kwargs)\n--\n\nRuns the function and records it."},
                              {}};
PyType_Slot base_slots[] = {{Py_tp_methods, base_methods}, {0, nullptr}};
PyType_Spec base_spec = {"weft._core.FunctionBase", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                         base_slots};

const PythonFunction* function_of(Node* n) {
  return n->op == &op_PythonFunction ? reinterpret_cast<PythonFunction*>(n->fields()) : nullptr;
}

}  // namespace

PyObject* function_context(Node* n) {
  const PythonFunction* f = function_of(n);
  return f ? f->context.get() : nullptr;
}

int visit_function(Node* n, visitproc visit, void* arg) {
  if (const PythonFunction* f = function_of(n)) Py_VISIT(f->context.get());
  return 0;
}

bool init_custom_functions(PyObject* module) {
  names = {interned("forward"),
           interned("setup_context"),
           interned("backward"),
           interned("vjp"),
           interned("needs_input_grad"),
           interned("to_save"),
           interned("dirty_tensors"),
           interned("non_differentiable"),
           interned("materialize_grads"),
           interned("_saved"),
           interned("_node")};
  Ref base(PyType_FromSpec(&base_spec));
  return base && PyModule_AddObjectRef(module, "FunctionBase", base.get()) == 0 && init_saved_values(module) &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace weft::bind
