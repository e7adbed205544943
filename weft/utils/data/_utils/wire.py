"""How answers travel from a worker process: small ones in the socket, large ones in memory.

Note [Memory that nobody can forget to unlink]
A large batch is not copied through the socket: it is laid out in a segment, which both processes
have mapped. A segment is a memfd, an anonymous file that has no name and goes when the last
process that holds it does, however it ends. Hence nothing is ever left in /dev/shm, and its size
(64 MB in a container by default) limits nobody.

All segments are made before the workers start, so no descriptors travel either, and there are
never more of them: a worker that finds all of its segments still in use (because the loop keeps
its batches, say) falls back to the socket, which costs a copy and nothing else.

Tensors made of an answer lie in the segment itself. When the last of them is gone, the loop's
process sees its lease die and tells the worker, with its next task, that the segment is free. So
after the first few batches no memory is allocated, mapped or cleared any more.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import struct
import weakref
from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler
from socket import MSG_WAITALL, socket
from typing import Any

import weft
from weft import _core

# Below this many bytes of tensors a copy through the socket is cheaper than a segment. Measured.
SEGMENT_FROM = 64 * 1024
_ALIGNMENT = 64
_SMALLEST_SEGMENT = 1 << 20
# Body, pickle, number of buffers, segment (or -1), its size.
_ANSWER = struct.Struct("<QQIiQ")
_TASK = struct.Struct("<Q")


class Closed(Exception):
    """The process at the other end has closed the connection, or is dead."""


# ---- bytes -----------------------------------------------------------------------------------


def _read_into(connection: socket, place: memoryview) -> None:
    done = 0
    while done < len(place):
        count = connection.recv_into(place[done:], len(place) - done, MSG_WAITALL)
        if count == 0:
            raise Closed
        done += count


def read_task(connection: socket) -> Any:
    """In the worker: waits for what the loop says next."""
    try:
        head = bytearray(_TASK.size)
        _read_into(connection, memoryview(head))
        body = bytearray(_TASK.unpack(head)[0])
        _read_into(connection, memoryview(body))
    except ConnectionError:
        raise Closed from None
    return pickle.loads(body)


def task_bytes(task: Any) -> bytes:
    """A message for `read_task`."""
    body = ForkingPickler.dumps(task, pickle.HIGHEST_PROTOCOL)
    return _TASK.pack(len(body)) + bytes(body)


# ---- tensors ---------------------------------------------------------------------------------


class _Pickler(ForkingPickler):
    """Takes the memory of tensors (and of numpy arrays) out of the pickle."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is not _core.Tensor:
            return NotImplemented
        if not obj.is_leaf:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad, since "
                "autograd does not support crossing process boundaries: return tensor.detach() "
                f"from the dataset. This one comes from {obj.grad_fn}"
            )
        tensor = obj.detach() if _is_dense(obj) else obj.detach().contiguous()
        size = tensor.element_size()
        first = tensor.storage_offset() * size
        memory = memoryview(_core._storage_bytes(tensor))[first : first + tensor.numel() * size]
        return _tensor_over, (
            pickle.PickleBuffer(memory),
            tensor.dtype,
            tuple(tensor.shape),
            tensor.stride(),
            obj.requires_grad,
        )


def _is_dense(tensor: Any) -> bool:
    """Whether the elements fill their memory, in whatever order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _tensor_over(content: Any, dtype: Any, shape: Any, stride: Any, requires_grad: bool) -> Any:
    """A tensor over the memory that an answer came in."""
    if len(content):
        memory = _core._from_bytes(content, weft.uint8, -1, 0)
        tensor = _core._over_storage(memory, dtype, shape, stride, 0)
    else:
        tensor = weft.empty(shape, dtype=dtype)
    return tensor.requires_grad_() if requires_grad else tensor


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


# ---- answers ---------------------------------------------------------------------------------


class Sender:
    """A worker's side."""

    def __init__(self, connection: socket, segments: Sequence[int]) -> None:
        self._connection = connection
        self._descriptors = segments
        self._maps: list[mmap.mmap | None] = [None] * len(segments)
        self._free = list(range(len(segments)))

    def released(self, segments: list[int]) -> None:
        """The loop has no tensor in these any more."""
        self._free += segments

    def send(self, answer: Any) -> None:
        """Sends an answer. Raises what pickling it raises, before anything is sent."""
        buffers: list[pickle.PickleBuffer] = []
        pickled = io.BytesIO()
        # Positional, because ForkingPickler takes nothing else: protocol, fix_imports, callback.
        _Pickler(pickled, 5, True, buffers.append).dump(answer)
        pieces = [buffer.raw() for buffer in buffers]
        lengths = [piece.nbytes for piece in pieces]
        text = pickled.getvalue()
        prefix = struct.pack(f"<{len(lengths)}Q", *lengths)
        total = sum(map(_aligned, lengths))
        segment, size = -1, 0
        if total >= SEGMENT_FROM and self._free:
            segment = self._free.pop()
            size = self._fill(segment, pieces, total)
            pieces = []
        front = _aligned(len(text) + len(prefix)) if pieces else len(text) + len(prefix)
        body = front + sum(_aligned(piece.nbytes) for piece in pieces)
        head = _ANSWER.pack(body, len(text), len(lengths), segment, size)
        message: list[Any] = [head, text, prefix, bytes(front - len(text) - len(prefix))]
        for piece in pieces:
            message += (piece, bytes(_aligned(piece.nbytes) - piece.nbytes))
        try:
            if body < SEGMENT_FROM:
                self._connection.sendall(b"".join(message))
            else:
                for part in message:
                    self._connection.sendall(part)
        except ConnectionError:
            raise Closed from None

    def _fill(self, segment: int, pieces: list[memoryview], total: int) -> int:
        """Lays the pieces out in a segment, which grows if it must; returns its size."""
        place = self._maps[segment]
        if place is None or len(place) < total:
            size = max(_SMALLEST_SEGMENT, 1 << (total - 1).bit_length())
            os.ftruncate(self._descriptors[segment], size)  # takes no memory until it is written
            place = self._maps[segment] = mmap.mmap(self._descriptors[segment], size)
        offset = 0
        for piece in pieces:
            place[offset : offset + piece.nbytes] = piece
            offset += _aligned(piece.nbytes)
        return len(place)


class Receiver:
    """The loop's side of one worker."""

    def __init__(self, connection: socket, segments: Sequence[int]) -> None:
        self._connection = connection
        self._descriptors = segments
        self._maps: list[mmap.mmap | None] = [None] * len(segments)
        # By the identity of the reference: what it refers to is gone when it is looked up.
        self._leases: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._ended: list[weakref.ref[Any]] = []

    def take_released(self) -> list[int]:
        """The segments that have become free since this was last asked."""
        released = []
        while self._ended:
            released.append(self._leases.pop(id(self._ended.pop()))[1])
        return released

    def receive(self) -> Any:
        """Waits for the next answer."""
        connection = self._connection
        try:
            head = bytearray(_ANSWER.size)
            _read_into(connection, memoryview(head))
            size, text, count, segment, segment_size = _ANSWER.unpack(head)
            # A tensor's memory is aligned, and small tensors stay where they came in.
            body = memoryview(weft.empty(size, dtype=weft.uint8))
            _read_into(connection, body)
        except ConnectionError:
            raise Closed from None
        if not count:
            return pickle.loads(body)
        prefix = text + 8 * count
        lengths = struct.unpack(f"<{count}Q", body[text:prefix])
        if segment < 0:
            place, offset = body, _aligned(prefix)
        else:
            place, offset = self._lease(segment, segment_size), 0
        buffers = []
        for length in lengths:
            buffers.append(place[offset : offset + length])
            offset += _aligned(length)
        del place
        return pickle.loads(body[:text], buffers=buffers)

    def _lease(self, segment: int, size: int) -> memoryview:
        """A view of a segment whose end, and that of all views made of it, is noticed."""
        import ctypes

        place = self._maps[segment]
        if place is None or len(place) != size:
            place = self._maps[segment] = mmap.mmap(self._descriptors[segment], size)
        lease = (ctypes.c_char * size).from_buffer(place)
        # Not a function of Python's: Ctrl-C while it runs would be lost.
        reference = weakref.ref(lease, self._ended.append)
        self._leases[id(reference)] = (reference, segment)
        return memoryview(lease).cast("B")


def make_segments(count: int) -> list[int]:
    """Descriptors of so many segments: none where the system has no anonymous files."""
    if not hasattr(os, "memfd_create"):
        return []
    return [os.memfd_create("weft batch", os.MFD_CLOEXEC) for _ in range(count)]
