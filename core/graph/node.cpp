#include "core/graph/node.h"

#include <algorithm>
#include <cstring>

#include "core/graph/backward.h"
#include "core/graph/context.h"
#include "core/graph/diagnosis.h"

namespace weft {

thread_local constinit Context* context_pointer = nullptr;

Context* make_thread_context() {
  static thread_local Context own;
  context_pointer = &own;
  return &own;
}

extern const OpTable op_Cut;

namespace {

uint64_t next_sequence = 0;

// Releasing a node releases its producers; a long chain must not become a deep recursion.
Node* dying_nodes = nullptr;
bool draining_nodes = false;

void finish_node(Node* n) {
  for (int k = 0; k < n->saved_count; ++k)
    if (n->saved()[k]) release(n->saved()[k]);
  TensorImpl** slots = n->waiting_slots();
  for (int k = 0; k < n->outputs; ++k)
    if (slots[k]) release(slots[k]);
  if (n->has(kDeferred)) {
    for (uint32_t i = 0; i < n->inputs; ++i)
      if (n->held()[i]) release(n->held()[i]);
  }
  Edge* edges = n->edges();
  for (uint32_t i = 0; i < n->inputs; ++i)
    if (Node* producer = edges[i].node()) release(producer);
  if (n->op->destroy) n->op->destroy(n->fields());
  if (n->site) release(n->site);
  if (n->extra) {
    if (n->extra->hooks) python.release(n->extra->hooks);
    if (n->extra->metadata) python.release(n->extra->metadata);
    delete n->extra;
  }
  if (n->op != &op_Cut) --live.nodes;  // marks are not part of a graph
  block_release(n, n->bytes);
}

}  // namespace

void node_destroy(Node* n) {
  if (draining_nodes) {
    n->sequence = reinterpret_cast<uint64_t>(dying_nodes);
    dying_nodes = n;
    return;
  }
  draining_nodes = true;
  finish_node(n);
  while (Node* next = dying_nodes) {
    dying_nodes = reinterpret_cast<Node*>(next->sequence);
    finish_node(next);
  }
  draining_nodes = false;
}

// For tensor.cpp, which lies below and knows nodes only by name.
void release_node(Node* n) { release(n); }

void keep_gradient(TensorImpl* t) {
  if (!t->requires_grad() || !t->grad_fn || t->has(kRetainsGrad)) return;
  t->flags |= kRetainsGrad;
  extra_of(t->grad_fn).retained.push_back(t);
}

void forget_retained(TensorImpl* t) {
  if (t->grad_fn && t->grad_fn->extra) std::erase(t->grad_fn->extra->retained, t);
  t->flags &= ~kRetainsGrad;
}

void set_history(TensorImpl* t, Node* node, int output_nr) {
  const bool retains = t->has(kRetainsGrad);
  if (retains) forget_retained(t);
  Node* before = std::exchange(t->grad_fn, node);
  t->output_nr = static_cast<uint16_t>(output_nr);
  t->flags |= kRequiresGrad;
  if (retains) keep_gradient(t);
  if (before) release(before);
}

// A result that dies before it was computed is no longer waited for.
void forget_pending(TensorImpl* t) {
  Node* n = t->grad_fn;
  if (!n || !n->has(kDeferred)) return;
  for (int k = 0; k < n->outputs; ++k)
    if (n->awaiting()[k] == t) n->awaiting()[k] = nullptr;
}

NodeExtra& extra_of(Node* n) {
  if (!n->extra) n->extra = new NodeExtra;
  return *n->extra;
}

std::string Node::name() const {
  if (extra && !extra->name.empty()) return extra->name;
  if (op->backward_name) return op->backward_name;
  return std::string(op->struct_name) + "Backward0";
}

// ---- leaves ------------------------------------------------------------------------------------

// Has no rule of its own: core/autograd, which knows hooks and gradient modes, adds to the leaf's `.grad`.
struct AccumulateGrad {
  static constexpr Schema schema{"AccumulateGrad(Tensor gradient) -> Tensor"};
  static constexpr uint32_t traits = kInternal;
  static constexpr const char* backward_name = "AccumulateGrad";
  Tensor variable;
};

namespace {

void release_accumulator(void* fields) {
  auto* leaf = static_cast<AccumulateGrad*>(fields);
  Node*& current = leaf->variable->extra->accumulator;
  if (current && current->fields() == fields) current = nullptr;
  leaf->~AccumulateGrad();
}

constexpr OpTable accumulator_table() {
  OpTable t = make_table<AccumulateGrad>("AccumulateGrad");
  t.destroy = release_accumulator;
  return t;
}

}  // namespace

extern const OpTable op_AccumulateGrad;
constexpr OpTable op_AccumulateGrad = accumulator_table();

Tensor accumulated_variable(Node* n) {
  return n->op == &op_AccumulateGrad ? reinterpret_cast<AccumulateGrad*>(n->fields())->variable : Tensor();
}

struct Cut {
  static constexpr Schema schema{"cut(Tensor self) -> Tensor"};
  static constexpr uint32_t traits = kInternal | kNeverDifferentiable;
  const OpTable* by;
  bool under_no_grad;
};
extern const OpTable op_Cut;
constexpr OpTable op_Cut = make_table<Cut>("Cut");
// Only a name, for a value that became a plain number.
constexpr OpTable op_ValueRead{"ValueRead", Schema{"item(Tensor self) -> Scalar"}};

SavedValueHooks saved_value_hooks;

// ---- making nodes ------------------------------------------------------------------------------

namespace {

Node* allocate_node(const OpTable& op, uint32_t inputs, int outputs, int saved, size_t result_bytes,
                    bool deferred = false) {
  const size_t bytes = sizeof(Node) + op.field_bytes + sizeof(Edge) * inputs + sizeof(void*) * saved +
                       (outputs == 1 ? 0 : sizeof(void*) * outputs) + result_bytes + 2 * sizeof(uint32_t) * saved +
                       (deferred ? sizeof(void*) * (inputs + outputs) : 0);
  Node* n = static_cast<Node*>(block_allocate(bytes));
  n->op = &op;
  n->refs = 1;
  n->inputs = inputs;
  n->sequence = ++next_sequence;
  n->site = nullptr;
  n->site_instruction = 0;
  n->task = 0;
  n->waiting = nullptr;
  n->extra = nullptr;
  n->bytes = static_cast<uint32_t>(bytes);
  n->outputs = static_cast<uint8_t>(outputs);
  n->saved_count = static_cast<uint8_t>(saved);
  n->flags = 0;
  ++live.nodes;
  return n;
}

void write_result(char*& at, const TensorImpl* t) {
  auto* meta = reinterpret_cast<ResultMeta*>(at);
  *meta = {t->dtype, t->device, t->ndim, 0};
  auto* sizes = reinterpret_cast<int64_t*>(meta + 1);
  for (int d = 0; d < t->ndim; ++d) sizes[d] = t->dims[d];
  at += sizeof(ResultMeta) + sizeof(int64_t) * t->ndim;
}

}  // namespace

Node* accumulator_of(TensorImpl* leaf) { return leaf->extra ? leaf->extra->accumulator : nullptr; }

void forget_accumulator(TensorImpl* leaf) {
  if (leaf->extra) leaf->extra->accumulator = nullptr;
}

Edge take_gradient_edge(TensorImpl* t) {
  if (!t->requires_grad()) return {};
  if (t->grad_fn) {
    retain(t->grad_fn);
    return Edge(t->grad_fn, t->output_nr);
  }
  AutogradExtra& extra = extra_of(t);
  if (extra.accumulator) {
    retain(extra.accumulator);
    return Edge(extra.accumulator, 0);
  }
  Node* n = allocate_node(op_AccumulateGrad, 0, 1, 0, sizeof(ResultMeta) + sizeof(int64_t) * t->ndim);
  new (n->fields()) AccumulateGrad{Tensor::share(t)};
  char* at = n->results();
  write_result(at, t);
  extra.accumulator = n;
  return Edge(n, 0);
}

namespace {

// The tensor to keep for an input. A leaf keeps its identity. Anything else that Python can see may
// become the result of a later in-place operation, and then own the very node that keeps it; an alias
// without history cannot.
TensorImpl* kept_input(TensorImpl* t) {
  const bool stays_as_it_is = !t->python || (t->requires_grad() && !t->grad_fn);
  if (stays_as_it_is || (t->flags & kPending)) {
    retain(t);
    return t;
  }
  return alias(Tensor::share(t)).detach_ref();
}

}  // namespace

namespace {

Node* record(const OpTable& op, const void* fields, Inputs in, Tensor* out, int outputs, TensorImpl* original_self,
             bool deferred, bool linked) {
  uint32_t mask = 0;
  const int n_in = in.size();
  for (int i = 0; i < n_in && linked; ++i) {
    if (in.data()[i] && in.data()[i]->requires_grad()) mask |= op.saves.for_input[std::min(i, 3)];
  }
  if (n_in < 16) mask &= ~(output(0) - input(n_in));  // an operation on a list of tensors saves those there are
  size_t result_bytes = 0;
  for (int k = 0; k < outputs; ++k) result_bytes += sizeof(ResultMeta) + sizeof(int64_t) * out[k]->ndim;
  const int saved = __builtin_popcount(mask);
  Node* n = allocate_node(op, static_cast<uint32_t>(n_in), outputs, saved, result_bytes, deferred);
  if (op.field_bytes) op.copy(n->fields(), fields);
  Edge* edges = n->edges();
  for (int i = 0; i < n_in; ++i) {
    TensorImpl* t = in.data()[i];
    const bool differentiable = t && t->requires_grad();
    edges[i] = linked && differentiable ? take_gradient_edge(t) : Edge();
    if (t && !differentiable && t->grad_fn) t->grad_fn->flags |= kFeedsRecorded;
  }
  // An accumulator just made has a later number than this node; leaves must come after all their users.
  n->sequence = ++next_sequence;
  if (outputs != 1) std::fill_n(n->waiting_slots(), outputs, nullptr);
  char* at = n->results();
  for (int k = 0; k < outputs; ++k) write_result(at, out[k].get());
  if (deferred) {
    n->flags |= kDeferred;
    for (int i = 0; i < n_in; ++i) {
      n->held()[i] = in.data()[i];
      if (in.data()[i]) retain(in.data()[i]);
    }
    for (int k = 0; k < outputs; ++k) n->awaiting()[k] = out[k].get();
  }
  if (mask) {
    TensorImpl** keep = n->saved();
    uint32_t* versions = n->saved_versions();
    uint32_t* sources = n->saved_sources();
    int next = 0;
    const bool packs = !context().saved_tensor_hooks.empty();
    struct Unfinished {  // a hook may throw: the node goes again, with what it holds by then
      Node* n;
      ~Unfinished() {
        if (n) release(n);
      }
    } unfinished{packs ? n : nullptr};
    if (packs) std::fill_n(keep, saved, nullptr);
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
      const uint32_t source = rest & -rest;
      const int index = __builtin_ctz(source);
      TensorImpl* t = nullptr;
      if (index >= 16) {
        if (!deferred) t = alias(out[index - 16]).detach_ref();  // else save_results() brings it
      } else if (original_self && index < n_in && in.data()[index] == in.data()[0]) {
        t = original_self;
        retain(t);
      } else if (index < n_in && in.data()[index]) {
        t = kept_input(in.data()[index]);
      }
      if (t && packs && !t->has(kWrappedNumber) && !t->has(kPending)) {
        const Tensor value = Tensor::adopt(t);
        t = saved_value_hooks.pack(t);
      }
      keep[next] = t;
      versions[next] = t && t->storage ? t->storage->version : kVersionUnknown;
      sources[next++] = source;
    }
    unfinished.n = nullptr;
  }
  Context& now = context();
  if (now.record_sites) n->site = take_site(now, &n->site_instruction);
  return n;
}

}  // namespace

Node* record_node(const OpTable& op, const void* fields, Inputs in, Tensor* out, int outputs,
                  TensorImpl* original_self) {
  return record(op, fields, in, out, outputs, original_self, false, true);
}

Node* record_deferred_node(const OpTable& op, const void* fields, Inputs in, Tensor* out, int outputs, bool linked) {
  return record(op, fields, in, out, outputs, nullptr, true, linked);
}

void save_results(Node* n, const Tensor* out) {
  for (int k = 0; k < n->saved_count; ++k) {
    const uint32_t source = n->saved_sources()[k];
    if (source < output(0) || n->has(kReleased)) continue;
    const Tensor& result = out[__builtin_ctz(source) - 16];
    n->saved()[k] = alias(result).detach_ref();
    n->saved_versions()[k] = result->storage->version;
  }
}

Node* record_cut(const OpTable& by, TensorImpl* from) {
  Node* n = allocate_node(op_Cut, 0, 1, 0, sizeof(ResultMeta));
  --live.nodes;
  new (n->fields()) Cut{&by, !context().grad_enabled};
  auto* meta = reinterpret_cast<ResultMeta*>(n->results());
  *meta = {DType::Float32, Device{}, 0, 0};
  Context& now = context();
  if (now.record_sites) n->site = take_site(now, &n->site_instruction);
  if (now.trace_cuts) trace_cut(n, from);
  return n;
}

bool is_cut(const TensorImpl* t) { return t->grad_fn && !t->requires_grad() && t->grad_fn->op == &op_Cut; }

std::string cut_name(Node* n) {
  const Cut& cut = *reinterpret_cast<Cut*>(n->fields());
  return std::string(cut.by->name()) + (cut.under_no_grad ? " under no_grad" : "");
}

std::string cut_text(const TensorImpl* t) { return is_cut(t) ? cut_name(t->grad_fn) + t->grad_fn->site_text() : ""; }

void note_value_read(TensorImpl* t) {
  Context& now = context();
  if (is_cut(t) && (t->numel == 1 || !is_floating(t->dtype))) t->grad_fn->flags |= kCounted;
  if (!t->requires_grad() || !now.record_sites) return;
  if (now.trace_cuts) release(record_cut(op_ValueRead, t));
  const CallSite before = std::exchange(now.last_read, python.current_site());
  if (before.code) python.release(before.code);
}

std::string last_read_text() {
  const CallSite site = context().last_read;
  return site.code ? " The last time that happened was" + python.site_text(site.code, site.instruction) + "." : "";
}

// ---- saved values ------------------------------------------------------------------------------

void release_saved(Node* n) {
  for (int k = 0; k < n->saved_count; ++k) {
    if (TensorImpl* t = std::exchange(n->saved()[k], nullptr)) release(t);
  }
  n->flags |= kReleased;
  if (n->op->on_release) n->op->on_release(n->fields());
}

// `which`: "input 1 of MulBackward0". `by`: the node that saved it, if a node did. Also for values that Python
// code has saved (bind/saved_value.cpp).
[[gnu::cold, noreturn]] void fail_overwritten(const TensorImpl* t, uint32_t version, const std::string& which,
                                              const Node* by) {
  const std::string writer = python.site_text(t->storage->writer_code, t->storage->writer_instruction);
  const std::string saved =
      by ? " It was saved" + by->site_text() + (writer.empty() ? "" : " and overwritten" + writer) + "." : "";
  fail("one of the variables needed for gradient computation has been modified by an inplace operation: [", describe(t),
       "], which is ", which, ", is at version ", t->storage->version, "; expected version ", version, " instead.",
       saved, " Use the out-of-place form there, or clone() the value before it is overwritten.");
}

namespace {

[[gnu::cold]] void fail_released(Node* n) {
  fail(
      "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
      "been "
      "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). The "
      "graph "
      "was recorded by ",
      n->name(), n->site_text(),
      ". If that line belongs to an earlier step, a value from that step was carried over: detach it "
      "(value = value.detach()) before using it again. Specify retain_graph=True only if you really mean to go "
      "backward through the same graph twice.");
}

[[gnu::cold]] void fail_overwritten(Node* n, const TensorImpl* t, uint32_t version, uint32_t source) {
  const bool result = source >= output(0);
  const int number = result ? __builtin_ctz(source) - 16 : __builtin_ctz(source);
  fail_overwritten(t, version, (result ? "output " : "input ") + std::to_string(number) + " of " + n->name(), n);
}

// Differentiating the derivative: a saved value gets its history back.
Tensor with_history(Node* n, uint32_t source, const Tensor& value) {
  const Edge edge = source >= output(0) ? Edge(n, static_cast<uint16_t>(__builtin_ctz(source) - 16))
                                        : n->edges()[__builtin_ctz(source)];
  if (!edge || value->requires_grad()) return value;
  Tensor linked = alias(value);
  linked->grad_fn = edge.node();
  retain(edge.node());
  linked->output_nr = edge.output_nr();
  linked->flags |= kRequiresGrad;
  return linked;
}

}  // namespace

Tensor unpack_saved(Node* n, uint32_t source) {
  for (int k = 0; k < n->saved_count; ++k) {
    if (n->saved_sources()[k] != source) continue;
    TensorImpl* t = n->saved()[k];
    if (!t && n->has(kReleased)) fail_released(n);
    if (!t && source >= output(0) && n->has(kDeferred)) {
      force_node(n);
      t = n->saved()[k];
    }
    if (!t) return Tensor();
    if (t->has(kPacked)) {
      Tensor value = saved_value_hooks.unpack(t);
      return context().grad_enabled ? with_history(n, source, value) : value;
    }
    ensure_value(t);
    if (t->storage && t->storage->version != n->saved_versions()[k] && n->saved_versions()[k] != kVersionUnknown &&
        !n->op->has(kSavesGeometry))
      fail_overwritten(n, t, n->saved_versions()[k], source);
    if (!context().grad_enabled || t->requires_grad()) return Tensor::share(t);
    return with_history(n, source, Tensor::share(t));
  }
  if (n->has(kReleased)) fail_released(n);
  fail("internal error: ", n->name(), " did not save what its derivative asks for (", source, ")");
}

TensorImpl* Backward::destination(int i) const {
  const Edge edge = node_->edges()[i];
  Node* producer = edge.node();
  if (!producer || context().grad_enabled || producer->task != task_) return nullptr;
  // Hooks and the search for NaN look at this gradient by itself.
  if ((node_->extra && node_->extra->hooks) || context().anomaly) return nullptr;
  TensorImpl* waiting = producer->waiting_slots()[edge.output_nr()];
  const bool ours = waiting && waiting->refs == 1 && !waiting->python && waiting->storage &&
                    waiting->storage->refs == 1 && waiting->is_contiguous() && !waiting->requires_grad();
  return ours ? waiting : nullptr;
}

}  // namespace weft
