"""CUDA devices. This build has none: questions are answered, everything else is refused."""

from __future__ import annotations

from typing import Any, NoReturn


def is_available() -> bool:
    """Whether there is a device to compute on."""
    return False


def is_initialized() -> bool:
    """Whether a device is in use."""
    return False


def device_count() -> int:
    """The number of devices."""
    return 0


def manual_seed(seed: int) -> None:
    """Seeds the current device's random numbers: nothing to do without one, as in PyTorch."""


def manual_seed_all(seed: int) -> None:
    """Seeds all devices' random numbers: nothing to do without one, as in PyTorch."""


def empty_cache() -> None:
    """Gives back memory that is kept for reuse: nothing to do without a device, as in PyTorch."""


def _refuse(name: str) -> NoReturn:
    raise AssertionError(
        f"cuda.{name}(): this build of weft has no CUDA device. "
        "Guard the call with `if weft.cuda.is_available():`, or use device='cpu'"
    )


def current_device() -> int:
    """The number of the device in use."""
    _refuse("current_device")


def set_device(device: Any) -> None:
    """Chooses the device to use."""
    _refuse("set_device")


def get_device_name(device: Any = None) -> str:
    """The name of a device."""
    _refuse("get_device_name")


def get_device_properties(device: Any = None) -> Any:
    """What a device can do."""
    _refuse("get_device_properties")


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The generation of a device."""
    _refuse("get_device_capability")


def synchronize(device: Any = None) -> None:
    """Waits until a device has done its work."""
    _refuse("synchronize")


def memory_allocated(device: Any = None) -> int:
    """The bytes that tensors take on a device: none without one, as in PyTorch."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors took on a device: none without one, as in PyTorch."""
    return 0
