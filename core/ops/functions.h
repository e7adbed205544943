// The operations that derivative rules and other C++ callers are written with.
#pragma once

#include "core/graph/backward.h"
#include "core/graph/dispatch.h"
#include "core/graph/values.h"

namespace weft {

// Element-wise
extern const OpTable op_Add;
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor pow(const Tensor& a, const Tensor& b);
Tensor neg(const Tensor& a);
Tensor abs(const Tensor& a);
Tensor sign(const Tensor& a);
Tensor exp(const Tensor& a);
Tensor log(const Tensor& a);
Tensor sqrt(const Tensor& a);
Tensor sin(const Tensor& a);
Tensor cos(const Tensor& a);
Tensor sinh(const Tensor& a);
Tensor cosh(const Tensor& a);
Tensor tanh(const Tensor& a);
Tensor sigmoid(const Tensor& a);
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& a);
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor number(double value);  // weak in promotion, like a Python float
Tensor number(int64_t value);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& a) { return neg(a); }
inline Tensor operator*(const Tensor& a, double b) { return mul(a, number(b)); }
inline Tensor operator+(const Tensor& a, double b) { return add(a, number(b)); }
inline Tensor operator-(double a, const Tensor& b) { return sub(number(a), b); }
inline Tensor operator/(double a, const Tensor& b) { return div(number(a), b); }

// Copies and casts
Tensor to_dtype(const Tensor& a, DType dtype);
Tensor clone(const Tensor& a);
Tensor contiguous(const Tensor& a);
Tensor contiguous_copy(const Tensor& a);

// Views
Tensor view(const Tensor& a, IntSpan sizes);
Tensor reshape(const Tensor& a, IntSpan sizes);
Tensor expand(const Tensor& a, IntSpan sizes);
Tensor permute(const Tensor& a, IntSpan order);
Tensor transpose(const Tensor& a, int64_t d0, int64_t d1);
Tensor squeeze(const Tensor& a, int64_t dim);
Tensor unsqueeze(const Tensor& a, int64_t dim);
Tensor select(const Tensor& a, int64_t dim, int64_t index);
Tensor narrow(const Tensor& a, int64_t dim, int64_t start, int64_t length);
Tensor slice(const Tensor& a, int64_t dim, int64_t start, int64_t end, int64_t step);
Tensor as_strided(const Tensor& a, IntSpan sizes, IntSpan strides, int64_t offset);
Tensor detach(const Tensor& a);
Tensor view_of_all(const Tensor& a);  // another tensor over the same memory, with history

// Indexing
Tensor index(const Tensor& a, const std::vector<Tensor>& indices);
void index_put_into(const Tensor& a, const std::vector<Tensor>& indices, const Tensor& values);
void copy_in_place(const Tensor& to, const Tensor& from);  // Tensor.copy_

// Reductions
Tensor sum(const Tensor& a, IntSpan dims, bool keepdim);
Tensor sum_all(const Tensor& a);
// Undoes broadcasting: sums a gradient down to `sizes`.
Tensor sum_to(const Tensor& gradient, IntSpan sizes);
// A reduced gradient, broadcast back over the dimensions that were reduced.
Tensor expand_reduced(const Tensor& reduced, IntSpan sizes, IntSpan dims, bool keepdim);

// Products
Tensor matmul(const Tensor& a, const Tensor& b);

// Helpers of contracts
int64_t wrap_dim(int64_t dim, int64_t ndim);  // throws IndexError as PyTorch does
Dims all_dims(int64_t ndim);

}  // namespace weft
