// Whose line the nodes belong to that are being recorded: see Context::user_site.
#pragma once

#include <utility>

#include "bind/object.h"

namespace weft::bind {

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
