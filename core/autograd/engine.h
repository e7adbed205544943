// The chain rule over recorded nodes.
#pragma once

#include <span>
#include <vector>

#include "core/graph/backward.h"

namespace weft {

struct BackwardRequest {
  std::span<const Tensor> roots;
  std::span<const Tensor> gradients;  // one per root; a null handle means ones, for a scalar root
  bool keep_graph = false;
  bool create_graph = false;
  // When given, gradients are collected for these tensors instead of being added to leaves ...
  std::span<const Tensor> inputs;
  bool into_grad = false;             // ... unless this says to add them to `.grad` all the same.
  bool allow_unused = false;
};

// Returns the gradients of `inputs`, in order; a null handle where nothing depends on one.
std::vector<Tensor> run_backward(const BackwardRequest& request);

// Python's hooks, run by bind/. Each may replace the gradients it is given.
struct HookRunner {
  void (*on_results)(Node* n, Tensor* grads) = nullptr;            // tensor hooks, then node pre-hooks
  void (*on_inputs)(Node* n, Tensor* results, Tensor* grads) = nullptr;  // node post-hooks
  void (*on_leaf)(TensorImpl* leaf, Tensor& grad) = nullptr;
  void (*after_accumulate)(TensorImpl* leaf) = nullptr;
};
extern HookRunner hook_runner;

}  // namespace weft
