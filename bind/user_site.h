// Whose line the nodes belong to that are being recorded: see Context::user_site.
#pragma once

#include <utility>

#include "bind/object.h"

namespace weft::bind {

// (file, line, function) of a place in the user's Python; None where it is not known.
PyObject* site_object(CallSite site);
// Whether a code object stands in the package itself (its demo is written as a user would write it).
bool is_own_code(PyObject* code);

// Holds the caller's line for as long as weft's own Python runs.
class UserSite {
 public:
  UserSite() : context_(context()) {
    outermost_ = context_.user_site_depth == 0;
    if (outermost_) {
      // Without provenance nothing is looked up, but inner calls must still not look either.
      context_.user_site = context_.record_sites ? python.current_site() : CallSite{};
    }
    ++context_.user_site_depth;
  }
  ~UserSite() {
    --context_.user_site_depth;
    if (outermost_) Py_XDECREF(static_cast<PyObject*>(context_.user_site.code));
  }
  UserSite(const UserSite&) = delete;

 private:
  Context& context_;
  bool outermost_;
};

// While it lives, the innermost line that is not weft's own counts as the user's, unless one is held already.
// For work that begins below several frames of weft's own Python.
class CallersLine {
 public:
  CallersLine();
  ~CallersLine() {
    if (!pushed_) return;
    --context_.user_site_depth;
    Py_XDECREF(static_cast<PyObject*>(context_.user_site.code));
  }
  CallersLine(const CallersLine&) = delete;
  CallSite site() const { return context_.user_site_depth > 0 ? context_.user_site : CallSite{}; }

 private:
  Context& context_;
  bool pushed_ = false;
};

// While weft's own Python runs code of the user's: there, lines count again.
class UserCode {
 public:
  UserCode() : context_(context()), depth_(std::exchange(context_.user_site_depth, 0)) {
    if (depth_ > 0) site_ = context_.user_site;
  }
  ~UserCode() {
    context_.user_site_depth = depth_;
    if (depth_ > 0) context_.user_site = site_;
  }
  UserCode(const UserCode&) = delete;

 private:
  Context& context_;
  int depth_;
  CallSite site_;
};

}  // namespace weft::bind
