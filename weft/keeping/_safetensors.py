"""The safetensors format: a header in JSON, then arrays without holes.

8 bytes      length of the header, little-endian
header       {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
              "__metadata__": {"key": "text"}}
data         the arrays, at the offsets that the header names
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from weft.keeping._arrays import Array
from weft.keeping._errors import Quoted, RefusedFileError
from weft.keeping._reading import Source

METADATA = "__metadata__"
MOST_HEADER_BYTES = 100_000_000  # the limit of the format's other readers
_ALIGNMENT = 64

_CODES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
}
_DTYPES = {code: name for name, code in _CODES.items()}
_ITEM_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "I32": 4, "I64": 8,
    "F16": 2, "BF16": 2, "F32": 4, "F64": 8,
}  # fmt: skip
# Of the format, but not of weft.
_FOREIGN_CODES = frozenset(
    ("U16", "U32", "U64", "C64", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
     "F4", "F6_E2M3", "F6_E3M2")
)  # fmt: skip


class Entry(NamedTuple):
    """An array as the header describes it; `offset` counts from the file's beginning."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


class Header(NamedTuple):
    raw: bytes  # the length and the text
    entries: dict[str, Entry]
    metadata: dict[str, str]


# ---- writing -------------------------------------------------------------------------------------


def in_file_order(arrays: Iterable[Array]) -> list[Array]:
    """An order in which every array is aligned, though there are no holes.

    Those that end where a line of the processor's cache ends come first; the others by the size of
    their numbers.
    """
    return sorted(
        arrays,
        key=lambda array: (array.nbytes % _ALIGNMENT != 0, -_ITEM_BYTES[_CODES[array.dtype]]),
    )


def header(arrays: list[Array], metadata: dict[str, str]) -> bytes:
    """The header of a file that holds `arrays` in this order."""
    table: dict[str, Any] = {METADATA: metadata}
    at = 0
    for array in arrays:
        table[array.name] = {
            "dtype": _CODES[array.dtype],
            "shape": array.shape,
            "data_offsets": [at, at + array.nbytes],
        }
        at += array.nbytes
    text = json.dumps(table, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    if len(text) > MOST_HEADER_BYTES:
        raise ValueError(
            f"weft.save(): all that is no tensor takes {len(text)} bytes, more than the format's "
            f"{MOST_HEADER_BYTES}: keep long lists of numbers as tensors"
        )
    return struct.pack("<Q", len(text)) + text


# ---- reading -------------------------------------------------------------------------------------


def looks_like_it(start: bytes) -> bool:
    """Whether a file that begins so is of this format, or was before it was damaged."""
    return start[8:9] == b"{"


def parse(source: Source) -> Header:
    """The header, checked: every byte of the file belongs to exactly one array."""
    if source.size < 10:
        raise source.damaged(f"it has {source.size} bytes")
    (length,) = struct.unpack("<Q", source.read(0, 8))
    if length > min(source.size - 8, MOST_HEADER_BYTES):
        raise source.damaged(
            f"its header is said to take {length} bytes, in a file of {source.size} bytes"
        )
    raw = source.read(0, 8 + length)
    table = _json(source, raw[8:])
    if type(table) is not dict:
        raise source.damaged("its header is no JSON object")
    metadata = table.pop(METADATA, None)
    if metadata is None:
        metadata = {}
    if type(metadata) is not dict or not all(type(text) is str for text in metadata.values()):
        raise source.damaged(f"{METADATA} is no object of strings")
    entries = {name: _entry(source, name, fields) for name, fields in table.items()}
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].offset, item[1].nbytes)):
        if entry.offset != end:
            raise source.damaged(
                f"{Quoted(name)} is said to begin at {entry.offset} where {end} is expected: "
                "arrays overlap or leave holes"
            )
        end += entry.nbytes
    data = source.size - len(raw)
    if end != data:
        raise source.damaged(f"its arrays take {end} bytes, but {data} bytes follow its header")
    for name, entry in entries.items():
        entries[name] = entry._replace(offset=entry.offset + len(raw))
    return Header(raw, entries, metadata)


def parse_json(text: str) -> Any:
    """JSON, without repeated keys and numbers that are none. Raises ValueError."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _json(source: Source, raw: bytes) -> Any:
    try:
        return parse_json(raw.decode("utf-8"))
    except ValueError as error:  # of the text, of its encoding, of a number of endless digits
        raise source.damaged(f"its header is no JSON: {Quoted(str(error))}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name stands there twice")
    return result


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _entry(source: Source, name: str, fields: Any) -> Entry:
    if type(fields) is not dict or fields.keys() != {"dtype", "shape", "data_offsets"}:
        raise source.damaged(f"{Quoted(name)} has no dtype, shape and data_offsets")
    code, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
        raise source.damaged(
            f"shape or data_offsets of {Quoted(name)} are no lists of whole numbers"
        )
    if type(code) is not str or (code not in _DTYPES and code not in _FOREIGN_CODES):
        raise source.damaged(f"{Quoted(name)} has the unknown dtype {Quoted(code)}")
    begin, end = offsets
    if not begin <= end <= source.size:
        raise source.damaged(f"{Quoted(name)} is said to lie at {begin} to {end}")
    if code in _FOREIGN_CODES:
        raise RefusedFileError(
            f"weft.load(): {source.name}: the array {Quoted(name)} is of dtype {code}, which weft "
            "does not have: convert it with the program that wrote it"
        )
    if len(shape) > 64:
        raise source.damaged(f"{Quoted(name)} has {len(shape)} dimensions; there can be 64")
    if math.prod(shape) * _ITEM_BYTES[code] != end - begin:
        raise source.damaged(
            f"{Quoted(name)} of shape {Quoted(shape)} and dtype {code} cannot take {end - begin} "
            "bytes"
        )
    # A dimension of 0 may stand beside absurd ones, whose product does not matter.
    if any(size >= 1 << 62 for size in shape):
        raise source.damaged(f"{Quoted(name)} has the impossible shape {Quoted(shape)}")
    return Entry(_DTYPES[code], tuple(shape), begin, end - begin)


def _are_counts(values: Any) -> bool:
    return type(values) is list and all(type(value) is int and value >= 0 for value in values)
