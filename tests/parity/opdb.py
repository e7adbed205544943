"""PyTorch's operator database as comparisons: one `check` per operation and dtype.

A check calls every variant that PyTorch has (function, method, operator, in-place, `out=`) on
PyTorch's own samples in both libraries and collects what differs.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import re
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

from . import bridge
from .bridge import Bridge, Unsupported, tensors_in
from .compare import (
    Mismatch,
    describe,
    same,
    same_aliasing,
    same_form,
    same_gradient,
    same_scalar,
)
from .translate import Missing, translate

DTYPES = {
    name: getattr(torch, name)
    for name in (
        "float32", "float64", "int64", "int32", "uint8", "bool", "float16", "bfloat16",
    )
}  # fmt: skip
GRADIENT_DTYPES = ("float32", "float64")
ERRORS = "errors"  # stands where a dtype stands: the operation's samples that must raise

RANDOM = {
    "randn", "randn_like", "rand_like", "randint", "randint_like", "bernoulli", "multinomial",
    "normal", "uniform", "exponential",
}  # fmt: skip
UNINITIALISED = {"empty", "empty_like", "new_empty"}
# Where values tie, the index is any of theirs. Value: dim where the call names none.
TIED_INDICES = {
    "sort": -1, "argsort": -1, "topk": -1, "median": None, "max": None, "min": None,
    "cummax": None, "cummin": None,
}  # fmt: skip


@dataclasses.dataclass
class Failure:
    op: str
    dtype: str
    kind: str
    variant: str
    call: str
    text: str

    def __str__(self) -> str:
        return f"{self.op} {self.dtype} [{self.variant}] {self.text} | {self.call}"


@dataclasses.dataclass
class Outcome:
    """What a call gave: a result, or an exception."""

    result: Any = None
    error: Exception | None = None


def op_names() -> list[str]:
    lines = Path(__file__).with_name("engine_ops.txt").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


@functools.cache
def _by_name() -> dict[str, list[Any]]:
    by_name: dict[str, list[Any]] = {}
    for op in op_db:
        by_name.setdefault(op.name, []).append(op)
    return by_name


def variants_of(name: str) -> list[Any]:
    """The OpInfos of a name: `max` has three (over a dim, over all, of two tensors)."""
    return _by_name()[name]


def full_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def dtypes_of(op: Any) -> list[str]:
    supported = op.supported_dtypes("cpu")
    names = [name for name, dtype in DTYPES.items() if dtype in supported]
    return [*names, ERRORS] if op.error_inputs_func is not None else names


def spread(samples: list[Any], limit: int) -> list[Any]:
    """`limit` of them, evenly spaced, first and last included."""
    if limit <= 0 or len(samples) <= limit:
        return samples
    picks = np.unique(np.linspace(0, len(samples) - 1, limit).round().astype(int))
    return [samples[i] for i in picks]


def attempt(call: Callable[[], Any]) -> Outcome:
    try:
        return Outcome(result=call())
    except (Missing, Unsupported, MemoryError):
        raise
    except Exception as error:
        return Outcome(error=error)


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:160]}"


def _in_double(value: Any) -> Any:
    """The same arguments with every float32 tensor in float64."""
    if isinstance(value, torch.Tensor):
        if value.dtype is not torch.float32:
            return value
        return value.detach().double().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(_in_double(item) for item in value)
    if isinstance(value, dict):
        return {key: _in_double(item) for key, item in value.items()}
    return value


def has_complex(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_complex()
    if isinstance(value, torch.dtype):
        return value.is_complex
    if isinstance(value, (list, tuple)):
        return any(has_complex(item) for item in value)
    if isinstance(value, dict):
        return any(has_complex(item) for item in value.values())
    return isinstance(value, (complex, np.complexfloating))


class Checker:
    """Runs the checks of one operation and dtype. `note` is told before each call what it is."""

    def __init__(
        self, module: Any, op: Any, dtype: str, *, note: Callable[[str], None] = lambda text: None
    ) -> None:
        self.module = module
        self.op = op
        self.name = full_name(op)
        self.dtype = dtype
        self.note = note
        self.failures: list[Failure] = []
        self.checks = 0
        self._translated: dict[str, Any] = {}

    def run(self, samples: int = 0, references: int = 0) -> list[Failure]:
        """All samples where `samples` is 0; `references` of the larger reference inputs."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.dtype == ERRORS:
                self._check_errors()
            else:
                for index, sample in enumerate(self._samples(samples, references)):
                    self._check_sample(sample, first=index == 0)
        return self.failures

    # -- samples ---------------------------------------------------------------------------

    def _samples(self, limit: int, references: int) -> Iterator[Any]:
        dtype = DTYPES[self.dtype]
        wants_gradient = (
            self.dtype in GRADIENT_DTYPES
            and self.op.supports_autograd
            and dtype in self.op.supported_backward_dtypes("cpu")
        )
        torch.manual_seed(zlib.crc32(f"{self.name} {self.dtype}".encode()))
        yield from spread(
            list(self.op.sample_inputs("cpu", dtype, requires_grad=wants_gradient)), limit
        )
        if references:
            generator = self.op.reference_inputs("cpu", dtype, requires_grad=False)
            yield from spread(list(itertools.islice(generator, 2000)), references)

    def _check_sample(self, sample: Any, *, first: bool) -> None:
        parts = (sample.input, list(sample.args), dict(sample.kwargs))
        if has_complex(parts):
            return
        call = f"({describe(parts[0])}, {describe(parts[1])}, {describe(parts[2])})"
        self._guard("function", call, lambda: self._check_function(parts))
        for variant in ("method", "operator"):
            if getattr(self.op, f"{variant}_variant") is not None:
                self._guard(variant, call, lambda v=variant: self._check_variant(v, parts))
        for variant in ("inplace", "inplace_operator"):
            if getattr(self.op, f"{variant}_variant") is not None:
                self._guard(
                    variant,
                    call,
                    lambda v=variant: self._check_inplace(v, parts, sample.broadcasts_input),
                )
        if self.op.supports_out:
            self._guard("out", call, lambda: self._check_out(parts))
            if first:
                self._guard("out", call, lambda: self._check_other_outs(parts))

    def _guard(self, variant: str, call: str, check: Callable[[], None]) -> None:
        """Runs one check; what goes wrong becomes a failure."""
        self.note(f"{self.name} {self.dtype} [{variant}] {call}")
        self.checks += 1
        kind, text = "", ""
        try:
            check()
        except Unsupported:
            self.checks -= 1
        except Missing as missing:
            kind, text = "missing", f"no {missing}"
        except Mismatch as mismatch:
            kind, text = mismatch.kind, str(mismatch)
        except AttributeError as error:
            kind = "missing" if "has no attribute" in str(error) else "raises"
            text = first_line(error)
        except Exception as error:
            kind, text = "raises", first_line(error)
        if kind:
            if variant in ("inplace", "inplace_operator", "out") and kind != "missing":
                kind = f"{variant.partition('_')[0]}-{kind}"
            self.failures.append(Failure(self.name, self.dtype, kind, variant, call[:300], text))

    def _ours(self, attribute: str) -> Any:
        if attribute not in self._translated:
            self._translated[attribute] = translate(getattr(self.op, attribute), self.module)
        return self._translated[attribute]

    # -- the variants ----------------------------------------------------------------------

    def _call_both(
        self, attribute: str, parts: Any, *, requires_grad: bool
    ) -> tuple[Any, Any, Bridge, Bridge, Any, Any] | None:
        """Results and arguments on both sides; None where both refuse."""
        ours = self._ours(attribute)
        to_torch = Bridge(torch, requires_grad=requires_grad)
        to_ours = Bridge(self.module, requires_grad=requires_grad)
        torch_parts, our_parts = to_torch(parts), to_ours(parts)
        theirs = getattr(self.op, attribute)
        expected = attempt(lambda: theirs(torch_parts[0], *torch_parts[1], **torch_parts[2]))
        if expected.error is None and has_complex(expected.result):
            raise Unsupported("complex result")
        actual = attempt(lambda: ours(our_parts[0], *our_parts[1], **our_parts[2]))
        if not self._same_outcome(actual, expected):
            return None
        return actual.result, expected.result, to_ours, to_torch, our_parts, torch_parts

    def _same_outcome(self, actual: Outcome, expected: Outcome) -> bool:
        """True where both gave a result, False where both refused; raises where they disagree."""
        if expected.error is not None:
            if actual.error is None:
                # PyTorch has no kernel for the dtype: having one is no difference in meaning.
                if re.search("not implemented for|Unsupported dtype", str(expected.error)):
                    return False
                raise Mismatch("accepts", f"no exception; torch {first_line(expected.error)}")
            return False
        if actual.error is not None:
            raise actual.error
        return True

    def _compare(self, actual: Any, expected: Any, parts: Any) -> None:
        values = self.op.name not in RANDOM and self.op.name not in UNINITIALISED
        try:
            same(actual, expected, self.module, values=values)
        except Mismatch as mismatch:
            if mismatch.kind != "value" or not (
                self._differs_by_ties(actual, expected, parts)
                or self._nearer_to_double(actual, expected, parts)
            ):
                raise

    def _differs_by_ties(self, actual: Any, expected: Any, parts: Any) -> bool:
        """Whether other indices were chosen than torch's, that name equal values."""
        if self.op.name not in TIED_INDICES or not isinstance(parts[0], torch.Tensor):
            return False
        values, (args, kwargs) = parts[0].detach(), parts[1:]
        position = 1 if self.op.name == "topk" else 0
        dim = kwargs.get("dim", args[position] if len(args) > position else None)
        if dim is None or isinstance(dim, bool) or not isinstance(dim, int):
            dim = TIED_INDICES[self.op.name]
        if dim is None or values.dim() == 0:
            return False
        our_tensors = list(tensors_in(actual, self.module))
        their_tensors = list(tensors_in(expected, torch))
        indices = torch.from_numpy(bridge.to_numpy(our_tensors[-1], self.module))
        if indices.dtype is not torch.int64 or (indices.numel() and bool(indices.min() < 0)):
            return False
        if indices.dim() < values.dim():
            indices, wanted = indices.unsqueeze(dim), their_tensors[-1].unsqueeze(dim)
        else:
            wanted = their_tensors[-1]
        for one, other in zip(our_tensors[:-1], their_tensors[:-1], strict=True):
            same(one, other, self.module)
        chosen, reference = values.gather(dim, indices), values.gather(dim, wanted)
        return bool(torch.equal(chosen.nan_to_num(), reference.nan_to_num()))

    def _check_function(self, parts: Any) -> None:
        both = self._call_both("op", parts, requires_grad=True)
        if both is None:
            return
        actual, expected, to_ours, to_torch, our_parts, torch_parts = both
        self._compare(actual, expected, parts)
        if bridge.is_tensor(our_parts[0], self.module):
            for one, other in zip(
                tensors_in(actual, self.module), tensors_in(expected, torch), strict=True
            ):
                same_aliasing(one, other, our_parts[0], torch_parts[0])
        try:
            self._check_gradients(actual, expected, to_ours.leaves, to_torch.leaves)
        except Mismatch as mismatch:
            if mismatch.kind != "gradient" or not self._closer_than_torch(parts):
                raise

    def _nearer_to_double(self, actual: Any, expected: Any, parts: Any) -> bool:
        """Whether our float32 results are nearer to PyTorch's in float64 than PyTorch's own are."""
        if self.dtype != "float32" or not isinstance(expected, torch.Tensor):
            return False
        value, args, kwargs = _in_double(parts)
        exact = self.op.op(value, *args, **kwargs)
        ours = torch.tensor(actual.tolist(), dtype=torch.float64)
        theirs = expected.detach().double()
        return bool((ours - exact).abs().max() <= (theirs - exact).abs().max())

    def _closer_than_torch(self, parts: Any) -> bool:
        """Whether our float32 gradients are nearer to PyTorch's in float64 than its own are."""
        if self.dtype != "float32":
            return False

        def gradients(module: Any, function: Any, precise: bool) -> list[Any]:
            convert = Bridge(module, requires_grad=True)
            value, args, kwargs = convert(_in_double(parts) if precise else parts)
            outputs = [
                t for t in tensors_in(function(value, *args, **kwargs), module) if t.requires_grad
            ]
            found = module.autograd.grad(
                sum(t.sum() for t in outputs), convert.leaves, allow_unused=True
            )
            return [
                None if g is None else torch.tensor(g.tolist(), dtype=torch.float64) for g in found
            ]

        exact = gradients(torch, self.op.op, True)
        theirs = gradients(torch, self.op.op, False)
        ours = gradients(self.module, self._ours("op"), False)
        errors = [
            max(
                (g - e).abs().max().item()
                for g, e in zip(found, exact, strict=True)
                if e is not None
            )
            for found in (ours, theirs)
        ]
        return errors[0] <= errors[1]

    def _check_gradients(
        self, actual: Any, expected: Any, our_leaves: list[Any], torch_leaves: list[torch.Tensor]
    ) -> None:
        ours = list(tensors_in(actual, self.module))
        theirs = list(tensors_in(expected, torch))
        flags = [tensor.requires_grad for tensor in theirs]
        if [bool(tensor.requires_grad) for tensor in ours] != flags:
            found = [tensor.requires_grad for tensor in ours]
            raise Mismatch("gradient", f"requires_grad {found}, torch {flags}")
        if not any(flags) or self.op.name in RANDOM:
            return
        cotangents = [
            torch.from_numpy(
                np.random.default_rng(index).uniform(0.5, 1.5, tuple(tensor.shape))
            ).to(tensor.dtype)
            for index, tensor in enumerate(theirs)
        ]
        chosen = [index for index, flag in enumerate(flags) if flag]
        reference = attempt(
            lambda: torch.autograd.grad(
                [theirs[i] for i in chosen],
                torch_leaves,
                [cotangents[i] for i in chosen],
                allow_unused=True,
            )
        )
        try:
            found = self.module.autograd.grad(
                [ours[i] for i in chosen],
                our_leaves,
                [bridge.tensor_to(self.module, cotangents[i]) for i in chosen],
                allow_unused=True,
            )
        except Exception as error:
            if reference.error is not None:
                return
            raise Mismatch("gradient-raises", first_line(error)) from error
        if reference.error is not None:
            raise Mismatch("accepts", f"gradient where torch raises {first_line(reference.error)}")
        for one, other in zip(found, reference.result, strict=True):
            same_gradient(one, other, self.module)

    def _check_variant(self, variant: str, parts: Any) -> None:
        both = self._call_both(f"{variant}_variant", parts, requires_grad=False)
        if both is not None:
            self._compare(both[0], both[1], parts)

    def _check_inplace(self, variant: str, parts: Any, broadcasts_input: bool) -> None:
        if not isinstance(parts[0], torch.Tensor):
            raise Unsupported("nothing to write into")
        ours = self._ours(f"{variant}_variant")
        theirs = getattr(self.op, f"{variant}_variant")
        with_gradient = self.op.supports_inplace_autograd and self.dtype in GRADIENT_DTYPES
        sides = []
        for module, function in ((self.module, ours), (torch, theirs)):
            convert = Bridge(module, requires_grad=with_gradient)
            leaf, args, kwargs = convert(parts)
            target = leaf.clone()
            outcome = attempt(lambda f=function, t=target, a=args, k=kwargs: f(t, *a, **k))
            sides.append((leaf, target, outcome, convert))
        (leaf, target, actual, to_ours), (torch_leaf, torch_target, expected, to_torch) = sides
        if broadcasts_input and isinstance(actual.error, RuntimeError):
            # PyTorch's own tests want a refusal here as well; some operations resize instead.
            same(target, torch_leaf.detach(), self.module)
            return
        if not self._same_outcome(actual, expected):
            same(target, torch_leaf.detach(), self.module)  # a refused write leaves it as it was
            return
        if (actual.result is target) != (expected.result is torch_target):
            raise Mismatch("identity", "the in-place form must return its tensor")
        self._compare(target, torch_target, parts)
        if with_gradient:
            self._check_gradients(target, torch_target, to_ours.leaves, to_torch.leaves)

    # -- out= ------------------------------------------------------------------------------

    def _check_out(self, parts: Any) -> None:
        self._compare_outs(parts, lambda expected: torch.zeros_like(expected))

    def _check_other_outs(self, parts: Any) -> None:
        """An empty `out` is given its size; one of another dtype is taken or refused as torch's."""
        self._compare_outs(parts, lambda expected: torch.empty(0, dtype=expected.dtype))
        for dtype in (torch.int64, torch.float64, torch.bool):
            self._compare_outs(parts, lambda expected, d=dtype: torch.zeros_like(expected, dtype=d))

    def _compare_outs(self, parts: Any, make: Callable[[torch.Tensor], torch.Tensor]) -> None:
        ours, theirs = self._ours("op"), self.op.op
        to_torch = Bridge(torch, requires_grad=False)
        value, args, kwargs = to_torch(parts)
        plain = attempt(lambda: theirs(value, *args, **kwargs))
        if plain.error is not None or has_complex(plain.result):
            raise Unsupported("no plain result")
        if isinstance(plain.result, torch.Tensor):
            templates: Any = make(plain.result)
        elif not isinstance(plain.result, (list, tuple)):
            raise Unsupported("not a tensor")
        else:
            templates = tuple(make(item) for item in plain.result)
        torch_out = copy.deepcopy(templates)
        expected = attempt(lambda: theirs(value, *args, **kwargs, out=torch_out))
        convert = Bridge(self.module, requires_grad=False)
        our_value, our_args, our_kwargs = convert(parts)
        # Cloned: numpy's memory, which the bridge lends, cannot grow.
        our_out = convert(templates)
        if isinstance(our_out, tuple):
            our_out = tuple(item.clone() for item in our_out)
        else:
            our_out = our_out.clone()
        actual = attempt(lambda: ours(our_value, *our_args, **our_kwargs, out=our_out))
        if not self._same_outcome(actual, expected):
            return
        if isinstance(our_out, tuple):
            self._compare(list(our_out), list(torch_out), parts)
        else:
            self._compare_out(our_out, torch_out, plain.result.dtype, parts)
            if (actual.result is our_out) != (expected.result is torch_out):
                raise Mismatch("identity", "the result must be `out` itself")

    def _compare_out(
        self, actual: Any, expected: torch.Tensor, computed: torch.dtype, parts: Any
    ) -> None:
        """A wider `out` holds what was computed, and rounded, in the dtype of the plain result."""
        if expected.dtype is not computed and computed.is_floating_point:
            same_form(actual, expected, self.module)
            name = bridge.dtype_name(computed)
            actual, expected = actual.to(getattr(self.module, name)), expected.to(computed)
        self._compare(actual, expected, parts)

    # -- samples that must raise -----------------------------------------------------------

    def _check_errors(self) -> None:
        for error_input in self.op.error_inputs("cpu"):
            sample = error_input.sample_input
            parts = (sample.input, list(sample.args), dict(sample.kwargs))
            if has_complex(parts):
                continue
            call = f"({describe(parts[0])}, {describe(parts[1])}, {describe(parts[2])})"
            self._guard("error", call, lambda p=parts: self._check_error(p))

    def _check_error(self, parts: Any) -> None:
        ours, theirs = self._ours("op"), self.op.op
        value, args, kwargs = Bridge(torch)(parts)
        expected = attempt(lambda: theirs(value, *args, **kwargs)).error
        if expected is None:
            raise Unsupported("torch takes it")
        our_value, our_args, our_kwargs = Bridge(self.module)(parts)
        actual = attempt(lambda: ours(our_value, *our_args, **our_kwargs)).error
        if actual is None:
            raise Mismatch("accepts", f"no exception; torch {first_line(expected)}")
        if isinstance(actual, AttributeError) and not isinstance(expected, AttributeError):
            raise actual
        if not (isinstance(actual, type(expected)) or isinstance(expected, type(actual))):
            raise Mismatch("error-class", f"{first_line(actual)}; torch {first_line(expected)}")


def check(
    module: Any,
    op: Any,
    dtype: str,
    *,
    samples: int = 0,
    references: int = 0,
    note: Callable[[str], None] = lambda text: None,
) -> tuple[list[Failure], int]:
    """Failures and number of checks of one operation (an OpInfo) and dtype."""
    checker = Checker(module, op, dtype, note=note)
    failures = checker.run(samples, references)
    return failures, checker.checks


__all__ = ["ERRORS", "Failure", "check", "dtypes_of", "full_name", "op_names", "same_scalar",
           "variants_of"]  # fmt: skip
