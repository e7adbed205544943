// For those who look: a Python callable that is told of every operation after it has run.
#include "bind/object.h"

namespace weft::bind {
namespace {

thread_local PyObject* observer = nullptr;  // owned

template <class Items>
PyObject* tensor_tuple(const Items& items, int n) {
  Ref all(checked(PyTuple_New(n)));
  for (int i = 0; i < n; ++i) {
    TensorImpl* t = items[i].get();
    PyTuple_SET_ITEM(all.get(), i, t ? checked(wrap(Tensor::share(t))) : Py_NewRef(Py_None));
  }
  return all.release();
}

void tell_observer(const OpTable& table, Inputs in, const Tensor* out) {
  // What the observer itself computes is nobody's business.
  struct Quiet {
    Context& now = context();
    Observer before = std::exchange(now.observer, nullptr);
    ~Quiet() {
      if (observer) now.observer = before;
    }
  } const quiet;
  const Ref self = Ref::borrowed(observer);
  const int n_out = std::max(1, static_cast<int>(table.outputs));
  const Ref inputs(tensor_tuple(in, in.size())), outputs(tensor_tuple(out, n_out));
  TensorImpl* first = out[0].get();
  const Ref node(checked(wrap_node(first && first->requires_grad() ? first->grad_fn : nullptr)));
  const std::string_view name = table.name();
  const Ref text(checked(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()))));
  PyObject* arguments[] = {text.get(), inputs.get(), outputs.get(), node.get()};
  const Ref done(checked(PyObject_Vectorcall(self.get(), arguments, 4, nullptr)));
}

PyObject* set_observer(PyObject*, PyObject* callable) {
  if (callable != Py_None && !PyCallable_Check(callable)) {
    return PyErr_Format(PyExc_TypeError, "_set_observer(): expected a callable or None, not %s",
                        Py_TYPE(callable)->tp_name);
  }
  PyObject* before = observer;
  observer = callable == Py_None ? nullptr : Py_NewRef(callable);
  context().observer = observer ? tell_observer : nullptr;
  return before ? before : Py_NewRef(Py_None);
}

PyMethodDef functions[] = {
    {"_set_observer", set_observer, METH_O,
     "Of this thread: callable(operation, inputs, outputs, node) after every operation. Returns the one before."},
    {}};

}  // namespace

bool init_observer(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace weft::bind
