// Functions of one variable, with derivatives that use the result where that is cheaper.
#include "core/ops/functions.h"

namespace weft {

struct Exp {
  static constexpr Schema schema{"exp(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::exp, Promote::Float};
  static constexpr Saves saves{{output(0)}};

  static void vjp(Backward& b) { b.set(0, b.grad() * b.output()); }
};
WEFT_OP(Exp);

struct Log {
  static constexpr Schema schema{"log(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::log, Promote::Float};
  static constexpr Saves saves{{input(0)}};

  static void vjp(Backward& b) { b.set(0, b.grad() / b.input(0)); }
};
WEFT_OP(Log);

struct Sqrt {
  static constexpr Schema schema{"sqrt(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::sqrt, Promote::Float};
  static constexpr Saves saves{{output(0)}};

  static void vjp(Backward& b) { b.set(0, b.grad() / (b.output() * 2.0)); }
};
WEFT_OP(Sqrt);

extern const OpTable op_TanhGrad;
struct TanhGrad {
  static constexpr Schema schema{"tanh_grad(Tensor grad, Tensor output) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::tanh_grad};
  static constexpr Saves saves{{input(1), input(0) | input(1)}};

  static void vjp(Backward& b) {
    const Tensor y = b.input(1);
    if (b.needs(0)) b.set(0, call(op_TanhGrad, TanhGrad{}, b.grad(), y));
    if (b.needs(1)) b.set(1, b.grad() * b.input(0) * y * -2.0);
  }
};
WEFT_OP(TanhGrad);

struct Tanh {
  static constexpr Schema schema{"tanh(Tensor self) -> Tensor"};
  static constexpr Pointwise pointwise{Elementwise::tanh, Promote::Float};
  static constexpr Saves saves{{output(0)}};

  static void vjp(Backward& b) { b.set(0, call(op_TanhGrad, TanhGrad{}, b.grad(), b.output())); }
};
WEFT_OP(Tanh);

Tensor exp(const Tensor& a) { return call(op_Exp, Exp{}, a); }
Tensor log(const Tensor& a) { return call(op_Log, Log{}, a); }
Tensor sqrt(const Tensor& a) { return call(op_Sqrt, Sqrt{}, a); }
Tensor tanh(const Tensor& a) { return call(op_Tanh, Tanh{}, a); }

}  // namespace weft
