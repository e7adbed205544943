// The contexts `no_grad`, `enable_grad` and `inference_mode`: entered and left once per step or per call
// of a model, so entering and leaving is here. What they do as decorators is Python
// (weft/autograd/_modes.py).
#include <cstring>

#include "bind/object.h"

namespace weft::bind {
namespace {

enum class Kind : uint8_t { NoGrad, EnableGrad, Inference };

struct PyMode {
  PyObject_HEAD Kind kind;
  bool mode;                 // of inference_mode: whether it switches on
  std::vector<bool> before;  // (grad_enabled, inference) of every time it was entered and not left
};

PyMode* mode_of(PyObject* o) { return reinterpret_cast<PyMode*>(o); }

void set_modes(bool grad_enabled, bool inference) {
  Context& now = context();
  now.grad_enabled = grad_enabled;
  now.inference = inference;
  if (now.cut) release(std::exchange(now.cut, nullptr));
}

PyObject* enter(PyObject* object, PyObject*) {
  PyMode* self = mode_of(object);
  const Context& now = context();
  self->before.push_back(now.grad_enabled);
  self->before.push_back(now.inference);
  switch (self->kind) {
    case Kind::NoGrad: set_modes(false, now.inference); break;
    case Kind::EnableGrad: set_modes(true, now.inference); break;
    case Kind::Inference: set_modes(!self->mode, self->mode); break;
  }
  Py_RETURN_NONE;
}

PyObject* leave(PyObject* object, PyObject* const*, Py_ssize_t) {
  PyMode* self = mode_of(object);
  if (self->before.empty()) return PyErr_Format(PyExc_RuntimeError, "this context has not been entered");
  const bool inference = self->before.back();
  self->before.pop_back();
  const bool grad_enabled = self->before.back();
  self->before.pop_back();
  set_modes(grad_enabled, inference);
  Py_RETURN_NONE;
}

// `inference_mode(True)`; `no_grad()`; and without parentheses, as a decorator.
template <Kind kind>
PyObject* make(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* const inference_names[] = {"mode", nullptr};
  static const char* const names[] = {"function", nullptr};
  PyObject* given = nullptr;
  const bool empty = PyTuple_GET_SIZE(args) == 0 && (!keywords || PyDict_GET_SIZE(keywords) == 0);
  if (!empty &&
      !PyArg_ParseTupleAndKeywords(args, keywords, "|O",
                                   const_cast<char**>(kind == Kind::Inference ? inference_names : names), &given))
    return nullptr;
  PyObject* object = type->tp_alloc(type, 0);
  if (!object) return nullptr;
  PyMode* self = mode_of(object);
  new (&self->before) std::vector<bool>();
  self->kind = kind;
  self->mode = true;
  if (!given || given == Py_None) return object;
  if (kind == Kind::Inference && !PyCallable_Check(given)) {
    const int truth = PyObject_IsTrue(given);
    if (truth < 0) Py_CLEAR(object);
    else self->mode = truth != 0;
    return object;
  }
  const Ref held(object);
  return PyObject_CallOneArg(object, given);
}

PyObject* get_mode(PyObject* self, void*) { return PyBool_FromLong(mode_of(self)->mode); }

void dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  mode_of(object)->before.~vector();
  type->tp_free(object);
  Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"__enter__", enter, METH_NOARGS, nullptr},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(leave)), METH_FASTCALL, nullptr},
    {}};
PyGetSetDef attributes[] = {{"mode", get_mode, nullptr, "Whether it switches inference mode on.", nullptr}, {}};

template <Kind kind>
bool add_type(PyObject* module, const char* name) {
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(make<kind>)},
      {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
      {Py_tp_methods, methods},
      {kind == Kind::Inference ? Py_tp_getset : 0, kind == Kind::Inference ? attributes : nullptr},
      {0, nullptr}};
  PyType_Spec spec = {name, sizeof(PyMode), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  const Ref type(PyType_FromSpec(&spec));
  return type && PyModule_AddObjectRef(module, std::strrchr(name, '.') + 1, type.get()) == 0;
}

}  // namespace

bool init_modes(PyObject* module) {
  return add_type<Kind::NoGrad>(module, "weft._core.NoGradMode") &&
         add_type<Kind::EnableGrad>(module, "weft._core.EnableGradMode") &&
         add_type<Kind::Inference>(module, "weft._core.InferenceMode");
}

}  // namespace weft::bind
