#include "core/autograd/engine.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <unordered_map>

#include "core/graph/diagnosis.h"
#include "core/ops/functions.h"

namespace weft {

HookRunner hook_runner;
extern const OpTable op_AccumulateGrad;
Tensor accumulated_variable(Node* n);

// Note [Order of backward]
// Nodes are numbered as they are recorded, so a node's users always have higher numbers. Taking the
// waiting node with the highest number therefore never runs one before all of its gradient has arrived,
// and no counting pass over the graph is needed. A leaf's accumulator is numbered when the leaf is first
// used, below all of its users, and so runs as soon as the last of them has.
//
// Note [Passes that meet]
// Gradients on their way wait inside the node itself. `Node::task` says to which pass they belong; a
// second pass over the same nodes at the same time (re-entrant, or from another thread) keeps its own in
// a table. Other threads run while a large kernel works, while Python's hooks run, and now and then
// between two nodes; what they can see is always in order then: a node's gradients belong to one pass
// until that pass has taken them out, and a leaf's `.grad` is changed without letting go of the lock.
//
// Note [Order of hooks]
// Of the node that made a tensor: the tensor's own hooks, then retain_grad(), then the hooks before the
// node; the derivative; then the hooks after it. A leaf's hooks after accumulation come between the
// last two. A gradient asked for by grad(inputs=...) is as the tensor's own hooks left it.
namespace {

uint32_t next_task = 0;

uint32_t new_task() {
  if (++next_task == 0) ++next_task;  // zero means that no pass has gradients waiting there
  return next_task;
}

// How often other threads get a turn. A waiting thread asks for the lock after 5 ms in which nobody gave it
// up; giving it up more often than that, only to take it back at once, would keep it waiting for ever.
constexpr auto kTurn = std::chrono::milliseconds(15);
constexpr unsigned kNodesPerSignalCheck = 16, kNodesPerClockCheck = 256;

bool is_ours(const TensorImpl* t) {
  return t->refs == 1 && !t->python && t->storage && t->storage->refs == 1 && !t->requires_grad() && t->is_contiguous();
}

// Brings a gradient to the shape and dtype of what it is the gradient of.
void fit(Tensor& g, Edge edge) {
  Node* producer = edge.node();
  const ResultMeta& meta = producer->result(edge.output_nr());
  const IntSpan sizes(reinterpret_cast<const int64_t*>(&meta + 1), meta.ndim);
  bool fits = g.ndim() == meta.ndim;
  for (int d = 0; fits && d < meta.ndim; ++d) fits = sizes[d] == g.size(d);  // memcmp() costs more for so few
  if (!fits) {
    const int shift = g.ndim() - meta.ndim;
    bool reducible = shift >= 0;
    for (int d = 0; reducible && d < meta.ndim; ++d) reducible = sizes[d] == 1 || sizes[d] == g.size(d + shift);
    if (!reducible) {
      fail("a derivative returned an invalid gradient: got ", shape_text(g.sizes()),
           " but expected shape compatible with ", shape_text(sizes));
    }
    g = sum_to(g, sizes);
  }
  if (g.dtype() != meta.dtype) g = to_dtype(g, meta.dtype);
}

[[gnu::cold]] std::string recorded_at(Node* n) {
  return "in the backward pass of " + n->name() + ", recorded" + n->site_text();
}

// Errors that arise in a node's backward name the forward line.
template <class Body>
void naming_forward_line(Node* n, Body&& body) {
  try {
    body();
  } catch (Error& error) {
    if (n->site && error.message.find("recorded") == std::string::npos) error.message += "\n  " + recorded_at(n);
    if (context().anomaly) {
      const std::string site = n->site_text();
      python.warn(("Error detected in " + n->name() + ". The forward call that caused the error was" + site).c_str());
    }
    throw;
  } catch (const PythonError&) {
    if (n->site) python.annotate(recorded_at(n));
    throw;
  }
}

[[gnu::cold]] void fail_without_derivative(Node* n) {
  fail(ErrorKind::NotImplemented, "derivative for ", n->op->name(), " is not implemented", n->site_text());
}

// What a new `.grad` looks like: laid out as the leaf where that fills its memory, else row by row.
Tensor as_first_grad(const TensorImpl* leaf, const Tensor& g) {
  const bool follows_leaf = is_dense(leaf->sizes(), leaf->strides());
  const bool laid_out =
      follows_leaf ? std::equal(leaf->dims, leaf->dims + 2 * leaf->ndim, g->dims) : g->is_contiguous();
  if (context().grad_enabled) return g;
  // A gradient nobody else holds becomes `.grad` as it is.
  if (laid_out && g->refs == 1 && !g->python && g->storage && g->storage->refs == 1) return g;
  if (g->has(kPending)) return g;
  if (!follows_leaf || leaf->is_contiguous()) return detached_copy(g);
  Tensor copy = empty_strided(leaf->sizes(), leaf->strides(), g.dtype(), g->device);
  copy_into(copy, g);
  return copy;
}

void add_to_leaf(TensorImpl* leaf, const Tensor& g) {
  if (!g || !leaf->requires_grad()) return;  // it may have been detached since
  if (leaf->grad_fn) {
    fail("leaf variable has been moved into the graph interior: ", describe(leaf),
         " was detached in place and then written to with values that depend on what it was before.");
  }
  if (!(leaf->flags & (kOptimised | kMetUnoptimised))) {
    leaf->flags |= kMetUnoptimised;
    python.unoptimised_leaf(leaf);
  }
  AutogradExtra& extra = extra_of(leaf);
  if (extra.grad && (extra.used_by_step | extra.stale_step)) note_addition(leaf, extra);
  if (!extra.grad) {
    extra.grad = as_first_grad(leaf, g);
    note_first_gradient(extra);
  } else if (context().grad_enabled) {
    extra.grad = add(extra.grad, g);
  } else {
    const Locked locked;
    TensorImpl* pair[] = {extra.grad.get(), g.get()};
    apply_in_place(op_Add, nullptr, Inputs(pair, 2));
    note_added(extra);
  }
  if (extra.post_accumulate) hook_runner.after_accumulate(leaf);
}

class Pass;
std::vector<const Pass*> running;  // of all threads
thread_local constinit Pass* innermost = nullptr;
thread_local std::vector<Node*> spare_heap;  // the memory of the last pass, for the next

class Pass {
 public:
  explicit Pass(const BackwardRequest& request)
      : request_(request), id_(new_task()), heap_(std::move(spare_heap)), outer_(innermost) {
    running.push_back(this);
    innermost = this;
  }

  ~Pass() {
    innermost = outer_;
    std::erase(running, this);
    for (Node* n : heap_) {  // only after an error
      if (n->task == id_) {
        for (int k = 0; k < n->outputs; ++k)
          if (TensorImpl* g = std::exchange(n->waiting_slots()[k], nullptr)) release(g);
        n->task = 0;
      }
      release(n);
    }
    heap_.clear();
    spare_heap = std::move(heap_);
  }

  std::vector<Tensor> run() {
    const GradMode mode(request_.create_graph);
    SiteGuard sites;
    if (!request_.inputs.empty()) {
      select();
      if (selection_->needed.empty()) return std::move(captured_);  // none can be reached
    }
    seed();
    std::chrono::steady_clock::time_point turn_began{};
    uint32_t unlocked_before = times_unlocked;
    for (unsigned done = 1; !heap_.empty(); ++done) {
      if (done % kNodesPerSignalCheck == 0 || times_unlocked != unlocked_before) {
        unlocked_before = times_unlocked;
        python.check_signals();
      }
      if (done % kNodesPerClockCheck == 0) {
        const auto now = std::chrono::steady_clock::now();
        if (now - turn_began > kTurn) {
          const Unlocked others_may_run(true);
          turn_began = now;
        }
      }
      std::pop_heap(heap_.begin(), heap_.end(), earlier);
      Held held{heap_.back()};
      heap_.pop_back();
      process(held.n);
    }
    return std::move(captured_);
  }

  uint32_t id() const { return id_; }
  bool has_inputs() const { return !request_.inputs.empty(); }

  bool reaches(const Node* n) {
    if (!is_needed(n)) return false;
    if (!reachable_) {
      reachable_ = std::make_unique<NodeSet>();
      std::vector<Node*> stack(roots_.begin(), roots_.end());
      while (!stack.empty()) {
        Node* from = stack.back();
        stack.pop_back();
        if (!reachable_->insert(from).second) continue;
        for (uint32_t i = 0; i < from->inputs; ++i)
          if (Node* p = from->edges()[i].node()) stack.push_back(p);
      }
    }
    return reachable_->contains(n);
  }

 private:
  struct Held {
    Node* n;
    ~Held() { release(n); }
  };
  // Nodes recorded by the backward pass itself belong to the forward line (and module) they differentiate.
  struct SiteGuard {
    CallSite site = context().user_site;
    int depth = context().user_site_depth;
    Scope* scope = context().scope;
    ~SiteGuard() {
      context().scope = scope;
      context().user_site = site;
      context().user_site_depth = depth;
    }
  };

  static bool earlier(const Node* a, const Node* b) { return a->sequence < b->sequence; }

  static Edge held_edge(const Tensor& t, std::span<const Edge> edges, size_t i) {
    if (t) return take_gradient_edge(t.get());
    if (edges[i]) retain(edges[i].node());
    return edges[i];
  }

  using NodeSet = Backward::NeededNodes;
  struct Want {
    int index;
    uint16_t output_nr;
  };
  struct NodeList : std::vector<Node*> {
    ~NodeList() {
      for (Node* n : *this) release(n);
    }
  };
  // What a pass with inputs=... is limited to.
  struct Selection {
    std::unordered_map<Node*, std::vector<Want>> wanted;
    NodeSet needed;
    NodeList targets;
  };

  bool is_needed(const Node* n) const { return !selection_ || selection_->needed.contains(n); }

  void select() {
    selection_ = std::make_unique<Selection>();
    captured_.resize(request_.inputs.size());
    uint64_t lowest = ~uint64_t{0};
    for (size_t i = 0; i < request_.inputs.size(); ++i) {
      const Tensor& t = request_.inputs[i];
      if (t && !needs_grad(t.get())) {
        fail("One of the differentiated Tensors does not require grad (", describe(t.get()), ", number ", i, ")");
      }
      if (t && request_.into_grad) keep_gradient(t.get());
      const Edge edge = held_edge(t, request_.input_edges, i);
      if (!edge) continue;
      selection_->targets.push_back(edge.node());
      if (!request_.into_grad) selection_->wanted[edge.node()].push_back({static_cast<int>(i), edge.output_nr()});
      selection_->needed.insert(edge.node());
      lowest = std::min(lowest, edge.node()->sequence);
    }
    mark_needed(lowest);
  }

  // Which nodes lead to a wanted one. Iterative: graphs may be millions of nodes deep.
  void mark_needed(uint64_t lowest) {
    NodeSet& needed = selection_->needed;
    std::unordered_map<Node*, bool> finished;
    std::vector<Node*> stack;
    for (size_t i = 0; i < request_.roots.size(); ++i) {
      const Tensor& t = request_.roots[i];
      if (!t) stack.push_back(request_.root_edges[i].node());
      else if (needs_grad(t.get()) && t->requires_grad() && t->grad_fn) stack.push_back(t->grad_fn);
    }
    while (!stack.empty()) {
      Node* n = stack.back();
      auto [state, fresh] = finished.try_emplace(n, false);
      if (!fresh && state->second) {
        stack.pop_back();
        continue;
      }
      if (fresh) {
        if (n->sequence < lowest) {
          state->second = true;
          stack.pop_back();
          continue;
        }
        for (uint32_t i = 0; i < n->inputs; ++i) {
          Node* producer = n->edges()[i].node();
          if (producer && !finished.contains(producer)) stack.push_back(producer);
        }
        continue;
      }
      state->second = true;
      stack.pop_back();
      for (uint32_t i = 0; i < n->inputs; ++i) {
        if (needed.contains(n->edges()[i].node())) {
          needed.insert(n);
          break;
        }
      }
    }
  }

  void seed() {
    for (size_t i = 0; i < request_.roots.size(); ++i) {
      const Tensor& root = request_.roots[i];
      if (root && !(needs_grad(root.get()) && root->requires_grad())) {
        python.no_history(root.get());
        fail_without_history(root, i);
      }
      const Edge edge = held_edge(root, request_.root_edges, i);
      roots_.push_back(edge.node());
      const Tensor g = i < request_.gradients.size() ? request_.gradients[i] : Tensor();
      const IntSpan sizes = edge.node()->result_sizes(edge.output_nr());
      if (Node* n = find_broadcast_near(edge.node())) python.suspicious_broadcast(n);
      if (!g) {
        deliver(edge, implied_gradient(edge));
      } else if (!std::equal(g.sizes().begin(), g.sizes().end(), sizes.begin(), sizes.end())) {
        fail("Mismatch in shape: grad_output[", i, "] has a shape of ", shape_text(g.sizes()), " and output[", i,
             "] has a shape of ", shape_text(sizes), ".");
      } else {
        deliver(edge, g);
      }
    }
  }

  static Tensor implied_gradient(Edge edge) {
    const ResultMeta& meta = edge.node()->result(edge.output_nr());
    const IntSpan sizes = edge.node()->result_sizes(edge.output_nr());
    const int64_t numel = checked_numel(sizes);
    if (numel != 1) {
      fail("grad can be implicitly created only for scalar outputs: the ", dtype_name(meta.dtype), shape_text(sizes),
           " given has ", numel, " elements. Reduce it first (.sum(), .mean()), or pass gradient=.");
    }
    return full(sizes, 1.0, meta.dtype, meta.device);
  }

  [[gnu::cold]] static void fail_without_history(const Tensor& root, size_t i) {
    const std::string cut = cut_text(root.get());
    fail("element ", i, " of tensors does not require grad and does not have a grad_fn (", describe(root.get()), "). ",
         cut.empty()
             ? "No tensor with requires_grad=True took part in computing it; a value that passed through .item(), "
               ".tolist(), numpy or weft.tensor(...) has left the graph." +
                   last_read_text()
             : "The chain was cut by " + cut + ": what follows from there is a constant.");
  }

  // Where the gradients of a node's results gather in this pass; the first of them sets it waiting.
  TensorImpl** slots_of(Node* n) {
    if (n->task == id_) return n->waiting_slots();
    if (elsewhere_) {
      if (auto found = elsewhere_->find(n); found != elsewhere_->end())
        return reinterpret_cast<TensorImpl**>(found->second.data());
    }
    push(n);
    if (n->task == 0) {
      n->task = id_;
      return n->waiting_slots();
    }
    if (!elsewhere_) elsewhere_ = std::make_unique<std::unordered_map<Node*, std::vector<Tensor>>>();
    std::vector<Tensor>& slots = (*elsewhere_)[n];
    slots.resize(n->outputs);
    return reinterpret_cast<TensorImpl**>(slots.data());
  }

  void push(Node* n) {
    heap_.push_back(n);
    retain(n);
    std::push_heap(heap_.begin(), heap_.end(), earlier);
  }

  void deliver(Edge edge, Tensor g) {
    Node* producer = edge.node();
    if (!is_needed(producer)) return;
    fit(g, edge);
    TensorImpl*& slot = slots_of(producer)[edge.output_nr()];
    if (!slot) {
      slot = g.detach_ref();
      return;
    }
    if (!context().grad_enabled && is_ours(slot) && slot->dtype == g.dtype()) {
      TensorImpl* pair[] = {slot, g.get()};
      Tensor out[] = {Tensor::share(slot)};
      run_operation(op_Add, nullptr, Inputs(pair, 2), out);
      return;
    }
    const Tensor waiting = Tensor::adopt(std::exchange(slot, nullptr));
    slot = add(waiting, g).detach_ref();
  }

  void process(Node* n) {
    // The gradients leave the node before anything can throw.
    Tensor grad_room[2];
    std::vector<Tensor> more_grads;
    Tensor* grads = grad_room;
    if (n->outputs > 2) {
      more_grads.resize(n->outputs);
      grads = more_grads.data();
    }
    if (n->task == id_) {
      for (int k = 0; k < n->outputs; ++k) grads[k] = Tensor::adopt(std::exchange(n->waiting_slots()[k], nullptr));
      n->task = 0;
    } else {
      auto found = elsewhere_->find(n);
      for (int k = 0; k < n->outputs; ++k) grads[k] = std::move(found->second[k]);
      elsewhere_->erase(found);
    }
    const bool is_leaf = n->op == &op_AccumulateGrad;
    if (n->extra || is_leaf) run_tensor_hooks(n, grads, is_leaf);
    if (selection_) {
      auto want = selection_->wanted.find(n);
      if (want != selection_->wanted.end()) {
        for (const Want& w : want->second) captured_[w.index] = grads[w.output_nr];
        if (leads_no_further(n)) return;
      }
    }
    if (is_leaf) return accumulate(n, grads);
    if (!n->op->vjp) fail_without_derivative(n);
    if (has_nothing_to_do(n, grads)) return pass_over(n);
    Tensor room[4];
    std::vector<Tensor> more;
    Tensor* results = room;
    if (n->inputs > 4) {
      more.resize(n->inputs);
      results = more.data();
    }
    Context& now = context();
    if (now.grad_enabled) {
      now.user_site = {n->site ? n->site->code : nullptr, n->site_instruction};
      now.user_site_depth = n->site ? 1 : 0;
      now.scope = n->site ? n->site->scope : nullptr;
    }
    Backward b(n, grads, results, id_, selection_ ? &selection_->needed : nullptr);
    naming_forward_line(n, [&] {
      const bool hooks = n->extra && n->extra->hooks;
      if (hooks) hook_runner.before_node(n, grads);
      n->op->vjp(b);
      if (hooks) hook_runner.after_node(n, results, grads);
      if (now.anomaly) check_finite(n, results);
      for (uint32_t i = 0; i < n->inputs; ++i) {
        if (!n->edges()[i]) continue;
        if (results[i]) deliver(n->edges()[i], std::move(results[i]));
        else reach(n->edges()[i].node());
      }
    });
    if (!request_.keep_graph) release_saved(n);
  }

  // A rule may say that there is no gradient. Nodes further up are visited all the same: a custom
  // function among them has the right to know.
  void reach(Node* n) {
    if (is_needed(n)) slots_of(n);
  }
  // No gradient has come in, or none can go on: all inputs are views that PyTorch cuts off silently.
  static bool has_nothing_to_do(Node* n, const Tensor* grads) {
    if (n->op->has(kRunsWithoutGradient)) return false;
    const bool comes_in = grads[0] || std::any_of(grads, grads + n->outputs, [](const Tensor& g) { return bool(g); });
    const Edge* edges = n->edges();
    return !comes_in || std::none_of(edges, edges + n->inputs, [](Edge e) { return bool(e); });
  }
  void pass_over(Node* n) {
    for (uint32_t i = 0; i < n->inputs; ++i)
      if (n->edges()[i]) reach(n->edges()[i].node());
    if (!request_.keep_graph) release_saved(n);
  }

  void accumulate(Node* n, Tensor* grads) {
    const bool hooks = n->extra && n->extra->hooks;
    if (hooks) hook_runner.before_node(n, grads);
    const Tensor leaf = accumulated_variable(n);
    if (leaf->extra->accumulator != n && leaf->requires_grad() && grads[0]) check_still_fits(n, leaf);
    add_to_leaf(leaf.get(), grads[0]);
    if (hooks) hook_runner.after_node(n, nullptr, grads);
  }

  [[gnu::cold]] static void check_still_fits(Node* n, const Tensor& leaf) {
    const IntSpan sizes = n->result_sizes(0);
    if (std::ranges::equal(sizes, leaf.sizes()) && n->result(0).dtype == leaf.dtype()) return;
    fail("a gradient of ", dtype_name(n->result(0).dtype), shape_text(sizes),
         " was computed for a leaf that has become ", describe(leaf.get()),
         " since: run forward again after changing `.data`.");
  }

  static void run_tensor_hooks(Node* n, Tensor* grads, bool is_leaf) {
    if (is_leaf) {
      const Tensor leaf = accumulated_variable(n);
      if (leaf->extra->hooks && grads[0]) hook_runner.on_leaf(leaf.get(), grads[0]);
      return;
    }
    naming_forward_line(n, [&] {
      if (n->extra->hooks) hook_runner.on_tensors(n, grads);
      if (!n->extra->retained.empty()) keep_gradients(n, grads);
    });
  }

  static void keep_gradients(Node* n, Tensor* grads) {
    std::vector<Tensor> keepers;
    for (TensorImpl* t : n->extra->retained) keepers.push_back(Tensor::share(t));
    for (const Tensor& t : keepers) {
      const Tensor& g = grads[t->output_nr];
      if (!g) continue;
      AutogradExtra& extra = extra_of(t.get());
      extra.grad = extra.grad ? add(extra.grad, g) : (context().grad_enabled ? g : detached_copy(g));
    }
  }

  bool leads_no_further(Node* n) const {
    for (uint32_t i = 0; i < n->inputs; ++i)
      if (selection_->needed.contains(n->edges()[i].node())) return false;
    return true;
  }

  static void check_finite(Node* n, Tensor* results) {
    for (uint32_t i = 0; i < n->inputs; ++i) {
      if (!results[i] || !context().anomaly_check_nan) continue;
      const GradMode off(false);
      const Tensor bad = sum_all(ne(results[i], results[i]));
      if (*bad.data<int64_t>() != 0) {
        fail("Function '", n->name(), "' returned nan values in its ", i, "th output: ", *bad.data<int64_t>(), " of ",
             describe(results[i].get()), ". It was recorded", n->site_text());
      }
    }
  }

  const BackwardRequest& request_;
  uint32_t id_;
  std::vector<Node*> heap_;
  NodeList roots_;
  std::vector<Tensor> captured_;
  std::unique_ptr<Selection> selection_;  // null: everything that is reached
  // For nodes that another pass has claimed: see Note [Passes that meet].
  std::unique_ptr<std::unordered_map<Node*, std::vector<Tensor>>> elsewhere_;
  std::unique_ptr<NodeSet> reachable_;  // from the roots; found when first asked for
  Pass* outer_;                         // of a re-entrant pass
};

}  // namespace

std::vector<Tensor> run_backward(const BackwardRequest& request) {
  std::vector<Tensor> result = Pass(request).run();
  if (request.into_grad || request.allow_unused) return result;
  for (size_t i = 0; i < result.size(); ++i) {
    if (!result[i]) {
      fail(
          "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this "
          "is "
          "the desired behavior. (input ",
          i, request.inputs[i] ? ", " + describe(request.inputs[i].get()) : "", ")");
    }
  }
  return result;
}

uint32_t current_pass() { return innermost ? innermost->id() : 0; }
bool pass_is_running(uint32_t id) {
  return std::any_of(running.begin(), running.end(), [id](const Pass* pass) { return pass->id() == id; });
}
bool current_pass_has_inputs() { return innermost && innermost->has_inputs(); }
bool current_pass_reaches(const Node* n) { return innermost && innermost->reaches(n); }

std::vector<Tensor> differentiate_node(Node* n, std::span<Tensor> grads) {
  if (n->op == &op_AccumulateGrad) {
    add_to_leaf(accumulated_variable(n).get(), grads[0]);
    return {};
  }
  if (!n->op->vjp) fail_without_derivative(n);
  std::vector<Tensor> results(n->inputs);
  Backward b(n, grads.data(), results.data(), 0, nullptr);
  naming_forward_line(n, [&] { n->op->vjp(b); });
  return results;
}

}  // namespace weft
