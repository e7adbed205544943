"""Arguments for fuzzed calls, made from schemas in PyTorch's syntax.

`"sum.dim(Tensor self, int[1]? dim, bool keepdim=False, *, DType? dtype=None) -> Tensor"` is all
that is known of an operation; the arguments are valid often enough to get past the first check, and
wrong in every way that a caller can be wrong.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import random
from collections.abc import Callable
from typing import Any

from ._target import weft

INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
# Nothing between "small" and "cannot be allocated": those would only take time.
EXTREME_INTEGERS = (
    INT64_MAX, INT64_MIN, INT64_MAX - 1, 2**62, -(2**62), 2**40, -(2**40), 2**33, 2**31 - 1, 2**31,
    -(2**31), 2**32, 2**64, -(2**65), 10**30,
)  # fmt: skip
ODD_NUMBERS = (
    0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 1e-30, 1e30, 1e300, 5e-324, math.inf, -math.inf, math.nan,
)  # fmt: skip
DTYPES = (
    "float32", "float32", "float64", "float64", "int64", "int64", "int32", "int16", "int8", "uint8",
    "bool", "float16", "bfloat16",
)  # fmt: skip
FLOATING = ("float32", "float64", "float16", "bfloat16")
WORDS = (
    "none", "mean", "sum", "tanh", "trunc", "floor", "constant", "reflect", "replicate", "circular",
    "amax", "amin", "prod", "add", "multiply", "left", "right", "fro", "nuc", "ij", "xy", "max",
    "", "nonsense", "ij,jk->ik", "i,i->", "ii->i", "...i->...", "a" * 300, "\0", "é",
)  # fmt: skip
NONSENSE: tuple[Any, ...] = (
    None, "text", b"bytes", object(), [], {}, (), 1 + 2j, [None], [[]], [1, "a"], Ellipsis,
    slice(None), type, [2**70], {"a": 1}, range(3), float("nan"), [float("nan")], lambda: 0,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Parameter:
    type: str
    name: str
    required: bool
    keyword_only: bool


@dataclasses.dataclass(frozen=True)
class Schema:
    name: str
    parameters: tuple[Parameter, ...]


def split_at_commas(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [part.strip() for part in [*parts, current] if part.strip()]


def parse(text: str) -> Schema:
    """`name.overload(type name=default, *, ...) -> type`."""
    name, _, rest = text.partition("(")
    arguments = rest[: rest.rindex(") ->")]
    parameters, keyword_only = [], False
    for part in split_at_commas(arguments):
        if part == "*":
            keyword_only = True
            continue
        declaration, equals, _ = part.partition("=")
        kind, _, parameter = declaration.strip().rpartition(" ")
        kind = "Tensor" + kind[kind.index(")") + 1 :] if kind.startswith("Tensor(") else kind
        parameters.append(Parameter(kind, parameter, not equals, keyword_only))
    return Schema(name.rpartition("::")[2].partition(".")[0], tuple(parameters))


# How a schema writes what the annotations of operations written in Python say.
ANNOTATIONS = {
    "Number": "Scalar",
    "Tensor | Number": "Tensor|Scalar",
    "Sequence[Tensor]": "Tensor[]",
    "Sequence[Tensor | None]": "Tensor?[]",
    "Sequence[int]": "int[]",
    "int | Sequence[int]": "int[]",
    "int | Sequence[Sequence[int]] | Sequence[int] | Tensor": "int[]",
    "float | str": "Scalar",
}
# What an annotation leaves open, by the parameter's name.
NAMED = {"dtype": "DType?", "device": "Device?", "layout": "Layout?", "dim": "int?"}


def schema_of(name: str, function: Callable[..., Any]) -> Schema:
    """The schema of an operation written in Python, without its `out`."""
    parameters = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "out":
            continue
        text = str(parameter.annotation).replace("_core.", "")
        optional = text.endswith(" | None")
        text = text.removesuffix(" | None")
        kind = ANNOTATIONS.get(text, text) + ("?" if optional else "")
        if text in ("Any", "object"):
            kind = NAMED.get(parameter.name, "Tensor|Scalar")
        if parameter.kind is parameter.VAR_POSITIONAL:
            kind = f"*{kind}"
        required = parameter.default is parameter.empty
        keyword_only = parameter.kind is parameter.KEYWORD_ONLY
        parameters.append(Parameter(kind, parameter.name, required, keyword_only))
    return Schema(name, tuple(parameters))


class Arguments:
    """A seeded source of arguments for one call; tensors of a call tend to fit each other."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.shape = self._shape()
        self.dtype = self.random.choice(DTYPES)
        self.tensors: list[Any] = []
        self.wildness = self.random.choice((0.0, 0.03, 0.2))

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # -- tensors -----------------------------------------------------------------------------

    def _shape(self) -> tuple[int, ...]:
        rank = self.random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))
        if self.chance(0.01):
            rank = self.random.randint(5, 63)  # weft allows 64; a layout below adds one
            return (1,) * rank
        return tuple(self.random.choice((0, 1, 1, 2, 3, 3, 4, 5)) for _ in range(rank))

    def tensor(self, *, integers: bool = False) -> Any:
        """A tensor that likely broadcasts with the others of this call."""
        if self.tensors and self.chance(0.12):
            chosen = self.random.choice(self.tensors)
            return chosen if self.chance(0.5) else self._view_of(chosen)
        shape = self.shape
        change = self.random.random()
        if change < 0.1:
            shape = self._shape()
        elif change < 0.25:
            shape = tuple(1 if self.chance(0.5) else n for n in shape)
        elif change < 0.35:
            shape = shape[1:]
        elif change < 0.4:
            shape = shape[::-1]
        dtype = self.dtype if self.chance(0.85) else self.random.choice(DTYPES)
        if integers and self.chance(0.8):
            dtype = "int64"
        result = self._laid_out(self._filled(shape, dtype))
        if dtype in FLOATING and self.chance(0.6):
            result = result.detach().requires_grad_()
            if self.chance(0.5):
                result = result * 1  # so that it may be written in place
        self.tensors.append(result)
        return result

    def _filled(self, shape: tuple[int, ...], dtype: str) -> Any:
        count = math.prod(shape)
        kind = self.random.random()
        values: list[Any]
        if dtype == "bool":
            values = [self.chance(0.5) for _ in range(count)]
        elif dtype in FLOATING:
            if kind < 0.7:
                values = [round(self.random.uniform(-2, 2), 3) for _ in range(count)]
            elif kind < 0.85:
                values = [self.random.choice((0.0, 1.0, -1.0, 0.5)) for _ in range(count)]
            else:
                values = [self.random.choice(ODD_NUMBERS) for _ in range(count)]
        else:
            limit = {"uint8": 255, "int8": 127, "int16": 2**15 - 1, "int32": 2**31 - 1}.get(
                dtype, INT64_MAX
            )
            low = 0 if dtype == "uint8" else -limit - 1
            if kind < 0.8:
                values = [self.random.randint(0 if low == 0 else -2, 4) for _ in range(count)]
            else:
                values = [self.random.choice((low, limit, 0, 1, 5)) for _ in range(count)]
        target = getattr(weft, dtype)
        if dtype in FLOATING:
            return weft.tensor(values, dtype=weft.float64).to(target).reshape(shape)
        return weft.tensor(values, dtype=target).reshape(shape)

    def _laid_out(self, value: Any) -> Any:
        """The same values with other strides, or overlapping memory."""
        kind = self.random.random()
        if value.dim() == 0 or kind < 0.6:
            return value
        dim = self.random.randrange(value.dim())
        if kind < 0.75:
            return value.transpose(0, dim).contiguous().transpose(0, dim)
        if kind < 0.85:
            return weft.stack([value, value], dim=-1)[..., 0]
        if kind < 0.95:
            return value.narrow(dim, 0, min(1, value.shape[dim])).expand(value.shape)
        return self._view_of(value)

    def _view_of(self, value: Any) -> Any:
        try:
            match self.random.randrange(5):
                case 0:
                    return value.detach()
                case 1:
                    return value[1:]
                case 2:
                    return value[..., ::2]
                case 3:
                    return value.expand(2, *value.shape)
                case _:
                    return value.as_strided((2, 2), (1, 1))
        except (RuntimeError, IndexError, TypeError, ValueError):
            return value

    # -- everything else ------------------------------------------------------------------------

    def integer(self, name: str = "") -> int:
        if self.chance(self.wildness):
            return self.random.choice(EXTREME_INTEGERS)
        if "dim" in name or name in ("axis", "dims"):
            return self.random.randint(-3, 3)
        return self.random.choice((0, 1, 1, 2, 2, 3, -1, -2, 4, 7))

    def sizes(self, name: str) -> Any:
        kind = self.random.random()
        if kind < 0.3:
            return list(self.shape)
        if kind < 0.4:
            return self.integer(name)
        if kind < 0.5:
            return [-1, *self.shape[1:]]
        if kind < 0.55:
            return tuple(self.shape[::-1])
        return [self.integer(name) for _ in range(self.random.choice((0, 1, 1, 2, 2, 3, 4, 6)))]

    def number(self) -> Any:
        kind = self.random.random()
        if kind < 0.4:
            return self.integer()
        if kind < 0.5:
            return self.chance(0.5)
        if kind < 0.8:
            return round(self.random.uniform(-2, 2), 3)
        return self.random.choice(ODD_NUMBERS)

    def dtype_argument(self) -> Any:
        if self.chance(0.03):
            return self.random.choice((weft.complex64, float, int, bool, "float32", 3))
        return getattr(weft, self.random.choice(DTYPES))

    def of(self, parameter: Parameter) -> Any:
        """An argument for a parameter of a schema."""
        if self.chance(self.wildness / 2):
            return self.random.choice(NONSENSE)
        kind, name = parameter.type, parameter.name
        if kind.endswith("?") and self.chance(0.4):
            return None
        kind = kind.rstrip("?")
        if kind in ("Tensor", "Tensor|Scalar"):
            if kind == "Tensor|Scalar" and self.chance(0.3):
                return self.number()
            return self.tensor(integers="ind" in name or name == "target")
        if kind.startswith("Tensor"):  # Tensor[], Tensor?[]
            count = self.random.choice((0, 1, 2, 2, 3))
            items = [self.tensor(integers="ind" in name) for _ in range(count)]
            return tuple(items) if self.chance(0.3) else items
        if kind.startswith(("int[", "SymInt[")):
            return self.sizes(name)
        if kind.startswith(("float[", "Scalar[")):
            return [self.number() for _ in range(self.random.randrange(4))]
        if kind.startswith("bool["):
            return [self.chance(0.5) for _ in range(self.random.randrange(4))]
        match kind:
            case "int" | "SymInt":
                return self.integer(name)
            case "float":
                return self.number()
            case "Scalar":
                return self.number()
            case "bool":
                return self.chance(0.5) if self.chance(0.97) else self.integer()
            case "str":
                return self.random.choice(WORDS)
            case "ScalarType" | "DType":
                return self.dtype_argument()
            case "MemoryFormat":
                names = ("contiguous_format", "preserve_format", "channels_last")
                return getattr(weft, self.random.choice(names))
            case "Device":
                return self.random.choice(("cpu", weft.device("cpu"), "cuda", "nowhere", "cpu:7"))
            case "Layout":
                return getattr(weft, "strided", None)
            case "Generator":
                return weft.Generator().manual_seed(self.random.randrange(5))
            case _:
                return self.random.choice(NONSENSE)

    def index(self) -> Any:
        """What may stand between the brackets."""

        def part() -> Any:
            match self.random.randrange(9):
                case 0 | 1:
                    return self.integer()
                case 2 | 3:
                    ends = [self.random.choice((None, self.integer())) for _ in range(3)]
                    return slice(*ends)
                case 4:
                    return None
                case 5:
                    return Ellipsis
                case 6:
                    return self.tensor(integers=True)
                case 7:
                    return self.chance(0.5) if self.chance(0.5) else self.sizes("")
                case _:
                    if self.tensors and self.chance(0.7):
                        return self.tensors[0].detach() > 0
                    return self.random.choice(NONSENSE)

        if self.chance(0.4):
            return part()
        return tuple(part() for _ in range(self.random.randrange(4)))


def text_of(value: Any) -> str:
    """An argument, short, so that a report can be read and repeated."""
    if isinstance(value, weft.Tensor):
        dtype = str(value.dtype).rpartition(".")[2]
        extra = " grad" if value.requires_grad else ""
        return f"{dtype}{list(value.shape)[:9]}/{list(value.stride())[:9]}{extra}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(text_of(item) for item in value)})"
    return repr(value)[:80]
