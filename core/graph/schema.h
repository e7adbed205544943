// One string in PyTorch's syntax says how an operation is called:
//   "sum.dim(Tensor self, int[] dim, bool keepdim=False, *, dtype? dtype=None) -> Tensor"
// The argument parser, the stubs, the documentation and the error messages all read it. Parameters that
// are tensors are the operation's inputs; the others are, in order, the fields of its struct, which is
// checked when the core is compiled.
#pragma once

#include <cstddef>
#include <string_view>

namespace weft {

struct Schema {
  std::string_view text;
  int tensors = 0;     // Tensor, Tensor?, Tensor[], Tensor?[]
  int attributes = 0;  // everything else
  int outputs = 0;

  consteval Schema(const char* source) : text(source) {
    size_t at = text.find('(');
    const size_t close = text.rfind(") -> ");
    if (at == std::string_view::npos || close == std::string_view::npos) throw "schema: name(...) -> type";
    ++at;
    while (at < close) {
      size_t end = at;
      int depth = 0;
      while (end < close && (text[end] != ',' || depth > 0)) {
        if (text[end] == '[' || text[end] == '(') ++depth;
        if (text[end] == ']' || text[end] == ')') --depth;
        ++end;
      }
      std::string_view parameter = text.substr(at, end - at);
      while (!parameter.empty() && parameter[0] == ' ') parameter.remove_prefix(1);
      if (parameter.starts_with("Tensor")) ++tensors;
      else if (parameter != "*" && !parameter.empty()) ++attributes;
      at = end + 1;
    }
    for (size_t i = close + 5; i + 6 <= text.size(); ++i) outputs += text.substr(i, 6) == "Tensor";
  }

  constexpr std::string_view name() const {
    const size_t end = text.find_first_of(".(");
    return text.substr(0, end);
  }
};

}  // namespace weft
