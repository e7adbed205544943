// Matrix products.
#include <algorithm>

#include "core/ops/products.h"

namespace weft {

extern const OpTable op_Product;
extern const OpTable op_SumOfOuter;

void check_real(const char* operation, const Tensor& t) {
  if (is_complex(t.dtype())) {
    fail(ErrorKind::NotImplemented, operation, ": complex products are not available in weft yet");
  }
}

namespace {

void check_matrix(const char* which, const Tensor& t) {
  if (t.ndim() != 2) {
    fail(which, " must be a matrix, got ", describe(t.get()), ": mm takes 2-D tensors, matmul any others");
  }
}

void check_same_dtype(const char* operation, Inputs in) {
  if (in[0].dtype() != in[1].dtype()) {
    fail("expected m1 and m2 to have the same dtype, but got: ", dtype_name(in[0].dtype()),
         " != ", dtype_name(in[1].dtype()), " (", operation, " does not promote; convert one operand with .to(dtype))");
  }
  check_real(operation, in[0]);
}

[[noreturn, gnu::cold]] void fail_inner_sizes(int64_t m, int64_t k, int64_t other_k, int64_t n) {
  fail("mat1 and mat2 shapes cannot be multiplied (", m, "x", k, " and ", other_k, "x", n, "): the ", k,
       " columns of the first "
       "must be the rows of the second",
       k == n ? "; transpose the second with .mT" : "");
}

void set_result(const Tensor& like, IntSpan sizes, Meta* out) { out->set(like.dtype(), like->device, sizes); }

}  // namespace

cpu::MatrixView matrix(const Tensor& t, bool transposed) {
  const int n = t.ndim();
  const int64_t row = t.stride(n - 2), col = t.stride(n - 1);
  return transposed ? cpu::MatrixView{t->data, col, row} : cpu::MatrixView{t->data, row, col};
}

Rows rows_of(const Tensor& t) {
  const int last = t.ndim() - 1;
  int64_t count = 1, stride = 0;
  for (int d = last - 1; d >= 0; --d) {
    if (t.size(d) == 1) continue;
    if (count == 1) stride = t.stride(d);
    else if (t.stride(d) != stride * count) {
      count = 1;
      for (int e = 0; e < last; ++e) count *= t.size(e);
      const int64_t columns = t.size(last);
      if (count == 0 || columns == 0) return {count, {t->data, columns, 1}, {}};
      Tensor copy = empty(t.sizes(), t.dtype(), t->device);
      copy_into(copy, t);
      return {count, {copy->data, columns, 1}, copy};
    }
    count *= t.size(d);
  }
  return {count, {t->data, stride, t.stride(last)}, {}};
}

// ---- products with transposes, as derivatives need them -----------------------------------------

struct Product {
  static constexpr Schema schema{
      "matrix_product(Tensor self, Tensor other, bool self_transposed, bool other_transposed) -> "
      "Tensor"};
  static constexpr Saves saves{{input(1), input(0)}};
  static constexpr const char* backward_name = "MatmulBackward0";
  bool self_transposed, other_transposed;

  void infer(Inputs in, Meta* out) const {
    const Tensor &a = in[0], &b = in[1];
    const bool row = a.ndim() == 1 && !self_transposed;
    if (row ? b.ndim() != 2 : a.ndim() < 2 || b.ndim() < 2) {
      fail("matrix_product takes matrices, got ", describe(a.get()), " and ", describe(b.get()));
    }
    const int a_batch = std::max(a.ndim() - 2, 0), b_batch = b.ndim() - 2, batch = std::max(a_batch, b_batch);
    const int64_t a_rows = row ? 1 : a.size(a.ndim() - 2), a_columns = a.size(a.ndim() - 1);
    const int64_t b_rows = b.size(b.ndim() - 2), b_columns = b.size(b.ndim() - 1);
    const int64_t m = self_transposed ? a_columns : a_rows, k = self_transposed ? a_rows : a_columns;
    const int64_t other_k = other_transposed ? b_columns : b_rows, n = other_transposed ? b_rows : b_columns;
    if (k != other_k) fail_inner_sizes(m, k, other_k, n);
    check_same_dtype("matmul", in);
    out->dtype = a.dtype();
    out->device = a->device;
    for (int d = 0; d < batch; ++d) {
      const int da = d - (batch - a_batch), db = d - (batch - b_batch);
      const int64_t sa = da >= 0 ? a.size(da) : 1, sb = db >= 0 ? b.size(db) : 1;
      if (sa != sb && sa != 1 && sb != 1) {
        fail("The size of tensor a (", sa, ") must match the size of tensor b (", sb, ") at non-singleton dimension ",
             d, ": the batch dimensions of ", shape_text(a.sizes()), " and ", shape_text(b.sizes()),
             " do not broadcast");
      }
      out->sizes[d] = sa == 1 ? sb : sa;
    }
    out->ndim = batch;
    if (!row) out->sizes[out->ndim++] = m;
    out->sizes[out->ndim++] = n;
  }
  void run(Inputs in, Tensor* out) const {
    run_product(in[0], self_transposed, in[1], other_transposed, out[0].get(), false);
  }
  static void vjp(Backward& b) {
    const auto [a_transposed, b_transposed] = b.op<Product>();
    const Tensor& g = b.grad();
    // One matrix for all rows: its gradient is a sum over the rows of the whole batch.
    const bool many_rows = !a_transposed && b.needs(1) && b.input_sizes(1).size() == 2;
    if (b.needs(0)) {
      if (a_transposed) set_product(b, 0, b.input(1), b_transposed, g, true);
      else set_product(b, 0, g, false, b.input(1), !b_transposed);
    }
    if (b.needs(1)) {
      const Tensor a = b.input(0);
      if (many_rows) b_transposed ? set_sum_of_outer(b, 1, g, a) : set_sum_of_outer(b, 1, a, g);
      else if (b_transposed) set_product(b, 1, g, true, a, a_transposed);
      else set_product(b, 1, a, !a_transposed, g, false);
    }
  }
};
WEFT_OP(Product);

void run_product(const Tensor& a, bool a_transposed, const Tensor& b, bool b_transposed, TensorImpl* c,
                 bool accumulate) {
  if (c->numel == 0) return;
  const bool row = a.ndim() == 1;
  const int matrix_dims = row ? 1 : 2, batch_dims = c->ndim - matrix_dims;
  const int64_t m = row ? 1 : c->dims[batch_dims], n = c->dims[c->ndim - 1];
  const int64_t k = b.size(b_transposed ? b.ndim() - 1 : b.ndim() - 2);
  const cpu::MatrixView left = row ? cpu::MatrixView{a->data, 0, a.stride(0)} : matrix(a, a_transposed);
  const cpu::MatrixView right = matrix(b, b_transposed);
  const Unlocked unlocked(is_long_product(c->numel, k, 1));
  if (batch_dims == 0) return cpu::gemm(c->dtype, m, n, k, left, right, c->data, n, accumulate);

  // Batch dimensions, innermost first, merged where both operands go on evenly.
  struct BatchDim { int64_t size, a_stride, b_stride; } dims[kMostDims];
  int count = 0;
  for (int d = batch_dims; d-- > 0;) {
    const int64_t size = c->dims[d];
    if (size == 1) continue;
    const int da = d - (batch_dims + matrix_dims - a.ndim()), db = d - (batch_dims + 2 - b.ndim());
    const int64_t a_stride = da >= 0 && a.size(da) != 1 && !row ? a.stride(da) : 0;
    const int64_t b_stride = db >= 0 && b.size(db) != 1 ? b.stride(db) : 0;
    if (count > 0) {
      BatchDim& inner = dims[count - 1];
      if (a_stride == inner.a_stride * inner.size && b_stride == inner.b_stride * inner.size) {
        inner.size *= size;
        continue;
      }
    }
    dims[count++] = {size, a_stride, b_stride};
  }
  if (count == 0) dims[count++] = {1, 0, 0};
  const int64_t item = item_size(c->dtype), step = dims[0].size * m * n;
  int64_t index[kMostDims] = {};
  cpu::MatrixView x = left, y = right;
  for (char *at = c->data, *end = at + c->numel * item; at < end; at += step * item) {
    cpu::gemm_batched(c->dtype, dims[0].size, m, n, k, x, dims[0].a_stride, y, dims[0].b_stride, at, m * n, n,
                      accumulate);
    for (int d = 1; d < count; ++d) {
      const bool wraps = ++index[d] == dims[d].size;
      const int64_t steps = wraps ? 1 - dims[d].size : 1;
      x.data = static_cast<const char*>(x.data) + steps * dims[d].a_stride * item;
      y.data = static_cast<const char*>(y.data) + steps * dims[d].b_stride * item;
      if (!wraps) break;
      index[d] = 0;
    }
  }
}

struct SumOfOuter {
  static constexpr Schema schema{"sum_of_outer(Tensor self, Tensor other) -> Tensor"};
  static constexpr Saves saves{{input(1), input(0)}};

  void infer(Inputs in, Meta* out) const {
    const Tensor &a = in[0], &b = in[1];
    if (a.ndim() == 0 || a.ndim() != b.ndim() ||
        !std::equal(a.sizes().begin(), a.sizes().end() - 1, b.sizes().begin())) {
      fail("sum_of_outer: all sizes but the last must agree, got ", describe(a.get()), " and ", describe(b.get()));
    }
    check_same_dtype("sum_of_outer", in);
    const int64_t sizes[] = {a.size(a.ndim() - 1), b.size(b.ndim() - 1)};
    set_result(a, sizes, out);
  }
  void run(Inputs in, Tensor* out) const { accumulate_into(in[0], in[1], out[0].get(), false); }
  static void accumulate_into(const Tensor& a, const Tensor& b, TensorImpl* c, bool accumulate) {
    const Rows x = rows_of(a), y = rows_of(b);
    const int64_t m = c->dims[0], n = c->dims[1];
    const Unlocked unlocked(is_long_product(m, n, x.count));
    const cpu::MatrixView columns{x.view.data, x.view.col_stride, x.view.row_stride};
    cpu::gemm(c->dtype, m, n, x.count, columns, y.view, c->data, n, accumulate);
  }
  static void vjp(Backward& b) {
    if (b.needs(0)) set_product(b, 0, b.input(1), false, b.grad(), true);
    if (b.needs(1)) set_product(b, 1, b.input(0), false, b.grad(), false);
  }
};
WEFT_OP(SumOfOuter);

Tensor product(const Tensor& a, bool a_transposed, const Tensor& b, bool b_transposed) {
  return call(op_Product, Product{a_transposed, b_transposed}, a, b);
}

Tensor sum_of_outer(const Tensor& a, const Tensor& b) { return call(op_SumOfOuter, SumOfOuter{}, a, b); }

namespace {

// The gradient waiting at input i, if what this operation computes can be added to it as it is.
template <class Op>
TensorImpl* matching_destination(const Backward& b, int i, const Op& op, const Tensor& x, const Tensor& y) {
  TensorImpl* waiting = b.destination(i);
  if (!waiting) return nullptr;
  TensorImpl* const items[] = {x.get(), y.get()};
  Meta meta;
  op.infer(Inputs(items, 2), &meta);
  if (waiting->dtype != meta.dtype || waiting->ndim != meta.ndim) return nullptr;
  if (!std::equal(meta.sizes, meta.sizes + meta.ndim, waiting->dims)) return nullptr;
  ensure_value(x.get());
  ensure_value(y.get());
  return waiting;
}

}  // namespace

void set_product(Backward& b, int i, const Tensor& x, bool x_transposed, const Tensor& y, bool y_transposed) {
  if (TensorImpl* waiting = matching_destination(b, i, Product{x_transposed, y_transposed}, x, y)) {
    run_product(x, x_transposed, y, y_transposed, waiting, true);
    return b.added(i);
  }
  b.set(i, product(x, x_transposed, y, y_transposed));
}

void set_sum_of_outer(Backward& b, int i, const Tensor& x, const Tensor& y) {
  if (TensorImpl* waiting = matching_destination(b, i, SumOfOuter{}, x, y)) {
    SumOfOuter::accumulate_into(x, y, waiting, true);
    return b.added(i);
  }
  b.set(i, sum_of_outer(x, y));
}

// ---- the products PyTorch names -----------------------------------------------------------------

struct Mm {
  static constexpr Schema schema{"mm(Tensor self, Tensor mat2) -> Tensor"};
  static constexpr uint32_t traits = kExactOut;
  static constexpr Saves saves{{input(1), input(0)}};

  void infer(Inputs in, Meta* out) const {
    check_matrix("self", in[0]);
    check_matrix("mat2", in[1]);
    if (in[0].size(1) != in[1].size(0)) fail_inner_sizes(in[0].size(0), in[0].size(1), in[1].size(0), in[1].size(1));
    check_same_dtype("mm", in);
    const int64_t sizes[] = {in[0].size(0), in[1].size(1)};
    set_result(in[0], sizes, out);
  }
  void run(Inputs in, Tensor* out) const { run_product(in[0], false, in[1], false, out[0].get(), false); }
  static void vjp(Backward& b) {
    if (b.needs(0)) set_product(b, 0, b.grad(), false, b.input(1), true);
    if (b.needs(1)) set_sum_of_outer(b, 1, b.input(0), b.grad());
  }
};
WEFT_OP(Mm);

struct Bmm {
  static constexpr Schema schema{"bmm(Tensor self, Tensor mat2) -> Tensor"};
  static constexpr uint32_t traits = kExactOut;
  static constexpr Saves saves{{input(1), input(0)}};

  void infer(Inputs in, Meta* out) const {
    const Tensor &a = in[0], &b = in[1];
    if (a.ndim() != 3)
      fail("batch1 must be a 3D tensor, got ", describe(a.get()), ": matmul takes any number of dimensions");
    if (b.ndim() != 3)
      fail("batch2 must be a 3D tensor, got ", describe(b.get()), ": matmul takes any number of dimensions");
    if (a.size(0) != b.size(0) || a.size(2) != b.size(1)) {
      fail("Expected size for first two dimensions of batch2 tensor to be: [", a.size(0), ", ", a.size(2),
           "] but got: [", b.size(0), ", ", b.size(1), "].");
    }
    if (a.dtype() != b.dtype()) {
      fail("expected scalar type ", dtype_name(a.dtype()), " but found ", dtype_name(b.dtype()),
           " (bmm does not promote; convert one operand with .to(dtype))");
    }
    check_real("bmm", a);
    const int64_t sizes[] = {a.size(0), a.size(1), b.size(2)};
    set_result(a, sizes, out);
  }
  void run(Inputs in, Tensor* out) const { run_product(in[0], false, in[1], false, out[0].get(), false); }
  static void vjp(Backward& b) {
    if (b.needs(0)) set_product(b, 0, b.grad(), false, b.input(1), true);
    if (b.needs(1)) set_product(b, 1, b.input(0), true, b.grad(), false);
  }
};
WEFT_OP(Bmm);

struct Mv {
  static constexpr Schema schema{"mv(Tensor self, Tensor vec) -> Tensor"};
  static constexpr uint32_t traits = kExactOut;
  static constexpr Saves saves{{input(1), input(0)}};

  void infer(Inputs in, Meta* out) const {
    const Tensor &a = in[0], &v = in[1];
    if (a.ndim() != 2 || v.ndim() != 1) {
      fail("vector + matrix @ vector expected, got ", v.ndim(), ", ", a.ndim(), ", ", v.ndim(),
           " dimensions: mv takes a 2-D and a 1-D tensor, matmul any others");
    }
    if (a.size(1) != v.size(0)) {
      fail("size mismatch, got input (", a.size(0), "), mat (", a.size(0), "x", a.size(1), "), vec (", v.size(0), ")");
    }
    check_same_dtype("mv", in);
    set_result(a, a.sizes().first(1), out);
  }
  // As a row, the vector is the left operand.
  void run(Inputs in, Tensor* out) const { run_product(in[1], false, in[0], true, out[0].get(), false); }
  static void vjp(Backward& b) {
    if (b.needs(0)) set_sum_of_outer(b, 0, b.grad(), b.input(1));
    if (b.needs(1)) set_product(b, 1, b.grad(), false, b.input(0), false);
  }
};
WEFT_OP(Mv);

struct Dot {
  static constexpr Schema schema{"dot(Tensor self, Tensor tensor) -> Tensor"};
  static constexpr uint32_t traits = kExactOut;
  static constexpr Saves saves{{input(1), input(0)}};

  void infer(Inputs in, Meta* out) const {
    if (in[0].ndim() != 1 || in[1].ndim() != 1) {
      fail("1D tensors expected, but got ", in[0].ndim(), "D and ", in[1].ndim(), "D tensors");
    }
    if (in[0].dtype() != in[1].dtype()) {
      fail("dot : expected both vectors to have same dtype, but found ", dtype_name(in[0].dtype()), " and ",
           dtype_name(in[1].dtype()), " (dot does not promote; convert one with .to(dtype))");
    }
    if (in[0].size(0) != in[1].size(0)) {
      fail("inconsistent tensor size, expected tensor [", in[0].size(0), "] and src [", in[1].size(0),
           "] to have the same number of elements, but got ", in[0].size(0), " and ", in[1].size(0),
           " elements respectively");
    }
    check_real("dot", in[0]);
    out->dtype = in[0].dtype();
    out->device = in[0]->device;
  }
  void run(Inputs in, Tensor* out) const {
    const int64_t k = in[0].size(0);
    const Unlocked unlocked(is_long_product(k, 1, 1));
    const cpu::MatrixView row{in[0]->data, 0, in[0].stride(0)}, column{in[1]->data, in[1].stride(0), 1};
    cpu::gemm(out[0].dtype(), 1, 1, k, row, column, out[0]->data, 1, false);
  }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, b.grad() * b.input(1));
    if (b.needs(1)) b.set(1, b.grad() * b.input(0));
  }
};
WEFT_OP(Dot);

// Real vectors are their own conjugates.
struct Vdot {
  static constexpr Schema schema{"vdot(Tensor self, Tensor other) -> Tensor"};
  static constexpr uint32_t traits = kExactOut;

  Tensor compose(Inputs in) const { return call(op_Dot, Dot{}, in[0], in[1]); }
};
WEFT_OP(Vdot);

struct Matmul {
  static constexpr Schema schema{"matmul(Tensor self, Tensor other) -> Tensor"};
  static constexpr uint32_t traits = kExactOut;

  Tensor compose(Inputs in) const { return matmul(in[0], in[1]); }
};
WEFT_OP(Matmul);

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (a.ndim() == 2 && b.ndim() == 2) return call(op_Mm, Mm{}, a, b);
  if (a.ndim() == 0 || b.ndim() == 0) {
    fail("both arguments to matmul need to be at least 1D, but they are ", a.ndim(), "D and ", b.ndim(), "D");
  }
  if (a.ndim() == 1 && b.ndim() == 1) return call(op_Dot, Dot{}, a, b);
  if (a.ndim() == 2 && b.ndim() == 1) return call(op_Mv, Mv{}, a, b);
  if (a.ndim() == 1 && b.ndim() > 2) return squeeze(matmul(unsqueeze(a, 0), b), -2);
  if (b.ndim() == 1) return squeeze(matmul(a, unsqueeze(b, 1)), -1);
  if (a.ndim() == 3 && b.ndim() == 3 && a.size(0) == b.size(0)) return call(op_Bmm, Bmm{}, a, b);
  return product(a, false, b, false);
}

}  // namespace weft
