// Random numbers. Each operation draws a contiguous run from a generator's stream (core/graph/generator.h);
// which numbers come does not depend on threads, device or layout.
#include <cmath>
#include <limits>

#include "core/graph/generator.h"
#include "core/kernels/cpu/random.h"
#include "core/ops/create.h"
#include "core/tensor/promotion.h"

namespace weft {
namespace {

// fill(stream, data) writes the elements of `t` in row-major order and returns the steps it used.
template <class Fill>
void draw_into(const Tensor& t, Generator* generator, Fill&& fill) {
  const Tensor run = t->is_contiguous() ? t : empty(t.sizes(), t.dtype(), t->device);
  generator_or_default(generator).draw([&](random::Stream stream) { return fill(stream, run->data); });
  if (run.get() != t.get()) copy_into(t, run);
}

void check_floating(const char* name, DType dtype) {
  if (!is_floating(dtype)) refuse_dtype(name, dtype);
}

void check_deviation(const char* name, double std) {
  if (!(std >= 0)) fail(name, " expects std >= 0.0, but found std ", std);
}

void check_probability(const char* name, double p) {
  if (!(p >= 0 && p <= 1)) fail(name, " expects p to be in [0, 1], but got p=", p);
}

// ---- integers --------------------------------------------------------------------------------------

// The integers that a dtype holds, or counts without gaps: [low, high].
struct Whole { int64_t low, high; };
Whole whole_numbers(DType dtype) {
  switch (dtype) {
    case DType::Bool: return {0, 1};
    case DType::UInt8: return {0, 255};
    case DType::Int8: return {-128, 127};
    case DType::Int16: return {-32768, 32767};
    case DType::Int32: return {INT32_MIN, INT32_MAX};
    case DType::Float16: return {-2048, 2048};
    case DType::BFloat16: return {-256, 256};
    case DType::Float32: return {-(int64_t{1} << 24), int64_t{1} << 24};
    case DType::Float64: return {-(int64_t{1} << 53), int64_t{1} << 53};
    default: return {INT64_MIN, INT64_MAX};
  }
}

// Integers in [low, high) as a dtype: those that it can hold at all.
void check_range(DType dtype, int64_t low, int64_t high) {
  if (low >= high) { fail("random_ expects 'from' to be less than 'to', but got from=", low, " >= to=", high); }
  auto refuse = [&](const char* which) { fail(which, " is out of bounds for ", dtype_name(dtype)); };
  if (is_integral(dtype)) {
    const Whole held = whole_numbers(dtype);
    if (low < held.low || low > held.high) refuse("from");
    if (high - 1 < held.low || high - 1 > held.high) refuse("to - 1");
  } else {
    const double most = dtype == DType::Float16 ? 65504.0 : std::numeric_limits<double>::infinity();
    if (std::fabs(static_cast<double>(low)) > most) refuse("from");
    if (std::fabs(static_cast<double>(high - 1)) > most) refuse("to - 1");
  }
}

void draw_integers(const Tensor& out, Generator* generator, int64_t low, int64_t high) {
  draw_into(out, generator, [&](random::Stream stream, void* data) {
    return cpu::fill_integers(stream, out.dtype(), low, high, data, out.numel());
  });
}

// No gradient flows through what was drawn.
void zero_gradients(Backward& b) {
  for (int i = 0; i < b.inputs(); ++i)
    if (b.needs(i)) b.set(i, zeros(b.input_sizes(i), b.input_dtype(i)));
}

}  // namespace

// ---- new tensors -----------------------------------------------------------------------------------

struct Rand {
  static constexpr Schema schema{"rand(int[] size, *, Generator? generator=None, Options options) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kNeverDifferentiable;
  Dims size;
  Generator* generator;
  CreationOptions options;

  void infer(Inputs, Meta* out) const {
    infer_created("rand", size, options, default_dtype(), out);
    check_floating("rand", out->dtype);
  }
  void run(Inputs, Tensor* out) const {
    draw_into(out[0], generator, [&](random::Stream stream, void* data) {
      return cpu::fill_uniform(stream, out[0].dtype(), 0, 1, data, out[0].numel());
    });
  }
};
WEFT_OP(Rand);

struct Randn {
  static constexpr Schema schema{"randn(int[] size, *, Generator? generator=None, Options options) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kNeverDifferentiable;
  Dims size;
  Generator* generator;
  CreationOptions options;

  void infer(Inputs, Meta* out) const {
    infer_created("randn", size, options, default_dtype(), out);
    check_floating("randn", out->dtype);
  }
  void run(Inputs, Tensor* out) const {
    draw_into(out[0], generator, [&](random::Stream stream, void* data) {
      return cpu::fill_normal(stream, out[0].dtype(), 0, 1, data, out[0].numel());
    });
  }
};
WEFT_OP(Randn);

struct RandintFrom {
  static constexpr Schema schema{
      "randint.low(int low, int high, int[] size, *, Generator? generator=None, Options options) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kNeverDifferentiable;
  int64_t low, high;
  Dims size;
  Generator* generator;
  CreationOptions options;

  void infer(Inputs, Meta* out) const {
    infer_created("randint", size, options, DType::Int64, out);
    check_range(out->dtype, low, high);
  }
  void run(Inputs, Tensor* out) const { draw_integers(out[0], generator, low, high); }
};
WEFT_OP(RandintFrom);

struct Randint {
  static constexpr Schema schema{
      "randint(int high, int[] size, *, Generator? generator=None, Options options) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kNeverDifferentiable;
  int64_t high;
  Dims size;
  Generator* generator;
  CreationOptions options;

  void infer(Inputs in, Meta* out) const { RandintFrom{0, high, size, generator, options}.infer(in, out); }
  void run(Inputs, Tensor* out) const { draw_integers(out[0], generator, 0, high); }
};
WEFT_OP(Randint);

struct Randperm {
  static constexpr Schema schema{"randperm(int n, *, Generator? generator=None, Options options) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kNeverDifferentiable;
  int64_t n;
  Generator* generator;
  CreationOptions options;

  void infer(Inputs, Meta* out) const {
    if (n < 0) fail("n must be non-negative, got ", n);
    const Dims size{n};
    infer_created("randperm", size, options, DType::Int64, out);
    if (n > 0 && n - 1 > whole_numbers(out->dtype).high) {
      fail("randperm: value cannot be converted to type ", dtype_name(out->dtype), " without overflow: ", n - 1);
    }
  }
  void run(Inputs, Tensor* out) const {
    check_memory(2 * sizeof(int64_t) * static_cast<size_t>(out[0].numel()));  // keys and their order
    draw_into(out[0], generator, [&](random::Stream stream, void* data) {
      return cpu::fill_permutation(stream, out[0].dtype(), data, n);
    });
  }
};
WEFT_OP(Randperm);

// ---- like another tensor ---------------------------------------------------------------------------

struct RandLike {
  static constexpr Schema schema{
      "rand_like(Tensor self, *, Generator? generator=None, Options options, MemoryFormat? memory_format=None) -> "
      "Tensor"};
  static constexpr uint32_t traits = kRandom | kNeverDifferentiable;
  Generator* generator;
  CreationOptions options;
  std::optional<int64_t> memory_format;

  void infer(Inputs in, Meta* out) const {
    infer_like("rand_like", in[0], options, memory_format, out);
    check_floating("rand_like", out->dtype);
  }
  void run(Inputs in, Tensor* out) const { Rand{Dims(), generator, options}.run(in, out); }
};
WEFT_OP(RandLike);

struct RandnLike {
  static constexpr Schema schema{
      "randn_like(Tensor self, *, Generator? generator=None, Options options, MemoryFormat? memory_format=None) -> "
      "Tensor"};
  static constexpr uint32_t traits = kRandom | kNeverDifferentiable;
  Generator* generator;
  CreationOptions options;
  std::optional<int64_t> memory_format;

  void infer(Inputs in, Meta* out) const {
    infer_like("randn_like", in[0], options, memory_format, out);
    check_floating("randn_like", out->dtype);
  }
  void run(Inputs in, Tensor* out) const { Randn{Dims(), generator, options}.run(in, out); }
};
WEFT_OP(RandnLike);

struct RandintLikeFrom {
  static constexpr Schema schema{
      "randint_like.low(Tensor self, int low, int high, *, Generator? generator=None, Options options, "
      "MemoryFormat? memory_format=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kNeverDifferentiable;
  int64_t low, high;
  Generator* generator;
  CreationOptions options;
  std::optional<int64_t> memory_format;

  void infer(Inputs in, Meta* out) const {
    infer_like("randint_like", in[0], options, memory_format, out);
    check_range(out->dtype, low, high);
  }
  void run(Inputs, Tensor* out) const { draw_integers(out[0], generator, low, high); }
};
WEFT_OP(RandintLikeFrom);

struct RandintLike {
  static constexpr Schema schema{
      "randint_like(Tensor self, int high, *, Generator? generator=None, Options options, "
      "MemoryFormat? memory_format=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kNeverDifferentiable;
  int64_t high;
  Generator* generator;
  CreationOptions options;
  std::optional<int64_t> memory_format;

  void infer(Inputs in, Meta* out) const { RandintLikeFrom{0, high, generator, options, memory_format}.infer(in, out); }
  void run(Inputs, Tensor* out) const { draw_integers(out[0], generator, 0, high); }
};
WEFT_OP(RandintLike);

// ---- drawn for given parameters --------------------------------------------------------------------

struct Bernoulli {
  static constexpr Schema schema{"bernoulli(Tensor self, *, Generator? generator=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kAnyOut;
  Generator* generator;

  void infer(Inputs in, Meta* out) const {
    check_floating("bernoulli", in[0].dtype());
    out->like(in[0]);
    lay_out(out, kPreserveFormat, in[0]);
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor p = in[0]->is_contiguous() ? in[0] : detached_copy(in[0]);
    check_probabilities(p);
    draw_into(out[0], generator, [&](random::Stream stream, void* data) {
      return cpu::fill_bernoulli(stream, out[0].dtype(), p.dtype(), p->data, data, p.numel());
    });
  }
  static void vjp(Backward& b) { zero_gradients(b); }

  // `p` is contiguous.
  static void check_probabilities(const Tensor& p) {
    const GradMode off(false);
    const Tensor outside = sum_all(logical_not(logical_and(ge(p, number(int64_t{0})), le(p, number(int64_t{1})))));
    ensure_value(outside.get());
    if (*outside.data<int64_t>() != 0)
      fail("bernoulli: probabilities must lie in [0, 1], but ", *outside.data<int64_t>(), " do not");
  }
};
WEFT_OP(Bernoulli);

struct BernoulliOf {
  static constexpr Schema schema{"bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom;
  double p;
  Generator* generator;

  void infer(Inputs in, Meta* out) const {
    check_probability("bernoulli", p);
    out->like(in[0]);
    lay_out(out, kPreserveFormat, in[0]);
  }
  void run(Inputs, Tensor* out) const {
    draw_into(out[0], generator, [&](random::Stream stream, void* data) {
      return cpu::fill_bernoulli(stream, out[0].dtype(), p, data, out[0].numel());
    });
  }
  static void vjp(Backward& b) { zero_gradients(b); }
};
WEFT_OP(BernoulliOf);

struct Multinomial {
  static constexpr Schema schema{
      "multinomial(Tensor self, int num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kNeverDifferentiable | kExactOut;
  int64_t num_samples;
  bool replacement;
  Generator* generator;

  void infer(Inputs in, Meta* out) const {
    const Tensor& weights = in[0];
    if (weights.ndim() < 1 || weights.ndim() > 2) fail("prob_dist must be 1 or 2 dim, got ", weights.ndim());
    if (!is_floating(weights.dtype())) {
      fail("multinomial only supports floating-point dtypes for input, got: ", dtype_name(weights.dtype()));
    }
    if (num_samples <= 0) fail("cannot sample n_sample <= 0 samples, got ", num_samples);
    const int64_t categories = weights.size(weights.ndim() - 1);
    if (categories > int64_t{1} << 24) fail("number of categories cannot exceed 2^24, got ", categories);
    if (!replacement && num_samples > categories) {
      fail("cannot sample n_sample > prob_dist.size(-1) samples without replacement (", num_samples, " of ", categories,
           ")");
    }
    out->dtype = DType::Int64;
    out->device = weights->device;
    if (weights.ndim() == 2) out->sizes[out->ndim++] = weights.size(0);
    out->sizes[out->ndim++] = num_samples;
    checked_numel(out->shape());
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor weights = in[0]->is_contiguous() ? in[0] : detached_copy(in[0]);
    const int64_t categories = weights.size(weights.ndim() - 1);
    const int64_t rows = weights.ndim() == 2 ? weights.size(0) : 1;
    if (const char* problem =
            cpu::multinomial_problem(weights.dtype(), weights->data, rows, categories, num_samples, replacement)) {
      fail("invalid multinomial distribution: ", problem);
    }
    draw_into(out[0], generator, [&](random::Stream stream, void* data) {
      return cpu::fill_multinomial(stream, weights.dtype(), weights->data, rows, categories, num_samples, replacement,
                                   static_cast<int64_t*>(data));
    });
  }
};
WEFT_OP(Multinomial);

namespace {

// Normal numbers around a mean; a mean or deviation that is a number stands beside those that are tensors.
struct NormalDraw {
  Generator* generator;

  static void infer(const Tensor& shape, Meta* out) {
    check_floating("normal", shape.dtype());
    out->like(shape);
  }
  void standard(const Tensor& out) const {
    draw_into(out, generator, [&](random::Stream stream, void* data) {
      return cpu::fill_normal(stream, out.dtype(), 0, 1, data, out.numel());
    });
  }
  static void check_deviations(const Tensor& std) {
    const GradMode off(false);
    const Tensor negative = sum_all(lt(std, number(int64_t{0})));
    ensure_value(negative.get());
    if (*negative.data<int64_t>() != 0) fail("normal expects all elements of std >= 0.0");
  }
  static void scale(const Tensor& out, const Tensor& mean, const Tensor& std) {
    const GradMode off(false);
    copy_into(out, add(mul(out, std), mean));
  }
};

}  // namespace

struct NormalAround {
  static constexpr Schema schema{"normal.around(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom;
  static constexpr const char* backward_name = "NormalBackward1";
  double std;
  Generator* generator;

  void infer(Inputs in, Meta* out) const {
    check_deviation("normal", std);
    NormalDraw::infer(in[0], out);
  }
  void run(Inputs in, Tensor* out) const {
    NormalDraw{generator}.standard(out[0]);
    NormalDraw::scale(out[0], in[0], number(std));
  }
  static void vjp(Backward& b) { zero_gradients(b); }
};
WEFT_OP(NormalAround);

struct NormalSpread {
  static constexpr Schema schema{"normal.spread(float mean, Tensor std, *, Generator? generator=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom;
  static constexpr const char* backward_name = "NormalBackward2";
  double mean;
  Generator* generator;

  void infer(Inputs in, Meta* out) const { NormalDraw::infer(in[0], out); }
  void run(Inputs in, Tensor* out) const {
    NormalDraw::check_deviations(in[0]);
    NormalDraw{generator}.standard(out[0]);
    NormalDraw::scale(out[0], number(mean), in[0]);
  }
  static void vjp(Backward& b) { zero_gradients(b); }
};
WEFT_OP(NormalSpread);

struct NormalBoth {
  static constexpr Schema schema{"normal.both(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom;
  static constexpr const char* backward_name = "NormalBackward3";
  Generator* generator;

  void infer(Inputs in, Meta* out) const {
    check_floating("normal", in[1].dtype());
    infer_pointwise(op_Add, nullptr, in, out);
    check_floating("normal", in[0].dtype());
    out->dtype = in[0].dtype();
    out->strided = false;
  }
  void run(Inputs in, Tensor* out) const {
    NormalDraw::check_deviations(in[1]);
    NormalDraw{generator}.standard(out[0]);
    NormalDraw::scale(out[0], in[0], in[1]);
  }
  static void vjp(Backward& b) { zero_gradients(b); }
};
WEFT_OP(NormalBoth);

struct NormalOfSize {
  static constexpr Schema schema{
      "normal.size(float mean, float std, int[] size, *, Generator? generator=None, Options options) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kNeverDifferentiable;
  double mean, std;
  Dims size;
  Generator* generator;
  CreationOptions options;

  void infer(Inputs, Meta* out) const {
    check_deviation("normal", std);
    infer_created("normal", size, options, default_dtype(), out);
    check_floating("normal", out->dtype);
  }
  void run(Inputs, Tensor* out) const {
    draw_into(out[0], generator, [&](random::Stream stream, void* data) {
      return cpu::fill_normal(stream, out[0].dtype(), mean, std, data, out[0].numel());
    });
  }
};
WEFT_OP(NormalOfSize);

// ---- filling what exists ---------------------------------------------------------------------------

struct Uniform {
  static constexpr Schema schema{
      "uniform(Tensor self, float from=0, float to=1, *, Generator? generator=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kUpdatesSelf;
  double from, to;
  Generator* generator;

  void infer(Inputs in, Meta* out) const {
    check_floating("uniform", in[0].dtype());
    if (!(from <= to)) fail("uniform_ expects to return a [from, to) range, but found from=", from, " > to=", to);
    const double most = in[0].dtype() == DType::Float64   ? std::numeric_limits<double>::max()
                        : in[0].dtype() == DType::Float16 ? 65504.0
                                                          : static_cast<double>(std::numeric_limits<float>::max());
    if (!(std::fabs(from) <= most && std::fabs(to) <= most && to - from <= most)) {
      fail("uniform_ expects to-from <= the largest ", dtype_name(in[0].dtype()), ", but found from=", from,
           " and to=", to);
    }
    out->like(in[0]);
  }
  void run(Inputs, Tensor* out) const {
    draw_into(out[0], generator, [&](random::Stream stream, void* data) {
      return cpu::fill_uniform(stream, out[0].dtype(), from, to, data, out[0].numel());
    });
  }
  static void vjp(Backward& b) { zero_gradients(b); }
};
WEFT_OP(Uniform);

struct Normal {
  static constexpr Schema schema{
      "normal(Tensor self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kUpdatesSelf;
  double mean, std;
  Generator* generator;

  void infer(Inputs in, Meta* out) const {
    check_floating("normal", in[0].dtype());
    check_deviation("normal", std);
    out->like(in[0]);
  }
  void run(Inputs, Tensor* out) const {
    draw_into(out[0], generator, [&](random::Stream stream, void* data) {
      return cpu::fill_normal(stream, out[0].dtype(), mean, std, data, out[0].numel());
    });
  }
  static void vjp(Backward& b) { zero_gradients(b); }
};
WEFT_OP(Normal);

struct LogNormal {
  static constexpr Schema schema{
      "log_normal(Tensor self, float mean=1, float std=2, *, Generator? generator=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kUpdatesSelf;
  double mean, std;
  Generator* generator;

  void infer(Inputs in, Meta* out) const {
    check_floating("log_normal", in[0].dtype());
    if (!(std > 0)) fail("log_normal_ expects std > 0.0, but found std=", std);
    out->like(in[0]);
  }
  void run(Inputs, Tensor* out) const {
    draw_into(out[0], generator, [&](random::Stream stream, void* data) {
      return cpu::fill_log_normal(stream, out[0].dtype(), mean, std, data, out[0].numel());
    });
  }
  static void vjp(Backward& b) { zero_gradients(b); }
};
WEFT_OP(LogNormal);

struct Exponential {
  static constexpr Schema schema{"exponential(Tensor self, float lambd=1, *, Generator? generator=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kUpdatesSelf;
  double rate;
  Generator* generator;

  void infer(Inputs in, Meta* out) const {
    if (!is_floating(in[0].dtype())) {
      fail(
          "Exponential distribution is a continuous probability distribution. dtype must be a floating point but you "
          "specified ",
          dtype_name(in[0].dtype()));
    }
    if (!(rate > 0)) fail("exponential_ expects lambda > 0.0, but found lambda=", rate);
    out->like(in[0]);
  }
  void run(Inputs, Tensor* out) const {
    draw_into(out[0], generator, [&](random::Stream stream, void* data) {
      return cpu::fill_exponential(stream, out[0].dtype(), rate, data, out[0].numel());
    });
  }
  static void vjp(Backward& b) { zero_gradients(b); }
};
WEFT_OP(Exponential);

struct Cauchy {
  static constexpr Schema schema{
      "cauchy(Tensor self, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kUpdatesSelf;
  double median, sigma;
  Generator* generator;

  void infer(Inputs in, Meta* out) const {
    if (!is_floating(in[0].dtype())) {
      fail(
          "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you "
          "specified ",
          dtype_name(in[0].dtype()));
    }
    if (!(sigma > 0)) fail("cauchy_ expects sigma > 0.0, but found sigma=", sigma);
    out->like(in[0]);
  }
  void run(Inputs, Tensor* out) const {
    draw_into(out[0], generator, [&](random::Stream stream, void* data) {
      return cpu::fill_cauchy(stream, out[0].dtype(), median, sigma, data, out[0].numel());
    });
  }
  static void vjp(Backward& b) { zero_gradients(b); }
};
WEFT_OP(Cauchy);

struct Geometric {
  static constexpr Schema schema{"geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kUpdatesSelf;
  double p;
  Generator* generator;

  void infer(Inputs in, Meta* out) const {
    if (!(p > 0 && p < 1)) fail("geometric_ expects p to be in (0, 1), but got p=", p);
    if (in[0].dtype() == DType::Bool || is_complex(in[0].dtype())) refuse_dtype("geometric", in[0].dtype());
    out->like(in[0]);
  }
  void run(Inputs, Tensor* out) const {
    draw_into(out[0], generator, [&](random::Stream stream, void* data) {
      return cpu::fill_geometric(stream, out[0].dtype(), p, data, out[0].numel());
    });
  }
  static void vjp(Backward& b) { zero_gradients(b); }
};
WEFT_OP(Geometric);

struct BernoulliWith {
  static constexpr Schema schema{"bernoulli.with(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kUpdatesSelf;
  static constexpr const char* backward_name = "BernoulliBackward1";
  Generator* generator;

  void infer(Inputs in, Meta* out) const {
    check_floating("bernoulli", in[1].dtype());
    out->like(in[0]);
  }
  void run(Inputs in, Tensor* out) const {
    Tensor p = empty(out[0].sizes(), in[1].dtype(), in[1]->device);
    copy_into(p, in[1]);
    Bernoulli::check_probabilities(p);
    draw_into(out[0], generator, [&](random::Stream stream, void* data) {
      return cpu::fill_bernoulli(stream, out[0].dtype(), p.dtype(), p->data, data, p.numel());
    });
  }
  static void vjp(Backward& b) { zero_gradients(b); }
};
WEFT_OP(BernoulliWith);

struct BernoulliFill {
  static constexpr Schema schema{"bernoulli.fill(Tensor self, float p=0.5, *, Generator? generator=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kUpdatesSelf;
  static constexpr const char* backward_name = "BernoulliBackward2";
  double p;
  Generator* generator;

  void infer(Inputs in, Meta* out) const {
    check_probability("bernoulli_", p);
    out->like(in[0]);
  }
  void run(Inputs in, Tensor* out) const { BernoulliOf{p, generator}.run(in, out); }
  static void vjp(Backward& b) { zero_gradients(b); }
};
WEFT_OP(BernoulliFill);

struct Random {
  static constexpr Schema schema{"random(Tensor self, *, Generator? generator=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kUpdatesSelf;
  static constexpr const char* backward_name = "RandomBackward2";
  Generator* generator;

  void infer(Inputs in, Meta* out) const { out->like(in[0]); }
  void run(Inputs, Tensor* out) const {
    const int64_t most = whole_numbers(out[0].dtype()).high;
    // [0, most]; the largest integer of int64 itself is left out.
    draw_integers(out[0], generator, 0, most == INT64_MAX ? most : most + 1);
  }
  static void vjp(Backward& b) { zero_gradients(b); }
};
WEFT_OP(Random);

struct RandomBelow {
  static constexpr Schema schema{"random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kUpdatesSelf;
  static constexpr const char* backward_name = "RandomBackward1";
  int64_t to;
  Generator* generator;

  void infer(Inputs in, Meta* out) const {
    check_range(in[0].dtype(), 0, to);
    out->like(in[0]);
  }
  void run(Inputs, Tensor* out) const { draw_integers(out[0], generator, 0, to); }
  static void vjp(Backward& b) { zero_gradients(b); }
};
WEFT_OP(RandomBelow);

struct RandomBetween {
  static constexpr Schema schema{"random.from(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kUpdatesSelf;
  static constexpr const char* backward_name = "RandomBackward0";
  int64_t from;
  std::optional<int64_t> to;
  Generator* generator;

  int64_t end(DType dtype) const {
    const int64_t most = whole_numbers(dtype).high;
    return to.value_or(most == INT64_MAX ? most : most + 1);
  }
  void infer(Inputs in, Meta* out) const {
    check_range(in[0].dtype(), from, end(in[0].dtype()));
    out->like(in[0]);
  }
  void run(Inputs, Tensor* out) const { draw_integers(out[0], generator, from, end(out[0].dtype())); }
  static void vjp(Backward& b) { zero_gradients(b); }
};
WEFT_OP(RandomBetween);

}  // namespace weft
