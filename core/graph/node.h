// A recorded operation. One allocation holds the header, the operation's fields, the edges to the
// nodes that produced its inputs, what it saved for backward and the shapes of its results:
//
//   Node | fields | edges | saved tensors | waiting gradients (if several results) | results |
//        held inputs and awaiting results (deferred) | versions
//
// The same object is the autograd node, the trace node and what the views show.
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/op.h"
#include "core/graph/site.h"
#include "core/tensor/tensor.h"

namespace weft {

// The producer of an input and which of its results that was, in one word.
class Edge {
 public:
  Edge() = default;
  Edge(Node* node, uint16_t output_nr) : bits_(reinterpret_cast<uint64_t>(node) | uint64_t{output_nr} << 48) {}
  Node* node() const { return reinterpret_cast<Node*>(bits_ & ((uint64_t{1} << 48) - 1)); }
  uint16_t output_nr() const { return static_cast<uint16_t>(bits_ >> 48); }
  explicit operator bool() const { return bits_ != 0; }
  friend bool operator==(Edge, Edge) = default;

 private:
  uint64_t bits_ = 0;
};

enum NodeFlag : uint8_t {
  kReleased = 1 << 0,        // saved values have been freed by a backward pass
  kHasRun = 1 << 1,          // of a deferred node
  kDeferred = 1 << 2,        // made by the deferred schedule: has room for what it needs to run later
  kFeedsRecorded = 1 << 3,   // of a Cut: a value without history went into a recorded operation
  kBroadcastsBoth = 1 << 4,  // see mark_broadcast()
};

// Hooks and Python-side companions, made when first needed.
struct NodeExtra {
  void* python = nullptr;             // the one Python object for this node, not owned
  void* hooks = nullptr;              // owned Python dict: see bind/node_type.cpp
  void* metadata = nullptr;           // owned Python dict, the user's
  std::vector<TensorImpl*> retained;  // results whose gradient is to be kept (retain_grad); not owned
  std::string name;                   // of a custom function
  std::string note;                   // for the doctor: the shapes of a suspicious broadcast
};

// The version of a saved tensor that was still pending when it was saved.
inline constexpr uint32_t kVersionUnknown = ~0u;

struct ResultMeta {  // followed by ndim sizes
  DType dtype;
  Device device;
  uint8_t ndim;
  uint32_t unused;
};
static_assert(sizeof(ResultMeta) == 8);

struct Node {
  const OpTable* op;
  uint32_t refs;
  uint32_t inputs;
  uint64_t sequence;
  Site* site;                // owned: where this node was recorded
  int32_t site_instruction;  // and at which instruction of its code
  uint32_t task;             // the backward pass the waiting gradients belong to
  TensorImpl* waiting;       // owned gradient on its way in (only result); see waiting_slots()
  NodeExtra* extra;
  uint32_t bytes;
  uint8_t outputs;
  uint8_t saved_count;
  uint8_t flags;
  uint8_t unused;

  char* fields() { return reinterpret_cast<char*>(this + 1); }
  Edge* edges() { return reinterpret_cast<Edge*>(fields() + op->field_bytes); }
  TensorImpl** saved() { return reinterpret_cast<TensorImpl**>(edges() + inputs); }
  TensorImpl** waiting_slots() {
    return outputs == 1 ? &waiting : reinterpret_cast<TensorImpl**>(saved() + saved_count);
  }
  char* results() { return reinterpret_cast<char*>(saved() + saved_count + (outputs == 1 ? 0 : outputs)); }
  const ResultMeta& result(int k) {
    char* at = results();
    while (k-- > 0) at += sizeof(ResultMeta) + sizeof(int64_t) * reinterpret_cast<ResultMeta*>(at)->ndim;
    return *reinterpret_cast<ResultMeta*>(at);
  }
  IntSpan result_sizes(int k) {
    const ResultMeta& meta = result(k);
    return {reinterpret_cast<const int64_t*>(&meta + 1), meta.ndim};
  }
  // Of a deferred node: its inputs (owned until it has run), and its results as long as somebody holds
  // them (not owned: a pending result owns its node, and takes itself off this list when it dies).
  TensorImpl** held() {
    char* end = reinterpret_cast<char*>(saved_versions());
    return reinterpret_cast<TensorImpl**>(end) - (inputs + outputs);
  }
  TensorImpl** awaiting() { return held() + inputs; }
  // Versions of the saved tensors at the time they were saved, then which input or output each one is.
  uint32_t* saved_versions() {
    return reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(this) + bytes) - 2 * saved_count;
  }
  uint32_t* saved_sources() { return saved_versions() + saved_count; }
  bool has(NodeFlag f) const { return flags & f; }
  std::string name() const;  // MulBackward0
  std::string site_text() const { return weft::site_text(site, site_instruction); }
};
static_assert(sizeof(Node) == 64);

inline void retain(Node* n) { ++n->refs; }
void node_destroy(Node* n);
inline void release(Node* n) {
  if (--n->refs == 0) node_destroy(n);
}

NodeExtra& extra_of(Node* n);

// The leaf that gathers gradients into `.grad`; made when first needed and shared while a graph uses it.
Node* accumulator_of(TensorImpl* leaf);  // borrowed, or null
// For a leaf that gets another shape or dtype: graphs recorded before no longer fit it.
void forget_accumulator(TensorImpl* leaf);
// Where a gradient of this tensor goes: its grad_fn, or its accumulator. Retained for the caller.
Edge take_gradient_edge(TensorImpl* t);

// A node for an operation that has run (or will): edges to the producers of its inputs, what the
// derivative needs, the line that is running. `original_self` is what the first input held before an
// in-place operation overwrote it, if that is needed.
Node* record_node(const OpTable& op, const void* fields, Inputs in, Tensor* out, int outputs,
                  TensorImpl* original_self);
// The same for an operation that will run later: its results are pending. `linked`: gradients will flow.
Node* record_deferred_node(const OpTable& op, const void* fields, Inputs in, Tensor* out, int outputs, bool linked);
// Puts what the derivative needs of the results into a deferred node that has just run.
void save_results(Node* n, const Tensor* out);

// Note [Where the chain was cut]
// "does not require grad" helps nobody who does not know why. An operation that takes a value with
// history and returns one without (detach, a comparison, anything under no_grad) leaves a mark in the
// place where the history would be: a Cut node, which holds nothing but the operation's name and line.
// Results of results share it. TensorImpl::grad_fn is therefore only a history if requires_grad() is set.
Node* record_cut(const OpTable& by, TensorImpl* from);
// "detach at model.py:12", or nothing when the tensor never had a history.
std::string cut_text(const TensorImpl* t);

// Notes that a value with history leaves the graph at this line (item, tolist, numpy).
void note_value_read(TensorImpl* t);
std::string last_read_text();

// `t` now comes from result `output_nr` of `node`, which is handed over.
void set_history(TensorImpl* t, Node* node, int output_nr);
// retain_grad(): the gradient of a result is kept in its `.grad`. The wish follows the tensor when an
// in-place operation gives it another node.
void keep_gradient(TensorImpl* t);
void forget_retained(TensorImpl* t);

// Frees what the node kept for backward.
void release_saved(Node* n);

// What stands in for a saved tensor while saved_tensors_hooks are active; set by bind/.
struct SavedValueHooks {
  TensorImpl* (*pack)(TensorImpl* t) = nullptr;
  Tensor (*unpack)(TensorImpl* box) = nullptr;
};
extern SavedValueHooks saved_value_hooks;

// The value saved for input or output `source` (see input(), output()), checked against its version.
Tensor unpack_saved(Node* n, uint32_t source);

}  // namespace weft
