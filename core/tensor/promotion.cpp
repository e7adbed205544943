#include "core/tensor/promotion.h"

namespace weft {
namespace {

DType the_default = DType::Float32;

int category(DType t) { return t == DType::Bool ? 0 : is_integral(t) ? 1 : is_floating(t) ? 2 : 3; }

DType higher(DType a, DType b) { return category(a) > category(b) ? a : promote(a, b); }

}  // namespace

DType default_dtype() { return the_default; }
void set_default_dtype(DType t) { the_default = t; }

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);  // now a < b in the order of the enum
  if (is_complex(b)) return a == DType::Float64 ? DType::Complex128 : b;
  if (a == DType::UInt8 && is_integral(b)) return b == DType::Int8 ? DType::Int16 : b;
  if (a == DType::Float16 && b == DType::BFloat16) return DType::Float32;
  return b;
}

bool can_cast(DType from, DType to) {
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_floating(from) && is_integral(to)) return false;
  return !(from != DType::Bool && to == DType::Bool);
}

DType ResultType::get() const {
  // A Python float joins as the default dtype, a Python int as int64; either only lifts the category.
  if (!seen_[kDims] && !seen_[kZeroDim]) {
    return found_[kNumber] == DType::Float64 ? default_dtype() : found_[kNumber];
  }
  DType result;
  if (seen_[kDims]) {
    result = found_[kDims];
    if (seen_[kZeroDim] && category(found_[kZeroDim]) > category(result)) { result = higher(found_[kZeroDim], result); }
  } else {
    result = found_[kZeroDim];
  }
  if (seen_[kNumber] && category(found_[kNumber]) > category(result)) {
    DType number = found_[kNumber] == DType::Float64 ? default_dtype() : found_[kNumber];
    result = higher(number, result);
  }
  return result;
}

}  // namespace weft
