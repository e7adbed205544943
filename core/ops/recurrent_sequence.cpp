// Gated recurrent layers over whole sequences, one operation per layer and direction.
//
// Note [A sequence is one operation]
// Step by step, a layer would be three operations per step, and its weight would gather one product per
// step. Here the steps are a loop over kernels, and the gradient of the weight is one product over all steps.
// The states and gates of all steps are results like any other. So when a derivative is itself recorded, it
// is written step by step with recorded operations (recurrent.cpp), which read those results: derivatives of
// any order are right, and only those of first order need to be fast.
#include <cstring>

#include "core/graph/context.h"
#include "core/kernels/cpu/recurrent.h"
#include "core/ops/products.h"
#include "core/ops/recurrent.h"
#include "core/ops/reduce_common.h"
#include "core/ops/shape.h"

namespace weft {

namespace {

Tensor dense(const Tensor& t) { return !t || t->is_contiguous() ? t : detached_copy(t); }

// The weight as all steps multiply with it: its rows adjacent, which pays from the second step on.
Tensor transposed_copy(const Tensor& w) {
  const int64_t sizes[] = {w.size(1), w.size(0)}, strides[] = {w.stride(1), w.stride(0)};
  return detached_copy(alias(w, sizes, strides, 0));
}

// The steps in the order in which they are taken.
struct Walk {
  int64_t steps;
  bool reverse;
  int64_t at(int64_t i) const { return reverse ? steps - 1 - i : i; }
};

// Sizes of a sequence, and where its steps lie.
struct Sequence {
  DType dtype;
  int64_t batch, units, item;

  explicit Sequence(const Tensor& state)
      : dtype(state.dtype()), batch(state.size(0)), units(state.size(1)), item(item_size(state.dtype())) {}
  cpu::CellSize size() const { return {units == 0 ? 0 : batch, units}; }
  // Step t of a contiguous tensor with `width` times as many columns as there are units.
  char* step(const Tensor& t, int64_t at, int width) const { return t->data + at * batch * width * units * item; }
  cpu::RowsIn rows(const char* data, int width) const { return {data, width * units * item}; }
  // to (batch, columns) = or += from (batch, depth) @ w (depth, columns)
  void multiply(const char* from, int64_t depth, const Tensor& w, char* to, int64_t columns, bool accumulate) const {
    cpu::gemm(dtype, batch, columns, depth, {from, depth, 1}, matrix(w), to, columns, accumulate);
  }
  bool is_long(int64_t steps) const { return is_long_product(steps * batch, units, 4 * units); }
};

template <class T> void add_numbers(char* to, const char* from, int64_t count) {
  T* a = reinterpret_cast<T*>(to);
  const T* b = reinterpret_cast<const T*>(from);
  for (int64_t i = 0; i < count; ++i) a[i] += b[i];
}
void add_step(const Sequence& s, char* to, const char* from) {
  const int64_t count = s.batch * s.units;
  if (s.dtype == DType::Float64) add_numbers<double>(to, from, count);
  else add_numbers<float>(to, from, count);
}

void check_sequence(const char* name, const Tensor& sums, const Tensor& state, const Tensor& w, int gates) {
  const bool fits = sums.ndim() == 3 && state.ndim() == 2 && w.ndim() == 2 && sums.size(0) > 0 &&
                    sums.size(1) == state.size(0) && sums.size(2) == gates * state.size(1) &&
                    w.size(0) == sums.size(2) && w.size(1) == state.size(1);
  const bool wide = state.dtype() == DType::Float32 || state.dtype() == DType::Float64;
  if (fits && wide && sums.dtype() == state.dtype() && w.dtype() == state.dtype()) return;
  fail(name, "(): ", describe(sums.get()), ", ", describe(state.get()), " and ", describe(w.get()),
       " do not fit: (steps, batch, ", gates, " * units), (batch, units) and (", gates,
       " * units, units) of float32 or float64 are expected");
}
void check_same(const char* name, const Tensor& t, IntSpan sizes, DType dtype) {
  if (!t) return;
  if (t.dtype() == dtype && std::equal(sizes.begin(), sizes.end(), t.sizes().begin(), t.sizes().end())) return;
  fail(name, "(): ", describe(t.get()), " where ", shape_text(sizes), " is expected");
}

// All steps but the last (first, if reversed) one, to stand beside those that follow them.
Tensor earlier(const Tensor& t, bool reverse) { return narrow(t, 0, reverse ? 1 : 0, t.size(0) - 1); }
Tensor later(const Tensor& t, bool reverse) { return narrow(t, 0, reverse ? 0 : 1, t.size(0) - 1); }

// The gradient of the weight that all steps share.
Tensor weight_gradient(const Tensor& of_sums, const Tensor& states, const Tensor& first, bool reverse) {
  const Tensor of_first = sum_of_outer(select(of_sums, 0, reverse ? of_sums.size(0) - 1 : 0), first);
  if (of_sums.size(0) == 1) return of_first;
  return sum_of_outer(later(of_sums, reverse), earlier(states, reverse)) + of_first;
}

Tensor step_or_null(const Tensor& t, int64_t at) { return t ? select(t, 0, at) : t; }
Tensor plus(const Tensor& a, const Tensor& b) { return !a ? b : !b ? a : a + b; }
Tensor or_zeros(const Tensor& a, const Tensor& like) { return a ? a : zeros(like.sizes(), like.dtype(), like->device); }

}  // namespace

// ---- GRU -------------------------------------------------------------------------------------------

// Results: the gradients of the input's sums, of the hidden product's sums and of the first state.
struct GruSequenceGrad {
  static constexpr Schema schema{
      "gru_sequence_grad(Tensor grad, Tensor gates, Tensor states, Tensor first, Tensor w_hh, bool reverse) -> "
      "(Tensor, "
      "Tensor, Tensor)"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  bool reverse;

  void infer(Inputs in, Meta* out) const {
    const Tensor &gates = in[1], &states = in[2], &first = in[3];
    Meta meta;
    meta.like(gates);
    const bool sized = gates.ndim() == 3 && first.ndim() == 2 && states.ndim() == 3 && gates.size(0) > 0;
    if (!sized || gates.size(1) != first.size(0) || gates.size(2) != 4 * first.size(1)) {
      fail("gru_sequence_grad(): ", describe(gates.get()), " and ", describe(first.get()), " do not fit");
    }
    const int64_t of_states[] = {gates.size(0), first.size(0), first.size(1)};
    const int64_t of_sums[] = {gates.size(0), first.size(0), 3 * first.size(1)};
    const int64_t of_weight[] = {3 * first.size(1), first.size(1)};
    const DType dtype = first.dtype();
    if (dtype != DType::Float32 && dtype != DType::Float64) fail("gru_sequence_grad(): float32 or float64 is expected");
    check_same("gru_sequence_grad", in[0], of_states, dtype);
    check_same("gru_sequence_grad", gates, gates.sizes(), dtype);
    check_same("gru_sequence_grad", states, of_states, dtype);
    check_same("gru_sequence_grad", in[4], of_weight, dtype);
    for (int k = 0; k < 2; ++k) out[k].set(dtype, first->device, of_sums);
    out[2].like(first);
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor grad = dense(in[0]), gates = dense(in[1]), states = dense(in[2]), first = dense(in[3]), &w = in[4];
    const Sequence s(first);
    const Walk walk{gates.size(0), reverse};
    const Tensor carried = empty(first.sizes(), s.dtype);
    const Unlocked unlocked(s.is_long(walk.steps));
    for (int64_t i = walk.steps - 1; i >= 0; --i) {
      const int64_t t = walk.at(i);
      const char* of_state = s.step(grad, t, 1);
      if (i < walk.steps - 1) {
        add_step(s, carried->data, of_state);
        of_state = carried->data;
      }
      const char* before = i == 0 ? first->data : s.step(states, walk.at(i - 1), 1);
      char* const of_hidden = s.step(out[1], t, 3);
      char* const to = i == 0 ? out[2]->data : carried->data;
      cpu::gru_cell_backward(s.dtype, s.size(), s.rows(of_state, 1), s.rows(s.step(gates, t, 4), 4), s.rows(before, 1),
                             s.step(out[0], t, 3), of_hidden, to);
      s.multiply(of_hidden, 3 * s.units, w, to, s.units, true);
    }
  }
};
WEFT_OP(GruSequenceGrad);

// Results: the states and the gates of all steps.
struct GruSequence {
  static constexpr Schema schema{
      "gru_sequence(Tensor sums, Tensor first, Tensor w_hh, Tensor? b_hh, bool reverse) -> (Tensor, Tensor)"};
  static constexpr uint32_t kKept = input(1) | input(2) | output(0) | output(1);
  static constexpr Saves saves{{kKept, kKept, kKept, kKept}};
  static constexpr const char* backward_name = "GruBackward0";
  bool reverse;

  void infer(Inputs in, Meta* out) const {
    const Tensor &sums = in[0], &first = in[1];
    check_sequence("gru", sums, first, in[2], 3);
    const int64_t bias[] = {sums.size(2)};
    check_same("gru", in[3], bias, first.dtype());
    const int64_t states[] = {sums.size(0), first.size(0), first.size(1)};
    const int64_t gates[] = {sums.size(0), first.size(0), 4 * first.size(1)};
    out[0].set(first.dtype(), first->device, states);
    out[1].set(first.dtype(), first->device, gates);
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor sums = dense(in[0]), first = dense(in[1]), w = transposed_copy(in[2]), bias = dense(in[3]);
    const Sequence s(first);
    const Walk walk{sums.size(0), reverse};
    const Tensor of_hidden = empty(Dims{s.batch, 3 * s.units}, s.dtype);
    const Unlocked unlocked(s.is_long(walk.steps));
    const char* before = first->data;
    for (int64_t i = 0; i < walk.steps; ++i) {
      const int64_t t = walk.at(i);
      const size_t row = static_cast<size_t>(3 * s.units * s.item);
      for (int64_t r = 0; bias && r < s.batch; ++r) std::memcpy(of_hidden->data + r * row, bias->data, row);
      s.multiply(before, s.units, w, of_hidden->data, 3 * s.units, static_cast<bool>(bias));
      cpu::gru_cell(s.dtype, s.size(), s.rows(s.step(sums, t, 3), 3), s.rows(of_hidden->data, 3), s.rows(before, 1),
                    s.step(out[0], t, 1), s.step(out[1], t, 4));
      before = s.step(out[0], t, 1);
    }
  }
  static void vjp(Backward& b) {
    const bool reverse = b.op<GruSequence>().reverse;
    const Tensor &g = b.grad(0), &of_gates = b.grad(1);
    if (!g && !of_gates) return;
    const Tensor first = b.input(1), w = b.input(2), states = b.output(0), gates = b.output(1);
    Tensor grads[3];  // of the input's sums, of the hidden product's sums, of the first state
    if (context().grad_enabled || of_gates) {
      step_by_step(g, of_gates, gates, states, first, w, reverse, grads);
    } else {
      const GruSequenceGrad op{reverse};
      TensorImpl* in[] = {g.get(), gates.get(), states.get(), first.get(), w.get()};
      apply(op_GruSequenceGrad, &op, Inputs(in, 5), grads);
    }
    if (b.needs(0)) b.set(0, grads[0]);
    if (b.needs(1)) b.set(1, grads[2]);
    if (b.needs(2)) b.set(2, weight_gradient(grads[1], states, first, reverse));
    if (b.needs(3)) b.set(3, grads[1]);
  }

 private:
  static void step_by_step(const Tensor& g, const Tensor& of_gates, const Tensor& gates, const Tensor& states,
                           const Tensor& first, const Tensor& w, bool reverse, Tensor* grads) {
    const Walk walk{gates.size(0), reverse};
    std::vector<Tensor> from_in(static_cast<size_t>(walk.steps)), from_of(from_in);
    Tensor carried;
    for (int64_t i = walk.steps - 1; i >= 0; --i) {
      const int64_t t = walk.at(i);
      const Tensor before = i == 0 ? first : select(states, 0, walk.at(i - 1));
      const Tensor of_state = or_zeros(plus(carried, step_or_null(g, t)), first);
      const GruSlopes slopes = gru_slopes(of_state, step_or_null(of_gates, t), select(gates, 0, t), before);
      from_in[static_cast<size_t>(t)] = slopes.from_in;
      from_of[static_cast<size_t>(t)] = slopes.from_of;
      carried = slopes.before + product(slopes.from_of, false, w, false);
    }
    grads[0] = stack(from_in, 0);
    grads[1] = stack(from_of, 0);
    grads[2] = carried;
  }
};
WEFT_OP(GruSequence);

GruSequenceResults gru_sequence(const Tensor& sums, const Tensor& first, const Tensor& w_hh, const Tensor& b_hh,
                                bool reverse) {
  const GruSequence op{reverse};
  TensorImpl* in[] = {sums.get(), first.get(), w_hh.get(), b_hh.get()};
  Tensor out[2];
  apply(op_GruSequence, &op, Inputs(in, 4), out);
  const Tensor last = select(out[0], 0, reverse ? 0 : sums.size(0) - 1);
  return {std::move(out[0]), last};
}

// ---- LSTM ------------------------------------------------------------------------------------------

// Results: the gradients of the sums, of the first state and of the first cell. `grad` or `grad_cells` may be
// missing.
struct LstmSequenceGrad {
  static constexpr Schema schema{
      "lstm_sequence_grad(Tensor? grad, Tensor? grad_cells, Tensor gates, Tensor cells, Tensor first_cell, Tensor "
      "w_hh, "
      "bool reverse) -> (Tensor, Tensor, Tensor)"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  bool reverse;

  void infer(Inputs in, Meta* out) const {
    const Tensor &gates = in[2], &first = in[4];
    check_sequence("lstm_sequence_grad", gates, first, in[5], 4);
    const int64_t of_cells[] = {gates.size(0), first.size(0), first.size(1)};
    for (const int i : {0, 1, 3}) check_same("lstm_sequence_grad", in[i], of_cells, first.dtype());
    out[0].like(gates);
    out[1].like(first);
    out[2].like(first);
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor grad = dense(in[0]), grad_cells = dense(in[1]), gates = dense(in[2]), cells = dense(in[3]),
                 first = dense(in[4]), &w = in[5];
    const Sequence s(first);
    const Walk walk{gates.size(0), reverse};
    const int64_t bytes = s.batch * s.units * s.item;
    // What reaches a step from the one after it, in the place where the first state's gradient will be.
    char *const of_state = out[1]->data, *const of_cell = out[2]->data;
    std::memset(of_state, 0, static_cast<size_t>(bytes));
    std::memset(of_cell, 0, static_cast<size_t>(bytes));
    const Unlocked unlocked(s.is_long(walk.steps));
    for (int64_t i = walk.steps - 1; i >= 0; --i) {
      const int64_t t = walk.at(i);
      if (grad) add_step(s, of_state, s.step(grad, t, 1));
      if (grad_cells) add_step(s, of_cell, s.step(grad_cells, t, 1));
      const char* before = i == 0 ? first->data : s.step(cells, walk.at(i - 1), 1);
      char* const of_sums = s.step(out[0], t, 4);
      cpu::lstm_cell_backward(s.dtype, s.size(), s.rows(of_state, 1), s.rows(of_cell, 1),
                              s.rows(s.step(gates, t, 4), 4), s.rows(before, 1), s.rows(s.step(cells, t, 1), 1),
                              of_sums, of_cell);
      s.multiply(of_sums, 4 * s.units, w, of_state, s.units, false);
    }
  }
};
WEFT_OP(LstmSequenceGrad);

// Results: the states, the cells and the gates of all steps.
struct LstmSequence {
  static constexpr Schema schema{
      "lstm_sequence(Tensor sums, Tensor first, Tensor first_cell, Tensor w_hh, bool reverse) -> (Tensor, Tensor, "
      "Tensor)"};
  static constexpr uint32_t kKept = input(1) | input(2) | input(3) | output(0) | output(1) | output(2);
  static constexpr Saves saves{{kKept, kKept, kKept, kKept}};
  static constexpr const char* backward_name = "LstmBackward0";
  bool reverse;

  void infer(Inputs in, Meta* out) const {
    const Tensor &sums = in[0], &first = in[1];
    check_sequence("lstm", sums, first, in[3], 4);
    check_same("lstm", in[2], first.sizes(), first.dtype());
    const int64_t states[] = {sums.size(0), first.size(0), first.size(1)};
    out[0].set(first.dtype(), first->device, states);
    out[1].set(first.dtype(), first->device, states);
    out[2].like(sums);
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor sums = dense(in[0]), first = dense(in[1]), first_cell = dense(in[2]);
    const Tensor w = transposed_copy(in[3]);
    const Sequence s(first);
    const Walk walk{sums.size(0), reverse};
    const Tensor of_hidden = empty(Dims{s.batch, 4 * s.units}, s.dtype);
    const Unlocked unlocked(s.is_long(walk.steps));
    const char *before = first->data, *cell_before = first_cell->data;
    for (int64_t i = 0; i < walk.steps; ++i) {
      const int64_t t = walk.at(i);
      s.multiply(before, s.units, w, of_hidden->data, 4 * s.units, false);
      cpu::lstm_cell(s.dtype, s.size(), s.rows(s.step(sums, t, 4), 4), s.rows(of_hidden->data, 4),
                     s.rows(cell_before, 1), s.step(out[0], t, 1), s.step(out[1], t, 1), s.step(out[2], t, 4));
      before = s.step(out[0], t, 1);
      cell_before = s.step(out[1], t, 1);
    }
  }
  static void vjp(Backward& b) {
    const bool reverse = b.op<LstmSequence>().reverse;
    const Tensor &g = b.grad(0), &g_cells = b.grad(1), &of_gates = b.grad(2);
    if (!g && !g_cells && !of_gates) return;
    const Tensor first = b.input(1), first_cell = b.input(2), w = b.input(3);
    const Tensor states = b.output(0), cells = b.output(1), gates = b.output(2);
    Tensor grads[3];  // of the sums, of the first state, of the first cell
    if (context().grad_enabled || of_gates) {
      step_by_step(b, cells, gates, first_cell, w, reverse, grads);
    } else {
      const LstmSequenceGrad op{reverse};
      TensorImpl* in[] = {g.get(), g_cells.get(), gates.get(), cells.get(), first_cell.get(), w.get()};
      apply(op_LstmSequenceGrad, &op, Inputs(in, 6), grads);
    }
    if (b.needs(0)) b.set(0, grads[0]);
    if (b.needs(1)) b.set(1, grads[1]);
    if (b.needs(2)) b.set(2, grads[2]);
    if (b.needs(3)) b.set(3, weight_gradient(grads[0], states, first, reverse));
  }

 private:
  static void step_by_step(const Backward& b, const Tensor& cells, const Tensor& gates, const Tensor& first_cell,
                           const Tensor& w, bool reverse, Tensor* grads) {
    const Walk walk{gates.size(0), reverse};
    std::vector<Tensor> of_sums(static_cast<size_t>(walk.steps));
    Tensor of_state, of_cell;
    for (int64_t i = walk.steps - 1; i >= 0; --i) {
      const int64_t t = walk.at(i);
      const Tensor before = i == 0 ? first_cell : select(cells, 0, walk.at(i - 1));
      const LstmSlopes slopes = lstm_slopes(or_zeros(plus(of_state, step_or_null(b.grad(0), t)), first_cell),
                                            plus(of_cell, step_or_null(b.grad(1), t)), step_or_null(b.grad(2), t),
                                            select(gates, 0, t), before, select(cells, 0, t));
      of_sums[static_cast<size_t>(t)] = slopes.sums;
      of_cell = slopes.before;
      of_state = product(slopes.sums, false, w, false);
    }
    grads[0] = stack(of_sums, 0);
    grads[1] = of_state;
    grads[2] = of_cell;
  }
};
WEFT_OP(LstmSequence);

LstmSequenceResults lstm_sequence(const Tensor& sums, const Tensor& first, const Tensor& first_cell, const Tensor& w_hh,
                                  bool reverse) {
  const LstmSequence op{reverse};
  TensorImpl* in[] = {sums.get(), first.get(), first_cell.get(), w_hh.get()};
  Tensor out[3];
  apply(op_LstmSequence, &op, Inputs(in, 4), out);
  const int64_t end = reverse ? 0 : sums.size(0) - 1;
  const Tensor last = select(out[0], 0, end), last_cell = select(out[1], 0, end);
  return {std::move(out[0]), last, last_cell};
}

}  // namespace weft
