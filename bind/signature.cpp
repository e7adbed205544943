#include "bind/signature.h"

#include <cstring>

namespace weft::bind {
namespace {

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

int64_t memory_format_number(std::string_view name) {
  return name == "contiguous_format" ? 0 : name == "preserve_format" ? 1 : name == "channels_last" ? 2 : 3;
}

Value parse_default(ParameterKind kind, std::string_view text) {
  Value v;
  if (text == "None") return v;
  const std::string s(text);
  switch (kind) {
    case ParameterKind::Bool:
      v.kind = Value::Kind::Bool;
      v.integer = text == "True";
      break;
    case ParameterKind::String:
      v.kind = Value::Kind::String;
      v.text = text.data() + 1;
      v.length = text.size() - 2;
      break;
    case ParameterKind::IntList:
      v.kind = Value::Kind::IntList;
      if (text.front() == '[') {
        if (text != "[]") {
          std::string inside = s.substr(1, s.size() - 2);
          for (char* at = inside.data(); *at;) {
            v.list.push_back(std::strtoll(at, &at, 10));
            if (*at == ',') ++at;
          }
        }
      } else {
        v.list = Dims{std::strtoll(s.c_str(), nullptr, 10)};
      }
      break;
    case ParameterKind::MemoryFormat:
      v.kind = Value::Kind::Int;
      v.integer = memory_format_number(text);
      break;
    default:
      if (text == "True" || text == "False") {
        v.kind = Value::Kind::Bool;
        v.integer = text == "True";
      } else if (s.find_first_of(".en") != std::string::npos) {
        v.kind = Value::Kind::Float;
        v.floating = text == "inf" ? HUGE_VAL : text == "-inf" ? -HUGE_VAL : std::strtod(s.c_str(), nullptr);
      } else {
        v.kind = Value::Kind::Int;
        v.integer = std::strtoll(s.c_str(), nullptr, 10);
      }
  }
  return v;
}

Parameter parse_parameter(std::string_view text) {
  Parameter p;
  const size_t space = text.find(' ');
  std::string_view type = text.substr(0, space), rest = trim(text.substr(space + 1));
  const size_t equals = rest.find('=');
  const std::string name(trim(rest.substr(0, equals)));
  p.text = name;
  p.name = interned(name.c_str());
  static constexpr std::pair<const char*, const char*> second_names[] = {
      {"self", "input"}, {"dim", "axis"}, {"keepdim", "keepdims"}};
  for (auto [first, second] : second_names)
    if (name == first) p.second_name = interned(second);
  if (type.ends_with('?')) {
    p.optional = true;
    type.remove_suffix(1);
  }
  if (type.ends_with("|Scalar")) {
    p.takes_number = true;
    type.remove_suffix(7);
  }
  if (type == "Tensor") p.kind = ParameterKind::Tensor;
  else if (type == "Tensor[]" || type == "Tensor?[]") p.kind = ParameterKind::TensorList;
  else if (type == "int") p.kind = ParameterKind::Int;
  else if (type == "float") p.kind = ParameterKind::Float;
  else if (type == "bool") p.kind = ParameterKind::Bool;
  else if (type == "Scalar") p.kind = ParameterKind::Scalar;
  else if (type.starts_with("int[")) p.kind = ParameterKind::IntList;
  else if (type == "DType") p.kind = ParameterKind::DType;
  else if (type == "Device") p.kind = ParameterKind::Device;
  else if (type == "str") p.kind = ParameterKind::String;
  else if (type == "Generator") p.kind = ParameterKind::Generator;
  else if (type == "MemoryFormat") p.kind = ParameterKind::MemoryFormat;
  else if (type == "Options") p.kind = ParameterKind::Options;
  else Py_FatalError(("weft: unknown type in a schema: " + std::string(text)).c_str());
  if (equals != std::string_view::npos) {
    p.has_default = true;
    p.default_value = parse_default(p.kind, trim(rest.substr(equals + 1)));
  }
  return p;
}

const char* kind_name(const Parameter& p) {
  switch (p.kind) {
    case ParameterKind::Tensor: return p.takes_number ? "Tensor or Number" : "Tensor";
    case ParameterKind::TensorList: return "tuple of Tensors";
    case ParameterKind::Int: return "int";
    case ParameterKind::Float: return "float";
    case ParameterKind::Bool: return "bool";
    case ParameterKind::Scalar: return "Number";
    case ParameterKind::IntList: return "tuple of ints";
    case ParameterKind::DType: return "torch.dtype";
    case ParameterKind::Device: return "torch.device";
    case ParameterKind::String: return "str";
    case ParameterKind::Generator: return "torch.Generator";
    case ParameterKind::MemoryFormat: return "torch.memory_format";
    case ParameterKind::Options: return "";
  }
  return "";
}

bool take_list(PyObject* o, Matched* matched) {
  if (!PyList_Check(o) && !PyTuple_Check(o)) return false;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  PyObject** items = PySequence_Fast_ITEMS(o);
  for (Py_ssize_t i = 0; i < n; ++i)
    if (!is_tensor(items[i]) && items[i] != Py_None) return false;
  for (Py_ssize_t i = 0; i < n; ++i) matched->push(items[i] == Py_None ? nullptr : impl_of(items[i]));
  return true;
}

bool take_number(PyObject* o, Value* v, bool integer_only) {
  if (PyBool_Check(o)) {
    if (integer_only) return false;
    v->kind = Value::Kind::Bool;
    v->integer = o == Py_True;
    return true;
  }
  if (PyLong_Check(o)) {
    int overflow;
    v->kind = Value::Kind::Int;
    v->integer = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow) {
      if (!integer_only) {
        v->kind = Value::Kind::Float;
        v->floating = PyLong_AsDouble(o);
        if (PyErr_Occurred()) throw PythonError{};
        return true;
      }
      fail(ErrorKind::Overflow, "Overflow when unpacking long: ", "an argument does not fit int64");
    }
    return true;
  }
  if (PyFloat_Check(o)) {
    if (integer_only) return false;
    v->kind = Value::Kind::Float;
    v->floating = PyFloat_AS_DOUBLE(o);
    return true;
  }
  if (is_tensor(o)) {
    TensorImpl* t = impl_of(o);
    if (t->numel != 1 || t->ndim != 0 || (integer_only && !is_integral(t->dtype))) return false;
    Ref item(checked(tensor_item(t)));
    return take_number(item.get(), v, integer_only);
  }
  if (PyIndex_Check(o) && !PySequence_Check(o)) {
    Ref index(checked(PyNumber_Index(o)));
    return take_number(index.get(), v, integer_only);
  }
  if (!integer_only && Py_TYPE(o)->tp_as_number && Py_TYPE(o)->tp_as_number->nb_float && !PyUnicode_Check(o) &&
      !PySequence_Check(o)) {
    v->kind = Value::Kind::Float;
    v->floating = PyFloat_AsDouble(o);
    if (PyErr_Occurred()) throw PythonError{};
    return true;
  }
  return false;
}

bool take_integer(PyObject* o, int64_t* out) {
  if (PyLong_CheckExact(o)) {
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow) fail(ErrorKind::Overflow, "Overflow when unpacking long: an argument does not fit int64");
    return true;
  }
  Value v;
  if (!take_number(o, &v, true)) return false;
  *out = v.integer;
  return true;
}

// Names at a place of call are interned nearly always: then other objects are other names.
bool same_name(PyObject* key, PyObject* name) {
  return key == name || (!PyUnicode_CHECK_INTERNED(key) && PyUnicode_Compare(key, name) == 0);
}
bool is_called(const Parameter& p, PyObject* key) {
  return same_name(key, p.name) || (p.second_name && same_name(key, p.second_name));
}

bool take_attribute(const Parameter& p, PyObject* o, Value* v) {
  v->kind = Value::Kind::None;
  if (o == Py_None) return p.optional;
  switch (p.kind) {
    case ParameterKind::Int: return take_number(o, v, true);
    case ParameterKind::Scalar: return take_number(o, v, false);
    case ParameterKind::Float: return take_number(o, v, false);
    case ParameterKind::Bool:
      if (!PyBool_Check(o)) return false;
      v->kind = Value::Kind::Bool;
      v->integer = o == Py_True;
      return true;
    case ParameterKind::IntList:
      v->kind = Value::Kind::IntList;
      if (!PyBool_Check(o) && (PyLong_Check(o) || (PyIndex_Check(o) && !PySequence_Check(o) && !is_tensor(o)))) {
        Value single;
        if (!take_number(o, &single, true)) return false;
        v->list = Dims{single.integer};
        return true;
      }
      if (is_tensor(o) && impl_of(o)->ndim == 0 && is_integral(impl_of(o)->dtype)) {
        Value single;
        if (!take_number(o, &single, true)) return false;
        v->list = Dims{single.integer};
        return true;
      }
      return dims_from(o, &v->list);
    case ParameterKind::DType: {
      DType t;
      if (!dtype_from(o, &t)) return false;
      v->kind = Value::Kind::DType;
      v->integer = static_cast<int64_t>(t);
      return true;
    }
    case ParameterKind::Device: {
      if (!is_device(o) && !PyUnicode_Check(o)) return false;
      Device d;
      if (!device_from(o, &d)) throw PythonError{};
      v->kind = Value::Kind::Device;
      v->integer = static_cast<int64_t>(d.type) * 256 + d.index;
      return true;
    }
    case ParameterKind::String: {
      if (!PyUnicode_Check(o)) return false;
      Py_ssize_t size;
      const char* text = PyUnicode_AsUTF8AndSize(o, &size);
      if (!text) throw PythonError{};
      v->kind = Value::Kind::String;
      v->text = text;
      v->length = static_cast<size_t>(size);
      return true;
    }
    case ParameterKind::MemoryFormat: {
      Ref number(PyObject_GetAttrString(o, "_number"));
      if (!number) {
        PyErr_Clear();
        return false;
      }
      v->kind = Value::Kind::Int;
      v->integer = PyLong_AsLong(number.get());
      return true;
    }
    case ParameterKind::Generator:
      v->kind = Value::Kind::Generator;
      v->generator = generator_from(o);
      return v->generator != nullptr;
    default: return false;
  }
}

// ---- dtype=, layout=, device=, pin_memory= and requires_grad= of operations that create tensors -----

struct OptionNames {
  PyObject *dtype = interned("dtype"), *layout = interned("layout"), *device = interned("device"),
           *pin_memory = interned("pin_memory"), *requires_grad = interned("requires_grad");
};
const OptionNames& option_names() {
  static const OptionNames names;
  return names;
}

bool is_true(PyObject* o) {
  const int truth = PyObject_IsTrue(o);
  if (truth < 0) throw PythonError{};
  return truth;
}

void check_layout(PyObject* layout) {
  Ref dense(PyObject_GetAttrString(layout, "_is_strided"));
  if (!dense) {
    PyErr_Clear();
    fail(ErrorKind::Type, "argument 'layout' must be torch.layout, not ", Py_TYPE(layout)->tp_name);
  }
  if (dense.get() != Py_True)
    fail(ErrorKind::NotImplemented, "weft has dense tensors only: layout must be weft.strided");
}

enum class OptionFit { Other, Taken, Refused };

OptionFit take_option(PyObject* key, PyObject* o, CreationOptions* options) {
  const OptionNames& names = option_names();
  auto is = [&](PyObject* name) { return same_name(key, name); };
  if (is(names.dtype)) {
    options->has_dtype = o != Py_None;
    return !options->has_dtype || dtype_from(o, &options->dtype) ? OptionFit::Taken : OptionFit::Refused;
  }
  if (is(names.device)) {
    options->has_device = o != Py_None;
    if (!options->has_device) return OptionFit::Taken;
    if (!is_device(o) && !PyUnicode_Check(o)) return OptionFit::Refused;
    if (!device_from(o, &options->device)) throw PythonError{};
    return OptionFit::Taken;
  }
  if (is(names.requires_grad)) {
    if (o != Py_None && !PyBool_Check(o)) return OptionFit::Refused;
    options->requires_grad = o == Py_True;
    return OptionFit::Taken;
  }
  if (is(names.layout)) {
    if (o != Py_None) check_layout(o);
    return OptionFit::Taken;
  }
  if (is(names.pin_memory)) {
    if (o != Py_None && is_true(o))
      fail("pin_memory=True needs an accelerator: this build of weft computes on the CPU only");
    return OptionFit::Taken;
  }
  return OptionFit::Other;
}

bool is_option(PyObject* key) {
  const OptionNames& names = option_names();
  for (PyObject* name : {names.dtype, names.layout, names.device, names.pin_memory, names.requires_grad}) {
    if (same_name(key, name)) return true;
  }
  return false;
}

}  // namespace

Signature::Signature(const OpTable* table, uint8_t forms) : table(table), forms(forms) {
  const std::string_view text = table->schema.text;
  size_t at = text.find('(') + 1;
  const size_t close = text.rfind(") -> ");
  bool keyword_only = false;
  int attribute = 0;
  while (at < close) {
    size_t end = at;
    int depth = 0;
    while (end < close && (text[end] != ',' || depth > 0)) {
      if (text[end] == '[' || text[end] == '(') ++depth;
      if (text[end] == ']' || text[end] == ')') --depth;
      ++end;
    }
    const std::string_view part = trim(text.substr(at, end - at));
    at = end + 1;
    if (part == "*") {
      keyword_only = true;
      continue;
    }
    Parameter p = parse_parameter(part);
    p.keyword_only = keyword_only;
    if (!keyword_only) ++positional;
    if (p.kind == ParameterKind::Options) options = attribute;
    if (p.kind != ParameterKind::Tensor && p.kind != ParameterKind::TensorList) ++attribute;
    parameters.push_back(std::move(p));
  }
}

std::string Signature::text() const {
  std::string out = "(";
  bool star = false;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    if (i) out += ", ";
    if (p.keyword_only && !star) {
      out += "*, ";
      star = true;
    }
    if (p.kind == ParameterKind::Options) {
      out += "dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False";
      continue;
    }
    out += std::string(kind_name(p)) + " " + (p.text == "self" ? "input" : p.text);
    if (p.has_default) out += "=...";
  }
  return out + ")";
}

bool match(const Signature& signature, const Arguments& arguments, Matched* matched, Mismatch* mismatch) {
  const auto& parameters = signature.parameters;
  const int total = static_cast<int>(parameters.size());
  auto refuse = [&](auto&&... parts) {
    if (mismatch->wanted) {
      std::ostringstream text;
      (text << signature.table->name() << ... << parts);
      mismatch->reason = text.str();
    }
    return false;
  };

  int given = static_cast<int>(arguments.count);  // positional arguments not yet used
  PyObject* const* next = arguments.items;
  const Py_ssize_t keywords = arguments.names ? PyTuple_GET_SIZE(arguments.names) : 0;
  Py_ssize_t used_keywords = 0;

  for (int i = 0; i < total; ++i) {
    const Parameter& p = parameters[i];
    if (p.kind == ParameterKind::Options) {
      CreationOptions options;
      for (Py_ssize_t k = 0; k < keywords; ++k) {
        PyObject *key = PyTuple_GET_ITEM(arguments.names, k), *o = arguments.items[arguments.count + k];
        const OptionFit fit = take_option(key, o, &options);
        if (fit == OptionFit::Refused) {
          return refuse("(): argument '", PyUnicode_AsUTF8(key), "' must not be ", Py_TYPE(o)->tp_name);
        }
        if (fit == OptionFit::Taken) ++used_keywords;
      }
      Value& v = matched->add_attribute();
      v.kind = Value::Kind::Options;
      v.integer = 0;
      std::memcpy(&v.integer, &options, sizeof options);
      continue;
    }
    const bool is_input = p.kind == ParameterKind::Tensor || p.kind == ParameterKind::TensorList;
    PyObject* value = nullptr;
    if (i == 0 && arguments.self) {
      value = arguments.self;
    } else if (given > 0 && !p.keyword_only) {
      // view(2, 3): loose integers fill a list of integers that comes last.
      if (p.kind == ParameterKind::IntList && (PyLong_Check(*next) || (given > 1 && PyIndex_Check(*next))) &&
          i == signature.positional - 1 && !PyBool_Check(*next) && (given > 1 || arguments.self)) {
        Value& v = matched->add_attribute();
        v.kind = Value::Kind::IntList;
        v.list.resize(given);
        for (int k = 0; k < given; ++k) {
          if (!take_integer(next[k], &v.list[k])) {
            return refuse("(): argument '", p.text, "' (position ", i + 1,
                          ") must be tuple of ints, but found element of type ", Py_TYPE(next[k])->tp_name, " at pos ",
                          k);
          }
        }
        next += given;
        given = 0;
        continue;
      }
      value = *next++;
      --given;
    }
    if (keywords) {
      for (Py_ssize_t k = 0; k < keywords; ++k) {
        PyObject* key = PyTuple_GET_ITEM(arguments.names, k);
        if (!is_called(p, key)) continue;
        if (value) return refuse("() got multiple values for argument '", p.text, "'");
        value = arguments.items[arguments.count + k];
        ++used_keywords;
        break;
      }
    }
    if (!value) {
      if (!p.has_default) {
        return refuse("() missing ", 1, " required positional argument", ": \"", p.text == "self" ? "input" : p.text,
                      "\"");
      }
      if (is_input) matched->push(nullptr);
      else matched->add_attribute(p.default_value);
      continue;
    }
    bool fits;
    if (p.kind == ParameterKind::Tensor) {
      fits = true;
      if (is_tensor(value)) {
        matched->push(impl_of(value));
      } else if (p.optional && value == Py_None) {
        matched->push(nullptr);
      } else if (p.takes_number && is_number(value)) {
        matched->temporaries.push_back(number_to_tensor(value));
        matched->push(matched->temporaries.back().get());
      } else {
        Tensor number;
        if (p.takes_number && !PyUnicode_Check(value)) number = number_to_tensor(value);
        fits = static_cast<bool>(number);
        if (fits) {
          matched->push(number.get());
          matched->temporaries.push_back(std::move(number));
        }
      }
    } else if (p.kind == ParameterKind::TensorList) {
      fits = take_list(value, matched);
    } else {
      fits = take_attribute(p, value, &matched->add_attribute());
    }
    if (!fits) {
      const char* shown = p.text == "self" ? "input" : p.text.c_str();
      return refuse("(): argument '", shown, "' (position ", i + 1, ") must be ", kind_name(p), ", not ",
                    value == Py_None ? "NoneType" : Py_TYPE(value)->tp_name);
    }
  }
  if (given > 0) {
    const Py_ssize_t self = arguments.self ? 1 : 0;
    return refuse("() takes ", signature.positional - self, " positional arguments but ", arguments.count,
                  arguments.count == 1 ? " was" : " were", " given");
  }
  if (used_keywords < keywords) {
    for (Py_ssize_t k = 0; k < keywords; ++k) {
      PyObject* key = PyTuple_GET_ITEM(arguments.names, k);
      bool known = signature.options >= 0 && is_option(key);
      for (const Parameter& p : parameters) known = known || is_called(p, key);
      if (!known) return refuse("() got an unexpected keyword argument '", PyUnicode_AsUTF8(key), "'");
    }
    return refuse("(): the same argument was given twice");
  }
  return true;
}

}  // namespace weft::bind
