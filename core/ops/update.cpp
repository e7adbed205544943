#include "core/ops/update.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/graph/dispatch.h"
#include "core/graph/values.h"

namespace weft {
namespace {

using cpu::UpdateRule;
using cpu::UpdateSpan;
using math::update::Scalars;

// Only a name for messages.
constexpr OpTable op_step{"Step", Schema{"step(Tensor self) -> Tensor"}};

// Up to so many elements in all, it is not worth waking other threads or letting go of the lock.
constexpr int64_t kMostAlone = 64 * 1024;

// ---- checks -----------------------------------------------------------------------------------------

[[gnu::cold]] void fail_mismatch(const Update& u, const char* what, const TensorImpl* t, const char* cure) {
  fail(what, " of parameter ", u.position, " of its group is ", describe(t), ", but the parameter is ",
       describe(u.param), ": ", cure);
}

bool same_sizes(const TensorImpl* a, const TensorImpl* b) {
  bool same = a->ndim == b->ndim;
  for (int d = 0; same && d < a->ndim; ++d) same = a->dims[d] == b->dims[d];  // memcmp() costs more for so few
  return same;
}

// A thousand small parameters do not fit the nearest cache: what comes soon is asked for early.
constexpr size_t kAhead = 6;
void fetch(const UpdateRule& rule, std::span<const Update> updates, size_t i) {
  if (i >= updates.size()) return;
  const auto both_lines = [](const TensorImpl* t) {
    __builtin_prefetch(t);
    __builtin_prefetch(reinterpret_cast<const char*>(t) + 64);
  };
  const Update& u = updates[i];
  both_lines(u.param);
  for (int k = 0; k < rule.states; ++k) both_lines(u.states[k]);
  for (int k = 0; k < rule.scalars; ++k) both_lines(u.scalars[k]);
}

// Computed, in nobody's plans, and free to be written to.
void make_writable(TensorImpl* t) {
  constexpr uint16_t special = kPending | kInference;
  if ((t->flags & special) || !t->is_contiguous() || t->storage->read_later) check_writable(op_step, true, t, false);
}

void check(const UpdateRule& rule, const Update& u) {
  TensorImpl* const param = u.param;
  TensorImpl* const grad = gradient_of(param);
  ensure_value(grad);
  make_writable(param);
  if (grad->dtype != param->dtype || !same_sizes(grad, param))
    fail_mismatch(u, "the gradient", grad, "call zero_grad() after changing a parameter's data.");
  if (grad->device != param->device) fail_mismatch(u, "the gradient", grad, "move both to the same device.");
  if (!cpu::has_update(param->dtype))
    fail("a parameter must have a floating point dtype, and this one is ", describe(param));
  check_device(param->device);
  for (int k = 0; k < rule.states; ++k) {
    TensorImpl* const state = u.states[k];
    make_writable(state);
    if (state->dtype != param->dtype || !same_sizes(state, param) || state->device != param->device)
      fail_mismatch(u, "the state", state, "load a state_dict() that was saved for parameters of this shape.");
  }
  for (int k = 0; k < rule.scalars; ++k) {
    TensorImpl* const scalar = u.scalars[k];
    make_writable(scalar);
    if (scalar->numel != 1 || (scalar->dtype != DType::Float32 && scalar->dtype != DType::Float64)) {
      fail("the state of parameter ", u.position,
           " of its group must hold numbers as float32 or float64 tensors of one ", "element, not as ",
           describe(scalar));
    }
  }
}

// ---- the numbers kept beside a parameter --------------------------------------------------------------

Scalars read_scalars(const UpdateRule& rule, const Update& u) {
  Scalars scalars{};
  scalars.fresh = u.fresh;
  scalars.single = rule.scalars == 0 || u.scalars[0]->dtype == DType::Float32;
  for (int k = 0; k < rule.scalars; ++k) {
    const TensorImpl* t = u.scalars[k];
    if (t->dtype == DType::Float32) {
      float value;
      std::memcpy(&value, t->data, sizeof value);
      scalars.value[k] = value;
    } else {
      std::memcpy(&scalars.value[k], t->data, sizeof(double));
    }
  }
  return scalars;
}

void write_scalars(const UpdateRule& rule, const Update& u, const Scalars& scalars) {
  for (int k = 0; k < rule.scalars; ++k) {
    TensorImpl* t = u.scalars[k];
    if (t->dtype == DType::Float32) {
      const float value = static_cast<float>(scalars.value[k]);
      std::memcpy(t->data, &value, sizeof value);
    } else {
      std::memcpy(t->data, &scalars.value[k], sizeof(double));
    }
  }
}

// Parameters nearly always stand at the same step: what begin() found for one serves the next.
class Steps {
 public:
  Steps(const UpdateRule& rule, const double* numbers) : rule_(rule), numbers_(numbers) {}

  const cpu::UpdateStep& next(const Update& u) {
    const Scalars before = read_scalars(rule_, u);
    if (!known_ || !same(before, before_)) {
      before_ = after_ = before;
      rule_.begin(numbers_, after_, step_.bytes);
      known_ = true;
    }
    write_scalars(rule_, u, after_);
    return step_;
  }

 private:
  static bool same(const Scalars& a, const Scalars& b) {
    return std::equal(a.value, a.value + math::update::kMostScalars, b.value) && a.single == b.single &&
           a.fresh == b.fresh;
  }

  const UpdateRule& rule_;
  const double* numbers_;
  bool known_ = false;
  Scalars before_{}, after_{};
  cpu::UpdateStep step_{};
};

// ---- after the step -----------------------------------------------------------------------------------

// The same version and writer for everything that one step has written.
class Writes {
 public:
  Writes() : site_(context().record_sites ? python.current_site() : CallSite{}) {}
  ~Writes() {
    if (site_.code) python.release(site_.code);
  }
  Writes(const Writes&) = delete;

  void note(TensorImpl* t) const {
    if (t->flags & (kUntracked | kInference)) return;
    Storage* const s = t->storage;
    ++s->version;
    if (!site_.code) return;
    if (s->writer_code != site_.code) {
      python.retain(site_.code);
      if (s->writer_code) python.release(s->writer_code);
      s->writer_code = site_.code;
    }
    s->writer_instruction = site_.instruction;
  }

 private:
  CallSite site_;
};

// All the bookkeeping of one updated parameter.
void note_update(const UpdateRule& rule, const Update& u, const Writes& writes) {
  writes.note(u.param);
  for (int k = 0; k < rule.states; ++k) writes.note(u.states[k]);
  for (int k = 0; k < rule.scalars; ++k) writes.note(u.scalars[k]);
}

// ---- memory -------------------------------------------------------------------------------------------

// Whether the elements of all of them lie in one order without gaps, so that they can be walked as runs.
bool laid_out_alike(const UpdateRule& rule, const Update& u, const TensorImpl* grad) {
  const TensorImpl* param = u.param;
  bool contiguous = param->is_contiguous() && grad->is_contiguous();
  for (int k = 0; contiguous && k < rule.states; ++k) contiguous = u.states[k]->is_contiguous();
  if (contiguous) return true;
  const auto same = [param](const TensorImpl* t) {
    return std::equal(param->dims + param->ndim, param->dims + 2 * param->ndim, t->dims + t->ndim);
  };
  if (!is_dense(param->sizes(), param->strides()) || !same(grad)) return false;
  return std::all_of(u.states, u.states + rule.states, same);
}

UpdateSpan span_of(const UpdateRule& rule, const Update& u, const TensorImpl* grad) {
  const TensorImpl* param = u.param;
  UpdateSpan span;
  span.dtype = param->dtype;
  span.count = param->numel;
  span.param = param->data;
  span.grad = grad->data;
  for (int k = 0; k < rule.states; ++k) span.states[k] = u.states[k]->data;
  return span;
}

// Tensors with gaps or in different orders are updated in contiguous copies, which are written back.
class Copies {
 public:
  Update of(const UpdateRule& rule, Update u, Tensor* grad) {
    *grad = contiguous(grad->get());
    u.param = written(u.param);
    for (int k = 0; k < rule.states; ++k) u.states[k] = written(u.states[k]);
    return u;
  }
  void write_back() const {
    for (const auto& [original, copy] : written_) copy_into(original, copy);
  }

 private:
  static Tensor contiguous(const TensorImpl* t) {
    Tensor copy = empty(t->sizes(), t->dtype, t->device);
    copy_into(copy, Tensor::share(const_cast<TensorImpl*>(t)));
    return copy;
  }
  TensorImpl* written(TensorImpl* t) {
    written_.emplace_back(Tensor::share(t), contiguous(t));
    return written_.back().second.get();
  }
  std::vector<std::pair<Tensor, Tensor>> written_;
};

// Holds memory while the interpreter's lock is not held: other threads may give a tensor other memory.
class HeldStorages {
 public:
  ~HeldStorages() {
    for (Storage* s : storages_) release(s);
  }
  void add(const TensorImpl* t) {
    retain(t->storage);
    storages_.push_back(t->storage);
  }
  // Whether each was added once, and none of the others is among them.
  bool distinct_from(const HeldStorages& others) {
    std::sort(storages_.begin(), storages_.end());
    return std::adjacent_find(storages_.begin(), storages_.end()) == storages_.end() &&
           std::none_of(others.storages_.begin(), others.storages_.end(),
                        [this](Storage* s) { return std::binary_search(storages_.begin(), storages_.end(), s); });
  }

 private:
  std::vector<Storage*> storages_;
};

void update_alone(const UpdateRule& rule, const double* numbers, std::span<const Update> updates) {
  Steps steps(rule, numbers);
  const Writes writes;
  for (size_t i = 0; i < updates.size(); ++i) {
    const Update& u = updates[i];
    fetch(rule, updates, i + kAhead);
    Tensor grad = Tensor::share(gradient_of(u.param));
    if (u.param->numel == 0 || laid_out_alike(rule, u, grad.get())) {
      UpdateSpan span = span_of(rule, u, grad.get());
      span.step = steps.next(u);
      cpu::run_updates(rule, {&span, 1});
    } else {
      Copies copies;
      const Update in_copies = copies.of(rule, u, &grad);
      UpdateSpan span = span_of(rule, in_copies, grad.get());
      span.step = steps.next(u);
      cpu::run_updates(rule, {&span, 1});
      copies.write_back();
    }
    note_update(rule, u, writes);
  }
}

void update_on_threads(const UpdateRule& rule, const double* numbers, std::span<const Update> updates) {
  Copies copies;
  HeldStorages written, read;
  std::vector<UpdateSpan> spans;
  std::vector<Tensor> grads;
  spans.reserve(updates.size());
  for (const Update& u : updates) {
    Tensor grad = Tensor::share(gradient_of(u.param));
    Update in_place = u;
    if (!laid_out_alike(rule, u, grad.get())) in_place = copies.of(rule, u, &grad);
    spans.push_back(span_of(rule, in_place, grad.get()));
    written.add(in_place.param);
    for (int k = 0; k < rule.states; ++k) written.add(in_place.states[k]);
    read.add(grad.get());
    grads.push_back(std::move(grad));
  }
  const bool independent = written.distinct_from(read);
  Steps steps(rule, numbers);
  for (size_t i = 0; i < updates.size(); ++i) spans[i].step = steps.next(updates[i]);
  {
    const Unlocked unlocked(true);
    if (independent) cpu::run_independent_updates(rule, spans);
    else cpu::run_updates(rule, spans);
  }
  copies.write_back();
  const Writes writes;
  for (const Update& u : updates) note_update(rule, u, writes);
}

}  // namespace

void update_all(const UpdateRule& rule, const double* numbers, std::span<const Update> updates) {
  int64_t elements = 0;
  for (size_t i = 0; i < updates.size(); ++i) {
    fetch(rule, updates, i + kAhead);
    check(rule, updates[i]);
    elements += updates[i].param->numel;
  }
  if (elements <= kMostAlone) update_alone(rule, numbers, updates);
  else update_on_threads(rule, numbers, updates);
}

}  // namespace weft
