// The libraries for large products (oneDNN, OpenBLAS): shared objects that are shipped beside the
// extension module, loaded on first use and never linked. Where one is missing every function here
// says so and the caller takes weft's own kernels.
//
// Looked for in this order: the directory given to set_library_dir, by default lib/ beside the module
// that this code is part of, then those of the environment
// variable WEFT_LIBRARY_PATH (separated by colons).
#pragma once

#include <cstdint>

#include "core/kernels/cpu/gemm_kernels.h"

namespace weft::cpu {

enum class Library { onednn, openblas };

// To be called before the first product, where the libraries lie elsewhere.
void set_library_dir(const char* directory);

// "onednn" or "openblas". Loads the library if it was not yet.
bool library_available(const char* which);

// A function of a library by the name its documentation gives (OpenBLAS exports them with a prefix,
// which is added here); null where the library or the function is missing. OpenBLAS runs on the
// calling thread only.
void* library_symbol(Library library, const char* name);

// While one exists, oneDNN's work on this thread stays on this thread.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// ---- products -----------------------------------------------------------------------------------

// Each on the calling thread; false where the library is missing or cannot do it.

// float32, any strides of which one per operand is 1.
bool onednn_product_f32(const Product& product);
// a and b bfloat16 without gaps, c float32; only where the processor multiplies bfloat16.
bool onednn_product_bf16(const Product& product, void* (*scratch)(size_t bytes));
// Whether OpenBLAS's kernels use the widest vectors weft's own would: on AMD's processors it takes
// those for AVX2, at half the rate.
bool openblas_is_widest();
// float64, complex64, complex128.
bool openblas_product(DType dtype, const Product& product);

bool onednn_multiplies_bf16();

}  // namespace weft::cpu
