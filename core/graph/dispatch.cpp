#include "core/graph/dispatch.h"

#include <algorithm>
#include <sstream>

#include "core/graph/diagnosis.h"
#include "core/graph/values.h"
#include "core/tensor/promotion.h"

namespace weft {

void (*force_pending)(TensorImpl* t) = nullptr;
void (*force_node)(Node* n) = nullptr;
void (*force_readers)() = nullptr;

// Of core/ops, above: the operations that recording itself needs.
extern const OpTable op_Copy, op_Clone;
Node* record_view_write(const Tensor& base, const Tensor& view);  // a base, after one of its views was written to
Node* record_view_again(const Tensor& base, const Tensor& view);  // a view, after its base was written to

constexpr int64_t kNoFields = 0;                 // stands for an operation without attributes
constexpr bool kPlainCopy = false;               // the one field of Copy: non_blocking
constexpr std::optional<int64_t> kSameLayout{};  // of Clone: memory_format

namespace {

// What an error says about the call it stopped.
[[gnu::cold]] void describe_error(Error& error, const OpTable& table, Inputs in) {
  if (error.described) return;
  error.described = true;
  const std::string call = describe_call(table, in);
  if (error.message.find(call) == std::string::npos) error.message += "\n  in " + call;
}

void check_inputs(const OpTable& table, Inputs in) {
  const TensorImpl* first = nullptr;
  for (int i = 0; i < in.size(); ++i) {
    const TensorImpl* t = in.data()[i];
    if (!t) continue;
    if (!first) first = t;
    else if (t->device != first->device && t->ndim > 0 && first->ndim > 0) {
      fail("Expected all tensors to be on the same device, but found at least two devices, ",
           device_name(first->device), " and ", device_name(t->device), "! In ", describe_call(table, in),
           ": move one with .to(device).");
    }
  }
}

Tensor allocate(const Meta& meta, bool compute_now) {
  check_device(meta.device);
  if (!compute_now) return pending(meta.shape(), meta.dtype, meta.device);
  if (meta.strided) return empty_strided(meta.shape(), meta.stride_span(), meta.dtype, meta.device);
  return empty(meta.shape(), meta.dtype, meta.device);
}

// `never_differentiable`: detach() shares memory but is nobody's view as far as gradients go.
Tensor make_view(const Tensor& of, const Meta& meta, bool never_differentiable = false) {
  Tensor view = alias(of, meta.shape(), meta.stride_span(), meta.offset);
  TensorImpl* v = view.get();
  v->dtype = meta.dtype;
  v->flags |= of->flags & (kUntracked | kInference);
  if (!(v->flags & kInference) && !never_differentiable) {
    v->base = of->base ? of->base : of.get();
    retain(v->base);
    v->view_version = v->storage->version;
    const Context& now = context();
    if (now.inference) v->flags |= kViewInference;
    else if (!now.grad_enabled) v->flags |= kViewNoGrad;
    else v->flags |= of->flags & kViewLimits;
  }
  return view;
}

bool any_needs_grad(Inputs in) {
  bool any = false;
  for (int i = 0; i < in.size(); ++i)
    if (TensorImpl* t = in.data()[i]) any |= needs_grad(t);
  return any;
}

// Results without gradient remember where one was lost: see Note [Where the chain was cut].
void pass_cut(const OpTable& table, Inputs in, Tensor* out) {
  if (!context().mark_cuts) return;
  for (int i = 0; i < in.size(); ++i) {
    TensorImpl* t = in.data()[i];
    if (!t) continue;
    Node* cut = nullptr;
    if (t->requires_grad()) {
      Context& now = context();
      if (now.grad_enabled) {
        cut = record_cut(table, t);
      } else {
        // One mark serves a whole block without gradient.
        if (now.trace_cuts && now.cut) release(std::exchange(now.cut, nullptr));
        if (!now.cut) now.cut = record_cut(table, t);
        cut = now.cut;
        retain(cut);
      }
    } else if (t->grad_fn && !t->has(kPending)) {
      cut = t->grad_fn;
      retain(cut);
    } else {
      continue;
    }
    if (context().trace_cuts && !context().grad_enabled) trace_others(cut, in, i);
    for (int k = 0; k < table.outputs; ++k) {
      if (out[k]->grad_fn) continue;
      retain(cut);
      out[k]->grad_fn = cut;
    }
    return release(cut);
  }
}

void check_not_inference(const OpTable& table, Inputs in) {
  for (int i = 0; i < in.size(); ++i) {
    const TensorImpl* t = in.data()[i];
    if (t && (t->flags & kInference) && (table.saves.for_input[0] | table.saves.for_input[1])) {
      fail(
          "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
          "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use "
          "it "
          "in autograd, or use `weft.no_grad()` instead of `weft.inference_mode()`. In ",
          describe_call(table, in));
    }
  }
}

void attach(Node* n, Tensor* out, int outputs, bool first_only) {
  bool attached = false;
  for (int k = 0; k < outputs; ++k) {
    TensorImpl* t = out[k].get();
    if (!is_differentiable(t->dtype) || (first_only && k > 0)) continue;
    if (attached) retain(n);
    attached = true;
    t->grad_fn = n;
    t->output_nr = static_cast<uint16_t>(k);
    t->flags |= kRequiresGrad;
  }
  if (!attached) release(n);
}

}  // namespace

void check_device(Device device) {
  if (device.type == DeviceType::CPU) return;
  fail("device ", device_name(device),
       " is not available: this build of weft computes on the CPU only. Use device='cpu'.");
}

std::string describe_call(const OpTable& table, Inputs in) {
  std::string text(table.name());
  text += '(';
  const int shown = std::min(in.size(), 8);
  for (int i = 0; i < shown; ++i) {
    if (i) text += ", ";
    const TensorImpl* t = in.data()[i];
    text += t && t->has(kWrappedNumber) ? (t->dtype == DType::Float64 ? "a number" : "an integer") : describe(t);
  }
  if (shown < in.size()) text += ", ... " + std::to_string(in.size()) + " tensors";
  return text + ")";
}

void run_operation(const OpTable& table, const void* fields, Inputs in, Tensor* out) {
  if (table.pointwise) return run_pointwise(table, fields, in, out);
  table.run(fields, in, out);
}

void apply(const OpTable& table, const void* fields, Inputs in, Tensor* out) {
  if (!fields) fields = &kNoFields;
  Context& now = context();
  try {
    if (table.compose) {
      out[0] = table.compose(fields, in);
      return;
    }
    if (in.size() > 1) check_inputs(table, in);
    Meta metas[kMostResults];
    if (table.pointwise) infer_pointwise(table, fields, in, metas);
    else table.infer(fields, in, metas);
    if (__builtin_expect(now.schedule != nullptr, 0) && !(table.traits & (kForcesValues | kRandom))) {
      return now.schedule->record(table, fields, in, metas, out);
    }
    for (int i = 0; i < in.size(); ++i)
      if (in.data()[i]) ensure_value(in.data()[i]);
    if (table.traits & kView) {
      out[0] = make_view(in[0], metas[0], table.traits & kNeverDifferentiable);
    } else {
      for (int k = 0; k < table.outputs; ++k) out[k] = allocate(metas[k], true);
      if (table.traits & kUpdatesSelf) copy_into(out[0], in[0]);
      run_operation(table, fields, in, out);
    }
    if (__builtin_expect(now.inference, 0)) {
      // A view of a normal tensor stays a normal tensor.
      if (!(table.traits & kView))
        for (int k = 0; k < table.outputs; ++k) out[k]->flags |= kInference;
    } else if (now.grad_enabled && !(table.traits & kNeverDifferentiable) && is_differentiable(out[0].dtype()) &&
               any_needs_grad(in)) {
      check_not_inference(table, in);
      Node* n = record_node(table, fields, in, out, table.outputs, nullptr);
      if (in.size() == 2 && blows_both_up(in, out[0])) mark_broadcast(n, in);
      attach(n, out, table.outputs, table.traits & kFirstOutputOnly);
    } else {
      pass_cut(table, in, out);
    }
    if (__builtin_expect(now.observer != nullptr, 0)) now.observer(table, in, out);
  } catch (Error& error) {
    describe_error(error, table, in);
    throw;
  }
}

// ---- writing into tensors that exist --------------------------------------------------------------

namespace {

bool any_shows_grad(Inputs in) {
  for (int i = 0; i < in.size(); ++i)
    if (in.data()[i] && shows_requires_grad(in.data()[i])) return true;
  return false;
}

// Some views cannot be given a history of their own, nor one derived from their base's new one.
// `written`: the view itself, or else its base or another view of it.
[[gnu::cold]] void fail_limited_view(const TensorImpl* t, bool written) {
  const bool has_node = t->requires_grad() && t->grad_fn;
  const std::string output = has_node ? "Output " + std::to_string(t->output_nr) + " of " + t->grad_fn->name() : "";
  const char* changed = written ? "is being" : "its base or another view of its base has been";
  const bool inference = t->has(kViewInference);
  if (inference || t->has(kViewNoGrad)) {
    const char* block = inference ? "inference_mode" : "no_grad";
    fail(has_node ? output + " is a view of a view which was created in" : "A view was created in",
         inference ? " inference mode and " : " no_grad mode and ", changed, " modified inplace ",
         inference ? "in normal mode." : "with grad mode enabled.",
         " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving "
         "both "
         "the view and the inplace either both inside the ",
         block,
         " block (if you don't want the inplace to be tracked) or "
         "both outside (if you want the inplace to be tracked).");
  }
  fail(
      has_node ? output : "This", " is a view and ", changed, " modified inplace.",
      t->has(kViewMultiple)
          ? " This view is the output of a function that returns multiple views. Such functions do not allow the "
            "output "
            "views to be modified inplace. You should replace the inplace operation by an out-of-place one."
          : " This view was created inside a custom Function (or because an input was returned as-is) and the autograd "
            "logic to handle view+inplace would override the custom backward associated with the custom Function, "
            "leading "
            "to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the custom "
            "Function.");
}

// A view of a temporary that nobody else holds (the end of a composed operation under no_grad) is no
// view any more.
bool shows_only_its_own(TensorImpl* t) {
  if (t->base->refs > 1 || t->base->python || (t->flags & kViewLimits) != kViewNoGrad) return false;
  release(std::exchange(t->base, nullptr));
  t->flags &= ~kViewNoGrad;
  return true;
}

std::string written_name(const OpTable& table, bool in_place) {
  return std::string(table.name()) + (in_place ? "_" : "");
}

// Whether history and modes allow an operation to change this tensor in place.
void check_changeable(const OpTable& table, bool in_place, TensorImpl* t, bool differentiable) {
  const Context& now = context();
  if (t->has(kInference)) {
    if (!now.inference) {
      fail(
          "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a "
          "normal "
          "tensor before doing inplace update. (",
          written_name(table, in_place), ")");
    }
    return;
  }
  if (!now.grad_enabled || !differentiable) return;
  if (t->base && (t->flags & kViewLimits) && !shows_only_its_own(t)) fail_limited_view(t, true);
  if (!needs_grad(t)) return;
  if (t->base && !(t->base->requires_grad() && t->base->grad_fn)) {
    fail("a view of a leaf Variable that requires grad is being used in an in-place operation. (",
         written_name(table, in_place), " on ", describe(t),
         ") Update parameters under `with weft.no_grad():`, or clone() first.");
  }
  if (!t->grad_fn) {
    fail("a leaf Variable that requires grad is being used in an in-place operation. (", written_name(table, in_place),
         " on ", describe(t), ") Update parameters under `with weft.no_grad():`, or use the out-of-place form.");
  }
}

}  // namespace

namespace {

// Every element gets the same value, so it does not matter that several are one.
bool fills_evenly(const OpTable& table) {
  if (table.name() != "fill" && table.name() != "zero") return false;
  python.warn(
      "Use of fill_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation.");
  return true;
}

}  // namespace

void check_writable(const OpTable& table, bool in_place, TensorImpl* t, bool differentiable) {
  ensure_value(t);
  if (t->storage->read_later) force_readers();
  if (may_overlap_itself(t) && !fills_evenly(table)) {
    fail(
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
        "Please clone() the tensor before performing the operation. (",
        written_name(table, in_place), " on ", describe(t), " with strides ", shape_text(t->strides()), ")");
  }
  check_changeable(table, in_place, t, differentiable);
}

void note_write(TensorImpl* t) {
  if (t->flags & (kUntracked | kInference)) return;
  Storage* s = t->storage;
  ++s->version;
  if (context().record_sites) {
    const CallSite site = python.current_site();
    if (s->writer_code) python.release(s->writer_code);
    s->writer_code = site.code;
    s->writer_instruction = site.instruction;
  }
}

void check_no_partial_overlap(const TensorImpl* out, const TensorImpl* in) {
  if (out->storage != in->storage || out == in || out->numel == 0 || in->numel == 0) return;
  // Where one of them leaves gaps, their elements may well lie between each other: input is copied then.
  if (!is_dense(out->sizes(), out->strides()) || !is_dense(in->sizes(), in->strides())) return;
  const auto end = [](const TensorImpl* t) { return t->data + t->numel * item_size(t->dtype); };
  const bool same_range = out->data == in->data && end(out) == end(in);
  const bool same = same_range && std::ranges::equal(out->strides(), in->strides());
  if (!same && out->data < end(in) && in->data < end(out)) {
    fail(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
        "location. Please clone() the tensor before performing the operation.");
  }
}

namespace {

// Interleaved views (x[::2] and x[1::2]) share a range but no element; the test above cannot tell.
// Kernels read inputs after writing results, so such an input is copied first.
Tensor separated(const TensorImpl* out, const Tensor& in) {
  if (!in || in->storage != out->storage || in.get() == out) return in;
  if (out->data == in->data && out->ndim == in->ndim && std::equal(out->dims, out->dims + 2 * out->ndim, in->dims))
    return in;
  return detached_copy(in);
}

void check_result_fits(const OpTable& table, DType result, const TensorImpl* t, Inputs in, const char* form) {
  if (!can_cast(result, t->dtype)) {
    fail("result type ", dtype_name(result), " can't be cast to the desired output type ", dtype_name(t->dtype), " (",
         form, " ", describe_call(table, in), ")");
  }
}

}  // namespace

namespace {

void refresh_view_history(TensorImpl* t) {
  if (t->flags & kViewLimits) fail_limited_view(t, false);
  t->view_version = t->storage->version;
  set_history(t, record_view_again(Tensor::share(t->base), Tensor::share(t)), 0);
}

}  // namespace

void rebase_history(TensorImpl* t, Node* node, int output_nr) {
  set_history(t, node, output_nr);
  if (t->base && t->base->storage != t->storage) release(std::exchange(t->base, nullptr));  // by `.data =`
  if (!t->base) return;
  Tensor base = Tensor::share(t->base);
  set_history(base.get(), record_view_write(base, Tensor::share(t)), 0);
  refresh_view_history(t);
}

bool view_needs_grad(TensorImpl* t) {
  if (t->base->storage != t->storage) {  // one of them was given other memory, by `.data =`
    release(std::exchange(t->base, nullptr));
    return t->requires_grad();
  }
  const bool from_base = t->base->requires_grad() && is_differentiable(t->dtype);
  const bool has_history = t->requires_grad() && t->grad_fn;
  if (t->view_version != t->storage->version) {
    if (from_base || has_history) refresh_view_history(t);
    t->view_version = t->storage->version;
  }
  // As PyTorch has it, a view requires a gradient when its base does, even one made without recording
  // or before the base required any; such a view has no history, and gradients that reach it end there.
  return from_base || t->requires_grad();
}

namespace {

// transpose_, squeeze_ and their like: the same tensor shows the same memory otherwise.
void view_in_place(const OpTable& table, const void* fields, Inputs in) {
  TensorImpl* self = in.data()[0];
  if (self->storage->read_later) force_readers();
  check_changeable(table, true, self, shows_requires_grad(self));
  Meta meta;
  table.infer(fields, in, &meta);
  // A tensor with a history keeps it in every mode: what flows back must fit the node it goes to.
  const bool record = needs_grad(self) && self->requires_grad() && self->grad_fn;
  if (!record) forget_accumulator(self);
  const Tensor before = alias(in[0]);
  const Tensor shown = alias(in[0], meta.shape(), meta.stride_span(), meta.offset);
  swap_contents(self, shown.get());
  note_write(self);
  if (!record) return;
  before->flags |= kRequiresGrad;
  before->grad_fn = self->grad_fn;
  retain(before->grad_fn);
  before->output_nr = self->output_nr;
  TensorImpl* old[] = {before.get()};
  Tensor out[] = {in[0]};
  Node* n = record_node(table, fields, Inputs(old, 1), out, 1, nullptr);
  extra_of(n).name = std::string(table.struct_name) + "Backward1";
  set_history(self, n, 0);
  self->view_version = self->storage->version;
}

}  // namespace

void apply_in_place(const OpTable& table, const void* fields, Inputs in) {
  if (!fields) fields = &kNoFields;
  Context& now = context();
  TensorImpl* self = in.data()[0];
  try {
    check_inputs(table, in);
    for (int i = 0; i < in.size(); ++i)
      if (in.data()[i]) ensure_value(in.data()[i]);
    if (table.traits & kView) return view_in_place(table, fields, in);
    check_writable(table, true, self, any_shows_grad(in));
    if (table.compose) {
      TensorImpl* pair[] = {self, nullptr};
      // What the composition saves of the tensor must not be what is about to be overwritten.
      std::vector<TensorImpl*> read(in.data(), in.data() + in.size());
      Tensor before;
      if (now.grad_enabled && any_needs_grad(in)) {
        apply(op_Clone, &kSameLayout, Inputs(&self, 1), &before);
        std::replace(read.begin(), read.end(), self, before.get());
      }
      const Tensor result = table.compose(fields, Inputs(read.data(), in.size()));
      check_result_fits(table, result.dtype(), self, in, "in place,");
      pair[1] = result.get();
      return apply_in_place(op_Copy, &kPlainCopy, Inputs(pair, 2));
    }
    Meta metas[kMostResults];
    if (table.pointwise) infer_pointwise(table, fields, in, metas);
    else table.infer(fields, in, metas);
    const Meta& meta = metas[0];
    if (meta.ndim != self->ndim || !std::equal(meta.sizes, meta.sizes + meta.ndim, self->dims)) {
      fail("output with shape ", shape_text(self->sizes()), " doesn't match the broadcast shape ",
           shape_text(meta.shape()), ": ", table.name(), "_ cannot change the shape of its tensor. ",
           describe_call(table, in));
    }
    check_result_fits(table, meta.dtype, self, in, "in place,");
    const bool record = now.grad_enabled && !now.inference && is_differentiable(self->dtype) &&
                        !(table.traits & kNeverDifferentiable) && any_needs_grad(in);
    // Inputs over the same memory, other than the tensor itself, are read from a copy.
    std::vector<Tensor> copies;
    std::vector<TensorImpl*> safe(in.data(), in.data() + in.size());
    for (int i = 1; i < in.size(); ++i) {
      if (!safe[i] || safe[i]->storage != self->storage || safe[i] == self) continue;
      if (table.pointwise || &table == &op_Copy) check_no_partial_overlap(self, safe[i]);
      Tensor copy = separated(self, in[i]);
      if (copy.get() != safe[i]) {
        safe[i] = copy.get();
        copies.push_back(std::move(copy));
      }
    }
    const Inputs inputs(safe.data(), in.size());
    Tensor before;
    uint32_t mask = 0;
    if (record) {
      check_not_inference(table, in);
      for (int i = 0; i < in.size(); ++i) {
        if (in.data()[i] && in.data()[i]->requires_grad()) mask |= table.saves.for_input[std::min(i, 3)];
      }
      for (int i = 0; i < std::min(in.size(), 16); ++i) {  // y.mul_(y) saves itself as the other factor
        if (in.data()[i] == self && (mask & input(i)) && !before) before = detached_copy(in[0]);
      }
    }
    Tensor out[kMostResults];
    out[0] = Tensor::share(self);
    if (table.pointwise || (table.traits & kUpdatesSelf)) {
      run_operation(table, fields, inputs, out);
    } else {
      for (int k = 0; k < table.outputs; ++k) out[k] = allocate(metas[k], true);
      run_operation(table, fields, inputs, out);
      copy_into(in[0], out[0]);
      out[0] = Tensor::share(self);
    }
    note_write(self);
    if (record) rebase_history(self, record_node(table, fields, in, out, 1, before.get()), 0);
    if (__builtin_expect(now.observer != nullptr, 0)) now.observer(table, in, out);
  } catch (Error& error) {
    describe_error(error, table, in);
    throw;
  }
}

namespace {

void check_out_dtype(const OpTable& table, DType result, const TensorImpl* t, Inputs in) {
  const bool truth = table.traits & kTruthOut;
  if (truth ? t->dtype > DType::UInt8 : (table.traits & kExactOut) && t->dtype != result) {
    fail("Expected out tensor to have dtype ", dtype_name(result), ", but got ", dtype_name(t->dtype), " instead");
  }
  if (!truth && !(table.traits & kAnyOut)) check_result_fits(table, result, t, in, "out=,");
}

bool takes_result_directly(const Meta& meta, const Tensor* out, int k, Inputs in) {
  const TensorImpl* t = out[k].get();
  if (meta.strided || t->dtype != meta.dtype || !t->is_contiguous()) return false;
  for (int i = 0; i < in.size(); ++i)
    if (in.data()[i] && in.data()[i]->storage == t->storage) return false;
  for (int j = 0; j < k; ++j)
    if (out[j]->storage == t->storage) return false;
  return true;
}

}  // namespace

void apply_out(const OpTable& table, const void* fields, Inputs in, Tensor* out) {
  if (!fields) fields = &kNoFields;
  Context& now = context();
  try {
    check_inputs(table, in);
    for (int i = 0; i < in.size(); ++i)
      if (in.data()[i]) ensure_value(in.data()[i]);
    bool any = any_needs_grad(in);
    for (int k = 0; k < table.outputs; ++k) any |= needs_grad(out[k].get());
    if (now.grad_enabled && any) {
      fail(table.name(),
           "(): functions with out=... arguments don't support automatic differentiation, but one of the "
           "arguments requires grad.");
    }
    if (table.compose) {
      const Tensor result = table.compose(fields, in);
      for (int i = 0; i < in.size() && table.list_input; ++i) {
        if (in.data()[i] == out[0].get())
          fail(table.name(), "(): out= is one of the inputs. Please clone() it before.");
        if (in.data()[i]) check_no_partial_overlap(out[0].get(), in.data()[i]);
      }
      check_out_dtype(table, result.dtype(), out[0].get(), in);
      resize_output(out[0].get(), result.sizes());
      check_writable(table, false, out[0].get(), false);
      copy_into(out[0], result);
      return note_write(out[0].get());
    }
    Meta metas[kMostResults];
    if (table.pointwise) infer_pointwise(table, fields, in, metas);
    else table.infer(fields, in, metas);
    Tensor fresh[kMostResults];
    for (int k = 0; k < table.outputs; ++k) {
      check_out_dtype(table, metas[k].dtype, out[k].get(), in);
      resize_output(out[k].get(), metas[k].shape());
      check_writable(table, false, out[k].get(), false);
    }
    if (table.traits & kView) {
      copy_into(out[0], make_view(in[0], metas[0]));
    } else {
      // Computed apart and copied where an output shares memory with an input or is laid out otherwise.
      for (int k = 0; k < table.outputs; ++k)
        fresh[k] = takes_result_directly(metas[k], out, k, in) ? out[k] : allocate(metas[k], true);
      if (table.traits & kUpdatesSelf) copy_into(fresh[0], in[0]);
      run_operation(table, fields, in, fresh);
      for (int k = 0; k < table.outputs; ++k)
        if (fresh[k].get() != out[k].get()) copy_into(out[k], fresh[k]);
    }
    for (int k = 0; k < table.outputs; ++k) note_write(out[k].get());
  } catch (Error& error) {
    describe_error(error, table, in);
    throw;
  }
}

}  // namespace weft
