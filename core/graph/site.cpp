#include "core/graph/site.h"

#include <utility>

#include "core/tensor/block.h"

namespace weft {

ModuleTag* make_module_tag(void* object) { return new (block_allocate(sizeof(ModuleTag))) ModuleTag{1, object}; }

void release(ModuleTag* tag) {
  if (--tag->refs == 0) block_release(tag, sizeof(ModuleTag));
}

void release(Scope* scope) {
  while (scope && --scope->refs == 0) {
    Scope* outer = scope->outer;
    release(scope->module);
    block_release(scope, sizeof(Scope));
    scope = outer;
  }
}

void destroy(Site* site) {
  release(site->scope);
  if (site->code) python.release(site->code);
  block_release(site, sizeof(Site));
}

Site* take_site(Context& now, int32_t* instruction) {
  const CallSite line = python.current_site();
  *instruction = line.instruction;
  Site* last = now.last_site;
  if (last && last->code == line.code && last->scope == now.scope) {
    if (line.code) python.release(line.code);
  } else {
    if (now.scope) ++now.scope->refs;
    if (last) release(last);
    last = now.last_site = new (block_allocate(sizeof(Site))) Site{1, line.code, now.scope};
  }
  ++last->refs;
  return last;
}

std::string site_text(const Site* site, int32_t instruction) {
  return site ? python.site_text(site->code, instruction) : std::string();
}

ModuleCall::ModuleCall(ModuleTag* module) : context_(context()) {
  if (context_.scope) ++context_.scope->refs;
  own_ = new (block_allocate(sizeof(Scope))) Scope{1, context_.scope, module};
  ++module->refs;
  context_.scope = own_;
}

ModuleCall::~ModuleCall() {
  context_.scope = own_->outer;
  release(own_);
}

}  // namespace weft
