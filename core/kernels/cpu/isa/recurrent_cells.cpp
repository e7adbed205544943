// Gated cells along the units of one example.
#include "core/kernels/cpu/isa/recurrent_table.h"
#include "core/math/recurrent.h"

namespace weft::cpu::WEFT_ISA {
namespace {

template <class T> struct Loops {
  static void gru(int64_t units, const void* in_data, const void* of_data, const void* before_data, void* state_data,
                  void* gates_data) {
    const T* in = static_cast<const T*>(in_data);
    const T* of = static_cast<const T*>(of_data);
    const T* before = static_cast<const T*>(before_data);
    T* state = static_cast<T*>(state_data);
    T* gates = static_cast<T*>(gates_data);
    const math::GruUnit unit;
#pragma GCC ivdep
    for (int64_t j = 0; j < units; ++j) {
      const auto a = unit.gates(in[j], in[units + j], in[2 * units + j], of[j], of[units + j], of[2 * units + j]);
      gates[j] = a.reset;
      gates[units + j] = a.update;
      gates[2 * units + j] = a.fresh;
      gates[3 * units + j] = a.hidden;
      state[j] = unit.state(a, before[j]);
    }
  }

  static void gru_backward(int64_t units, const void* grad_data, const void* gates_data, const void* before_data,
                           void* grad_in_data, void* grad_of_data, void* grad_before_data) {
    const T* grad = static_cast<const T*>(grad_data);
    const T* gates = static_cast<const T*>(gates_data);
    const T* before = static_cast<const T*>(before_data);
    T* grad_in = static_cast<T*>(grad_in_data);
    T* grad_of = static_cast<T*>(grad_of_data);
    T* grad_before = static_cast<T*>(grad_before_data);
#pragma GCC ivdep
    for (int64_t j = 0; j < units; ++j) {
      const math::GruGates<T> a = {gates[j], gates[units + j], gates[2 * units + j], gates[3 * units + j]};
      const auto slopes = math::GruUnitGrad{}(grad[j], a, before[j]);
      grad_in[j] = grad_of[j] = slopes.reset;
      grad_in[units + j] = grad_of[units + j] = slopes.update;
      grad_in[2 * units + j] = slopes.in_fresh;
      grad_of[2 * units + j] = slopes.of_fresh;
      grad_before[j] = slopes.before;
    }
  }

  static void lstm(int64_t units, const void* in_data, const void* of_data, const void* before_data, void* state_data,
                   void* cell_data, void* gates_data) {
    const T* in = static_cast<const T*>(in_data);
    const T* of = static_cast<const T*>(of_data);
    const T* before = static_cast<const T*>(before_data);
    T* state = static_cast<T*>(state_data);
    T* cell = static_cast<T*>(cell_data);
    T* gates = static_cast<T*>(gates_data);
    const math::LstmUnit unit;
#pragma GCC ivdep
    for (int64_t j = 0; j < units; ++j) {
      const auto a = unit.gates(in[j] + of[j], in[units + j] + of[units + j], in[2 * units + j] + of[2 * units + j],
                                in[3 * units + j] + of[3 * units + j]);
      gates[j] = a.input;
      gates[units + j] = a.forget;
      gates[2 * units + j] = a.fresh;
      gates[3 * units + j] = a.output;
      const T value = unit.cell(a, before[j]);
      cell[j] = value;
      state[j] = unit.state(a, value);
    }
  }

  // A gradient that is not there is zero.
  template <bool of_state, bool of_cell>
  WEFT_FN static void lstm_slopes(int64_t units, const T* grad, const T* grad_cell, const T* gates, const T* before,
                                  const T* cell, T* grad_in, T* grad_before) {
#pragma GCC ivdep
    for (int64_t j = 0; j < units; ++j) {
      const math::LstmGates<T> a = {gates[j], gates[units + j], gates[2 * units + j], gates[3 * units + j]};
      const auto slopes =
          math::LstmUnitGrad{}(of_state ? grad[j] : T(0), of_cell ? grad_cell[j] : T(0), a, before[j], cell[j]);
      grad_in[j] = slopes.input;
      grad_in[units + j] = slopes.forget;
      grad_in[2 * units + j] = slopes.fresh;
      grad_in[3 * units + j] = slopes.output;
      grad_before[j] = slopes.before;
    }
  }

  static void lstm_backward(int64_t units, const void* grad_data, const void* grad_cell_data, const void* gates_data,
                            const void* before_data, const void* cell_data, void* grad_in_data,
                            void* grad_before_data) {
    const T* grad = static_cast<const T*>(grad_data);
    const T* grad_cell = static_cast<const T*>(grad_cell_data);
    const T* gates = static_cast<const T*>(gates_data);
    const T* before = static_cast<const T*>(before_data);
    const T* cell = static_cast<const T*>(cell_data);
    T* in = static_cast<T*>(grad_in_data);
    T* out = static_cast<T*>(grad_before_data);
    if (grad && grad_cell) return lstm_slopes<true, true>(units, grad, grad_cell, gates, before, cell, in, out);
    if (grad) return lstm_slopes<true, false>(units, grad, grad_cell, gates, before, cell, in, out);
    return lstm_slopes<false, true>(units, grad, grad_cell, gates, before, cell, in, out);
  }

  static constexpr CellRows kRows = {gru, gru_backward, lstm, lstm_backward};
};

}  // namespace

const CellTable& cell_table() {
  static constexpr CellTable table = {Loops<float>::kRows, Loops<double>::kRows};
  return table;
}

}  // namespace weft::cpu::WEFT_ISA
