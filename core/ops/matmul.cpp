// Matrix products.
#include <algorithm>

#include "core/kernels/cpu/gemm.h"
#include "core/ops/functions.h"

namespace weft {

namespace {

cpu::MatrixView matrix(const Tensor& t, bool transposed = false) {
  const int n = t.ndim();
  const int64_t row = t.stride(n - 2), col = t.stride(n - 1);
  return transposed ? cpu::MatrixView{t->data, col, row} : cpu::MatrixView{t->data, row, col};
}

void check_same_dtype(const char* name, Inputs in) {
  if (in[0].dtype() != in[1].dtype()) {
    fail("expected m1 and m2 to have the same dtype, but got: ", dtype_name(in[0].dtype()), " != ", dtype_name(in[1].dtype()),
         " (", name, " does not promote; convert one operand with .to(dtype))");
  }
  if (is_complex(in[0].dtype())) fail(ErrorKind::NotImplemented, name, ": complex products are not available in weft yet");
}

void check_rank(const char* name, const char* which, const Tensor& t, int rank) {
  if (t.ndim() != rank) fail(name, ": ", which, " must be a ", rank, "D tensor, got ", describe(t.get()));
}

// gradient of a product, added in place to one that is already waiting when there is one of our own.
void set_product(Backward& b, int i, const Tensor& x, bool x_transposed, const Tensor& y, bool y_transposed) {
  if (TensorImpl* waiting = b.destination(i)) {
    const int64_t m = x_transposed ? x.size(1) : x.size(0), k = x_transposed ? x.size(0) : x.size(1);
    const int64_t n = y_transposed ? y.size(0) : y.size(1);
    if (waiting->dtype == x.dtype() && waiting->ndim == 2 && waiting->dims[0] == m && waiting->dims[1] == n) {
      cpu::gemm(x.dtype(), m, n, k, matrix(x, x_transposed), matrix(y, y_transposed), waiting->data, n, true);
      return b.added(i);
    }
  }
  b.set(i, matmul(x_transposed ? transpose(x, 0, 1) : x, y_transposed ? transpose(y, 0, 1) : y));
}

}  // namespace

struct Mm {
  static constexpr Schema schema{"mm(Tensor self, Tensor mat2) -> Tensor"};
  static constexpr Saves saves{{input(1), input(0)}};

  void infer(Inputs in, Meta* out) const {
    check_rank("mm", "self", in[0], 2);
    check_rank("mm", "mat2", in[1], 2);
    if (in[0].size(1) != in[1].size(0)) {
      fail("mat1 and mat2 shapes cannot be multiplied (", in[0].size(0), "x", in[0].size(1), " and ", in[1].size(0), "x",
           in[1].size(1), ")");
    }
    check_same_dtype("mm", in);
    out->dtype = in[0].dtype();
    out->device = in[0]->device;
    out->ndim = 2;
    out->sizes[0] = in[0].size(0);
    out->sizes[1] = in[1].size(1);
  }
  void run(Inputs in, Tensor* out) const {
    const int64_t m = out[0].size(0), n = out[0].size(1), k = in[0].size(1);
    Unlocked unlocked(m * n * k >= 128 * 128 * 128);
    cpu::gemm(out[0].dtype(), m, n, k, matrix(in[0]), matrix(in[1]), out[0]->data, n, false);
  }
  static void vjp(Backward& b) {
    if (b.needs(0)) set_product(b, 0, b.grad(), false, b.input(1), true);
    if (b.needs(1)) set_product(b, 1, b.input(0), true, b.grad(), false);
  }
};
WEFT_OP(Mm);

struct Bmm {
  static constexpr Schema schema{"bmm(Tensor self, Tensor mat2) -> Tensor"};
  static constexpr Saves saves{{input(1), input(0)}};

  void infer(Inputs in, Meta* out) const {
    if (in[0].ndim() != 3 || in[1].ndim() != 3) {
      fail("batch1 must be a 3D tensor: bmm takes two 3D tensors, got ", describe(in[0].get()), " and ", describe(in[1].get()));
    }
    if (in[0].size(0) != in[1].size(0) || in[0].size(2) != in[1].size(1)) {
      fail("Expected size for first two dimensions of batch2 tensor to be: [", in[0].size(0), ", ", in[0].size(2),
           "] but got: [", in[1].size(0), ", ", in[1].size(1), "].");
    }
    check_same_dtype("bmm", in);
    out->dtype = in[0].dtype();
    out->device = in[0]->device;
    out->ndim = 3;
    out->sizes[0] = in[0].size(0);
    out->sizes[1] = in[0].size(1);
    out->sizes[2] = in[1].size(2);
  }
  void run(Inputs in, Tensor* out) const {
    const int64_t m = out[0].size(1), n = out[0].size(2), k = in[0].size(2);
    Unlocked unlocked(m * n * k * out[0].size(0) >= 128 * 128 * 128);
    cpu::gemm_batched(out[0].dtype(), out[0].size(0), m, n, k, matrix(in[0]), in[0].stride(0), matrix(in[1]), in[1].stride(0),
                      out[0]->data, m * n, n, false);
  }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, matmul(b.grad(), transpose(b.input(1), 1, 2)));
    if (b.needs(1)) b.set(1, matmul(transpose(b.input(0), 1, 2), b.grad()));
  }
};
WEFT_OP(Bmm);

struct Mv {
  static constexpr Schema schema{"mv(Tensor self, Tensor vec) -> Tensor"};
  static constexpr Saves saves{{input(1), input(0)}};

  void infer(Inputs in, Meta* out) const {
    if (in[0].ndim() != 2 || in[1].ndim() != 1) {
      fail("vector + matrix @ vector expected, got ", in[1].ndim(), ", ", in[0].ndim(), ", ", in[1].ndim());
    }
    if (in[0].size(1) != in[1].size(0)) {
      fail("size mismatch, got input (", in[0].size(0), "), mat (", in[0].size(0), "x", in[0].size(1), "), vec (",
           in[1].size(0), ")");
    }
    check_same_dtype("mv", in);
    out->dtype = in[0].dtype();
    out->device = in[0]->device;
    out->ndim = 1;
    out->sizes[0] = in[0].size(0);
  }
  void run(Inputs in, Tensor* out) const {
    const cpu::MatrixView column{in[1]->data, in[1].stride(0), 1};
    cpu::gemm(out[0].dtype(), out[0].size(0), 1, in[1].size(0), matrix(in[0]), column, out[0]->data, 1, false);
  }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, mul(unsqueeze(b.grad(), 1), unsqueeze(b.input(1), 0)));
    if (b.needs(1)) b.set(1, matmul(transpose(b.input(0), 0, 1), b.grad()));
  }
};
WEFT_OP(Mv);

struct Dot {
  static constexpr Schema schema{"dot(Tensor self, Tensor tensor) -> Tensor"};
  static constexpr Saves saves{{input(1), input(0)}};

  void infer(Inputs in, Meta* out) const {
    if (in[0].ndim() != 1 || in[1].ndim() != 1) {
      fail("1D tensors expected, but got ", in[0].ndim(), "D and ", in[1].ndim(), "D tensors");
    }
    check_same_dtype("dot", in);
    if (in[0].size(0) != in[1].size(0)) {
      fail("inconsistent tensor size, expected tensor [", in[0].size(0), "] and src [", in[1].size(0),
           "] to have the same number of elements, but got ", in[0].size(0), " and ", in[1].size(0), " elements respectively");
    }
    out->dtype = in[0].dtype();
    out->device = in[0]->device;
  }
  void run(Inputs in, Tensor* out) const {
    const cpu::MatrixView row{in[0]->data, 1, in[0].stride(0)}, column{in[1]->data, in[1].stride(0), 1};
    cpu::gemm(out[0].dtype(), 1, 1, in[0].size(0), row, column, out[0]->data, 1, false);
  }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, b.grad() * b.input(1));
    if (b.needs(1)) b.set(1, b.grad() * b.input(0));
  }
};
WEFT_OP(Dot);

struct Matmul {
  static constexpr Schema schema{"matmul(Tensor self, Tensor other) -> Tensor"};

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
  if (a.ndim() == 1) {
    if (b.ndim() == 2) return call(op_Mv, Mv{}, transpose(b, 0, 1), a);
    return squeeze(matmul(unsqueeze(a, 0), b), -2);
  }
  if (b.ndim() == 1) return squeeze(matmul(a, unsqueeze(b, 1)), -1);

  const int64_t m = a.size(a.ndim() - 2), k = a.size(a.ndim() - 1), n = b.size(b.ndim() - 1);
  if (b.size(b.ndim() - 2) != k) {
    fail("mat1 and mat2 shapes cannot be multiplied (", shape_text(a.sizes()), " and ", shape_text(b.sizes()), ")");
  }
  if (b.ndim() == 2) {  // rows of the whole batch against one matrix: a single product
    Dims shape(a.sizes());
    shape[shape.size() - 1] = n;
    int64_t rows = 1;
    for (int d = 0; d + 1 < a.ndim(); ++d) rows *= a.size(d);
    return view(call(op_Mm, Mm{}, reshape(a, Dims{rows, k}), b), shape);
  }
  const int batch_dims = std::max(a.ndim(), b.ndim()) - 2;
  Dims a_shape, b_shape, out_shape;
  a_shape.resize(batch_dims + 2);
  b_shape.resize(batch_dims + 2);
  out_shape.resize(batch_dims + 2);
  int64_t batch = 1;
  for (int d = 0; d < batch_dims; ++d) {
    const int da = d - (batch_dims + 2 - a.ndim()), db = d - (batch_dims + 2 - b.ndim());
    const int64_t sa = da >= 0 ? a.size(da) : 1, sb = db >= 0 ? b.size(db) : 1;
    if (sa != sb && sa != 1 && sb != 1) {
      fail("The size of tensor a (", sa, ") must match the size of tensor b (", sb, ") at non-singleton dimension ", d,
           ": the batch dimensions of ", shape_text(a.sizes()), " @ ", shape_text(b.sizes()), " do not broadcast");
    }
    const int64_t s = sa == 1 ? sb : sa;
    a_shape[d] = b_shape[d] = out_shape[d] = s;
    batch *= s;
  }
  a_shape[batch_dims] = out_shape[batch_dims] = m;
  a_shape[batch_dims + 1] = b_shape[batch_dims] = k;
  b_shape[batch_dims + 1] = out_shape[batch_dims + 1] = n;
  const Tensor flat_a = reshape(expand(a, a_shape), Dims{batch, m, k});
  const Tensor flat_b = reshape(expand(b, b_shape), Dims{batch, k, n});
  return view(call(op_Bmm, Bmm{}, flat_a, flat_b), out_shape);
}

}  // namespace weft
