// What convolutions and the operations on windows of images share.
#pragma once

#include "core/kernels/cpu/convolution.h"
#include "core/ops/create.h"

namespace weft {

// Windows of an image: where a kernel is placed, along each spatial dimension.
struct Windows { Dims kernel, stride, padding, dilation; };

// One number stands for all dimensions; `name` is that of the parameter.
Dims spatial_list(const char* name, const Dims& given, int spatial);

// Sizes, strides and paddings that no calculation here can overflow with.
inline constexpr int64_t kLargestWindow = int64_t{1} << 31;
void refuse_huge(const char* name, const Dims& values);

// "2 x 3"
std::string sizes_text(IntSpan sizes);

// ---- images in memory ---------------------------------------------------------------------------

// Whether a tensor counts as channels-last: its strides say so, and not row-major at the same time.
bool is_channels_last(const Tensor& t);
// The result has that layout where it exists (4 and 5 dimensions).
void set_images(const Tensor& like, bool channels_last, Meta* out);

// A tensor as kernels take images; copied where its strides are neither.
class ImagesOf {
 public:
  explicit ImagesOf(const Tensor& t, DType dtype);
  operator cpu::Images() const { return {tensor_->data, channels_last_}; }

 private:
  Tensor tensor_;
  bool channels_last_;
};

// A result that a kernel writes: finish() brings it to where it belongs if that is elsewhere.
class ImagesInto {
 public:
  ImagesInto(const Tensor& target, DType dtype);                      // in whichever order the target has
  ImagesInto(const Tensor& target, DType dtype, bool channels_last);  // in this order
  operator cpu::Images() const { return {tensor_->data, channels_last_}; }
  char* data() const { return tensor_->data; }
  void finish() const;

 private:
  Tensor target_, tensor_;
  bool channels_last_;
};

// The dtype in which kernels compute: the 16 bit floats go through float32.
inline DType compute_dtype(DType dtype) {
  return dtype == DType::Float16 || dtype == DType::BFloat16 ? DType::Float32 : dtype;
}

}  // namespace weft
