"""How a tensor looks: `repr`, `str`, `format`, and the options that govern them.

The text is character for character what PyTorch prints. Only the elements that are shown are ever
read, so printing a tensor of a billion elements costs as much as printing one of a hundred.

A tensor here is anything that offers `shape`, `dtype`, `device`, `dim()`, `numel()`, `tolist()`,
indexing, `is_floating_point()`, `requires_grad`, `grad_fn` and `detach()`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}

# Floating-point numbers are printed as mantissa and exponent beyond these bounds.
_SCI_RATIO = 1000.0
_SCI_LARGEST = 1.0e8
_SCI_SMALLEST = 1.0e-4


class _PrintOptions:
    """What `set_printoptions` sets."""

    def __init__(self) -> None:
        self.precision: int = 4
        self.threshold: float = 1000
        self.edgeitems: int = 3
        self.linewidth: int = 80
        self.sci_mode: bool | None = None


_options = _PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Sets how tensors are printed from now on.

    Args:
        precision: digits after the decimal point (default 4).
        threshold: a tensor of more elements than this is summarised (default 1000).
        edgeitems: how many elements a summary shows at each end of a dimension (default 3).
        linewidth: characters per line before a line is broken (default 80).
        profile: "default", "short" or "full"; sets the four above, which then refine it.
        sci_mode: True or False switches scientific notation on or off; None (the default, and
            what every call without this argument goes back to) decides by the values.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(
                f"set_printoptions(): profile must be one of {sorted(_PROFILES)}, got {profile!r}"
            )
        for name, value in _PROFILES[profile].items():
            setattr(_options, name, value)
    if precision is not None:
        _options.precision = precision
    if threshold is not None:
        _options.threshold = threshold
    if edgeitems is not None:
        _options.edgeitems = edgeitems
    if linewidth is not None:
        _options.linewidth = linewidth
    _options.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The options in force, as keyword arguments for `set_printoptions`."""
    return dict(vars(_options))


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Applies `set_printoptions(**options)` inside a `with` block and takes it back after."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


def dtype_name(dtype: Any) -> str:
    """`float32` for `weft.float32` and `torch.float32` alike."""
    return str(dtype).rpartition(".")[2]


class _NumberFormat:
    """One notation and one width for all numbers of a tensor, found from those that are shown."""

    def __init__(self, values: list[Any], floating: bool) -> None:
        self.width = 1
        self._floating = floating
        self._scientific = False
        self._integral = True
        if floating:
            self._choose_notation(values)
        else:
            self.width = max((len(str(value)) for value in values), default=1)

    def _choose_notation(self, values: list[float]) -> None:
        # Zeros, infinities and NaNs have no say, neither in the notation nor in the width.
        measured = [value for value in values if value and math.isfinite(value)]
        if not measured:
            return
        self._integral = all(value.is_integer() for value in measured)
        smallest = min(map(abs, measured))
        largest = max(map(abs, measured))
        if _options.sci_mode is None:
            self._scientific = (
                largest / smallest > _SCI_RATIO
                or largest > _SCI_LARGEST
                or smallest < _SCI_SMALLEST
            )
        else:
            self._scientific = _options.sci_mode
        if self._scientific:
            self.width = max(len(f"{value:.{_options.precision}e}") for value in measured)
        elif self._integral:
            self.width = max(len(f"{value:.0f}.") for value in measured)
        else:
            self.width = max(len(f"{value:.{_options.precision}f}") for value in measured)

    def __call__(self, value: Any) -> str:
        if not self._floating:
            text = str(value)
        elif self._scientific:
            text = f"{value:.{_options.precision}e}"
        elif self._integral:
            text = f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"
        else:
            text = f"{value:.{_options.precision}f}"
        return text.rjust(self.width)


class _ComplexFormat:
    """Real and imaginary parts each keep a notation of their own."""

    def __init__(self, values: list[complex]) -> None:
        self._real = _NumberFormat([value.real for value in values], floating=True)
        self._imag = _NumberFormat([value.imag for value in values], floating=True)
        self.width = self._real.width + self._imag.width + 1

    def __call__(self, value: complex) -> str:
        imag = self._imag(value.imag).lstrip()
        sign = "" if imag[0] in "+-" else "+"
        return f"{self._real(value.real)}{sign}{imag}j"


def _shown(tensor: Any, summarize: bool) -> Any:
    """The elements to show as nested lists, with `...` standing for what is left out."""
    if not summarize or tensor.dim() == 0:
        return tensor.tolist()
    length = tensor.shape[0]
    edge = _options.edgeitems
    cut = length > 2 * edge or not edge
    if tensor.dim() == 1:
        if not cut:
            return tensor.tolist()
        if not edge:
            return [...]
        return [*tensor[:edge].tolist(), ..., *tensor[length - edge :].tolist()]
    if not cut:
        return [_shown(tensor[i], summarize) for i in range(length)]
    head = [_shown(tensor[i], summarize) for i in range(edge)]
    tail = [_shown(tensor[i], summarize) for i in range(length - edge, length)]
    return [*head, ..., *tail]


def _numbers(shown: Any) -> Iterator[Any]:
    if isinstance(shown, list):
        for item in shown:
            yield from _numbers(item)
    elif shown is not ...:
        yield shown


def _layout(shown: Any, dims: int, indent: int, number: Callable[[Any], str], width: int) -> str:
    """Brackets, line breaks and indentation around the formatted numbers."""
    if dims == 0:
        return number(shown)
    if dims == 1:
        if shown == [...]:
            return "[...]"
        cells = [" ..." if value is ... else number(value) for value in shown]
        per_line = max(1, math.floor((_options.linewidth - indent) / (width + 2)))
        lines = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    rows = [
        "..." if row is ... else _layout(row, dims - 1, indent + 1, number, width) for row in shown
    ]
    separator = "," + "\n" * (dims - 1) + " " * (indent + 1)
    return "[" + separator.join(rows) + "]"


def _contents(tensor: Any, indent: int) -> str:
    shown = _shown(tensor, summarize=tensor.numel() > _options.threshold)
    values = list(_numbers(shown))
    number: _ComplexFormat | _NumberFormat
    if dtype_name(tensor.dtype).startswith("complex"):
        number = _ComplexFormat(values)
    else:
        number = _NumberFormat(values, tensor.is_floating_point())
    return _layout(shown, tensor.dim(), indent, number, number.width)


def _join(text: str, suffixes: list[str], indent: int) -> str:
    """Adds `, suffix` for each suffix, on a new line where the current one would be too long."""
    # One column more than the line holds when it is the only one: PyTorch counts so.
    line_length = len(text) - text.rfind("\n") + 1
    parts = [text]
    for suffix in suffixes:
        if line_length + len(suffix) + 2 > _options.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            line_length = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            line_length += len(suffix) + 2
    return "".join(parts) + ")"


def _default_dtype() -> str:
    import weft  # here, because weft imports this module while it is being imported itself

    return dtype_name(weft.get_default_dtype())


def _default_complex(default_dtype: str) -> str:
    return "complex128" if default_dtype == "float64" else "complex64"


def _history_suffix(tensor: Any) -> str | None:
    try:
        grad_fn = tensor.grad_fn
    except RuntimeError:  # a view whose base was overwritten without recording
        return "grad_fn=<Invalid>"
    if grad_fn is not None:
        return f"grad_fn=<{grad_fn.name().rsplit('::', 1)[-1]}>"
    return "requires_grad=True" if tensor.requires_grad else None


def _is_plain(tensor: Any) -> bool:
    return type(tensor).__name__ in ("Tensor", "Parameter")


def tensor_repr(tensor: Any, tangent: Any = None) -> str:
    """The text of `repr(tensor)`; `tangent` is that of a dual tensor in forward mode."""
    prefix = "tensor(" if _is_plain(tensor) else f"{type(tensor).__name__}("
    indent = len(prefix)
    default_dtype = _default_dtype()
    name = dtype_name(tensor.dtype)
    is_meta = tensor.device.type == "meta"

    # A dtype goes without saying when a literal of the same look would have it.
    dtype_is_implied = name == default_dtype
    if not is_meta and tensor.numel():
        dtype_is_implied |= name in ("int64", "bool", _default_complex(default_dtype))

    suffixes = []
    if tensor.device.type != "cpu":
        suffixes.append(f"device='{tensor.device}'")
    if is_meta:
        contents = "..."
        suffixes.append(f"size={tuple(tensor.shape)}")
    elif tensor.numel() == 0:
        contents = "[]"
        if tensor.dim() != 1:
            suffixes.append(f"size={tuple(tensor.shape)}")
    else:
        contents = _contents(tensor.detach(), indent)
        if not _options.edgeitems:  # a summary then shows nothing of the shape
            suffixes.append(f"size={tuple(tensor.shape)}")
    if not dtype_is_implied:
        suffixes.append(f"dtype=torch.{name}")
    history = _history_suffix(tensor)
    if history is not None:
        suffixes.append(history)
    if tangent is not None:
        suffixes.append(f"tangent={tangent}")
    return _join(prefix + contents, suffixes, indent)


def parameter_repr(parameter: Any) -> str:
    """The text of `repr(parameter)`."""
    text = tensor_repr(parameter)
    return "Parameter containing:\n" + (text if _is_plain(parameter) else f"Parameter({text})")


def tensor_format(tensor: Any, spec: str) -> str:
    """What `format(tensor, spec)` gives: that of the number inside if the tensor is just that."""
    if tensor.dim() == 0 and tensor.device.type != "meta" and type(tensor).__name__ == "Tensor":
        return format(tensor.detach().item(), spec)
    return object.__format__(tensor, spec)
