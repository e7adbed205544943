// Recurrent cells, and layers of them over whole sequences.
//
// A gated cell is two matrix products and one operation for the rest. That operation also returns the
// gates, as a result like any other: backward reads them, and backward of backward flows through them.
#include "core/ops/recurrent.h"

#include <algorithm>

#include "core/kernels/cpu/recurrent.h"
#include "core/ops/products.h"
#include "core/ops/reduce_common.h"
#include "core/ops/shape.h"
#include "core/ops/wide.h"

namespace weft {

namespace {

// ---- what the gated cells' rules share ---------------------------------------------------------------

constexpr int64_t kLargeCell = 16 * 1024;

int64_t last_size(const Tensor& t) { return t.ndim() == 0 ? 0 : t.size(t.ndim() - 1); }

bool same_rows(const Tensor& a, const Tensor& b) {
  return a.ndim() == b.ndim() && a.ndim() > 0 && std::equal(a.sizes().begin(), a.sizes().end() - 1, b.sizes().begin());
}

// One part of the cell's contract: `t` has the rows of the state and `width` times its units.
void check_part(const char* name, const char* part, const Tensor& t, const Tensor& state, int width) {
  if (!same_rows(t, state) || last_size(t) != width * last_size(state)) {
    fail(name, "(): ", part, " of shape ", shape_text(t.sizes()), " does not fit a state of shape ",
         shape_text(state.sizes()), ": ", width, " times as many columns are expected");
  }
  if (t.dtype() != state.dtype()) {
    fail(name, "(): expected ", part, " of dtype ", dtype_name(state.dtype()), ", got ", dtype_name(t.dtype()),
         " (cells do not promote; convert with .to(dtype))");
  }
}

void set_like(const Tensor& state, int width, Meta* out) {
  out->like(state);
  out->sizes[out->ndim - 1] *= width;
}

// A tensor as evenly spaced rows of the kernels' dtype; copied where it does not lie so.
class CellRows {
 public:
  explicit CellRows(const Tensor& t) {
    if (!t) return;
    values_ = values_as(t, wide_dtype(t.dtype()));
    const int rows_at = values_.ndim() - 2;
    const bool even = values_->is_contiguous() || (values_.ndim() == 2 && values_.stride(1) == 1);
    if (!even) values_ = detached_copy(values_);
    const int64_t step = rows_at >= 0 && !values_->is_contiguous() ? values_.stride(rows_at) : last_size(values_);
    rows_ = {values_->data, step * item_size(values_.dtype())};
  }
  operator cpu::RowsIn() const { return rows_; }

 private:
  Tensor values_;
  cpu::RowsIn rows_{nullptr, 0};
};

cpu::CellSize cell_size(const Tensor& state) {
  const int64_t units = last_size(state);
  return {units == 0 ? 0 : state.numel() / units, units};
}

// Results in the kernels' dtype: the tensors themselves or stand-ins that finish() rounds.
template <int count> class CellResults {
 public:
  explicit CellResults(Tensor* out) : out_(out) {
    for (int k = 0; k < count; ++k) {
      const DType wide = wide_dtype(out[k].dtype());
      wide_[k] = out[k].dtype() == wide && out[k]->is_contiguous() ? out[k] : empty(out[k].sizes(), wide);
    }
  }
  void* operator[](int k) const { return wide_[k]->data; }
  void finish() {
    for (int k = 0; k < count; ++k)
      if (wide_[k].get() != out_[k].get()) copy_into(out_[k], wide_[k]);
  }

 private:
  Tensor* out_;
  Tensor wide_[count];
};

// The i-th of several blocks of `units` columns.
Tensor block(const Tensor& t, int64_t i, int64_t units) { return narrow(t, -1, i * units, units); }

Tensor slope_of_sigmoid(const Tensor& y) { return y * (1.0 - y); }
Tensor slope_of_tanh(const Tensor& y) { return 1.0 - y * y; }

Tensor plus(const Tensor& a, const Tensor& b) { return !a ? b : !b ? a : a + b; }
Tensor or_zeros(const Tensor& a, const Tensor& like) { return a ? a : zeros(like.sizes(), like.dtype(), like->device); }

}  // namespace

// ---- GRU -------------------------------------------------------------------------------------------

struct GruUpdateGrad {
  static constexpr Schema schema{
      "gru_update_grad(Tensor grad, Tensor gates, Tensor before) -> (Tensor, Tensor, Tensor)"};
  static constexpr Saves saves{
      {input(0) | input(1) | input(2), input(0) | input(1) | input(2), input(0) | input(1) | input(2)}};
  static constexpr const char* backward_name = "GruCellBackwardBackward0";

  void infer(Inputs in, Meta* out) const {
    require_floating("gru_cell", in[2].dtype());
    check_part("gru_cell", "a gradient", in[0], in[2], 1);
    check_part("gru_cell", "gates", in[1], in[2], 4);
    set_like(in[2], 3, &out[0]);
    set_like(in[2], 3, &out[1]);
    out[2].like(in[2]);
  }
  void run(Inputs in, Tensor* out) const {
    const CellRows grad(in[0]), gates(in[1]), before(in[2]);
    CellResults<3> results(out);
    const Unlocked unlocked(in[2].numel() >= kLargeCell);
    cpu::gru_cell_backward(wide_dtype(in[2].dtype()), cell_size(in[2]), grad, gates, before, results[0], results[1],
                           results[2]);
    results.finish();
  }
  static void vjp(Backward& b);
};
WEFT_OP(GruUpdateGrad);

namespace {

struct GruGates {
  Tensor reset, update, fresh, hidden;
  explicit GruGates(const Tensor& gates) {
    const int64_t units = last_size(gates) / 4;
    reset = block(gates, 0, units);
    update = block(gates, 1, units);
    fresh = block(gates, 2, units);
    hidden = block(gates, 3, units);
  }
};

}  // namespace

// The results are linear in the upstream gradients, whose sum with them is what is differentiated here.
void GruUpdateGrad::vjp(Backward& b) {
  const Tensor g = b.input(0), gates = b.input(1), before = b.input(2);
  const int64_t units = last_size(before);
  const GruGates a(gates);
  const Tensor from_in = or_zeros(b.grad(0), zeros(b.output_sizes(0), b.output_dtype(0)));
  const Tensor from_of = or_zeros(b.grad(1), from_in), from_before = or_zeros(b.grad(2), before);
  const Tensor both = from_in + from_of;
  const Tensor on_reset = block(both, 0, units), on_update = block(both, 1, units);
  const Tensor on_fresh = block(from_in, 2, units), on_hidden = block(from_of, 2, units);
  const Tensor reset_slope = slope_of_sigmoid(a.reset), update_slope = slope_of_sigmoid(a.update);
  const Tensor fresh_slope = slope_of_tanh(a.fresh), keep = 1.0 - a.update, change = before - a.fresh;
  // What the gradient of the new state's pre-activation is multiplied with.
  const Tensor factor = on_reset * a.hidden * reset_slope + on_fresh + on_hidden * a.reset;
  const Tensor of_fresh = g * keep * fresh_slope;
  if (b.needs(0)) {
    b.set(0, keep * fresh_slope * factor + on_update * change * update_slope + from_before * a.update);
  }
  if (b.needs(1)) {
    const Tensor to_reset = of_fresh * (on_reset * a.hidden * (1.0 - a.reset * 2.0) + on_hidden);
    const Tensor to_update = g * (on_update * change * (1.0 - a.update * 2.0) + from_before - fresh_slope * factor);
    const Tensor to_fresh = neg(g) * (keep * a.fresh * factor * 2.0 + on_update * update_slope);
    b.set(1, cat({to_reset, to_update, to_fresh, of_fresh * on_reset * reset_slope}, -1));
  }
  if (b.needs(2)) b.set(2, on_update * g * update_slope);
}

struct GruUpdate {
  static constexpr Schema schema{"gru_update(Tensor input, Tensor hidden, Tensor before) -> (Tensor, Tensor)"};
  static constexpr Saves saves{{input(2) | output(1), input(2) | output(1), input(2) | output(1)}};
  static constexpr const char* backward_name = "GruCellBackward0";

  void infer(Inputs in, Meta* out) const {
    require_floating("gru_cell", in[2].dtype());
    check_part("gru_cell", "input gates", in[0], in[2], 3);
    check_part("gru_cell", "hidden gates", in[1], in[2], 3);
    out[0].like(in[2]);
    set_like(in[2], 4, &out[1]);
  }
  void run(Inputs in, Tensor* out) const {
    const CellRows from_in(in[0]), from_of(in[1]), before(in[2]);
    CellResults<2> results(out);
    const Unlocked unlocked(in[2].numel() >= kLargeCell);
    cpu::gru_cell(wide_dtype(in[2].dtype()), cell_size(in[2]), from_in, from_of, before, results[0], results[1]);
    results.finish();
  }
  static void vjp(Backward& b) {
    if (!b.grad(0) && !b.grad(1)) return;
    const GruSlopes slopes = gru_slopes(b.grad(0), b.grad(1), b.output(1), b.input(2));
    if (b.needs(0)) b.set(0, slopes.from_in);
    if (b.needs(1)) b.set(1, slopes.from_of);
    if (b.needs(2) && slopes.before) b.set(2, slopes.before);
  }
};
WEFT_OP(GruUpdate);

GruSlopes gru_slopes(const Tensor& grad, const Tensor& of_gates, const Tensor& gates, const Tensor& before) {
  Tensor out[3];
  if (grad) {
    const GruUpdateGrad op;
    TensorImpl* in[] = {grad.get(), gates.get(), before.get()};
    apply(op_GruUpdateGrad, &op, Inputs(in, 3), out);
  }
  if (of_gates) {
    const GruGates a(gates), of(of_gates);
    const Tensor fresh = of.fresh * slope_of_tanh(a.fresh);
    const Tensor reset = (of.reset + fresh * a.hidden) * slope_of_sigmoid(a.reset);
    const Tensor update = of.update * slope_of_sigmoid(a.update);
    out[0] = plus(out[0], cat({reset, update, fresh}, -1));
    out[1] = plus(out[1], cat({reset, update, of.hidden + fresh * a.reset}, -1));
  }
  return {std::move(out[0]), std::move(out[1]), std::move(out[2])};
}

// ---- LSTM ------------------------------------------------------------------------------------------

struct LstmUpdateGrad {
  static constexpr Schema schema{
      "lstm_update_grad(Tensor? grad, Tensor? grad_cell, Tensor gates, Tensor before, Tensor cell) -> (Tensor, "
      "Tensor)"};
  static constexpr uint32_t kEverything = input(0) | input(1) | input(2) | input(3) | input(4);
  static constexpr Saves saves{{kEverything, kEverything, kEverything, kEverything}};
  static constexpr const char* backward_name = "LstmCellBackwardBackward0";

  void infer(Inputs in, Meta* out) const {
    const Tensor& before = in[3];
    require_floating("lstm_cell", before.dtype());
    if (!in[0] && !in[1]) fail("lstm_update_grad(): a gradient of the state or of the cell is expected");
    if (in[0]) check_part("lstm_cell", "a gradient", in[0], before, 1);
    if (in[1]) check_part("lstm_cell", "a gradient", in[1], before, 1);
    check_part("lstm_cell", "gates", in[2], before, 4);
    check_part("lstm_cell", "a cell", in[4], before, 1);
    set_like(before, 4, &out[0]);
    out[1].like(before);
  }
  void run(Inputs in, Tensor* out) const {
    const CellRows grad(in[0]), grad_cell(in[1]), gates(in[2]), before(in[3]), cell(in[4]);
    CellResults<2> results(out);
    const Unlocked unlocked(in[3].numel() >= kLargeCell);
    cpu::lstm_cell_backward(wide_dtype(in[3].dtype()), cell_size(in[3]), grad, grad_cell, gates, before, cell,
                            results[0], results[1]);
    results.finish();
  }
  static void vjp(Backward& b);
};
WEFT_OP(LstmUpdateGrad);

namespace {

struct LstmGates {
  Tensor input, forget, fresh, output;
  explicit LstmGates(const Tensor& gates) {
    const int64_t units = last_size(gates) / 4;
    input = block(gates, 0, units);
    forget = block(gates, 1, units);
    fresh = block(gates, 2, units);
    output = block(gates, 3, units);
  }
};

}  // namespace

void LstmUpdateGrad::vjp(Backward& b) {
  const Tensor given = b.input(0), given_cell = b.input(1), gates = b.input(2), before = b.input(3), cell = b.input(4);
  const Tensor g = or_zeros(given, before), g_cell = or_zeros(given_cell, before);
  const LstmGates a(gates), on(or_zeros(b.grad(0), gates));
  const Tensor on_before = or_zeros(b.grad(1), before);
  const Tensor squashed = tanh(cell), squashed_slope = slope_of_tanh(squashed);
  const Tensor input_slope = slope_of_sigmoid(a.input), forget_slope = slope_of_sigmoid(a.forget);
  const Tensor fresh_slope = slope_of_tanh(a.fresh), output_slope = slope_of_sigmoid(a.output);
  // What the gradient of the new cell is multiplied with.
  const Tensor factor = on.input * a.fresh * input_slope + on.forget * before * forget_slope +
                        on.fresh * a.input * fresh_slope + on_before * a.forget;
  const Tensor of_cell = g * a.output * squashed_slope + g_cell;
  if (given && b.needs(0)) b.set(0, a.output * squashed_slope * factor + on.output * squashed * output_slope);
  if (given_cell && b.needs(1)) b.set(1, factor);
  if (b.needs(2)) {
    const Tensor to_input = of_cell * (on.input * a.fresh * (1.0 - a.input * 2.0) + on.fresh * fresh_slope);
    const Tensor to_forget = of_cell * (on.forget * before * (1.0 - a.forget * 2.0) + on_before);
    const Tensor to_fresh = of_cell * (on.input * input_slope - on.fresh * a.input * a.fresh * 2.0);
    const Tensor to_output = g * (squashed_slope * factor + on.output * squashed * (1.0 - a.output * 2.0));
    b.set(2, cat({to_input, to_forget, to_fresh, to_output}, -1));
  }
  if (b.needs(3)) b.set(3, of_cell * on.forget * forget_slope);
  if (b.needs(4)) { b.set(4, g * (on.output * output_slope - a.output * squashed * factor * 2.0) * squashed_slope); }
}

struct LstmUpdate {
  static constexpr Schema schema{"lstm_update(Tensor input, Tensor hidden, Tensor before) -> (Tensor, Tensor, Tensor)"};
  static constexpr uint32_t kKept = input(2) | output(1) | output(2);
  static constexpr Saves saves{{kKept, kKept, kKept}};
  static constexpr const char* backward_name = "LstmCellBackward0";

  void infer(Inputs in, Meta* out) const {
    require_floating("lstm_cell", in[2].dtype());
    check_part("lstm_cell", "input gates", in[0], in[2], 4);
    check_part("lstm_cell", "hidden gates", in[1], in[2], 4);
    out[0].like(in[2]);
    out[1].like(in[2]);
    set_like(in[2], 4, &out[2]);
  }
  void run(Inputs in, Tensor* out) const {
    const CellRows from_in(in[0]), from_of(in[1]), before(in[2]);
    CellResults<3> results(out);
    const Unlocked unlocked(in[2].numel() >= kLargeCell);
    cpu::lstm_cell(wide_dtype(in[2].dtype()), cell_size(in[2]), from_in, from_of, before, results[0], results[1],
                   results[2]);
    results.finish();
  }
  static void vjp(Backward& b) {
    if (!b.grad(0) && !b.grad(1) && !b.grad(2)) return;
    const LstmSlopes slopes = lstm_slopes(b.grad(0), b.grad(1), b.grad(2), b.output(2), b.input(2), b.output(1));
    if (b.needs(0)) b.set(0, slopes.sums);
    if (b.needs(1)) b.set(1, slopes.sums);
    if (b.needs(2) && slopes.before) b.set(2, slopes.before);
  }
};
WEFT_OP(LstmUpdate);

LstmSlopes lstm_slopes(const Tensor& grad, const Tensor& grad_cell, const Tensor& of_gates, const Tensor& gates,
                       const Tensor& before, const Tensor& cell) {
  Tensor out[2];
  if (grad || grad_cell) {
    const LstmUpdateGrad op;
    TensorImpl* in[] = {grad.get(), grad_cell.get(), gates.get(), before.get(), cell.get()};
    apply(op_LstmUpdateGrad, &op, Inputs(in, 5), out);
  }
  if (of_gates) {
    const LstmGates a(gates), of(of_gates);
    out[0] = plus(out[0], cat({of.input * slope_of_sigmoid(a.input), of.forget * slope_of_sigmoid(a.forget),
                               of.fresh * slope_of_tanh(a.fresh), of.output * slope_of_sigmoid(a.output)},
                              -1));
  }
  return {std::move(out[0]), std::move(out[1])};
}

// ---- cells, as programs call them ------------------------------------------------------------------

namespace {

Tensor gru_update(const Tensor& from_in, const Tensor& from_of, const Tensor& before) {
  TensorImpl* in[] = {from_in.get(), from_of.get(), before.get()};
  Tensor out[2];
  const GruUpdate op;
  apply(op_GruUpdate, &op, Inputs(in, 3), out);
  return std::move(out[0]);
}

void lstm_update(const Tensor& from_in, const Tensor& from_of, Tensor* state, Tensor* cell) {
  TensorImpl* in[] = {from_in.get(), from_of.get(), cell->get()};
  Tensor out[3];
  const LstmUpdate op;
  apply(op_LstmUpdate, &op, Inputs(in, 3), out);
  *state = std::move(out[0]);
  *cell = std::move(out[1]);
}

void check_cell_input(const Tensor& input, const Tensor& w_ih) {
  const int64_t got = last_size(input), expected = last_size(w_ih);
  if (input.ndim() > 0 && got == expected) return;
  fail("input has inconsistent input_size: got ", got, " expected ", expected);
}

// `label` tells the states of an LSTM apart: 0 is the hidden state, 1 the cell.
void check_cell_state(const Tensor& input, const Tensor& state, const Tensor& w_hh, int label) {
  if (input.ndim() == 2 && state.ndim() > 0 && input.size(0) != state.size(0)) {
    fail("Input batch size ", input.size(0), " doesn't match hidden", label, " batch size ", state.size(0));
  }
  const int64_t got = last_size(state), expected = label == 0 ? last_size(w_hh) : w_hh.size(0) / 4;
  if (got != expected) fail("hidden", label, " has inconsistent hidden_size: got ", got, ", expected ", expected);
  if (input.ndim() != state.ndim()) {
    fail("Expected input and hidden", label, " to have the same number of dimensions, got ", input.ndim(), " and ",
         state.ndim(), ": a batch of inputs goes with a batch of states");
  }
}

}  // namespace

struct GruCell {
  static constexpr Schema schema{
      "gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor"};

  Tensor compose(Inputs in) const {
    check_cell_input(in[0], in[2]);
    check_cell_state(in[0], in[1], in[3], 0);
    return gru_update(linear(in[0], in[2], in[4]), linear(in[1], in[3], in[5]), in[1]);
  }
};
WEFT_OP(GruCell);

// weft.lstm_cell() takes the two states as one argument: see weft/ops/recurrent.py.
struct LstmCell {
  static constexpr Schema schema{
      "lstm_cell_step(Tensor input, Tensor hidden, Tensor cell, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? "
      "b_hh=None) -> (Tensor, Tensor)"};

  void compose_list(Inputs in, std::vector<Tensor>& out) const {
    check_cell_input(in[0], in[3]);
    check_cell_state(in[0], in[1], in[4], 0);
    check_cell_state(in[0], in[2], in[4], 1);
    out.resize(2);
    out[1] = in[2];
    lstm_update(linear(in[0], in[3], in[5]), linear(in[1], in[4], in[6]), &out[0], &out[1]);
  }
};
WEFT_OP(LstmCell);

extern const OpTable op_Relu;

namespace {

Tensor activated(const Tensor& sum, bool relu) {
  if (!relu) return tanh(sum);
  TensorImpl* in[] = {sum.get()};
  Tensor out[1];
  apply(op_Relu, nullptr, Inputs(in, 1), out);
  return std::move(out[0]);
}

Tensor plain_cell(Inputs in, bool relu) {
  check_cell_input(in[0], in[2]);
  check_cell_state(in[0], in[1], in[3], 0);
  return activated(linear(in[0], in[2], in[4]) + linear(in[1], in[3], in[5]), relu);
}

}  // namespace

struct RnnTanhCell {
  static constexpr Schema schema{
      "rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> "
      "Tensor"};
  Tensor compose(Inputs in) const { return plain_cell(in, false); }
};
WEFT_OP(RnnTanhCell);

struct RnnReluCell {
  static constexpr Schema schema{
      "rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> "
      "Tensor"};
  Tensor compose(Inputs in) const { return plain_cell(in, true); }
};
WEFT_OP(RnnReluCell);

// ---- layers ----------------------------------------------------------------------------------------

namespace {

// A sequence cut into steps: (steps, batch, columns), or, packed, all rows of all steps under one another,
// of which step t has batch_sizes[t], never more than the step before.
class Steps {
 public:
  Steps(const Tensor& sequence, const Dims& batch_sizes) : sequence_(sequence), batch_sizes_(batch_sizes) {
    starts_.reserve(static_cast<size_t>(batch_sizes.size()));
    int64_t start = 0;
    for (int64_t size : batch_sizes) {
      starts_.push_back(start);
      start += size;
    }
  }
  int64_t count() const { return packed() ? batch_sizes_.size() : sequence_.size(0); }
  bool packed() const { return !batch_sizes_.empty(); }
  int64_t batch(int64_t t) const { return packed() ? batch_sizes_[static_cast<int>(t)] : sequence_.size(1); }
  Tensor operator[](int64_t t) const {
    return packed() ? split_part(sequence_, 0, starts_[static_cast<size_t>(t)], batch(t), true)
                    : unbound(sequence_, 0, t);
  }
  Tensor join(const std::vector<Tensor>& outputs) const { return packed() ? cat(outputs, 0) : stack(outputs, 0); }

 private:
  const Tensor& sequence_;
  const Dims& batch_sizes_;
  std::vector<int64_t> starts_;
};

// The states of a layer while it walks along a sequence whose batch shrinks (or, backwards, grows).
class States {
 public:
  States(const Tensor& first, const Steps& steps, bool reverse) : first_(first), grows_(steps.packed() && reverse) {
    now = grows_ ? narrow(first, 0, 0, steps.batch(steps.count() - 1)) : first;
  }
  // Examples that have ended give their last state away; those that begin bring their first one.
  void fit(int64_t batch) {
    const int64_t before = now.size(0);
    if (batch < before) {
      ended_.push_back(narrow(now, 0, batch, before - batch));
      now = narrow(now, 0, 0, batch);
    } else if (batch > before) {
      now = cat({now, narrow(first_, 0, before, batch - before)}, 0);
    }
  }
  // The last state of every example.
  Tensor last() {
    if (ended_.empty()) return now;
    ended_.push_back(now);
    std::reverse(ended_.begin(), ended_.end());
    return cat(ended_, 0);
  }
  Tensor now;

 private:
  const Tensor& first_;
  bool grows_;
  std::vector<Tensor> ended_;
};

void check_layer(const Tensor& input, const Tensor& w_ih, const Dims& batch_sizes) {
  const int ndim = batch_sizes.empty() ? 3 : 2;
  if (input.ndim() != ndim) fail("input must have ", ndim, " dimensions, got ", input.ndim());
  if (last_size(input) != last_size(w_ih)) {
    fail("input.size(-1) must be equal to input_size. Expected ", last_size(w_ih), ", got ", last_size(input));
  }
  int64_t rows = 0;
  for (int t = 0; t < batch_sizes.size(); ++t) {
    if (batch_sizes[t] <= 0 || (t > 0 && batch_sizes[t] > batch_sizes[t - 1])) {
      fail("batch_sizes of a packed sequence must be positive and never grow, got ", shape_text(batch_sizes));
    }
    rows += batch_sizes[t];
  }
  if (!batch_sizes.empty() && rows != input.size(0)) {
    fail("batch_sizes of a packed sequence add up to ", rows, ", but it has ", input.size(0), " rows");
  }
  if (batch_sizes.empty() && input.size(0) == 0) fail("Expected sequence length to be larger than 0 in RNN");
}

void check_layer_state(const char* name, const Tensor& state, int64_t batch, int64_t width) {
  if (state.ndim() == 2 && state.size(0) == batch && state.size(1) == width) return;
  fail("Expected ", name, " size [", batch, ", ", width, "], got ", shape_text(state.sizes()));
}

// Whether all steps can be one operation.
bool is_wide(const Tensor& t) { return t.dtype() == wide_dtype(t.dtype()); }

// Runs step(t, the input's sums of that step) over all steps, which returns the output of the step.
template <class Step> Tensor walk(const Steps& steps, bool reverse, Step step) {
  const int64_t count = steps.count();
  std::vector<Tensor> outputs(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t t = reverse ? count - 1 - i : i;
    outputs[static_cast<size_t>(t)] = step(t, steps[t]);
  }
  return steps.join(outputs);
}

// One direction of one layer with one state. update(the two sums, state) returns the new state.
template <class Update>
void run_layer(Inputs in, const Dims& batch_sizes, bool reverse, std::vector<Tensor>& out, Update update) {
  const Tensor &input = in[0], &first = in[1], &w_ih = in[2], &w_hh = in[3], &b_ih = in[4], &b_hh = in[5];
  check_layer(input, w_ih, batch_sizes);
  const Tensor sums = linear(input, w_ih, b_ih);
  const Steps steps(sums, batch_sizes);
  check_layer_state("hidden", first, steps.batch(0), last_size(w_hh));
  States hidden(first, steps, reverse);
  out.push_back(walk(steps, reverse, [&](int64_t t, const Tensor& of_step) {
    if (steps.packed()) hidden.fit(steps.batch(t));
    return hidden.now = update(of_step, linear(hidden.now, w_hh, b_hh), hidden.now);
  }));
  out.push_back(hidden.last());
}

}  // namespace

struct GruLayer {
  static constexpr Schema schema{
      "gru_layer(Tensor input, Tensor hidden, Tensor w_ih, Tensor w_hh, Tensor? b_ih, Tensor? b_hh, int[] batch_sizes, "
      "bool reverse) -> (Tensor, Tensor)"};
  Dims batch_sizes;
  bool reverse;

  void compose_list(Inputs in, std::vector<Tensor>& out) const {
    const Tensor &input = in[0], &first = in[1], &w_ih = in[2], &w_hh = in[3];
    if (!batch_sizes.empty() || !is_wide(input)) return run_layer(in, batch_sizes, reverse, out, gru_update);
    check_layer(input, w_ih, batch_sizes);
    check_layer_state("hidden", first, input.size(1), last_size(w_hh));
    const GruSequenceResults results = gru_sequence(linear(input, w_ih, in[4]), first, w_hh, in[5], reverse);
    out = {results.states, results.last};
  }
};
WEFT_OP(GruLayer);

struct RnnLayer {
  static constexpr Schema schema{
      "rnn_layer(Tensor input, Tensor hidden, Tensor w_ih, Tensor w_hh, Tensor? b_ih, Tensor? b_hh, int[] batch_sizes, "
      "bool reverse, bool relu) -> (Tensor, Tensor)"};
  Dims batch_sizes;
  bool reverse, relu;

  void compose_list(Inputs in, std::vector<Tensor>& out) const {
    run_layer(in, batch_sizes, reverse, out,
              [relu = relu](const Tensor& a, const Tensor& b, const Tensor&) { return activated(a + b, relu); });
  }
};
WEFT_OP(RnnLayer);

// w_hr projects the hidden state, where it is given.
struct LstmLayer {
  static constexpr Schema schema{
      "lstm_layer(Tensor input, Tensor hidden, Tensor cell, Tensor w_ih, Tensor w_hh, Tensor? b_ih, Tensor? b_hh, "
      "Tensor? w_hr, int[] batch_sizes, bool reverse) -> (Tensor, Tensor, Tensor)"};
  Dims batch_sizes;
  bool reverse;

  void compose_list(Inputs in, std::vector<Tensor>& out) const {
    const Tensor &input = in[0], &w_ih = in[3], &w_hh = in[4], &b_hh = in[6], &w_hr = in[7];
    check_layer(input, w_ih, batch_sizes);
    if (batch_sizes.empty() && !w_hr && is_wide(input)) {
      check_layer_state("hidden[0]", in[1], input.size(1), last_size(w_hh));
      check_layer_state("hidden[1]", in[2], input.size(1), last_size(w_hh));
      const Tensor sums = linear(input, w_ih, plus(in[5], b_hh));
      const LstmSequenceResults results = lstm_sequence(sums, in[1], in[2], w_hh, reverse);
      out = {results.states, results.last, results.last_cell};
      return;
    }
    const Tensor sums = linear(input, w_ih, in[5]);
    const Steps steps(sums, batch_sizes);
    check_layer_state("hidden[0]", in[1], steps.batch(0), last_size(w_hh));
    check_layer_state("hidden[1]", in[2], steps.batch(0), w_hh.size(0) / 4);
    States hidden(in[1], steps, reverse), cell(in[2], steps, reverse);
    out.push_back(walk(steps, reverse, [&](int64_t t, const Tensor& of_step) {
      if (steps.packed()) {
        hidden.fit(steps.batch(t));
        cell.fit(steps.batch(t));
      }
      lstm_update(of_step, linear(hidden.now, w_hh, b_hh), &hidden.now, &cell.now);
      if (w_hr) hidden.now = linear(hidden.now, w_hr, Tensor());
      return hidden.now;
    }));
    out.push_back(hidden.last());
    out.push_back(cell.last());
  }
};
WEFT_OP(LstmLayer);

}  // namespace weft
