// The update rules of the optimisers: what one step does to one element of a parameter.
//
// Note [An update rule]
// A rule is an aggregate of doubles: its hyperparameters, in the order in which weft/optim gives them.
// Beside each parameter it keeps `kScalars` numbers (the count of steps, products that grow with it) and
// `kStates` tensors of the parameter's shape. A step has two parts. `begin()` moves the numbers on and
// works out, once for a whole tensor and in double, everything that is the same for all its elements;
// the result, a `Step`, is then applied element by element: it changes the parameter and the states. Both
// parts are this one text, on every device and for every instruction set, so the bits are the same too.
//
// Formulas and their order of operations follow PyTorch's step for single tensors.
#pragma once

#include "core/math/arithmetic.h"
#include "core/math/exponential.h"

namespace weft::math::update {

inline constexpr int kMostScalars = 3, kMostStates = 3;

// The numbers kept beside one parameter. They are stored as float32 or float64, and so is every result.
struct Scalars {
  double value[kMostScalars];
  bool single;  // stored as float32
  bool fresh;   // this is the parameter's first step; its states hold zeros

  WEFT_FN double stored(double x) const { return single ? static_cast<double>(static_cast<float>(x)) : x; }
  WEFT_FN double set(int i, double x) {
    value[i] = stored(x);
    return value[i];
  }
  WEFT_FN double next_step() { return set(0, value[0] + 1); }
};

// ---- parts that several rules share -------------------------------------------------------------

// The gradient to descend: turned round to maximise, with the penalty on the parameter's size.
struct Descent {
  double sign, weight_decay;
  WEFT_FN Descent(double maximize, double decay) : sign(maximize != 0 ? -1.0 : 1.0), weight_decay(decay) {}
  template <class T> WEFT_FN T operator()(T grad, T param) const {
    const T directed = grad * static_cast<T>(sign);
    return weight_decay != 0 ? fma(static_cast<T>(weight_decay), param, directed) : directed;
  }
};

// Weight decay either joins the gradient, or shrinks the parameter by itself ("decoupled").
struct Decay {
  Descent descent;
  double shrink;
  WEFT_FN Decay(double maximize, double decay, double decoupled, double lr)
      : descent(maximize, decoupled != 0 ? 0.0 : decay), shrink(decoupled != 0 ? 1 - lr * decay : 1.0) {}
  // Shrinks the parameter and gives the gradient to descend.
  template <class T> WEFT_FN T operator()(T grad, T& param) const {
    param = param * static_cast<T>(shrink);
    return descent(grad, param);
  }
};

// A running average, moved towards a value by `weight`.
template <class T> WEFT_FN T moved(T average, T value, double weight) {
  return Lerp{}(average, value, static_cast<T>(weight));
}
// A running average of squares.
template <class T> WEFT_FN T moved_square(T average, T value, double keep) {
  return fma(static_cast<T>(1 - keep) * value, value, average * static_cast<T>(keep));
}

// ---- stochastic gradient descent ----------------------------------------------------------------

template <bool with_momentum> struct SgdRule {
  double lr, momentum, dampening, weight_decay, nesterov, maximize;
  static constexpr int kScalars = 0;
  static constexpr int kStates = with_momentum ? 1 : 0;  // momentum_buffer

  struct Step {
    Descent descent;
    double lr, momentum, keep, take;
    bool nesterov;
    template <class T> WEFT_FN void operator()(T& param, T grad, T* state) const {
      T direction = descent(grad, param);
      if constexpr (with_momentum) {
        const T buffer = fma(static_cast<T>(take), direction, state[0] * static_cast<T>(keep));
        direction = nesterov ? fma(static_cast<T>(momentum), buffer, direction) : buffer;
        state[0] = buffer;
      }
      param = fma(static_cast<T>(-lr), direction, param);
    }
  };
  WEFT_FN Step begin(Scalars& scalars) const {  // the first gradient enters the buffer undamped
    return {Descent(maximize, weight_decay),     lr,           momentum, scalars.fresh ? 0.0 : momentum,
            scalars.fresh ? 1.0 : 1 - dampening, nesterov != 0};
  }
};
using Sgd = SgdRule<false>;
using SgdMomentum = SgdRule<true>;

// ---- Adam and its relatives ---------------------------------------------------------------------

template <bool amsgrad> struct AdamRule {
  double lr, beta1, beta2, eps, weight_decay, decoupled, maximize;
  static constexpr int kScalars = 1;               // step
  static constexpr int kStates = amsgrad ? 3 : 2;  // exp_avg, exp_avg_sq, max_exp_avg_sq

  struct Step {
    Decay decay;
    double weight1, beta2, eps, step_size, root2;
    template <class T> WEFT_FN void operator()(T& param, T grad, T* state) const {
      const T g = decay(grad, param);
      const T mean = moved(state[0], g, weight1);
      const T square = moved_square(state[1], g, beta2);
      T bound = square;
      if constexpr (amsgrad) state[2] = bound = Maximum{}(state[2], square);
      const T denominator = sqrt(bound) / static_cast<T>(root2) + static_cast<T>(eps);
      param = param - static_cast<T>(step_size) * mean / denominator;
      state[0] = mean;
      state[1] = square;
    }
  };
  WEFT_FN Step begin(Scalars& scalars) const {
    const double step = scalars.next_step();
    return {Decay(maximize, weight_decay, decoupled, lr),
            1 - beta1,
            beta2,
            eps,
            lr / (1 - pow(beta1, step)),
            sqrt(1 - pow(beta2, step))};
  }
};
using Adam = AdamRule<false>;
using AdamAmsgrad = AdamRule<true>;

struct Nadam {
  double lr, beta1, beta2, eps, weight_decay, decoupled, momentum_decay, maximize;
  static constexpr int kScalars = 2;  // step, mu_product
  static constexpr int kStates = 2;   // exp_avg, exp_avg_sq

  struct Step {
    Decay decay;
    double weight1, beta2, eps, bias2, from_grad, from_mean;
    template <class T> WEFT_FN void operator()(T& param, T grad, T* state) const {
      const T g = decay(grad, param);
      const T mean = moved(state[0], g, weight1);
      const T square = moved_square(state[1], g, beta2);
      const T denominator = sqrt(square / static_cast<T>(bias2)) + static_cast<T>(eps);
      param = param - static_cast<T>(from_grad) * g / denominator;
      param = param - static_cast<T>(from_mean) * mean / denominator;
      state[0] = mean;
      state[1] = square;
    }
  };
  WEFT_FN Step begin(Scalars& scalars) const {
    const double step = scalars.next_step();
    const double mu = beta1 * (1 - 0.5 * pow(0.96, step * momentum_decay));
    const double mu_next = beta1 * (1 - 0.5 * pow(0.96, (step + 1) * momentum_decay));
    const double product = scalars.set(1, scalars.value[1] * scalars.stored(mu));
    return {Decay(maximize, weight_decay, decoupled, lr),
            1 - beta1,
            beta2,
            eps,
            1 - pow(beta2, step),
            lr * (1 - mu) / (1 - product),
            lr * mu_next / (1 - product * mu_next)};
  }
};

struct Radam {
  double lr, beta1, beta2, eps, weight_decay, decoupled, maximize;
  static constexpr int kScalars = 1;  // step
  static constexpr int kStates = 2;   // exp_avg, exp_avg_sq

  struct Step {
    Decay decay;
    double weight1, beta2, eps, step_size, root2, rectification;
    bool rectified;  // enough steps to trust the variance
    template <class T> WEFT_FN void operator()(T& param, T grad, T* state) const {
      const T g = decay(grad, param);
      const T mean = moved(state[0], g, weight1);
      const T square = moved_square(state[1], g, beta2);
      const T plain = static_cast<T>(step_size) * mean;
      const T adaptive = static_cast<T>(root2) / (sqrt(square) + static_cast<T>(eps));
      param = param - (rectified ? plain * adaptive * static_cast<T>(rectification) : plain);
      state[0] = mean;
      state[1] = square;
    }
  };
  WEFT_FN Step begin(Scalars& scalars) const {
    const double step = scalars.next_step();
    const double power2 = pow(beta2, step), bias2 = 1 - power2;
    const double longest = 2 / (1 - beta2) - 1;  // of the average's effective length
    const double length = longest - 2 * step * power2 / bias2;
    const bool rectified = length > 5;
    const double ratio = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length);
    return {Decay(maximize, weight_decay, decoupled, lr),
            1 - beta1,
            beta2,
            eps,
            lr / (1 - pow(beta1, step)),
            sqrt(bias2),
            rectified ? sqrt(ratio) : 1.0,
            rectified};
  }
};

struct Adamax {
  double lr, beta1, beta2, eps, weight_decay, maximize;
  static constexpr int kScalars = 1;  // step
  static constexpr int kStates = 2;   // exp_avg, exp_inf

  struct Step {
    Descent descent;
    double weight1, beta2, eps, step_size;
    template <class T> WEFT_FN void operator()(T& param, T grad, T* state) const {
      const T g = descent(grad, param);
      state[0] = moved(state[0], g, weight1);
      state[1] = Maximum{}(state[1] * static_cast<T>(beta2), abs(g) + static_cast<T>(eps));
      param = param - static_cast<T>(step_size) * state[0] / state[1];
    }
  };
  WEFT_FN Step begin(Scalars& scalars) const {
    const double step = scalars.next_step();
    return {Descent(maximize, weight_decay), 1 - beta1, beta2, eps, lr / (1 - pow(beta1, step))};
  }
};

// ---- rates from accumulated squares -------------------------------------------------------------

template <bool centered, bool with_momentum> struct RmspropRule {
  double lr, alpha, eps, weight_decay, momentum, maximize;
  static constexpr int kScalars = 1;                            // step
  static constexpr int kStates = 1 + centered + with_momentum;  // square_avg, grad_avg, momentum_buffer

  struct Step {
    Descent descent;
    double lr, alpha, eps, momentum;
    template <class T> WEFT_FN void operator()(T& param, T grad, T* state) const {
      const T g = descent(grad, param);
      T variance = state[0] = moved_square(state[0], g, alpha);
      if constexpr (centered) {
        state[1] = moved(state[1], g, 1 - alpha);
        variance = variance - state[1] * state[1];
      }
      const T deviation = sqrt(variance) + static_cast<T>(eps);
      if constexpr (with_momentum) {
        T& buffer = state[1 + centered];
        buffer = buffer * static_cast<T>(momentum) + g / deviation;
        param = fma(static_cast<T>(-lr), buffer, param);
      } else {
        param = param - static_cast<T>(lr) * g / deviation;
      }
    }
  };
  WEFT_FN Step begin(Scalars& scalars) const {
    scalars.next_step();
    return {Descent(maximize, weight_decay), lr, alpha, eps, momentum};
  }
};
using Rmsprop = RmspropRule<false, false>;
using RmspropCentered = RmspropRule<true, false>;
using RmspropMomentum = RmspropRule<false, true>;
using RmspropCenteredMomentum = RmspropRule<true, true>;

struct Adagrad {
  double lr, lr_decay, weight_decay, eps, maximize;
  static constexpr int kScalars = 1;  // step
  static constexpr int kStates = 1;   // sum

  struct Step {
    Descent descent;
    double rate, eps;
    template <class T> WEFT_FN void operator()(T& param, T grad, T* state) const {
      const T g = descent(grad, param);
      state[0] = fma(g, g, state[0]);
      param = param - static_cast<T>(rate) * g / (sqrt(state[0]) + static_cast<T>(eps));
    }
  };
  WEFT_FN Step begin(Scalars& scalars) const {
    const double step = scalars.next_step();
    return {Descent(maximize, weight_decay), lr / (1 + (step - 1) * lr_decay), eps};
  }
};

struct Adadelta {
  double lr, rho, eps, weight_decay, maximize;
  static constexpr int kScalars = 1;  // step
  static constexpr int kStates = 2;   // square_avg, acc_delta

  struct Step {
    Descent descent;
    double lr, rho, eps;
    template <class T> WEFT_FN void operator()(T& param, T grad, T* state) const {
      const T g = descent(grad, param);
      state[0] = moved_square(state[0], g, rho);
      const T delta = sqrt(state[1] + static_cast<T>(eps)) / sqrt(state[0] + static_cast<T>(eps)) * g;
      state[1] = moved_square(state[1], delta, rho);
      param = fma(static_cast<T>(-lr), delta, param);
    }
  };
  WEFT_FN Step begin(Scalars& scalars) const {
    scalars.next_step();
    return {Descent(maximize, weight_decay), lr, rho, eps};
  }
};

// ---- others -------------------------------------------------------------------------------------

struct Asgd {
  double lr, lambd, alpha, t0, weight_decay, maximize;
  static constexpr int kScalars = 3;  // step, eta, mu
  static constexpr int kStates = 1;   // ax

  struct Step {
    Descent descent;
    double shrink, eta, mu;
    template <class T> WEFT_FN void operator()(T& param, T grad, T* state) const {
      const T g = descent(grad, param);
      param = fma(static_cast<T>(-eta), g, param * static_cast<T>(shrink));
      state[0] = mu == 1 ? param : fma(param - state[0], static_cast<T>(mu), state[0]);
    }
  };
  WEFT_FN Step begin(Scalars& scalars) const {
    const double step = scalars.next_step(), eta = scalars.value[1], mu = scalars.value[2];
    scalars.set(1, lr / pow(1 + lambd * lr * step, alpha));
    scalars.set(2, 1 / (step - t0 > 1 ? step - t0 : 1.0));
    return {Descent(maximize, weight_decay), 1 - lambd * eta, eta, mu};
  }
};

struct Rprop {
  double eta_minus, eta_plus, smallest, largest, maximize;
  static constexpr int kScalars = 1;  // step
  static constexpr int kStates = 2;   // prev, step_size

  struct Step {
    Descent descent;
    double eta_minus, eta_plus, smallest, largest;
    template <class T> WEFT_FN void operator()(T& param, T grad, T* state) const {
      const T g = descent(grad, param);
      const T agreement = g * state[0];
      const T factor = agreement > 0 ? static_cast<T>(eta_plus) : agreement < 0 ? static_cast<T>(eta_minus) : T(1);
      state[1] = Clamp{}(state[1] * factor, static_cast<T>(smallest), static_cast<T>(largest));
      state[0] = factor == static_cast<T>(eta_minus) ? T(0) : g;  // where the sign turned, this step waits
      param = fma(-Sign{}(state[0]), state[1], param);
    }
  };
  WEFT_FN Step begin(Scalars& scalars) const {
    scalars.next_step();
    return {Descent(maximize, 0.0), eta_minus, eta_plus, smallest, largest};
  }
};

}  // namespace weft::math::update

// Every rule, in one explicit list: X(name, Rule).
#define WEFT_UPDATE_RULES(X)                            \
  X(sgd, Sgd)                                           \
  X(sgd_momentum, SgdMomentum)                          \
  X(adam, Adam)                                         \
  X(adam_amsgrad, AdamAmsgrad)                          \
  X(nadam, Nadam)                                       \
  X(radam, Radam)                                       \
  X(adamax, Adamax)                                     \
  X(rmsprop, Rmsprop)                                   \
  X(rmsprop_centered, RmspropCentered)                  \
  X(rmsprop_momentum, RmspropMomentum)                  \
  X(rmsprop_centered_momentum, RmspropCenteredMomentum) \
  X(adagrad, Adagrad)                                   \
  X(adadelta, Adadelta)                                 \
  X(asgd, Asgd)                                         \
  X(rprop, Rprop)

namespace weft {

#define WEFT_COUNT(name, Rule) +1
inline constexpr int kUpdateRules = 0 WEFT_UPDATE_RULES(WEFT_COUNT);
#undef WEFT_COUNT

}  // namespace weft
