// Rounding, fractions, changes of unit, and what replaces NaN and infinity.
#include "core/math/rounding.h"

#include "core/ops/elementwise.h"

namespace weft {

// Steps: constant wherever a derivative exists.
#define WEFT_STEP(Struct, name)                                      \
  struct Struct {                                                    \
    static constexpr Schema schema{#name "(Tensor self) -> Tensor"}; \
    static constexpr Pointwise pointwise{Elementwise::name};         \
    static constexpr uint32_t traits = kExactOut;                    \
    static void vjp(Backward& b) { b.set(0, zeros_like(b.grad())); } \
  };                                                                 \
  WEFT_OP(Struct);

WEFT_STEP(Ceil, ceil)
WEFT_STEP(Floor, floor)
WEFT_STEP(Trunc, trunc)
WEFT_STEP(Round, round)

struct RoundDecimals {
  static constexpr Schema schema{"round.decimals(Tensor self, *, int decimals) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::round_decimals};
  static constexpr uint32_t traits = kExactOut;
  static constexpr const char* backward_name = "RoundBackward1";
  int64_t decimals;

  math::RoundDecimals functor() const {
    // No float has digits further out than that.
    constexpr int64_t kFarthest = 400;
    return {static_cast<int>(decimals < -kFarthest ? -kFarthest : decimals > kFarthest ? kFarthest : decimals)};
  }
  static void vjp(Backward& b) { b.set(0, zeros_like(b.grad())); }
};
WEFT_OP(RoundDecimals);

struct Frac {
  static constexpr Schema schema{"frac(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::frac};
  static constexpr uint32_t traits = kExactOut;

  static void vjp(Backward& b) { b.set(0, b.grad()); }
};
WEFT_OP(Frac);

// ---- units ---------------------------------------------------------------------------------------

extern const OpTable op_Deg2rad;
struct Deg2rad {
  static constexpr Schema schema{"deg2rad(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::deg2rad, Promote::Float};
  static constexpr uint32_t traits = kLinear;

  static void vjp(Backward& b) { b.set(0, call(op_Deg2rad, Deg2rad{}, b.grad())); }
};
WEFT_OP(Deg2rad);

extern const OpTable op_Rad2deg;
struct Rad2deg {
  static constexpr Schema schema{"rad2deg(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::rad2deg, Promote::Float};
  static constexpr uint32_t traits = kLinear;

  static void vjp(Backward& b) { b.set(0, call(op_Rad2deg, Rad2deg{}, b.grad())); }
};
WEFT_OP(Rad2deg);

// ---- NaN and infinity ----------------------------------------------------------------------------

struct ReplaceNonfinite {
  static constexpr Schema schema{"replace_nonfinite(Tensor self, float nan, float posinf, float neginf) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::nan_to_num};
  static constexpr Saves saves{{input(0)}};
  static constexpr const char* backward_name = "NanToNumBackward0";
  double nan, posinf, neginf;

  math::NanToNum functor() const { return {nan, posinf, neginf}; }
  static void vjp(Backward& b) { b.set(0, keep_where(isfinite(b.input(0)), b.grad())); }
};
WEFT_OP(ReplaceNonfinite);

namespace {

double largest(DType t) {
  switch (t) {
    case DType::Float16: return 65504.0;
    case DType::BFloat16: return 0x1.fep+127;
    case DType::Float32: return 0x1.fffffep+127;
    default: return 0x1.fffffffffffffp+1023;
  }
}

}  // namespace

struct NanToNum {
  static constexpr Schema schema{
      "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"};
  static constexpr uint32_t traits = kExactOut;
  std::optional<double> nan, posinf, neginf;

  Tensor compose(Inputs in) const {
    if (is_integral(in[0].dtype())) return clone(in[0]);
    const double bound = largest(in[0].dtype());
    const ReplaceNonfinite replace{nan.value_or(0.0), posinf.value_or(bound), neginf.value_or(-bound)};
    return call(op_ReplaceNonfinite, replace, in[0]);
  }
};
WEFT_OP(NanToNum);

}  // namespace weft
