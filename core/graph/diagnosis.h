// What the graph tells the doctor (weft/doctor): where the chain was cut, and what was blown up by accident.
#pragma once

#include <vector>

#include "core/graph/node.h"

namespace weft {

// While Context::trace_cuts is set, every cut is listed, and with it the node whose history it ended.
struct TracedCut {
  Node* cut;     // owned
  Node* source;  // owned
};
bool is_cut(const TensorImpl* t);
// Of a Cut: a number, or classes, were read from a value behind it, as whoever measures a model does.
inline constexpr NodeFlag kCounted{1 << 5};
std::string cut_name(Node* cut);  // "detach", "mul under no_grad"
void trace_cut(Node* cut, TensorImpl* from);
// The other inputs of an operation under no_grad: parameters are lost beside values that were lost before.
void trace_others(Node* cut, Inputs in, int known);
// Hands the list over, and with it what its entries own.
std::vector<TracedCut> take_traced_cuts();

// An operation on two tensors of one element count but different rank ([8, 1] with [8]) has blown both
// up: rarely meant, and silent where a loss is averaged. Such nodes are marked as they are recorded;
// backward looks for one near its root. Losses mark what they blow up themselves, whatever the shapes.
void mark_broadcast(Node* n, Inputs in);
inline bool blows_both_up(Inputs in, const Tensor& out) {
  const TensorImpl *a = in.data()[0], *b = in.data()[1];
  return out.numel() > a->numel && b && a->numel == b->numel && a->ndim != b->ndim;
}
Node* find_broadcast_near(Node* root);

// Note [Gradients that were used already]
// A step uses a gradient. If nobody clears or rewrites it, and the next backward adds to it, then what the
// next step sees is a sum over two steps. Nothing that is meant looks like that: accumulation over several
// backwards has no step in between. Adding alone proves nothing, though: a generator's loss adds to the
// gradients of a discriminator that has stepped, which clears them before its own next loss. So the leaf
// remembers that it is stale, and the alarm is raised by the step that uses a stale gradient. Versions tell
// whether somebody wrote to it meanwhile; after it became stale only a write *before another addition* counts
// (`zero_()`), because clipping writes to it before the step.
void note_addition(TensorImpl* leaf, AutogradExtra& extra);  // before adding to a gradient that exists
inline void note_added(AutogradExtra& extra) {
  if (extra.stale_step && extra.grad->storage) extra.stale_version = extra.grad->storage->version;
}
inline void note_first_gradient(AutogradExtra& extra) { extra.used_by_step = extra.stale_step = 0; }
// An optimiser step uses this leaf's gradient. Returns the step that had used it before, if it is stale.
uint32_t mark_gradient_used(TensorImpl* leaf, uint32_t step);

}  // namespace weft
