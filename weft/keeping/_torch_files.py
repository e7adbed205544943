"""PyTorch's files: tensors and containers of them, read without executing anything.

A file is a zip archive: `data.pkl` is a pickle of the object, in which each storage is named by a
key, and `data/KEY` holds the storage's bytes. Before 2020 it was four pickles and the storages in
a row.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from weft import _core
from weft._size import Size
from weft.keeping import _zip
from weft.keeping._arrays import parameter_of, view_of
from weft.keeping._errors import Quoted, RefusedFileError
from weft.keeping._locations import Locations, moved
from weft.keeping._pickle import Machine, Symbol
from weft.keeping._reading import Part, Source, read_parts
from weft.keeping._safetensors import Entry
from weft.keeping._tree import Malformed, device_called, is_key
from weft.keeping._weft_files import memory_for

# The old format begins with a pickle of this number.
_MAGIC = 0x1950A86A20F9469CFC6C
_OLD_VERSION = 1001
_ALIGNMENT = 16  # of a storage, whatever numbers it holds; PyTorch writes them so
_MOST_PICKLE_BYTES = 1 << 28  # of objects, which take up to sixty times as much


class _Memory(NamedTuple):
    """A storage: its bytes as a tensor, and what numbers they are (None: not said)."""

    octets: Any
    dtype: Any


def load(source: Source, locations: Locations, check: bool) -> Any:
    """The object in one of PyTorch's files."""
    start = source.read(0, min(32, source.size))
    try:
        if _zip.looks_like_it(start):
            return _ZipReader(source, locations, check).load()
        if start[:1] == b"\x80" and _MAGIC.to_bytes(10, "little") in start:
            return _OldReader(source, locations).load()
    except Malformed as error:
        raise source.damaged(str(error)) from None
    if start[:1] == b"\x80":
        raise RefusedFileError(
            f"weft.load(): {source.name} is a pickle, but none of torch.save(): weft executes no "
            "pickles; load it with pickle.load() if you trust it, and weft.save() its data"
        )
    raise source.damaged("it begins like no format that weft knows")


class _Reader:
    """What both formats share: the objects that a pickle may ask for."""

    def __init__(self, source: Source, locations: Locations) -> None:
        self.source = source
        self.locations = locations
        self.memories: dict[str, Any] = {}

    def find(self, module: str, name: str) -> Any:
        """What stands for a name in the pickle."""
        full_name = f"{module}.{name}"
        found = _SYMBOLS.get(full_name)
        if found is None and module == "torch" and name in _FOREIGN_NUMBERS:
            raise RefusedFileError(
                f"weft.load(): {self.source.name} holds numbers of a type that weft does not have "
                f"({full_name}): convert them in PyTorch, and save again"
            )
        if found is None:
            raise RefusedFileError(
                f"weft.load(): {self.source.name}: Weights only load failed. Unsupported global: "
                f"GLOBAL {Quoted(full_name)[1:-1]} was not an allowed global: the file holds more "
                f"than data, and weft executes nothing that is in a file. {_cure(module)}"
            )
        return found

    def storage(self, name: Any) -> _Memory:
        """The memory that a persistent name of the pickle means."""
        if type(name) is not tuple or len(name) not in (5, 6) or name[0] != "storage":
            raise Malformed("its pickle names a storage in an unknown way")
        _, kind, key, location, count = name[:5]
        if not isinstance(kind, _StorageType) or type(key) is not str or type(location) is not str:
            raise Malformed("its pickle names a storage in an unknown way")
        if type(count) is not int or not 0 <= count < 1 << 62:
            raise Malformed(f"a storage is said to hold {Quoted(count)} numbers")
        nbytes = count * (1 if kind.dtype is None else kind.dtype.itemsize)
        octets = self.memories.get(key)
        if octets is None:
            octets = self.memories[key] = self.new_memory(key, location, nbytes)
        if octets.numel() != nbytes:
            raise Malformed(f"the storage {Quoted(key)} is said to be of two sizes")
        if len(name) == 6 and name[5] is not None:
            octets = self.part_of(octets, kind, name[5])
        return _Memory(octets, kind.dtype)

    def part_of(self, octets: Any, kind: _StorageType, view: Any) -> Any:
        raise Malformed("its pickle names a part of a storage")

    def new_memory(self, key: str, location: str, nbytes: int) -> Any:
        raise NotImplementedError


class _ZipReader(_Reader):
    def __init__(self, source: Source, locations: Locations, check: bool) -> None:
        super().__init__(source, locations)
        self.check = check
        self.members = _zip.members_of(source)
        self.parts: list[Part] = []
        pickles = [name for name in self.members if name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise source.damaged("it is a zip file, but none of torch.save()")
        self.folder = pickles[0].removesuffix("data.pkl")

    def load(self) -> Any:
        source = self.source
        if f"{self.folder}constants.pkl" in self.members:
            raise RefusedFileError(
                f"weft.load(): {source.name} is a TorchScript program: save the module's "
                "state_dict() in PyTorch, with torch.save()"
            )
        order = self.members.get(f"{self.folder}byteorder")
        if order is not None and _zip.read_member(source, order) != b"little":
            raise RefusedFileError(
                f"weft.load(): {source.name} was written on a big-endian machine: save it again "
                "on another"
            )
        program = self.members[f"{self.folder}data.pkl"]
        if program.size > _MOST_PICKLE_BYTES:
            raise source.damaged(f"its pickle is said to take {program.size} bytes")
        result = Machine(_zip.read_member(source, program), self.find, self.storage).run()
        read_parts(source, self.parts)
        return result

    def new_memory(self, key: str, location: str, nbytes: int) -> Any:
        member = self.members.get(f"{self.folder}data/{key}")
        if member is None or member.size != nbytes:
            raise Malformed(
                f"the storage {Quoted(key)} should take {nbytes} bytes, "
                + ("but is not there" if member is None else f"not {member.size}")
            )
        _zip.check_stored(self.source, member)
        entry = Entry("uint8", (nbytes,), member.offset, nbytes)
        octets, target = memory_for(self.source, entry, _ALIGNMENT)
        parts: list[Part] = []
        checksum = member.crc32 if self.check else None
        if target is not None or checksum is not None:
            parts.append(Part(member.offset, nbytes, target, checksum, member.name))
        device = self.locations.target(octets, location)
        if device == "cpu":
            self.parts += parts  # read all at once, later
            return octets
        read_parts(self.source, parts)
        return moved(octets, device)


class _OldReader(_Reader):
    """The format without a zip archive. Storages come last, so their bytes are filled in then."""

    def __init__(self, source: Source, locations: Locations) -> None:
        super().__init__(source, locations)
        self.item_bytes: dict[str, int] = {}
        self.devices: dict[str, str] = {}

    def load(self) -> Any:
        data = self.source.read(0, self.source.size)
        raw = memoryview(data)
        machine = Machine(data, self.find, self.storage)
        if machine.run() != _MAGIC or machine.run() != _OLD_VERSION:
            raise Malformed("it is of an unknown version of PyTorch's old format")
        about = machine.run()
        if type(about) is not dict or about.get("little_endian") is not True:
            raise Malformed("it does not say that it is little-endian")
        result = machine.run()
        keys = machine.run()
        if type(keys) is not list or not all(type(key) is str for key in keys):
            raise Malformed("it does not list its storages")
        if sorted(keys) != sorted(self.memories):
            raise Malformed("it lists other storages than it uses")
        at = machine.at
        for key in keys:
            octets = self.memories[key]
            if len(data) - at < 8 + octets.numel():
                raise Malformed("it is cut")
            (count,) = struct.unpack_from("<q", data, at)
            at += 8
            if count * self.item_bytes[key] != octets.numel():
                raise Malformed(f"the storage {Quoted(key)} is said to be of two sizes")
            memoryview(octets)[:] = raw[at : at + octets.numel()]
            at += octets.numel()
        if at != len(data):
            raise Malformed(f"{len(data) - at} bytes follow its end")
        return result

    def storage(self, name: Any) -> _Memory:
        memory = super().storage(name)
        self.item_bytes[name[2]] = 1 if memory.dtype is None else memory.dtype.itemsize
        return memory

    def new_memory(self, key: str, location: str, nbytes: int) -> Any:
        if nbytes > self.source.size:
            raise Malformed(f"the storage {Quoted(key)} is said to take {nbytes} bytes")
        octets = _core.empty((nbytes,), dtype=_core.uint8)
        if self.locations.target(octets, location) != "cpu":
            raise RefusedFileError(
                f"weft.load(): {self.source.name} is of PyTorch's old format, which is read to the "
                "CPU only: give map_location='cpu' and move the tensors afterwards"
            )
        return octets


def _cure(module: str) -> str:
    top = module.partition(".")[0]
    if top == "numpy":
        return "In PyTorch, turn numpy's values into tensors or numbers, and save again."
    if module.startswith("torch.nn"):
        return "In PyTorch, save model.state_dict() instead of the model."
    return "In PyTorch, save only tensors and plain values, in dicts and lists."


# ---- what a pickle may name ----------------------------------------------------------------------


class _StorageType:
    """A class of storages; stands only in the names of storages."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype


def _arguments(values: tuple[Any, ...], fewest: int, most: int, name: str) -> tuple[Any, ...]:
    """`values`, filled up with None to `most`."""
    if not fewest <= len(values) <= most:
        raise Malformed(f"its pickle calls {name} with {len(values)} arguments")
    return (*values, *[None] * (most - len(values)))


def _tensor(memory: Any, dtype: Any, offset: Any, sizes: Any, strides: Any, grad: Any) -> Any:
    if type(memory) is not _Memory or not isinstance(dtype, _core.dtype):
        raise Malformed("its pickle makes a tensor of something else than a storage")
    result = view_of(memory.octets, dtype, sizes, strides, offset)
    if type(grad) is not bool or (grad and not result.is_floating_point()):
        raise Malformed("its pickle makes a tensor that cannot require a gradient require one")
    return result.requires_grad_() if grad else result


def _rebuild_tensor(values: tuple[Any, ...]) -> Any:
    memory, offset, sizes, strides = _arguments(values, 4, 4, "_rebuild_tensor")
    return _tensor(memory, getattr(memory, "dtype", None), offset, sizes, strides, False)


def _rebuild_tensor_v2(values: tuple[Any, ...]) -> Any:
    memory, offset, sizes, strides, grad, _hooks, metadata = _arguments(
        values, 6, 7, "_rebuild_tensor_v2"
    )
    _no_marks(metadata)
    return _tensor(memory, getattr(memory, "dtype", None), offset, sizes, strides, grad)


def _rebuild_tensor_v3(values: tuple[Any, ...]) -> Any:
    memory, offset, sizes, strides, grad, _hooks, dtype, metadata = _arguments(
        values, 7, 8, "_rebuild_tensor_v3"
    )
    _no_marks(metadata)
    return _tensor(memory, dtype, offset, sizes, strides, grad)


def _no_marks(metadata: Any) -> None:
    """Marks say that a tensor's values are still to be conjugated or negated."""
    if metadata is not None and (type(metadata) is not dict or any(metadata.values())):
        raise Malformed("a tensor in it is marked in a way that weft does not know")


def _rebuild_parameter(values: tuple[Any, ...]) -> Any:
    # With a fourth argument come attributes of the parameter, which are not taken over.
    data, grad, _hooks, _attributes = _arguments(values, 3, 4, "_rebuild_parameter")
    if type(data) is not _core.Tensor or type(grad) is not bool:
        raise Malformed("its pickle makes a parameter of what is no tensor")
    if grad and not data.is_floating_point():
        raise Malformed("its pickle makes a parameter of whole numbers")
    return parameter_of(data, grad)


def _rebuild_from_type(values: tuple[Any, ...]) -> Any:
    """A tensor with attributes of its own, which are not taken over."""
    function, kind, arguments, _attributes = _arguments(values, 4, 4, "_rebuild_from_type_v2")
    if type(function) is not Symbol or not function.name.startswith("torch._utils._rebuild"):
        raise Malformed("its pickle makes a tensor in an unknown way")
    if type(kind) is not Symbol or type(arguments) is not tuple:
        raise Malformed("its pickle makes a tensor of an unknown class")
    return function.call(arguments)


def _not_called(values: tuple[Any, ...]) -> Any:
    raise Malformed("its pickle calls a class of tensors")


def _keys(values: tuple[Any, ...], name: str) -> list[Any]:
    (items,) = _arguments(values, 0, 1, name)
    if items is None:
        return []
    if type(items) not in (list, tuple, set, frozenset) or not all(map(is_key, items)):
        raise Malformed(f"its pickle makes a {name} of something else than keys")
    return list(items)


def _mapping(values: tuple[Any, ...], name: str) -> Any:
    (items,) = _arguments(values, 0, 1, name)
    if items is None:
        return {}
    if type(items) is dict:
        return items
    if type(items) is list and all(
        type(pair) in (list, tuple) and len(pair) == 2 and is_key(pair[0]) for pair in items
    ):
        return items
    raise Malformed(f"its pickle makes an {name} of something else than pairs")


def _counter(values: tuple[Any, ...]) -> Any:
    counts = dict(_mapping(values, "Counter"))
    return Counter(counts)


def _complex(values: tuple[Any, ...]) -> complex:
    real, imaginary = _arguments(values, 2, 2, "complex")
    if type(real) is not float or type(imaginary) is not float:
        raise Malformed("its pickle makes a complex number of something else than numbers")
    return complex(real, imaginary)


def _size(values: tuple[Any, ...]) -> Size:
    (sizes,) = _arguments(values, 1, 1, "Size")
    if type(sizes) not in (tuple, list) or not all(type(size) is int for size in sizes):
        raise Malformed("its pickle makes a Size of something else than whole numbers")
    return Size(sizes)


def _device(values: tuple[Any, ...]) -> Any:
    kind, index = _arguments(values, 1, 2, "device")
    if index is not None and type(index) is not int:
        raise Malformed("its pickle has a device whose index is no number")
    return device_called(kind if index is None else f"{kind}:{index}")


def _bytes(values: tuple[Any, ...]) -> bytes:
    """`bytes()`: how old protocols keep no bytes at all."""
    _arguments(values, 0, 0, "bytes")
    return b""


def _encode(values: tuple[Any, ...]) -> bytes:
    """How old protocols keep bytes: as text, each byte a character."""
    text, encoding = _arguments(values, 2, 2, "encode")
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise Malformed("its pickle keeps bytes in an unknown way")
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise Malformed("its pickle keeps bytes in an unknown way") from None


def _bytearray(values: tuple[Any, ...]) -> bytearray:
    content, encoding = _arguments(values, 0, 2, "bytearray")
    if content is None or type(content) is bytes:
        return bytearray(content or b"")
    return bytearray(_encode((content, encoding)))


def _whole_numbers(values: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    parts = _arguments(values, 3, 3, name)
    if not all(type(part) is int or (part is None and name == "slice") for part in parts):
        raise Malformed(f"its pickle makes a {name} of something else than numbers")
    return parts


def _range(values: tuple[Any, ...]) -> range:
    start, stop, step = _whole_numbers(values, "range")
    if step == 0:
        raise Malformed("its pickle makes a range with steps of 0")
    return range(start, stop, step)


_CALLED: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
    "torch.Tensor": _not_called,
    "torch.nn.parameter.Parameter": _not_called,
    "torch.Size": _size,
    "torch.device": _device,
    "collections.OrderedDict": lambda values: OrderedDict(_mapping(values, "OrderedDict")),
    "collections.Counter": _counter,
    "_codecs.encode": _encode,
}
_BUILTINS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "set": lambda values: set(_keys(values, "set")),
    "frozenset": lambda values: frozenset(_keys(values, "frozenset")),
    "complex": _complex,
    "bytes": _bytes,
    "bytearray": _bytearray,
    "slice": lambda values: slice(*_whole_numbers(values, "slice")),
    "range": _range,
    "xrange": _range,
}
_STORAGES = {
    "FloatStorage": _core.float32,
    "DoubleStorage": _core.float64,
    "HalfStorage": _core.float16,
    "BFloat16Storage": _core.bfloat16,
    "ByteStorage": _core.uint8,
    "CharStorage": _core.int8,
    "ShortStorage": _core.int16,
    "IntStorage": _core.int32,
    "LongStorage": _core.int64,
    "BoolStorage": _core.bool,
    "UntypedStorage": None,
}
_FOREIGN_NUMBERS = frozenset(
    ("ComplexFloatStorage", "ComplexDoubleStorage", "complex32", "complex64", "complex128",
     "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
     "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2",
     "QInt8Storage", "QUInt8Storage", "QInt32Storage", "QUInt4x2Storage", "QUInt2x4Storage")
)  # fmt: skip
_DTYPES = ("float16", "float32", "float64", "bfloat16", "uint8", "int8", "int16", "int32", "int64",
           "bool")  # fmt: skip

_SYMBOLS: dict[str, Any] = {
    **{name: Symbol(name, call) for name, call in _CALLED.items()},
    **{
        f"{module}.{name}": Symbol(name, call)
        for module in ("builtins", "__builtin__")  # Python 3's name, and Python 2's
        for name, call in _BUILTINS.items()
    },
    **{f"torch.{name}": _StorageType(dtype) for name, dtype in _STORAGES.items()},
    "torch.storage.UntypedStorage": _StorageType(None),
    **{f"torch.{name}": getattr(_core, name) for name in _DTYPES},
}
