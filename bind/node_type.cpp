// grad_fn objects: a window on the recorded nodes.
#include <cstring>
#include <map>

#include "bind/user_site.h"
#include "core/autograd/engine.h"
#include "core/graph/diagnosis.h"

namespace weft { Tensor accumulated_variable(Node* n); }

namespace weft::bind {

// Of a custom function (bind/autograd.cpp): what the user's backward calls `ctx`; borrowed, null for
// other nodes.
PyObject* function_context(Node* n);
int visit_function(Node* n, visitproc visit, void* arg);
TensorImpl* pack_saved(TensorImpl* t, PyObject* pack, PyObject* unpack);

namespace {

PyTypeObject* node_type = nullptr;

struct PyNode {
  PyObject_HEAD Node* node;
  PyObject* weakrefs;
};

Node* node_of(PyObject* o) { return reinterpret_cast<PyNode*>(o)->node; }

void dealloc(PyObject* object) {
  auto* self = reinterpret_cast<PyNode*>(object);
  PyObject_GC_UnTrack(object);
  if (self->weakrefs) PyObject_ClearWeakRefs(object);
  if (Node* n = std::exchange(self->node, nullptr)) {
    if (n->extra) n->extra->python = nullptr;
    release(n);
  }
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_Del(object);
  Py_DECREF(type);
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  Node* n = node_of(object);
  return n && n->refs == 1 ? visit_node(n, visit, arg) : 0;
}

// Attributes of a custom function's node are those of its context.
int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
  const int result = PyObject_GenericSetAttr(self, name, value);
  PyObject* function = result == 0 ? nullptr : function_context(node_of(self));
  if (!function || !PyErr_ExceptionMatches(PyExc_AttributeError)) return result;
  PyErr_Clear();
  return PyObject_SetAttr(function, name, value);
}

// node(gradients...): the derivative of this one node.
PyObject* call(PyObject* self, PyObject* args, PyObject*) {
  Node* n = node_of(self);
  return guarded([&]() -> PyObject* {
    if (PyTuple_GET_SIZE(args) != n->outputs) {
      fail(ErrorKind::Type, n->name(), " expected ", int{n->outputs}, " gradients, one for each result, and got ",
           PyTuple_GET_SIZE(args));
    }
    std::vector<Tensor> grads(n->outputs);
    for (int k = 0; k < n->outputs; ++k) {
      PyObject* g = PyTuple_GET_ITEM(args, k);
      if (g != Py_None && !is_tensor(g))
        fail(ErrorKind::Type, n->name(), ": gradients must be Tensors or None, got ", Py_TYPE(g)->tp_name);
      if (g != Py_None) grads[k] = Tensor::share(impl_of(g));
    }
    std::vector<Tensor> results = differentiate_node(n, grads);
    if (results.empty()) Py_RETURN_NONE;
    return results.size() == 1 ? wrap(std::move(results[0])) : wrap_list(results, true);
  });
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
  if (!leaf)
    return PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'variable'", node_of(self)->name().c_str());
  return wrap(std::move(leaf));
}
PyObject* get_sequence(PyObject* self, void*) { return PyLong_FromUnsignedLongLong(node_of(self)->sequence); }
PyObject* m_sequence(PyObject* self, PyObject*) { return get_sequence(self, nullptr); }

// (file, line, function) of the user's line that recorded this node.
PyObject* get_site(PyObject* self, void*) {
  Node* n = node_of(self);
  return site_object({n->site ? n->site->code : nullptr, n->site_instruction});
}
// The modules whose call recorded this node, outermost first; None for those that are gone.
PyObject* get_scope(PyObject* self, void*) {
  const Site* site = node_of(self)->site;
  Ref all(PyList_New(0));
  for (const Scope* s = site ? site->scope : nullptr; all && s; s = s->outer) {
    auto* module = static_cast<PyObject*>(s->module->object);
    if (PyList_Append(all.get(), module ? module : Py_None) < 0) return nullptr;
  }
  if (!all || PyList_Reverse(all.get()) < 0) return nullptr;
  return PyList_AsTuple(all.get());
}
PyObject* get_feeds_recorded(PyObject* self, void*) { return PyBool_FromLong(node_of(self)->has(kFeedsRecorded)); }
PyObject* get_counted(PyObject* self, void*) { return PyBool_FromLong(node_of(self)->has(kCounted)); }
PyObject* get_note(PyObject* self, void*) {
  Node* n = node_of(self);
  return PyUnicode_FromString(n->extra ? n->extra->note.c_str() : "");
}
PyObject* get_attributes(PyObject* self, void*) {
  Node* n = node_of(self);
  return PyUnicode_FromString(n->op->text ? n->op->text(n->fields()).c_str() : "");
}
PyObject* get_results(PyObject* self, void*) {
  Node* n = node_of(self);
  Ref all(PyTuple_New(n->outputs));
  for (int k = 0; all && k < n->outputs; ++k) {
    PyTuple_SET_ITEM(all.get(), k,
                     Py_BuildValue("NO", size_object(n->result_sizes(k)), dtype_object(n->result(k).dtype)));
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
PyObject* get_metadata(PyObject* self, void*) {
  NodeExtra& extra = extra_of(node_of(self));
  if (!extra.metadata) extra.metadata = PyDict_New();
  auto* metadata = static_cast<PyObject*>(extra.metadata);
  Py_XINCREF(metadata);
  return metadata;
}
PyObject* get_schema(PyObject* self, void*) {
  const std::string_view text = node_of(self)->op->schema.text;
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}
PyObject* get_context(PyObject* self, void*) {
  PyObject* context = function_context(node_of(self));
  if (!context) context = Py_None;
  Py_INCREF(context);
  return context;
}
PyObject* get_true(PyObject*, void*) { Py_RETURN_TRUE; }

// ---- saved values; weft/autograd/graph.py gives them names --------------------------------------------

// Where a value comes from, as Python counts: inputs from 0, results from 16.
PyObject* get_saved_sources(PyObject* self, void*) {
  Node* n = node_of(self);
  Ref all(PyTuple_New(n->saved_count));
  for (int k = 0; all && k < n->saved_count; ++k) {
    PyTuple_SET_ITEM(all.get(), k, PyLong_FromLong(__builtin_ctz(n->saved_sources()[k])));
  }
  return all.release();
}
// Whether a backward pass has freed the saved values; those of a pending node are not there yet.
PyObject* get_released(PyObject* self, void*) { return PyBool_FromLong(node_of(self)->has(kReleased)); }
// (bytes, address) of each saved value, in the order of _saved_sources; None where there is none.
// Values that several nodes keep share an address, so that memory is not counted twice.
PyObject* get_saved_places(PyObject* self, void*) {
  Node* n = node_of(self);
  Ref all(PyTuple_New(n->saved_count));
  for (int k = 0; all && k < n->saved_count; ++k) {
    const TensorImpl* t = n->saved()[k];
    const auto bytes = t ? static_cast<long long>(t->numel * item_size(t->dtype)) : 0LL;
    const auto address = reinterpret_cast<unsigned long long>(t ? t->data : nullptr);
    PyObject* place = t ? Py_BuildValue("LK", bytes, address) : Py_NewRef(Py_None);
    if (!place) return nullptr;
    PyTuple_SET_ITEM(all.get(), k, place);
  }
  return all.release();
}
PyObject* m_saved_value(PyObject* self, PyObject* number) {
  const long source = PyLong_AsLong(number);
  if (source == -1 && PyErr_Occurred()) return nullptr;
  return guarded([&]() -> PyObject* {
    Tensor value = unpack_saved(node_of(self), source < 0 || source > 31 ? 0 : 1u << source);
    // A Python number stays one: as a tensor in Python's hands it would no longer be weak.
    return value && value->has(kWrappedNumber) ? tensor_item(value.get()) : wrap(std::move(value));
  });
}
// _pack_saved(source, pack, unpack): hooks for a value that has been saved already.
PyObject* m_pack_saved(PyObject* self, PyObject* args) {
  int source;
  PyObject *pack, *unpack;
  if (!PyArg_ParseTuple(args, "iOO", &source, &pack, &unpack)) return nullptr;
  Node* n = node_of(self);
  return guarded([&]() -> PyObject* {
    for (int k = 0; k < n->saved_count; ++k) {
      if (__builtin_ctz(n->saved_sources()[k]) != source) continue;
      const Tensor value = Tensor::share(n->saved()[k]);
      if (!value) {
        fail(
            "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph "
            "are freed "
            "when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through "
            "the graph "
            "a second time or if you need to access saved variables after calling backward.");
      }
      if (value->has(kPacked)) {
        fail(
            "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks "
            "is "
            "allowed at a time.");
      }
      TensorImpl* box = pack_saved(value.get(), pack, unpack);
      release(std::exchange(n->saved()[k], box));
      Py_RETURN_NONE;
    }
    fail("nothing is saved there");
  });
}

PyGetSetDef attributes[] = {
    {"next_functions", get_next_functions, nullptr, "The nodes that made this one's inputs.", nullptr},
    {"variable", get_variable, nullptr, "The leaf of an AccumulateGrad node.", nullptr},
    {"_sequence", get_sequence, nullptr, nullptr, nullptr},
    {"site", get_site, nullptr, "(file, line, function) that recorded this node.", nullptr},
    {"scope", get_scope, nullptr, "The modules that were being called, outermost first.", nullptr},
    {"_doctor_note", get_note, nullptr, "What the doctor noticed when this node was recorded.", nullptr},
    {"_feeds_recorded", get_feeds_recorded, nullptr, "Of a cut: whether a recorded operation used a value behind it.",
     nullptr},
    {"_counted", get_counted, nullptr, "Of a cut: whether a number or classes were read from a value behind it.",
     nullptr},
    {"attributes", get_attributes, nullptr, nullptr, nullptr},
    {"results", get_results, nullptr, nullptr, nullptr},
    {"kept_bytes", get_kept_bytes, nullptr, nullptr, nullptr},
    {"metadata", get_metadata, nullptr, "A dict for whatever the program wants to note here.", nullptr},
    {"schema", get_schema, nullptr, "The operation, as it is declared.", nullptr},
    {"requires_grad", get_true, nullptr, nullptr, nullptr},
    {"_context", get_context, nullptr, nullptr, nullptr},
    {"_saved_sources", get_saved_sources, nullptr, nullptr, nullptr},
    {"_released", get_released, nullptr, nullptr, nullptr},
    {"_saved_places", get_saved_places, nullptr, nullptr, nullptr},
    {"_hooks", get_hooks, set_hooks, nullptr, nullptr},
    {}};
PyMethodDef methods[] = {{"name", m_name, METH_NOARGS, nullptr},
                         {"_sequence_nr", m_sequence, METH_NOARGS, nullptr},
                         {"_saved_value", m_saved_value, METH_O, nullptr},
                         {"_pack_saved", m_pack_saved, METH_VARARGS, nullptr},
                         {}};
PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(PyNode, weakrefs), READONLY, nullptr}, {}};
PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                       {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_setattro, reinterpret_cast<void*>(set_attribute)},
                       {Py_tp_call, reinterpret_cast<void*>(call)},
                       {Py_tp_repr, reinterpret_cast<void*>(repr)},
                       {Py_tp_getset, attributes},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {0, nullptr}};
constexpr unsigned kFlags =
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
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
    type = reinterpret_cast<PyTypeObject*>(
        PyType_FromSpecWithBases(&of_operation, reinterpret_cast<PyObject*>(node_type)));
  }
  return type;
}

// ---- hooks: dicts of callables, run in the order they were added -----------------------------------

std::string name_of(PyObject* hook) {
  Ref name(PyObject_GetAttrString(hook, "__name__"));
  const char* text = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (!text) PyErr_Clear();
  return std::string("hook '") + (text ? text : "<unknown>") + "'";
}

// Hooks may be removed by one another while they run: those that were there at first are called.
template <class Call>
void for_each_hook(PyObject* hooks, Call&& call) {
  Ref calls(checked(PyDict_Values(hooks)));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(calls.get()); ++i) call(PyList_GET_ITEM(calls.get(), i));
}

// A hook may return a replacement; None keeps the gradient.
void run_tensor_hooks(PyObject* hooks, Tensor& grad) {
  for_each_hook(hooks, [&](PyObject* hook) {
    Ref g(checked(wrap(grad)));
    Ref result(checked(PyObject_CallOneArg(hook, g.get())));
    if (result.get() == Py_None) return;
    if (!is_tensor(result.get())) {
      fail(ErrorKind::Type, "expected Variable, but ", name_of(hook), " returned '", Py_TYPE(result.get())->tp_name,
           "'");
    }
    TensorImpl* r = impl_of(result.get());
    if (r->ndim != grad.ndim() || !std::equal(r->dims, r->dims + r->ndim, grad.sizes().begin())) {
      fail(name_of(hook), " has changed the size of value: from ", shape_text(grad.sizes()), " to ",
           shape_text(r->sizes()));
    }
    grad = Tensor::share(r);
  });
}

PyObject* gradient_tuple(Tensor* grads, int n) {
  Ref tuple(checked(PyTuple_New(n)));
  for (int k = 0; k < n; ++k) PyTuple_SET_ITEM(tuple.get(), k, checked(wrap(grads[k])));
  return tuple.release();
}

void take_replacements(PyObject* hook, PyObject* result, Tensor* grads, int n) {
  if (result == Py_None) return;
  Ref tuple(checked(PyTuple_Check(result) ? Ref::borrowed(result).release() : PyTuple_Pack(1, result)));
  if (PyTuple_GET_SIZE(tuple.get()) != n) {
    fail(name_of(hook), " has returned an incorrect number of values (got ", PyTuple_GET_SIZE(tuple.get()),
         ", but expected ", n, ")");
  }
  for (int k = 0; k < n; ++k) {
    PyObject* item = PyTuple_GET_ITEM(tuple.get(), k);
    if (item != Py_None && !is_tensor(item)) {
      fail(ErrorKind::Type, "expected Variable or None, but ", name_of(hook), " returned '", Py_TYPE(item)->tp_name,
           "'");
    }
    grads[k] = item == Py_None ? Tensor() : Tensor::share(impl_of(item));
  }
}

Ref hooks_named(Node* n, PyObject* key) {
  return Ref::borrowed(PyDict_GetItemWithError(static_cast<PyObject*>(n->extra->hooks), key));
}

void on_tensors(Node* n, Tensor* grads) {
  for (int k = 0; k < n->outputs; ++k) {
    if (!grads[k]) continue;
    Ref key(checked(PyLong_FromLong(k)));
    Ref hooks = hooks_named(n, key.get());
    if (hooks) run_tensor_hooks(hooks.get(), grads[k]);
  }
}

void before_node(Node* n, Tensor* grads) {
  static PyObject* const pre = interned("pre");
  Ref hooks = hooks_named(n, pre);
  if (!hooks) return;
  for_each_hook(hooks.get(), [&](PyObject* hook) {
    Ref tuple(gradient_tuple(grads, n->outputs));
    Ref result(checked(PyObject_CallOneArg(hook, tuple.get())));
    take_replacements(hook, result.get(), grads, n->outputs);
  });
}

void after_node(Node* n, Tensor* results, Tensor* grads) {
  static PyObject* const post = interned("post");
  Ref hooks = hooks_named(n, post);
  if (!hooks) return;
  const int inputs = static_cast<int>(n->inputs);
  for_each_hook(hooks.get(), [&](PyObject* hook) {
    Ref into(gradient_tuple(results, inputs)), out(gradient_tuple(grads, n->outputs));
    Ref result(checked(PyObject_CallFunctionObjArgs(hook, into.get(), out.get(), nullptr)));
    take_replacements(hook, result.get(), results, inputs);
  });
}

void on_leaf(TensorImpl* leaf, Tensor& grad) {
  Ref hooks = Ref::borrowed(static_cast<PyObject*>(leaf->extra->hooks));
  run_tensor_hooks(hooks.get(), grad);
}

void after_accumulate(TensorImpl* leaf) {
  Ref hooks = Ref::borrowed(static_cast<PyObject*>(leaf->extra->post_accumulate));
  for_each_hook(hooks.get(), [&](PyObject* hook) {
    Ref t(checked(wrap(Tensor::share(leaf))));
    Ref result(checked(PyObject_CallOneArg(hook, t.get())));
  });
}

}  // namespace

// The node of a grad_fn object; throws a TypeError for anything else.
Node* node_argument(PyObject* o) {
  if (!PyObject_TypeCheck(o, node_type)) fail(ErrorKind::Type, "expected a Node, not ", Py_TYPE(o)->tp_name);
  return node_of(o);
}

int visit_node(Node* n, visitproc visit, void* arg) {
  if (n->extra) {
    Py_VISIT(static_cast<PyObject*>(n->extra->hooks));
    Py_VISIT(static_cast<PyObject*>(n->extra->metadata));
  }
  // A leaf that only its accumulator holds; `leaf` is one more reference.
  if (const Tensor leaf = accumulated_variable(n); leaf && leaf->refs == 2) {
    Py_VISIT(static_cast<PyObject*>(leaf->extra->hooks));
    Py_VISIT(static_cast<PyObject*>(leaf->extra->post_accumulate));
    if (leaf->has(kOwnsPython)) Py_VISIT(static_cast<PyObject*>(leaf->python));
  }
  return visit_function(n, visit, arg);
}

PyObject* wrap_node(Node* n) {
  if (!n) Py_RETURN_NONE;
  NodeExtra& extra = extra_of(n);
  if (extra.python) {
    auto* existing = static_cast<PyObject*>(extra.python);
    Py_INCREF(existing);
    return existing;
  }
  PyTypeObject* type = type_named(n->name());
  auto* self = type ? PyObject_GC_New(PyNode, type) : nullptr;
  if (!self) return nullptr;
  retain(n);
  self->node = n;
  self->weakrefs = nullptr;
  extra.python = self;
  PyObject_GC_Track(reinterpret_cast<PyObject*>(self));
  return reinterpret_cast<PyObject*>(self);
}

bool init_node_type(PyObject* module) {
  node_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  hook_runner = {on_tensors, before_node, after_node, on_leaf, after_accumulate};
  return node_type && PyModule_AddObjectRef(module, "Node", reinterpret_cast<PyObject*>(node_type)) == 0;
}

Node* node_from(PyObject* o) { return PyObject_TypeCheck(o, node_type) ? node_of(o) : nullptr; }

}  // namespace weft::bind
