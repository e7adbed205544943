// Backward, gradient modes, hooks on saved values: what weft/autograd is written with.
#include "bind/object.h"
#include "core/autograd/engine.h"
#include "core/ops/functions.h"
#include "core/schedule/deferred.h"
#include "core/tensor/promotion.h"

namespace weft::bind {

Node* node_from(PyObject* o);
bool init_custom_functions(PyObject* module);
TensorImpl* pack_saved(TensorImpl* t, PyObject* pack, PyObject* unpack);

std::vector<Tensor> tensor_list(PyObject* sequence, const char* what, bool none_allowed) {
  std::vector<Tensor> out;
  Ref fast(checked(PySequence_Fast(sequence, "expected a sequence of tensors")));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) {
    PyObject* item = PySequence_Fast_ITEMS(fast.get())[i];
    if (item == Py_None && none_allowed) out.emplace_back();
    else if (is_tensor(item)) out.push_back(Tensor::share(impl_of(item)));
    else
      fail(ErrorKind::Type, what, " must be Tensors", none_allowed ? " or None" : "", ", got ", Py_TYPE(item)->tp_name);
  }
  return out;
}

namespace {

// Tensors, or GradientEdges: pairs (node, output_nr). The objects given keep the nodes alive.
struct Targets {
  std::vector<Tensor> tensors;
  std::vector<Edge> edges;

  Targets(PyObject* sequence, const char* what) {
    Ref fast(checked(PySequence_Fast(sequence, "expected a sequence of tensors")));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) {
      PyObject* item = PySequence_Fast_ITEMS(fast.get())[i];
      if (is_tensor(item)) {
        tensors.push_back(Tensor::share(impl_of(item)));
        edges.emplace_back();
        continue;
      }
      Node* n = PyTuple_Check(item) && PyTuple_GET_SIZE(item) >= 2 ? node_from(PyTuple_GET_ITEM(item, 0)) : nullptr;
      const long k = n ? PyLong_AsLong(PyTuple_GET_ITEM(item, 1)) : 0;
      if (!n) fail(ErrorKind::Type, what, " must be Tensors or GradientEdges, got ", Py_TYPE(item)->tp_name);
      if (k < 0 || k >= n->outputs)
        fail(what, ": ", n->name(), " has ", int{n->outputs}, " results, there is no number ", k);
      tensors.emplace_back();
      edges.emplace_back(n, static_cast<uint16_t>(k));
    }
  }
};

// _backward(roots, gradients, keep_graph, create_graph, inputs or None, into_grad, allow_unused)
PyObject* backward(PyObject*, PyObject* args) {
  PyObject *roots, *gradients, *inputs;
  int keep, create, into_grad, allow_unused;
  if (!PyArg_ParseTuple(args, "OOppOpp", &roots, &gradients, &keep, &create, &inputs, &into_grad, &allow_unused))
    return nullptr;
  return guarded([&]() -> PyObject* {
    const Targets root_list(roots, "the tensors to differentiate");
    const auto gradient_list = tensor_list(gradients, "gradients", true);
    Ref no_inputs(checked(PyTuple_New(0)));
    const Targets input_list(inputs == Py_None ? no_inputs.get() : inputs, "inputs");
    const BackwardRequest request{.roots = root_list.tensors,
                                  .gradients = gradient_list,
                                  .keep_graph = keep != 0,
                                  .create_graph = create != 0,
                                  .inputs = input_list.tensors,
                                  .into_grad = into_grad != 0,
                                  .allow_unused = allow_unused != 0,
                                  .root_edges = root_list.edges,
                                  .input_edges = input_list.edges};
    std::vector<Tensor> result = run_backward(request);
    return wrap_list(result, true);
  });
}

// Tensor.backward(). With nothing given, which is nearly always, there is no detour through Python.
PyObject* backward_with_arguments = nullptr;

PyObject* tensor_backward(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  if (count > 0 || names) {
    std::vector<PyObject*> all{self};
    all.insert(all.end(), args, args + count + (names ? PyTuple_GET_SIZE(names) : 0));
    return PyObject_Vectorcall(backward_with_arguments, all.data(), static_cast<size_t>(count) + 1, names);
  }
  return guarded([&]() -> PyObject* {
    const Tensor root = Tensor::share(impl_of(self));
    run_backward({.roots = {&root, 1}});
    Py_RETURN_NONE;
  });
}
PyMethodDef tensor_backward_method = {
    "backward", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(tensor_backward)),
    METH_FASTCALL | METH_KEYWORDS,
    "backward($self, gradient=None, retain_graph=None, create_graph=False, inputs=None)\n--\n\n"
    "Adds the gradient of this tensor to the ``.grad`` of every leaf it depends on."};

// _set_backward(function): what Tensor.backward() calls when it is given arguments.
PyObject* set_backward(PyObject*, PyObject* function) {
  Py_INCREF(function);
  Py_XSETREF(backward_with_arguments, function);
  Py_RETURN_NONE;
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
  forget_finished_records();
  return Py_BuildValue("{s:L, s:L, s:L, s:L}", "tensors", (long long)live.tensors, "storages", (long long)live.storages,
                       "nodes", (long long)live.nodes, "bytes", (long long)live.bytes);
}

// _alias(tensor): another tensor over the same memory, without history.
PyObject* plain_alias(PyObject*, PyObject* tensor) {
  return guarded([&] {
    ensure_value(tensor_argument(tensor));
    return wrap(alias(Tensor::share(tensor_argument(tensor))));
  });
}
PyObject* bump_version(PyObject*, PyObject* tensor) {
  return guarded([&]() -> PyObject* {
    note_write(tensor_argument(tensor));
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
    Tensor of = Tensor::share(tensor_argument(tensor));
    ensure_value(of.get());
    const bool leaf_copy = !needs_grad(of.get());
    Tensor t = leaf_copy ? alias(of) : reshape(of, of.sizes());
    if (t->python) t = alias(t);
    return wrap_as(reinterpret_cast<PyTypeObject*>(type), std::move(t));
  });
}
PyObject* get_current_pass(PyObject*, PyObject*) { return PyLong_FromUnsignedLong(current_pass()); }
PyObject* is_pass_running(PyObject*, PyObject* id) {
  return PyBool_FromLong(pass_is_running(static_cast<uint32_t>(PyLong_AsUnsignedLong(id))));
}
PyObject* pass_has_inputs(PyObject*, PyObject*) { return PyBool_FromLong(current_pass_has_inputs()); }
PyObject* pass_reaches(PyObject*, PyObject* node) {
  Node* n = node_from(node);
  return PyBool_FromLong(n && current_pass_reaches(n));
}

// From now on the cycle collector looks at this tensor: something it owns may refer to it.
PyObject* track(PyObject*, PyObject* tensor) {
  if (is_tensor(tensor) && !PyObject_GC_IsTracked(tensor)) PyObject_GC_Track(tensor);
  Py_RETURN_NONE;
}

// The gradient edge of a tensor: (node, output_nr); for a leaf, its AccumulateGrad node.
PyObject* gradient_edge(PyObject*, PyObject* tensor) {
  return guarded([&]() -> PyObject* {
    TensorImpl* t = tensor_argument(tensor);
    if (!needs_grad(t) || !t->requires_grad())
      fail("It is not possible to get the gradient edge for a Tensor that does not require gradients");
    const Edge e = take_gradient_edge(t);
    Ref node(wrap_node(e.node()));
    release(e.node());
    return Py_BuildValue("Oi", node.get(), static_cast<int>(e.output_nr()));
  });
}

// Only a name for messages.
constexpr OpTable op_out{"Out", Schema{"out=(Tensor self) -> Tensor"}};

// _write_out(target, value): what out= does for an operation composed in Python.
PyObject* write_out(PyObject*, PyObject* args) {
  PyObject *target, *value;
  if (!PyArg_ParseTuple(args, "OO", &target, &value)) return nullptr;
  return guarded([&]() -> PyObject* {
    TensorImpl *to = tensor_argument(target), *from = tensor_argument(value);
    const bool differentiable = needs_grad(to) | needs_grad(from);
    if (context().grad_enabled && differentiable) {
      fail(
          "functions with out=... arguments don't support automatic differentiation, but one of the arguments requires "
          "grad.");
    }
    if (!can_cast(from->dtype, to->dtype)) {
      fail("result type ", dtype_name(from->dtype), " can't be cast to the desired output type ",
           dtype_name(to->dtype));
    }
    resize_output(to, from->sizes());
    check_writable(op_out, false, to, false);
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

TensorImpl* pack_with_current_hooks(TensorImpl* t) {
  const auto& hooks = context().saved_tensor_hooks;
  Ref pack = Ref::borrowed(static_cast<PyObject*>(hooks[hooks.size() - 2]));
  Ref unpack = Ref::borrowed(static_cast<PyObject*>(hooks.back()));
  return pack_saved(t, pack.get(), unpack.get());
}

Tensor unpack_saved_value(TensorImpl* box) {
  auto* pair = static_cast<PyObject*>(box->extra->hooks);
  Ref value(checked(PyObject_CallOneArg(PyTuple_GET_ITEM(pair, 1), PyTuple_GET_ITEM(pair, 0))));
  if (!is_tensor(value.get())) {
    fail(ErrorKind::Type, "Output of saved tensor unpack_hook expected to be a Tensor but got result of type ",
         Py_TYPE(value.get())->tp_name);
  }
  return Tensor::share(impl_of(value.get()));
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
PyObject* is_pending(PyObject*, PyObject* tensor) {
  return guarded([&] { return PyBool_FromLong(tensor_argument(tensor)->has(kPending)); });
}

PyObject* cut_of(PyObject*, PyObject* tensor) {
  return guarded([&] { return PyUnicode_FromString(cut_text(tensor_argument(tensor)).c_str()); });
}

PyMethodDef functions[] = {
    {"_cut_of", cut_of, METH_O, "What cut this tensor off from its history, and where; empty if nothing did."},
    {"_set_deferred", set_deferred, METH_O, nullptr},
    {"_is_pending", is_pending, METH_O, nullptr},
    {"_push_saved_tensor_hooks", push_saved_hooks, METH_VARARGS, nullptr},
    {"_pop_saved_tensor_hooks", pop_saved_hooks, METH_NOARGS, nullptr},
    {"_disable_saved_tensor_hooks", disable_saved_hooks, METH_O, nullptr},
    {"_zeros", make_zeros, METH_VARARGS, nullptr},
    {"_write_out", write_out, METH_VARARGS, nullptr},
    {"_backward", backward, METH_VARARGS, nullptr},
    {"_set_backward", set_backward, METH_O, nullptr},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS, "Whether operations are being recorded."},
    {"_set_grad_enabled", set_grad_enabled, METH_O, nullptr},
    {"is_inference_mode_enabled", is_inference, METH_NOARGS, nullptr},
    {"_set_inference_mode", set_inference, METH_O, nullptr},
    {"_set_anomaly", set_anomaly, METH_VARARGS, nullptr},
    {"_get_anomaly", get_anomaly, METH_NOARGS, nullptr},
    {"set_provenance", set_provenance, METH_O, "Whether nodes remember the line that recorded them (on by default)."},
    {"live_counts", live_counts, METH_NOARGS, "Tensors, storages, nodes and bytes that exist now."},
    {"_alias", plain_alias, METH_O, nullptr},
    {"_bump_version", bump_version, METH_O, nullptr},
    {"_as_subclass", as_subclass, METH_VARARGS, nullptr},
    {"_gradient_edge", gradient_edge, METH_O, nullptr},
    {"_track", track, METH_O, nullptr},
    {"_current_pass", get_current_pass, METH_NOARGS, nullptr},
    {"_pass_is_running", is_pass_running, METH_O, nullptr},
    {"_pass_reaches", pass_reaches, METH_O, nullptr},
    {"_pass_has_inputs", pass_has_inputs, METH_NOARGS, nullptr},
    {}};

}  // namespace

// What the pack hook makes of a tensor.
PyObject* pack_value(PyObject* tensor, PyObject* pack) {
  const GradMode off(false);
  const TensorImpl* t = impl_of(tensor);
  const uint32_t version = t->storage ? t->storage->version : 0;
  Ref packed(checked(PyObject_CallOneArg(pack, tensor)));
  if (t->storage && t->storage->version != version) {
    fail(
        "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can not be "
        "modified by in-place operations as this can lead to unexpected side-effects. Work on a clone() of it.");
  }
  return packed.release();
}

// A packed value stands in the node as a tensor without memory that owns the pair (packed, unpack).
TensorImpl* pack_saved(TensorImpl* t, PyObject* pack, PyObject* unpack) {
  Ref value(checked(wrap(Tensor::share(t))));
  Ref packed(checked(pack_value(value.get(), pack)));
  Tensor box = empty(Dims{0}, t->dtype);
  extra_of(box.get()).hooks = checked(Py_BuildValue("(OO)", packed.get(), unpack));
  box->flags |= kPacked;
  return box.detach_ref();
}

bool init_autograd(PyObject* module) {
  saved_value_hooks = {pack_with_current_hooks, unpack_saved_value};
  Ref method(PyDescr_NewMethod(tensor_type, &tensor_backward_method));
  if (!method || PyObject_SetAttrString(reinterpret_cast<PyObject*>(tensor_type), "backward", method.get()) < 0)
    return false;
  return PyModule_AddFunctions(module, functions) == 0 && init_custom_functions(module);
}

}  // namespace weft::bind
