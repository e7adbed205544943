// One optimiser step over many parameters: every check first, then all changes.
#pragma once

#include <span>

#include "core/kernels/cpu/update.h"
#include "core/tensor/tensor.h"

namespace weft {

// A parameter that has a gradient, with what the rule keeps beside it. The caller owns all of them.
struct Update {
  TensorImpl* param;
  TensorImpl* scalars[math::update::kMostScalars];
  TensorImpl* states[math::update::kMostStates];
  bool fresh;    // its first step: see math::update::Scalars
  int position;  // among the optimiser's parameters, for messages
};

// Throws before anything has changed if some tensor does not fit. `numbers` are the rule's
// hyperparameters.
void update_all(const cpu::UpdateRule& rule, const double* numbers, std::span<const Update> updates);

inline TensorImpl* gradient_of(const TensorImpl* param) { return param->extra ? param->extra->grad.get() : nullptr; }

}  // namespace weft
