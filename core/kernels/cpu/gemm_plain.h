// Products of the dtypes that neither a library nor a vector kernel carries.
#pragma once

#include "core/kernels/cpu/gemm_kernels.h"

namespace weft::cpu {

// Bool, the integers and, where OpenBLAS is missing, the complex types. On the calling thread.
void plain_product(DType dtype, const Product& product);

}  // namespace weft::cpu
