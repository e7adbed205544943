// Activation functions. First derivatives that are worth a kernel are operations of their own, with a
// derivative made of simpler ones.
#include "core/math/activation.h"

#include "core/math/gradient.h"
#include "core/ops/elementwise.h"

namespace weft {

namespace {

// For the `inplace=` argument of weft.nn.functional.
template <class Op>
Tensor apply_to(const OpTable& table, const Op& op, const Tensor& x, bool inplace) {
  if (!inplace) return call(table, op, x);
  TensorImpl* in[] = {x.get()};
  apply_in_place(table, &op, Inputs(in, 1));
  return x;
}

Tensor logistic_slope(const Tensor& s) { return s * (1.0 - s); }

}  // namespace

// ---- sigmoid and its logarithm -------------------------------------------------------------------

extern const OpTable op_SigmoidGrad;
struct SigmoidGrad {
  static constexpr Schema schema{"sigmoid_grad(Tensor grad, Tensor output) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::sigmoid_grad};
  static constexpr Saves saves{{input(1), input(0) | input(1)}};

  static void vjp(Backward& b) {
    const Tensor y = b.input(1);
    if (b.needs(0)) b.set(0, call(op_SigmoidGrad, SigmoidGrad{}, b.grad(), y));
    if (b.needs(1)) b.set(1, b.grad() * b.input(0) * (1.0 - y * 2.0));
  }
};
WEFT_OP(SigmoidGrad);

struct Sigmoid {
  static constexpr Schema schema{"sigmoid(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::sigmoid, Promote::Float};
  static constexpr Saves saves{{output(0)}};

  static void vjp(Backward& b) { b.set(0, call(op_SigmoidGrad, SigmoidGrad{}, b.grad(), b.output())); }
};
WEFT_OP(Sigmoid);

Tensor sigmoid(const Tensor& a) { return call(op_Sigmoid, Sigmoid{}, a); }

// A first derivative from the input x, in a kernel of its own: g f'(x). `...` is f''(x).
#define WEFT_INPUT_GRADIENT(Struct, name, ...)                                    \
  extern const OpTable op_##Struct;                                               \
  struct Struct {                                                                 \
    static constexpr Schema schema{#name "(Tensor grad, Tensor self) -> Tensor"}; \
    static constexpr Pointwise pointwise{Elementwise::name};                      \
    static constexpr Saves saves{{input(1), input(0) | input(1)}};                \
    static void vjp(Backward& b) {                                                \
      const Tensor x = b.input(1);                                                \
      if (b.needs(0)) b.set(0, call(op_##Struct, Struct{}, b.grad(), x));         \
      if (b.needs(1)) b.set(1, b.grad() * b.input(0) * (__VA_ARGS__));            \
    }                                                                             \
  };                                                                              \
  WEFT_OP(Struct);

#define WEFT_ACTIVATION(Struct, name, source)                                                                 \
  struct Struct {                                                                                             \
    static constexpr Schema schema{source};                                                                   \
    static constexpr Pointwise pointwise{Elementwise::name};                                                  \
    static constexpr uint32_t traits = kExactOut;                                                             \
    static constexpr Saves saves{{input(0)}};                                                                 \
    static void vjp(Backward& b) { b.set(0, call(op_##Struct##Grad, Struct##Grad{}, b.grad(), b.input(0))); } \
  };                                                                                                          \
  WEFT_OP(Struct);

WEFT_INPUT_GRADIENT(LogSigmoidGrad, log_sigmoid_grad, neg(logistic_slope(sigmoid(x))))
WEFT_ACTIVATION(LogSigmoid, log_sigmoid, "logsigmoid(Tensor input) -> Tensor")

// ---- smooth: silu, gelu, softplus, elu -----------------------------------------------------------

namespace {

Tensor silu_curvature(const Tensor& x) {
  const Tensor s = sigmoid(x);
  return logistic_slope(s) * (x * (1.0 - s * 2.0) + 2.0);
}

// The density of the normal distribution, times 2 - x^2.
Tensor gelu_curvature(const Tensor& x) {
  constexpr double kInverseRootTwoPi = 0.398942280401432677939946;
  const Tensor squared = square(x);
  return exp(squared * -0.5) * kInverseRootTwoPi * (2.0 - squared);
}

// Of x sigmoid(u) with u = 2 sqrt(2/pi) (x + 0.044715 x^3).
Tensor gelu_tanh_curvature(const Tensor& x) {
  constexpr double kScale = 2 * 0.797884560802865355879892, kCubic = 0.044715;
  const Tensor squared = square(x);
  const Tensor s = sigmoid(x * (squared * kCubic + 1.0) * kScale);
  const Tensor u1 = (squared * (3 * kCubic) + 1.0) * kScale, u2 = x * (6 * kCubic * kScale);
  return logistic_slope(s) * (u1 * 2.0 + x * (u2 + square(u1) * (1.0 - s * 2.0)));
}

}  // namespace

WEFT_INPUT_GRADIENT(SiluGrad, silu_grad, silu_curvature(x))
WEFT_ACTIVATION(Silu, silu, "silu(Tensor input) -> Tensor")

WEFT_INPUT_GRADIENT(GeluGrad, gelu_grad, gelu_curvature(x))
WEFT_ACTIVATION(Gelu, gelu, "gelu(Tensor input) -> Tensor")

WEFT_INPUT_GRADIENT(GeluTanhGrad, gelu_tanh_grad, gelu_tanh_curvature(x))
WEFT_ACTIVATION(GeluTanh, gelu_tanh, "gelu_tanh(Tensor input) -> Tensor")

struct GeluApproximated {
  static constexpr Schema schema{"gelu.approximate(Tensor input, *, str approximate) -> Tensor"};
  static constexpr uint32_t traits = kExactOut;
  std::string approximate;

  Tensor compose(Inputs in) const {
    if (approximate == "none") return call(op_Gelu, Gelu{}, in[0]);
    if (approximate == "tanh") return call(op_GeluTanh, GeluTanh{}, in[0]);
    fail("approximate argument must be either none or tanh.");
  }
};
WEFT_OP(GeluApproximated);

extern const OpTable op_SoftplusGrad;
struct SoftplusGrad {
  static constexpr Schema schema{"softplus_grad(Tensor grad, Tensor self, float beta, float threshold) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::softplus_grad};
  static constexpr Saves saves{{input(1), input(0) | input(1)}};
  double beta, threshold;

  math::SoftplusGrad functor() const { return {beta, threshold}; }
  static void vjp(Backward& b) {
    const SoftplusGrad& op = b.op<SoftplusGrad>();
    const Tensor x = b.input(1);
    if (b.needs(0)) b.set(0, call(op_SoftplusGrad, op, b.grad(), x));
    if (b.needs(1)) {
      const Tensor scaled = x * op.beta;
      const Tensor curved = b.grad() * b.input(0) * (logistic_slope(sigmoid(scaled)) * op.beta);
      b.set(1, where(gt(scaled, number(op.threshold)), number(int64_t{0}), curved));
    }
  }
};
WEFT_OP(SoftplusGrad);

struct Softplus {
  static constexpr Schema schema{"softplus(Tensor input, float beta=1, float threshold=20) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::softplus};
  static constexpr uint32_t traits = kExactOut;
  static constexpr Saves saves{{input(0)}};
  double beta, threshold;

  math::Softplus functor() const { return {beta, threshold}; }
  static void vjp(Backward& b) {
    const Softplus& op = b.op<Softplus>();
    b.set(0, call(op_SoftplusGrad, SoftplusGrad{op.beta, op.threshold}, b.grad(), b.input(0)));
  }
};
WEFT_OP(Softplus);

extern const OpTable op_EluGrad;
struct EluGrad {
  static constexpr Schema schema{"elu_grad(Tensor grad, Tensor self, float alpha) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::elu_grad};
  static constexpr Saves saves{{input(1), input(0) | input(1)}};
  double alpha;

  math::EluGrad functor() const { return {alpha, 1.0, 1.0}; }
  static void vjp(Backward& b) {
    const EluGrad& op = b.op<EluGrad>();
    const Tensor x = b.input(1);
    if (b.needs(0)) b.set(0, call(op_EluGrad, op, b.grad(), x));
    if (b.needs(1)) {
      const Tensor positive = gt(x, number(int64_t{0}));
      // Nothing large is raised to a power where the answer is 0.
      const Tensor tail = exp(where(positive, number(int64_t{0}), x));
      const Tensor curved = b.grad() * b.input(0) * (tail * op.alpha);
      b.set(1, where(positive, number(int64_t{0}), curved));
    }
  }
};
WEFT_OP(EluGrad);

struct Elu {
  static constexpr Schema schema{"elu(Tensor input, float alpha=1) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::elu};
  static constexpr Saves saves{{input(0)}};
  double alpha;

  math::Elu functor() const { return {alpha, 1.0, 1.0}; }
  static void vjp(Backward& b) { b.set(0, call(op_EluGrad, EluGrad{b.op<Elu>().alpha}, b.grad(), b.input(0))); }
};
WEFT_OP(Elu);

// ---- piecewise linear: relu, leaky_relu, hardtanh ------------------------------------------------

extern const OpTable op_ReluGrad;
struct ReluGrad {
  static constexpr Schema schema{"relu_grad(Tensor grad, Tensor output) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::relu_grad};
  static constexpr Saves saves{{input(1)}};

  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, call(op_ReluGrad, ReluGrad{}, b.grad(), b.input(1)));
    if (b.needs(1)) b.set(1, zeros_like(b.grad()));
  }
};
WEFT_OP(ReluGrad);

struct Relu {
  static constexpr Schema schema{"relu(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::relu};
  static constexpr Saves saves{{output(0)}};

  void check(Inputs in) const {
    if (in[0].dtype() == DType::Bool) fail("Boolean inputs not supported for relu");
  }
  static void vjp(Backward& b) { b.set(0, call(op_ReluGrad, ReluGrad{}, b.grad(), b.output())); }
};
WEFT_OP(Relu);

extern const OpTable op_LeakyReluGrad;
struct LeakyReluGrad {
  static constexpr Schema schema{"leaky_relu_grad(Tensor grad, Tensor self, float negative_slope) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::leaky_relu_grad};
  static constexpr Saves saves{{input(1)}};
  double negative_slope;

  math::LeakyReluGrad functor() const { return {negative_slope}; }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, call(op_LeakyReluGrad, b.op<LeakyReluGrad>(), b.grad(), b.input(1)));
    if (b.needs(1)) b.set(1, zeros_like(b.grad()));
  }
};
WEFT_OP(LeakyReluGrad);

struct LeakyRelu {
  static constexpr Schema schema{"leaky_relu(Tensor input, float negative_slope=0.01) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::leaky_relu};
  static constexpr Saves saves{{input(0)}};
  double negative_slope;

  math::LeakyRelu functor() const { return {negative_slope}; }
  static void vjp(Backward& b) {
    b.set(0, call(op_LeakyReluGrad, LeakyReluGrad{b.op<LeakyRelu>().negative_slope}, b.grad(), b.input(0)));
  }
};
WEFT_OP(LeakyRelu);

// Unlike clamp, hardtanh is flat at its bounds. The result tells as much as the input does.
extern const OpTable op_HardtanhGrad;
struct HardtanhGrad {
  static constexpr Schema schema{"hardtanh_grad(Tensor grad, Tensor output, float min_val, float max_val) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::hardtanh_grad};
  static constexpr Saves saves{{input(1)}};
  double min_val, max_val;

  math::HardtanhGrad functor() const { return {min_val, max_val}; }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, call(op_HardtanhGrad, b.op<HardtanhGrad>(), b.grad(), b.input(1)));
    if (b.needs(1)) b.set(1, zeros_like(b.grad()));
  }
};
WEFT_OP(HardtanhGrad);

struct Hardtanh {
  static constexpr Schema schema{"hardtanh(Tensor input, float min_val=-1, float max_val=1) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::hardtanh};
  static constexpr Saves saves{{output(0)}};
  double min_val, max_val;

  void check(Inputs in) const {
    if (min_val > max_val) fail(ErrorKind::Value, "min_val cannot be greater than max_val");
    if (in[0].dtype() == DType::Bool) fail("Bool inputs not supported for hardtanh");
    if (in[0].dtype() == DType::UInt8 && min_val < 0) {
      fail("cannot do hardtanh on an unsigned type with negative limits");
    }
  }
  math::Hardtanh functor() const { return {min_val, max_val}; }
  static void vjp(Backward& b) {
    const Hardtanh& op = b.op<Hardtanh>();
    b.set(0, call(op_HardtanhGrad, HardtanhGrad{op.min_val, op.max_val}, b.grad(), b.output()));
  }
};
WEFT_OP(Hardtanh);

// ---- the same with inplace= ----------------------------------------------------------------------

struct ReluInplace {
  static constexpr Schema schema{"relu.inplace(Tensor self, bool inplace) -> Tensor"};
  bool inplace;
  Tensor compose(Inputs in) const { return apply_to(op_Relu, Relu{}, in[0], inplace); }
};
WEFT_OP(ReluInplace);

struct Relu6 {
  static constexpr Schema schema{"relu6(Tensor input, bool inplace=False) -> Tensor"};
  bool inplace;
  Tensor compose(Inputs in) const { return apply_to(op_Hardtanh, Hardtanh{0.0, 6.0}, in[0], inplace); }
};
WEFT_OP(Relu6);

struct HardtanhInplace {
  static constexpr Schema schema{
      "hardtanh.inplace(Tensor input, float min_val=-1, float max_val=1, bool inplace=False) -> Tensor"};
  double min_val, max_val;
  bool inplace;
  Tensor compose(Inputs in) const { return apply_to(op_Hardtanh, Hardtanh{min_val, max_val}, in[0], inplace); }
};
WEFT_OP(HardtanhInplace);

struct LeakyReluInplace {
  static constexpr Schema schema{
      "leaky_relu.inplace(Tensor input, float negative_slope=0.01, bool inplace=False) -> Tensor"};
  double negative_slope;
  bool inplace;
  Tensor compose(Inputs in) const { return apply_to(op_LeakyRelu, LeakyRelu{negative_slope}, in[0], inplace); }
};
WEFT_OP(LeakyReluInplace);

struct EluInplace {
  static constexpr Schema schema{"elu.inplace(Tensor input, float alpha=1, bool inplace=False) -> Tensor"};
  double alpha;
  bool inplace;
  Tensor compose(Inputs in) const { return apply_to(op_Elu, Elu{alpha}, in[0], inplace); }
};
WEFT_OP(EluInplace);

struct SiluInplace {
  static constexpr Schema schema{"silu.inplace(Tensor input, bool inplace) -> Tensor"};
  bool inplace;
  Tensor compose(Inputs in) const { return apply_to(op_Silu, Silu{}, in[0], inplace); }
};
WEFT_OP(SiluInplace);

// ---- glu -----------------------------------------------------------------------------------------

struct Glu {
  static constexpr Schema schema{"glu(Tensor input, int dim=-1) -> Tensor"};
  int64_t dim;

  Tensor compose(Inputs in) const {
    const Tensor& x = in[0];
    if (x.ndim() == 0) fail("glu does not support scalars because halving size must be even");
    const int64_t d = wrap_dim(dim, x.ndim());
    const int64_t size = x.size(static_cast<int>(d)), half = size / 2;
    if (size % 2) fail("Halving dimension must be even, but dimension ", d, " is size ", size);
    return narrow(x, d, 0, half) * sigmoid(narrow(x, d, half, half));
  }
};
WEFT_OP(Glu);

}  // namespace weft
