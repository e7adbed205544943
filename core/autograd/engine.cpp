#include "core/autograd/engine.h"

#include <algorithm>
#include <unordered_map>

#include "core/ops/functions.h"

namespace weft {

HookRunner hook_runner;
extern void (*accumulate_into_leaf)(const Tensor& variable, const Tensor& gradient);
Tensor accumulated_variable(Node* n);

// Note [Order of backward]
// Nodes are numbered as they are recorded, so a node's users always have higher numbers. Taking the
// waiting node with the highest number therefore never runs one before all of its gradient has arrived,
// and no counting pass over the graph is needed. A leaf's accumulator is numbered when the leaf is first
// used, below all of its users, and so runs as soon as the last of them has.
//
// Gradients on their way wait inside the node itself. `Node::task` says to which pass they belong; a
// second pass over the same nodes at the same time (re-entrant, or from another thread) keeps its own in
// a table.
namespace {

uint32_t next_task = 0;

bool is_ours(const TensorImpl* t) {
  return t->refs == 1 && !t->python && t->storage && t->storage->refs == 1 && !t->requires_grad() && t->is_contiguous();
}

Tensor fitted(const Tensor& gradient, const Edge edge) {
  Node* producer = edge.node();
  const ResultMeta& meta = producer->result(edge.output_nr());
  const IntSpan sizes = producer->result_sizes(edge.output_nr());
  Tensor g = gradient;
  if (g.ndim() != meta.ndim || !std::equal(sizes.begin(), sizes.end(), g.sizes().begin())) {
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
  return g;
}

class Pass {
 public:
  explicit Pass(const BackwardRequest& request) : request_(request), id_(++next_task) {}

  ~Pass() {
    for (Node* n : heap_) {  // only after an error
      if (n->task == id_) {
        for (int k = 0; k < n->outputs; ++k) if (TensorImpl* g = std::exchange(n->waiting_slots()[k], nullptr)) release(g);
        n->task = 0;
      }
      release(n);
    }
  }

  std::vector<Tensor> run() {
    const GradMode mode(request_.create_graph);
    SiteGuard sites;
    find_wanted();
    seed();
    int since_signal_check = 0;
    while (!heap_.empty()) {
      if (++since_signal_check == 256) {
        since_signal_check = 0;
        python.check_signals();
      }
      std::pop_heap(heap_.begin(), heap_.end(), earlier);
      Node* n = heap_.back();
      heap_.pop_back();
      Held held{n};
      process(n);
    }
    return std::move(captured_);
  }

 private:
  struct Held {
    Node* n;
    ~Held() { release(n); }
  };
  // Nodes recorded by the backward pass itself belong to the forward line they differentiate.
  struct SiteGuard {
    CallSite site = context().user_site;
    int depth = context().user_site_depth;
    ~SiteGuard() {
      context().user_site = site;
      context().user_site_depth = depth;
    }
  };

  static bool earlier(const Node* a, const Node* b) { return a->sequence < b->sequence; }

  void find_wanted() {
    if (request_.inputs.empty()) return;
    captured_.resize(request_.inputs.size());
    std::vector<Node*> targets;
    uint64_t lowest = ~uint64_t{0};
    for (size_t i = 0; i < request_.inputs.size(); ++i) {
      TensorImpl* t = request_.inputs[i].get();
      const bool needs = needs_grad(t);
      if (!needs) fail("One of the differentiated Tensors does not require grad (", describe(t), ", number ", i, ")");
      const Edge edge = take_gradient_edge(t);
      edges_held_.push_back(edge.node());
      wanted_[edge.node()].push_back({static_cast<int>(i), edge.output_nr()});
      lowest = std::min(lowest, edge.node()->sequence);
    }
    mark_needed(lowest);
  }

  // Which nodes lead to a wanted one. Iterative: graphs may be millions of nodes deep.
  void mark_needed(uint64_t lowest) {
    std::unordered_map<Node*, bool> finished;
    std::vector<Node*> stack;
    for (const Tensor& root : request_.roots) if (root->grad_fn) stack.push_back(root->grad_fn);
    for (auto& [node, wants] : wanted_) needed_.insert(node);
    while (!stack.empty()) {
      Node* n = stack.back();
      auto [state, fresh] = finished.try_emplace(n, false);
      if (!fresh && state->second) { stack.pop_back(); continue; }
      if (fresh) {
        if (n->sequence < lowest) { state->second = true; stack.pop_back(); continue; }
        for (uint32_t i = 0; i < n->inputs; ++i) {
          Node* producer = n->edges()[i].node();
          if (producer && !finished.contains(producer)) stack.push_back(producer);
        }
        continue;
      }
      state->second = true;
      stack.pop_back();
      for (uint32_t i = 0; i < n->inputs; ++i) {
        if (needed_.contains(n->edges()[i].node())) { needed_.insert(n); break; }
      }
    }
  }

  void seed() {
    for (size_t i = 0; i < request_.roots.size(); ++i) {
      const Tensor& root = request_.roots[i];
      const bool needs = needs_grad(root.get());
      if (!needs) {
        const std::string cut = cut_text(root.get());
        fail("element ", i, " of tensors does not require grad and does not have a grad_fn (", describe(root.get()), "). ",
             cut.empty() ? "No tensor with requires_grad=True took part in computing it; a value that passed through .item(), "
                           ".tolist(), numpy or weft.tensor(...) has left the graph." + last_read_text()
                         : "The chain was cut by " + cut + ": what follows from there is a constant.");
      }
      Tensor g = i < request_.gradients.size() ? request_.gradients[i] : Tensor();
      if (!g) {
        if (root.numel() != 1) {
          fail("grad can be implicitly created only for scalar outputs: the ", describe(root.get()),
               " given has ", root.numel(), " elements. Reduce it first (.sum(), .mean()), or pass gradient=.");
        }
        if (!is_floating(root.dtype())) {
          fail("grad can be implicitly created only for real scalar outputs but got ", dtype_name(root.dtype()));
        }
        g = full(root.sizes(), 1.0, root.dtype(), root->device);
      } else if (!std::equal(g.sizes().begin(), g.sizes().end(), root.sizes().begin(), root.sizes().end())) {
        fail("Mismatch in shape: grad_output[", i, "] has a shape of ", shape_text(g.sizes()), " and output[", i,
             "] has a shape of ", shape_text(root.sizes()), ".");
      }
      const Edge edge = take_gradient_edge(root.get());
      edges_held_.push_back(edge.node());
      deliver(edge, g);
    }
  }

  TensorImpl** slots_of(Node* n) {
    if (n->task == id_) return n->waiting_slots();
    if (n->task == 0) {
      n->task = id_;
      push(n);
      return n->waiting_slots();
    }
    auto [found, fresh] = elsewhere_.try_emplace(n);
    if (fresh) {
      found->second.resize(n->outputs);
      push(n);
    }
    return reinterpret_cast<TensorImpl**>(found->second.data());
  }

  void push(Node* n) {
    retain(n);
    heap_.push_back(n);
    std::push_heap(heap_.begin(), heap_.end(), earlier);
  }

  void deliver(Edge edge, const Tensor& gradient) {
    Node* producer = edge.node();
    if (!needed_.empty() && !needed_.contains(producer)) return;
    Tensor g = fitted(gradient, edge);
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
    Tensor total = add(Tensor::adopt(slot), g);
    slot = total.detach_ref();
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
      auto found = elsewhere_.find(n);
      for (int k = 0; k < n->outputs; ++k) grads[k] = std::move(found->second[k]);
      elsewhere_.erase(found);
    }
    try {
      if (n->extra) run_result_hooks(n, grads);
    } catch (Error& error) {
      name_forward_line(n, error);
      throw;
    }
    if (!wanted_.empty()) {
      auto want = wanted_.find(n);
      if (want != wanted_.end() && capture(n, want->second, grads)) return;
    }
    if (!n->op->vjp) {
      fail(ErrorKind::NotImplemented, "derivative for ", n->op->name(), " is not implemented",
           python.site_text(n->site_code, n->site_instruction));
    }
    Tensor room[8];
    std::vector<Tensor> more;
    Tensor* results = room;
    if (n->inputs > 8) {
      more.resize(n->inputs);
      results = more.data();
    }
    Context& now = context();
    if (now.grad_enabled) {
      now.user_site = {n->site_code, n->site_instruction};
      now.user_site_depth = n->site_code ? 1 : 0;
    }
    Backward b(n, grads, results, id_, needed_.empty() ? nullptr : &needed_);
    try {
      n->op->vjp(b);
      if (n->extra && n->extra->hooks) hook_runner.on_inputs(n, results, grads);
      if (now.anomaly) check_finite(n, results);
      for (uint32_t i = 0; i < n->inputs; ++i) {
        if (results[i] && n->edges()[i]) deliver(n->edges()[i], results[i]);
      }
    } catch (Error& error) {
      name_forward_line(n, error);
      throw;
    } catch (const PythonError&) {
      if (n->site_code) python.annotate("in the backward pass of " + n->name() + ", recorded" + python.site_text(n->site_code, n->site_instruction));
      throw;
    }
    if (!request_.keep_graph) release_saved(n);
  }

  [[gnu::cold]] static void name_forward_line(Node* n, Error& error) {
    if (!n->site_code || error.message.find("recorded") != std::string::npos) return;
    error.message += "\n  in the backward pass of " + n->name() + ", recorded" + python.site_text(n->site_code, n->site_instruction);
  }

  void run_result_hooks(Node* n, Tensor* grads) {
    if (n->extra->hooks) hook_runner.on_results(n, grads);
    for (TensorImpl* t : n->extra->retained) {
      const Tensor& g = grads[t->output_nr];
      if (!g) continue;
      AutogradExtra& extra = extra_of(t);
      extra.grad = extra.grad ? add(extra.grad, g) : (context().grad_enabled ? g : detached_copy(g));
    }
  }

  struct Want { int index; uint16_t output_nr; };

  // True when the node was only wanted for its gradient and leads no further.
  bool capture(Node* n, const std::vector<Want>& wants, Tensor* grads) {
    const Tensor leaf = accumulated_variable(n);
    if (leaf) {
      if (leaf->extra && leaf->extra->hooks && grads[0]) hook_runner.on_leaf(leaf.get(), grads[0]);
      if (request_.into_grad) {
        accumulate_into_leaf(leaf, grads[0]);
        return true;
      }
    }
    for (const Want& w : wants) {
      Tensor g = grads[w.output_nr];
      if (request_.into_grad && g) {
        AutogradExtra& extra = extra_of(request_.inputs[w.index].get());
        extra.grad = extra.grad ? add(extra.grad, g) : g;
      }
      captured_[w.index] = std::move(g);
    }
    if (leaf) return true;
    for (uint32_t i = 0; i < n->inputs; ++i) if (needed_.contains(n->edges()[i].node())) return false;
    return true;
  }

  void check_finite(Node* n, Tensor* results) {
    for (uint32_t i = 0; i < n->inputs; ++i) {
      if (!results[i] || !context().anomaly_check_nan) continue;
      const GradMode off(false);
      const Tensor bad = sum_all(ne(results[i], results[i]));
      if (*bad.data<int64_t>() != 0) {
        fail("Function '", n->name(), "' returned nan values in its ", i, "th output: ", *bad.data<int64_t>(), " of ",
             describe(results[i].get()), ". It was recorded", python.site_text(n->site_code, n->site_instruction));
      }
    }
  }

  const BackwardRequest& request_;
  uint32_t id_;
  std::vector<Node*> heap_;
  std::unordered_map<Node*, std::vector<Tensor>> elsewhere_;
  std::unordered_map<Node*, std::vector<Want>> wanted_;
  Backward::NeededNodes needed_;
  std::vector<Tensor> captured_;

  struct NodeList : std::vector<Node*> {
    ~NodeList() { for (Node* n : *this) release(n); }
  } edges_held_;
};

void add_to_leaf(const Tensor& variable, const Tensor& incoming) {
  if (!incoming) return;
  Tensor g = incoming;
  TensorImpl* leaf = variable.get();
  AutogradExtra& extra = extra_of(leaf);
  if (extra.hooks) hook_runner.on_leaf(leaf, g);
  if (!extra.grad) {
    // A gradient nobody else holds becomes `.grad` as it is; two handles are the caller's and ours.
    const bool unshared = g->refs <= 2 && !g->python && g->storage && g->storage->refs == 1 && g->is_contiguous();
    extra.grad = context().grad_enabled || unshared || g->has(kPending) ? g : detached_copy(g);
  } else if (context().grad_enabled) {
    extra.grad = add(extra.grad, g);
  } else {
    TensorImpl* pair[] = {extra.grad.get(), g.get()};
    apply_in_place(op_Add, nullptr, Inputs(pair, 2));
  }
  if (extra.post_accumulate) hook_runner.after_accumulate(leaf);
}

const bool installed = [] {
  accumulate_into_leaf = add_to_leaf;
  return true;
}();

}  // namespace

std::vector<Tensor> run_backward(const BackwardRequest& request) {
  (void)installed;
  std::vector<Tensor> result = Pass(request).run();
  if (request.into_grad || request.allow_unused) return result;
  for (size_t i = 0; i < result.size(); ++i) {
    if (!result[i]) {
      fail("One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this is "
           "the desired behavior. (input ", i, ", ", describe(request.inputs[i].get()), ")");
    }
  }
  return result;
}

}  // namespace weft
