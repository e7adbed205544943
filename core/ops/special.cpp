// The error function, the gamma function and other special functions, with their derivatives.
#include "core/math/gamma.h"

#include <limits>

#include "core/math/exponential.h"
#include "core/ops/elementwise.h"

namespace weft {

namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kTwoOverRootPi = 1.12837916709551257390, kHalfRootPi = 0.88622692545275801365;

Tensor erf_slope(const Tensor& x) { return exp(neg(square(x))) * kTwoOverRootPi; }

}  // namespace

// ---- the error function --------------------------------------------------------------------------

struct Erf {
  static constexpr Schema schema{"erf(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::erf, Promote::Float};
  static constexpr Saves saves{{input(0)}};

  static void vjp(Backward& b) { b.set(0, b.grad() * erf_slope(b.input(0))); }
};
WEFT_OP(Erf);

struct Erfc {
  static constexpr Schema schema{"erfc(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::erfc, Promote::Float};
  static constexpr Saves saves{{input(0)}};

  static void vjp(Backward& b) { b.set(0, neg(b.grad() * erf_slope(b.input(0)))); }
};
WEFT_OP(Erfc);

struct Erfinv {
  static constexpr Schema schema{"erfinv(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::erfinv, Promote::Float};
  static constexpr Saves saves{{output(0)}};

  static void vjp(Backward& b) { b.set(0, b.grad() * (exp(square(b.output())) * kHalfRootPi)); }
};
WEFT_OP(Erfinv);

// ---- the gamma function --------------------------------------------------------------------------

// The n-th derivative of digamma, n >= 2.
extern const OpTable op_Polygamma;
struct Polygamma {
  static constexpr Schema schema{"higher_polygamma(Tensor self, int n) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::polygamma, Promote::Float};
  static constexpr Saves saves{{input(0)}};
  static constexpr const char* backward_name = "PolygammaBackward0";
  int64_t n;

  void check(Inputs) const {
    constexpr int64_t kMost = 1'000'000'000;
    if (n < 2 || n > kMost) fail(ErrorKind::Value, "polygamma: the order must be from 0 to ", kMost, ", not ", n);
  }
  math::Polygamma functor() const { return {static_cast<int>(n)}; }
  static void vjp(Backward& b) {
    b.set(0, b.grad() * call(op_Polygamma, Polygamma{b.op<Polygamma>().n + 1}, b.input(0)));
  }
};
WEFT_OP(Polygamma);

struct Trigamma {
  static constexpr Schema schema{"trigamma(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::trigamma, Promote::Float};
  static constexpr Saves saves{{input(0)}};
  static constexpr const char* backward_name = "PolygammaBackward0";

  static void vjp(Backward& b) { b.set(0, b.grad() * call(op_Polygamma, Polygamma{2}, b.input(0))); }
};
WEFT_OP(Trigamma);

struct Digamma {
  static constexpr Schema schema{"digamma(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::digamma, Promote::Float};
  static constexpr Saves saves{{input(0)}};

  static void vjp(Backward& b) { b.set(0, b.grad() * call(op_Trigamma, Trigamma{}, b.input(0))); }
};
WEFT_OP(Digamma);

struct Lgamma {
  static constexpr Schema schema{"lgamma(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::lgamma, Promote::Float};
  static constexpr Saves saves{{input(0)}};

  static void vjp(Backward& b) { b.set(0, b.grad() * call(op_Digamma, Digamma{}, b.input(0))); }
};
WEFT_OP(Lgamma);

// ---- logarithms of sums and products -------------------------------------------------------------

// The derivative of either is the share of its term in the sum, a logistic function of the difference.
// Equal terms share evenly, equal infinities too.
struct Logaddexp {
  static constexpr Schema schema{"logaddexp(Tensor self, Tensor other) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::logaddexp};
  static constexpr Saves saves{{input(0) | input(1), input(0) | input(1)}};

  static void vjp(Backward& b) { share(b, 1.0); }

  static void share(Backward& b, double log_of_base) {
    const Tensor one = b.input(0), other = b.input(1);
    const Tensor difference = where(eq(one, other), number(int64_t{0}), one - other);
    const Tensor scaled = log_of_base == 1.0 ? difference : difference * log_of_base;
    if (b.needs(0)) b.set(0, b.grad() * sigmoid(scaled));
    if (b.needs(1)) b.set(1, b.grad() * sigmoid(neg(scaled)));
  }
};
WEFT_OP(Logaddexp);

struct Logaddexp2 {
  static constexpr Schema schema{"logaddexp2(Tensor self, Tensor other) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::logaddexp2};
  static constexpr Saves saves{{input(0) | input(1), input(0) | input(1)}};

  static void vjp(Backward& b) { Logaddexp::share(b, 0.693147180559945309417232); }
};
WEFT_OP(Logaddexp2);

struct Xlogy {
  static constexpr Schema schema{"xlogy(Tensor|Scalar self, Tensor|Scalar other) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::xlogy, Promote::Float};
  static constexpr Saves saves{{input(0) | input(1), input(0) | input(1)}};

  void check(Inputs in) const { refuse_two_numbers(in); }
  // Where x is 0 the product is 0 for any y; there y is replaced by 1 wherever it would be infinite.
  static void vjp(Backward& b) {
    const Tensor x = b.input(0), y = in_full(b.input(1), b.output_dtype());
    const Tensor zero = number(int64_t{0});
    const Tensor flat = logical_and(eq(x, zero), le(y, zero));
    const Tensor safe = where(flat, number(int64_t{1}), y);
    if (b.needs(0)) b.set(0, b.grad() * log(safe));
    if (b.needs(1)) b.set(1, b.grad() * div(x, safe));
  }
};
WEFT_OP(Xlogy);

// ---- logit and sinc ------------------------------------------------------------------------------

struct Logit {
  static constexpr Schema schema{"logit(Tensor self, float? eps=None) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::logit, Promote::Float};
  static constexpr Saves saves{{input(0)}};
  std::optional<double> eps;

  math::Logit functor() const { return {eps.value_or(-1.0)}; }
  static void vjp(Backward& b) {
    const Tensor x = b.input(0);
    const double low = b.op<Logit>().eps.value_or(-1.0);
    const bool clamped = low >= 0;
    const Tensor outside = logical_or(lt(x, number(clamped ? low : 0.0)), gt(x, number(clamped ? 1.0 - low : 1.0)));
    const Tensor gradient = b.grad() / (x * (1.0 - x));
    b.set(0, where(outside, number(clamped ? 0.0 : std::numeric_limits<double>::quiet_NaN()), gradient));
  }
};
WEFT_OP(Logit);

extern const OpTable op_Sinc;
struct Sinc {
  static constexpr Schema schema{"sinc(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::sinc, Promote::Float};
  static constexpr Saves saves{{input(0)}};

  // (cos(pi x) - sinc(x)) / x cancels near zero; there its power series takes over.
  static void vjp(Backward& b) {
    const Tensor x = b.input(0);
    const Tensor near = lt(abs(x), number(0.17));
    const Tensor away = where(near, number(int64_t{1}), x);
    const Tensor far = div(cos(away * kPi) - call(op_Sinc, Sinc{}, away), away);
    // The k-th term of the series of sinc is (-1)^k z^k / (2k + 1)! with z = (pi x)^2; its derivative
    // divided by pi^2 x is (-1)^k 2k z^(k-1) / (2k + 1)!.
    const Tensor inner = where(near, x, number(int64_t{0}));
    const Tensor z = square(inner * kPi);
    constexpr int kTerms = 8;
    double coefficients[kTerms + 1];
    double factorial = 1;
    for (int k = 1; k <= kTerms; ++k) {
      factorial *= 2 * k * (2 * k + 1);
      coefficients[k] = (k % 2 ? -2.0 : 2.0) * k / factorial;
    }
    Tensor series = z * coefficients[kTerms];
    for (int k = kTerms - 1; k > 1; --k) series = (series + coefficients[k]) * z;
    series = (series + coefficients[1]) * (inner * (kPi * kPi));
    b.set(0, b.grad() * where(near, series, far));
  }
};
WEFT_OP(Sinc);

}  // namespace weft
