// The contract and the launch shared by all element-wise operations: broadcasting, type promotion,
// the layout of the result.
#include <algorithm>
#include <cstring>

#include "core/graph/dispatch.h"
#include "core/kernels/cpu/pointwise.h"
#include "core/tensor/promotion.h"

namespace weft {
namespace {

bool same_shape(const TensorImpl* a, const TensorImpl* b) {
  if (a->ndim != b->ndim) return false;
  for (int d = 0; d < a->ndim; ++d)
    if (a->dims[d] != b->dims[d]) return false;
  return true;
}

void broadcast_shape(const OpTable& table, Inputs in, Meta* out) {
  int ndim = 0;
  for (int i = 0; i < in.size(); ++i) ndim = std::max(ndim, in[i].ndim());
  out->ndim = ndim;
  for (int d = 0; d < ndim; ++d) out->sizes[d] = 1;
  for (int i = 0; i < in.size(); ++i) {
    const int shift = ndim - in[i].ndim();
    for (int d = 0; d < in[i].ndim(); ++d) {
      int64_t& so_far = out->sizes[d + shift];
      const int64_t here = in[i].size(d);
      if (here == so_far || here == 1) continue;
      if (so_far != 1) {
        fail("The size of tensor a (", so_far, ") must match the size of tensor b (", here,
             ") at non-singleton dimension ", d + shift, ". ", describe_call(table, in),
             ": shapes broadcast from the "
             "last dimension backwards, each pair equal or one of them 1; use unsqueeze or transpose to line them up.");
      }
      so_far = here;
    }
  }
  checked_numel(out->shape());
}

// The step of an input along a dimension of the result: 0 where it is spread out.
int64_t step_along(const TensorImpl* t, int d, const Meta& out) {
  const int own = d - (out.ndim - t->ndim);
  if (own < 0 || (t->dims[own] == 1 && out.sizes[d] != 1)) return 0;
  return t->dims[t->ndim + own];
}

// Whether dimension `outer`, so far outside `inner`, belongs inside it: the first input that has
// different steps along the two decides.
bool changes_place(Inputs in, const Meta& out, int outer, int inner, bool* certain) {
  for (int i = 0; i < in.size(); ++i) {
    const int64_t a = step_along(in[i].get(), inner, out), b = step_along(in[i].get(), outer, out);
    if (a == 0 || b == 0) continue;
    if (a == b && out.sizes[inner] <= out.sizes[outer]) continue;
    *certain = true;
    return a >= b;
  }
  *certain = false;
  return false;
}

// The result keeps the order of dimensions that its inputs have in memory (transposed, channels last).
// Which order that is when inputs differ, or leave it open, is what PyTorch's iterator makes of it.
void keep_layout(Inputs in, Meta* out) {
  const TensorImpl* model = in[0].get();
  bool all_alike = is_dense(model->sizes(), model->strides());
  for (int i = 1; i < in.size() && all_alike; ++i) {
    const TensorImpl* t = in[i].get();
    all_alike = t->ndim == model->ndim && std::memcmp(model->dims, t->dims, sizeof(int64_t) * 2 * t->ndim) == 0;
  }
  if (all_alike) {
    out->strided = true;
    std::copy_n(model->dims + model->ndim, model->ndim, out->strides);
    return;
  }
  int order[kMostDims];  // from the innermost to the outermost
  for (int d = 0; d < out->ndim; ++d) order[d] = out->ndim - 1 - d;
  for (int next = 1; next < out->ndim; ++next) {
    int at = next;
    for (int inner = next - 1; inner >= 0; --inner) {
      bool certain;
      if (changes_place(in, *out, order[at], order[inner], &certain)) {
        std::swap(order[at], order[inner]);
        at = inner;
      } else if (certain) {
        break;
      }
    }
  }
  int64_t step = 1;
  for (int d = 0; d < out->ndim; ++d) {
    out->strided = out->strided || order[d] != out->ndim - 1 - d;
    out->strides[order[d]] = step;
    step *= std::max<int64_t>(out->sizes[order[d]], 1);
  }
}

[[gnu::noinline]] DType promoted_dtype(const Pointwise& rule, Inputs in) {
  if (rule.promote == Promote::Exact) return in[0].dtype();
  const int first = rule.promote == Promote::SelectSecond ? 1 : 0;
  const TensorImpl* head = in[first].get();
  DType common = head->dtype;
  bool uniform = !head->has(kWrappedNumber) || in.size() == first + 1;
  for (int i = first + 1; i < in.size() && uniform; ++i)
    uniform = in[i].dtype() == common && !in[i]->has(kWrappedNumber);
  if (!uniform) {
    ResultType result;
    for (int i = first; i < in.size(); ++i) result.add(in[i].get());
    common = result.get();
  } else if (head->has(kWrappedNumber) && common == DType::Float64) {
    common = default_dtype();
  }
  if (rule.promote == Promote::Float && is_integral(common)) common = default_dtype();
  if (rule.promote == Promote::Number && common == DType::Bool) common = DType::Int64;
  return common;
}

inline DType computed_dtype(const Pointwise& rule, Inputs in) {
  // One or two tensors of the same floating dtype: nothing to work out, whatever the rule.
  const TensorImpl *a = in.data()[0], *b = in.data()[in.size() - 1];
  const bool plain = in.size() <= 2 && a->dtype == b->dtype && !((a->flags | b->flags) & kWrappedNumber);
  if (plain && is_floating(a->dtype)) return a->dtype;
  return promoted_dtype(rule, in);
}

// The dtype the tile kernel runs in: half precision goes through float32.
DType kernel_dtype(DType t) { return t == DType::Float16 || t == DType::BFloat16 ? DType::Float32 : t; }

}  // namespace

void infer_pointwise(const OpTable& table, const void* op, Inputs in, Meta* out) {
  if (table.check) table.check(op, in);
  const Pointwise& rule = *table.pointwise;
  const DType common = computed_dtype(rule, in);
  if (is_complex(common)) {
    fail(ErrorKind::NotImplemented, table.name(), ": ", dtype_name(common),
         " has no arithmetic in weft yet; keep real and "
         "imaginary parts in two tensors");
  }
  if (!kElementwiseInfo[static_cast<int>(rule.kernel)].supports(kernel_dtype(common))) {
    fail(ErrorKind::NotImplemented, "\"", table.name(), "\" not implemented for '", dtype_name(common), "' (",
         describe_call(table, in), ")");
  }
  out->dtype = rule.promote == Promote::Compare || rule.promote == Promote::Predicate ? DType::Bool : common;
  const TensorImpl* a = in[0].get();
  out->device = a->device;
  bool one_shape = true;
  bool contiguous = a->is_contiguous();
  for (int i = 1; i < in.size(); ++i) {
    const TensorImpl* t = in[i].get();
    if (t->device.type != DeviceType::CPU) out->device = t->device;
    one_shape = one_shape && same_shape(a, t);
    contiguous = contiguous && t->is_contiguous();
  }
  if (one_shape) {
    out->ndim = a->ndim;
    for (int d = 0; d < a->ndim; ++d) out->sizes[d] = a->dims[d];
  } else {
    broadcast_shape(table, in, out);
  }
  if (!contiguous) keep_layout(in, out);
}

void run_pointwise(const OpTable& table, const void* op, Inputs in, Tensor* out) {
  const Pointwise& rule = *table.pointwise;
  const DType common = computed_dtype(rule, in);
  const DType compute = kernel_dtype(common);
  if (table.check_values && out[0].numel() > 0) table.check_values(in);
  alignas(16) char functor[64];
  if (table.functor) table.functor(op, functor);
  const cpu::TileFn tile = cpu::tile_table().of(rule.kernel, compute);

  TensorImpl* result = out[0].get();
  const bool predicate = rule.promote == Promote::Compare || rule.promote == Promote::Predicate;
  // Small and contiguous: single elements are spread out here, and nothing else needs to be arranged.
  constexpr int64_t kMostSpread = 256;
  bool plain = result->is_contiguous() && result->dtype == (predicate ? DType::Bool : compute) && result->numel <= 4096;
  if (plain) {
    alignas(64) char spread[3][kMostSpread * sizeof(double)];
    const char* data[3] = {};
    for (int i = 0; i < in.size() && plain; ++i) {
      const TensorImpl* t = in[i].get();
      const DType wanted = i == 0 && rule.promote == Promote::SelectSecond ? DType::Bool : compute;
      if (t->is_contiguous() && t->numel == result->numel && t->dtype == wanted) {
        data[i] = t->data;
      } else if (t->numel == 1 && result->numel <= kMostSpread) {
        alignas(16) char element[16];
        if (t->dtype == wanted) std::memcpy(element, t->data, item_size(wanted));
        else cpu::tile_table().of_cast(t->dtype, wanted)(nullptr, 1, element, t->data, nullptr, nullptr);
        cpu::tile_table().fill[cpu::item_size_index(item_size(wanted))](result->numel, spread[i], element);
        data[i] = spread[i];
      } else {
        plain = false;
      }
    }
    if (plain) return tile(functor, result->numel, result->data, data[0], data[1], data[2]);
  }

  cpu::PointwiseCall call;
  call.tile = tile;
  call.functor = functor;
  call.ndim = result->ndim;
  call.sizes = result->dims;
  call.numel = result->numel;
  call.operands = in.size() + 1;
  call.operand[0] = {result->data, result->dtype, predicate ? DType::Bool : compute, result->is_contiguous(),
                     result->dims + result->ndim};
  int64_t strides[3][kMostDims];
  bool same_dense_layout = !result->is_contiguous();
  for (int i = 0; i < in.size(); ++i) {
    const TensorImpl* t = in[i].get();
    const DType wanted = i == 0 && rule.promote == Promote::SelectSecond ? DType::Bool : compute;
    const int shift = result->ndim - t->ndim;
    bool full = t->ndim == result->ndim;
    for (int d = 0; d < result->ndim; ++d) {
      const bool own = d >= shift && (t->dims[d - shift] != 1 || result->dims[d] == 1);
      strides[i][d] = own ? t->dims[t->ndim + d - shift] : 0;
      if (d >= shift && t->dims[d - shift] != result->dims[d]) full = false;
    }
    call.operand[i + 1] = {t->data, t->dtype, wanted, full && t->is_contiguous(), strides[i]};
    if (t->numel != 1 && same_dense_layout) {
      same_dense_layout = full && std::equal(strides[i], strides[i] + result->ndim, result->dims + result->ndim);
    }
  }
  // All dense in one layout that is not row-major: memory order serves as well as logical order.
  if (same_dense_layout && is_dense(result->sizes(), result->strides())) {
    call.operand[0].direct = true;
    for (int i = 0; i < in.size(); ++i)
      if (in[i].numel() != 1) call.operand[i + 1].direct = true;
  }
  Unlocked unlocked(result->numel >= 64 * 1024);
  cpu::run_pointwise(call);
}

}  // namespace weft
