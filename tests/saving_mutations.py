"""Damage to files, for the tests of loading: what a disk, a cable or an enemy may do to bytes."""

from __future__ import annotations

import copy
import json
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

# What people who write parsers fear: absurd lengths, and bytes that mean something to a format.
_NUMBERS = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_INSERTS = (
    b"\x00",
    b'"',
    b"{",
    b"}",
    b"[[[[[[[[",
    b"\xff\xfe",
    b"PK\x05\x06",
    b"1",
    b"-",
    b",",
    b" ",
)
_JSON_VALUES = (
    None, True, -1, 0, 1, 2**63, 2**64, 1e308, 0.5, "", "F64", "F8_E4M3", "U16", [], [[]], {},
    {"a": 1}, [0, 0], [2**62, 4, 0], [2**40, 2**40], list(range(70)), "x" * 300, "\ud800",
)  # fmt: skip


def flip_a_bit(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def flip_a_bit_early(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(min(200, len(data)))] ^= 1 << rng.randrange(8)


def set_some_bytes(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    for index in range(at, min(len(data), at + rng.randint(1, 9))):
        data[index] = rng.randrange(256)


def cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def cut_the_beginning(data: bytearray, rng: random.Random) -> None:
    del data[: rng.randint(1, len(data))]


def remove_some_bytes(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.randint(1, 40)]


def insert_some_bytes(data: bytearray, rng: random.Random) -> None:
    at = rng.randint(0, len(data))
    data[at:at] = rng.choice((rng.choice(_INSERTS), rng.randbytes(rng.randint(1, 40))))


def repeat_some_bytes(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    data[at:at] = data[at : at + rng.randint(1, 200)]


def exchange_two_pieces(data: bytearray, rng: random.Random) -> None:
    size = rng.randint(1, 16)
    first, second = (rng.randrange(max(1, len(data) - size)) for _ in range(2))
    one, other = data[first : first + size], data[second : second + size]
    data[first : first + size] = other
    data[second : second + size] = one


def write_a_number(data: bytearray, rng: random.Random) -> None:
    number = rng.choice(_NUMBERS)
    raw = struct.pack("<Q", number)[: rng.choice((2, 4, 8))]
    at = rng.choice((0, rng.randrange(len(data)), max(0, len(data) - rng.randint(1, 120))))
    data[at : at + len(raw)] = raw


def add_to_the_end(data: bytearray, rng: random.Random) -> None:
    data += rng.choice((b"\x00", b" ", rng.randbytes(rng.randint(1, 64)), bytes(data)))


BYTE_DAMAGE: tuple[Callable[[bytearray, random.Random], None], ...] = (
    flip_a_bit, flip_a_bit_early, set_some_bytes, cut, cut_the_beginning, remove_some_bytes,
    insert_some_bytes, repeat_some_bytes, exchange_two_pieces, write_a_number, add_to_the_end,
)  # fmt: skip


def damaged(data: bytes, rng: random.Random) -> bytes:
    """`data` with one to three damages."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if result:
            rng.choice(BYTE_DAMAGE)(result, rng)
    return bytes(result)


# ---- edits that know the format ------------------------------------------------------------------


def with_edited_header(data: bytes, rng: random.Random) -> bytes:
    """A safetensors file whose JSON says something else, in a header of the right length."""
    (length,) = struct.unpack_from("<Q", data)
    text = data[8 : 8 + length]
    while True:
        table = json.loads(text)
        _edit(table, rng)
        # Without all that weft says, it is a file of another program, and a whole one.
        if b"weftfile" not in text or "weftfile" in str(table.get("__metadata__")):
            break
    text = json.dumps(table).encode()
    if rng.random() < 0.1:  # a name twice
        text = text[:-1] + b"," + text[1:]
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def with_edited_content(data: bytes, rng: random.Random) -> bytes:
    """A file of weft's whose description says something else, under checksums that fit."""
    (length,) = struct.unpack_from("<Q", data)
    table = json.loads(data[8 : 8 + length])
    metadata = table["__metadata__"]
    content = json.loads(metadata["weftfile.content"])
    for _ in range(rng.choice((1, 1, 2))):
        _edit(content, rng)
    metadata["weftfile.content"] = json.dumps(content)
    if rng.random() < 0.2:
        _edit({name: table[name] for name in table if name != "__metadata__"}, rng)
    return signed(table, data[8 + length :])


def signed(table: Any, arrays: bytes) -> bytes:
    """A file of weft's with this header, whose checksum fits."""
    table["__metadata__"]["weftfile.checksum"] = "00000000"
    text = json.dumps(table, separators=(",", ":")).encode()
    start = struct.pack("<Q", len(text)) + text
    checksum = f"{zlib.crc32(start):08x}".encode()
    return (
        start.replace(b'"weftfile.checksum":"00000000"', b'"weftfile.checksum":"%s"' % checksum, 1)
        + arrays
    )


def _edit(node: Any, rng: random.Random) -> None:
    """Changes, removes or exchanges something somewhere below `node`."""
    places = list(_places(node))
    if not places:
        return
    owner, key = rng.choice(places)
    match rng.randrange(4):
        case 0:
            del owner[key]
        case 1:
            value = owner[key]
            owner[key] = value + rng.choice((-1, 1, 4, 8, -8)) if type(value) is int else [value]
        case 2:
            other, other_key = rng.choice(places)
            owner[key] = json.loads(json.dumps(other[other_key]))
        case _:
            owner[key] = copy.deepcopy(rng.choice(_JSON_VALUES))


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in list(items):
        yield node, key
        if isinstance(value, dict | list):
            yield from _places(value)


def zip_of(members: list[tuple[str, bytes]]) -> bytes:
    """A zip file like PyTorch's, with checksums that fit."""
    import io
    import zipfile

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members:
            archive.writestr(f"archive/{name}", content)
    return file.getvalue()


def members_of(data: bytes) -> list[tuple[str, bytes]]:
    """What is in one of PyTorch's zip files."""
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(name.partition("/")[2], archive.read(name)) for name in archive.namelist()]


def with_edited_pickle(data: bytes, rng: random.Random) -> bytes:
    """A zip file of PyTorch's whose pickle is damaged, under checksums that fit."""
    members = members_of(data)
    return zip_of(
        [
            (name, damaged(content, rng) if name == "data.pkl" else content)
            for name, content in members
        ]
    )
