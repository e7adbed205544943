"""Containers and plain values as JSON, and back.

JSON's null, booleans, numbers, strings and arrays stand for themselves (arrays for lists). All
else is an object whose key says what it is: `{"tuple": [1, 2]}`, `{"dict": [["lr", 0.1]]}`,
`{"tensor": 3}`.
"""

from __future__ import annotations

import base64
import math
import struct
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from weft import _core
from weft._size import Size
from weft.keeping._errors import Quoted

# Far below what the interpreter's stack allows, far above what programs do.
MOST_LEVELS = 100

Path = tuple[Any, ...]

_SHORT_BYTES = 1024  # longer ones are kept beside the tensors, not in the header
_PLAIN = frozenset((str, bool, type(None)))
_KEYS = frozenset((str, int, bool, float, complex, bytes, type(None), _core.dtype, _core.device))


class Malformed(ValueError):
    """The JSON is none that `encode` makes."""


def is_key(value: object) -> bool:
    """Whether `value` may be a key of a dictionary or lie in a set.

    Tuples only of plain values: hashing deeper ones can take forever, or all of the stack.
    """
    kind = type(value)
    return kind in _KEYS or (
        (kind is tuple or kind is Size) and all(type(item) in _KEYS for item in value)  # type: ignore[attr-defined]
    )


def place(path: Path) -> str:
    """`obj['model'][0]`, for messages."""
    return "obj" + "".join(f"[{key!r}]" for key in path)


# ---- to JSON -------------------------------------------------------------------------------------


class Encoder:
    """Makes JSON of a value; tensors are collected, with the path that leads to each."""

    def __init__(self) -> None:
        self.tensors: list[tuple[Any, Path]] = []
        self._numbers: dict[int, int] = {}

    def __call__(self, value: Any, path: Path = ()) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is int:
            return value if -(1 << 63) <= value < 1 << 63 else {"int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"float": struct.pack(">d", value).hex()}
        if len(path) > MOST_LEVELS:
            raise ValueError(
                f"weft.save(): the object is nested more than {MOST_LEVELS} levels deep, or "
                f"contains itself: {place(path[:4])}..."
            )
        encode = _ENCODERS.get(kind)
        if encode is not None:
            return encode(self, value, path)
        if kind is _core.Tensor or is_parameter(kind):
            return {"tensor": self.number(value, path)}
        raise TypeError(_refusal(value, path))

    def number(self, tensor: Any, path: Path) -> int:
        """The number under which a tensor is kept: the same one for the same object."""
        found = self._numbers.get(id(tensor))
        if found is None:
            found = self._numbers[id(tensor)] = len(self.tensors)
            self.tensors.append((tensor, path))
        return found

    def items(self, values: Any, path: Path) -> list[Any]:
        return [self(item, (*path, index)) for index, item in enumerate(values)]

    def pairs(self, mapping: Any, path: Path) -> list[Any]:
        result = []
        for key, item in mapping.items():
            if not is_key(key):
                raise TypeError(
                    f"weft.save(): {place(path)} has the key {key!r} of type "
                    f"{type(key).__name__}: expected str, int or another plain value; use such keys"
                )
            inner = (*path, key)
            result.append([self(key, inner), self(item, inner)])
        return result

    def ordered(self, mapping: Any, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {"ordered": self.pairs(mapping, path)}
        attributes = vars(mapping)
        if "_metadata" in attributes:  # what Module.state_dict() leaves there
            result["metadata"] = self(attributes["_metadata"], (*path, "_metadata"))
        return result

    def octets(self, value: Any, path: Path) -> Any:
        if len(value) <= _SHORT_BYTES:
            return base64.b64encode(value).decode()
        # A copy lives in the list until the file is written.
        return {
            "tensor": self.number(_core._from_bytes(bytearray(value), _core.uint8, -1, 0), path)
        }


_ENCODERS: dict[type, Callable[[Encoder, Any, Path], Any]] = {
    list: Encoder.items,
    tuple: lambda self, value, path: {"tuple": self.items(value, path)},
    dict: lambda self, value, path: {"dict": self.pairs(value, path)},
    OrderedDict: Encoder.ordered,
    Counter: lambda self, value, path: {"counter": self.pairs(value, path)},
    set: lambda self, value, path: {"set": self.items(_members(value, path), path)},
    frozenset: lambda self, value, path: {"frozenset": self.items(_members(value, path), path)},
    bytes: lambda self, value, path: {"bytes": self.octets(value, path)},
    bytearray: lambda self, value, path: {"bytearray": self.octets(value, path)},
    complex: lambda self, value, path: {"complex": [self(value.real), self(value.imag)]},
    slice: lambda self, value, path: {
        "slice": self.items((value.start, value.stop, value.step), path)
    },
    range: lambda self, value, path: {
        "range": self.items((value.start, value.stop, value.step), path)
    },
    Size: lambda self, value, path: {"size": list(value)},
    _core.dtype: lambda self, value, path: {"dtype": value.name},
    _core.device: lambda self, value, path: {"device": str(value)},
}


def is_parameter(kind: type) -> bool:
    """Whether `kind` is the class of parameters, without importing it."""
    module = sys.modules.get("weft.nn.parameter")
    return module is not None and kind is module.Parameter


def _members(values: Any, path: Path) -> list[Any]:
    for item in values:
        if not is_key(item):
            raise TypeError(
                f"weft.save(): the set {place(path)} holds a {type(item).__name__}: expected plain "
                "values; save a list"
            )
    return list(values)


def _refusal(value: Any, path: Path) -> str:
    """What to do with an object that is more than data."""
    kind = type(value)
    where = place(path)
    start = f"weft.save(): {where} is a {kind.__module__}.{kind.__qualname__}"
    if kind.__name__.startswith("Uninitialized"):
        return f"{start}, which has no values yet: run the model once, and save it then"
    if isinstance(value, _core.Tensor):
        return f"{start}, a tensor with code of its own: save {where}.as_subclass(weft.Tensor)"
    if callable(getattr(value, "state_dict", None)):
        return (
            f"{start}, an object with code, and weft keeps only data: save "
            f"{where}.state_dict(), and load it with load_state_dict() into an object that your "
            "program has made"
        )
    if callable(getattr(value, "get_state", None)):
        return f"{start}: save {where}.get_state()"
    if kind.__module__.partition(".")[0] == "numpy":
        cure = f"weft.from_numpy({where})" if kind.__name__ == "ndarray" else f"{where}.item()"
        return f"{start}: save {cure}"
    if kind.__module__ == "argparse" or hasattr(kind, "__dataclass_fields__"):
        return f"{start}: save vars({where})"
    for plain in (dict, list, tuple, set, str, int, float):
        if isinstance(value, plain):
            return f"{start}: save {plain.__name__}({where})"
    return (
        f"{start}, and weft keeps only tensors, numbers, strings, bytes, dtypes, devices, and "
        "dicts, lists, tuples and sets of them: save the data that makes it up"
    )


# ---- from JSON -----------------------------------------------------------------------------------


class Decoder:
    """Makes the value of its JSON, out of tensors that have been read."""

    def __init__(self, tensors: list[Any]) -> None:
        self.tensors = tensors

    def __call__(self, node: Any) -> Any:
        kind = type(node)
        if kind is list:
            return [self(item) for item in node]
        if kind is not dict:
            return node
        tag = next(iter(node), None)
        decode = _DECODERS.get(tag) if len(node) == 1 else None
        if decode is not None:
            return decode(self, node[tag])
        if tag == "ordered" and len(node) == 2 and "metadata" in node:
            result = self.ordered(node[tag])
            vars(result)["_metadata"] = self(node["metadata"])
            return result
        raise Malformed(f"{Quoted(node)} stands for nothing")

    def items(self, node: Any) -> list[Any]:
        if type(node) is not list:
            raise Malformed(f"{Quoted(node)} is no list")
        return [self(item) for item in node]

    def pairs(self, node: Any) -> list[tuple[Any, Any]]:
        if type(node) is not list or any(type(p) is not list or len(p) != 2 for p in node):
            raise Malformed(f"{Quoted(node)} is no list of pairs")
        result = [(self(key), self(item)) for key, item in node]
        self.keys([key for key, _ in result])
        return result

    def ordered(self, node: Any) -> OrderedDict[Any, Any]:
        return OrderedDict(self.pairs(node))

    def keys(self, values: list[Any]) -> list[Any]:
        if not all(map(is_key, values)):
            raise Malformed(f"{Quoted(values)} are not all keys")
        if len(set(values)) != len(values):
            raise Malformed("a key stands there twice")
        return values

    def counter(self, node: Any) -> Counter[Any]:
        return Counter(dict(self.pairs(node)))

    def tensor(self, node: Any) -> Any:
        if type(node) is not int or not 0 <= node < len(self.tensors):
            raise Malformed(f"there is no tensor {Quoted(node)}")
        return self.tensors[node]

    def octets(self, node: Any) -> bytes:
        if type(node) is str:
            try:
                return base64.b64decode(node.encode("ascii"), validate=True)
            except ValueError:
                raise Malformed(f"{Quoted(node)} is no base64") from None
        data = self(node)
        is_octets = type(data) is _core.Tensor and data.dtype is _core.uint8 and data.dim() == 1
        # Of an expanded tensor there may be more than memory can hold.
        if not is_octets or not data.is_contiguous():
            raise Malformed(f"{Quoted(node)} are no bytes")
        return bytes(memoryview(data))

    def integers(self, node: Any, count: int | None = None) -> list[Any]:
        if type(node) is not list or (count is not None and len(node) != count):
            raise Malformed(f"{Quoted(node)} are not {count} numbers")
        values = [self(item) for item in node]
        if not all(type(value) is int for value in values):
            raise Malformed(f"{Quoted(node)} are not all whole numbers")
        return values

    def slice(self, node: Any) -> slice:
        parts = self.items(node)
        if len(parts) != 3 or not all(part is None or type(part) is int for part in parts):
            raise Malformed(f"{Quoted(node)} is no slice")
        return slice(*parts)

    def range(self, node: Any) -> range:
        parts = self.integers(node, 3)
        if parts[2] == 0:
            raise Malformed("a range has steps of 0")
        return range(*parts)

    def integer(self, node: Any) -> int:
        try:
            return int(node, 16)
        except (TypeError, ValueError):
            raise Malformed(f"{Quoted(node)} is no hexadecimal number") from None

    def real(self, node: Any) -> float:
        try:
            value: float = struct.unpack(">d", bytes.fromhex(node))[0]
        except (TypeError, ValueError, struct.error):
            raise Malformed(f"{Quoted(node)} are not the bits of a number") from None
        return value

    def complex(self, node: Any) -> complex:
        parts = self.items(node)
        if len(parts) != 2 or not all(type(part) is float for part in parts):
            raise Malformed(f"{Quoted(node)} is no complex number")
        return complex(*parts)

    def size(self, node: Any) -> Size:
        return Size(self.integers(node))

    def dtype(self, node: Any) -> Any:
        return dtype_called(node)

    def device(self, node: Any) -> Any:
        return device_called(node)


def dtype_called(name: Any) -> Any:
    """The dtype of that name."""
    found = getattr(_core, name, None) if type(name) is str else None
    if not isinstance(found, _core.dtype):
        raise Malformed(f"there is no dtype {Quoted(name)}")
    return found


def device_called(name: Any) -> Any:
    """The device of that name."""
    try:
        if type(name) is str:
            return _core.device(name)
    except (RuntimeError, ValueError, TypeError):
        pass
    raise Malformed(f"there is no device {Quoted(name)}")


_DECODERS: dict[Any, Callable[[Decoder, Any], Any]] = {
    "tuple": lambda self, node: tuple(self.items(node)),
    "dict": lambda self, node: dict(self.pairs(node)),
    "ordered": Decoder.ordered,
    "counter": Decoder.counter,
    "set": lambda self, node: set(self.keys(self.items(node))),
    "frozenset": lambda self, node: frozenset(self.keys(self.items(node))),
    "bytes": Decoder.octets,
    "bytearray": lambda self, node: bytearray(self.octets(node)),
    "int": Decoder.integer,
    "float": Decoder.real,
    "complex": Decoder.complex,
    "slice": Decoder.slice,
    "range": Decoder.range,
    "size": Decoder.size,
    "dtype": Decoder.dtype,
    "device": Decoder.device,
    "tensor": Decoder.tensor,
}
