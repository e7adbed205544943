"""The same functors through NVRTC: one kernel per dtype that switches over every operation."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

# One kernel per compute dtype: out[i] = operation number `which` of a[i], b[i], c[i].
SOURCE = """
#include "core/math/functors.h"

using namespace weft;
using namespace weft::math;

template <class F, class T> struct FirstOperand { using type = T; };
template <class F, class T> requires requires { typename F::Condition; }
struct FirstOperand<F, T> { using type = typename F::Condition; };

template <class T, class F, int arity, unsigned types>
__device__ void apply(DType dtype, const void* functor, int i, const T* a, const T* b, const T* c,
                      void* out) {
  if constexpr ((types >> static_cast<int>(DTYPE)) & 1u) {
    F f{};
    if constexpr (!__is_empty(F)) f = *static_cast<const F*>(functor);
    using First = typename FirstOperand<F, T>::type;
    if constexpr (arity == 1) {
      static_cast<decltype(f(T()))*>(out)[i] = f(a[i]);
    } else if constexpr (arity == 2) {
      static_cast<decltype(f(T(), T()))*>(out)[i] = f(a[i], b[i]);
    } else {
      static_cast<T*>(out)[i] = f(reinterpret_cast<const First*>(a)[i], b[i], c[i]);
    }
  }
}

#define CASE(name, Functor, arity, types)                                              \\
  case Elementwise::name:                                                              \\
    apply<T, math::Functor, arity, types>(DTYPE, functor, i, a, b, c, out);            \\
    break;

extern "C" __global__ void elementwise(int which, const void* functor, int n,
                                       const TypeOf<DTYPE>::type* a, const TypeOf<DTYPE>::type* b,
                                       const TypeOf<DTYPE>::type* c, void* out) {
  using T = TypeOf<DTYPE>::type;
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  switch (static_cast<Elementwise>(which)) { WEFT_ELEMENTWISE(CASE) }
}

// Every conversion from DTYPE; `which` is the dtype of the result.
template <DType to, class From>
__device__ void cast_one(int i, const From* a, void* out) {
  using To = typename TypeOf<to>::type;
  static_cast<To*>(out)[i] = cast<To>(a[i]);
}
#define CAST(to) case DType::to: cast_one<DType::to>(i, a, out); break;
extern "C" __global__ void cast_all(int which, int n, const TypeOf<DTYPE>::type* a, void* out) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  switch (static_cast<DType>(which)) {
    CAST(Bool) CAST(UInt8) CAST(Int8) CAST(Int16) CAST(Int32) CAST(Int64) CAST(Float16)
    CAST(BFloat16) CAST(Float32) CAST(Float64) CAST(Complex64) CAST(Complex128)
  }
}
"""

CPP_DTYPES = {
    "bool": "Bool", "uint8": "UInt8", "int8": "Int8", "int16": "Int16", "int32": "Int32",
    "int64": "Int64", "float16": "Float16", "bfloat16": "BFloat16", "float32": "Float32",
    "float64": "Float64", "complex64": "Complex64", "complex128": "Complex128",
}  # fmt: skip


def nvrtc_library() -> Path | None:
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations if spec else None) or []:
        for found in sorted(Path(folder).glob("**/libnvrtc.so.*")):
            if "builtins" not in found.name and "alt" not in found.name:
                return found
    return None


class CompileError(Exception):
    pass


def compile_for_device(dtype: str, *, architecture: str = "sm_90") -> bytes:
    """A cubin with the kernels `elementwise` and `cast_all` for one dtype."""
    path = nvrtc_library()
    assert path is not None
    nvrtc = ctypes.CDLL(str(path))
    program = ctypes.c_void_p()
    source = SOURCE.replace("DTYPE", f"(DType::{CPP_DTYPES[dtype]})")
    nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"elementwise.cu", 0, None, None
    )
    options = [
        f"--gpu-architecture={architecture}".encode(),
        b"--std=c++20",
        b"--fmad=false",
        f"-I{ROOT}".encode(),
    ]
    packed = (ctypes.c_char_p * len(options))(*options)
    status = nvrtc.nvrtcCompileProgram(program, len(options), packed)
    if status != 0:
        size = ctypes.c_size_t()
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise CompileError(log.value.decode())
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    binary = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, binary)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return binary.raw
