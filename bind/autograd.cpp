// Backward, gradient modes, custom functions: what weft/autograd is written with.
#include <cstring>

#include "bind/object.h"
#include "core/autograd/engine.h"
#include "core/ops/functions.h"
#include "core/schedule/deferred.h"
#include "core/tensor/promotion.h"

namespace weft::bind {

Node* node_from(PyObject* o);

namespace {

std::vector<Tensor> tensor_list(PyObject* sequence, const char* what, bool none_allowed) {
  std::vector<Tensor> out;
  Ref fast(checked(PySequence_Fast(sequence, "expected a sequence of tensors")));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) {
    PyObject* item = PySequence_Fast_ITEMS(fast.get())[i];
    if (item == Py_None && none_allowed) out.emplace_back();
    else if (is_tensor(item)) out.push_back(Tensor::share(impl_of(item)));
    else fail(ErrorKind::Type, what, " must be Tensors", none_allowed ? " or None" : "", ", got ", Py_TYPE(item)->tp_name);
  }
  return out;
}

// _backward(roots, gradients, keep_graph, create_graph, inputs or None, into_grad, allow_unused)
PyObject* backward(PyObject*, PyObject* args) {
  PyObject *roots, *gradients, *inputs;
  int keep, create, into_grad, allow_unused;
  if (!PyArg_ParseTuple(args, "OOppOpp", &roots, &gradients, &keep, &create, &inputs, &into_grad, &allow_unused)) return nullptr;
  return guarded([&]() -> PyObject* {
    const auto root_list = tensor_list(roots, "the tensors to differentiate", false);
    const auto gradient_list = tensor_list(gradients, "gradients", true);
    std::vector<Tensor> input_list;
    if (inputs != Py_None) input_list = tensor_list(inputs, "inputs", false);
    BackwardRequest request{root_list, gradient_list, keep != 0, create != 0, input_list, into_grad != 0, allow_unused != 0};
    std::vector<Tensor> result = run_backward(request);
    return wrap_list(result, true);
  });
}

// tensor.backward() with nothing given, without a detour through Python.
PyObject* plain_backward(PyObject*, PyObject* tensor) {
  return guarded([&]() -> PyObject* {
    const Tensor root = Tensor::share(impl_of(tensor));
    run_backward({.roots = {&root, 1}});
    Py_RETURN_NONE;
  });
}

PyObject* is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(context().grad_enabled); }
PyObject* set_grad_enabled(PyObject*, PyObject* on) {
  Context& now = context();
  now.grad_enabled = PyObject_IsTrue(on);
  if (now.cut) release(std::exchange(now.cut, nullptr));
  Py_RETURN_NONE;
}
PyObject* is_inference(PyObject*, PyObject*) { return PyBool_FromLong(context().inference); }
PyObject* set_inference(PyObject*, PyObject* on) {
  context().inference = PyObject_IsTrue(on);
  Py_RETURN_NONE;
}
PyObject* set_anomaly(PyObject*, PyObject* args) {
  int on, check_nan;
  if (!PyArg_ParseTuple(args, "pp", &on, &check_nan)) return nullptr;
  context().anomaly = on;
  context().anomaly_check_nan = check_nan;
  Py_RETURN_NONE;
}
PyObject* get_anomaly(PyObject*, PyObject*) {
  return Py_BuildValue("(NN)", PyBool_FromLong(context().anomaly), PyBool_FromLong(context().anomaly_check_nan));
}
PyObject* set_provenance(PyObject*, PyObject* on) {
  context().record_sites = PyObject_IsTrue(on);
  Py_RETURN_NONE;
}
PyObject* live_counts(PyObject*, PyObject*) {
  return Py_BuildValue("{s:L, s:L, s:L, s:L}", "tensors", (long long)live.tensors, "storages", (long long)live.storages,
                       "nodes", (long long)live.nodes, "bytes", (long long)live.bytes);
}

// ---- custom functions ------------------------------------------------------------------------------

// The node of a weft.autograd.Function: `backward` is called with the gradients of the results.
struct PythonFunction {
  static constexpr Schema schema{"python_function(Tensor[] inputs) -> Tensor"};
  static constexpr uint32_t traits = kInternal;
  struct Callback {
    PyObject* object = nullptr;
    Callback() = default;
    explicit Callback(PyObject* o) : object(o) { Py_INCREF(o); }
    Callback(const Callback& other) : object(other.object) { Py_XINCREF(object); }
    Callback& operator=(const Callback&) = delete;
    ~Callback() { Py_XDECREF(object); }
    bool operator==(const Callback& other) const { return object == other.object; }
    const char* begin() const { return nullptr; }  // no part in hashing
    const char* end() const { return nullptr; }
  } backward;

  static void vjp(Backward& b) {
    const int outputs = b.node()->outputs;
    Ref grads(checked(PyTuple_New(outputs)));
    for (int k = 0; k < outputs; ++k) PyTuple_SET_ITEM(grads.get(), k, checked(wrap(b.grad(k))));
    Ref needs(checked(PyTuple_New(b.inputs())));
    for (int i = 0; i < b.inputs(); ++i) PyTuple_SET_ITEM(needs.get(), i, PyBool_FromLong(b.needs(i)));
    Ref node(checked(wrap_node(b.node())));
    Ref result(checked(PyObject_CallFunctionObjArgs(b.op<PythonFunction>().backward.object, grads.get(), needs.get(), node.get(), nullptr)));
    for (int i = 0; i < b.inputs(); ++i) {
      PyObject* g = PyTuple_GET_ITEM(result.get(), i);
      if (g != Py_None) b.set(i, Tensor::share(impl_of(g)));
    }
  }
};

void release_python_function(void* fields) {
  Ref done(PyObject_CallMethod(static_cast<PythonFunction*>(fields)->backward.object, "release", nullptr));
  if (!done) PyErr_Clear();
}
constexpr OpTable python_function_table() {
  OpTable t = make_table<PythonFunction>("PythonFunction");
  t.on_release = release_python_function;
  return t;
}
constexpr OpTable op_PythonFunction = python_function_table();

// The line of the user's that called Function.apply: weft's own frames above it are passed over.
class UserCode {
 public:
  UserCode() : before_(context().user_site), depth_(context().user_site_depth) {
    if (depth_ > 0 || !context().record_sites) return;
    PyFrameObject* frame = PyEval_GetFrame();
    Py_XINCREF(frame);
    while (frame) {
      PyCodeObject* code = PyFrame_GetCode(frame);
      Ref held(reinterpret_cast<PyObject*>(code));
      if (!is_weft_code(code)) {
        context().user_site = {held.release(), PyFrame_GetLasti(frame)};
        context().user_site_depth = 1;
        break;
      }
      PyFrameObject* caller = PyFrame_GetBack(frame);
      Py_DECREF(frame);
      frame = caller;
    }
    Py_XDECREF(frame);
  }
  ~UserCode() {
    if (depth_ == 0 && context().user_site_depth == 1) Py_XDECREF(static_cast<PyObject*>(context().user_site.code));
    context().user_site = before_;
    context().user_site_depth = depth_;
  }
  UserCode(const UserCode&) = delete;

 private:
  static bool is_weft_code(PyCodeObject* code) {
    Ref name(PyObject_GetAttrString(reinterpret_cast<PyObject*>(code), "co_filename"));
    const char* file = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
    return file && std::strstr(file, "/weft/autograd/");
  }

  CallSite before_;
  int depth_;
};

// _record_function(callback, name, inputs, outputs, differentiable, dirty) -> node
PyObject* record_function(PyObject*, PyObject* args) {
  PyObject *callback, *inputs, *outputs, *differentiable, *dirty;
  const char* name;
  if (!PyArg_ParseTuple(args, "OsOOOO", &callback, &name, &inputs, &outputs, &differentiable, &dirty)) return nullptr;
  return guarded([&]() -> PyObject* {
    std::vector<Tensor> in = tensor_list(inputs, "inputs", true), out = tensor_list(outputs, "outputs", false);
    if (out.size() > 255) fail("a custom function may have at most 255 results, got ", out.size());
    std::vector<TensorImpl*> items;
    for (const Tensor& t : in) {
      if (t) needs_grad(t.get());
      items.push_back(t.get());
    }
    const PythonFunction op{PythonFunction::Callback(callback)};
    const UserCode line;
    Node* n = record_node(op_PythonFunction, &op, Inputs(items.data(), static_cast<int>(items.size())), out.data(),
                          static_cast<int>(out.size()), nullptr);
    struct Release { Node* n; ~Release() { release(n); } } held{n};
    extra_of(n).name = name;
    for (size_t k = 0; k < out.size(); ++k) {
      if (PyTuple_GET_ITEM(differentiable, k) != Py_True) continue;
      retain(n);
      if (PyTuple_GET_ITEM(dirty, k) == Py_True) {
        rebase_history(out[k].get(), n, static_cast<int>(k));
      } else {
        if (out[k]->grad_fn) release(out[k]->grad_fn);
        out[k]->grad_fn = n;
        out[k]->output_nr = static_cast<uint16_t>(k);
        out[k]->flags |= kRequiresGrad;
      }
    }
    return wrap_node(n);
  });
}

// _with_history(values, node, output_nr): values as result `output_nr` of `node`, for saved results.
PyObject* with_history(PyObject*, PyObject* args) {
  PyObject *tensor, *node;
  int output_nr;
  if (!PyArg_ParseTuple(args, "OOi", &tensor, &node, &output_nr)) return nullptr;
  return guarded([&]() -> PyObject* {
    Tensor t = alias(Tensor::share(impl_of(tensor)));
    if (Node* n = node_from(node)) {
      retain(n);
      t->grad_fn = n;
      t->output_nr = static_cast<uint16_t>(output_nr);
      t->flags |= kRequiresGrad;
    }
    return wrap(std::move(t));
  });
}

// _alias(tensor): another tensor over the same memory, without history.
PyObject* plain_alias(PyObject*, PyObject* tensor) {
  return guarded([&] {
    ensure_value(impl_of(tensor));
    return wrap(alias(Tensor::share(impl_of(tensor))));
  });
}
PyObject* bump_version(PyObject*, PyObject* tensor) {
  return guarded([&]() -> PyObject* {
    note_write(impl_of(tensor));
    Py_RETURN_NONE;
  });
}
PyObject* as_subclass(PyObject*, PyObject* args) {
  PyObject *tensor, *type;
  if (!PyArg_ParseTuple(args, "OO", &tensor, &type)) return nullptr;
  if (!PyType_Check(type) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), tensor_type)) {
    return PyErr_Format(PyExc_TypeError, "as_subclass(): expected a subclass of Tensor");
  }
  return guarded([&] {
    Tensor of = Tensor::share(impl_of(tensor));
    const bool leaf_copy = !needs_grad(of.get());
    Tensor t = leaf_copy ? alias(of) : reshape(of, of.sizes());
    if (t->python) t = alias(t);
    return wrap_as(reinterpret_cast<PyTypeObject*>(type), std::move(t));
  });
}
// The gradient edge of a tensor: (node, output_nr); for a leaf, its AccumulateGrad node.
PyObject* gradient_edge(PyObject*, PyObject* tensor) {
  return guarded([&]() -> PyObject* {
    TensorImpl* t = impl_of(tensor);
    if (!needs_grad(t)) fail("It is not possible to get the gradient edge for a Tensor that does not require gradients");
    const Edge e = take_gradient_edge(t);
    Ref node(wrap_node(e.node()));
    release(e.node());
    return Py_BuildValue("Oi", node.get(), static_cast<int>(e.output_nr()));
  });
}

// _write_out(target, value): what out= does for an operation composed in Python.
PyObject* write_out(PyObject*, PyObject* args) {
  PyObject *target, *value;
  if (!PyArg_ParseTuple(args, "OO", &target, &value)) return nullptr;
  return guarded([&]() -> PyObject* {
    TensorImpl *to = impl_of(target), *from = impl_of(value);
    const bool differentiable = needs_grad(to) | needs_grad(from);
    if (context().grad_enabled && differentiable) {
      fail("functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.");
    }
    if (!can_cast(from->dtype, to->dtype)) {
      fail("result type ", dtype_name(from->dtype), " can't be cast to the desired output type ", dtype_name(to->dtype));
    }
    resize_output(to, from->sizes());
    check_writable("out=", to);
    copy_into(Tensor::share(to), Tensor::share(from));
    note_write(to);
    Py_RETURN_NONE;
  });
}

// ---- hooks on saved tensors ------------------------------------------------------------------------

std::string saved_hooks_forbidden;

PyObject* push_saved_hooks(PyObject*, PyObject* args) {
  PyObject *pack, *unpack;
  if (!PyArg_ParseTuple(args, "OO", &pack, &unpack)) return nullptr;
  return guarded([&]() -> PyObject* {
    if (!saved_hooks_forbidden.empty()) fail(saved_hooks_forbidden);
    Py_INCREF(pack);
    Py_INCREF(unpack);
    context().saved_tensor_hooks.push_back(pack);
    context().saved_tensor_hooks.push_back(unpack);
    Py_RETURN_NONE;
  });
}
PyObject* pop_saved_hooks(PyObject*, PyObject*) {
  auto& hooks = context().saved_tensor_hooks;
  for (int i = 0; i < 2 && !hooks.empty(); ++i) {
    Py_DECREF(static_cast<PyObject*>(hooks.back()));
    hooks.pop_back();
  }
  Py_RETURN_NONE;
}
PyObject* current_saved_hooks(PyObject*, PyObject*) {
  const auto& hooks = context().saved_tensor_hooks;
  if (hooks.empty()) Py_RETURN_NONE;
  return Py_BuildValue("(OO)", static_cast<PyObject*>(hooks[hooks.size() - 2]), static_cast<PyObject*>(hooks.back()));
}
PyObject* disable_saved_hooks(PyObject*, PyObject* message) {
  Ref before(PyUnicode_FromString(saved_hooks_forbidden.c_str()));
  const char* text = PyUnicode_AsUTF8(message);
  if (!text) return nullptr;
  return guarded([&]() -> PyObject* {
    if (*text && !context().saved_tensor_hooks.empty()) fail(text);
    saved_hooks_forbidden = text;
    return before.release();
  });
}

// A packed value stands in the node as a tensor without memory that owns the pair (packed, unpack).
TensorImpl* pack_saved(TensorImpl* t) {
  const auto& hooks = context().saved_tensor_hooks;
  PyObject *pack = static_cast<PyObject*>(hooks[hooks.size() - 2]), *unpack = static_cast<PyObject*>(hooks.back());
  Ref value(checked(wrap(Tensor::share(t))));
  Ref packed;
  {
    const GradMode off(false);
    packed = Ref(checked(PyObject_CallOneArg(pack, value.get())));
  }
  Tensor box = empty(Dims{0}, t->dtype);
  extra_of(box.get()).hooks = checked(Py_BuildValue("(OO)", packed.get(), unpack));
  box->flags |= kPacked;
  return box.detach_ref();
}

Tensor unpack_saved_value(TensorImpl* box) {
  auto* pair = static_cast<PyObject*>(box->extra->hooks);
  Ref value(checked(PyObject_CallOneArg(PyTuple_GET_ITEM(pair, 1), PyTuple_GET_ITEM(pair, 0))));
  if (!is_tensor(value.get())) {
    fail(ErrorKind::Type, "Output of saved tensor unpack_hook expected to be a Tensor but got result of type ", Py_TYPE(value.get())->tp_name);
  }
  return Tensor::share(impl_of(value.get()));
}

// Inside a custom function's backward the lines that run are the user's own.
PyObject* enter_user_code(PyObject*, PyObject*) {
  Context& now = context();
  PyObject* before = Py_BuildValue("(iNi)", now.user_site_depth, PyLong_FromVoidPtr(now.user_site.code), now.user_site.instruction);
  now.user_site_depth = 0;
  return before;
}
PyObject* leave_user_code(PyObject*, PyObject* before) {
  Context& now = context();
  now.user_site_depth = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(before, 0)));
  now.user_site = {PyLong_AsVoidPtr(PyTuple_GET_ITEM(before, 1)), static_cast<int32_t>(PyLong_AsLong(PyTuple_GET_ITEM(before, 2)))};
  Py_RETURN_NONE;
}

// _zeros(shape, dtype)
PyObject* make_zeros(PyObject*, PyObject* args) {
  PyObject *shape, *dtype;
  if (!PyArg_ParseTuple(args, "OO", &shape, &dtype)) return nullptr;
  return guarded([&] {
    Dims sizes;
    DType t;
    if (!dims_from(shape, &sizes) || !dtype_from(dtype, &t)) fail(ErrorKind::Type, "_zeros(shape, dtype)");
    return wrap(zeros(sizes, t));
  });
}

// The private switch of the deferred trial: record now, compute when a value is needed.
PyObject* set_deferred(PyObject*, PyObject* on) {
  context().schedule = PyObject_IsTrue(on) ? &deferred_schedule() : nullptr;
  Py_RETURN_NONE;
}
PyObject* is_pending(PyObject*, PyObject* tensor) { return PyBool_FromLong(impl_of(tensor)->has(kPending)); }

PyObject* cut_of(PyObject*, PyObject* tensor) { return PyUnicode_FromString(cut_text(impl_of(tensor)).c_str()); }

PyMethodDef functions[] = {
    {"_cut_of", cut_of, METH_O, "What cut this tensor off from its history, and where; empty if nothing did."},
    {"_set_deferred", set_deferred, METH_O, nullptr},
    {"_is_pending", is_pending, METH_O, nullptr},
    {"_push_saved_tensor_hooks", push_saved_hooks, METH_VARARGS, nullptr},
    {"_pop_saved_tensor_hooks", pop_saved_hooks, METH_NOARGS, nullptr},
    {"_current_saved_tensor_hooks", current_saved_hooks, METH_NOARGS, nullptr},
    {"_disable_saved_tensor_hooks", disable_saved_hooks, METH_O, nullptr},
    {"_enter_user_code", enter_user_code, METH_NOARGS, nullptr},
    {"_leave_user_code", leave_user_code, METH_O, nullptr},
    {"_zeros", make_zeros, METH_VARARGS, nullptr},
    {"_write_out", write_out, METH_VARARGS, nullptr},
    {"_backward", backward, METH_VARARGS, nullptr},
    {"_plain_backward", plain_backward, METH_O, nullptr},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS, "Whether operations are being recorded."},
    {"_set_grad_enabled", set_grad_enabled, METH_O, nullptr},
    {"is_inference_mode_enabled", is_inference, METH_NOARGS, nullptr},
    {"_set_inference_mode", set_inference, METH_O, nullptr},
    {"_set_anomaly", set_anomaly, METH_VARARGS, nullptr},
    {"_get_anomaly", get_anomaly, METH_NOARGS, nullptr},
    {"set_provenance", set_provenance, METH_O, "Whether nodes remember the line that recorded them (on by default)."},
    {"live_counts", live_counts, METH_NOARGS, "Tensors, storages, nodes and bytes that exist now."},
    {"_record_function", record_function, METH_VARARGS, nullptr},
    {"_with_history", with_history, METH_VARARGS, nullptr},
    {"_alias", plain_alias, METH_O, nullptr},
    {"_bump_version", bump_version, METH_O, nullptr},
    {"_as_subclass", as_subclass, METH_VARARGS, nullptr},
    {"_gradient_edge", gradient_edge, METH_O, nullptr},
    {}};

}  // namespace

bool init_autograd(PyObject* module) {
  saved_value_hooks = {pack_saved, unpack_saved_value};
  return PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace weft::bind
