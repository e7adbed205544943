// What the families that read and write by index share (index.cpp, gather.cpp, mask.cpp, sort.cpp,
// search.cpp), and what they offer to the derivatives of others.
#pragma once

#include "core/kernels/cpu/indexing.h"
#include "core/ops/functions.h"

namespace weft {

// ---- recorded operations ------------------------------------------------------------------------

Tensor gather(const Tensor& a, int64_t dim, const Tensor& index);
Tensor scatter(const Tensor& a, int64_t dim, const Tensor& index, const Tensor& src);
Tensor scatter(const Tensor& a, int64_t dim, const Tensor& index, Scalar value);
Tensor scatter_add(const Tensor& a, int64_t dim, const Tensor& index, const Tensor& src);
Tensor index_select(const Tensor& a, int64_t dim, const Tensor& index);
Tensor index_add(const Tensor& a, int64_t dim, const Tensor& index, const Tensor& source);
Tensor index_fill(const Tensor& a, int64_t dim, const Tensor& index, Scalar value);
Tensor masked_fill(const Tensor& a, const Tensor& mask, const Tensor& value);
Tensor masked_fill(const Tensor& a, const Tensor& mask, Scalar value);
void masked_fill_in_place(const Tensor& a, const Tensor& mask, const Tensor& value);
Tensor masked_select(const Tensor& a, const Tensor& mask);
Tensor masked_scatter(const Tensor& a, const Tensor& mask, const Tensor& source);
Tensor nonzero(const Tensor& a);

// The gradient of values that were chosen along `dim` of a tensor of shape `sizes` (max, median,
// topk, sort): `gradient`, put back at `indices`. Without keepdim, both lack that dimension.
Tensor selected_gradient(const Tensor& gradient, int64_t dim, const Tensor& indices, IntSpan sizes, bool keepdim);

// ---- indices ------------------------------------------------------------------------------------

// Index tensors (long, int, bool and byte masks; null: the whole dimension) as positions: for each
// dimension that is indexed an int64 or int32 tensor, masks taken apart.
struct Positions {
  Dims dims;
  std::vector<Tensor> tensors;
};
Positions positions_of(const Tensor& a, const std::vector<Tensor>& indices);
void index_put_in_place(const Tensor& a, const Positions& at, const Tensor& values, bool accumulate);

// What integers, slices, None and Ellipsis make of a tensor, in one view: where each dimension
// starts, and, for every dimension of the result, which one it comes from (-1: new, of size 1), its
// step and size.
class BasicSelection {
 public:
  explicit BasicSelection(int ndim) : ndim_(ndim) {
    for (int d = 0; d < ndim; ++d) starts_[d] = 0;
  }
  int results() const { return results_; }
  void start(int dim, int64_t at) { starts_[dim] = at; }
  void keep(int from, int64_t step, int64_t size) {
    if (results_ == kMostDims) fail("a tensor can have at most ", kMostDims, " dimensions");
    parts_[results_][0] = from;
    parts_[results_][1] = step;
    parts_[results_++][2] = size;
  }
  // The operation's attribute: starts, then a triple for each dimension of the result.
  Dims packed() const {
    Dims all;
    all.resize(ndim_ + 3 * results_);
    int64_t* at = all.data();
    for (int d = 0; d < ndim_; ++d) *at++ = starts_[d];
    for (int r = 0; r < results_; ++r)
      for (int64_t part : parts_[r]) *at++ = part;
    return all;
  }

 private:
  int ndim_, results_ = 0;
  int64_t starts_[kMostDims];
  int64_t parts_[kMostDims][3];
};
Tensor basic_index(const Tensor& a, const BasicSelection& selection);

// ---- kernels' arguments -------------------------------------------------------------------------

// A tensor as kernels see it, strides in bytes.
class Layout {
 public:
  explicit Layout(const Tensor& t) : data_(t->data), ndim_(t.ndim()), sizes_(t->dims) {
    const int64_t item = item_size(t.dtype());
    for (int d = 0; d < ndim_; ++d) strides_[d] = t.stride(d) * item;
  }
  // Broadcast to a shape.
  Layout(const Tensor& t, IntSpan shape) : data_(t->data), ndim_(static_cast<int>(shape.size())), sizes_(shape.data()) {
    const int64_t item = item_size(t.dtype());
    const int shift = ndim_ - t.ndim();
    for (int d = 0; d < ndim_; ++d) {
      strides_[d] = d < shift || (t.size(d - shift) == 1 && shape[d] != 1) ? 0 : t.stride(d - shift) * item;
    }
  }
  Layout(const Layout&) = delete;
  // A tensor without dimensions counts as one of a single element in one dimension.
  Layout& at_least_1d() {
    static constexpr int64_t one = 1;
    if (ndim_ == 0) {
      ndim_ = 1;
      sizes_ = &one;
      strides_[0] = 0;
    }
    return *this;
  }
  operator cpu::Strided() const { return {data_, ndim_, sizes_, strides_}; }

 private:
  char* data_;
  int ndim_;
  const int64_t* sizes_;
  int64_t strides_[kMostDims];
};

// int32 indices as int64.
Tensor long_index(const Tensor& index);
// An index that is not in [0, size), if there is one. Where negative indices are not allowed.
std::optional<int64_t> position_outside(const Tensor& index, int64_t size);
[[noreturn]] void fail_out_of_bounds(ErrorKind kind, int64_t index, int64_t dim, int64_t size);
// The shape that two tensors broadcast to, into `out`.
void broadcast_into(const Tensor& a, const Tensor& b, Meta* out);
// Float, Long, ...: how PyTorch's messages name dtypes.
const char* scalar_type_name(DType t);
// Refuses an in-place operation whose argument is the tensor that it writes to.
void check_not_written(const Tensor& argument, const Tensor& written);
// A gradient that waits for input 0 and may be added to in place now (see Backward::destination),
// or null.
TensorImpl* ready_destination(const Backward& b, const Tensor& gradient);
// A gradient of shape `sizes` that is `g` in its first rows, columns, ... and zero elsewhere.
Tensor padded_gradient(const Tensor& g, IntSpan sizes);

}  // namespace weft
