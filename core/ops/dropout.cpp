// Dropout: a product with noise that is zero with probability p, and 1 / (1 - p) otherwise. The noise comes
// from the generator's stream, so it does not depend on threads or layout.
#include "core/graph/generator.h"
#include "core/kernels/cpu/random.h"
#include "core/ops/create.h"

namespace weft {
namespace {

struct DropoutMask {
  static constexpr Schema schema{"dropout_mask(Tensor like, int[] size, float keep) -> Tensor"};
  static constexpr uint32_t traits = kRandom | kNeverDifferentiable;
  Dims size;
  double keep;

  void infer(Inputs in, Meta* out) const { out->set(in[0].dtype(), in[0]->device, size); }
  void run(Inputs, Tensor* out) const {
    default_generator().draw([&](random::Stream stream) {
      return cpu::fill_bernoulli(stream, out[0].dtype(), keep, out[0]->data, out[0].numel());
    });
  }
};

}  // namespace

WEFT_OP(DropoutMask);
extern const OpTable op_Mul;

namespace {

void check_probability(double p) {
  if (!(p >= 0 && p <= 1)) fail(ErrorKind::Value, "dropout probability has to be between 0 and 1, but got ", p);
}

// x * noise, where the noise has `size`, which x is broadcast from.
Tensor times_noise(const Tensor& x, IntSpan size, double p, bool inplace) {
  if (!is_floating(x.dtype())) {
    fail("result type Float can't be cast to the desired output type ", dtype_name(x.dtype()),
         ": dropout takes tensors of a floating point dtype");
  }
  Tensor noise;
  if (p == 1) {
    noise = zeros(size, x.dtype(), x->device);
  } else {
    noise = call(op_DropoutMask, DropoutMask{Dims(size), 1 - p}, x);
    noise = mul(noise, number(1 / (1 - p)));
  }
  if (!inplace) return mul(x, noise);
  struct {
  } no_fields;
  TensorImpl* in[] = {x.get(), noise.get()};
  apply_in_place(op_Mul, &no_fields, Inputs(in, 2));
  return x;
}

}  // namespace

struct Dropout {
  static constexpr Schema schema{
      "dropout(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor"};
  double p;
  bool training, inplace;

  Tensor compose(Inputs in) const {
    check_probability(p);
    const Tensor& x = in[0];
    if (!training || p == 0 || x.numel() == 0) return x;
    return times_noise(x, x.sizes(), p, inplace);
  }
};
WEFT_OP(Dropout);

// Whole channels at a time: the first two dimensions have noise of their own.
struct FeatureDropout {
  static constexpr Schema schema{"feature_dropout(Tensor input, float p, bool train, bool inplace=False) -> Tensor"};
  double p;
  bool train, inplace;

  Tensor compose(Inputs in) const {
    check_probability(p);
    const Tensor& x = in[0];
    if (!train || p == 0 || x.numel() == 0) return x;
    if (x.ndim() < 2) fail("Feature dropout requires at least 2 dimensions in the input");
    Dims size(x.sizes());
    for (int d = 2; d < x.ndim(); ++d) size[d] = 1;
    return times_noise(x, size, p, inplace);
  }
};
WEFT_OP(FeatureDropout);

}  // namespace weft
