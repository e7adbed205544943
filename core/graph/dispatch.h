// The one way into an operation: contract, memory, kernel, recording.
#pragma once

#include "core/graph/context.h"
#include "core/graph/node.h"
#include "core/graph/op.h"

namespace weft {

// Runs (or, under a deferred schedule, records) an operation. `out` has room for table.outputs tensors.
void apply(const OpTable& table, const void* fields, Inputs in, Tensor* out);
// The in-place form: the first input receives the result.
void apply_in_place(const OpTable& table, const void* fields, Inputs in);
// The out= form. Results are written into `out`, which are resized when empty.
void apply_out(const OpTable& table, const void* fields, Inputs in, Tensor* out);

template <class Op, class... In>
Tensor call(const OpTable& table, const Op& op, const In&... in) {
  TensorImpl* items[] = {in.get()...};
  Tensor out[4];
  apply(table, &op, Inputs(items, sizeof...(In)), out);
  return std::move(out[0]);
}

// What the deferred schedule does instead of running (core/schedule).
struct Schedule { void (*record)(const OpTable& table, const void* fields, Inputs in, Meta* metas, Tensor* out); };
// Computes a tensor that has only been recorded. Set by core/schedule.
extern void (*force_pending)(TensorImpl* t);
extern void (*force_node)(Node* n);
// Runs what still has to read memory that is about to be overwritten.
extern void (*force_readers)();
inline void ensure_value(TensorImpl* t) {
  if (t->flags & kPending) force_pending(t);
}

// Computes into tensors that exist already; used by every schedule.
void run_operation(const OpTable& table, const void* fields, Inputs in, Tensor* out);

// Whether backward has to reach this tensor. A view whose base was written to takes its base's history,
// which throws where the view was made in a way that forbids it (kViewLimits). Its history is in
// `grad_fn` only if requires_grad() says so, too.
bool view_needs_grad(TensorImpl* t);
inline bool needs_grad(TensorImpl* t) {
  if (t->base && t->storage &&
      ((t->base->flags & ~t->flags & kRequiresGrad) || t->view_version != t->storage->version)) {
    return view_needs_grad(t);
  }
  return t->flags & kRequiresGrad;
}
// The same for those who only look: never throws, changes nothing.
inline bool shows_requires_grad(const TensorImpl* t) {
  return (t->flags & kRequiresGrad) || (t->base && t->base->requires_grad() && is_differentiable(t->dtype));
}

// Refuses a device that this build cannot compute on: the one place that says so.
void check_device(Device device);

// Call before and after something writes into `t` outside an operation's in-place form.
// The table and `in_place` name the operation in messages; `differentiable`: what is written, or what it
// is written to, has a history.
void check_writable(const OpTable& table, bool in_place, TensorImpl* t, bool differentiable);
void note_write(TensorImpl* t);
// `t` now comes from result `output_nr` of `node`; the base of a view is brought along.
void rebase_history(TensorImpl* t, Node* node, int output_nr);

// operation(float32[2, 3], int64[4])
std::string describe_call(const OpTable& table, Inputs in);

void check_no_partial_overlap(const TensorImpl* out, const TensorImpl* in);

}  // namespace weft
