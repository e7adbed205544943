// Comparisons, logic and choice.
#include "core/ops/elementwise.h"

namespace weft {

#define WEFT_COMPARISON(Struct, name, Other)                                          \
  struct Struct {                                                                     \
    static constexpr Schema schema{#name "(Tensor self, " Other " other) -> Tensor"}; \
    static constexpr Pointwise pointwise{Elementwise::name, Promote::Compare};        \
    static constexpr uint32_t traits = kNeverDifferentiable;                          \
  };                                                                                  \
  WEFT_OP(Struct);                                                                    \
  Tensor name(const Tensor& a, const Tensor& b) { return call(op_##Struct, Struct{}, a, b); }

WEFT_COMPARISON(Eq, eq, "Tensor|Scalar")
WEFT_COMPARISON(Ne, ne, "Tensor|Scalar")
WEFT_COMPARISON(Lt, lt, "Tensor|Scalar")
WEFT_COMPARISON(Le, le, "Tensor|Scalar")
WEFT_COMPARISON(Gt, gt, "Tensor|Scalar")
WEFT_COMPARISON(Ge, ge, "Tensor|Scalar")
WEFT_COMPARISON(LogicalAnd, logical_and, "Tensor")
WEFT_COMPARISON(LogicalOr, logical_or, "Tensor")
WEFT_COMPARISON(LogicalXor, logical_xor, "Tensor")

#define WEFT_PREDICATE(Struct, name, out_dtype)                                  \
  struct Struct {                                                                \
    static constexpr Schema schema{#name "(Tensor self) -> Tensor"};             \
    static constexpr Pointwise pointwise{Elementwise::name, Promote::Predicate}; \
    static constexpr uint32_t traits = kNeverDifferentiable | out_dtype;         \
  };                                                                             \
  WEFT_OP(Struct);

WEFT_PREDICATE(LogicalNot, logical_not, 0)
WEFT_PREDICATE(Isnan, isnan, 0)
WEFT_PREDICATE(Isinf, isinf, 0)
WEFT_PREDICATE(Isfinite, isfinite, 0)
WEFT_PREDICATE(Isposinf, isposinf, kExactOut)
WEFT_PREDICATE(Isneginf, isneginf, kExactOut)
WEFT_PREDICATE(Signbit, signbit, kExactOut)

Tensor logical_not(const Tensor& a) { return call(op_LogicalNot, LogicalNot{}, a); }
Tensor isfinite(const Tensor& a) { return call(op_Isfinite, Isfinite{}, a); }

namespace {

Tensor zero() { return number(int64_t{0}); }
Tensor isnan(const Tensor& a) { return call(op_Isnan, Isnan{}, a); }

}  // namespace

// ---- choice --------------------------------------------------------------------------------------

struct Where {
  static constexpr Schema schema{"where(Tensor condition, Tensor|Scalar self, Tensor|Scalar other) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::where, Promote::SelectSecond};
  static constexpr uint32_t traits = kExactOut;
  static constexpr Saves saves{{0, input(0), input(0)}};

  void check(Inputs in) const {
    const DType condition = in[0].dtype();
    if (condition != DType::Bool && condition != DType::UInt8) {
      fail("where expected condition to be a boolean tensor, but got a tensor with dtype ", dtype_name(condition));
    }
  }
  static void vjp(Backward& b) {
    const Tensor condition = b.input(0);
    if (b.needs(1)) b.set(1, where(condition, b.grad(), zero()));
    if (b.needs(2)) b.set(2, where(condition, zero(), b.grad()));
  }
};
WEFT_OP(Where);

// The larger and the smaller: a tie shares the gradient evenly, NaN gives it to both.
#define WEFT_EXTREME(Struct, name, loses)                                          \
  struct Struct {                                                                  \
    static constexpr Schema schema{#name "(Tensor self, Tensor other) -> Tensor"}; \
    static constexpr Pointwise pointwise{Elementwise::name};                       \
    static constexpr Saves saves{{input(0) | input(1), input(0) | input(1)}};      \
    static void vjp(Backward& b) {                                                 \
      const Tensor x = b.input(0), y = b.input(1);                                 \
      const Tensor g = where(eq(x, y), b.grad() * 0.5, b.grad());                  \
      if (b.needs(0)) b.set(0, where(loses(x, y), zero(), g));                     \
      if (b.needs(1)) b.set(1, where(loses(y, x), zero(), g));                     \
    }                                                                              \
  };                                                                               \
  WEFT_OP(Struct);

WEFT_EXTREME(Maximum, maximum, lt)
WEFT_EXTREME(Minimum, minimum, gt)

// The same where numbers win over NaN: the first operand gets the gradient of a tie.
#define WEFT_NUMBER_EXTREME(Struct, name, wins)                                    \
  struct Struct {                                                                  \
    static constexpr Schema schema{#name "(Tensor self, Tensor other) -> Tensor"}; \
    static constexpr Pointwise pointwise{Elementwise::name};                       \
    static constexpr Saves saves{{input(0) | input(1), input(0) | input(1)}};      \
    static void vjp(Backward& b) {                                                 \
      const Tensor y = b.input(1);                                                 \
      const Tensor first = logical_or(wins(b.input(0), y), isnan(y));              \
      if (b.needs(0)) b.set(0, where(first, b.grad(), zero()));                    \
      if (b.needs(1)) b.set(1, where(first, zero(), b.grad()));                    \
    }                                                                              \
  };                                                                               \
  WEFT_OP(Struct);

WEFT_NUMBER_EXTREME(Fmax, fmax, ge)
WEFT_NUMBER_EXTREME(Fmin, fmin, le)

struct Heaviside {
  static constexpr Schema schema{"heaviside(Tensor self, Tensor values) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::heaviside};
  static constexpr uint32_t traits = kExactOut;
  static constexpr Saves saves{{0, input(0)}};

  void check(Inputs in) const {
    if (in[0].dtype() != in[1].dtype()) fail("heaviside is not yet implemented for tensors with different dtypes.");
  }
  static void vjp(Backward& b) {
    if (b.needs(0)) b.set(0, zeros_like(b.grad()));
    if (b.needs(1)) b.set(1, keep_where(eq(b.input(0), zero()), b.grad()));
  }
};
WEFT_OP(Heaviside);

// ---- clamp ---------------------------------------------------------------------------------------

namespace {

void refuse_truths(Inputs in) {
  if (in[0].dtype() == DType::Bool && in[1].dtype() == DType::Bool && in[1]->has(kWrappedNumber)) {
    fail(ErrorKind::NotImplemented,
         "\"clamp_scalar_cpu\" not implemented for 'Bool': bounds of a truth value have no meaning; "
         "use logical_and or logical_or");
  }
}

}  // namespace

// A value at its bound is inside: the gradient is its own.
#define WEFT_ONE_BOUND(Struct, name, bound, kernel, inside, outside)                           \
  struct Struct {                                                                              \
    static constexpr Schema schema{#name "(Tensor self, Tensor|Scalar " #bound ") -> Tensor"}; \
    static constexpr Pointwise pointwise{Elementwise::kernel};                                 \
    static constexpr Saves saves{{input(0) | input(1), input(0) | input(1)}};                  \
    void check(Inputs in) const {                                                              \
      refuse_overflow(in[1], in[0].dtype());                                                   \
      refuse_truths(in);                                                                       \
    }                                                                                          \
    static void vjp(Backward& b) {                                                             \
      const Tensor x = b.input(0), limit = b.input(1);                                         \
      if (b.needs(0)) b.set(0, keep_where(inside(x, limit), b.grad()));                        \
      if (b.needs(1)) b.set(1, keep_where(outside(x, limit), b.grad()));                       \
    }                                                                                          \
  };                                                                                           \
  WEFT_OP(Struct);

WEFT_ONE_BOUND(ClampMin, clamp_min, min, maximum, ge, lt)
WEFT_ONE_BOUND(ClampMax, clamp_max, max, minimum, le, gt)

struct ClampBoth {
  static constexpr Schema schema{"clamp.both(Tensor self, Tensor|Scalar min, Tensor|Scalar max) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::clamp};
  static constexpr uint32_t kAllInputs = input(0) | input(1) | input(2);
  static constexpr Saves saves{{kAllInputs, kAllInputs, kAllInputs}};
  static constexpr const char* backward_name = "ClampBackward0";

  void check(Inputs in) const {
    refuse_overflow(in[1], in[0].dtype());
    refuse_overflow(in[2], in[0].dtype());
  }
  // Bounds in the wrong order: everything becomes the upper one.
  static void vjp(Backward& b) {
    const Tensor x = b.input(0), low = b.input(1), high = b.input(2);
    if (b.needs(0)) b.set(0, keep_where(logical_and(ge(x, low), le(x, high)), b.grad()));
    if (b.needs(1)) b.set(1, keep_where(logical_and(lt(x, low), lt(low, high)), b.grad()));
    if (b.needs(2)) b.set(2, keep_where(logical_or(gt(x, high), lt(high, low)), b.grad()));
  }
};
WEFT_OP(ClampBoth);

struct Clamp {
  static constexpr Schema schema{"clamp(Tensor self, Tensor|Scalar? min=None, Tensor|Scalar? max=None) -> Tensor"};

  Tensor compose(Inputs in) const {
    if (!in[1] && !in[2]) fail("torch.clamp: At least one of 'min' or 'max' must not be None");
    if (!in[2]) return call(op_ClampMin, ClampMin{}, in[0], in[1]);
    if (!in[1]) return call(op_ClampMax, ClampMax{}, in[0], in[2]);
    return call(op_ClampBoth, ClampBoth{}, in[0], in[1], in[2]);
  }
};
WEFT_OP(Clamp);

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return call(op_Where, Where{}, condition, a, b);
}

}  // namespace weft
