// Named tuples for operations with several results: `(Tensor values, Tensor indices)` in a schema makes
// weft.return_types.<name>, which unpacks like a tuple and shows its fields by name.
#include <map>
#include <string>

#include "bind/object.h"
#include "core/graph/schema.h"

namespace weft::bind {
namespace {

struct ResultType {
  std::string name;
  std::vector<std::string> field_names;
  std::vector<PyStructSequence_Field> fields;
  PyTypeObject* type = nullptr;
};

// By operation; they live as long as the process.
std::map<std::string, std::unique_ptr<ResultType>, std::less<>>& types() {
  static auto* all = new std::map<std::string, std::unique_ptr<ResultType>, std::less<>>;
  return *all;
}
PyObject* by_name = nullptr;

PyObject* repr(PyObject* self) {
  Ref pieces(PyList_New(0));
  if (!pieces) return nullptr;
  Ref names(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(self)), "__match_args__"));
  if (!names) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
    Ref piece(PyUnicode_FromFormat("%U=%R", PyTuple_GET_ITEM(names.get(), i), PyTuple_GET_ITEM(self, i)));
    if (!piece || PyList_Append(pieces.get(), piece.get()) < 0) return nullptr;
  }
  Ref separator(PyUnicode_FromString(",\n"));
  Ref body(separator ? PyUnicode_Join(separator.get(), pieces.get()) : nullptr);
  return body ? PyUnicode_FromFormat("%s(\n%U)", Py_TYPE(self)->tp_name, body.get()) : nullptr;
}

// The type of that name, made when first asked for. Null with an error set when there is none.
PyTypeObject* type_named(const std::string& name, std::vector<std::string> field_names) {
  auto& slot = types()[name];
  if (slot) return slot->type;
  slot = std::make_unique<ResultType>();
  slot->name = "weft.return_types." + name;
  slot->field_names = std::move(field_names);
  for (const std::string& field : slot->field_names) slot->fields.push_back({field.c_str(), nullptr});
  slot->fields.push_back({nullptr, nullptr});
  PyStructSequence_Desc description{slot->name.c_str(), nullptr, slot->fields.data(),
                                    static_cast<int>(slot->field_names.size())};
  slot->type = PyStructSequence_NewType(&description);
  if (!slot->type) return nullptr;
  slot->type->tp_repr = repr;
  if (PyDict_SetItemString(by_name, name.c_str(), reinterpret_cast<PyObject*>(slot->type)) < 0) return nullptr;
  return slot->type;
}

PyObject* result_type(PyObject*, PyObject* arguments) {
  const char* name;
  PyObject* given;
  if (!PyArg_ParseTuple(arguments, "sO!", &name, &PyTuple_Type, &given)) return nullptr;
  std::vector<std::string> fields;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
    const char* field = PyUnicode_AsUTF8(PyTuple_GET_ITEM(given, i));
    if (!field) return nullptr;
    fields.emplace_back(field);
  }
  PyObject* type = reinterpret_cast<PyObject*>(type_named(name, std::move(fields)));
  Py_XINCREF(type);
  return type;
}

PyMethodDef module_functions[] = {{"result_type_of", result_type, METH_VARARGS,
                                   "The named tuple type of an operation's results, by name and fields."},
                                  {}};

}  // namespace

PyTypeObject* named_result_type(const Schema& schema) {
  const std::string_view text = schema.text;
  size_t at = text.rfind(") -> (");
  if (at == std::string_view::npos) return nullptr;
  std::vector<std::string> fields;
  for (at += 6; at < text.size();) {
    const size_t end = text.find_first_of(",)", at), space = text.rfind(' ', end);
    if (space == std::string_view::npos || space <= at) return nullptr;  // (Tensor, Tensor): a plain tuple
    fields.emplace_back(text.substr(space + 1, end - space - 1));
    at = end + 2;
  }
  PyTypeObject* type = type_named(std::string(schema.name()), std::move(fields));
  if (!type) throw PythonError{};
  return type;
}

bool init_result_types(PyObject* module) {
  by_name = PyDict_New();
  return by_name && PyModule_AddObjectRef(module, "result_types", by_name) == 0 &&
         PyModule_AddFunctions(module, module_functions) == 0;
}

}  // namespace weft::bind
