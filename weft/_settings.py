"""Settings that hold for the whole process: default dtype and device, threads."""

from __future__ import annotations

from typing import Any

from weft import _core


def set_default_dtype(d: Any, /) -> None:
    """Sets the dtype of new floating-point tensors for which none is given."""
    if type(d) is not _core.dtype:
        raise TypeError(
            "invalid dtype object: only floating-point types are supported as the default type "
            f"(got {type(d).__name__})"
        )
    if not d.is_floating_point:
        raise TypeError(
            f"only floating-point types are supported as the default type, and {d!r} is none"
        )
    _core._set_default_dtype(d)


def set_default_device(device: Any) -> None:
    """Sets the device of new tensors. This build has one: the CPU."""
    if device is not None and _core.device(device).type != "cpu":
        raise RuntimeError(
            f"set_default_device(): device '{device}' is not available in this build of weft; "
            "use 'cpu'"
        )


def get_default_device() -> Any:
    """The device of new tensors."""
    return _core.device("cpu")


def _checked_threads(name: str, count: Any) -> int:
    if isinstance(count, bool) or not isinstance(count, int):
        raise RuntimeError(f"{name} expects an int, but got {type(count).__name__}")
    if not 0 < count < 2**31:
        raise RuntimeError(f"{name} expects a positive integer, and got {count}")
    return count


def set_num_threads(num: int) -> None:
    """Sets how many threads a large operation may use; results have the same bits for any."""
    _core._set_num_threads(_checked_threads("set_num_threads", num))


def get_num_interop_threads() -> int:
    """How many operations run at the same time: one."""
    return 1


def set_num_interop_threads(num: int) -> None:
    """Accepted for programs that set it; operations run one after the other."""
    _checked_threads("set_num_interop_threads", num)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accepted for programs that set it: weft has no other algorithms."""
    if not isinstance(mode, bool):
        raise TypeError(
            "use_deterministic_algorithms(): argument 'mode' must be bool, "
            f"not {type(mode).__name__}"
        )


def are_deterministic_algorithms_enabled() -> bool:
    """Always true, whatever has been set: the same input gives the same bits."""
    return True


def set_float32_matmul_precision(precision: str) -> None:
    """Accepted for programs that set it: float32 products are computed in float32."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(
            f"{precision} is not one of 'highest', 'high', or 'medium'; they are the precisions "
            "of set_float32_matmul_precision()"
        )


def get_float32_matmul_precision() -> str:
    """The precision of float32 products: always that of float32."""
    return "highest"
