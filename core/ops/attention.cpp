// Scaled dot-product attention. See Note [Attention in tiles] in core/kernels/cpu/attention.h.
#include <algorithm>
#include <cmath>

#include "core/kernels/cpu/attention.h"
#include "core/ops/products.h"
#include "core/ops/reduce_common.h"
#include "core/ops/softmax.h"
#include "core/ops/wide.h"

namespace weft {

namespace {

constexpr int64_t kLargeAttention = 32 * 32 * 32;

// A tensor of four dimensions in the kernels' dtype. dot products need adjacent columns.
struct Heads {
  Tensor values;
  Heads(const Tensor& t, DType wide, bool adjacent) : values(values_as(t, wide)) {
    if (adjacent && values.stride(3) != 1) values = detached_copy(values);
  }
  operator cpu::HeadsView() const {
    return {values->data, values.stride(0), values.stride(1), values.stride(2), values.stride(3)};
  }
};

// The same for a mask, of which any dimension may be 1.
struct Mask {
  Tensor values;
  cpu::MaskView view{cpu::MaskView::None, nullptr, 0, 0, 0};

  Mask(const Tensor& mask, int64_t keys, DType wide) {
    if (!mask) return;
    values = mask.dtype() == DType::Bool ? mask : values_as(mask, wide);
    if (values.size(3) != keys)
      values = alias(values, Dims{values.size(0), values.size(1), values.size(2), keys},
                     Dims{values.stride(0), values.stride(1), values.stride(2), 0}, 0);
    if (values.stride(3) != 1 && keys != 1) values = detached_copy(values);
    const auto step = [&](int d) { return values.size(d) == 1 ? int64_t{0} : values.stride(d); };
    view = {mask.dtype() == DType::Bool ? cpu::MaskView::Allowed : cpu::MaskView::Added, values->data, step(0), step(1),
            step(2)};
  }
};

// (batch, heads, rows, columns) laid out as (batch, rows, heads, columns): what comes next is joining the
// heads of a row.
void set_heads(DType dtype, Device device, int64_t batch, int64_t heads, int64_t rows, int64_t columns, Meta* out) {
  const int64_t sizes[] = {batch, heads, rows, columns};
  out->set(dtype, device, sizes);
  out->strided = true;
  out->strides[3] = 1;
  out->strides[2] = heads * columns;
  out->strides[1] = columns;
  out->strides[0] = rows * heads * columns;
}

bool same_sizes(const Tensor& a, const Tensor& b) {
  return std::equal(a.sizes().begin(), a.sizes().end(), b.sizes().begin(), b.sizes().end());
}

[[noreturn, gnu::cold]] void fail_shapes(const Tensor& q, const Tensor& k, const Tensor& v) {
  fail("scaled_dot_product_attention(): query ", shape_text(q.sizes()), ", key ", shape_text(k.sizes()), " and value ",
       shape_text(v.sizes()), " do not fit: (N, ..., Hq, L, E), (N, ..., H, S, E) and (N, ..., H, S, Ev) are expected");
}

// The contract on four-dimensional query, key, value and mask.
void check_attention(Inputs in) {
  const Tensor &q = in[0], &k = in[1], &v = in[2], &mask = in[3];
  require_floating("scaled_dot_product_attention", q.dtype());
  if (q.ndim() != 4 || k.ndim() != 4 || v.ndim() != 4) fail_shapes(q, k, v);
  const bool fits = q.size(0) == k.size(0) && q.size(3) == k.size(3) && k.size(0) == v.size(0) &&
                    k.size(1) == v.size(1) && k.size(2) == v.size(2) &&
                    (k.size(1) == 0 ? q.size(1) == 0 : q.size(1) % k.size(1) == 0);
  if (!fits) fail_shapes(q, k, v);
  if (k.dtype() != q.dtype() || v.dtype() != q.dtype()) {
    fail("Expected query, key, and value to have the same dtype, but got query.dtype: ", dtype_name(q.dtype()),
         " key.dtype: ", dtype_name(k.dtype()), " and value.dtype: ", dtype_name(v.dtype()), " instead.");
  }
  if (!mask) return;
  if (mask.dtype() != DType::Bool && mask.dtype() != q.dtype()) {
    fail("Expected attn_mask dtype to be bool or to match query dtype, but got attn_mask.dtype: ",
         dtype_name(mask.dtype()), " and  query.dtype: ", dtype_name(q.dtype()), " instead.");
  }
  const int64_t sizes[] = {q.size(0), q.size(1), q.size(2), k.size(2)};
  for (int d = 0; d < 4; ++d) {
    if (mask.ndim() == 4 && (mask.size(d) == 1 || mask.size(d) == sizes[d])) continue;
    fail("The expanded size of the tensor must match the existing size: attn_mask of shape ", shape_text(mask.sizes()),
         " does not broadcast to the scores' shape ", shape_text(sizes));
  }
}

cpu::AttentionShape shape_of(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale) {
  return {q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3), v.size(3), causal, scale};
}

bool is_long(const cpu::AttentionShape& s) {
  return s.batch * s.heads * s.queries * s.keys >= kLargeAttention / std::max<int64_t>(1, s.width + s.value_width);
}

// ---- with ordinary operations ------------------------------------------------------------------------

// The keys or values of each query head.
Tensor repeated_heads(const Tensor& t, int64_t heads) {
  if (heads == t.size(1)) return t;
  const int64_t share = heads / t.size(1);
  const Dims expanded{t.size(0), t.size(1), share, t.size(2), t.size(3)};
  const Dims joined{t.size(0), heads, t.size(2), t.size(3)};
  return reshape(expand(unsqueeze(t, 2), expanded), joined);
}
// Its transpose: the gradients of the query heads, summed by what they share.
Tensor summed_heads(const Tensor& t, int64_t key_heads) {
  if (t.size(1) == key_heads) return t;
  const int64_t share = t.size(1) / key_heads;
  const Dims split{t.size(0), key_heads, share, t.size(2), t.size(3)};
  return sum(reshape(t, split), Dims{2}, false);
}

// Which keys a causal query sees.
Tensor lower_triangle(int64_t queries, int64_t keys) {
  const Tensor sees = empty(Dims{queries, keys}, DType::Bool);
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j < keys; ++j) sees.data<bool>()[i * keys + j] = j <= i;
  }
  return sees;
}

// The matrix of all probabilities. Queries that see nothing attend to nothing.
Tensor attention_weights(const Tensor& q, const Tensor& k, const Tensor& mask, bool causal, double scale) {
  Tensor scores = product(q, false, k, true) * scale;
  const Tensor hidden = number(-HUGE_VAL);
  if (causal) scores = where(lower_triangle(q.size(2), k.size(2)), scores, hidden);
  if (mask) scores = mask.dtype() == DType::Bool ? where(mask, scores, hidden) : scores + mask;
  if (!mask) return softmax(scores, -1);
  const Tensor sees = gt(sum(to_dtype(ne(scores, hidden), DType::Int64), Dims{-1}, true), number(int64_t{0}));
  const Tensor nothing = number(0.0);
  return where(sees, softmax(where(sees, scores, nothing), -1), nothing);
}

}  // namespace

// Results: the values' weighted means, and the logarithm of the sum of every query's exponentials.
struct Attention {
  static constexpr Schema schema{
      "attention(Tensor query, Tensor key, Tensor value, Tensor? mask, bool causal, float scale) -> (Tensor, Tensor)"};
  static constexpr uint32_t traits = kFirstOutputOnly;
  static constexpr uint32_t kKept = input(0) | input(1) | input(2) | input(3) | output(0) | output(1);
  static constexpr Saves saves{{kKept, kKept, kKept, kKept}};
  static constexpr const char* backward_name = "ScaledDotProductFlashAttentionForCpuBackward0";
  bool causal;
  double scale;

  void infer(Inputs in, Meta* out) const {
    check_attention(in);
    const Tensor& q = in[0];
    set_heads(q.dtype(), q->device, q.size(0), q.size(1), q.size(2), in[2].size(3), &out[0]);
    const int64_t sizes[] = {q.size(0), q.size(1), q.size(2)};
    out[1].set(wide_dtype(q.dtype()), q->device, sizes);
  }
  void run(Inputs in, Tensor* out) const {
    const DType wide = out[1].dtype();
    const cpu::AttentionShape shape = shape_of(in[0], in[1], in[2], causal, scale);
    if (out[0].numel() == 0 && out[1].numel() == 0) return;
    const Heads q(in[0], wide, false), k(in[1], wide, false), v(in[2], wide, false);
    const Mask mask(in[3], shape.keys, wide);
    const bool direct = out[0].dtype() == wide && out[0].stride(3) == 1;
    const Tensor y = direct ? out[0] : empty(out[0].sizes(), wide);
    {
      const Unlocked unlocked(is_long(shape));
      cpu::attention(wide, shape, q, k, v, mask.view, Heads(y, wide, false), out[1]->data);
    }
    if (!direct) copy_into(out[0], y);
  }
  static void vjp(Backward& b);
};
WEFT_OP(Attention);

struct AttentionGrad {
  static constexpr Schema schema{
      "attention_grad(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor grad, Tensor output, Tensor "
      "log_sum, bool causal, float scale) -> (Tensor, Tensor, Tensor)"};
  static constexpr uint32_t kKept = input(0) | input(1) | input(2) | input(3) | input(4);
  static constexpr Saves saves{{kKept, kKept, kKept, kKept}};
  static constexpr const char* backward_name = "ScaledDotProductFlashAttentionForCpuBackwardBackward0";
  bool causal;
  double scale;

  void infer(Inputs in, Meta* out) const {
    check_attention(in);
    const Tensor &q = in[0], &k = in[1], &v = in[2], &g = in[4], &y = in[5], &log_sum = in[6];
    const int64_t of_result[] = {q.size(0), q.size(1), q.size(2), v.size(3)};
    const bool fits = g.ndim() == 4 && std::equal(of_result, of_result + 4, g.sizes().begin());
    if (!fits || !same_sizes(g, y) || g.dtype() != q.dtype() || y.dtype() != q.dtype() ||
        log_sum.numel() != q.size(0) * q.size(1) * q.size(2) || log_sum.dtype() != wide_dtype(q.dtype()) ||
        !log_sum->is_contiguous()) {
      fail("attention_grad(): ", describe(g.get()), ", ", describe(y.get()), " and ", describe(log_sum.get()),
           " do not belong to this attention");
    }
    set_heads(q.dtype(), q->device, q.size(0), q.size(1), q.size(2), q.size(3), &out[0]);
    set_heads(q.dtype(), q->device, k.size(0), k.size(1), k.size(2), k.size(3), &out[1]);
    set_heads(q.dtype(), q->device, v.size(0), v.size(1), v.size(2), v.size(3), &out[2]);
  }
  void run(Inputs in, Tensor* out) const {
    const DType wide = in[6].dtype();
    const cpu::AttentionShape shape = shape_of(in[0], in[1], in[2], causal, scale);
    Tensor results[3];
    for (int i = 0; i < 3; ++i) {
      const bool direct = out[i].dtype() == wide && out[i].stride(3) == 1;
      results[i] = direct ? out[i] : empty(out[i].sizes(), wide);
    }
    if (in[4].numel() == 0 || shape.keys == 0) {
      for (int i = 0; i < 3; ++i) copy_into(out[i], zeros({}, wide));
      return;
    }
    {
      const Heads q(in[0], wide, false), k(in[1], wide, false), v(in[2], wide, false), g(in[4], wide, true),
          y(in[5], wide, true);
      const Mask mask(in[3], shape.keys, wide);
      const Unlocked unlocked(is_long(shape));
      cpu::attention_backward(wide, shape, g, q, k, v, mask.view, y, in[6]->data, Heads(results[0], wide, false),
                              Heads(results[1], wide, false), Heads(results[2], wide, false));
    }
    for (int i = 0; i < 3; ++i)
      if (results[i].get() != out[i].get()) copy_into(out[i], results[i]);
  }
  static void vjp(Backward& b);
};
WEFT_OP(AttentionGrad);

void Attention::vjp(Backward& b) {
  if (!b.grad()) return;
  const Attention& op = b.op<Attention>();
  const AttentionGrad grad{op.causal, op.scale};
  const Tensor q = b.input(0), k = b.input(1), v = b.input(2), mask = b.input(3);
  const Tensor y = detach(b.output(0)), log_sum = b.output(1);
  TensorImpl* in[] = {q.get(), k.get(), v.get(), mask.get(), b.grad().get(), y.get(), log_sum.get()};
  Tensor out[3];
  apply(op_AttentionGrad, &grad, Inputs(in, 7), out);
  for (int i = 0; i < 3; ++i)
    if (b.needs(i)) b.set(i, std::move(out[i]));
}

// With p the probabilities, forward's derivative is
//   of_p = g v^T,  of_s = scale J(of_p),  grads = (of_s k, of_s^T q, p^T g),
// where J(a) = p (a - sum(p a)) is the derivative of softmax and its own transpose.
void AttentionGrad::vjp(Backward& b) {
  const AttentionGrad& op = b.op<AttentionGrad>();
  const Tensor q = b.input(0), mask = b.input(3), g = b.input(4);
  const int64_t heads = q.size(1);
  const auto spread = [&](const Tensor& t) { return t ? repeated_heads(t, heads) : t; };
  const Tensor k = spread(b.input(1)), v = spread(b.input(2));
  const Tensor on_q = b.grad(0), on_k = spread(b.grad(1)), on_v = spread(b.grad(2));
  const Tensor p = attention_weights(q, k, mask, op.causal, op.scale);
  const auto row_sum = [](const Tensor& a) { return sum(a, Dims{-1}, true); };
  const auto through = [&](const Tensor& a) { return p * (a - row_sum(p * a)); };
  const auto plus = [](const Tensor& a, const Tensor& c) { return !a ? c : a + c; };
  const Tensor of_p = product(g, false, v, true), of_s = through(of_p) * op.scale;
  Tensor on_s;  // of of_s / scale
  if (on_q) on_s = product(on_q, false, k, true);
  if (on_k) on_s = plus(on_s, product(q, false, on_k, true));
  Tensor to_q, to_k, to_v, to_g, to_p;
  if (on_s) {
    on_s = on_s * op.scale;
    const Tensor back = through(on_s);
    to_g = product(back, false, v, false);
    to_v = product(back, true, g, false);
    to_p = on_s * (of_p - row_sum(p * of_p)) - of_p * row_sum(on_s * p);
  }
  if (on_v) {
    to_g = plus(to_g, product(p, false, on_v, false));
    to_p = plus(to_p, product(g, false, on_v, true));
  }
  if (!to_p) return;
  const Tensor to_s = through(to_p) * op.scale;
  to_q = product(to_s, false, k, false);
  to_k = product(to_s, true, q, false);
  if (on_k) to_q = to_q + product(of_s, false, on_k, false);
  if (on_q) to_k = to_k + product(of_s, true, on_q, false);
  if (b.needs(0)) b.set(0, to_q);
  if (b.needs(1)) b.set(1, summed_heads(to_k, b.input_sizes(1)[1]));
  if (b.needs(2) && to_v) b.set(2, summed_heads(to_v, b.input_sizes(2)[1]));
  if (b.needs(4)) b.set(4, to_g);
}

// ---- as programs call it -----------------------------------------------------------------------------

namespace {

// Leading dimensions, from the third last but one on, that all of them broadcast to.
Dims common_lead(const Tensor& q, const Tensor& k, const Tensor& v) {
  const int count = std::max({q.ndim(), k.ndim(), v.ndim(), 4}) - 3;
  Dims lead;
  lead.resize(count);
  for (int d = 0; d < count; ++d) {
    lead[d] = 1;
    for (const Tensor* t : {&q, &k, &v}) {
      const int at = t->ndim() - 3 - count + d;
      const int64_t size = at >= 0 ? t->size(at) : 1;
      if (size != 1 && lead[d] != 1 && lead[d] != size) fail_shapes(q, k, v);
      if (size != 1) lead[d] = size;
    }
  }
  return lead;
}

// (lead..., heads, rows, columns) as (batch, heads, rows, columns). A mask keeps dimensions of 1.
Tensor four_dims(const Tensor& t, const Dims& lead, bool is_mask) {
  Tensor full = t;
  while (full.ndim() < 4) full = unsqueeze(full, 0);
  if (lead.size() == 1 && (full.size(0) == lead[0] || is_mask)) return full;
  Dims sizes;
  sizes.resize(lead.size() + 3);
  int64_t batch = 1;
  for (int d = 0; d < lead.size(); ++d) batch *= sizes[d] = lead[d];
  for (int d = 0; d < 3; ++d) sizes[lead.size() + d] = full.size(full.ndim() - 3 + d);
  return reshape(expand(full, sizes),
                 Dims{batch, full.size(full.ndim() - 3), full.size(full.ndim() - 2), full.size(full.ndim() - 1)});
}

// Query, key, value and mask with four dimensions, or the error that they do not fit.
struct Prepared {
  Tensor q, k, v, mask;
  double scale;
  Dims result;  // the shape of the result
};

Prepared prepared(Inputs in, bool causal, const std::optional<double>& scale, bool enable_gqa) {
  const Tensor &q = in[0], &k = in[1], &v = in[2], &mask = in[3];
  if (causal && mask) fail("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
  if (q.ndim() < 2 || k.ndim() < 2 || v.ndim() < 2) {
    fail("Expected query, key, and value to all be  at least 2 dimensional, but got Query dim: ", q.ndim(),
         ", Key dim: ", k.ndim(), ", Value dim: ", v.ndim(), " instead.");
  }
  Prepared out;
  const int64_t width = q.size(q.ndim() - 1);
  out.scale = scale ? *scale : 1.0 / std::sqrt(static_cast<double>(width));
  const bool plain =
      q.ndim() == 4 && k.ndim() == 4 && v.ndim() == 4 && q.size(0) == k.size(0) && q.size(0) == v.size(0);
  const Dims lead = plain ? Dims{q.size(0)} : common_lead(q, k, v);
  out.q = plain ? q : four_dims(q, lead, false);
  out.k = plain ? k : four_dims(k, lead, false);
  out.v = plain ? v : four_dims(v, lead, false);
  out.mask = mask ? four_dims(mask, lead, true) : mask;
  const int64_t heads = out.q.size(1), key_heads = out.k.size(1), value_heads = out.v.size(1);
  if (enable_gqa && (key_heads == 0 || value_heads == 0 || heads % key_heads != 0 || heads % value_heads != 0)) {
    fail("Number of heads in key and value must divide the number of heads in query, got ", heads, " query heads, ",
         key_heads, " key heads and ", value_heads, " value heads");
  }
  if (!enable_gqa) {
    const int64_t most = std::max({heads, key_heads, value_heads});
    for (const int64_t h : {heads, key_heads, value_heads}) {
      if (h == most || h == 1) continue;
      fail("The size of tensor a (", heads, ") must match the size of tensor b (", h == heads ? most : h,
           ") at non-singleton dimension ", q.ndim() - 3,
           ": query and key have different numbers of heads; enable_gqa=True shares key heads among query heads");
    }
    if (heads < most) {
      const Dims sizes{out.q.size(0), most, out.q.size(2), out.q.size(3)};
      out.q = expand(out.q, sizes);
    }
  }
  if (key_heads != value_heads) {
    out.k = repeated_heads(out.k, out.q.size(1));
    out.v = repeated_heads(out.v, out.q.size(1));
  }
  const int ndim = std::max({q.ndim(), k.ndim(), v.ndim()});
  out.result.resize(ndim);
  const int leading = std::max(0, ndim - 3);
  for (int d = 0; d < leading; ++d) out.result[d] = lead[lead.size() - leading + d];
  if (ndim >= 3) out.result[ndim - 3] = out.q.size(1);
  out.result[ndim - 2] = q.size(q.ndim() - 2);
  out.result[ndim - 1] = v.size(v.ndim() - 1);
  return out;
}

Tensor with_shape(const Tensor& t, const Dims& sizes) { return sizes.size() == 4 ? t : reshape(t, sizes); }

}  // namespace

// weft.nn.functional.scaled_dot_product_attention without dropout: see weft/ops/attention.py.
struct ScaledDotProductAttention {
  static constexpr Schema schema{
      "scaled_dot_product(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, bool is_causal=False, float? "
      "scale=None, bool enable_gqa=False) -> Tensor"};
  bool is_causal;
  std::optional<double> scale;
  bool enable_gqa;

  Tensor compose(Inputs in) const {
    const Prepared p = prepared(in, is_causal, scale, enable_gqa);
    TensorImpl* items[] = {p.q.get(), p.k.get(), p.v.get(), p.mask.get()};
    if (p.mask && p.mask->requires_grad() && context().grad_enabled) {
      // The gradient of a mask is a matrix of all scores anyway.
      check_attention(Inputs(items, 4));
      const Tensor k = repeated_heads(p.k, p.q.size(1)), v = repeated_heads(p.v, p.q.size(1));
      return with_shape(matmul(attention_weights(p.q, k, p.mask, is_causal, p.scale), v), p.result);
    }
    const Attention op{is_causal, p.scale};
    Tensor out[2];
    apply(op_Attention, &op, Inputs(items, 4), out);
    return with_shape(out[0], p.result);
  }
};
WEFT_OP(ScaledDotProductAttention);

// The matrix of all probabilities (batch, heads, queries, keys), for dropout and for those who ask to see it.
struct AttentionWeights {
  static constexpr Schema schema{
      "attention_weights(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, bool is_causal=False, float? "
      "scale=None, bool enable_gqa=False) -> Tensor"};
  bool is_causal;
  std::optional<double> scale;
  bool enable_gqa;

  Tensor compose(Inputs in) const {
    Prepared p = prepared(in, is_causal, scale, enable_gqa);
    TensorImpl* items[] = {p.q.get(), p.k.get(), p.v.get(), p.mask.get()};
    check_attention(Inputs(items, 4));
    p.result[p.result.size() - 1] = p.k.size(2);
    return with_shape(attention_weights(p.q, repeated_heads(p.k, p.q.size(1)), p.mask, is_causal, p.scale), p.result);
  }
};
WEFT_OP(AttentionWeights);

}  // namespace weft
