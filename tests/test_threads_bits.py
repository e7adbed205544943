"""The same bits for any number of threads and for every instruction set.

Element-wise operations, reductions, scans and random numbers must not depend on how the work was
split or on which build ran; products must not depend on the number of threads.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ._target import MODULE_NAME, weft, weft_only

pytestmark = weft_only
ROOT = Path(__file__).resolve().parents[1]
THREADS = (1, 2, 3, 4, 8)
BUILDS = ("baseline", "avx2", "avx512")
# Sizes around vector widths and tile ends, and one that is worth splitting.
SIZES = (0, 1, 3, 7, 15, 16, 17, 63, 64, 65, 255, 257, 1023, 4097, 300_001)
REDUCTIONS = (
    "sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "std", "var", "logsumexp", "nansum",
    "nanmean", "count_nonzero", "all", "any", "median", "norm",
)  # fmt: skip
SCANS = ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "softmax", "log_softmax", "sort")
RANDOM: dict[str, Callable[[Any], Any]] = {
    "rand": lambda m: m.rand(100_003),
    "randn": lambda m: m.randn(100_003),
    "randint": lambda m: m.randint(0, 1000, (100_003,)),
    "bernoulli": lambda m: m.bernoulli(m.full((100_003,), 0.3)),
    "exponential": lambda m: m.empty(100_003).exponential_(),
    "multinomial": lambda m: m.multinomial(m.arange(1.0, 50.0), 1000, replacement=True),
    "randperm": lambda m: m.randperm(10_007),
}
PRODUCTS: dict[str, Callable[[Any], Any]] = {
    "mm": lambda m: numbers(m, 150 * 170).reshape(150, 170) @ numbers(m, 170 * 90).reshape(170, 90),
    "mm_transposed": lambda m: (
        numbers(m, 150 * 170).reshape(170, 150).t() @ numbers(m, 170 * 90).reshape(170, 90)
    ),
    "bmm": lambda m: (
        numbers(m, 6 * 70 * 50).reshape(6, 70, 50) @ numbers(m, 6 * 50 * 30).reshape(6, 50, 30)
    ),
    "mv": lambda m: numbers(m, 700 * 500).reshape(700, 500) @ numbers(m, 500),
    "dot": lambda m: numbers(m, 300_001) @ numbers(m, 300_001).flip(0),
    "long": lambda m: (
        numbers(m, 20 * 9_000).reshape(20, 9_000) @ numbers(m, 9_000 * 20).reshape(9_000, 20)
    ),
    "double": lambda m: (
        numbers(m, 150 * 170).double().reshape(150, 170)
        @ numbers(m, 170 * 90).double().reshape(170, 90)
    ),
}


def numbers(module: Any, count: int, dtype: str = "float32") -> Any:
    """The same numbers everywhere, by integer arithmetic: not by what is being tested."""
    state, values = 12345, []
    for _ in range(min(count, 4099)):
        state = (1103515245 * state + 12345) % 2**31
        values.append(state / 2**30 - 1.0)
    if dtype not in ("float32", "float64"):
        values = [int(value * 7) for value in values]
    else:
        special = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, -1e30, 80.0, -80.0, float("inf"), float("nan")]
        values[: min(count, len(special))] = special[: min(count, len(special))]
    period = module.tensor(values, dtype=getattr(module, dtype))
    if count <= len(values):
        return period
    return period.repeat(count // len(values) + 1)[:count]


def digest(value: Any) -> str:
    """A hash of a result's bits, any NaN being equal to any NaN."""
    outputs = value if isinstance(value, (list, tuple)) else [value]
    found = hashlib.sha256()
    for output in outputs:
        if output.is_floating_point():
            output = output.double()
            output = weft.where(output.isnan(), weft.full_like(output, float("nan")), output)
        found.update(bytes(memoryview(output.contiguous()).cast("B")) if output.numel() else b"")
        found.update(str((tuple(output.shape), str(output.dtype))).encode())
    return found.hexdigest()[:16]


def elementwise_calls() -> dict[str, Callable[[], Any]]:
    """Every element-wise operation of the registry, on several sizes and dtypes."""
    calls: dict[str, Callable[[], Any]] = {}
    for item in weft._core.registry():
        if not item["elementwise"] or "function" not in item["kinds"]:
            continue
        schema = item["schema"]
        function = getattr(weft, item["name"].partition(".")[0], None)
        required = [p for p in schema[schema.index("(") + 1 :].split(",") if "=" not in p]
        count = sum(p.strip().startswith("Tensor") for p in required)
        if function is None or len(required) != count:
            continue
        for dtype in ("float32", "float64", "int32"):
            for size in SIZES if dtype == "float32" else SIZES[-4:]:

                def call(f: Any = function, n: int = count, d: str = dtype, s: int = size) -> Any:
                    return f(*(numbers(weft, s, d).roll(k) for k in range(n)))

                calls[f"{schema.partition('(')[0]} {dtype} {size}"] = call
    return calls


def other_calls() -> dict[str, Callable[[], Any]]:
    calls: dict[str, Callable[[], Any]] = {}
    for size in SIZES[1:]:
        for name in REDUCTIONS:
            if hasattr(weft, name):
                arguments = (0,) if name == "logsumexp" else ()
                calls[f"{name} {size}"] = lambda n=name, s=size, a=arguments: getattr(weft, n)(
                    numbers(weft, s), *a
                )
        for name in SCANS:
            if hasattr(weft, name):
                calls[f"{name} {size}"] = lambda n=name, s=size: getattr(weft, n)(
                    numbers(weft, s), 0
                )
    for shape in ((37, 1001), (1001, 37), (3, 40, 500)):
        for dim in range(len(shape)):
            for name in ("sum", "amax", "softmax", "cumsum", "logsumexp"):
                if hasattr(weft, name):
                    calls[f"{name} {shape} {dim}"] = lambda n=name, s=shape, d=dim: getattr(
                        weft, n
                    )(numbers(weft, s[0] * s[1] * (s[2] if len(s) > 2 else 1)).reshape(s), d)
    for name, draw in RANDOM.items():

        def seeded(draw: Callable[[Any], Any] = draw) -> Any:
            weft.manual_seed(3)
            return draw(weft)

        calls[f"random {name}"] = seeded
    return calls


def product_calls() -> dict[str, Callable[[], Any]]:
    return {f"product {name}": (lambda f=f: f(weft)) for name, f in PRODUCTS.items()}


def gradient_calls() -> dict[str, Callable[[], Any]]:
    def chain() -> Any:
        x = weft.linspace(-2, 2, 100_003).requires_grad_()
        w = weft.linspace(0, 1, 100_003).requires_grad_()
        loss = ((x * w).tanh() * x.exp()).mean() + (x.sigmoid() * w).pow(2).sum()
        return weft.autograd.grad(loss, [x, w])

    def broadcast() -> Any:
        x = weft.linspace(-2, 2, 300).reshape(300, 1).requires_grad_()
        y = weft.linspace(-1, 1, 501).requires_grad_()
        return weft.autograd.grad(((x * y).sin() / (y + 3)).sum(), [x, y])

    return {"gradient chain": chain, "gradient broadcast": broadcast}


def all_calls(*, products: bool) -> dict[str, Callable[[], Any]]:
    calls = {**elementwise_calls(), **other_calls(), **gradient_calls()}
    return {**calls, **product_calls()} if products else calls


def hashes(*, products: bool) -> dict[str, str]:
    """A hash for every call; what it raises is an answer, too."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a deviation of one number is NaN, and warned about
        for name, call in all_calls(products=products).items():
            try:
                found[name] = digest(call())
            except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError) as error:
                found[name] = f"{type(error).__name__}: {error}"
    return found


def differences(one: dict[str, str], other: dict[str, str]) -> list[str]:
    return [
        f"{name}: {one[name]} {other.get(name)}" for name in one if one[name] != other.get(name)
    ]


def test_threads_do_not_change_bits() -> None:
    before = weft.get_num_threads()
    try:
        weft.set_num_threads(1)
        expected = hashes(products=True)
        assert len(expected) > 100
        for count in THREADS[1:]:
            weft.set_num_threads(count)
            different = differences(expected, hashes(products=True))
            assert not different, f"{count} threads:\n" + "\n".join(different[:20])
    finally:
        weft.set_num_threads(before)


def hashes_of_build(build: str) -> dict[str, str] | None:
    """Hashes from a process that loaded this build; None where the processor cannot run it."""
    program = (
        "import json, sys\n"
        f"sys.path.append({str(ROOT)!r})\n"
        "from tests import test_threads_bits as bits\n"
        "bits.weft.set_num_threads(2)\n"
        "print(json.dumps(bits.hashes(products=False)))\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "WEFT_CPU": build, "WEFT_TEST_MODULE": MODULE_NAME},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    if finished.returncode != 0:
        if "WEFT_CPU" in finished.stderr:
            return None
        raise AssertionError(finished.stderr[-3000:])
    found: dict[str, str] = json.loads(finished.stdout)
    return found


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    found = hashes_of_build("baseline")
    assert found is not None
    return found


@pytest.mark.parametrize("build", BUILDS[1:])
def test_builds_give_the_same_bits(build: str, reference: dict[str, str]) -> None:
    found = hashes_of_build(build)
    if found is None:
        pytest.skip(f"this processor has no {build}")
    assert found.keys() == reference.keys()
    different = differences(reference, found)
    assert not different, f"{len(different)} of {len(found)}:\n" + "\n".join(different[:20])


def test_an_unknown_build_is_refused() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", "import weft"],
        env={**os.environ, "WEFT_CPU": "nonsense"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode != 0
    assert "WEFT_CPU" in finished.stderr


def test_layout_does_not_change_bits() -> None:
    """Element by element, a strided tensor gives what its contiguous copy gives."""
    x = numbers(weft, 64 * 65).reshape(64, 65)
    for name in ("exp", "tanh", "sin", "sqrt", "sigmoid"):
        function = getattr(weft, name, None)
        if function is not None:
            assert digest(function(x.t())) == digest(function(x.t().contiguous()))
    assert digest(x.t() * x[:1].t()) == digest(x.t().contiguous() * x[:1].t().contiguous())
