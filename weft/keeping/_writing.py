"""Writing files in one step.

Note [Old or new, never half]
A file is written beside its final place, flushed to the disk, and only then given its name, by a
`rename`, which the file system does in one step. Whoever looks at the name, after a crash too,
finds the complete old file or the complete new one. The folder is flushed last: until then the
system may forget the rename, which gives back the old file. Where the system allows it the new
file has no name at all while it is written (O_TMPFILE), so that a process that is killed leaves
nothing behind but, at worst, a complete file under its passing name.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from collections.abc import Callable, Iterable
from typing import Any

Pieces = Callable[[], Iterable[Any]]  # each call gives the content from its beginning


def write(file: Any, pieces: Pieces) -> None:
    """Writes pieces of bytes to a path, in one step, or to a file-like object, as they come."""
    if isinstance(file, str | os.PathLike):
        write_atomically(os.fsdecode(file), pieces)
        return
    if not hasattr(file, "write"):
        raise AttributeError(
            f"weft.save(): f is a {type(file).__name__}, expected a path or a file-like object "
            "that has write() and was opened in binary mode"
        )
    if isinstance(file, io.TextIOBase):
        raise TypeError("weft.save(): f was opened as text: open it in binary mode ('wb')")
    _write_all(file, pieces)


def write_atomically(path: str, pieces: Pieces) -> None:
    """Replaces the file at `path`. See Note [Old or new, never half]."""
    path = os.path.realpath(path)  # a link stays a link
    try:
        mode: int | None = os.stat(path).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):  # a pipe, /dev/null: nothing to keep whole
        with open(path, "wb") as stream:
            _write_all(stream, pieces)
        return
    permissions = None if mode is None else stat.S_IMODE(mode)
    try:
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
    except FileNotFoundError:
        raise RuntimeError(
            f"weft.save(): Parent directory {os.path.dirname(path)} does not exist: make it first, "
            "with os.makedirs()"
        ) from None
    try:
        name = os.path.basename(path)
        passing_name = f".{name[:200]}.{os.getpid()}-{os.urandom(4).hex()}.part"
        try:
            if not _write_nameless(folder, passing_name, permissions, pieces):
                _write_named(folder, passing_name, permissions, pieces)
            os.replace(passing_name, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(passing_name, dir_fd=folder)
            raise
        _flush_names(folder)
    finally:
        os.close(folder)


def _flush_names(folder: int) -> None:
    """Makes the rename last through a crash of the machine."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not a thing of this file system
            raise


def _write_all(stream: Any, pieces: Pieces) -> None:
    for piece in pieces():
        rest = memoryview(piece)
        while rest.nbytes:
            written = stream.write(rest)
            # Unbuffered files may take a part. Those that do not say how much took all.
            rest = rest[rest.nbytes if written is None else written :]


def _write_and_flush(descriptor: int, permissions: int | None, pieces: Pieces) -> None:
    if permissions is not None:
        os.fchmod(descriptor, permissions)
    with open(descriptor, "wb", closefd=False) as stream:
        _write_all(stream, pieces)
    os.fsync(descriptor)


def _write_named(folder: int, name: str, permissions: int | None, pieces: Pieces) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    descriptor = os.open(name, flags, 0o666, dir_fd=folder)
    try:
        _write_and_flush(descriptor, permissions, pieces)
    finally:
        os.close(descriptor)


def _write_nameless(folder: int, name: str, permissions: int | None, pieces: Pieces) -> bool:
    """Gives the file its name when it is complete. False where the system cannot do that."""
    try:
        descriptor = os.open(".", os.O_WRONLY | os.O_TMPFILE, 0o666, dir_fd=folder)
    except (AttributeError, OSError):
        return False  # what else is wrong with the folder, writing under a name will say
    try:
        _write_and_flush(descriptor, permissions, pieces)
        # The folders are named so that Python takes the system call that follows the link.
        made = f"/proc/self/fd/{descriptor}"
        os.link(made, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True)
    except FileNotFoundError:  # no /proc
        return False
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.EOPNOTSUPP, errno.EPERM):
            return False
        raise
    finally:
        os.close(descriptor)
    return True
