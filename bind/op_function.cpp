// weft.<name>(...) and tensor.<name>(...): one callable per name and form, holding the signatures that
// share the name and calling straight into the dispatcher.
#include <algorithm>
#include <map>
#include <memory>

#include "bind/override.h"
#include "bind/signature.h"
#include "core/ops/registry.h"

namespace weft::bind {
namespace {

constexpr int kMostPlain = 4;

struct Overloads {
  std::string name;
  std::vector<Signature> signatures;
  // How many tensors alone the first signature takes by position, if it takes nothing but tensors.
  Py_ssize_t fewest_plain = 1, most_plain = 0;

  void find_plain() {
    const Signature& first = signatures.front();
    const auto& parameters = first.parameters;
    if (parameters.empty() || parameters.size() > kMostPlain || first.table->compose_list || first.result_type) return;
    if (!(first.forms & (kFunction | kFunctional))) return;
    for (const Parameter& p : parameters)
      if (p.kind != ParameterKind::Tensor || p.keyword_only) return;
    fewest_plain =
        std::count_if(parameters.begin(), parameters.end(), [](const Parameter& p) { return !p.has_default; });
    most_plain = static_cast<Py_ssize_t>(parameters.size());
  }
};

enum class CallForm : uint8_t { Function, Method, InPlace };
// _core.ops lists every operation, so those that weft offers as methods only can be called there, too.
constexpr uint8_t kAnyFunction = kFunction | kMethod | kFunctional;

struct PyOp {
  PyObject_HEAD vectorcallfunc vectorcall;
  const Overloads* overloads;
  CallForm form;
  PyObject* dict;
};

PyTypeObject* op_type = nullptr;
PyObject* name_out = nullptr;

std::string type_names(const Arguments& a) {
  std::string text = "(";
  for (Py_ssize_t i = 0; i < a.count; ++i) {
    if (i) text += ", ";
    text += is_tensor(a.items[i]) ? "Tensor" : Py_TYPE(a.items[i])->tp_name;
  }
  for (Py_ssize_t k = 0; a.names && k < PyTuple_GET_SIZE(a.names); ++k) {
    if (a.count + k) text += ", ";
    text += std::string(PyUnicode_AsUTF8(PyTuple_GET_ITEM(a.names, k))) + "=" +
            (is_tensor(a.items[a.count + k]) ? "Tensor" : Py_TYPE(a.items[a.count + k])->tp_name);
  }
  return text + ")";
}

[[gnu::cold]] void fail_mismatch(const Overloads& overloads, const Arguments& arguments) {
  if (overloads.signatures.size() == 1) {
    Matched matched;
    Mismatch why{"", true};
    match(overloads.signatures[0], arguments, &matched, &why);
    fail(ErrorKind::Type, why.reason);
  }
  std::string text = overloads.name + "() received an invalid combination of arguments - got " + type_names(arguments) +
                     ", but expected one of:\n";
  for (const Signature& s : overloads.signatures) {
    Matched matched;
    Mismatch why{"", true};
    match(s, arguments, &matched, &why);
    text += " * " + s.text() + "\n      didn't match because: " + why.reason + "\n";
  }
  fail(ErrorKind::Type, text);
}

PyObject* results(const Signature& signature, Tensor* out) {
  const int count = signature.table->outputs;
  if (count == 1) return wrap(std::move(out[0]));
  // A named result is a tuple, too.
  Ref tuple(checked(signature.result_type ? PyStructSequence_New(signature.result_type) : PyTuple_New(count)));
  for (int k = 0; k < count; ++k) PyTuple_SET_ITEM(tuple.get(), k, checked(wrap(std::move(out[k]))));
  return tuple.release();
}

PyObject* call_with_out(const Signature& signature, const void* fields, Inputs in, PyObject* given) {
  const OpTable& table = *signature.table;
  Tensor out[4];
  if (table.outputs == 1) {
    if (PyTuple_Check(given) && PyTuple_GET_SIZE(given) == 1) given = PyTuple_GET_ITEM(given, 0);
    if (!is_tensor(given))
      fail(ErrorKind::Type, table.name(), "(): argument 'out' must be Tensor, not ", Py_TYPE(given)->tp_name);
    out[0] = Tensor::share(impl_of(given));
  } else {
    if ((!PyTuple_Check(given) && !PyList_Check(given)) || PySequence_Fast_GET_SIZE(given) != table.outputs) {
      fail(ErrorKind::Type, table.name(), "(): argument 'out' must be a tuple of ", int{table.outputs}, " Tensors");
    }
    for (int k = 0; k < table.outputs; ++k) {
      PyObject* item = PySequence_Fast_ITEMS(given)[k];
      if (!is_tensor(item)) fail(ErrorKind::Type, table.name(), "(): argument 'out' must be a tuple of Tensors");
      out[k] = Tensor::share(impl_of(item));
    }
  }
  apply_out(table, fields, in, out);
  if (signature.result_type) return results(signature, out);
  Py_INCREF(given);
  return given;
}

// With out=, a sum is taken in the dtype of what it is written into, unless a dtype was named.
void choose_dtype(const Signature& signature, Matched* matched, DType dtype) {
  int attribute = 0;
  for (const Parameter& p : signature.parameters) {
    if (p.kind == ParameterKind::Tensor || p.kind == ParameterKind::TensorList) continue;
    Value& v = matched->attributes()[attribute++];
    if (p.kind != ParameterKind::DType || v.kind != Value::Kind::None) continue;
    v.kind = Value::Kind::DType;
    v.integer = static_cast<int64_t>(dtype);
  }
}

// With out=, a creating operation computes in the dtype of what it writes into.
void take_dtype_of(const TensorImpl* out, const OpTable& table, Value* value, CreationOptions* options) {
  if (options->has_dtype && options->dtype != out->dtype) {
    fail(table.name(), "(): dtype ", dtype_name(options->dtype), " does not match dtype of out parameter (",
         dtype_name(out->dtype), ")");
  }
  options->has_dtype = true;
  options->dtype = out->dtype;
  std::memcpy(&value->integer, options, sizeof *options);
}

PyObject* call_matched(const PyOp* op, const Signature& signature, Matched& matched, PyObject* self,
                       PyObject* out_argument) {
  const OpTable& table = *signature.table;
  CreationOptions options;
  alignas(16) char room[256];
  struct Fields {
    const OpTable& table;
    char* at;
    ~Fields() {
      if (table.destroy) table.destroy(at);
    }
  };
  if (signature.options >= 0) {
    Value& v = matched.attributes()[signature.options];
    read_value(v, options);
    if (out_argument && is_tensor(out_argument)) take_dtype_of(impl_of(out_argument), table, &v, &options);
  }
  if (out_argument && table.has(kOutChoosesDtype) && is_tensor(out_argument)) {
    choose_dtype(signature, &matched, impl_of(out_argument)->dtype);
  }
  if (table.build) table.build(matched.attributes(), room);
  Fields fields{table, room};
  const Inputs in = matched.inputs();
  if (op->form == CallForm::InPlace) {
    apply_in_place(table, room, in);
    Py_INCREF(self);
    return self;
  }
  if (out_argument) return call_with_out(signature, room, in, out_argument);
  if (table.compose_list) {
    std::vector<Tensor> list;
    table.compose_list(room, in, list);
    return wrap_list(list, true);
  }
  Tensor out[4];
  apply(table, room, in, out);
  if (options.requires_grad) {
    if (out[0]->grad_fn) release(std::exchange(out[0]->grad_fn, nullptr));  // a cut: see record_cut()
    out[0]->flags |= kRequiresGrad;
  }
  return results(signature, out);
}

// Most calls: tensors by position, for an operation that takes nothing else. Null: not such a call.
PyObject* call_plainly(const Overloads& overloads, PyObject* const* args, Py_ssize_t count) {
  const Signature& signature = overloads.signatures.front();
  TensorImpl* tensors[kMostPlain];
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_tensor(args[i])) return nullptr;
    tensors[i] = impl_of(args[i]);
  }
  const auto all = static_cast<Py_ssize_t>(signature.parameters.size());
  for (Py_ssize_t i = count; i < all; ++i) tensors[i] = nullptr;
  Tensor out[4];
  apply(*signature.table, nullptr, Inputs(tensors, static_cast<int>(all)), out);
  return results(signature, out);
}

PyObject* vectorcall(PyObject* callable, PyObject* const* args, size_t flags, PyObject* names) {
  const auto* op = reinterpret_cast<const PyOp*>(callable);
  PyObject* answer;
  if (overrides_in_use && overridden(callable, args, PyVectorcall_NARGS(flags), names, &answer)) return answer;
  return guarded([&]() -> PyObject* {
    const Py_ssize_t positional = PyVectorcall_NARGS(flags);
    if (!names && op->form != CallForm::InPlace && positional >= op->overloads->fewest_plain &&
        positional <= op->overloads->most_plain) {
      if (PyObject* result = call_plainly(*op->overloads, args, positional)) return result;
    }
    Arguments arguments{args, positional, names, nullptr};
    if (op->form != CallForm::Function) {
      if (arguments.count == 0 || !is_tensor(args[0])) {
        fail(ErrorKind::Type, op->overloads->name,
             "(): the first argument must be a Tensor, as this is a method of Tensor");
      }
      arguments.self = args[0];
      ++arguments.items;
      --arguments.count;
    }
    // out= is not part of a schema: any function that offers it takes it.
    PyObject* out_argument = nullptr;
    Ref other_names;
    std::vector<PyObject*> other_items;
    if (names && op->form == CallForm::Function) {
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); ++k) {
        if (PyTuple_GET_ITEM(names, k) != name_out) continue;
        out_argument = arguments.items[arguments.count + k];
        other_items.assign(arguments.items, arguments.items + arguments.count + PyTuple_GET_SIZE(names));
        other_items.erase(other_items.begin() + arguments.count + k);
        other_names = Ref(checked(PyTuple_New(PyTuple_GET_SIZE(names) - 1)));
        for (Py_ssize_t from = 0, to = 0; from < PyTuple_GET_SIZE(names); ++from) {
          if (from == k) continue;
          Py_INCREF(PyTuple_GET_ITEM(names, from));
          PyTuple_SET_ITEM(other_names.get(), to++, PyTuple_GET_ITEM(names, from));
        }
        arguments.items = other_items.data();
        arguments.names = other_names.get();
        break;
      }
      if (out_argument == Py_None) out_argument = nullptr;
    }
    const uint8_t form = op->form == CallForm::InPlace  ? kInPlace
                         : op->form == CallForm::Method ? kMethod
                                                        : kAnyFunction;
    for (const Signature& signature : op->overloads->signatures) {
      if (signature.forms && !(signature.forms & form)) continue;
      Matched matched;
      Mismatch mismatch;
      if (!match(signature, arguments, &matched, &mismatch)) continue;
      if (out_argument && !(signature.forms & kOut))
        fail(ErrorKind::Type, op->overloads->name, "() got an unexpected keyword argument 'out'");
      return call_matched(op, signature, matched, arguments.self, out_argument);
    }
    // No tensor of a class with a say, but perhaps something else that has one.
    if (overridden(callable, args, PyVectorcall_NARGS(flags), names, &answer)) return answer;
    fail_mismatch(*op->overloads, arguments);
  });
}

PyObject* bind_method(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None || reinterpret_cast<PyOp*>(self)->form == CallForm::Function) {
    Py_INCREF(self);
    return self;
  }
  return PyMethod_New(self, instance);
}

std::string shown_name(const PyOp* op) { return op->overloads->name + (op->form == CallForm::InPlace ? "_" : ""); }

PyObject* repr(PyObject* self) {
  const auto* op = reinterpret_cast<const PyOp*>(self);
  return PyUnicode_FromFormat(
      op->form == CallForm::Function ? "<built-in function %s>" : "<method '%s' of 'weft.Tensor' objects>",
      shown_name(op).c_str());
}
PyObject* get_op_name(PyObject* self, void*) {
  return PyUnicode_FromString(shown_name(reinterpret_cast<PyOp*>(self)).c_str());
}
PyObject* get_qualname(PyObject* self, void*) {
  const auto* op = reinterpret_cast<const PyOp*>(self);
  return PyUnicode_FromString(((op->form == CallForm::Function ? "" : "Tensor.") + shown_name(op)).c_str());
}
PyObject* reduce(PyObject* self, PyObject*) { return get_qualname(self, nullptr); }
void op_dealloc(PyObject* self) {
  Py_CLEAR(reinterpret_cast<PyOp*>(self)->dict);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyGetSetDef op_attributes[] = {{"__name__", get_op_name, nullptr, nullptr, nullptr},
                               {"__qualname__", get_qualname, nullptr, nullptr, nullptr},
                               {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                               {}};
PyMethodDef op_methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr}, {}};
PyMemberDef op_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(PyOp, vectorcall), READONLY, nullptr},
                            {"__dictoffset__", T_PYSSIZET, offsetof(PyOp, dict), READONLY, nullptr},
                            {}};
PyType_Slot op_slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                          {Py_tp_descr_get, reinterpret_cast<void*>(bind_method)},
                          {Py_tp_repr, reinterpret_cast<void*>(repr)},
                          {Py_tp_getset, op_attributes},
                          {Py_tp_methods, op_methods},
                          {Py_tp_members, op_members},
                          {Py_tp_dealloc, reinterpret_cast<void*>(op_dealloc)},
                          {0, nullptr}};
PyType_Spec function_spec = {"weft._core.Function", sizeof(PyOp), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
                             op_slots};
PyType_Spec method_spec = {"weft._core.Method", sizeof(PyOp), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, op_slots};
PyTypeObject* method_type = nullptr;

PyObject* new_op(const Overloads* overloads, CallForm form) {
  auto* op = PyObject_New(PyOp, form == CallForm::Function ? op_type : method_type);
  if (!op) return nullptr;
  op->vectorcall = vectorcall;
  op->overloads = overloads;
  op->form = form;
  op->dict = nullptr;
  return reinterpret_cast<PyObject*>(op);
}

// A schema as its readers know it: `Options options` stands for the keywords that creation takes.
std::string spelled_out(std::string_view schema) {
  static constexpr std::string_view group = "Options options";
  const size_t at = schema.find(group);
  if (at == std::string_view::npos) return std::string(schema);
  return std::string(schema.substr(0, at)) +
         "DType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False, bool? "
         "requires_grad=False" +
         std::string(schema.substr(at + group.size()));
}

PyObject* registry_list(PyObject*, PyObject*) {
  Ref list(PyList_New(0));
  if (!list) return nullptr;
  for (const RegistryEntry& e : registry()) {
    const std::string schema = spelled_out(e.table->schema.text);
    const std::string name(e.table->name());
    Ref forms(PyList_New(0));
    static constexpr std::pair<uint8_t, const char*> names[] = {{kFunction, "function"},
                                                                {kMethod, "method"},
                                                                {kInPlace, "inplace"},
                                                                {kOut, "out"},
                                                                {kFunctional, "functional"}};
    for (auto [form, text] : names) {
      if (!(e.forms & form)) continue;
      Ref item(PyUnicode_FromString(text));
      PyList_Append(forms.get(), item.get());
    }
    Ref entry(Py_BuildValue("{s:s, s:s, s:s, s:O, s:i, s:O, s:O, s:O}", "name", name.c_str(), "struct",
                            e.table->struct_name, "schema", schema.c_str(), "kinds", forms.get(), "traits",
                            static_cast<int>(e.table->traits), "differentiable",
                            e.table->vjp || e.table->compose || e.table->compose_list ? Py_True : Py_False,
                            "elementwise", e.table->pointwise ? Py_True : Py_False, "composed",
                            e.table->compose || e.table->compose_list ? Py_True : Py_False));
    if (!entry || PyList_Append(list.get(), entry.get()) < 0) return nullptr;
  }
  return list.release();
}

PyMethodDef module_functions[] = {{"registry", registry_list, METH_NOARGS, "The list of operations, one dict each."},
                                  {}};

}  // namespace

bool init_op_functions(PyObject* module) {
  name_out = interned("out");
  op_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&function_spec));
  method_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&method_spec));
  if (!op_type || !method_type) return false;
  // Lives as long as the process.
  auto* by_name = new std::map<std::string, std::unique_ptr<Overloads>>;
  for (const RegistryEntry& e : registry()) {
    auto& overloads = (*by_name)[std::string(e.table->name())];
    if (!overloads) overloads = std::make_unique<Overloads>(Overloads{std::string(e.table->name()), {}});
    overloads->signatures.emplace_back(e.table, e.forms);
    overloads->signatures.back().result_type = named_result_type(e.table->schema);
  }
  Ref functions(PyDict_New()), functional(PyDict_New());
  for (auto& [name, overloads] : *by_name) {
    overloads->find_plain();
    uint8_t forms = 0;
    for (const Signature& s : overloads->signatures) forms |= s.forms;
    Ref function(new_op(overloads.get(), CallForm::Function));
    if (!function) return false;
    // Every operation can be called as weft._core.ops[name]; weft shows those that PyTorch shows.
    if (PyDict_SetItemString(functions.get(), name.c_str(), function.get()) < 0) return false;
    if (forms & kFunctional && PyDict_SetItemString(functional.get(), name.c_str(), function.get()) < 0) return false;
    if (forms & kFunction && PyModule_AddObjectRef(module, name.c_str(), function.get()) < 0) return false;
    if (forms & kMethod) {
      Ref method(new_op(overloads.get(), CallForm::Method));
      if (!method || PyObject_SetAttrString(reinterpret_cast<PyObject*>(tensor_type), name.c_str(), method.get()) < 0)
        return false;
    }
    if (forms & kInPlace) {
      Ref method(new_op(overloads.get(), CallForm::InPlace));
      if (!method ||
          PyObject_SetAttrString(reinterpret_cast<PyObject*>(tensor_type), (name + "_").c_str(), method.get()) < 0)
        return false;
    }
  }
  return PyModule_AddObjectRef(module, "ops", functions.get()) == 0 &&
         PyModule_AddObjectRef(module, "functional", functional.get()) == 0 &&
         PyModule_AddFunctions(module, module_functions) == 0;
}

}  // namespace weft::bind
