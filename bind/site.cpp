// Which line of the user's Python is running, and the lock around it.
#include "bind/user_site.h"

namespace weft::bind {
namespace {

CallSite current_site() {
  const Context& now = context();
  if (now.user_site_depth > 0) {
    Py_XINCREF(static_cast<PyObject*>(now.user_site.code));
    return now.user_site;
  }
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame) return {};
  return {PyFrame_GetCode(frame), PyFrame_GetLasti(frame)};
}

std::string site_text(void* code, int32_t instruction) {
  if (!code) return "";
  auto* object = static_cast<PyCodeObject*>(code);
  const int line = PyCode_Addr2Line(object, instruction);
  Ref name(PyObject_GetAttrString(reinterpret_cast<PyObject*>(object), "co_filename"));
  Ref function(PyObject_GetAttrString(reinterpret_cast<PyObject*>(object), "co_name"));
  const char* file = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
  const char* in = function ? PyUnicode_AsUTF8(function.get()) : nullptr;
  if (!file || !in) {
    PyErr_Clear();
    return "";
  }
  return " at " + std::string(file) + ":" + std::to_string(line) + " (in " + in + ")";
}

// Text that starts the file names of the package, or of its demo; borrowed, worked out once.
PyObject* package_prefix(const char* folder) {
  const Ref package(checked(PyImport_ImportModule("weft")));
  const Ref file(checked(PyObject_GetAttrString(package.get(), "__file__")));
  const Py_ssize_t end = PyUnicode_FindChar(file.get(), '/', 0, PyUnicode_GET_LENGTH(file.get()), -1);
  const Ref root(checked(PyUnicode_Substring(file.get(), 0, end + 1)));
  return checked(PyUnicode_FromFormat("%U%s", root.get(), folder));
}

bool begins_with(PyObject* text, PyObject* prefix) {
  return PyUnicode_Tailmatch(text, prefix, 0, PY_SSIZE_T_MAX, -1) == 1;
}

}  // namespace

PyObject* site_object(CallSite site) {
  if (!site.code) Py_RETURN_NONE;
  auto* code = static_cast<PyCodeObject*>(site.code);
  return Py_BuildValue("(OiO)", code->co_filename, PyCode_Addr2Line(code, site.instruction), code->co_name);
}

bool is_own_code(PyObject* code) {
  static PyObject* const own = package_prefix("");
  static PyObject* const demo = package_prefix("demo/");
  PyObject* const file = reinterpret_cast<PyCodeObject*>(code)->co_filename;
  return begins_with(file, own) && !begins_with(file, demo);
}

CallersLine::CallersLine() : context_(context()) {
  if (context_.user_site_depth > 0 || !context_.record_sites) return;
  Ref frame = Ref::borrowed(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* const running = reinterpret_cast<PyFrameObject*>(frame.get());
    Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(running)));
    if (!is_own_code(code.get())) {
      context_.user_site = {code.release(), PyFrame_GetLasti(running)};
      context_.user_site_depth = 1;
      pushed_ = true;
      return;
    }
    frame = Ref(reinterpret_cast<PyObject*>(PyFrame_GetBack(running)));
  }
}

void init_sites() {
  python.retain = [](void* o) { Py_XINCREF(static_cast<PyObject*>(o)); };
  python.release = [](void* o) { Py_XDECREF(static_cast<PyObject*>(o)); };
  python.current_site = current_site;
  python.site_text = site_text;
  python.release_lock = []() -> void* { return PyEval_SaveThread(); };
  python.acquire_lock = [](void* state) { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); };
  python.annotate = [](const std::string& note) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value && PyErr_GivenExceptionMatches(type, PyExc_Exception)) {
      Ref done(PyObject_CallMethod(value, "add_note", "s", note.c_str()));
      if (!done) PyErr_Clear();
    }
    PyErr_Restore(type, value, trace);
  };
  python.check_signals = [] {
    if (PyErr_CheckSignals() != 0) throw PythonError{};
  };
  python.warn = [](const char* text) {
    // A composed operation's own frame is not the user's.
    if (PyErr_WarnEx(PyExc_UserWarning, text, context().user_site_depth > 0 ? 2 : 1) < 0) throw PythonError{};
  };
}

void translate_exception() {
  try {
    throw;
  } catch (const PythonError&) {
    // already set
  } catch (const Error& error) {
    PyObject* type = PyExc_RuntimeError;
    switch (error.kind) {
      case ErrorKind::Runtime: type = PyExc_RuntimeError; break;
      case ErrorKind::Index: type = PyExc_IndexError; break;
      case ErrorKind::Type: type = PyExc_TypeError; break;
      case ErrorKind::Value: type = PyExc_ValueError; break;
      case ErrorKind::NotImplemented: type = PyExc_NotImplementedError; break;
      case ErrorKind::Memory: type = PyExc_MemoryError; break;
      case ErrorKind::Overflow: type = PyExc_OverflowError; break;
    }
    PyErr_SetString(type, error.message.c_str());
  } catch (const std::bad_alloc&) { PyErr_NoMemory(); } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

}  // namespace weft::bind
