"""Every functor compiles with NVRTC, and on a GPU gives the CPU's bits."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

import numpy as np
import pytest

from . import device_kernels, tiles
from .test_same_bits import operands_of, values

COMPUTE_DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")

needs_nvrtc = pytest.mark.skipif(device_kernels.nvrtc_library() is None, reason="no NVRTC")


@needs_nvrtc
@pytest.mark.parametrize("dtype", tiles.DTYPE_NAMES)
def test_every_functor_compiles(dtype: str) -> None:
    assert len(device_kernels.compile_for_device(dtype)) > 1000


class Device:
    """As much of the driver as it takes to run one kernel."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.check(self.driver.cuInit(0))
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.check(self.driver.cuDeviceGet(ctypes.byref(device), 0))
        self.check(self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), device))
        self.check(self.driver.cuCtxSetCurrent(self.context))
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.check(self.driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device))
        self.check(self.driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device))
        self.architecture = f"sm_{major.value}{minor.value}"

    def check(self, status: int) -> None:
        if status != 0:
            raise OSError(f"CUDA driver error {status}")

    @functools.cache  # noqa: B019 - one device for the whole run
    def function(self, dtype: str, name: str) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        binary = device_kernels.compile_for_device(dtype, architecture=self.architecture)
        self.check(self.driver.cuModuleLoadData(ctypes.byref(module), binary))
        self.check(self.driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
        return function

    def upload(self, data: bytes) -> ctypes.c_uint64:
        pointer = ctypes.c_uint64()
        self.check(
            self.driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(max(len(data), 16)))
        )
        self.check(self.driver.cuMemcpyHtoD_v2(pointer, data, ctypes.c_size_t(len(data))))
        return pointer

    def launch(self, dtype: str, name: str, arguments: Sequence[object], count: int) -> None:
        packed = (ctypes.c_void_p * len(arguments))(
            *(ctypes.addressof(argument) for argument in arguments)  # type: ignore[arg-type]
        )
        blocks = (count + 255) // 256
        self.check(
            self.driver.cuLaunchKernel(
                self.function(dtype, name), blocks, 1, 1, 256, 1, 1, 0, None, packed, None
            )
        )
        self.check(self.driver.cuCtxSynchronize())

    def run(
        self, dtype: str, kernel: str, head: Sequence[object], operands: Sequence[np.ndarray],
        out: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        buffers = [self.upload(operand.tobytes()) for operand in operands]
        result = self.upload(out.tobytes())
        arguments = [*head, ctypes.c_int(len(out)), *buffers, result]
        self.launch(dtype, kernel, arguments, len(out))
        self.check(
            self.driver.cuMemcpyDtoH_v2(
                out.ctypes.data_as(ctypes.c_void_p), result, ctypes.c_size_t(out.nbytes)
            )
        )
        for buffer in [*buffers, result]:
            self.check(self.driver.cuMemFree_v2(buffer))
        return out


@functools.cache
def device() -> Device | None:
    try:
        return Device()
    except OSError:
        return None


needs_device = pytest.mark.skipif(
    device() is None or device_kernels.nvrtc_library() is None or not tiles.can_build(),
    reason="no CUDA device",
)


@needs_device
@pytest.mark.parametrize("dtype", COMPUTE_DTYPES)
def test_device_gives_the_same_bits(dtype: str) -> None:
    gpu = device()
    assert gpu is not None
    failures = []
    for name, operation in tiles.operations().items():
        if dtype not in operation.dtypes:
            continue
        operands = operands_of(name, dtype)
        expected = tiles.run(name, operands, isa=tiles.isas_here()[-1], dtype=dtype)
        attributes = tiles.ATTRIBUTES.get(name)
        functor = gpu.upload(bytes(attributes) if attributes is not None else b"\0")
        padded = [*operands, operands[-1], operands[-1]][:3]
        head = [ctypes.c_int(operation.index), functor]
        result = gpu.run(dtype, "elementwise", head, padded, np.empty_like(expected))
        wrong = np.flatnonzero(~tiles.same_bits(expected, result))
        if len(wrong):
            shown = [([o[i] for o in operands], expected[i], result[i]) for i in wrong[:3]]
            failures.append(f"{name}: {len(wrong)} of {len(result)}: {shown}")
    assert not failures, "\n".join(failures)


@needs_device
@pytest.mark.parametrize("source", tiles.DTYPE_NAMES)
def test_device_casts_give_the_same_bits(source: str) -> None:
    gpu = device()
    assert gpu is not None
    x = values(source, 7)
    for index, target in enumerate(tiles.DTYPE_NAMES):
        expected = tiles.cast(x, source, target, isa=tiles.isas_here()[-1])
        result = gpu.run(source, "cast_all", [ctypes.c_int(index)], [x], np.empty_like(expected))
        same = tiles.same_bits(expected, result)
        if target == "bfloat16":
            same |= ((expected & 0x7FFF) > 0x7F80) & ((result & 0x7FFF) > 0x7F80)
        assert same.all(), (target, x[~same][:5], expected[~same][:5], result[~same][:5])
