// What a derivative rule works with: the gradients of a node's results, what the node saved, and a place
// for the gradients of its inputs. Shapes that were broadcast and dtypes that were promoted are taken
// care of where gradients are delivered (core/autograd), so rules do not mention them.
#pragma once

#include <unordered_set>

#include "core/graph/dispatch.h"
#include "core/graph/node.h"

namespace weft {

class Backward {
 public:
  using NeededNodes = std::unordered_set<const Node*>;

  // `needed` limits the work to inputs that lead somewhere asked for; null means all of them.
  Backward(Node* node, Tensor* grads, Tensor* results, uint32_t task, const NeededNodes* needed)
      : node_(node), grads_(grads), results_(results), task_(task), needed_(needed) {}

  template <class Op>
  const Op& op() const {
    return *reinterpret_cast<const Op*>(node_->fields());
  }
  Node* node() const { return node_; }
  int inputs() const { return static_cast<int>(node_->inputs); }

  // The gradient of result k; a null handle when nothing depended on that result.
  const Tensor& grad(int k = 0) const { return grads_[k]; }
  bool needs(int i) const {
    const Node* producer = node_->edges()[i].node();
    return producer && (!needed_ || needed_->contains(producer));
  }
  Tensor input(int i) const { return unpack_saved(node_, weft::input(i)); }
  Tensor output(int k = 0) const { return unpack_saved(node_, weft::output(k)); }
  // Shape and dtype of an input that needs a gradient.
  IntSpan input_sizes(int i) const {
    const Edge e = node_->edges()[i];
    return e.node()->result_sizes(e.output_nr());
  }
  DType input_dtype(int i) const {
    const Edge e = node_->edges()[i];
    return e.node()->result(e.output_nr()).dtype;
  }
  IntSpan output_sizes(int k = 0) const { return node_->result_sizes(k); }
  DType output_dtype(int k = 0) const { return node_->result(k).dtype; }

  void set(int i, Tensor gradient) { results_[i] = std::move(gradient); }

  // A gradient already waiting at input i's producer that belongs to nobody else and may be added to in
  // place (beta = 1), or null. The rule then reports added(i) instead of set(i, ...).
  TensorImpl* destination(int i) const;
  void added(int) {}

 private:
  Node* node_;
  Tensor* grads_;
  Tensor* results_;
  uint32_t task_;
  const NeededNodes* needed_;
};

}  // namespace weft
