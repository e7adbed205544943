// One unit of a gated recurrent cell, from the sums of its two products on: forward and derivative.
#pragma once

#include "core/math/activation.h"

namespace weft::math {

// ---- GRU ----------------------------------------------------------------------------------------

// The gates after their activations; `hidden` is the hidden product's share of the new state, which the
// reset gate scales.
template <class T> struct GruGates { T reset, update, fresh, hidden; };

struct GruUnit {
  // From the input's and the hidden state's sums.
  template <class T>
  WEFT_FN GruGates<T> gates(T in_reset, T in_update, T in_fresh, T of_reset, T of_update, T of_fresh) const {
    const T reset = sigmoid(in_reset + of_reset);
    return {reset, sigmoid(in_update + of_update), tanh(fma(reset, of_fresh, in_fresh)), of_fresh};
  }
  template <class T> WEFT_FN T state(GruGates<T> a, T before) const { return fma(a.update, before - a.fresh, a.fresh); }
};

// With respect to the six sums; those of the reset and update gates are the same on both sides.
template <class T> struct GruSlopes { T reset, update, in_fresh, of_fresh, before; };

struct GruUnitGrad {
  template <class T> WEFT_FN GruSlopes<T> operator()(T g, GruGates<T> a, T before) const {
    const T of_fresh = g * (T(1) - a.update) * fma(-a.fresh, a.fresh, T(1));
    const T of_update = g * (before - a.fresh) * (a.update * (T(1) - a.update));
    const T of_reset = of_fresh * a.hidden * (a.reset * (T(1) - a.reset));
    return {of_reset, of_update, of_fresh, of_fresh * a.reset, g * a.update};
  }
};

// ---- LSTM ---------------------------------------------------------------------------------------

template <class T> struct LstmGates { T input, forget, fresh, output; };

struct LstmUnit {
  template <class T> WEFT_FN LstmGates<T> gates(T input, T forget, T fresh, T output) const {
    return {sigmoid(input), sigmoid(forget), tanh(fresh), sigmoid(output)};
  }
  template <class T> WEFT_FN T cell(LstmGates<T> a, T before) const { return fma(a.forget, before, a.input * a.fresh); }
  template <class T> WEFT_FN T state(LstmGates<T> a, T cell) const { return a.output * tanh(cell); }
};

template <class T> struct LstmSlopes { T input, forget, fresh, output, before; };

struct LstmUnitGrad {
  // g and g_cell: of the new state and of the new cell.
  template <class T> WEFT_FN LstmSlopes<T> operator()(T g, T g_cell, LstmGates<T> a, T before, T cell) const {
    const T squashed = tanh(cell);
    const T of_cell = fma(g * a.output, fma(-squashed, squashed, T(1)), g_cell);
    return {of_cell * a.fresh * (a.input * (T(1) - a.input)), of_cell * before * (a.forget * (T(1) - a.forget)),
            of_cell * a.input * fma(-a.fresh, a.fresh, T(1)), g * squashed * (a.output * (T(1) - a.output)),
            of_cell * a.forget};
  }
};

}  // namespace weft::math
