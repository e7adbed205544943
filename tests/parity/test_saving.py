"""Files that others write are read, files that weft writes are read by others."""

from __future__ import annotations

import io
import math
import pickle
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch

from .bridge import DTYPES, dtype_name, tensor_to, to_numpy

weft = pytest.importorskip("weft")
keeping = pytest.importorskip("weft.keeping")
safetensors_torch = pytest.importorskip("safetensors.torch")

FORMATS = {
    "zip": {},
    "zip, protocol 4": {"pickle_protocol": 4},
    "zip, protocol 5": {"pickle_protocol": 5},
    "old": {"_use_new_zipfile_serialization": False},
    "old, protocol 3": {"_use_new_zipfile_serialization": False, "pickle_protocol": 3},
}
EVERY_FORMAT = pytest.mark.parametrize("options", FORMATS.values(), ids=FORMATS)


def through_torch(obj: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(obj, file, **options)
    return file.getvalue()


def assert_same(found: Any, expected: Any, path: str = "obj") -> None:
    """Whether weft's `found` is what PyTorch's `expected` is, types and bits included."""
    assert type(found).__name__ == type(expected).__name__, path
    if isinstance(expected, torch.Tensor):
        assert dtype_name(found.dtype) == dtype_name(expected.dtype), path
        assert tuple(found.shape) == tuple(expected.shape), path
        assert found.stride() == expected.stride(), path
        assert found.storage_offset() == expected.storage_offset(), path
        assert found.requires_grad == expected.requires_grad, path
        ours = to_numpy(found, weft)
        assert ours.tobytes() == to_numpy(expected, torch).tobytes(), path
    elif isinstance(expected, dict):
        assert list(found) == [key_of(key) for key in expected], path
        for key, item in expected.items():
            assert_same(found[key_of(key)], item, f"{path}[{key!r}]")
        metadata = getattr(expected, "_metadata", None)
        assert getattr(found, "_metadata", None) == metadata, path
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), path
        for number, item in enumerate(expected):
            assert_same(found[number], item, f"{path}[{number}]")
    else:
        assert repr(found) == repr(expected), path


def key_of(key: Any) -> Any:
    return getattr(weft, dtype_name(key)) if isinstance(key, torch.dtype) else key


def everything() -> dict[Any, Any]:
    torch.manual_seed(0)
    base = torch.randn(6, 8)
    parameter = torch.nn.Parameter(torch.randn(3))
    marked = torch.nn.Parameter(torch.randn(3), requires_grad=False)
    marked.note = "attributes of tensors are left behind"  # type: ignore[attr-defined]
    return {
        "base": base, "row": base[2], "columns": base[:, 1:7:2], "turned": base.t(), "again": base,
        "image": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "expanded": torch.randn(1).expand(3, 3), "empty": torch.empty(0, 4),
        "number": torch.tensor(2.5), "gradient": torch.randn(2, requires_grad=True),
        "parameter": parameter, "marked": marked,
        "dtypes": [(torch.randn(5) * 9).to(dtype) for dtype in DTYPES],
        "set": {1}, "frozenset": frozenset((1,)), "bytes": [b"\x00\xfe", b""],
        "bytearray": bytearray(b"x"), "complex": 1 - 2j, "dtype": torch.int16,
        "device": torch.device("cpu"), "size": torch.Size([1, 2]),
        "range": range(1, 9, 2), "slice": slice(1, None), "huge": 1 << 2000, "negative": -5,
        "floats": [math.nan, -math.inf, -0.0, 5e-324], "text": "\u00e4\U0001f600", "none": None,
        "flags": [True, False], "ordered": OrderedDict(b=1, a=2), "counter": Counter("aab"),
        "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), "nested": {"x": [{"y": ({},)}]},
        7: "int", (1, "a"): "tuple", None: "none", torch.float32: "dtype", 2.5: "float",
    }  # fmt: skip


@EVERY_FORMAT
def test_what_pytorch_writes_is_read(options: dict[str, Any]) -> None:
    obj = everything()
    found = weft.load(io.BytesIO(through_torch(obj, **options)))
    assert_same(found, obj)
    assert found["again"] is found["base"]
    found["base"].fill_(3.0)
    for name in ("row", "columns", "turned"):
        assert found[name].unique().tolist() == [3.0], name


@EVERY_FORMAT
def test_states_of_training_are_read(options: dict[str, Any]) -> None:
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.LSTM(36, 5)
    )
    model[3].weight_hh_l0 = torch.nn.Parameter(torch.randn(20, 5))
    optimizer = torch.optim.Adam(model.parameters(), amsgrad=True)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 2, 5])
    for _ in range(3):
        model(torch.randn(2, 3, 5, 5))[0].square().sum().backward()
        optimizer.step()
        scheduler.step()
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "random": torch.get_rng_state(),
        "parameters": list(model.parameters()),
    }
    found = weft.load(io.BytesIO(through_torch(state, **options)))
    assert_same(found, state)
    # And kept once more, in weft's own format.
    file = io.BytesIO()
    weft.save(found, file)
    file.seek(0)
    assert_same(weft.load(file), state)


def test_mapped_files_of_pytorch(tmp_path: Path) -> None:
    obj = everything()
    torch.save(obj, tmp_path / "obj.pt")
    found = weft.load(tmp_path / "obj.pt", mmap=True)
    assert_same(found, obj)
    found["base"].zero_()
    assert_same(weft.load(tmp_path / "obj.pt"), obj)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear"),
        (lambda: torch.ones(2).to_sparse(), "torch._utils._rebuild_sparse_tensor"),
        (lambda: torch.ones(2, device="meta"), "_rebuild_meta_tensor_no_storage"),
        (lambda: [len], "len"),
        (lambda: pytest.importorskip("numpy").ones(2), "numpy"),
        (lambda: Path("x"), "pathlib.PosixPath"),
    ],
)
@EVERY_FORMAT
def test_what_is_more_than_data_is_refused_by_name(
    make: Any, name: str, options: dict[str, Any]
) -> None:
    data = through_torch({"x": make()}, **options)
    with pytest.raises(pickle.UnpicklingError) as refused:
        weft.load(io.BytesIO(data))
    assert name in str(refused.value)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.complex64, torch.float8_e4m3fn])
def test_numbers_that_weft_does_not_have_are_refused_by_name(dtype: torch.dtype) -> None:
    data = through_torch(torch.zeros(2, dtype=dtype))
    with pytest.raises(keeping.RefusedFileError, match="numbers of a type that weft does not have"):
        weft.load(io.BytesIO(data))


def test_conjugated_and_negated_views_are_not_misread() -> None:
    negated = torch.view_as_complex(torch.randn(3, 2)).conj().imag
    assert negated.is_neg()
    with pytest.raises(keeping.DamagedFileError, match="marked"):
        weft.load(io.BytesIO(through_torch(negated)))


def test_a_torchscript_program_is_refused() -> None:
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), file)
    file.seek(0)
    with pytest.raises(keeping.RefusedFileError, match="TorchScript"):
        weft.load(file)


def test_a_plain_pickle_is_refused() -> None:
    with pytest.raises(keeping.RefusedFileError, match=r"none of torch\.save"):
        weft.load(io.BytesIO(pickle.dumps({"a": 1})))


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 4096, 100_003])
def test_storages_of_any_size(size: int, tmp_path: Path) -> None:
    obj = [torch.randn(size), torch.arange(size)]
    torch.save(obj, tmp_path / "obj.pt")
    for options in ({}, {"mmap": True}):
        assert_same(weft.load(tmp_path / "obj.pt", **options), obj)


# ---- safetensors ---------------------------------------------------------------------------------


def tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(2)
    named = {dtype_name(dtype): (torch.randn(3, 5) * 9).to(dtype) for dtype in DTYPES}
    return {
        **named,
        "number": torch.tensor(1.5),
        "empty": torch.empty(0, 3),
        "\u00e4 b": torch.ones(1),
    }


def test_a_dict_of_tensors_is_read_by_safetensors(tmp_path: Path) -> None:
    expected = tensors()
    path = tmp_path / "model.safetensors"
    weft.save({name: tensor_to(weft, tensor) for name, tensor in expected.items()}, path)
    found = safetensors_torch.load_file(path)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape
        assert torch.equal(found[name], tensor), name


def test_a_dict_of_tensors_of_safetensors_is_read(tmp_path: Path) -> None:
    expected = tensors()
    path = tmp_path / "model.safetensors"
    safetensors_torch.save_file(expected, path, metadata={"format": "pt", "by": "hand"})
    for options in ({}, {"mmap": True}):
        found = weft.load(path, **options)
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            assert_same(found[name], tensor, name)
    data = safetensors_torch.save(expected)
    assert weft.load(io.BytesIO(data)).keys() == expected.keys()


def test_every_whole_state_is_a_safetensors_file(tmp_path: Path) -> None:
    base = weft.arange(12.0).reshape(3, 4)
    state = {
        "model": OrderedDict(w=base, tied=base, turned=base.t(), row=base[1]),
        "image": weft.randn(2, 4, 4, 3).permute(0, 3, 1, 2),
        "expanded": weft.ones(1).expand(9),
        "lists": [[weft.ones(2)], {"x": weft.zeros(0)}],
        "bytes": bytes(5000),
    }
    path = tmp_path / "state.safetensors"
    weft.save(state, path)
    found = safetensors_torch.load_file(path)
    assert torch.equal(found["model.w"], torch.arange(12.0).reshape(3, 4))
    assert found["image"].tolist() == state["image"].tolist()
    assert found["lists.0.0"].tolist() == [1.0, 1.0]


def test_float8_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    safetensors_torch.save_file({"w": torch.zeros(2, dtype=torch.float8_e4m3fn)}, path)
    with pytest.raises(keeping.RefusedFileError, match="'w' is of dtype F8_E4M3"):
        weft.load(path)


# ---- both sides ----------------------------------------------------------------------------------


def test_the_signatures_are_pytorchs() -> None:
    import inspect

    for name in ("save", "load"):
        ours = inspect.signature(getattr(weft, name)).parameters
        theirs = inspect.signature(getattr(torch, name)).parameters
        for parameter in theirs.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD or parameter.name[0] == "_":
                continue
            assert ours[parameter.name].kind == parameter.kind, parameter.name
        assert list(ours)[:4] == list(theirs)[:4]


@pytest.mark.parametrize(
    "data", [b"", b"\x80\x02", b"PK\x03\x04", b"no file of tensors", b"\x00" * 100]
)
def test_damage_raises_what_pytorch_raises_or_a_kind_of_it(data: bytes) -> None:
    with pytest.raises(Exception) as theirs:
        torch.load(io.BytesIO(data))
    with pytest.raises(keeping.DamagedFileError) as ours:
        weft.load(io.BytesIO(data))
    # PyTorch has EOFError, UnpicklingError and RuntimeError for these; here it is always one.
    assert isinstance(theirs.value, EOFError | pickle.UnpicklingError | RuntimeError)
    assert isinstance(ours.value, RuntimeError)
