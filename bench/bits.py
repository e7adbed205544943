"""The same bits from every instruction set and every number of threads.

Run by the parent as `python -m bench.bits --framework weft --threads 1 2 3 4 8`, once for each
WEFT_CPU; prints a digest of every operation's result for every number of threads, as JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable
from functools import reduce
from typing import Any

from bench import child, frameworks
from bench.case import Framework
from bench.worker import describe

THREADS = (1, 2, 3, 4, 8)
QUICK_THREADS = (1, 3)
ELEMENTS = (1 << 18) + 3  # enough for several threads, and not a multiple of any vector
COLUMNS = 37


def names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


UNARY = names("""
  abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp
  exp2 expm1 floor frac lgamma log log10 log1p log2 logit neg positive rad2deg reciprocal round
  rsqrt sgn sigmoid sign sin sinc sinh sqrt square tan tanh trunc nan_to_num
  nn.functional.relu nn.functional.leaky_relu nn.functional.elu nn.functional.gelu
  nn.functional.silu nn.functional.softplus nn.functional.logsigmoid nn.functional.hardtanh
  nn.functional.relu6""")
BINARY = names("""add sub mul div floor_divide remainder fmod pow atan2 copysign fmax fmin maximum
  minimum hypot logaddexp logaddexp2 xlogy heaviside""")
# Over the last dimension, over the first, and (where it exists) over everything.
REDUCTIONS = names("""sum mean prod std var amax amin logsumexp nansum nanmean argmax argmin
  linalg.vector_norm""")
SCANS = names("cumsum cumprod cummax cummin logcumsumexp")
SOFTMAX = names("softmax log_softmax")

PRODUCTS = ("matmul 200x300x150", "matmul 512x512x512", "matvec", "batched", "float64")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bits", description=__doc__)
    parser.add_argument("--framework", choices=frameworks.NAMES, required=True)
    parser.add_argument("--threads", type=int, nargs="+", default=list(THREADS))
    options = parser.parse_args()
    torch = frameworks.load(options.framework)
    found: dict[str, dict[str, dict[str, str]]] = {}
    for kind, operations in (("arithmetic", arithmetic(torch)), ("products", products(torch))):
        of_kind = found.setdefault(kind, {})
        for name, operation in operations.items():
            digests = of_kind.setdefault(name, {})
            for threads in options.threads:
                frameworks.set_threads(torch, threads)
                try:
                    digests[str(threads)] = digest(operation())
                except Exception as error:
                    digests["error"] = describe(error)
                    break
    print(json.dumps(found))


Operation = Callable[[], Any]


def arithmetic(torch: Framework) -> dict[str, Operation]:
    """Every element-wise operation, reduction and scan, in float32 and float64."""
    import numpy as np

    operations: dict[str, Operation] = {}

    def put(label: str, name: str, *arguments: Any, **options: Any) -> None:
        operations[label] = lambda: reduce(getattr, name.split("."), torch)(*arguments, **options)

    for dtype in (np.float32, np.float64):
        x, y = (torch.from_numpy(wide_values(np, dtype, seed)) for seed in (1, 2))
        table = torch.from_numpy(tame_values(np, dtype).reshape(-1, COLUMNS))
        for name in UNARY:
            put(f"{name} {dtype.__name__}", name, x)
        for name in BINARY:
            put(f"{name} {dtype.__name__}", name, x, y)
        for name in REDUCTIONS:
            for dim in (0, 1):
                put(f"{name} dim={dim} {dtype.__name__}", name, table, dim=dim)
                put(f"{name} long dim={dim} {dtype.__name__}", name, table.t(), dim=dim)
        for name in ("sum", "mean", "prod", "amax", "var", "linalg.vector_norm"):
            put(f"{name} {dtype.__name__}", name, table)
        for name in (*SCANS, *SOFTMAX):
            for dim in (0, 1):
                put(f"{name} dim={dim} {dtype.__name__}", name, table, dim=dim)
    return operations


def products(torch: Framework) -> dict[str, Operation]:
    """Library products: their bits may differ between machines, never between thread counts."""
    import numpy as np

    random = np.random.default_rng(3)

    def values(*shape: int, dtype: Any = np.float32) -> Framework:
        return torch.from_numpy(random.uniform(-1, 1, shape).astype(dtype))

    pairs = (
        (values(200, 300), values(300, 150)),
        (values(512, 512), values(512, 512)),
        (values(1000, 700), values(700)),
        (values(9, 100, 80), values(9, 80, 60)),
        (values(256, 256, dtype=np.float64), values(256, 256, dtype=np.float64)),
    )
    return {
        name: lambda pair=pair: torch.matmul(*pair)  # type: ignore[misc]
        for name, pair in zip(PRODUCTS, pairs, strict=True)
    }


def wide_values(np: Any, dtype: Any, seed: int) -> Any:
    """Half within [-1, 1], half far around, and every special number."""
    random = np.random.default_rng(seed)
    values = random.uniform(-1, 1, ELEMENTS)
    values[::2] *= np.exp2(random.integers(-20, 8, values[::2].shape))
    limits = np.finfo(dtype)
    special = np.array(
        [
            0.0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            limits.tiny,
            limits.smallest_subnormal,
            limits.max,
            limits.min,
            limits.eps,
            1.0,
            -1.0,
            0.5,
            2.0,
        ]
    )
    values[: special.size] = np.roll(special, seed)
    return values.astype(dtype)


def tame_values(np: Any, dtype: Any) -> Any:
    """Values around one whose long products neither vanish nor overflow."""
    random = np.random.default_rng(5)
    return random.uniform(0.9, 1.1, ELEMENTS // COLUMNS * COLUMNS).astype(dtype)


def digest(result: Any) -> str:
    """A digest of all values; any NaN equals any NaN."""
    import numpy as np

    state = hashlib.blake2b(digest_size=8)
    for part in result if isinstance(result, tuple) else (result,):
        array = np.array(part.numpy())
        if array.dtype.kind == "f":
            array[np.isnan(array)] = np.nan
        state.update(array.tobytes())
    return state.hexdigest()


# --- in the parent --------------------------------------------------------------------------------


def available_instruction_sets() -> list[str]:
    """The builds this machine can run."""
    with open("/proc/cpuinfo") as lines:
        flags = next(
            (set(line.split(":", 1)[1].split()) for line in lines if line.startswith("flags")),
            set(),
        )
    found = ["baseline"]
    if {"avx2", "fma"} <= flags:
        found.append("avx2")
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags:
        found.append("avx512")
    return found


def compare(quick: bool, progress: Callable[[str], None]) -> dict[str, Any]:
    """Which operations differ, and how: by kind, a list of words; `errors` what raised."""
    threads = [str(count) for count in (QUICK_THREADS if quick else THREADS)]
    sets = available_instruction_sets()
    found: dict[str, Any] = {}
    for name in sets:
        progress(f"bits: {name}, threads {' '.join(threads)}")
        found[name] = child.json_of(
            "bench.bits",
            "--framework",
            "weft",
            "--threads",
            *threads,
            environment={"WEFT_CPU": name},
        )
    differing: dict[str, list[str]] = {"arithmetic": [], "products": []}
    errors: dict[str, list[str]] = {"arithmetic": [], "products": []}
    for kind, operations in found[sets[-1]].items():
        for name in operations:
            of_sets = [found[set_name][kind][name] for set_name in sets]
            if any("error" in digests for digests in of_sets):
                errors[kind].append(name)
            elif any(len(set(digests.values())) > 1 for digests in of_sets):
                differing[kind].append(f"{name} (threads)")
            elif kind == "arithmetic" and len({digests["1"] for digests in of_sets}) > 1:
                differing[kind].append(f"{name} (instruction sets)")
    return {
        "instruction_sets": sets,
        "threads": threads,
        "differing": differing,
        "errors": errors,
        "compared": {kind: len(operations) for kind, operations in found[sets[-1]].items()},
    }


if __name__ == "__main__":
    main()
