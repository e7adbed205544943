// Every operation of weft: one line each, with the forms it is offered in. From this list come the
// bindings, the stubs, the reference, the test matrix and the gradient ledger.
#pragma once

#include "core/graph/op.h"

namespace weft {

enum Form : uint8_t {
  kFunction = 1,   // weft.name(...)
  kMethod = 2,     // tensor.name(...)
  kInPlace = 4,    // tensor.name_(...)
  kOut = 8,        // weft.name(..., out=)
  kFunctional = 16,  // weft.nn.functional.name(...)
};
inline constexpr uint8_t kFM = kFunction | kMethod;
inline constexpr uint8_t kFMO = kFM | kOut;
inline constexpr uint8_t kAll = kFMO | kInPlace;

}  // namespace weft

#define WEFT_OPS(X)                 \
  /* arithmetic.cpp */              \
  X(Add, kAll)                      \
  X(AddScaled, kAll)                \
  X(Sub, kAll)                      \
  X(SubScaled, kAll)                \
  X(Mul, kAll)                      \
  X(Div, kAll)                      \
  X(Neg, kAll)                      \
  X(Pow, kAll)                      \
  /* unary.cpp */                   \
  X(Exp, kAll)                      \
  X(Log, kAll)                      \
  X(Sqrt, kAll)                     \
  X(TanhGrad, 0)                    \
  X(Tanh, kAll)                     \
  /* compare.cpp */                 \
  X(Eq, kAll)                       \
  X(Ne, kAll)                       \
  X(Lt, kAll)                       \
  X(Le, kAll)                       \
  X(Gt, kAll)                       \
  X(Ge, kAll)                       \
  X(LogicalAnd, kAll)               \
  X(LogicalOr, kAll)                \
  X(LogicalXor, kAll)               \
  X(LogicalNot, kAll)               \
  X(Isnan, kFMO)                    \
  X(Isinf, kFMO)                    \
  X(Isfinite, kFMO)                 \
  X(Isposinf, kFMO)                 \
  X(Isneginf, kFMO)                 \
  X(Signbit, kFMO)                  \
  X(Where, kFMO)                    \
  /* copy.cpp */                    \
  X(Clone, kFM)                     \
  X(Copy, kInPlace)                 \
  X(Cast, 0)                        \
  X(Contiguous, kMethod)            \
  /* view.cpp */                    \
  X(View, kMethod)                  \
  X(Reshape, kFM)                   \
  X(Permute, kFM)                   \
  X(Transpose, kFM)                 \
  X(T, kFM)                         \
  X(Expand, kMethod)                \
  X(Select, kFM)                    \
  X(Slice, 0)                       \
  X(Narrow, kFM)                    \
  X(Squeeze, kFM)                   \
  X(SqueezeDim, kFM)                \
  X(Unsqueeze, kFM)                 \
  X(Diagonal, kFM)                  \
  X(Unfold, kMethod)                \
  X(AsStrided, kFM)                 \
  X(Detach, kFM)                    \
  X(Alias, 0)                       \
  X(ViewGradient, 0)                \
  X(AsStridedScatter, 0)            \
  /* reduce.cpp */                  \
  X(Sum, kFMO)                      \
  /* matmul.cpp */                  \
  X(Mm, kFMO)                       \
  X(Bmm, kFMO)                      \
  X(Mv, kFMO)                       \
  X(Dot, kFMO)                      \
  X(Matmul, kFMO)
