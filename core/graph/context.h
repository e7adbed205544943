// Everything that is "current": gradient mode, schedule, the line being run. One pointer names it, so a
// coroutine or a thread switches all of it by swapping the pointer.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor/callsite.h"

namespace weft {

struct Schedule;  // core/schedule
struct Node;
struct Scope;  // core/graph/site.h
struct Site;
struct OpTable;
class Inputs;
class Tensor;

// Told of every operation after it has run; for those who look (graph views, profiles).
using Observer = void (*)(const OpTable& table, Inputs in, const Tensor* out);

struct Context {
  bool grad_enabled = true;
  bool inference = false;
  bool mark_cuts = true;    // see Note [Where the chain was cut]; off in weft's own work without gradient
  bool trace_cuts = false;  // the doctor is looking for the one that lost a parameter
  bool anomaly = false;
  bool anomaly_check_nan = true;
  bool record_sites = true;
  // Set while code of weft's own runs for the user (composed operations, modules): the user's line.
  CallSite user_site{};
  int user_site_depth = 0;
  const Schedule* schedule = nullptr;  // null: immediate
  Observer observer = nullptr;
  Scope* scope = nullptr;     // the innermost module being called; owned by its ModuleCall
  Site* last_site = nullptr;  // owned: what the last recorded node was given
  CallSite last_read{};       // where a value with history was last turned into a plain number; code owned
  Node* cut = nullptr;        // owned: the mark left by the first recorded value met in this block without gradient
  std::vector<void*> saved_tensor_hooks;  // pairs pack, unpack: owned Python callables
};

extern thread_local constinit Context* context_pointer;
Context* make_thread_context();
inline Context& context() {
  Context* c = context_pointer;
  return __builtin_expect(c != nullptr, 1) ? *c : *make_thread_context();
}

class GradMode {
 public:
  explicit GradMode(bool on) : before_(context().grad_enabled), marked_before_(context().mark_cuts) {
    context().grad_enabled = on;
    context().mark_cuts = false;
  }
  ~GradMode() {
    context().grad_enabled = before_;
    context().mark_cuts = marked_before_;
  }
  GradMode(const GradMode&) = delete;

 private:
  bool before_, marked_before_;
};

}  // namespace weft
