// Copying, indexing, gathering, scattering and selecting on strided memory.
//
// Contract: the caller has checked shapes and dtypes; results do not overlap operands (but for the
// tensor that is written in place) and no result overlaps itself. The *values* of indices are
// checked here, all of them, before anything is written; they are int64. Negative ones count from
// the end, but in gather and scatter, where they are out of range (as in PyTorch).
// Kernels that only move elements take the element's size (1, 2, 4, 8 or 16 bytes) for a dtype.
//
// Where several indices name one place, the last one in row-major order wins, and sums are added
// in that order, whatever the number of threads. 16 bit floats are computed in float32 and rounded
// after every addition by index_put and index_write, once at the end by scatter (as PyTorch does).
//
// Made from these: take and put (index the flattened tensor), index_fill and scatter of a number
// (values whose strides are 0), index_reduce (scatter_reduce with an index of strides 0).
#pragma once

#include <cstdint>

#include "core/kernels/cpu/strided.h"
#include "core/math/dtype.h"

namespace weft::cpu {

// ---- indices ------------------------------------------------------------------------------------

// The first index, in row-major order, that is out of range.
struct IndexStatus {
  bool ok = true;
  int which = 0;         // of several index tensors
  int64_t value = 0;     // as the user wrote it
  int64_t position = 0;  // in the index tensor, row-major
  int64_t size = 0;      // of the dimension that was indexed

  explicit operator bool() const { return ok; }
};

// Every value must lie in [0, size), or, where negative ones count from the end, in [-size, size).
enum class Negative { FromEnd, Outside };
IndexStatus check_index(Strided index, int64_t size, Negative negative = Negative::FromEnd);

// The smallest and the largest value of an index tensor that is not empty.
struct IndexRange { int64_t smallest, largest; };
IndexRange index_range(Strided index);

// ---- copies -------------------------------------------------------------------------------------

// dst = src, of the same sizes. src may have strides of 0.
void copy_strided(int item_size, Strided dst, Strided src);

// ---- several dimensions indexed at once ---------------------------------------------------------

struct IndexedDim {
  const char* index;             // int64
  const int64_t* index_strides;  // in bytes, one for each dimension of the common index shape
  int64_t size, stride;          // of the dimension of self that it indexes; the stride in bytes
};

struct AdvancedIndex {
  int ndim;  // of the common index shape
  const int64_t* sizes;
  int count;  // of indexed dimensions, at least 1
  const IndexedDim* dims;
};

// `rest` is self without the indexed dimensions. The dimensions of out and values are those of the
// index, then those of rest; the caller permutes strides where the result shows them otherwise.
IndexStatus index_get(int item_size, Strided out, Strided rest, const AdvancedIndex& index);
IndexStatus index_put(DType dtype, Strided rest, const AdvancedIndex& index, Strided values, bool accumulate);

// One dimension by one index of one dimension: out and values have the dimensions of self, with the
// index's length along dim. index_add accumulates, index_copy and index_fill do not.
IndexStatus index_select(int item_size, Strided out, Strided self, int dim, Strided index);
IndexStatus index_write(DType dtype, Strided self, int dim, Strided index, Strided values, bool accumulate);

// ---- an index for every element, along one dimension --------------------------------------------

// out and index have the same sizes; self may be larger, and differs along dim.
IndexStatus gather(int item_size, Strided out, Strided self, int dim, Strided index);

enum class Scatter { Assign, Sum, Prod, Mean, Amax, Amin };

// src has at least the sizes of index. Mean divides by the number of elements that met (integers
// round down); Amax and Amin propagate NaN and are not for complex numbers. Without include_self,
// what stood in the places that are written does not count.
IndexStatus scatter(Scatter kind, DType dtype, Strided self, int dim, Strided index, Strided src,
                    bool include_self = true);

// ---- masks --------------------------------------------------------------------------------------

// Masks are bool, of the sizes of self.
int64_t count_true(Strided mask);
// out has room for count_true(mask) adjacent elements; row-major order.
void masked_select(int item_size, void* out, Strided self, Strided mask);
// source holds at least count_true(mask) adjacent elements.
void masked_scatter(int item_size, Strided self, Strided mask, const void* source);

int64_t count_nonzero_elements(DType dtype, Strided self);
// out: count_nonzero_elements(...) rows of self.ndim coordinates, adjacent.
void nonzero(DType dtype, Strided self, int64_t* out);

// ---- counting and searching ---------------------------------------------------------------------

// x has one dimension and no negative value; counts holds `bins` elements, more than the largest
// value: int64 without weights, else of weights_dtype, which is Float32 or Float64.
void bincount(Strided x, const Strided* weights, DType weights_dtype, int64_t bins, void* counts);

// Where each value would be inserted into the sorted last dimension: before its equals, or, with
// `right`, after them. NaN comes last. All have as many dimensions, at least 1, and the same sizes
// but for sorted's last; sorted has strides of 0 where rows are shared. `sorter` (int64, of
// sorted's sizes, may be null) holds the order in which sorted is sorted. out is int64.
IndexStatus searchsorted(DType dtype, Strided out, Strided sorted, Strided values, bool right, const Strided* sorter);

}  // namespace weft::cpu
