// Every operation of weft: one line each, with the forms it is offered in. From this list come the
// bindings, the stubs, the reference, the test matrix and the gradient ledger.
#pragma once

#include "core/graph/op.h"

namespace weft {

enum Form : uint8_t {
  kFunction = 1,     // weft.name(...)
  kMethod = 2,       // tensor.name(...)
  kInPlace = 4,      // tensor.name_(...)
  kOut = 8,          // weft.name(..., out=)
  kFunctional = 16,  // weft.nn.functional.name(...)
};
inline constexpr uint8_t kFM = kFunction | kMethod;
inline constexpr uint8_t kFMO = kFM | kOut;
inline constexpr uint8_t kAll = kFMO | kInPlace;

}  // namespace weft

#define WEFT_OPS(X)                                \
  /* arithmetic.cpp */                             \
  X(Add, kAll)                                     \
  X(AddScaled, kAll)                               \
  X(Sub, kAll)                                     \
  X(SubScaled, kAll)                               \
  X(Mul, kAll)                                     \
  X(Div, kAll)                                     \
  X(Neg, kAll)                                     \
  X(Square, kAll)                                  \
  X(DivRounded, kAll)                              \
  X(FloorDivide, kAll)                             \
  X(TruncDivide, 0)                                \
  X(HalfTruncDivide, 0)                            \
  X(Remainder, kAll)                               \
  X(Fmod, kAll)                                    \
  X(Pow, kAll)                                     \
  X(PowTensor, 0)                                  \
  X(PowNumber, 0)                                  \
  X(Hypot, kAll)                                   \
  X(Atan2, kAll)                                   \
  X(Copysign, kAll)                                \
  X(Lerp, kAll)                                    \
  X(Addcmul, kAll)                                 \
  X(Addcdiv, kAll)                                 \
  /* unary.cpp */                                  \
  X(Abs, kAll)                                     \
  X(Sign, kAll)                                    \
  X(SqrtGrad, 0)                                   \
  X(RsqrtGrad, 0)                                  \
  X(ReciprocalGrad, 0)                             \
  X(Sqrt, kAll)                                    \
  X(Rsqrt, kAll)                                   \
  X(Reciprocal, kAll)                              \
  X(Exp, kAll)                                     \
  X(Exp2, kAll)                                    \
  X(Expm1, kAll)                                   \
  X(Log, kAll)                                     \
  X(Log2, kAll)                                    \
  X(Log10, kAll)                                   \
  X(Log1p, kAll)                                   \
  X(Sin, kAll)                                     \
  X(Cos, kAll)                                     \
  X(Tan, kAll)                                     \
  X(Asin, kAll)                                    \
  X(Acos, kAll)                                    \
  X(Atan, kAll)                                    \
  X(Sinh, kAll)                                    \
  X(Cosh, kAll)                                    \
  X(TanhGrad, 0)                                   \
  X(Tanh, kAll | kFunctional)                      \
  X(Asinh, kAll)                                   \
  X(Acosh, kAll)                                   \
  X(Atanh, kAll)                                   \
  /* special.cpp */                                \
  X(Erf, kAll)                                     \
  X(Erfc, kAll)                                    \
  X(Erfinv, kAll)                                  \
  X(Polygamma, 0)                                  \
  X(Trigamma, 0)                                   \
  X(Digamma, kAll)                                 \
  X(Lgamma, kAll)                                  \
  X(Logaddexp, kFMO)                               \
  X(Logaddexp2, kFMO)                              \
  X(Xlogy, kAll)                                   \
  X(Logit, kAll)                                   \
  X(Sinc, kAll)                                    \
  /* rounding.cpp */                               \
  X(Ceil, kAll)                                    \
  X(Floor, kAll)                                   \
  X(Trunc, kAll)                                   \
  X(Round, kAll)                                   \
  X(RoundDecimals, kAll)                           \
  X(Frac, kAll)                                    \
  X(Deg2rad, kAll)                                 \
  X(Rad2deg, kAll)                                 \
  X(ReplaceNonfinite, 0)                           \
  X(NanToNum, kAll)                                \
  /* bitwise.cpp */                                \
  X(BitwiseNot, kAll)                              \
  X(BitwiseAnd, kAll)                              \
  X(BitwiseOr, kAll)                               \
  X(BitwiseXor, kAll)                              \
  X(ShiftLeft, kAll)                               \
  X(ShiftRight, kAll)                              \
  X(Gcd, kAll)                                     \
  X(Lcm, kAll)                                     \
  /* activation.cpp */                             \
  X(SigmoidGrad, 0)                                \
  X(Sigmoid, kAll | kFunctional)                   \
  X(LogSigmoidGrad, 0)                             \
  X(LogSigmoid, kFunctional | kOut)                \
  X(SiluGrad, 0)                                   \
  X(Silu, kFunctional)                             \
  X(SiluInplace, kFunctional)                      \
  X(GeluGrad, 0)                                   \
  X(Gelu, kFunctional | kOut)                      \
  X(GeluTanhGrad, 0)                               \
  X(GeluTanh, 0)                                   \
  X(GeluApproximated, kFunctional | kOut)          \
  X(SoftplusGrad, 0)                               \
  X(Softplus, kFunctional | kOut)                  \
  X(EluGrad, 0)                                    \
  X(Elu, kFunctional)                              \
  X(EluInplace, kFunctional)                       \
  X(ReluGrad, 0)                                   \
  X(Relu, kFM | kInPlace | kFunctional)            \
  X(ReluInplace, kFunctional)                      \
  X(Relu6, kFunctional)                            \
  X(LeakyReluGrad, 0)                              \
  X(LeakyRelu, kFunctional)                        \
  X(LeakyReluInplace, kFunctional)                 \
  X(HardtanhGrad, 0)                               \
  X(Hardtanh, kFunctional)                         \
  X(HardtanhInplace, kFunctional)                  \
  X(Glu, kFunctional)                              \
  /* compare.cpp */                                \
  X(Eq, kAll)                                      \
  X(Ne, kAll)                                      \
  X(Lt, kAll)                                      \
  X(Le, kAll)                                      \
  X(Gt, kAll)                                      \
  X(Ge, kAll)                                      \
  X(LogicalAnd, kAll)                              \
  X(LogicalOr, kAll)                               \
  X(LogicalXor, kAll)                              \
  X(LogicalNot, kAll)                              \
  X(Isnan, kFM)                                    \
  X(Isinf, kFM)                                    \
  X(Isfinite, kFM)                                 \
  X(Isposinf, kFMO)                                \
  X(Isneginf, kFMO)                                \
  X(Signbit, kFMO)                                 \
  X(Where, kFunction | kOut)                       \
  X(Maximum, kFMO)                                 \
  X(Minimum, kFMO)                                 \
  X(Fmax, kFMO)                                    \
  X(Fmin, kFMO)                                    \
  X(Heaviside, kAll)                               \
  X(ClampMin, kAll)                                \
  X(ClampMax, kAll)                                \
  X(ClampBoth, kAll)                               \
  X(Clamp, kAll)                                   \
  /* copy.cpp */                                   \
  X(Clone, kFM)                                    \
  X(Copy, kInPlace)                                \
  X(Cast, 0)                                       \
  X(Contiguous, kMethod)                           \
  X(ToDType, kMethod)                              \
  X(ToDevice, kMethod)                             \
  X(ToOther, kMethod)                              \
  X(TypeAs, kMethod)                               \
  X(ToCpu, kMethod)                                \
  X(ToCuda, kMethod)                               \
  X(ToBool, kMethod)                               \
  X(ToByte, kMethod)                               \
  X(ToChar, kMethod)                               \
  X(ToShort, kMethod)                              \
  X(ToInt, kMethod)                                \
  X(ToLong, kMethod)                               \
  X(ToHalf, kMethod)                               \
  X(ToBFloat16, kMethod)                           \
  X(ToFloat, kMethod)                              \
  X(ToDouble, kMethod)                             \
  /* create.cpp */                                 \
  X(Empty, kFunction | kOut)                       \
  X(EmptyStrided, kFunction)                       \
  X(Zeros, kFunction | kOut)                       \
  X(Ones, kFunction | kOut)                        \
  X(Full, kFunction | kOut)                        \
  X(ScalarTensor, kFunction)                       \
  X(EmptyLike, kFunction)                          \
  X(ZerosLike, kFunction | kOut)                   \
  X(OnesLike, kFunction | kOut)                    \
  X(FullLike, kFunction | kOut)                    \
  X(NewEmpty, kMethod)                             \
  X(NewZeros, kMethod)                             \
  X(NewOnes, kMethod)                              \
  X(NewFull, kMethod)                              \
  X(NewEmptyStrided, kMethod)                      \
  X(Fill, kFM | kInPlace)                          \
  X(Zero, kInPlace)                                \
  X(Arange, kFunction | kOut)                      \
  X(ArangeFrom, kFunction | kOut)                  \
  X(Linspace, kFunction | kOut)                    \
  X(LinspaceTensors, kFunction | kOut)             \
  X(Eye, kFunction | kOut)                         \
  X(EyeOf, kFunction | kOut)                       \
  X(TrilIndices, kFunction)                        \
  X(TriuIndices, kFunction)                        \
  /* random.cpp */                                 \
  X(Rand, kFunction | kOut)                        \
  X(Randn, kFunction | kOut)                       \
  X(Randint, kFunction | kOut)                     \
  X(RandintFrom, kFunction | kOut)                 \
  X(Randperm, kFunction | kOut)                    \
  X(RandLike, kFunction)                           \
  X(RandnLike, kFunction)                          \
  X(RandintLike, kFunction)                        \
  X(RandintLikeFrom, kFunction)                    \
  X(Bernoulli, kFMO)                               \
  X(BernoulliOf, kFM)                              \
  X(BernoulliWith, kInPlace)                       \
  X(BernoulliFill, kInPlace)                       \
  X(Multinomial, kFMO)                             \
  X(NormalOfSize, kFunction | kOut)                \
  X(NormalBoth, kFunction | kOut)                  \
  X(NormalAround, kFunction | kOut)                \
  X(NormalSpread, kFunction | kOut)                \
  X(Normal, kInPlace)                              \
  X(Uniform, kInPlace)                             \
  X(LogNormal, kInPlace)                           \
  X(Exponential, kInPlace)                         \
  X(Cauchy, kInPlace)                              \
  X(Geometric, kInPlace)                           \
  X(Random, kInPlace)                              \
  X(RandomBelow, kInPlace)                         \
  X(RandomBetween, kInPlace)                       \
  /* view.cpp */                                   \
  X(View, kMethod)                                 \
  X(ViewDType, kMethod)                            \
  X(Reshape, kFM)                                  \
  X(Permute, kFM)                                  \
  X(Transpose, kFM | kInPlace)                     \
  X(Swapaxes, kFM | kInPlace)                      \
  X(Swapdims, kFM | kInPlace)                      \
  X(T, kFM | kInPlace)                             \
  X(Expand, kMethod)                               \
  X(Select, kFM)                                   \
  X(Slice, 0)                                      \
  X(Narrow, kFM)                                   \
  X(NarrowFrom, kFM)                               \
  X(Squeeze, kFM | kInPlace)                       \
  X(SqueezeDim, kFM | kInPlace)                    \
  X(Unsqueeze, kFM | kInPlace)                     \
  X(Diagonal, kFM)                                 \
  X(Unfold, kMethod)                               \
  X(Detach, kFM)                                   \
  X(Alias, 0)                                      \
  X(SelectScatter, kFM)                            \
  X(SliceScatter, kFMO)                            \
  X(DiagonalScatter, kFM)                          \
  /* strided.cpp */                                \
  X(AsStrided, kFM | kInPlace)                     \
  X(ViewGradient, 0)                               \
  X(AsStridedScatter, 0)                           \
  /* reshape.cpp */                                \
  X(Flatten, kFM)                                  \
  X(Unflatten, kFM)                                \
  X(Ravel, kFM)                                    \
  X(Movedim, kFM)                                  \
  X(Moveaxis, kFM)                                 \
  X(Adjoint, kFM)                                  \
  X(ViewAs, kMethod)                               \
  X(ReshapeAs, kMethod)                            \
  X(ExpandAs, kMethod)                             \
  X(BroadcastTo, kFM)                              \
  /* join.cpp */                                   \
  X(CatParts, 0)                                   \
  X(Cat, kFunction | kOut)                         \
  X(Concat, kFunction | kOut)                      \
  X(Concatenate, kFunction | kOut)                 \
  X(Stack, kFunction | kOut)                       \
  X(Split, kFM)                                    \
  X(SplitSizes, kFM)                               \
  X(SplitOf, kFunction)                            \
  X(SplitSizesOf, kFunction)                       \
  X(SplitWithSizes, kFM)                           \
  X(Chunk, kFM)                                    \
  X(Unbind, kFM)                                   \
  X(TensorSplitSections, kFM)                      \
  X(TensorSplitIndices, kFM)                       \
  X(TensorSplitTensor, kFM)                        \
  /* rearrange.cpp */                              \
  X(Flip, kFM)                                     \
  X(Roll, kFM)                                     \
  X(Tril, kAll)                                    \
  X(Triu, kAll)                                    \
  X(Repeat, kMethod)                               \
  X(Tile, kFM)                                     \
  X(RepeatedPositions, kFM)                        \
  X(RepeatInterleave, kFM)                         \
  X(RepeatInterleaveBy, kFM)                       \
  X(ConstantPad, kFunction)                        \
  X(DiagEmbed, kFM)                                \
  X(Diag, kFMO)                                    \
  /* reduce.cpp */                                 \
  X(Sum, kFMO)                                     \
  X(Mean, kFMO)                                    \
  X(Prod, kFMO)                                    \
  X(Nansum, kFMO)                                  \
  X(CountNonzero, kFMO)                            \
  X(AllReduction, kFMO)                            \
  X(AnyReduction, kFMO)                            \
  /* extremes.cpp */                               \
  X(Amax, kFMO)                                    \
  X(Amin, kFMO)                                    \
  X(Max, kFMO)                                     \
  X(MaxOther, kFMO)                                \
  X(MaxDim, kFMO)                                  \
  X(Min, kFMO)                                     \
  X(MinOther, kFMO)                                \
  X(MinDim, kFMO)                                  \
  X(Argmax, kFMO)                                  \
  X(Argmin, kFMO)                                  \
  X(Median, kFM)                                   \
  X(MedianDim, kFMO)                               \
  X(Nanmedian, kFM)                                \
  X(NanmedianDim, kFMO)                            \
  X(Cummax, kFMO)                                  \
  X(Cummin, kFMO)                                  \
  /* scan.cpp */                                   \
  X(RunningSum, 0)                                 \
  X(RunningProduct, 0)                             \
  X(LinearScan, 0)                                 \
  X(ShiftAlong, 0)                                 \
  X(Cumsum, kAll)                                  \
  X(Cumprod, kAll)                                 \
  X(Logcumsumexp, kFMO)                            \
  /* softmax.cpp */                                \
  X(Softmax, kFMO)                                 \
  X(SoftmaxGrad, 0)                                \
  X(LogSoftmax, kFMO)                              \
  X(LogSoftmaxGrad, 0)                             \
  X(Logsumexp, kFMO)                               \
  /* statistics.cpp */                             \
  X(VarMean, kFunction)                            \
  X(VarMeanUnbiased, kFunction)                    \
  X(VarMeanUnbiasedDim, kFunction)                 \
  X(StdMean, kFunction)                            \
  X(StdMeanUnbiased, kFunction)                    \
  X(StdMeanUnbiasedDim, kFunction)                 \
  X(Var, kFMO)                                     \
  X(VarUnbiased, kFM)                              \
  X(VarDim, kFMO)                                  \
  X(Std, kFMO)                                     \
  X(StdUnbiased, kFM)                              \
  X(StdDim, kFMO)                                  \
  X(VectorNorm, kFunction | kOut)                  \
  /* dropout.cpp */                                \
  X(DropoutMask, 0)                                \
  X(Dropout, kFunctional)                          \
  X(FeatureDropout, 0)                             \
  /* losses.cpp */                                 \
  X(NllLoss, 0)                                    \
  X(NllLossGrad, 0)                                \
  X(NllLossNd, 0)                                  \
  X(CrossEntropy, 0)                               \
  X(MseLoss, 0)                                    \
  X(BinaryCrossEntropy, 0)                         \
  /* normalisation.cpp */                          \
  X(RowNorm, 0)                                    \
  X(RowNormGrad, 0)                                \
  X(LayerNorm, kFunctional)                        \
  X(RmsNorm, kFunction | kFunctional)              \
  X(GroupNorm, kFunctional)                        \
  X(BatchNorm, 0)                                  \
  X(BatchNormGrad, 0)                              \
  X(BatchNormNd, kFunctional)                      \
  X(InstanceNorm, kFunctional)                     \
  /* attention.cpp */                              \
  X(Attention, 0)                                  \
  X(AttentionGrad, 0)                              \
  X(ScaledDotProductAttention, 0)                  \
  X(AttentionWeights, 0)                           \
  /* recurrent_sequence.cpp */                     \
  X(GruSequence, 0)                                \
  X(GruSequenceGrad, 0)                            \
  X(LstmSequence, 0)                               \
  X(LstmSequenceGrad, 0)                           \
  /* recurrent.cpp */                              \
  X(GruUpdate, 0)                                  \
  X(GruUpdateGrad, 0)                              \
  X(GruCell, kFunction)                            \
  X(LstmUpdate, 0)                                 \
  X(LstmUpdateGrad, 0)                             \
  X(LstmCell, 0)                                   \
  X(RnnTanhCell, kFunction)                        \
  X(RnnReluCell, kFunction)                        \
  X(GruLayer, 0)                                   \
  X(LstmLayer, 0)                                  \
  X(RnnLayer, 0)                                   \
  /* index.cpp */                                  \
  X(Index, 0)                                      \
  X(IndexGradient, 0)                              \
  X(IndexPut, kInPlace)                            \
  X(IndexPositions, 0)                             \
  X(BasicIndex, 0)                                 \
  /* gather.cpp */                                 \
  X(Gather, kFMO)                                  \
  X(ScatterTensor, kAll)                           \
  X(ScatterValue, kAll)                            \
  X(ScatterAdd, kAll)                              \
  X(ScatterReduce, kAll)                           \
  /* positions.cpp */                              \
  X(IndexAdd, kAll)                                \
  X(IndexSelect, kFMO)                             \
  X(IndexFill, kFM | kInPlace)                     \
  X(IndexCopy, kAll)                               \
  X(Put, kFM | kInPlace)                           \
  X(Take, kFMO)                                    \
  X(Embedding, kFunction)                          \
  /* mask.cpp */                                   \
  X(MaskedFill, kFM | kInPlace)                    \
  X(MaskedSelect, kFMO)                            \
  X(MaskedScatter, kFM | kInPlace)                 \
  X(Nonzero, kFMO)                                 \
  X(WhereNonzero, kFunction)                       \
  X(WhereMethod, kMethod)                          \
  /* sort.cpp */                                   \
  X(Sort, kFMO)                                    \
  X(Argsort, kFM)                                  \
  X(Topk, kFMO)                                    \
  X(Kthvalue, kFMO)                                \
  X(Unique, 0)                                     \
  /* search.cpp */                                 \
  X(Searchsorted, kFunction | kOut)                \
  X(Bucketize, kFunction | kOut)                   \
  X(Bincount, kFM)                                 \
  /* convolution.cpp */                            \
  X(Convolve, 0)                                   \
  X(ConvolveTransposed, 0)                         \
  X(ConvolveWeightGrad, 0)                         \
  X(Conv1d, kFunction | kFunctional)               \
  X(Conv1dNamed, kFunction | kFunctional)          \
  X(Conv2d, kFunction | kFunctional)               \
  X(Conv2dNamed, kFunction | kFunctional)          \
  X(Conv3d, kFunction | kFunctional)               \
  X(Conv3dNamed, kFunction | kFunctional)          \
  X(ConvTranspose1d, kFunction | kFunctional)      \
  X(ConvTranspose2d, kFunction | kFunctional)      \
  X(ConvTranspose3d, kFunction | kFunctional)      \
  /* pooling.cpp */                                \
  X(MaxWindows, 0)                                 \
  X(MaxAdaptive, 0)                                \
  X(AddAtIndices, 0)                               \
  X(TakeAtIndices, 0)                              \
  X(PutAtIndices, 0)                               \
  X(AverageWindows, 0)                             \
  X(AverageWindowsGrad, 0)                         \
  X(AverageAdaptive, 0)                            \
  X(AverageAdaptiveGrad, 0)                        \
  X(MaxPool1d, kFunction)                          \
  X(MaxPool1dWithIndices, kFunction | kFunctional) \
  X(MaxPool2d, kFunction)                          \
  X(MaxPool2dWithIndices, kFunctional)             \
  X(MaxPool3d, kFunction)                          \
  X(MaxPool3dWithIndices, kFunctional)             \
  X(AvgPool1d, kFunction | kFunctional)            \
  X(AvgPool2d, kFunctional | kOut)                 \
  X(AvgPool3d, kFunctional | kOut)                 \
  X(AdaptiveAvgPool1d, kFunction | kFunctional)    \
  X(AdaptiveMaxPool1dWithIndices, kFunctional)     \
  X(AdaptiveAvgPool2d, kFunctional)                \
  X(AdaptiveMaxPool2dWithIndices, kFunctional)     \
  X(AdaptiveAvgPool3d, kFunctional)                \
  X(AdaptiveMaxPool3dWithIndices, kFunctional)     \
  /* padding.cpp */                                \
  X(ExtendEdges, 0)                                \
  X(ExtendEdgesGrad, 0)                            \
  /* upsample.cpp */                               \
  X(Resample, 0)                                   \
  X(ResampleGrad, 0)                               \
  /* unfold.cpp */                                 \
  X(ImageToColumns, 0)                             \
  X(ColumnsToImage, 0)                             \
  /* matmul.cpp */                                 \
  X(Product, 0)                                    \
  X(SumOfOuter, 0)                                 \
  X(Mm, kFMO)                                      \
  X(Bmm, kFMO)                                     \
  X(Mv, kFMO)                                      \
  X(Dot, kFMO)                                     \
  X(Vdot, kFMO)                                    \
  X(Matmul, kFMO)                                  \
  /* svd.cpp */                                    \
  X(LinalgSvd, 0)                                  \
  X(PolarFactor, 0)                                \
  X(NuclearNorm, 0)                                \
  /* linear.cpp */                                 \
  X(Addmm, kAll)                                   \
  X(Addmv, kAll)                                   \
  X(Addbmm, kAll)                                  \
  X(Baddbmm, kAll)                                 \
  X(Linear, kFunctional | kOut)
