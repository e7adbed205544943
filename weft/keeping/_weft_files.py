"""weft's own files: safetensors files that also say how their arrays make up an object.

Note [What a file says about itself]
Two entries of the header's metadata are weft's: `weftfile.content` is the JSON of an object

    weftfile    the version of all this: 1
    tree        the saved object (see _tree.py), with numbers in the place of tensors
    tensors     how each tensor is made of an array (see _arrays.py)
    arrays      for each array the checksums of its blocks, its order in memory, its device
    end         "weftfile"

and `weftfile.checksum` stands at a fixed place and is the checksum of the whole header, with zeros
in its own place. So each byte of a file is covered: the length and the header by that checksum,
the data by those of the blocks. A file that has the word in only one of these places was changed by
something that did not know what it changed; nothing of it is trusted. (The places are several, and
far apart, because a file without the word is a file of another program, and is not checked.)

The checksum is CRC-32: what does not change on purpose, it finds (every change within 32 bits in
a row, and all but one in four billion of the others), and zlib computes it at 3-6 GB/s on one core,
6 to 20 times as fast as the hashes of the standard library. It is no signature.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any

from weft import _core
from weft.keeping._arrays import Array, arrays_of, contiguous_strides, laid_out, tensor_of
from weft.keeping._errors import Quoted, RefusedFileError
from weft.keeping._locations import Locations, moved
from weft.keeping._reading import (
    BLOCK,
    MappedSource,
    Part,
    Source,
    block_checksums,
    in_threads,
    read_parts,
)
from weft.keeping._safetensors import Entry, header, in_file_order, parse, parse_json
from weft.keeping._tree import Decoder, Encoder, Malformed, device_called
from weft.keeping._writing import Pieces

_VERSION = 1
_MARK = "weftfile"
_CONTENT = "weftfile.content"
_CHECKSUM = "weftfile.checksum"
_BEGINNING = b'{"__metadata__":{"format":"pt","weftfile.checksum":"'
_CHECKSUM_AT = 8 + len(_BEGINNING)
_NO_CHECKSUM = "0" * 8


# ---- writing -------------------------------------------------------------------------------------


def pieces_of(obj: Any) -> Pieces:
    """The content of the file that keeps `obj`."""
    encode = Encoder()
    tree = encode(obj)
    arrays, descriptions = arrays_of(encode.tensors)
    arrays = in_file_order(arrays)
    content = {
        _MARK: _VERSION,
        "tree": tree,
        "tensors": descriptions,
        "arrays": {
            array.name: _about(array, sums)
            for array, sums in zip(arrays, _all_checksums(arrays), strict=True)
        },
        "end": _MARK,
    }
    metadata = {
        "format": "pt",  # the layout of numbers; what other programs look for
        _CHECKSUM: _NO_CHECKSUM,
        _CONTENT: json.dumps(content, separators=(",", ":"), allow_nan=False),
    }
    start = header(arrays, metadata)
    own = f"{zlib.crc32(start):08x}".encode()
    start = start[:_CHECKSUM_AT] + own + start[_CHECKSUM_AT + len(own) :]

    def pieces() -> Iterator[Any]:
        yield start
        for array in arrays:
            if array.nbytes:
                yield array.data()

    return pieces


def _all_checksums(arrays: list[Array]) -> list[list[int]]:
    result: list[list[int]] = [[] for _ in arrays]

    def compute(number: int) -> None:
        if arrays[number].nbytes:
            result[number] = block_checksums(arrays[number].data())

    in_threads(compute, range(len(arrays)), sum(array.nbytes for array in arrays))
    return result


def _about(array: Array, checksums: list[int]) -> dict[str, Any]:
    result: dict[str, Any] = {"crc32": "".join(f"{checksum:08x}" for checksum in checksums)}
    if array.strides is not None:
        result["strides"] = array.strides
    if array.device != "cpu":
        result["device"] = array.device
    return result


# ---- reading -------------------------------------------------------------------------------------


def load(source: Source, locations: Locations, check: bool) -> Any:
    """The object in a file of weft's, or the dict of tensors in one of another program's."""
    raw, entries, metadata = parse(source)
    if not any(_MARK in name or _MARK in text for name, text in metadata.items()):
        arrays, parts = _memory_for(source, entries, {})
        read_parts(source, parts)
        return {name: _moved(array, "cpu", locations) for name, array in arrays.items()}

    content = _content(source, raw, metadata)
    try:
        about = content["arrays"]
        if type(about) is not dict or about.keys() != entries.keys():
            raise Malformed("what it says of its arrays is not about its arrays")
        checksums = {name: _checksums(about[name], entries[name]) for name in entries}
        was_on = {name: str(device_called(about[name].get("device", "cpu"))) for name in entries}
        arrays, parts = _memory_for(source, entries, checksums if check else {})
        read_parts(source, parts)
        for name, fields in about.items():
            if "strides" in fields:
                arrays[name] = laid_out(arrays[name], fields["strides"])
    except Malformed as error:
        raise source.damaged(str(error)) from None
    arrays = {name: _moved(array, was_on[name], locations) for name, array in arrays.items()}
    try:
        return _decoded(content, arrays)
    except Malformed as error:
        raise source.damaged(str(error)) from None
    except RecursionError:
        raise source.damaged("it is nested too deeply") from None


def _moved(array: Any, was: str, locations: Locations) -> Any:
    return moved(array, locations.target(array, was))


def _content(source: Source, raw: bytes, metadata: dict[str, str]) -> dict[str, Any]:
    whole = raw[8 : 8 + len(_BEGINNING)] == _BEGINNING and _CONTENT in metadata
    claimed = metadata.get(_CHECKSUM, "")
    end = _CHECKSUM_AT + len(_NO_CHECKSUM)
    own = zlib.crc32(raw[:_CHECKSUM_AT] + _NO_CHECKSUM.encode() + raw[end:])
    if not whole or claimed != f"{own:08x}":
        raise source.damaged(
            "its header is not the one that weft.save() wrote (another program may have changed "
            "the file; the safetensors package can still read its tensors)"
        )
    try:
        content = parse_json(metadata[_CONTENT])
    except ValueError as error:
        raise source.damaged(f"the description of its content is no JSON: {error}") from None
    if type(content) is dict and content.get(_MARK) != _VERSION:
        raise RefusedFileError(
            f"weft.load(): {source.name} was written by a newer weft (its format has the version "
            f"{Quoted(content.get('version'))}, this weft reads {_VERSION}): update weft"
        )
    if type(content) is not dict or content.keys() != {_MARK, "tree", "tensors", "arrays", "end"}:
        raise source.damaged("the description of its content is not complete")
    return content


def _checksums(about: Any, entry: Entry) -> list[int]:
    """The checksum of each block of an array."""
    text = about.get("crc32") if type(about) is dict else None
    blocks = -(-entry.nbytes // BLOCK)
    if type(text) is not str or len(text) != 8 * blocks:
        raise Malformed("it has not as many checksums as blocks")
    try:
        return [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    except ValueError:
        raise Malformed("a checksum is no hexadecimal number") from None


def _memory_for(
    source: Source, entries: dict[str, Entry], checksums: dict[str, list[int]]
) -> tuple[dict[str, Any], list[Part]]:
    """A tensor for each array, and what is to be read into them."""
    arrays: dict[str, Any] = {}
    parts: list[Part] = []
    for name, entry in entries.items():
        array, target = memory_for(source, entry)
        arrays[name] = array
        sums = checksums.get(name)
        if target is None and sums is None:
            continue
        for block, at in enumerate(range(0, entry.nbytes, BLOCK)):
            count = min(BLOCK, entry.nbytes - at)
            parts.append(
                Part(
                    entry.offset + at,
                    count,
                    None if target is None else target[at : at + count],
                    None if sums is None else sums[block],
                    name,
                )
            )
    return arrays, parts


def memory_for(
    source: Source, entry: Entry, alignment: int | None = None
) -> tuple[Any, memoryview | None]:
    """A tensor for an array, and where its bytes are to be put: None if it looks at the file."""
    dtype = getattr(_core, entry.dtype)
    is_aligned = entry.offset % (alignment or dtype.itemsize) == 0
    if isinstance(source, MappedSource) and entry.nbytes and is_aligned:
        octets = _core._from_bytes(source.data, _core.uint8, entry.nbytes, entry.offset)
        strides = contiguous_strides(entry.shape)
        return _core._over_storage(octets, dtype, entry.shape, strides, 0), None
    array = _core.empty(entry.shape, dtype=dtype)
    return array, memoryview(_core._storage_bytes(array))[: entry.nbytes]


def _decoded(content: dict[str, Any], arrays: dict[str, Any]) -> Any:
    descriptions = content["tensors"]
    if type(descriptions) is not list:
        raise Malformed("it does not list its tensors")
    used: set[str] = set()
    tensors = [tensor_of(description, arrays, used) for description in descriptions]
    if len(used) + sum("view" in description for description in descriptions) < len(arrays):
        raise Malformed("an array belongs to no tensor")
    return Decoder(tensors)(content["tree"])
