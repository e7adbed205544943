// What single steps (recurrent.cpp) and whole sequences (recurrent_sequence.cpp) of gated cells share.
#pragma once

#include "core/ops/functions.h"

namespace weft {

// The gradients of a step, as recorded operations. Those that come in may be null, not all of them; with
// `of_gates` that of the step's gates.
struct GruSlopes { Tensor from_in, from_of, before; };
GruSlopes gru_slopes(const Tensor& grad, const Tensor& of_gates, const Tensor& gates, const Tensor& before);

struct LstmSlopes { Tensor sums, before; };
LstmSlopes lstm_slopes(const Tensor& grad, const Tensor& grad_cell, const Tensor& of_gates, const Tensor& gates,
                       const Tensor& before, const Tensor& cell);

// One direction of one layer over (steps, batch, gates): the sums of the inputs' product and the biases.
// float32 and float64 only.
struct GruSequenceResults { Tensor states, last; };
GruSequenceResults gru_sequence(const Tensor& sums, const Tensor& first, const Tensor& w_hh, const Tensor& b_hh,
                                bool reverse);

struct LstmSequenceResults { Tensor states, last, last_cell; };
LstmSequenceResults lstm_sequence(const Tensor& sums, const Tensor& first, const Tensor& first_cell, const Tensor& w_hh,
                                  bool reverse);

}  // namespace weft
