// Losses that training loops call at every step. The others are written in Python (weft/ops/losses.py).
#include <algorithm>
#include <memory>
#include <string>

#include "core/graph/diagnosis.h"
#include "core/kernels/cpu/class_loss.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce_common.h"
#include "core/ops/softmax.h"

namespace weft {

Tensor mean_all(const Tensor& a);  // reduce.cpp

namespace {

// How the losses of the places become one number. The values are PyTorch's.
enum LossReduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

int64_t reduction_named(const std::string& name) {
  if (name == "mean") return kMean;
  if (name == "sum") return kSum;
  if (name == "none") return kNone;
  fail(ErrorKind::Value, name, " is not a valid value for reduction");
}

Tensor reduced(const Tensor& losses, int64_t reduction) {
  return reduction == kMean ? mean_all(losses) : reduction == kSum ? sum_all(losses) : losses;
}

DType accumulating_dtype(DType dtype) { return dtype == DType::Float64 ? DType::Float64 : DType::Float32; }

int class_dim(int ndim) { return ndim <= 1 ? 0 : 1; }

// The target has the input's shape without the classes. A single place may come without a batch.
void check_target_shape(IntSpan input, IntSpan target) {
  const size_t ndim = input.size();
  if (ndim == 0) fail(ErrorKind::Value, "Expected 1 or more dimensions (got 0)");
  if (ndim == 1) {
    if (target.size() > 1) fail("0D or 1D target tensor expected, multi-target not supported");
    if (target.size() == 1 && target[0] != 1) {
      fail("For 1D input, 1D target must have size 1, but got target size: ", target[0]);
    }
    return;
  }
  const bool fits = target.size() == ndim - 1 && target[0] == input[0] &&
                    std::equal(target.begin() + 1, target.end(), input.begin() + 2);
  if (fits) return;
  const int64_t target_batch = target.empty() ? 0 : target[0];
  if (target_batch != input[0]) {
    fail(ErrorKind::Value, "Expected input batch_size (", input[0], ") to match target batch_size (", target_batch,
         ").");
  }
  Dims wanted{input[0]};
  for (size_t d = 2; d < ndim; ++d) wanted.push_back(input[d]);
  if (ndim == 2) fail("0D or 1D target tensor expected, multi-target not supported");
  fail("Expected target size ", shape_text(wanted), ", got ", shape_text(target));
}

void check_targets(IntSpan input, const Tensor& target, const Tensor& weight, DType dtype) {
  require_floating("nll_loss", dtype);
  check_target_shape(input, target.sizes());
  if (target.dtype() != DType::Int64 && target.dtype() != DType::UInt8) {
    fail("expected target dtype to be Long or Byte, but got ", dtype_name(target.dtype()),
         " (class indices are int64; class "
         "probabilities, for cross_entropy, have the shape of the input)");
  }
  if (!weight) return;
  const int64_t classes = input[class_dim(static_cast<int>(input.size()))];
  if (weight.ndim() != 1 || weight.numel() != classes) {
    fail("weight tensor should be defined either for all ", classes,
         " classes or no classes but got weight tensor of shape: ", shape_text(weight.sizes()));
  }
  if (weight.dtype() != dtype) {
    fail("expected scalar type ", dtype_name(dtype), " but found ", dtype_name(weight.dtype()), " (weight)");
  }
}

[[gnu::cold]] void fail_target(const cpu::TargetStatus& status) {
  fail(ErrorKind::Index, "Target ", status.value, " is out of bounds.");
}

Tensor dense_target(const Tensor& target) {
  if (target.dtype() != DType::Int64) return values_as(target, DType::Int64);
  return target->is_contiguous() ? target : detached_copy(target);
}
Tensor dense_weight(const Tensor& weight) {
  return weight && !weight->is_contiguous() ? detached_copy(weight) : weight;
}

// Numbers of one dtype, Float32 or Float64, for the length of one kernel call.
class Scratch {
 public:
  Scratch(int64_t count, DType dtype) : count_(count), dtype_(dtype) {
    if (count * item_size(dtype) > int64_t{sizeof few_})
      many_.reset(new char[static_cast<size_t>(count) * item_size(dtype)]);
  }
  char* data() { return many_ ? many_.get() : few_; }
  double sum() {
    const int64_t step = item_size(dtype_);
    alignas(8) char total[8];
    cpu::reduce(cpu::Reduction::Sum, dtype_, dtype_, total, {data(), 0, nullptr, nullptr}, 1, &count_, &step);
    return value(total);
  }
  double value(const char* at) const {
    if (dtype_ == DType::Float64) return *reinterpret_cast<const double*>(at);
    return *reinterpret_cast<const float*>(at);
  }

 private:
  int64_t count_;
  DType dtype_;
  alignas(64) char few_[1024];
  std::unique_ptr<char[]> many_;
};

double value_of(const Tensor& number) {
  return number.dtype() == DType::Float64 ? *number.data<double>() : *number.data<float>();
}
// Of a floating tensor with one element.
void set_value(const Tensor& number, double value) {
  switch (number.dtype()) {
    case DType::Float64: *number.data<double>() = value; break;
    case DType::Float32: *number.data<float>() = static_cast<float>(value); break;
    default: copy_into(number, wrapped_number(Scalar(value)));
  }
}

}  // namespace

// ---- class indices ----------------------------------------------------------------------------------

// Given log-probabilities; the second result is the weight of all places, by which the mean divides.
struct NllLoss {
  static constexpr Schema schema{
      "nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index) -> (Tensor, "
      "Tensor)"};
  static constexpr uint32_t traits = kReduction | kFirstOutputOnly;
  static constexpr Saves saves{{input(1) | input(2) | output(1)}};
  int64_t reduction, ignore_index;

  void infer(Inputs in, Meta* out) const {
    check_targets(in[0].sizes(), in[1], in[2], in[0].dtype());
    out[0].set(in[0].dtype(), in[0]->device, reduction == kNone ? in[1].sizes() : IntSpan());
    out[1].set(accumulating_dtype(in[0].dtype()), in[0]->device, {});
  }
  void run(Inputs in, Tensor* out) const {
    const DType wide = out[1].dtype();
    const Tensor target = dense_target(in[1]), weight = dense_weight(in[2]);
    const Tensor each = reduction != kNone ? Tensor() : out[0].dtype() == wide ? out[0] : empty(in[1].sizes(), wide);
    Scratch losses(each ? 0 : target.numel(), wide), weights(target.numel(), wide);
    const auto status = cpu::class_losses(in[0].dtype(), KernelView(in[0]), class_dim(in[0].ndim()),
                                          target.data<int64_t>(), weight ? weight->data : nullptr, ignore_index,
                                          each ? each->data : losses.data(), weights.data());
    if (!status) fail_target(status);
    set_value(out[1], weights.sum());
    if (each) return each.get() == out[0].get() ? void() : copy_into(out[0], each);
    set_value(out[0], reduction == kMean ? losses.sum() / value_of(out[1]) : losses.sum());
  }
  static void vjp(Backward& b);
};
WEFT_OP(NllLoss);

struct NllLossGrad {
  static constexpr Schema schema{
      "nll_loss_grad(Tensor grad, Tensor target, Tensor? weight, Tensor total_weight, int[] sizes, int reduction, "
      "int ignore_index) -> Tensor"};
  static constexpr Saves saves{{input(1) | input(2)}};
  static constexpr const char* backward_name = "NllLossBackwardBackward0";
  Dims sizes;
  int64_t reduction, ignore_index;

  void infer(Inputs in, Meta* out) const {
    check_targets(sizes, in[1], in[2], in[0].dtype());
    const int64_t places = reduction == kNone ? in[1].numel() : 1;
    if (in[0].numel() != places || in[3].numel() != 1 || !is_floating(in[3].dtype()) || item_size(in[3].dtype()) < 4) {
      fail("nll_loss_grad(): ", places, " gradients and one total weight expected, got ", describe(in[0].get()),
           " and ", describe(in[3].get()));
    }
    out->set(in[0].dtype(), in[0]->device, sizes);
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor target = dense_target(in[1]), weight = dense_weight(in[2]);
    const Tensor grad = in[0]->is_contiguous() ? in[0] : detached_copy(in[0]);
    const auto status =
        cpu::class_losses_backward(out[0].dtype(), KernelView(out[0]), class_dim(sizes.size()), target.data<int64_t>(),
                                   weight ? weight->data : nullptr, ignore_index, grad->data,
                                   reduction == kNone ? 1 : 0, reduction == kMean ? value_of(in[3]) : 1.0);
    if (!status) fail_target(status);
  }
  // The loss is linear in the log-probabilities, so the derivative of its derivative is the loss.
  static void vjp(Backward& b);
};
WEFT_OP(NllLossGrad);

namespace {

struct NllResult { Tensor loss, total_weight; };
NllResult nll_forward(const Tensor& a, const Tensor& target, const Tensor& weight, int64_t reduction,
                      int64_t ignore_index) {
  const NllLoss op{reduction, ignore_index};
  TensorImpl* in[] = {a.get(), target.get(), weight.get()};
  Tensor out[2];
  apply(op_NllLoss, &op, Inputs(in, 3), out);
  return {std::move(out[0]), std::move(out[1])};
}
Tensor nll_loss(const Tensor& a, const Tensor& target, const Tensor& weight, int64_t reduction, int64_t ignore_index) {
  return nll_forward(a, target, weight, reduction, ignore_index).loss;
}

}  // namespace

void NllLoss::vjp(Backward& b) {
  const NllLoss& op = b.op<NllLoss>();
  if (!b.needs(0)) return;
  b.set(0, call(op_NllLossGrad, NllLossGrad{Dims(b.input_sizes(0)), op.reduction, op.ignore_index}, b.grad(),
                b.input(1), b.input(2), b.output(1)));
}

void NllLossGrad::vjp(Backward& b) {
  const NllLossGrad& op = b.op<NllLossGrad>();
  if (b.needs(0)) b.set(0, nll_loss(b.grad(), b.input(1), b.input(2), op.reduction, op.ignore_index));
}

struct NllLossNd {
  static constexpr Schema schema{
      "nll_loss(Tensor self, Tensor target, Tensor? weight=None, str reduction='mean', int ignore_index=-100) -> "
      "Tensor"};
  std::string reduction;
  int64_t ignore_index;

  Tensor compose(Inputs in) const { return nll_loss(in[0], in[1], in[2], reduction_named(reduction), ignore_index); }
};
WEFT_OP(NllLossNd);

// ---- cross-entropy ----------------------------------------------------------------------------------

namespace {

void check_class_weight(const Tensor& weight, int64_t classes) {
  if (weight && (weight.ndim() != 1 || weight.numel() != classes)) {
    fail("cross_entropy: weight tensor should be defined either for all ", classes,
         " classes or no classes but got weight "
         "tensor of shape: ",
         shape_text(weight.sizes()));
  }
}

// A weight for each class, lined up with the classes of a.
Tensor along_classes(const Tensor& weight, const Tensor& a) {
  Dims shape;
  shape.resize(a.ndim());
  std::fill_n(shape.data(), a.ndim(), 1);
  shape[class_dim(a.ndim())] = weight.numel();
  return reshape(weight, shape);
}

// Against probabilities of all classes.
Tensor soft_cross_entropy(const Tensor& a, Tensor target, const Tensor& weight, int64_t reduction, double smoothing) {
  const int dim = class_dim(a.ndim());
  const int64_t classes = a.size(dim);
  check_class_weight(weight, classes);
  if (smoothing > 0) target = target * (1.0 - smoothing) + smoothing / static_cast<double>(classes);
  Tensor products = log_softmax(a, dim) * target;
  if (weight) products = products * along_classes(weight, a);
  if (reduction == kNone) return neg(sum(products, Dims{dim}, false));
  const Tensor total = neg(sum_all(products));
  if (reduction == kSum) return total;
  return total / number(static_cast<double>(a.numel()) / static_cast<double>(classes));
}

// Against class indices that are mixed with all classes in equal parts.
Tensor smoothed_cross_entropy(const Tensor& a, const Tensor& target, const Tensor& weight, int64_t reduction,
                              int64_t ignore_index, double smoothing) {
  const int dim = class_dim(a.ndim());
  const int64_t classes = a.size(dim);
  const Tensor log_p = log_softmax(a, dim);
  const NllResult hard = nll_forward(log_p, target, weight, reduction, ignore_index);
  Tensor smooth = neg(sum(weight ? log_p * along_classes(weight, a) : log_p, Dims{dim}, false));
  smooth = where(reshape(eq(target, number(ignore_index)), smooth.sizes()), number(0.0), smooth);
  if (reduction == kMean) smooth = sum_all(smooth) / hard.total_weight;
  else if (reduction == kSum) smooth = sum_all(smooth);
  else smooth = reshape(smooth, hard.loss.sizes());
  return hard.loss * (1.0 - smoothing) + smooth * (smoothing / static_cast<double>(classes));
}

}  // namespace

struct CrossEntropy {
  static constexpr Schema schema{
      "cross_entropy(Tensor self, Tensor target, Tensor? weight=None, str reduction='mean', int ignore_index=-100, "
      "float label_smoothing=0.0) -> Tensor"};
  std::string reduction;
  int64_t ignore_index;
  double label_smoothing;

  Tensor compose(Inputs in) const {
    const Tensor &a = in[0], &target = in[1], &weight = in[2];
    const int64_t reduce = reduction_named(reduction);
    if (!(label_smoothing >= 0.0 && label_smoothing <= 1.0)) {
      fail("label_smoothing must be between 0.0 and 1.0. Got: ", label_smoothing);
    }
    if (a.ndim() == 0) fail(ErrorKind::Value, "Expected 1 or more dimensions (got 0)");
    if (std::equal(a.sizes().begin(), a.sizes().end(), target.sizes().begin(), target.sizes().end())) {
      if (!is_floating(target.dtype())) {
        fail("Expected floating point type for target with class probabilities, got ", dtype_name(target.dtype()));
      }
      if (ignore_index >= 0) fail("ignore_index is not supported for floating point target");
      return soft_cross_entropy(a, target, weight, reduce, label_smoothing);
    }
    check_class_weight(weight, a.size(class_dim(a.ndim())));
    if (label_smoothing > 0) return smoothed_cross_entropy(a, target, weight, reduce, ignore_index, label_smoothing);
    return nll_loss(log_softmax(a, class_dim(a.ndim())), target, weight, reduce, ignore_index);
  }
};
WEFT_OP(CrossEntropy);

// ---- differences ------------------------------------------------------------------------------------

struct MseLoss {
  static constexpr Schema schema{"mse_loss(Tensor self, Tensor target, str reduction='mean') -> Tensor"};
  std::string reduction;

  Tensor compose(Inputs in) const {
    const IntSpan input = in[0].sizes(), target = in[1].sizes();
    if (is_integral(in[0].dtype()) && is_integral(in[1].dtype())) require_floating("mse_loss", in[0].dtype());
    const Tensor difference = in[0] - in[1];
    if (!std::equal(input.begin(), input.end(), target.begin(), target.end())) {
      const bool recorded = difference->requires_grad() && difference->grad_fn;
      if (recorded && in[0].numel() != 1 && in[1].numel() != 1) mark_broadcast(difference->grad_fn, in);
      const std::string text = "Using a target size (" + shape_text(target) +
                               ") that is different to the input size (" + shape_text(input) +
                               "). This will likely lead to incorrect results due to broadcasting. "
                               "Please ensure they have the same size.";
      python.warn(text.c_str());
    }
    return reduced(square(difference), reduction_named(reduction));
  }
};
WEFT_OP(MseLoss);

// ---- probabilities ----------------------------------------------------------------------------------

// -(t log x + (1 - t) log(1 - x)), with logarithms held above -100.
struct BinaryCrossEntropy {
  static constexpr Schema schema{"binary_cross_entropy_forward(Tensor self, Tensor target) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::binary_cross_entropy};
  static constexpr Saves saves{{input(0) | input(1), input(0)}};
  static constexpr const char* backward_name = "BinaryCrossEntropyBackward0";

  void check(Inputs in) const {
    if (in[0].dtype() == in[1].dtype()) return;
    fail("Found dtype ", dtype_name(in[1].dtype()), " but expected ", dtype_name(in[0].dtype()));
  }
  static void check_values(Inputs in) {
    const Tensor& x = in[0];
    if (x.numel() == 0 || !is_floating(x.dtype())) return;
    const ReducedDims dims(x.ndim(), std::optional<Dims>());
    const Tensor least = empty({}, x.dtype()), most = empty({}, x.dtype());
    run_reduction(cpu::Reduction::Amin, x, dims, least);
    run_reduction(cpu::Reduction::Amax, x, dims, most);
    if (!(value_of(values_as(least, accumulating_dtype(x.dtype()))) >= 0) ||
        !(value_of(values_as(most, accumulating_dtype(x.dtype()))) <= 1)) {
      fail("all elements of input should be between 0 and 1");
    }
  }
  static void vjp(Backward& b) {
    const Tensor x = b.input(0), rest = 1.0 - x;
    if (b.needs(0)) {
      const Tensor spread = x * rest, least = number(1e-12);
      b.set(0, b.grad() * (x - b.input(1)) / where(lt(spread, least), least, spread));
    }
    if (b.needs(1)) {
      auto held_log = [](const Tensor& p) {
        const Tensor y = log(p), least = number(-100.0);
        return where(lt(y, least), least, y);
      };
      b.set(1, b.grad() * (held_log(rest) - held_log(x)));
    }
  }
};
WEFT_OP(BinaryCrossEntropy);

}  // namespace weft
