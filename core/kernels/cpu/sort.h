// Sorting and selecting along one dim of strided memory, and the distinct values of a tensor.
//
// The order is PyTorch's: a NaN is greater than every number, -0 equals 0. Of equal elements the
// earlier comes first (in descending order too), so every result here is determined.
// All element types but the complex ones.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/strided.h"
#include "core/math/dtype.h"

namespace weft::cpu {

// values and indices (int64) have the sizes of x. values.data or indices.data may be null.
void sort(DType type, bool descending, Strided x, Strided values, Strided indices, int dim);

// The k largest or smallest, in order; values and indices have k elements along dim.
void topk(DType type, int64_t k, bool largest, Strided x, Strided values, Strided indices, int dim);

// The k-th smallest (k from 1) of each line; values and indices have 1 element along dim.
void kth_value(DType type, int64_t k, Strided x, Strided values, Strided indices, int dim);

// The lower median. A NaN in a line is its median; with ignore_nan, the median of the others (and
// NaN where there are none). Lines must not be empty.
void median(DType type, bool ignore_nan, Strided x, Strided values, Strided indices, int dim);

// The most frequent value of each line (the smallest of several) and its last place.
void mode(DType type, Strided x, Strided values, Strided indices, int dim);

// The distinct values of n contiguous elements in ascending order, and how many there are. values
// has room for n; inverse (n: where each element's value went) and counts (room for n) may be null.
// Every NaN is a value of its own.
int64_t unique(DType type, const void* x, int64_t n, void* values, int64_t* inverse, int64_t* counts);

// The same for runs of equal elements, which keep their order.
int64_t unique_consecutive(DType type, const void* x, int64_t n, void* values, int64_t* inverse, int64_t* counts);

// Sorts 64 bit keys: order[i] is the place of the i-th smallest; of equal ones the earlier first.
void argsort_keys(const uint64_t* keys, int64_t n, int64_t* order);

}  // namespace weft::cpu
