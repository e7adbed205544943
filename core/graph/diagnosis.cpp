#include "core/graph/diagnosis.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

std::vector<TracedCut> traced;
constexpr size_t kTracedAtMost = 4096;  // after that many without a step, nobody is training
uint32_t broadcasts_marked = 0;         // since the last search: most programs have none, and search nothing

// `[:, None]` or unsqueeze(1) in the function of this operation: somebody meant it. (Where the lifted
// value has no history, the doctor looks for that in the line itself.)
bool was_lifted(const Node* n, Node* producer, const TensorImpl* t) {
  if (!producer || !producer->op->has(kView) || !t->base || t->base->ndim >= t->ndim) return false;
  return !producer->site || !n->site || producer->site->code == n->site->code;
}

bool is_scalar(Edge edge) { return !edge.node() || edge.node()->result_sizes(edge.output_nr()).empty(); }

// The loss itself is meant, and the losses that it is put together from; not what lies behind a product.
bool belongs_to_loss(Node* n) {
  if (n->op->pointwise || n->inputs == 1) return true;
  return std::all_of(n->edges(), n->edges() + n->inputs, is_scalar);
}

}  // namespace

void trace_cut(Node* cut, TensorImpl* from) {
  if (traced.size() >= kTracedAtMost) {
    context().trace_cuts = false;
    for (const TracedCut& t : take_traced_cuts()) {
      release(t.cut);
      release(t.source);
    }
    return;
  }
  Node* source = take_gradient_edge(from).node();
  if (!source) return;
  ++cut->refs;
  traced.push_back({cut, source});
}

void trace_others(Node* cut, Inputs in, int known) {
  for (int i = 0; i < in.size(); ++i) {
    TensorImpl* t = in.data()[i];
    if (i != known && t && t->requires_grad()) trace_cut(cut, t);
  }
}

std::vector<TracedCut> take_traced_cuts() { return std::exchange(traced, {}); }

void mark_broadcast(Node* n, Inputs in) {
  if (!n->op->pointwise) return;
  for (int i = 0; i < 2; ++i)
    if (was_lifted(n, n->edges()[i].node(), in.data()[i])) return;
  n->flags |= kBroadcastsBoth;
  extra_of(n).note = describe(in.data()[0]) + " with " + describe(in.data()[1]);
  ++broadcasts_marked;
}

Node* find_broadcast_near(Node* root) {
  if (std::exchange(broadcasts_marked, 0) == 0) return nullptr;
  constexpr size_t kFar = 64;
  std::vector<Node*> seen{root};
  for (size_t i = 0; i < seen.size() && seen.size() < kFar; ++i) {
    Node* n = seen[i];
    if (n->has(kBroadcastsBoth)) return n;
    if (!belongs_to_loss(n)) continue;
    for (uint32_t k = 0; k < n->inputs; ++k) {
      Node* producer = n->edges()[k].node();
      if (producer && std::ranges::find(seen, producer) == seen.end()) seen.push_back(producer);
    }
  }
  return nullptr;
}

void note_addition(TensorImpl* leaf, AutogradExtra& extra) {
  const uint32_t version = extra.grad->storage ? extra.grad->storage->version : 0;
  if (extra.used_by_step) {
    if (version == extra.used_version) {
      extra.stale_step = extra.used_by_step;
      python.stale_gradient(leaf);
    }
    extra.used_by_step = 0;
  } else if (version != extra.stale_version) {
    extra.stale_step = 0;
  }
}

uint32_t mark_gradient_used(TensorImpl* leaf, uint32_t step) {
  AutogradExtra* extra = leaf->extra;
  if (!extra || !extra->grad) return 0;
  extra->used_by_step = step;
  extra->used_version = extra->grad->storage ? extra->grad->storage->version : 0;
  return std::exchange(extra->stale_step, 0);
}

}  // namespace weft
