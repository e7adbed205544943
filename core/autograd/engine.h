// The chain rule over recorded nodes.
#pragma once

#include <span>
#include <vector>

#include "core/graph/backward.h"

namespace weft {

// A root or an input is a tensor or, where the handle in the list of tensors is null, an edge: the
// result of a node whose tensor need not exist any more.
struct BackwardRequest {
  std::span<const Tensor> roots;
  std::span<const Tensor> gradients;  // one per root; a null handle means ones, for a scalar root
  bool keep_graph = false;
  bool create_graph = false;
  // When given, gradients are collected for these instead of being added to leaves ...
  std::span<const Tensor> inputs;
  bool into_grad = false;  // ... unless this says to add them to `.grad` all the same.
  bool allow_unused = false;
  std::span<const Edge> root_edges;   // as long as `roots`, or empty
  std::span<const Edge> input_edges;  // as long as `inputs`, or empty
};

// Returns the gradients of `inputs`, in order; a null handle where nothing depends on one.
std::vector<Tensor> run_backward(const BackwardRequest& request);

// The derivative of one node: the gradients of its inputs, given those of its results.
std::vector<Tensor> differentiate_node(Node* n, std::span<Tensor> grads);

// The backward pass that runs on this thread, for hooks that gather over one pass; 0 when there is none.
uint32_t current_pass();
bool pass_is_running(uint32_t id);
// Whether that pass was asked for the gradients of certain inputs only.
bool current_pass_has_inputs();
// Whether that pass goes through this node.
bool current_pass_reaches(const Node* n);

// Python's hooks, run by bind/. Each may replace the gradients it is given.
struct HookRunner {
  void (*on_tensors)(Node* n, Tensor* grads) = nullptr;  // those of the results' tensors
  void (*before_node)(Node* n, Tensor* grads) = nullptr;
  void (*after_node)(Node* n, Tensor* results, Tensor* grads) = nullptr;
  void (*on_leaf)(TensorImpl* leaf, Tensor& grad) = nullptr;
  void (*after_accumulate)(TensorImpl* leaf) = nullptr;
};
extern HookRunner hook_runner;

}  // namespace weft
