"""The members of a zip file that is stored without compression, as PyTorch writes it.

Only what such files use is read, and everything that the format says twice must agree: two readers
of an ambiguous archive can see different files.
"""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise
from typing import NamedTuple

from weft.keeping._errors import Quoted, RefusedFileError
from weft.keeping._reading import Source

_END = struct.Struct("<4s4H2LH")
_LOCATOR_64 = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_MOST_DIRECTORY_BYTES = 1 << 30
_FULL_16, _FULL_32 = 0xFFFF, 0xFFFFFFFF  # the true number stands in the 64-bit record
_STREAMED = 1 << 3  # the local header leaves sizes to the directory
_UTF8 = 1 << 11


class Member(NamedTuple):
    """A file in the archive; `offset` is where its bytes begin."""

    name: str
    offset: int
    size: int
    crc32: int
    is_stored: bool  # neither compressed nor encrypted


def looks_like_it(start: bytes) -> bool:
    """Whether a file that begins so is a zip file."""
    return start[:4] in (b"PK\x03\x04", b"PK\x05\x06")


def members_of(source: Source) -> dict[str, Member]:
    """All members, by name."""
    count, size, offset = _directory(source)
    if size > _MOST_DIRECTORY_BYTES:
        raise source.damaged(f"its directory is said to take {size} bytes")
    directory = source.read(offset, size)
    found: dict[str, Member] = {}
    extents: list[tuple[int, int]] = []
    at = 0
    for _ in range(count):
        at, start, member = _member(source, directory, at, offset)
        if member.name in found:
            raise source.damaged(f"it has two members called {Quoted(member.name)}")
        found[member.name] = member
        extents.append((start, member.offset + member.size))
    if at != size:
        raise source.damaged("its directory has other members than it counts")
    extents.sort()
    if extents and extents[-1][1] > offset:
        raise source.damaged("a member reaches into the directory")
    for (_, end), (start, _) in pairwise(extents):
        if start < end:
            raise source.damaged("two members overlap")
    return found


def check_stored(source: Source, member: Member) -> None:
    """Raises for a member whose bytes do not simply stand there. Nothing is ever unpacked."""
    if not member.is_stored:
        raise RefusedFileError(
            f"weft.load(): {source.name}: the member {Quoted(member.name)} is compressed or "
            "encrypted, which files of PyTorch's are not: save it again with torch.save()"
        )


def read_member(source: Source, member: Member) -> bytes:
    """The bytes of a small member, checked."""
    check_stored(source, member)
    data = source.read(member.offset, member.size)
    if zlib.crc32(data) != member.crc32:
        raise source.damaged(f"the bytes of the member {Quoted(member.name)} do not fit its sum")
    return data


def _directory(source: Source) -> tuple[int, int, int]:
    """How many members the directory has, its size, and where it begins."""
    end_at = source.size - _END.size
    if end_at < 0:
        raise source.damaged(f"it has {source.size} bytes")
    mark, disk, first_disk, here, count, size, offset, comment = _END.unpack(
        source.read(end_at, _END.size)
    )
    if mark != b"PK\x05\x06" or comment:
        raise source.damaged("it does not end as a zip file ends: it was cut, or added to")
    if disk or first_disk or here != count:
        raise source.damaged("it is a part of several")
    end_of_directory = end_at
    locator_at = end_at - _LOCATOR_64.size
    locator = source.read(locator_at, _LOCATOR_64.size) if locator_at >= 0 else b""
    if locator[:4] == b"PK\x06\x07":
        _, disk, end_of_directory, disks = _LOCATOR_64.unpack(locator)
        if disk or disks != 1 or end_of_directory + _END_64.size != locator_at:
            raise source.damaged("its 64-bit record is not where it should be")
        mark, length, _, _, disk, first_disk, here, count_64, size_64, offset_64 = _END_64.unpack(
            source.read(end_of_directory, _END_64.size)
        )
        if mark != b"PK\x06\x06" or length != _END_64.size - 12 or disk or first_disk:
            raise source.damaged("its 64-bit record is none")
        if here != count_64 or not (
            count in (count_64, _FULL_16)
            and size in (size_64, _FULL_32)
            and offset in (offset_64, _FULL_32)
        ):
            raise source.damaged("its two records of its directory do not agree")
        count, size, offset = count_64, size_64, offset_64
    if offset + size != end_of_directory or count * _CENTRAL.size > size:
        raise source.damaged("its directory is not where it should be")
    return count, size, offset


def _member(source: Source, directory: bytes, at: int, end_of_data: int) -> tuple[int, int, Member]:
    """The member whose entry begins at `at`: where the next one begins, and its own header."""
    entry = directory[at : at + _CENTRAL.size]
    if len(entry) < _CENTRAL.size or entry[:4] != b"PK\x01\x02":
        raise source.damaged("its directory is cut")
    _, _, _, flags, method, _, _, crc32, packed, size, name_size, extra_size, comment_size = (
        _CENTRAL.unpack(entry)[:13]
    )
    disk, _, _, start = _CENTRAL.unpack(entry)[13:]
    at += _CENTRAL.size
    raw_name = directory[at : at + name_size]
    extra = directory[at + name_size : at + name_size + extra_size]
    at += name_size + extra_size + comment_size
    try:
        name = raw_name.decode("utf-8")
    except UnicodeDecodeError:
        raise source.damaged("the name of a member is no text") from None
    wide = [number for number in (size, packed, start) if number == _FULL_32]
    if wide:
        values = _wide_fields(source, extra, len(wide))
        size = values.pop(0) if size == _FULL_32 else size
        packed = values.pop(0) if packed == _FULL_32 else packed
        start = values.pop(0) if start == _FULL_32 else start
    is_stored = method == 0 and not flags & ~(_STREAMED | _UTF8)
    if disk or (is_stored and packed != size) or start + _LOCAL.size > end_of_data:
        raise source.damaged(f"the entry of {Quoted(name)} does not make sense")
    local = _LOCAL.unpack(source.read(start, _LOCAL.size))
    mark, _, local_flags, local_method, _, _, local_crc32, _, _, local_name, local_extra = local
    offset = start + _LOCAL.size + local_name + local_extra
    streamed = flags & _STREAMED
    if (
        mark != b"PK\x03\x04"
        or (local_flags, local_method) != (flags, method)
        or source.read(start + _LOCAL.size, local_name) != raw_name
        or not (local_crc32 == crc32 or (streamed and local_crc32 == 0))
        or offset + packed > end_of_data
    ):
        raise source.damaged(f"the member {Quoted(name)} is not what the directory says")
    return at, start, Member(name, offset, packed, crc32, is_stored)


def _wide_fields(source: Source, extra: bytes, count: int) -> list[int]:
    """The numbers of 64 bits in an entry's extra field."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        if kind == 1 and size >= 8 * count and at + 4 + 8 * count <= len(extra):
            return list(struct.unpack_from(f"<{count}Q", extra, at + 4))
        at += 4 + size
    raise source.damaged("the size of a large member is missing")
