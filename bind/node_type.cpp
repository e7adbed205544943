// grad_fn objects: a window on the recorded nodes.
#include <cstring>
#include <map>

#include "bind/object.h"
#include "core/autograd/engine.h"

namespace weft {
Tensor accumulated_variable(Node* n);
}

namespace weft::bind {
namespace {

PyTypeObject* node_type = nullptr;

struct PyNode {
  PyObject_HEAD
  Node* node;
  PyObject* dict;
  PyObject* weakrefs;
};

Node* node_of(PyObject* o) { return reinterpret_cast<PyNode*>(o)->node; }

void dealloc(PyObject* object) {
  auto* self = reinterpret_cast<PyNode*>(object);
  if (self->weakrefs) PyObject_ClearWeakRefs(object);
  Py_CLEAR(self->dict);
  if (Node* n = std::exchange(self->node, nullptr)) {
    if (n->extra) n->extra->python = nullptr;
    release(n);
  }
  PyTypeObject* type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF(type);
}

PyObject* repr(PyObject* self) {
  return PyUnicode_FromFormat("<%s object at %p>", node_of(self)->name().c_str(), self);
}
PyObject* m_name(PyObject* self, PyObject*) { return PyUnicode_FromString(node_of(self)->name().c_str()); }

PyObject* get_next_functions(PyObject* self, void*) {
  Node* n = node_of(self);
  Ref all(PyTuple_New(n->inputs));
  if (!all) return nullptr;
  for (uint32_t i = 0; i < n->inputs; ++i) {
    const Edge e = n->edges()[i];
    PyObject* pair = Py_BuildValue("Ni", wrap_node(e.node()), static_cast<int>(e.output_nr()));
    if (!pair) return nullptr;
    PyTuple_SET_ITEM(all.get(), i, pair);
  }
  return all.release();
}

PyObject* get_variable(PyObject* self, void*) {
  Tensor leaf = accumulated_variable(node_of(self));
  if (!leaf) return PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'variable'", node_of(self)->name().c_str());
  return wrap(std::move(leaf));
}
PyObject* get_sequence(PyObject* self, void*) { return PyLong_FromUnsignedLongLong(node_of(self)->sequence); }
PyObject* m_sequence(PyObject* self, PyObject*) { return get_sequence(self, nullptr); }

// (file, line, function) of the user's line that recorded this node.
PyObject* get_site(PyObject* self, void*) {
  Node* n = node_of(self);
  if (!n->site_code) Py_RETURN_NONE;
  auto* code = static_cast<PyCodeObject*>(n->site_code);
  Ref file(PyObject_GetAttrString(static_cast<PyObject*>(n->site_code), "co_filename"));
  Ref name(PyObject_GetAttrString(static_cast<PyObject*>(n->site_code), "co_name"));
  if (!file || !name) return nullptr;
  return Py_BuildValue("(OiO)", file.get(), PyCode_Addr2Line(code, n->site_instruction), name.get());
}
PyObject* get_module(PyObject* self, void*) {
  Node* n = node_of(self);
  return PyUnicode_FromString(n->extra ? n->extra->module_path.c_str() : "");
}
PyObject* get_attributes(PyObject* self, void*) {
  Node* n = node_of(self);
  return PyUnicode_FromString(n->op->text ? n->op->text(n->fields()).c_str() : "");
}
PyObject* get_results(PyObject* self, void*) {
  Node* n = node_of(self);
  Ref all(PyTuple_New(n->outputs));
  for (int k = 0; all && k < n->outputs; ++k) {
    PyTuple_SET_ITEM(all.get(), k, Py_BuildValue("NO", size_object(n->result_sizes(k)), dtype_object(n->result(k).dtype)));
  }
  return all.release();
}
PyObject* get_kept_bytes(PyObject* self, void*) {
  Node* n = node_of(self);
  int64_t bytes = n->bytes;
  for (int k = 0; k < n->saved_count; ++k) {
    if (const TensorImpl* t = n->saved()[k]) bytes += t->numel * item_size(t->dtype);
  }
  return PyLong_FromLongLong(bytes);
}
PyObject* get_hooks(PyObject* self, void*) {
  Node* n = node_of(self);
  if (!n->extra || !n->extra->hooks) Py_RETURN_NONE;
  auto* hooks = static_cast<PyObject*>(n->extra->hooks);
  Py_INCREF(hooks);
  return hooks;
}
int set_hooks(PyObject* self, PyObject* value, void*) {
  NodeExtra& extra = extra_of(node_of(self));
  Ref before(static_cast<PyObject*>(extra.hooks));
  Py_XINCREF(value);
  extra.hooks = value;
  return 0;
}
// A saved value: _saved_self and the like come from weft/autograd/graph.py.
PyObject* m_saved(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    Node* n = node_of(self);
    Ref list(checked(PyList_New(0)));
    for (int k = 0; k < n->saved_count; ++k) {
      const uint32_t source = n->saved_sources()[k];
      Ref value(checked(wrap(unpack_saved(n, source))));
      Ref pair(checked(Py_BuildValue("iO", static_cast<int>(__builtin_ctz(source)), value.get())));
      if (PyList_Append(list.get(), pair.get()) < 0) throw PythonError{};
    }
    return list.release();
  });
}

PyGetSetDef attributes[] = {{"next_functions", get_next_functions, nullptr, "The nodes that made this one's inputs.", nullptr},
                            {"variable", get_variable, nullptr, "The leaf of an AccumulateGrad node.", nullptr},
                            {"_sequence", get_sequence, nullptr, nullptr, nullptr},
                            {"site", get_site, nullptr, "(file, line, function) that recorded this node.", nullptr},
                            {"module", get_module, nullptr, nullptr, nullptr},
                            {"attributes", get_attributes, nullptr, nullptr, nullptr},
                            {"results", get_results, nullptr, nullptr, nullptr},
                            {"kept_bytes", get_kept_bytes, nullptr, nullptr, nullptr},
                            {"_hooks", get_hooks, set_hooks, nullptr, nullptr},
                            {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                            {}};
PyMethodDef methods[] = {{"name", m_name, METH_NOARGS, nullptr},
                         {"_sequence_nr", m_sequence, METH_NOARGS, nullptr},
                         {"_saved_values", m_saved, METH_NOARGS, nullptr},
                         {}};
PyMemberDef members[] = {{"__dictoffset__", T_PYSSIZET, offsetof(PyNode, dict), READONLY, nullptr},
                         {"__weaklistoffset__", T_PYSSIZET, offsetof(PyNode, weakrefs), READONLY, nullptr},
                         {}};
PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                       {Py_tp_repr, reinterpret_cast<void*>(repr)},
                       {Py_tp_getset, attributes},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {0, nullptr}};
constexpr unsigned kFlags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_BASETYPE;
PyType_Spec spec = {"weft.autograd.graph.Node", sizeof(PyNode), 0, kFlags, slots};

// type(t.grad_fn).__name__ says which operation it was, as in PyTorch: a class for each name, made
// when it is first seen and never freed.
PyTypeObject* type_named(const std::string& name) {
  static auto* const types = new std::map<std::string, PyTypeObject*>;
  PyTypeObject*& type = (*types)[name];
  if (!type) {
    PyType_Slot no_slots[] = {{0, nullptr}};
    PyType_Spec of_operation = {strdup(("weft.autograd.graph." + name).c_str()), sizeof(PyNode), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, no_slots};
    type = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&of_operation, reinterpret_cast<PyObject*>(node_type)));
  }
  return type;
}

// ---- hooks: dicts of callables, run in the order they were added -----------------------------------

// A hook may return a replacement; None keeps the gradient.
void run_tensor_hooks(PyObject* hooks, Tensor& grad) {
  Ref calls(checked(PyDict_Values(hooks)));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(calls.get()); ++i) {
    Ref g(checked(wrap(grad)));
    Ref result(checked(PyObject_CallOneArg(PyList_GET_ITEM(calls.get(), i), g.get())));
    if (result.get() == Py_None) continue;
    if (!is_tensor(result.get())) {
      PyErr_Format(PyExc_TypeError, "hook '%R' has returned an incompatible type: expected Tensor or None, got %s",
                   PyList_GET_ITEM(calls.get(), i), Py_TYPE(result.get())->tp_name);
      throw PythonError{};
    }
    TensorImpl* r = impl_of(result.get());
    if (r->ndim != grad.ndim() || !std::equal(r->dims, r->dims + r->ndim, grad.sizes().begin())) {
      fail("hook '", "' has changed the size of value: from ", shape_text(grad.sizes()), " to ", shape_text(r->sizes()));
    }
    grad = Tensor::share(r);
  }
}

PyObject* gradient_tuple(Tensor* grads, int n) {
  Ref tuple(checked(PyTuple_New(n)));
  for (int k = 0; k < n; ++k) PyTuple_SET_ITEM(tuple.get(), k, checked(wrap(grads[k])));
  return tuple.release();
}

void take_replacements(PyObject* result, Tensor* grads, int n, const char* what) {
  if (result == Py_None) return;
  Ref tuple(PyTuple_Check(result) ? Ref::borrowed(result).release() : PyTuple_Pack(1, result));
  if (PyTuple_GET_SIZE(tuple.get()) != n) {
    fail(what, " returned an incorrect number of values (expected ", n, ", got ", PyTuple_GET_SIZE(tuple.get()), ")");
  }
  for (int k = 0; k < n; ++k) {
    PyObject* item = PyTuple_GET_ITEM(tuple.get(), k);
    if (item != Py_None && !is_tensor(item)) fail(ErrorKind::Type, what, ": expected Tensors or None, got ", Py_TYPE(item)->tp_name);
    grads[k] = item == Py_None ? Tensor() : Tensor::share(impl_of(item));
  }
}

PyObject* hooks_named(Node* n, const char* key) {
  return PyDict_GetItemString(static_cast<PyObject*>(n->extra->hooks), key);
}

void on_results(Node* n, Tensor* grads) {
  auto* hooks = static_cast<PyObject*>(n->extra->hooks);
  for (int k = 0; k < n->outputs; ++k) {
    Ref key(PyLong_FromLong(k));
    PyObject* of_result = PyDict_GetItem(hooks, key.get());
    if (of_result && grads[k]) {
      Ref held = Ref::borrowed(of_result);
      run_tensor_hooks(of_result, grads[k]);
    }
  }
  if (PyObject* pre = hooks_named(n, "pre")) {
    Ref calls(checked(PyDict_Values(pre)));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(calls.get()); ++i) {
      Ref tuple(gradient_tuple(grads, n->outputs));
      Ref result(checked(PyObject_CallOneArg(PyList_GET_ITEM(calls.get(), i), tuple.get())));
      take_replacements(result.get(), grads, n->outputs, "a backward pre-hook");
    }
  }
}

void on_inputs(Node* n, Tensor* results, Tensor* grads) {
  PyObject* post = hooks_named(n, "post");
  if (!post) return;
  Ref calls(checked(PyDict_Values(post)));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(calls.get()); ++i) {
    Ref inputs(gradient_tuple(results, static_cast<int>(n->inputs)));
    Ref outputs(gradient_tuple(grads, n->outputs));
    Ref result(checked(PyObject_CallFunctionObjArgs(PyList_GET_ITEM(calls.get(), i), inputs.get(), outputs.get(), nullptr)));
    take_replacements(result.get(), results, static_cast<int>(n->inputs), "a backward hook");
  }
}

void on_leaf(TensorImpl* leaf, Tensor& grad) {
  Ref hooks = Ref::borrowed(static_cast<PyObject*>(leaf->extra->hooks));
  run_tensor_hooks(hooks.get(), grad);
}

void after_accumulate(TensorImpl* leaf) {
  Ref hooks = Ref::borrowed(static_cast<PyObject*>(leaf->extra->post_accumulate));
  Ref calls(checked(PyDict_Values(hooks.get())));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(calls.get()); ++i) {
    Ref t(checked(wrap(Tensor::share(leaf))));
    Ref result(checked(PyObject_CallOneArg(PyList_GET_ITEM(calls.get(), i), t.get())));
  }
}

}  // namespace

PyObject* wrap_node(Node* n) {
  if (!n) Py_RETURN_NONE;
  NodeExtra& extra = extra_of(n);
  if (extra.python) {
    auto* existing = static_cast<PyObject*>(extra.python);
    Py_INCREF(existing);
    return existing;
  }
  PyTypeObject* type = type_named(n->name());
  auto* self = type ? PyObject_New(PyNode, type) : nullptr;
  if (!self) return nullptr;
  retain(n);
  self->node = n;
  self->dict = nullptr;
  self->weakrefs = nullptr;
  extra.python = self;
  return reinterpret_cast<PyObject*>(self);
}

bool init_node_type(PyObject* module) {
  node_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  hook_runner = {on_results, on_inputs, on_leaf, after_accumulate};
  return node_type && PyModule_AddObjectRef(module, "Node", reinterpret_cast<PyObject*>(node_type)) == 0;
}

Node* node_from(PyObject* o) { return PyObject_TypeCheck(o, node_type) ? node_of(o) : nullptr; }

}  // namespace weft::bind
