// Where a node was recorded: the line of the user's Python, and the modules being called.
//
// Note [Sites are shared]
// A node is told apart from its neighbours by an instruction offset; the code object and the modules
// around it stay the same for many nodes in a row. Those two live in a Site that consecutive nodes share,
// so that knowing the module costs a node nothing more than knowing its line. The names of modules
// ("encoder.layers.0") are worked out by bind/ when somebody asks.
#pragma once

#include <cstdint>

#include "core/graph/context.h"

namespace weft {

// Stands for a module object. The object does not belong to the tag and the tag outlives it: nodes must
// not keep modules alive, for a module may well keep a result of its own.
struct ModuleTag {
  uint32_t refs;
  void* object;  // null when the module is gone
};

// One call of a module that is under way, or was when a node was recorded.
struct Scope {
  uint32_t refs;
  Scope* outer;  // owned
  ModuleTag* module;
};

struct Site {
  uint32_t refs;
  void* code;    // owned code object
  Scope* scope;  // owned; null outside of modules
};

ModuleTag* make_module_tag(void* object);
void release(ModuleTag* tag);
void release(Scope* scope);
void destroy(Site* site);
inline void release(Site* site) {
  if (--site->refs == 0) destroy(site);
}

// The line that is running now, for a new node; null when lines are not recorded.
Site* take_site(Context& now, int32_t* instruction);
// " at model.py:12 (in forward)"
std::string site_text(const Site* site, int32_t instruction);

// While it lives, nodes recorded by this thread belong to a call of this module.
class ModuleCall {
 public:
  explicit ModuleCall(ModuleTag* module);
  ~ModuleCall();
  ModuleCall(const ModuleCall&) = delete;

 private:
  Context& context_;
  Scope* own_;
};

}  // namespace weft
