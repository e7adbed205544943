// Whole rows of a matrix, compared from their first element on.
#pragma once

#include <cstdint>

#include "core/math/dtype.h"

namespace weft::cpu {

// The rows of a contiguous matrix in ascending order; of equal rows the earlier first. A NaN is
// greater than every number. All element types but the complex ones.
void order_rows(DType type, const void* rows, int64_t count, int64_t width, int64_t* order);

// Groups equal rows that follow one another in `order`: group[i] is the group of the row that
// stands at place i. Returns the number of groups. NaN equals nothing.
int64_t group_rows(DType type, const void* rows, int64_t count, int64_t width, const int64_t* order, int64_t* group);

}  // namespace weft::cpu
