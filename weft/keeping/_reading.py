"""Reading pieces of files, with checksums, from disk or memory."""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import stat
import threading
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from weft import _core
from weft.keeping._errors import DamagedFileError, Quoted

# Small enough that the checksum finds the piece still in the processor's cache.
CHUNK = 256 << 10
# One checksum for each block of so many bytes, so that several threads can check one tensor.
BLOCK = 16 << 20
# Below this a second thread costs more than it saves.
WORTH_A_THREAD = 32 << 20


class Source:
    """Bytes that can be read at any place: those of a file or of memory."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fills `target` with what stands at `offset`."""
        raise NotImplementedError

    def look(self, offset: int, count: int) -> memoryview:
        """The `count` bytes at `offset`, without a copy where that is possible."""
        result = memoryview(bytearray(count))
        self.read_into(offset, result)
        return result

    def read(self, offset: int, count: int) -> bytes:
        """The `count` bytes at `offset`, if there are so many."""
        if offset < 0 or count < 0 or offset + count > self.size:
            raise self.damaged(f"it ends at byte {self.size}, before what it should hold")
        return bytes(self.look(offset, count))

    def damaged(self, reason: str) -> DamagedFileError:
        """The exception that names this file and says what is wrong with it."""
        return DamagedFileError(
            f"weft.load(): {self.name} is damaged or no file of tensors: {reason}. "
            "Take another copy of it."
        )


class FileSource(Source):
    """A part of an open file, from `start` to its end."""

    def __init__(self, name: str, descriptor: int, start: int = 0) -> None:
        super().__init__(name, max(0, os.fstat(descriptor).st_size - start))
        self.descriptor = descriptor
        self.start = start

    def read_into(self, offset: int, target: memoryview) -> None:
        place = self.start + offset
        while target.nbytes:
            count = os.preadv(self.descriptor, [target], place)
            if count == 0:
                raise self.damaged(f"it was cut at byte {place} while being read")
            place += count
            target = target[count:]


class MemorySource(Source):
    """Bytes in memory."""

    def __init__(self, name: str, data: Any) -> None:
        self.data = memoryview(data).cast("B")
        super().__init__(name, self.data.nbytes)

    def read_into(self, offset: int, target: memoryview) -> None:
        target[:] = self.data[offset : offset + target.nbytes]

    def look(self, offset: int, count: int) -> memoryview:
        return self.data[offset : offset + count]


class MappedSource(MemorySource):
    """A file mapped into memory: pages are read when they are looked at, copied when written to."""

    def __init__(self, name: str, descriptor: int) -> None:
        if os.fstat(descriptor).st_size == 0:
            super().__init__(name, b"")
            return
        self.mapping = mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)
        super().__init__(name, self.mapping)


class Part(NamedTuple):
    """A stretch of a file, the memory it goes to (None: it is only checked), and its checksum."""

    offset: int
    size: int
    target: memoryview | None
    checksum: int | None
    array: str  # the name of what it belongs to


def read_parts(source: Source, parts: list[Part]) -> None:
    """Reads and checks all `parts`, in several threads where that pays."""
    in_threads(lambda part: _read_part(source, part), parts, sum(part.size for part in parts))


def _read_part(source: Source, part: Part) -> None:
    found = 0
    for start in range(0, part.size, CHUNK):
        count = min(CHUNK, part.size - start)
        if part.target is None:
            piece = source.look(part.offset + start, count)
        else:
            piece = part.target[start : start + count]
            source.read_into(part.offset + start, piece)
        if part.checksum is not None:
            found = zlib.crc32(piece, found)
    if part.checksum is not None and found != part.checksum:
        raise source.damaged(
            f"the bytes of {Quoted(part.array)} are not those that were saved (their checksum is "
            f"{found:08x}, not {part.checksum:08x})"
        )


def in_threads(function: Callable[[Any], Any], items: Sequence[Any], nbytes: int) -> None:
    """Calls `function` with every item, in several threads if there are many bytes to go through.

    Raises the first exception.
    """
    threads = min(_core.get_num_threads(), 8, nbytes // WORTH_A_THREAD, len(items))
    if threads <= 1:
        for item in items:
            function(item)
        return
    waiting = iter(items)
    taking = threading.Lock()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while not failures:
                with taking:
                    item = next(waiting, waiting)
                if item is waiting:
                    return
                function(item)
        except BaseException as error:
            failures.append(error)

    helpers = [threading.Thread(target=work) for _ in range(threads - 1)]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join()
    if failures:
        raise failures[0]


def block_checksums(data: memoryview) -> list[int]:
    """The checksum of each block of `data`."""
    return [zlib.crc32(data[at : at + BLOCK]) for at in range(0, data.nbytes, BLOCK)]


@contextlib.contextmanager
def opened(file: Any, mapped: bool) -> Any:
    """A `Source` of a path or of a file-like object, from its position on."""
    if isinstance(file, str | os.PathLike):
        path = os.fspath(file)
        with open(path, "rb") as stream:
            kind = MappedSource if mapped else FileSource
            if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                yield kind(repr(path), stream.fileno())
            else:
                yield MemorySource(repr(path), stream.read())
        return
    if mapped:
        raise ValueError(
            "weft.load(): f must be a file path in order to use the mmap argument, "
            f"not {type(file).__name__}"
        )
    if isinstance(file, io.BytesIO):
        start = file.tell()
        with file.getbuffer() as whole, whole[start:] as rest:
            source = MemorySource("the file object", rest)
            try:
                yield source
            finally:
                source.data.release()  # an exception may still hold the source
        file.seek(0, os.SEEK_END)
    elif type(file) in (io.BufferedReader, io.BufferedRandom) and type(file.raw) is io.FileIO:
        yield FileSource(repr(file.name), file.fileno(), file.tell())
        file.seek(0, os.SEEK_END)
    elif hasattr(file, "read"):
        data = file.read()
        if not isinstance(data, bytes | bytearray):
            raise TypeError(
                f"weft.load(): f.read() gave {type(data).__name__}, expected bytes: open the file "
                "in binary mode ('rb')"
            )
        yield MemorySource("the file object", data)
    else:
        raise AttributeError(
            f"weft.load(): f is a {type(file).__name__}, expected a path or a file-like object "
            "that you can read from (one with read(), opened in binary mode)"
        )
