// What creating, random and converting operations share.
#pragma once

#include <cstring>

#include "core/ops/functions.h"

namespace weft {

// The contract of creation: a tensor of that shape, of the dtype asked for or else of `dtype`.
void infer_created(const char* name, IntSpan sizes, const CreationOptions& options, DType dtype, Meta* out);
// The same like another tensor: its shape, and its dtype and device unless others are asked for.
void infer_like(const char* name, const Tensor& model, const CreationOptions& options,
                std::optional<int64_t> memory_format, Meta* out);

// ---- memory formats --------------------------------------------------------------------------------

enum MemoryFormat : int64_t { kContiguousFormat, kPreserveFormat, kChannelsLast, kChannelsLast3d };

// Strides of a result whose sizes are set: those of a format or, to preserve it, those of `model`.
void lay_out(Meta* out, int64_t memory_format, const Tensor& model);
bool is_laid_out(const Tensor& t, int64_t memory_format);

// ---- values ----------------------------------------------------------------------------------------

// Every element = value. Refuses numbers that the dtype cannot hold.
void fill_value(const Tensor& t, Scalar value);
Tensor zeros_like(const Tensor& a);
// The value of a tensor of one element.
Scalar single_number(const Tensor& t);

// A number as the dtype stores it.
struct StoredNumber { alignas(16) char bytes[16]; };
StoredNumber stored_number(Scalar value, DType dtype);

[[noreturn]] void refuse_complex(const char* name);

// "max_abs" not implemented for 'int64'
[[noreturn]] void refuse_dtype(const char* name, DType dtype);

}  // namespace weft
