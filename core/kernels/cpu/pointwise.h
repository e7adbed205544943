// Runs a tile kernel over operands of any layout and dtype: operands that are not contiguous runs of
// the compute dtype pass through small buffers, tile by tile.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/tiles.h"
#include "core/math/dtype.h"

namespace weft::cpu {

struct PointwiseOperand {
  char* data;
  DType dtype;             // as stored
  DType compute;           // as the tile kernel wants it
  bool direct;             // contiguous over the whole shape
  const int64_t* strides;  // elements, one per dimension of the shape (0 where broadcast)
};

inline constexpr int kMostOperands = 4;

struct PointwiseCall {
  TileFn tile;  // null: the operation is a copy of operand 1
  const void* functor;
  int ndim;
  const int64_t* sizes;
  int64_t numel;
  int operands;  // the result first
  PointwiseOperand operand[kMostOperands];
};

void run_pointwise(const PointwiseCall& call);

}  // namespace weft::cpu
