// The nodes of weft.autograd.Function; weft/autograd/function.py is the other half.
#include <cstring>

#include "bind/object.h"
#include "core/autograd/engine.h"

namespace weft::bind {

std::vector<Tensor> tensor_list(PyObject* sequence, const char* what, bool none_allowed);
Node* node_from(PyObject* o);

namespace {

// `backward` is called with the gradients of the results; it holds the context of this call.
struct PythonFunction {
  static constexpr Schema schema{"python_function(Tensor[] inputs) -> Tensor"};
  static constexpr uint32_t traits = kInternal | kRunsWithoutGradient;
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
    Ref node(checked(wrap_node(b.node())));
    Ref callback = Ref::borrowed(b.op<PythonFunction>().backward.object);
    PyObject* arguments[] = {grads.get(), node.get()};
    Ref result(checked(PyObject_Vectorcall(callback.get(), arguments, 2, nullptr)));
    for (int i = 0; i < b.inputs(); ++i) {
      PyObject* g = PyTuple_GET_ITEM(result.get(), i);
      if (g != Py_None) b.set(i, Tensor::share(impl_of(g)));
    }
  }
};

void release_python_function(void* fields) {
  static PyObject* const name = interned("release");
  Ref done(PyObject_CallMethodNoArgs(static_cast<PythonFunction*>(fields)->backward.object, name));
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
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    return file && std::strstr(file, "/weft/autograd/");
  }

  CallSite before_;
  int depth_;
};

// A view that a custom function returns has the history the function gives it, and must keep it:
// writing to the view or to its base would put another in its place.
void limit_view(TensorImpl* t, bool one_of_several) {
  t->view_version = t->storage->version;
  t->flags = (t->flags & ~kViewLimits) | (one_of_several ? kViewMultiple : kViewInFunction);
}

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
    struct Release {
      Node* n;
      ~Release() { release(n); }
    } held{n};
    extra_of(n).name = name;
    const auto is_true = [](PyObject* flags, size_t k) { return PyTuple_GET_ITEM(flags, k) == Py_True; };
    int with_history = 0;
    for (size_t k = 0; k < out.size(); ++k) with_history += is_true(differentiable, k);
    for (size_t k = 0; k < out.size(); ++k) {
      if (!is_true(differentiable, k)) continue;
      retain(n);
      if (is_true(dirty, k)) {
        rebase_history(out[k].get(), n, static_cast<int>(k));
      } else {
        set_history(out[k].get(), n, static_cast<int>(k));
        if (out[k]->base) limit_view(out[k].get(), with_history > 1);
      }
      // Backward may refer to the result, which owns it.
      Ref object(checked(wrap(out[k])));
      if (!PyObject_GC_IsTracked(object.get())) PyObject_GC_Track(object.get());
    }
    return wrap_node(n);
  });
}

// _with_history(value, node, output_nr): a saved value as the result `output_nr` of `node`.
PyObject* with_history(PyObject*, PyObject* args) {
  PyObject *tensor, *node;
  int output_nr;
  if (!PyArg_ParseTuple(args, "OOi", &tensor, &node, &output_nr)) return nullptr;
  return guarded([&]() -> PyObject* {
    Node* n = node_from(node);
    if (!n || !is_tensor(tensor)) fail(ErrorKind::Type, "_with_history(tensor, node, output_nr)");
    Tensor t = alias(Tensor::share(impl_of(tensor)));
    retain(n);
    set_history(t.get(), n, output_nr);
    return wrap(std::move(t));
  });
}

PyMethodDef functions[] = {{"_record_function", record_function, METH_VARARGS, nullptr},
                           {"_with_history", with_history, METH_VARARGS, nullptr},
                           {}};

PyObject* callback_of(Node* n) {
  return n->op == &op_PythonFunction ? reinterpret_cast<PythonFunction*>(n->fields())->backward.object : nullptr;
}

}  // namespace

PyObject* function_context(Node* n) {
  PyObject* callback = callback_of(n);
  if (!callback) return nullptr;
  Ref context(PyObject_GetAttrString(callback, "context"));
  if (!context) PyErr_Clear();
  return context.get();  // the callback holds it
}

int visit_function(Node* n, visitproc visit, void* arg) {
  Py_VISIT(callback_of(n));
  return 0;
}

bool init_custom_functions(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace weft::bind
