"""weft: automatic differentiation of ordinary Python, and deep learning with PyTorch's names.

>>> import weft
>>> x = weft.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])
"""

__version__ = "0.1.0"

from math import e, inf, nan, pi
from typing import TYPE_CHECKING

from weft import _core, _tensor, autograd, ops
from weft._core import (
    Generator,
    Tensor,
    bfloat16,
    can_cast,
    complex64,
    complex128,
    default_generator,
    device,
    dtype,
    float16,
    float32,
    float64,
    get_default_dtype,
    get_num_threads,
    int8,
    int16,
    int32,
    int64,
    is_grad_enabled,
    is_inference_mode_enabled,
    promote_types,
    tensor,
    uint8,
)
from weft._core import bool as bool  # the dtype
from weft._dtypes import finfo, iinfo
from weft._functions import (
    as_tensor,
    asarray,
    conj,
    detach_,
    from_dlpack,
    from_numpy,
    frombuffer,
    get_device,
    imag,
    is_complex,
    is_conj,
    is_floating_point,
    is_inference,
    is_neg,
    is_same_size,
    is_signed,
    is_storage,
    is_tensor,
    numel,
    real,
    resolve_conj,
    resolve_neg,
    typename,
)
from weft._memory_format import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from weft._printing import get_printoptions, printoptions, set_printoptions
from weft._settings import (
    are_deterministic_algorithms_enabled,
    get_default_device,
    get_float32_matmul_precision,
    get_num_interop_threads,
    set_default_device,
    set_default_dtype,
    set_float32_matmul_precision,
    set_num_interop_threads,
    set_num_threads,
    use_deterministic_algorithms,
)
from weft._size import Size
from weft.autograd import enable_grad, inference_mode, no_grad, set_grad_enabled
from weft.autograd._modes import is_anomaly_check_nan_enabled, is_anomaly_enabled
from weft.ops.random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state

_core._set_size_type(Size)
_tensor.install()

# PyTorch's other names for the dtypes.
short, int, long = int16, int32, int64
half, float, double = float16, float32, float64
cfloat, cdouble = complex64, complex128

newaxis = None

# Imported when they are first asked for: `weft.nn` works after `import weft`.
_SUBMODULES = frozenset(
    (
        "backends", "check", "cli", "compiler", "cuda", "data", "dist", "distributed", "doctor",
        "export", "fft", "func", "graph", "jit", "linalg", "nn", "onnx", "optim", "overrides",
        "random", "return_types", "special", "testing", "torch_names", "utils",
    )
)  # fmt: skip

# Functions that live in modules of their own, imported when they are first asked for.
_LAZY = {
    "as_torch": "weft.torch_names",
    "verify": "weft.check",
    "checkpoint": "weft.keeping",
    "load": "weft.keeping",
    "save": "weft.keeping",
}

__all__ = [
    "Generator",
    "Size",
    "Tensor",
    "are_deterministic_algorithms_enabled",
    "as_tensor",
    "asarray",
    "autograd",
    "bfloat16",
    "bool",
    "can_cast",
    "cdouble",
    "cfloat",
    "channels_last",
    "channels_last_3d",
    "complex64",
    "complex128",
    "conj",
    "contiguous_format",
    "default_generator",
    "detach_",
    "device",
    "double",
    "dtype",
    "e",
    "enable_grad",
    "finfo",
    "float",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "get_default_device",
    "get_default_dtype",
    "get_device",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "get_printoptions",
    "get_rng_state",
    "half",
    "iinfo",
    "imag",
    "inf",
    "inference_mode",
    "initial_seed",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_complex",
    "is_conj",
    "is_floating_point",
    "is_grad_enabled",
    "is_inference",
    "is_inference_mode_enabled",
    "is_neg",
    "is_same_size",
    "is_signed",
    "is_storage",
    "is_tensor",
    "layout",
    "long",
    "manual_seed",
    "memory_format",
    "nan",
    "newaxis",
    "no_grad",
    "numel",
    "ops",
    "pi",
    "preserve_format",
    "printoptions",
    "promote_types",
    "real",
    "resolve_conj",
    "resolve_neg",
    "seed",
    "set_default_device",
    "set_default_dtype",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "set_num_interop_threads",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "short",
    "strided",
    "tensor",
    "typename",
    "uint8",
    "use_deterministic_algorithms",
]

# The operations: where each one lives, `weft.ops` knows.
_OPERATIONS = ops.operations()
__all__ += sorted(_OPERATIONS)
if not TYPE_CHECKING:
    globals().update(_OPERATIONS)


def __getattr__(name: str) -> object:
    import importlib

    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        try:
            return importlib.import_module(f"weft.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"weft.{name}":
                raise
    elif name.endswith("Tensor"):
        from weft._legacy_types import legacy_types

        if name in legacy_types:
            return legacy_types[name]
    raise AttributeError(f"module 'weft' has no attribute {name!r}")


def __dir__() -> list[str]:
    from importlib.util import find_spec

    there = [name for name in _SUBMODULES if find_spec(f"weft.{name}") is not None]
    return [*globals(), *_LAZY, *there]
