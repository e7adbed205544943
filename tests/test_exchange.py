"""Sharing memory with numpy, the buffer protocol and DLPack, both ways."""

from __future__ import annotations

import array
import gc
import sys
import weakref
from typing import Any

import pytest

from ._target import weft

np = pytest.importorskip("numpy")

PAIRS = {
    "bool": "bool", "uint8": "uint8", "int8": "int8", "int16": "int16", "int32": "int32",
    "int64": "int64", "float16": "float16", "float32": "float32", "float64": "float64",
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_from_numpy_shares(name: str) -> None:
    values = np.array([[0, 1, 1], [1, 0, 1]], dtype=name)
    x = weft.from_numpy(values)
    assert x.dtype is getattr(weft, PAIRS[name])
    assert x.tolist() == values.tolist()
    values[0, 0] = 1
    assert x[0, 0].item() == 1
    x[1, 1] = 1
    assert values[1, 1] == 1
    assert x.data_ptr() == values.ctypes.data


@pytest.mark.parametrize("name", PAIRS)
def test_to_numpy_shares(name: str) -> None:
    x = weft.tensor([[0, 1], [1, 0]], dtype=getattr(weft, name))
    values = x.numpy()
    assert values.dtype == np.dtype(name)
    assert values.tolist() == x.tolist()
    x[0, 0] = 1
    assert values[0, 0] == 1
    values[1, 1] = 1
    assert x[1, 1].item() == 1
    assert np.asarray(x).ctypes.data == x.data_ptr()


def test_strides_travel() -> None:
    values = np.arange(12.0).reshape(3, 4)[::2, 1:].T
    x = weft.from_numpy(values)
    assert x.tolist() == values.tolist()
    assert x.stride() == (1, 8)
    back = x.numpy()
    assert back.strides == values.strides
    assert weft.arange(6).reshape(2, 3).t().numpy().tolist() == [[0, 3], [1, 4], [2, 5]]


def test_what_cannot_be_shared_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        weft.from_numpy(np.arange(3)[::-1])
    for refused in (np.array(["a"]), np.array([None]), np.zeros(2, dtype="datetime64[s]")):
        with pytest.raises(TypeError):
            weft.from_numpy(refused)
    with pytest.raises(TypeError):
        weft.from_numpy([1, 2])
    with pytest.raises(RuntimeError, match="requires grad"):
        weft.ones(2, requires_grad=True).numpy()
    with pytest.raises(TypeError):
        weft.ones(2, dtype=weft.bfloat16).numpy()
    swapped = np.dtype("float32").newbyteorder()
    with pytest.raises((ValueError, TypeError)):
        weft.from_numpy(np.zeros(2, dtype=swapped))


def test_read_only_arrays_warn() -> None:
    values = np.arange(3.0)
    values.flags.writeable = False
    with pytest.warns(UserWarning, match="writ"):
        weft.from_numpy(values)


def test_owners_stay_alive() -> None:
    values = np.arange(1000.0)
    x = weft.from_numpy(values)
    reference = weakref.ref(values)
    del values
    gc.collect()
    assert reference() is not None
    assert x.sum().item() == 499500.0
    del x
    gc.collect()
    assert reference() is None
    y = weft.arange(1000.0)
    shared = y.numpy()
    del y
    gc.collect()
    assert shared.sum() == 499500.0


def test_tensor_copies_numpy() -> None:
    values = np.arange(3.0)
    x = weft.tensor(values)
    assert x.dtype is weft.float64
    values[0] = 9
    assert x.tolist() == [0.0, 1.0, 2.0]
    assert weft.as_tensor(values).data_ptr() == values.ctypes.data
    assert weft.tensor(np.float32(1.5)).dtype is weft.float32
    assert weft.tensor(np.int32(3)).dtype is weft.int32
    assert weft.tensor([np.float64(1.5), 2]).tolist() == [1.5, 2.0]
    assert weft.tensor(np.zeros((2, 0))).shape == (2, 0)
    assert weft.from_numpy(np.array(2.5)).item() == 2.5


def test_numpy_functions_and_operators() -> None:
    x, values = weft.tensor([1.0, 2.0]), np.array([3.0, 4.0], dtype="float32")
    assert np.allclose(np.exp(np.asarray(x)), [2.7182817, 7.389056])
    assert isinstance(x + weft.from_numpy(values), weft.Tensor)
    assert np.asarray(x).tolist() == [1.0, 2.0]
    assert np.asarray(x, dtype="float64").dtype == np.float64
    assert (x * np.float64(2.0)).tolist() == [2.0, 4.0]
    assert (x * np.float64(2.0)).dtype is weft.float32
    assert x[np.int64(1)].item() == 2.0
    assert weft.zeros(np.int64(2)).shape == (2,)


def test_buffers() -> None:
    data = bytearray(b"\x01\x00\x02\x00\x03\x00")
    x = weft.frombuffer(data, dtype=weft.int16)
    assert x.tolist() == [1, 2, 3]
    x[0] = 7
    assert data[0] == 7
    assert weft.frombuffer(data, dtype=weft.int16, offset=2, count=1).tolist() == [2]
    numbers = array.array("d", [1.5, 2.5])
    assert weft.frombuffer(numbers, dtype=weft.float64).tolist() == [1.5, 2.5]
    for wrong in ({"offset": 1}, {"offset": 100}, {"count": 50}, {"count": 0}, {"offset": -2}):
        with pytest.raises(ValueError):
            weft.frombuffer(data, dtype=weft.int16, **wrong)
    with pytest.raises((TypeError, ValueError)):
        weft.frombuffer(5, dtype=weft.int16)


def test_dlpack_round_trip() -> None:
    for name in PAIRS:
        if name == "bool":
            continue
        x = weft.arange(6).to(getattr(weft, name)).reshape(2, 3).t()
        y = weft.from_dlpack(x)
        assert y.data_ptr() == x.data_ptr()
        assert y.stride() == x.stride()
        assert y.dtype is x.dtype
    z = weft.ones(2, dtype=weft.bfloat16)
    assert weft.from_dlpack(z).dtype is weft.bfloat16
    assert x.__dlpack_device__()[0] == 1


def test_dlpack_with_numpy() -> None:
    x = weft.arange(6.0).reshape(2, 3)
    values = np.from_dlpack(x)
    assert values.tolist() == x.tolist()
    x[0, 0] = 5
    assert values[0, 0] == 5
    back = weft.from_dlpack(np.arange(3.0))
    assert back.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises((RuntimeError, BufferError)):
        weft.ones(2, requires_grad=True).__dlpack__()


def test_dlpack_capsules_that_are_never_read() -> None:
    x = weft.ones(1000)
    pointer = x.data_ptr()
    for _ in range(100):
        capsule = x.__dlpack__()
        del capsule
    assert x.data_ptr() == pointer
    count = sys.getrefcount(x)
    capsule = x.__dlpack__()
    del capsule
    gc.collect()
    assert sys.getrefcount(x) == count


def test_import_alone_does_not_import_numpy() -> None:
    import subprocess

    if weft.__name__ != "weft":
        pytest.skip("PyTorch imports numpy")
    program = (
        "import sys, weft; weft.tensor([1.0, 2.0]).sum().item(); assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_memory_views(device: str) -> None:
    """The buffer protocol gives memory with shape and strides; a device's memory has none."""
    if weft.__name__ != "weft":
        pytest.skip("PyTorch tensors have no buffer protocol")
    x: Any = weft.arange(6, device=device).reshape(2, 3)
    if device != "cpu":
        with pytest.raises((BufferError, TypeError)):
            memoryview(x)
        return
    view = memoryview(x)
    assert view.shape == (2, 3)
    assert view.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert memoryview(x.t()).strides == (8, 24)
