#include "bind/saved_value.h"

namespace weft {
[[noreturn]] void fail_overwritten(const TensorImpl* t, uint32_t version, const std::string& which, const Node* by);
}

namespace weft::bind {

PyObject* pack_value(PyObject* tensor, PyObject* pack);
Node* node_argument(PyObject* o);

namespace {

struct PySavedValue {
  PyObject_HEAD PyObject* value;  // the tensor, or what the pack hook made of it
  PyObject* unpack;               // null without hooks
  uint32_t version;
  int32_t output_nr;
};

PyTypeObject* saved_value_type = nullptr;

PySavedValue* self_of(PyObject* o) { return reinterpret_cast<PySavedValue*>(o); }

[[noreturn]] void report_overwritten(const PySavedValue* self, const TensorImpl* t, Node* node) {
  const std::string which = self->output_nr < 0 ? "saved by " : "output " + std::to_string(self->output_nr) + " of ";
  fail_overwritten(t, self->version, which + (node ? node->name() : "checkpoint"), node);
}

// get(node=None): the value, checked; a result of `node` has its history again.
PyObject* get(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  if (count > 1) return PyErr_Format(PyExc_TypeError, "get() takes at most 1 argument (%zd given)", count);
  return guarded([&]() -> PyObject* {
    const PySavedValue* self = self_of(object);
    Node* node = count == 1 && args[0] != Py_None ? node_argument(args[0]) : nullptr;
    Ref value = Ref::borrowed(self->value);
    if (self->unpack) {
      value = Ref(checked(PyObject_CallOneArg(self->unpack, self->value)));
      if (!is_tensor(value.get())) return value.release();
    } else if (const TensorImpl* t = impl_of(self->value);
               t->storage && t->storage->version != self->version && self->version != kVersionUnknown) {
      report_overwritten(self, t, node);
    }
    if (self->output_nr < 0 || !node || !context().grad_enabled || impl_of(value.get())->requires_grad()) {
      return value.release();
    }
    const Tensor linked = alias(Tensor::share(impl_of(value.get())));
    retain(node);
    set_history(linked.get(), node, self->output_nr);
    return wrap(linked);
  });
}

PyObject* make(PyTypeObject*, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"tensor", "output_nr", nullptr};
  PyObject *tensor, *number = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O", const_cast<char**>(names), &tensor, &number)) return nullptr;
  return guarded([&]() -> PyObject* {
    tensor_argument(tensor);
    const long output_nr = number == Py_None ? -1 : PyLong_AsLong(number);
    if (PyErr_Occurred()) throw PythonError{};
    return save_value(tensor, static_cast<int>(output_nr));
  });
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self_of(object)->value);
  Py_VISIT(self_of(object)->unpack);
  return 0;
}
int clear(PyObject* object) {
  Py_CLEAR(self_of(object)->value);
  Py_CLEAR(self_of(object)->unpack);
  return 0;
}
void dealloc(PyObject* object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_Del(object);
  Py_DECREF(type);
}

PyMethodDef methods[] = {{"get", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(get)), METH_FASTCALL,
                          "get(node=None): the value, or an error if it has been overwritten since."},
                         {}};
PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(make)},
                       {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                       {Py_tp_methods, methods},
                       {0, nullptr}};
PyType_Spec spec = {"weft._core.SavedValue", sizeof(PySavedValue), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

}  // namespace

PyObject* save_value(PyObject* tensor, int output_nr) {
  Ref kept = Ref::borrowed(tensor);
  if (output_nr >= 0) kept = Ref(checked(wrap(alias(Tensor::share(impl_of(tensor))))));
  const TensorImpl* t = impl_of(kept.get());
  const bool watched = t->storage && !t->has(kInference);
  const auto& hooks = context().saved_tensor_hooks;
  Ref unpack;
  uint32_t version = watched ? t->storage->version : kVersionUnknown;
  if (!hooks.empty()) {
    unpack = Ref::borrowed(static_cast<PyObject*>(hooks.back()));
    kept = Ref(checked(pack_value(kept.get(), static_cast<PyObject*>(hooks[hooks.size() - 2]))));
  }
  auto* self = PyObject_GC_New(PySavedValue, saved_value_type);
  if (!self) throw PythonError{};
  self->value = kept.release();
  self->unpack = unpack.release();
  self->version = version;
  self->output_nr = output_nr;
  PyObject_GC_Track(self);
  return reinterpret_cast<PyObject*>(self);
}

bool init_saved_values(PyObject* module) {
  saved_value_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return saved_value_type &&
         PyModule_AddObjectRef(module, "SavedValue", reinterpret_cast<PyObject*>(saved_value_type)) == 0;
}

}  // namespace weft::bind
