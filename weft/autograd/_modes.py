"""Whether operations are recorded: ``no_grad`` and its relatives, as contexts and as decorators."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Generator
from typing import Any, Self, TypeVar

from weft import _core

F = TypeVar("F", bound=Callable[..., Any])


class _Mode:
    """A context manager that also decorates functions, generator functions and classes' methods.

    Entering and leaving is C++ where it happens often (bind/modes.cpp).
    """

    __slots__ = ()

    def clone(self) -> Any:
        return type(self)()

    def __call__(self, function: F) -> F:
        if isinstance(function, type):
            raise TypeError(
                f"Cannot decorate a class with {type(self).__name__}: decorate its methods"
            )
        import inspect  # which takes long to import, and few programs come here

        if inspect.isgeneratorfunction(function):
            return self._around_generator(function)

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]

    def _around_generator(self, function: F) -> F:
        # The mode holds while the generator's own code runs, not while its user's does.
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with self.clone():
                generator = function(*args, **kwargs)
            try:
                with self.clone():
                    item = generator.send(None)
                while True:
                    try:
                        sent = yield item
                    except GeneratorExit:
                        with self.clone():
                            generator.close()
                        raise
                    except BaseException as error:
                        with self.clone():
                            item = generator.throw(error)
                    else:
                        with self.clone():
                            item = generator.send(sent)
            except StopIteration as stop:
                return stop.value

        return inside  # type: ignore[return-value]


class no_grad(_Mode, _core.NoGradMode):
    """Nothing is recorded inside: results do not require gradients."""

    __slots__ = ()


class enable_grad(_Mode, _core.EnableGradMode):
    """Recording is switched on inside, also within ``no_grad``."""

    __slots__ = ()


class set_grad_enabled(_Mode):
    """Switches recording on or off at once; as a context, until the end of the block."""

    def __init__(self, mode: bool) -> None:
        self._before = _core.is_grad_enabled()
        self.mode = mode
        _core._set_grad_enabled(bool(mode))

    def __call__(self, function: F) -> F:
        _core._set_grad_enabled(self._before)
        return super().__call__(function)

    def clone(self) -> set_grad_enabled:
        return type(self)(self.mode)

    def __enter__(self) -> None:
        _core._set_grad_enabled(bool(self.mode))

    def __exit__(self, *exception: object) -> None:
        _core._set_grad_enabled(self._before)

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self.mode})"


class inference_mode(_Mode, _core.InferenceMode):
    """As ``no_grad``, and the results can never take part in recorded work: the cheapest mode."""

    __slots__ = ()

    def clone(self) -> Self:
        return type(self)(self.mode)


class set_detect_anomaly:
    """Reports the first NaN that a backward pass produces, with the line that recorded the node."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = _core._get_anomaly()
        _core._set_anomaly(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        _core._set_anomaly(*self._before)


class detect_anomaly(set_detect_anomaly):
    """The same for a block."""

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(True, check_nan)
        # A context only takes effect when it is entered.
        _core._set_anomaly(*self._before)
        self._check_nan = check_nan

    def __enter__(self) -> None:
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            stacklevel=2,
        )
        self._before = _core._get_anomaly()
        _core._set_anomaly(True, self._check_nan)


def is_anomaly_enabled() -> bool:
    """Whether backward passes are checked for NaN."""
    enabled: bool = _core._get_anomaly()[0]
    return enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode looks at values."""
    enabled: bool = _core._get_anomaly()[1]
    return enabled
