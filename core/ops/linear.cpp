// A product added to something: addmm and its kin, and the linear layer.
#include <cstring>

#include "core/ops/products.h"

namespace weft {

extern const OpTable op_Mul;

namespace {

// A factor as the dtype computes with it: integers take the integer part.
Scalar as_factor(Scalar s, DType dtype) {
  if (is_floating(dtype) || !s.is_floating()) return s;
  constexpr double kInt64End = 9223372036854775808.0;
  if (!(s.floating >= -kInt64End && s.floating < kInt64End)) {
    fail("value cannot be converted to type int64_t without overflow: ", s.floating, " scales a tensor of ",
         dtype_name(dtype));
  }
  return Scalar(s.to_int());
}

bool is_number(Scalar s, int64_t value) { return s.to_double() == static_cast<double>(value); }

Tensor scaled(const Tensor& t, Scalar factor) { return is_number(factor, 1) ? t : mul(t, wrapped_number(factor)); }

void scale_values(const Tensor& t, Scalar factor) {
  const Tensor number = wrapped_number(factor);
  TensorImpl* const in[] = {t.get(), number.get()};
  Tensor out[] = {t};
  run_operation(op_Mul, nullptr, Inputs(in, 2), out);
}

void check_expands(const Tensor& t, IntSpan sizes) {
  const int shift = static_cast<int>(sizes.size()) - t.ndim();
  if (shift < 0) {
    fail("expand(", describe(t.get()), ", size=", shape_text(sizes), "): the number of sizes provided (", sizes.size(),
         ") must be greater or equal to the number of dimensions in the tensor (", t.ndim(), ")");
  }
  for (int d = 0; d < t.ndim(); ++d) {
    if (t.size(d) == 1 || t.size(d) == sizes[d + shift]) continue;
    fail("The expanded size of the tensor (", sizes[d + shift], ") must match the existing size (", t.size(d),
         ") at non-singleton dimension ", d + shift, ".  Target sizes: ", shape_text(sizes),
         ".  Tensor sizes: ", shape_text(t.sizes()));
  }
}

Tensor widened(const Tensor& t) {
  const Tensor wide = empty(t.sizes(), DType::Float32, t->device);
  copy_into(wide, t);
  return wide;
}

// result = beta * result + alpha * (a @ b). With beta = 0 the old values do not matter, nor NaN.
void run_scaled_product(Scalar beta, Scalar alpha, const Tensor& a, const Tensor& b, const Tensor& result) {
  const bool apart = result->is_contiguous() && result->storage != a->storage && result->storage != b->storage;
  const bool keeps = !is_number(beta, 0);
  const bool plain = is_number(alpha, 1) && (!keeps || is_number(beta, 1));
  if (!plain && (result.dtype() == DType::Float16 || result.dtype() == DType::BFloat16)) {
    // Scaled and added in float32, rounded once.
    const Tensor wide = widened(result);
    run_scaled_product(beta, alpha, widened(a), widened(b), wide);
    return copy_into(result, wide);
  }
  if (apart && is_number(alpha, 1)) {
    if (keeps && !is_number(beta, 1)) scale_values(result, beta);
    return run_product(a, false, b, false, result.get(), keeps);
  }
  const Tensor fresh = empty(result.sizes(), result.dtype(), result->device);
  run_product(a, false, b, false, fresh.get(), false);
  if (!is_number(alpha, 1)) scale_values(fresh, alpha);
  if (!keeps) return copy_into(result, fresh);
  if (!is_number(beta, 1)) scale_values(result, beta);
  TensorImpl* const in[] = {result.get(), fresh.get()};
  Tensor out[] = {result};
  run_operation(op_Add, nullptr, Inputs(in, 2), out);
}

void check_batches(const char* operation, Inputs in, Scalar beta, Scalar alpha) {
  for (int i = 1; i < 3; ++i) {
    if (in[i].ndim() != 3) fail("batch", i, " must be a 3D tensor, got ", describe(in[i].get()));
  }
  const DType dtype = in[1].dtype();
  if (in[0].dtype() != dtype || in[2].dtype() != dtype) {
    fail("Input dtypes must be the same, got: input ", dtype_name(in[0].dtype()), ", batch1: ", dtype_name(dtype),
         ", batch2: ", dtype_name(in[2].dtype()), " (", operation, " does not promote; convert with .to(dtype))");
  }
  check_real(operation, in[1]);
  as_factor(beta, dtype);
  as_factor(alpha, dtype);
}

}  // namespace

struct Addmm {
  static constexpr Schema schema{
      "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kExactOut;
  static constexpr Saves saves{{0, input(2), input(1)}};
  Scalar beta, alpha;

  void infer(Inputs in, Meta* out) const {
    const Tensor &self = in[0], &a = in[1], &b = in[2];
    if (a.ndim() != 2) fail("mat1 must be a matrix, got ", a.ndim(), "-D tensor");
    if (b.ndim() != 2) fail("mat2 must be a matrix, got ", b.ndim(), "-D tensor");
    if (a.size(1) != b.size(0)) {
      fail("mat1 and mat2 shapes cannot be multiplied (", a.size(0), "x", a.size(1), " and ", b.size(0), "x", b.size(1),
           ")");
    }
    if (self.dtype() != b.dtype() || a.dtype() != b.dtype()) {
      const bool first = self.dtype() != b.dtype();
      fail(first ? "self" : "mat1", " and mat2 must have the same dtype, but got ",
           dtype_name(first ? self.dtype() : a.dtype()), " and ", dtype_name(b.dtype()),
           " (addmm does not promote; convert with .to(dtype))");
    }
    check_real("addmm", a);
    as_factor(beta, a.dtype());
    as_factor(alpha, a.dtype());
    const int64_t sizes[] = {a.size(0), b.size(1)};
    check_expands(self, sizes);
    out->set(a.dtype(), a->device, sizes);
  }
  void run(Inputs in, Tensor* out) const {
    run_scaled_product(as_factor(beta, in[1].dtype()), as_factor(alpha, in[1].dtype()), in[1], in[2], out[0]);
  }
  static void vjp(Backward& b) {
    const Addmm& op = b.op<Addmm>();
    if (b.needs(0)) b.set(0, scaled(b.grad(), op.beta));
    if (!b.needs(1) && !b.needs(2)) return;
    const Tensor g = scaled(b.grad(), op.alpha);
    if (b.needs(1)) set_product(b, 1, g, false, b.input(2), true);
    if (b.needs(2)) set_sum_of_outer(b, 2, b.input(1), g);
  }
};
WEFT_OP(Addmm);

struct Addmv {
  static constexpr Schema schema{
      "addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor"};
  static constexpr uint32_t traits = kExactOut;
  Scalar beta, alpha;

  Tensor compose(Inputs in) const {
    const Tensor &self = in[0], &mat = in[1], &vec = in[2];
    if (mat.ndim() != 2 || vec.ndim() != 1 || self.ndim() > 1) {
      fail("vector + matrix @ vector expected, got ", self.ndim(), ", ", mat.ndim(), ", ", vec.ndim(), " dimensions");
    }
    if (mat.size(1) != vec.size(0) || (self.numel() != 1 && self.numel() != mat.size(0))) {
      fail("size mismatch, got input (", self.numel(), "), mat (", mat.size(0), "x", mat.size(1), "), vec (",
           vec.size(0), ")");
    }
    if (self.dtype() != mat.dtype() || mat.dtype() != vec.dtype()) {
      fail("addmv input tensors must have the same dtype, but got ", dtype_name(self.dtype()), ", ",
           dtype_name(mat.dtype()), ", and ", dtype_name(vec.dtype()),
           " (addmv does not promote; convert with .to(dtype))");
    }
    return squeeze(call(op_Addmm, Addmm{beta, alpha}, unsqueeze(self, -1), mat, unsqueeze(vec, 1)), 1);
  }
};
WEFT_OP(Addmv);

struct Baddbmm {
  static constexpr Schema schema{
      "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> "
      "Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kExactOut;
  static constexpr Saves saves{{0, input(2), input(1)}};
  Scalar beta, alpha;

  void infer(Inputs in, Meta* out) const {
    const Tensor &a = in[1], &b = in[2];
    check_batches("baddbmm", in, beta, alpha);
    if (a.size(0) != b.size(0) || a.size(2) != b.size(1)) {
      fail("Expected size for first two dimensions of batch2 tensor to be: [", a.size(0), ", ", a.size(2),
           "] but got: [", b.size(0), ", ", b.size(1), "].");
    }
    const int64_t sizes[] = {a.size(0), a.size(1), b.size(2)};
    check_expands(in[0], sizes);
    out->set(a.dtype(), a->device, sizes);
  }
  void run(Inputs in, Tensor* out) const {
    run_scaled_product(as_factor(beta, in[1].dtype()), as_factor(alpha, in[1].dtype()), in[1], in[2], out[0]);
  }
  static void vjp(Backward& b) {
    const Baddbmm& op = b.op<Baddbmm>();
    if (b.needs(0)) b.set(0, scaled(b.grad(), op.beta));
    if (!b.needs(1) && !b.needs(2)) return;
    const Tensor g = scaled(b.grad(), op.alpha);
    if (b.needs(1)) set_product(b, 1, g, false, b.input(2), true);
    if (b.needs(2)) set_product(b, 2, b.input(1), true, g, false);
  }
};
WEFT_OP(Baddbmm);

struct Addbmm {
  static constexpr Schema schema{
      "addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> "
      "Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kExactOut;
  static constexpr Saves saves{{0, input(2), input(1)}};
  Scalar beta, alpha;

  void infer(Inputs in, Meta* out) const {
    const Tensor &a = in[1], &b = in[2];
    check_batches("addbmm", in, beta, alpha);
    if (a.size(0) != b.size(0)) {
      fail("batch1 and batch2 must have same number of batches, got ", a.size(0), " and ", b.size(0));
    }
    if (a.size(2) != b.size(1)) {
      fail("Incompatible matrix sizes for bmm (", a.size(1), "x", a.size(2), " and ", b.size(1), "x", b.size(2), ")");
    }
    const int64_t sizes[] = {a.size(1), b.size(2)};
    check_expands(in[0], sizes);
    out->set(a.dtype(), a->device, sizes);
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor &a = in[1], &b = in[2];
    Scalar keep = as_factor(beta, a.dtype());
    for (int64_t i = 0; i < a.size(0); ++i) {
      run_scaled_product(keep, as_factor(alpha, a.dtype()), matrix_of_batch(a, i), matrix_of_batch(b, i), out[0]);
      keep = Scalar(1);
    }
    if (a.size(0) == 0) is_number(keep, 0) ? copy_into(out[0], zeros({}, a.dtype())) : scale_values(out[0], keep);
  }
  static void vjp(Backward& b) {
    const Addbmm& op = b.op<Addbmm>();
    if (b.needs(0)) b.set(0, scaled(b.grad(), op.beta));
    if (!b.needs(1) && !b.needs(2)) return;
    const Tensor g = scaled(b.grad(), op.alpha);
    if (b.needs(1)) set_product(b, 1, g, false, b.input(2), true);
    if (b.needs(2)) set_product(b, 2, b.input(1), true, g, false);
  }

 private:
  static Tensor matrix_of_batch(const Tensor& t, int64_t i) {
    return alias(t, t.sizes().subspan(1), t.strides().subspan(1), i * t.stride(0));
  }
};
WEFT_OP(Addbmm);

namespace {

const void* one_of(DType dtype) {
  static constexpr float single = 1;
  static constexpr double wide = 1;
  static constexpr uint16_t half = 0x3c00, brain = 0x3f80;
  switch (dtype) {
    case DType::Float32: return &single;
    case DType::Float64: return &wide;
    case DType::Float16: return &half;
    default: return &brain;
  }
}

// The gradient of a bias, which was added to every row; see Note [Gradients of a weight that is
// used many times]. Shapes are reduced on delivery, so the first is handed over as it is.
void set_sum_of_rows(Backward& b, int i, const Tensor& g) {
  const int64_t n = g.ndim() > 0 ? g.size(g.ndim() - 1) : 0;
  TensorImpl* waiting = n > 0 ? b.destination(i) : nullptr;
  if (!waiting || waiting->ndim != 1 || waiting->numel != n || waiting->dtype != g.dtype()) return b.set(i, g);
  ensure_value(g.get());
  const Rows rows = rows_of(g);
  const Unlocked unlocked(is_long_product(1, n, rows.count));
  // A row of ones times the rows.
  cpu::gemm(g.dtype(), 1, n, rows.count, {one_of(g.dtype()), 0, 0}, rows.view, waiting->data, n, true);
  b.added(i);
}

}  // namespace

// One node for the whole layer. A 1-D weight has one output, whose dimension is dropped.
struct Linear {
  static constexpr Schema schema{"linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"};
  static constexpr uint32_t traits = kExactOut;
  static constexpr Saves saves{{input(1), input(0), 0}};

  void infer(Inputs in, Meta* out) const {
    const Tensor &x = in[0], &weight = in[1], &bias = in[2];
    if (x.ndim() == 0 || weight.ndim() == 0) {
      fail("both arguments to linear need to be at least 1D, but they are ", x.ndim(), "D and ", weight.ndim(), "D");
    }
    if (weight.ndim() > 2) {
      fail("t() expects a tensor with <= 2 dimensions, but self is ", weight.ndim(),
           "D: the weight of linear has the shape (out_features, in_features)");
    }
    const int64_t columns = x.size(x.ndim() - 1), expected = weight.size(weight.ndim() - 1);
    if (columns != expected) fail_features(x, weight);
    if (weight.dtype() != x.dtype()) {
      fail("expected m1 and m2 to have the same dtype, but got: ", dtype_name(x.dtype()),
           " != ", dtype_name(weight.dtype()), " (linear does not promote; convert the input with .to(weight.dtype))");
    }
    check_real("linear", x);
    out->set(x.dtype(), x->device, x.sizes().first(x.ndim() - 1));
    if (weight.ndim() == 2) out->sizes[out->ndim++] = weight.size(0);
    if (!bias) return;
    if (bias.dtype() != x.dtype()) {
      fail("self and mat2 must have the same dtype, but got ", dtype_name(bias.dtype()), " and ", dtype_name(x.dtype()),
           " (the bias of linear needs the dtype of its weight; convert it with .to(weight.dtype))");
    }
    check_expands(bias, out->shape());
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor &weight = in[1], &bias = in[2];
    const Rows x = rows_of(in[0]);
    const int64_t n = weight.ndim() == 2 ? weight.size(0) : 1, k = weight.size(weight.ndim() - 1);
    const Unlocked unlocked(is_long_product(x.count, n, k));
    if (bias) start_from(bias, x.count, n, out[0]);
    const cpu::MatrixView columns{weight->data, weight.stride(weight.ndim() - 1),
                                  weight.ndim() == 2 ? weight.stride(0) : 1};
    cpu::gemm(out[0].dtype(), x.count, n, k, x.view, columns, out[0]->data, n, static_cast<bool>(bias));
  }
  static void vjp(Backward& b) {
    Tensor g = b.grad();
    if (b.needs(2)) set_sum_of_rows(b, 2, g);
    const bool one_output = b.needs(0) ? b.input(1).ndim() == 1 : b.needs(1) && b.input_sizes(1).size() == 1;
    if (one_output) g = unsqueeze(g, -1);
    if (b.needs(0)) set_product(b, 0, g, false, one_output ? unsqueeze(b.input(1), 0) : b.input(1), false);
    if (b.needs(1)) {
      if (one_output) b.set(1, reshape(sum_of_outer(g, b.input(0)), b.input_sizes(1)));
      else set_sum_of_outer(b, 1, g, b.input(0));
    }
  }

 private:
  static void start_from(const Tensor& bias, int64_t rows, int64_t n, const Tensor& out) {
    if (bias.ndim() != 1 || bias.numel() != n || (bias.stride(0) != 1 && n != 1)) return copy_into(out, bias);
    const size_t bytes = static_cast<size_t>(n * item_size(out.dtype()));
    for (int64_t r = 0; r < rows; ++r) std::memcpy(out->data + r * bytes, bias->data, bytes);
  }
  [[noreturn, gnu::cold]] static void fail_features(const Tensor& x, const Tensor& weight) {
    int64_t rows = 1;
    for (int d = 0; d + 1 < x.ndim(); ++d) rows *= x.size(d);
    const int64_t in_features = weight.size(weight.ndim() - 1), out_features = weight.ndim() == 2 ? weight.size(0) : 1;
    fail("mat1 and mat2 shapes cannot be multiplied (", rows, "x", x.size(x.ndim() - 1), " and ", in_features, "x",
         out_features, "): the input's last dimension has ", x.size(x.ndim() - 1), " features, the weight expects ",
         in_features);
  }
};
WEFT_OP(Linear);

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  return call(op_Linear, Linear{}, input, weight, bias);
}

}  // namespace weft
