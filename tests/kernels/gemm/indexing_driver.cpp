// A C interface to the indexing kernels, for the tests in this folder.
#include "core/kernels/cpu/indexing.h"

using namespace weft;
using namespace weft::cpu;

namespace {

IndexStatus last_status;

bool keep(const IndexStatus& status) {
  last_status = status;
  return status.ok;
}

// `count` index tensors of one shape, and what they index.
struct Indices {
  AdvancedIndex index;
  IndexedDim dims[8];

  Indices(int count, const Strided* tensors, const int64_t* sizes, const int64_t* strides) {
    for (int i = 0; i < count; ++i)
      dims[i] = {tensors[i].data, tensors[i].strides, sizes[i], strides[i]};
    index = {tensors[0].ndim, tensors[0].sizes, count, dims};
  }
};

}  // namespace

extern "C" {

// which, value, position, size
void failure(int64_t* facts) {
  facts[0] = last_status.which;
  facts[1] = last_status.value;
  facts[2] = last_status.position;
  facts[3] = last_status.size;
}

bool index_check(const Strided* index, int64_t size) { return keep(check_index(*index, size)); }

void strided_copy(int item, const Strided* dst, const Strided* src) {
  copy_strided(item, *dst, *src);
}

bool get(int item, const Strided* out, const Strided* rest, int count, const Strided* tensors,
         const int64_t* sizes, const int64_t* strides) {
  return keep(index_get(item, *out, *rest, Indices(count, tensors, sizes, strides).index));
}

bool put(int dtype, const Strided* rest, int count, const Strided* tensors, const int64_t* sizes,
         const int64_t* strides, const Strided* values, bool accumulate) {
  return keep(index_put(static_cast<DType>(dtype), *rest,
                        Indices(count, tensors, sizes, strides).index, *values, accumulate));
}

bool select(int item, const Strided* out, const Strided* self, int dim, const Strided* index) {
  return keep(index_select(item, *out, *self, dim, *index));
}

bool write(int dtype, const Strided* self, int dim, const Strided* index, const Strided* values,
           bool accumulate) {
  return keep(index_write(static_cast<DType>(dtype), *self, dim, *index, *values, accumulate));
}

bool gather_along(int item, const Strided* out, const Strided* self, int dim,
                  const Strided* index) {
  return keep(gather(item, *out, *self, dim, *index));
}

bool scatter_along(int kind, int dtype, const Strided* self, int dim, const Strided* index,
                   const Strided* src, bool include_self) {
  return keep(scatter(static_cast<Scatter>(kind), static_cast<DType>(dtype), *self, dim, *index,
                      *src, include_self));
}

int64_t mask_count(const Strided* mask) { return count_true(*mask); }
void mask_select(int item, void* out, const Strided* self, const Strided* mask) {
  masked_select(item, out, *self, *mask);
}
void mask_scatter(int item, const Strided* self, const Strided* mask, const void* source) {
  masked_scatter(item, *self, *mask, source);
}

int64_t nonzero_count(int dtype, const Strided* self) {
  return count_nonzero_elements(static_cast<DType>(dtype), *self);
}
void nonzero_places(int dtype, const Strided* self, int64_t* out) {
  nonzero(static_cast<DType>(dtype), *self, out);
}

void count_bins(const Strided* x, const Strided* weights, int weights_dtype, int64_t bins,
                void* counts) {
  bincount(*x, weights, static_cast<DType>(weights_dtype), bins, counts);
}

bool search(int dtype, const Strided* out, const Strided* sorted, const Strided* values, bool right,
            const Strided* sorter) {
  return keep(searchsorted(static_cast<DType>(dtype), *out, *sorted, *values, right, sorter));
}

}  // extern "C"
