// Note [A tensor that is not computed yet]
// Under this schedule an operation's contract is checked and its node recorded, as always; only run() is
// put off. The result is a tensor of known shape and dtype without storage (kPending), which owns its
// node through grad_fn; the node holds its inputs. When a value is asked for (ensure_value), the nodes
// it depends on run in the order of their recording, which is a topological order, and each drops its
// inputs. A result nobody holds any more when its node runs is computed only if another needs it.
//
// Contracts never look at values, so nothing else in the core notices. Operations whose shape depends on
// values, random draws (their order is part of the program) and in-place writes compute what they need
// at once.
#include "core/schedule/deferred.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

namespace weft {
namespace {

// Nodes that may not have run yet. A write into memory that one of them reads runs them first.
std::vector<Node*> recorded;
size_t prune_at = 1024;

bool has_run(Node* n) { return n->has(kHasRun); }

// From the last to the first: a node that goes lets go of those before it.
void prune() {
  std::vector<Node*> kept;
  for (size_t i = recorded.size(); i-- > 0;) {
    Node* n = recorded[i];
    if (n->refs == 1 || has_run(n)) release(n);  // nobody wants it any more, or it is done
    else kept.push_back(n);
  }
  std::ranges::reverse(kept);
  recorded.swap(kept);
  prune_at = std::max<size_t>(1024, 2 * recorded.size());
}

void record(const OpTable& table, const void* fields, Inputs in, Meta* metas, Tensor* out) {
  const Context& now = context();
  for (int k = 0; k < table.outputs; ++k) {
    out[k] = pending(metas[k].shape(), metas[k].dtype, metas[k].device);
    if (metas[k].strided) {
      std::copy_n(metas[k].strides, metas[k].ndim, out[k]->dims + metas[k].ndim);
      refresh_contiguity(out[k].get());
    }
  }
  bool needs = false;
  if (now.grad_enabled && !(table.traits & kNeverDifferentiable)) {
    for (int i = 0; i < in.size(); ++i)
      if (in.data()[i]) needs |= needs_grad(in.data()[i]);
  }
  Node* n = record_deferred_node(table, fields, in, out, table.outputs, needs);
  for (int i = 0; i < in.size(); ++i)
    if (in.data()[i] && in.data()[i]->storage) in.data()[i]->storage->read_later = true;
  retain(n);
  recorded.push_back(n);
  if (recorded.size() >= prune_at) prune();
  for (int k = 0; k < table.outputs; ++k) {
    if (k > 0) retain(n);
    TensorImpl* t = out[k].get();
    t->grad_fn = n;
    t->output_nr = static_cast<uint16_t>(k);
    const bool differentiable = is_differentiable(t->dtype) && !(k > 0 && (table.traits & kFirstOutputOnly));
    if (needs && differentiable) t->flags |= kRequiresGrad;
    if (now.inference) t->flags |= kInference;
  }
}

// Gives a pending tensor the memory of the one that was computed for it.
void settle(TensorImpl* t, const Tensor& value) {
  t->storage = value->storage;
  retain(t->storage);
  t->data = value->data;
  std::copy_n(value->dims, 2 * value->ndim, t->dims);
  refresh_contiguity(t);
  t->flags &= ~kPending;
  t->storage->read_later = true;  // others may have been recorded that read it
}

void run_node(Node* n) {
  TensorImpl** held = n->held();
  const Inputs in(held, static_cast<int>(n->inputs));
  const OpTable& table = *n->op;
  // The node runs under its own rules: immediately, and without recording again.
  const GradMode off(false);
  Tensor out[4];
  apply(table, n->fields(), in, out);
  n->flags |= kHasRun;
  save_results(n, out);
  for (int k = 0; k < n->outputs; ++k) {
    TensorImpl* t = std::exchange(n->awaiting()[k], nullptr);
    if (!t) continue;
    settle(t, out[k]);
    if ((table.traits & kView) && !t->has(kInference)) {
      const Tensor& of = in[0];
      t->base = of->base ? of->base : of.get();
      retain(t->base);
      t->view_version = t->storage->version;
    }
    if (!t->requires_grad()) {
      t->grad_fn = nullptr;
      release(n);
    }
  }
  for (uint32_t i = 0; i < n->inputs; ++i) {
    if (TensorImpl* t = std::exchange(held[i], nullptr)) release(t);
  }
  // Inputs kept for the derivative had no version yet when they were pending.
  for (int k = 0; k < n->saved_count; ++k) {
    TensorImpl* t = n->saved()[k];
    if (t && t->storage && n->saved_sources()[k] < output(0)) n->saved_versions()[k] = t->storage->version;
  }
}

void run_with_producers(Node* wanted) {
  struct Immediate {
    const Schedule* before = std::exchange(context().schedule, nullptr);
    ~Immediate() { context().schedule = before; }
  } immediate;
  std::vector<Node*> order, stack{wanted};
  std::unordered_set<Node*> seen;
  while (!stack.empty()) {
    Node* n = stack.back();
    stack.pop_back();
    if (!seen.insert(n).second) continue;
    retain(n);
    order.push_back(n);
    for (uint32_t i = 0; i < n->inputs; ++i) {
      TensorImpl* t = n->held()[i];
      if (t && t->has(kPending)) stack.push_back(t->grad_fn);
    }
  }
  std::sort(order.begin(), order.end(), [](const Node* a, const Node* b) { return a->sequence < b->sequence; });
  struct Owned {
    std::vector<Node*>& nodes;
    ~Owned() {
      for (Node* n : nodes) release(n);
    }
  } owned{order};
  for (Node* n : order)
    if (!has_run(n)) run_node(n);
}

void run_readers() {
  std::vector<Node*> all;
  all.swap(recorded);
  for (Node* n : all) {
    if (n->refs > 1 && !has_run(n)) run_with_producers(n);
    release(n);
  }
}

const bool installed = [] {
  force_readers = run_readers;
  force_pending = force;
  force_node = run_with_producers;
  return true;
}();

}  // namespace

const Schedule& deferred_schedule() {
  (void)installed;
  static const Schedule schedule{record};
  return schedule;
}

void forget_finished_records() { prune(); }

void force(TensorImpl* t) {
  const Tensor held = Tensor::share(t);
  run_with_producers(t->grad_fn);
}

}  // namespace weft
