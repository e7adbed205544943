// Singular value decompositions.
#include "core/kernels/cpu/svd.h"

#include <algorithm>

#include "core/graph/context.h"
#include "core/ops/indexing.h"
#include "core/ops/products.h"

namespace weft {

namespace {

constexpr int64_t kUnlockAt = 256;

void check_matrices(const char* name, const Tensor& a) {
  if (a.ndim() < 2) fail(name, ": The input tensor A must have at least 2 dimensions.");
  if (is_complex(a.dtype())) {
    fail(ErrorKind::NotImplemented, name, ": complex matrices are not supported yet, got ", dtype_name(a.dtype()));
  }
  if (!is_floating(a.dtype())) {
    fail(name, ": Expected a floating point or complex tensor as input. Got ", scalar_type_name(a.dtype()));
  }
  if (a.dtype() != DType::Float32 && a.dtype() != DType::Float64) {
    fail(ErrorKind::NotImplemented, "\"linalg_svd_cpu\" not implemented for '", scalar_type_name(a.dtype()),
         "': convert with .float()");
  }
}

// u and vh may be null.
void decompose(const Tensor& matrices, bool full, char* u, char* s, char* vh) {
  const Tensor a = matrices->is_contiguous() ? matrices : detached_copy(matrices);
  const int last = a.ndim() - 1;
  int64_t batch = 1;
  for (int d = 0; d + 1 < last; ++d) batch *= a.size(d);
  cpu::SvdStatus status;
  {
    Unlocked unlocked(a.numel() >= kUnlockAt);
    status = cpu::svd(a.dtype(), batch, a.size(last - 1), a.size(last), a->data, full, u, s, vh);
  }
  if (status.failure == cpu::SvdFailure::None) return;
  const std::string which = last > 1 ? "(Batch element " + std::to_string(status.matrix) + "): " : "";
  fail("linalg.svd: ", which, "The algorithm failed to converge because the input matrix ",
       status.failure == cpu::SvdFailure::NotFinite ? "contained non-finite values."
                                                    : "is ill-conditioned or has too many repeated singular values.");
}

// The parts of the decomposition without their history, in memory of their own.
struct Parts {
  Tensor u, s, vh;

  explicit Parts(const Tensor& a) {
    Dims sizes(a.sizes());
    const int last = sizes.size() - 1;
    const int64_t rows = sizes[last - 1], columns = sizes[last], k = std::min(rows, columns);
    sizes[last] = k;
    u = empty(sizes, a.dtype());
    sizes[last - 1] = k;
    s = empty(IntSpan(sizes).first(static_cast<size_t>(last)), a.dtype());
    sizes[last] = columns;
    vh = empty(sizes, a.dtype());
    decompose(a, false, u->data, s->data, vh->data);
  }

  void polar_factor_into(const Tensor& out) const {
    if (out.numel() > 0) run_product(u, false, vh, false, out.get(), false);
  }

  void sums_into(const Tensor& out) const {
    if (s.dtype() == DType::Float32) add_up<float>(out);
    else add_up<double>(out);
  }

 private:
  template <class T> void add_up(const Tensor& out) const {
    const int64_t k = s.size(s.ndim() - 1);
    for (int64_t i = 0; i < out.numel(); ++i) {
      double sum = 0;
      for (int64_t j = 0; j < k; ++j) sum += static_cast<double>(s.data<T>()[i * k + j]);
      out.data<T>()[i] = static_cast<T>(sum);
    }
  }
};

// What the derivatives are made of: matrices of a batch.

Tensor transposed(const Tensor& t) { return transpose(t, -2, -1); }
Tensor times_columns(const Tensor& t, const Tensor& s) { return t * unsqueeze(s, -2); }
Tensor times_rows(const Tensor& s, const Tensor& t) { return unsqueeze(s, -1) * t; }
Tensor skew(const Tensor& t) { return t - transposed(t); }

Tensor identity(int64_t n, const Tensor& like) {
  const int64_t sizes[] = {n, n};
  const Tensor one = empty(sizes, DType::Float64);
  double* const values = one.data<double>();
  std::fill_n(values, n * n, 0.0);
  for (int64_t i = 0; i < n; ++i) values[i * n + i] = 1;
  return to_dtype(one, like.dtype());
}

Tensor plus(const Tensor& total, const Tensor& more) { return total ? total + more : more; }

// The first k columns (rows) of what a full decomposition has more of; a missing gradient stays missing.
Tensor first(const Tensor& t, int64_t dim, int64_t k) {
  return !t || t.size(t.ndim() + static_cast<int>(dim)) == k ? t : narrow(t, dim, 0, k);
}

}  // namespace

// With U and V of unit length and orthogonal, dU = U A and dV = V B for antisymmetric A and B (beside
// what leaves their spaces), and dA = U^T dA V names both at once: its diagonal is dS, and each pair of
// elements off the diagonal gives A_ij and B_ij, over the difference of two squared singular values.
struct LinalgSvd {
  static constexpr Schema schema{
      "_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor Vh)"};
  static constexpr Saves saves{{output(0) | output(1) | output(2)}};
  static constexpr const char* backward_name = "LinalgSvdBackward0";
  bool full_matrices, compute_uv;

  void infer(Inputs in, Meta* out) const {
    const Tensor& a = in[0];
    check_matrices("linalg.svd", a);
    const int last = a.ndim() - 1;
    const int64_t m = a.size(last - 1), n = a.size(last), k = std::min(m, n);
    for (int i = 0; i < 3; ++i) out[i].like(a);
    out[0].sizes[last] = full_matrices ? m : k;
    out[1].ndim = last;
    out[1].sizes[last - 1] = k;
    out[2].sizes[last - 1] = full_matrices ? n : k;
    if (compute_uv) return;
    for (int i : {0, 2}) {
      out[i].ndim = 1;
      out[i].sizes[0] = 0;
    }
  }

  void run(Inputs in, Tensor* out) const {
    decompose(in[0], full_matrices, compute_uv ? out[0]->data : nullptr, out[1]->data,
              compute_uv ? out[2]->data : nullptr);
  }

  static void vjp(Backward& b) {
    const LinalgSvd& op = b.op<LinalgSvd>();
    if (!op.compute_uv) fail("linalg.svd: only with compute_uv=True can the derivative be computed");
    const Tensor s = b.output(1);
    const int64_t k = s.size(s.ndim() - 1);
    const Tensor u = first(b.output(0), -1, k), vh = first(b.output(2), -2, k);
    const Tensor gu = first(b.grad(0), -1, k), gs = b.grad(1), gvh = first(b.grad(2), -2, k);
    const int64_t m = u.size(u.ndim() - 2), n = vh.size(vh.ndim() - 1);
    if (!gu && !gvh) { return b.set(0, m >= n ? matmul(u, times_rows(gs, vh)) : matmul(times_columns(u, gs), vh)); }
    const Tensor squares = s * s, eye = identity(k, s);
    const Tensor gaps = unsqueeze(squares, -2) - unsqueeze(squares, -1) + eye;
    Tensor inner;
    if (gs) inner = times_rows(gs, eye);
    if (gu) inner = plus(inner, times_columns(skew(matmul(transposed(u), gu)) / gaps, s));
    if (gvh) inner = plus(inner, times_rows(s, skew(matmul(vh, transposed(gvh))) / gaps));
    if (gu && m > k) {
      const Tensor outside = gu / unsqueeze(s, -2);
      return b.set(0, matmul(matmul(u, inner) + outside - matmul(u, matmul(transposed(u), outside)), vh));
    }
    Tensor right = matmul(inner, vh);
    if (gvh && n > k) {
      const Tensor outside = gvh / unsqueeze(s, -1);
      right = right + outside - matmul(matmul(outside, transposed(vh)), vh);
    }
    b.set(0, matmul(u, right));
  }
};
WEFT_OP(LinalgSvd);

// U V^T, the orthogonal part of A: where the sum of its singular values grows fastest. Singular
// values may be equal here: only sums of them divide.
struct PolarFactor {
  static constexpr Schema schema{"_polar_factor(Tensor A) -> Tensor"};
  static constexpr Saves saves{{input(0)}};

  void infer(Inputs in, Meta* out) const {
    check_matrices("linalg.svd", in[0]);
    out->like(in[0]);
  }
  void run(Inputs in, Tensor* out) const { Parts(in[0]).polar_factor_into(out[0]); }
  static void vjp(Backward& b) {
    // Decomposed once more, so that this can be differentiated in turn.
    const Tensor a = b.input(0);
    const LinalgSvd reduced{false, true};
    TensorImpl* const in[] = {a.get()};
    Tensor parts[3];
    apply(op_LinalgSvd, &reduced, Inputs(in, 1), parts);
    const Tensor &u = parts[0], &s = parts[1], &vh = parts[2], &g = b.grad();
    const int64_t k = s.size(s.ndim() - 1), m = g.size(g.ndim() - 2), n = g.size(g.ndim() - 1);
    const Tensor v = transposed(vh), ut = transposed(u);
    const Tensor inner = skew(matmul(matmul(ut, g), v)) / (unsqueeze(s, -2) + unsqueeze(s, -1));
    Tensor total = matmul(matmul(u, inner), vh);
    if (m > k) {
      const Tensor outside = times_columns(matmul(g, v), 1.0 / s);
      total = total + matmul(outside - matmul(u, matmul(ut, outside)), vh);
    }
    if (n > k) {
      const Tensor outside = times_rows(1.0 / s, matmul(ut, g));
      total = total + matmul(u, outside - matmul(matmul(outside, v), vh));
    }
    b.set(0, total);
  }
};
WEFT_OP(PolarFactor);

// The sum of the singular values.
struct NuclearNorm {
  static constexpr Schema schema{"_nuclear_norm(Tensor A) -> (Tensor, Tensor)"};
  static constexpr uint32_t traits = kFirstOutputOnly;
  static constexpr Saves saves{{input(0) | output(1)}};

  void infer(Inputs in, Meta* out) const {
    check_matrices("linalg.matrix_norm", in[0]);
    out[0].like(in[0]);
    out[0].ndim -= 2;
    out[1].like(in[0]);  // the polar factor
  }
  void run(Inputs in, Tensor* out) const {
    const Parts parts(in[0]);
    parts.sums_into(out[0]);
    parts.polar_factor_into(out[1]);
  }
  static void vjp(Backward& b) {
    const Tensor polar = context().grad_enabled ? call(op_PolarFactor, PolarFactor{}, b.input(0)) : b.output(1);
    b.set(0, unsqueeze(unsqueeze(b.grad(), -1), -1) * polar);
  }
};
WEFT_OP(NuclearNorm);

}  // namespace weft
