"""Objects to save, files to load, and whether two objects are the same to the last bit."""

from __future__ import annotations

import io
import math
import struct
from collections import Counter, OrderedDict
from typing import Any

from ._target import weft
from .saving_mutations import zip_of


def saved(obj: Any) -> bytes:
    file = io.BytesIO()
    weft.save(obj, file)
    return file.getvalue()


def loaded(data: bytes, **options: Any) -> Any:
    return weft.load(io.BytesIO(data), **options)


def bits(value: Any) -> Any:
    """Something that is equal exactly if two values are the same, types and NaNs included."""
    kind = type(value).__name__
    if isinstance(value, weft.Tensor):
        content = bytes(weft._core._storage_bytes(value.detach().clone().contiguous()).tolist())
        used = value.numel() * value.element_size()
        shape = tuple(value.shape)
        return kind, str(value.dtype), shape, value.requires_grad, content[:used]
    if isinstance(value, float):
        return kind, struct.pack("<d", value)
    if isinstance(value, dict):
        extra = bits(getattr(value, "_metadata", None)) if isinstance(value, OrderedDict) else None
        return kind, [(bits(key), bits(item)) for key, item in value.items()], extra
    if isinstance(value, list | tuple):
        return kind, [bits(item) for item in value]
    if isinstance(value, set | frozenset):
        return kind, sorted(map(repr, value))
    return kind, repr(value)


def containers() -> dict[Any, Any]:
    """One of everything that is no tensor."""
    ordered = OrderedDict(b=1, a=2)
    ordered._metadata = OrderedDict([("", {"version": 1})])  # type: ignore[attr-defined]
    return {
        "none": None, "true": True, "int": -7, "huge": -(3**400), "zero": -0.0, "pi": math.pi,
        "nan": math.nan, "inf": -math.inf, "tiny": 5e-324, "complex": complex(1.5, -math.inf),
        "text": "\u00e4 \U0001f600 \ud800 \x00", "bytes": b"\x00\xff",
        "long bytes": bytes(range(256)) * 9,
        "bytearray": bytearray(b"ab"), "list": [1, [2, []]], "tuple": (1, ("x",), ()),
        "set": {1, "a", (2, 3)}, "frozenset": frozenset((None,)), "dict": {},
        "ordered": ordered, "counter": Counter("aab"), "size": weft.Size([2, 0]),
        "dtype": weft.bfloat16, "device": weft.device("cpu"), "slice": slice(None, 3),
        "range": range(3, 9, 2), 5: "int key", (1, "a"): "tuple key", None: 0, True: 1,
        2.5: "float key", weft.float32: "dtype key", "__metadata__": 3, "a.b": 4,
    }  # fmt: skip


def plain_tensors() -> dict[str, Any]:
    """A small dict of tensors, as other programs keep them."""
    return {
        "weight": weft.arange(12.0).reshape(3, 4) / 7,
        "bias": weft.tensor([1.5, -2.0], dtype=weft.float64),
        "steps": weft.tensor(3),
        "mask": weft.tensor([True, False, True]),
    }


def training_state() -> dict[str, Any]:
    """A small object with a bit of everything that states have."""
    weight = weft.arange(6.0).reshape(2, 3)
    return {
        "model": OrderedDict(weight=weight, tied=weight, row=weight[1]),
        "optimizer": {
            "state": {0: {"step": 3, "exp_avg": weft.ones(2, 3)}},
            "groups": [{"lr": 0.1}],
        },
        "rng": weft.get_rng_state(),
        "shuffled": (4, 1, 3),
        "note": "state",
    }


# What torch.save({"w": w, "s": w[1], "n": [1, 2.5, "x", None]}) writes, w = arange(6.) as 2 by 3.
_PICKLE = (
    b"\x80\x02}q\x00(X\x01\x00\x00\x00wq\x01ctorch._utils\n_rebuild_tensor_v2\nq\x02((X\x07\x00"
    b"\x00\x00storageq\x03ctorch\nFloatStorage\nq\x04X\x01\x00\x00\x000q\x05X\x03\x00\x00\x00cpu"
    b"q\x06K\x06tq\x07QK\x00K\x02K\x03\x86q\x08K\x03K\x01\x86q\t\x89ccollections\nOrderedDict\n"
    b"q\n)Rq\x0btq\x0cRq\rX\x01\x00\x00\x00sq\x0eh\x02((h\x03h\x04h\x05h\x06K\x06tq\x0fQK\x03K"
    b"\x03\x85q\x10K\x01\x85q\x11\x89h\n)Rq\x12tq\x13Rq\x14X\x01\x00\x00\x00nq\x15]q\x16(K\x01G"
    b"@\x04\x00\x00\x00\x00\x00\x00X\x01\x00\x00\x00xq\x17Neu."
)


def torch_zip(pickle: bytes = _PICKLE, floats: int = 6) -> bytes:
    """A file as PyTorch writes it, holding one storage of floats 0, 1, 2, ..."""
    storage = struct.pack(f"<{floats}f", *range(floats))
    return zip_of(
        [("data.pkl", pickle), ("byteorder", b"little"), ("data/0", storage), ("version", b"3\n")]
    )


def torch_zip_content() -> dict[str, Any]:
    weight = weft.arange(6.0).reshape(2, 3)
    return {"w": weight, "s": weight[1], "n": [1, 2.5, "x", None]}


def old_torch_file() -> bytes:
    """The same content in PyTorch's format of before 2020, which has no checksums."""
    about = b"\x80\x02}q\x00X\r\x00\x00\x00little_endianq\x01\x88s."
    # There a storage's name has a sixth part: None, or which part of the storage is meant.
    program = _PICKLE.replace(b"K\x06tq\x07Q", b"K\x06Ntq\x07Q").replace(
        b"K\x06tq\x0fQ", b"K\x06Ntq\x0fQ"
    )
    keys = b"\x80\x02]q\x00X\x01\x00\x00\x000q\x01a."
    start = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."
    return start + about + program + keys + struct.pack("<q6f", 6, *range(6))
