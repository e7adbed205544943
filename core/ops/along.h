// What the operations along one dimension share.
#pragma once

#include <algorithm>

#include "core/ops/indexing.h"

namespace weft {

// A tensor that is read or written along one of its dimensions.
struct AlongDim {
  Layout self;
  int dim;
  int64_t size;

  AlongDim(const Tensor& t, int64_t given_dim)
      : self(t), dim(static_cast<int>(wrap_dim(given_dim, t.ndim()))), size(t.ndim() == 0 ? 1 : t.size(dim)) {
    self.at_least_1d();
  }
};

// Positions along a dimension; negative ones are refused.
inline Tensor checked_index(const Tensor& index, const AlongDim& target, ErrorKind kind) {
  Tensor wide = long_index(index);
  if (const auto bad = position_outside(wide, target.size)) { fail_out_of_bounds(kind, *bad, target.dim, target.size); }
  return wide;
}

// The shape of a tensor, where one without dimensions counts as one of a single element.
inline int64_t extent(const Tensor& t, int d) { return t.ndim() == 0 ? 1 : t.size(d); }
inline int rank(const Tensor& t) { return std::max(t.ndim(), 1); }

}  // namespace weft
