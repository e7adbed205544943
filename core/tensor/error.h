// Errors the core raises. bind/ turns each kind into the Python exception class PyTorch uses.
#pragma once

#include <exception>
#include <sstream>
#include <string>

namespace weft {

enum class ErrorKind { Runtime, Index, Type, Value, NotImplemented, Memory, Overflow };

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind(kind), message(std::move(message)) {}
  const char* what() const noexcept override { return message.c_str(); }

  ErrorKind kind;
  std::string message;
  bool described = false;  // the operation and its arguments have been appended
};

// A Python exception is already set (by a hook, a custom function, Ctrl-C): just unwind.
struct PythonError {};

template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(ErrorKind kind, const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Error(kind, text.str());
}

template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Error(ErrorKind::Runtime, text.str());
}

}  // namespace weft
