"""`weft.save` and `weft.load`."""

from __future__ import annotations

from typing import Any

from weft.keeping import _weft_files
from weft.keeping._locations import Locations, MapLocation
from weft.keeping._reading import opened
from weft.keeping._safetensors import looks_like_it
from weft.keeping._writing import write


def save(
    obj: Any,
    f: Any,
    pickle_module: None = None,
    pickle_protocol: Any = None,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Keeps ``obj`` in a file: tensors and plain values in dicts, lists, tuples and sets.

    The file holds data only, never code, with checksums, and other programs read it as safetensors.
    It is written in one step: whatever happens meanwhile, ``f`` is the old file or the new one.
    Tensors that share memory share it again after loading. Of a module or an optimiser, save its
    ``state_dict()``.

    Args:
        obj: what to keep.
        f: a path, or a file-like object opened in binary mode (which is written to as it is).
        pickle_module: must be None; here only because PyTorch's function has it.
        pickle_protocol: of no effect, for the same reason; so is the last argument.

    >>> weft.save({"model": model.state_dict(), "step": 100}, "model.safetensors")
    """
    _no_pickle(pickle_module, "save")
    write(f, _weft_files.pieces_of(obj))


def load(
    f: Any,
    map_location: MapLocation = None,
    pickle_module: None = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    check: bool = True,
) -> Any:
    """What `weft.save` kept. Also reads PyTorch's files and the safetensors of other programs.

    Nothing that a file says is ever executed. A file that is damaged raises
    `weft.keeping.DamagedFileError`; one that holds more than data (a whole module, say) raises
    `weft.keeping.RefusedFileError`, which names what it is.

    Args:
        f: a path, or a file-like object opened in binary mode.
        map_location: where tensors go: a device, or a dict or function from devices to devices.
        pickle_module: must be None; here only because PyTorch's function has it.
        weights_only: of no effect: weft reads as if it were True.
        mmap: let tensors look at the file (a path) instead of copying it. Whole files of which
            little is used load at once; the file must not be overwritten in place meanwhile
            (`weft.save` never does that).
        check: compare the checksums. With ``mmap``, not checking saves reading what is not used.

    >>> model.load_state_dict(weft.load("model.safetensors")["model"])
    """
    _no_pickle(pickle_module, "load")
    locations = Locations(map_location)
    with opened(f, bool(mmap)) as source:
        try:
            if looks_like_it(source.read(0, min(9, source.size))):
                return _weft_files.load(source, locations, check)
            from weft.keeping import _torch_files

            return _torch_files.load(source, locations, check)
        except MemoryError:
            raise RuntimeError(
                f"weft.load(): not enough memory for what is in {source.name} ({source.size} bytes)"
            ) from None


def _no_pickle(module: Any, function: str) -> None:
    if module is not None:
        raise ValueError(
            f"weft.{function}(): argument 'pickle_module' must be None: weft neither writes nor "
            "executes pickles; leave the argument out"
        )
