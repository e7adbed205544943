// Which dtype a mixed operation computes in. The rules are PyTorch's: among tensors with dimensions
// the larger dtype wins; 0-dim tensors and Python numbers count only if their category is higher.
#pragma once

#include "core/tensor/tensor.h"

namespace weft {

DType promote(DType a, DType b);
bool can_cast(DType from, DType to);
DType default_dtype();
void set_default_dtype(DType t);

class ResultType {
 public:
  void add(const TensorImpl* t) {
    add(t->dtype, (t->flags & kWrappedNumber) ? kNumber : t->ndim == 0 ? kZeroDim : kDims);
  }
  DType get() const;

 private:
  enum Rank { kDims, kZeroDim, kNumber, kRanks };
  void add(DType t, Rank rank) {
    found_[rank] = seen_[rank] ? promote(found_[rank], t) : t;
    seen_[rank] = true;
  }
  DType found_[kRanks];
  bool seen_[kRanks] = {};
};

}  // namespace weft
