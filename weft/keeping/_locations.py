"""`map_location`: where the tensors of a file go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import _core
from weft._storage import UntypedStorage
from weft.keeping._errors import Quoted
from weft.keeping._tree import device_called

MapLocation = Any  # None, a device, its name, a dict of names, or a function


class Locations:
    """Says for the memory of a tensor, and where it was, where it goes."""

    def __init__(self, map_location: MapLocation) -> None:
        if isinstance(map_location, dict):
            moves = {str(key): str(value) for key, value in map_location.items()}
            self._choose: Callable[[Any, str], str] = lambda memory, was: moves.get(was, was)
        elif map_location is None:
            self._choose = lambda memory, was: was
        elif isinstance(map_location, str | _core.device):
            device = str(_core.device(map_location))
            self._choose = lambda memory, was: device
        elif callable(map_location):
            function = map_location

            def ask(memory: Any, was: str) -> str:
                answer = function(UntypedStorage(memory), was)
                return was if answer is None else str(answer.device)

            self._choose = ask
        else:
            raise TypeError(
                "weft.load(): argument 'map_location' must be a device, its name, a dict of names "
                f"or a function, not {type(map_location).__name__}"
            )

    def target(self, memory: Any, was: str) -> str:
        """The device that `memory`, of a tensor that was on device `was`, goes to."""
        target = self._choose(memory, was)
        device = device_called(target) if target is was else _core.device(target)
        return "cpu" if device.type == "cpu" else str(device)


def moved(array: Any, target: str) -> Any:
    """`array`, which is in the computer's memory, on the device `target`."""
    if target == "cpu":
        return array
    device = _core.device(target)
    if device.type == "cuda":
        from weft import cuda

        if not cuda.is_available():
            raise RuntimeError(
                "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() "
                f"is False (the file says {Quoted(target)}). If you are running on a CPU-only "
                "machine, please use weft.load with map_location=weft.device('cpu') to map your "
                "storages to the CPU."
            )
    return array.to(device)
