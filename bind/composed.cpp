// Operations written in Python (weft/ops): a callable that remembers the user's line before it enters
// weft's own code, so that every node recorded inside belongs to the line that called it.
#include "bind/override.h"
#include "bind/user_site.h"

namespace weft::bind {
namespace {

struct PyComposed {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* function;
  PyObject* dict;
};

PyTypeObject* function_type = nullptr;
PyTypeObject* method_type = nullptr;

PyObject* vectorcall(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  PyObject* answer;
  if (overrides_in_use && overridden(self, args, PyVectorcall_NARGS(flags), names, &answer)) return answer;
  const UserSite site;
  return PyObject_Vectorcall(reinterpret_cast<PyComposed*>(self)->function, args, flags, names);
}

PyObject* bind_method(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None || Py_TYPE(self) == function_type) {
    Py_INCREF(self);
    return self;
  }
  return PyMethod_New(self, instance);
}

PyObject* get_attribute(PyObject* self, PyObject* name) {
  if (PyObject* own = PyObject_GenericGetAttr(self, name)) return own;
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return nullptr;
  PyErr_Clear();
  return PyObject_GetAttr(reinterpret_cast<PyComposed*>(self)->function, name);
}

PyObject* repr(PyObject* self) { return PyObject_Repr(reinterpret_cast<PyComposed*>(self)->function); }

PyObject* get_wrapped(PyObject* self, void*) {
  PyObject* f = reinterpret_cast<PyComposed*>(self)->function;
  Py_INCREF(f);
  return f;
}
template <int which>
PyObject* forwarded(PyObject* self, void*) {
  static constexpr const char* names[] = {"__doc__", "__name__", "__qualname__", "__module__"};
  return PyObject_GetAttrString(reinterpret_cast<PyComposed*>(self)->function, names[which]);
}

PyObject* reduce(PyObject* self, PyObject*) { return forwarded<2>(self, nullptr); }

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<PyComposed*>(self)->function);
  Py_VISIT(reinterpret_cast<PyComposed*>(self)->dict);
  return 0;
}
int clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<PyComposed*>(self)->function);
  Py_CLEAR(reinterpret_cast<PyComposed*>(self)->dict);
  return 0;
}
void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

PyGetSetDef attributes[] = {{"__wrapped__", get_wrapped, nullptr, nullptr, nullptr},
                            {"__doc__", forwarded<0>, nullptr, nullptr, nullptr},
                            {"__name__", forwarded<1>, nullptr, nullptr, nullptr},
                            {"__qualname__", forwarded<2>, nullptr, nullptr, nullptr},
                            {"__module__", forwarded<3>, nullptr, nullptr, nullptr},
                            {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                            {}};
PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr}, {}};
PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(PyComposed, vectorcall), READONLY, nullptr},
                         {"__dictoffset__", T_PYSSIZET, offsetof(PyComposed, dict), READONLY, nullptr},
                         {}};
PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_descr_get, reinterpret_cast<void*>(bind_method)},
                       {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
                       {Py_tp_repr, reinterpret_cast<void*>(repr)},
                       {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                       {Py_tp_getset, attributes},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {0, nullptr}};
constexpr unsigned kFlags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
PyType_Spec function_spec = {"weft._core.ComposedFunction", sizeof(PyComposed), 0, kFlags, slots};
PyType_Spec method_spec = {"weft._core.ComposedMethod", sizeof(PyComposed), 0, kFlags | Py_TPFLAGS_METHOD_DESCRIPTOR,
                           slots};

PyObject* make(PyTypeObject* type, PyObject* function) {
  if (!PyCallable_Check(function)) return PyErr_Format(PyExc_TypeError, "expected a callable");
  auto* self = PyObject_GC_New(PyComposed, type);
  if (!self) return nullptr;
  self->vectorcall = vectorcall;
  Py_INCREF(function);
  self->function = function;
  self->dict = nullptr;
  PyObject_GC_Track(self);
  return reinterpret_cast<PyObject*>(self);
}
PyObject* composed_function(PyObject*, PyObject* f) { return make(function_type, f); }
PyObject* composed_method(PyObject*, PyObject* f) { return make(method_type, f); }

PyMethodDef module_functions[] = {
    {"composed_function", composed_function, METH_O, "A function of weft's own whose caller's line is kept."},
    {"composed_method", composed_method, METH_O, "The same, to be set on a class."},
    {}};

}  // namespace

bool init_composed(PyObject* module) {
  function_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&function_spec));
  method_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&method_spec));
  return function_type && method_type && PyModule_AddFunctions(module, module_functions) == 0;
}

}  // namespace weft::bind
