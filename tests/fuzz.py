"""Calls every public entry with valid and invalid arguments: `python -m tests.fuzz`.

    --calls N     how many (default 10,000)
    --seed S      the same seed, the same calls (default 0)
    --only NAME   entries of this name only
    --call INDEX  one call of that seed again, shown

A call may give a result or raise one of Python's ordinary exceptions. Anything else is a finding: a
crash, a hang, another exception, a tensor that a refused in-place call has changed. Calls run in
child processes; a child that dies is reported with the call that killed it and the rest goes on.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import inspect
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ._target import IS_WEFT, weft
from .fuzz_values import Arguments, Schema, parse, schema_of, text_of

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = (
    RuntimeError, IndexError, TypeError, ValueError, OverflowError, NotImplementedError,
    MemoryError, BufferError, ZeroDivisionError, AttributeError,
)  # fmt: skip
# Subclasses of the above that speak of the library's own mistakes.
FORBIDDEN = (RecursionError, UnicodeDecodeError)
CHUNK = 20_000
ROOM = 3 * 2**29  # bytes a child may allocate beyond what it starts with

# Entries that the registry may not list: written in Python, or reached by syntax only.
EXTRA = (
    "zeros(int[] size, *, DType? dtype=None, bool requires_grad=False) -> Tensor",
    "ones(int[] size, *, DType? dtype=None) -> Tensor",
    "empty(int[] size, *, DType? dtype=None) -> Tensor",
    "full(int[] size, Scalar fill_value, *, DType? dtype=None) -> Tensor",
    "eye(int n, int? m=None, *, DType? dtype=None) -> Tensor",
    "arange(Scalar start, Scalar? end=None, Scalar step=1, *, DType? dtype=None) -> Tensor",
    "linspace(Scalar start, Scalar end, int steps, *, DType? dtype=None) -> Tensor",
    "logspace(Scalar start, Scalar end, int steps, float base=10) -> Tensor",
    "rand(int[] size, *, Generator? generator=None, DType? dtype=None) -> Tensor",
    "randn(int[] size, *, Generator? generator=None, DType? dtype=None) -> Tensor",
    "randint(int low, int high, int[] size, *, Generator? generator=None) -> Tensor",
    "randperm(int n) -> Tensor",
    "tril_indices(int row, int col, int offset=0) -> Tensor",
    "triu_indices(int row, int col, int offset=0) -> Tensor",
    "scalar_tensor(Scalar s, *, DType? dtype=None) -> Tensor",
    "einsum(str equation, Tensor[] operands) -> Tensor",
    "cat(Tensor[] tensors, int dim=0) -> Tensor",
    "stack(Tensor[] tensors, int dim=0) -> Tensor",
    "block_diag(Tensor[] tensors) -> Tensor",
    "broadcast_shapes(int[] a, int[] b) -> Tensor",
    "promote_types(DType a, DType b) -> DType",
    "result_type(Tensor|Scalar a, Tensor|Scalar b) -> DType",
    "manual_seed(int seed) -> Generator",
    "bincount(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor",
    "nonzero(Tensor self) -> Tensor",
    "unique(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False, "
    "int? dim=None) -> Tensor",
)
METHODS = (
    "item(Tensor self) -> Scalar",
    "tolist(Tensor self) -> Scalar",
    "numpy(Tensor self) -> Tensor",
    "new_zeros(Tensor self, int[] size, *, DType? dtype=None) -> Tensor",
    "new_full(Tensor self, int[] size, Scalar fill_value) -> Tensor",
    "new_tensor(Tensor self, Scalar data) -> Tensor",
    "to(Tensor self, DType dtype, bool non_blocking=False, bool copy=False) -> Tensor",
    "type_as(Tensor self, Tensor other) -> Tensor",
    "requires_grad_(Tensor self, bool requires_grad=True) -> Tensor",
    "resize_(Tensor self, int[] size) -> Tensor",
    "set_(Tensor self, Tensor source) -> Tensor",
    "fill_(Tensor self, Scalar value) -> Tensor",
    "zero_(Tensor self) -> Tensor",
    "copy_(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
    "uniform_(Tensor self, float a=0, float b=1) -> Tensor",
    "normal_(Tensor self, float mean=0, float std=1) -> Tensor",
    "random_(Tensor self, int a, int? to=None) -> Tensor",
    "bernoulli_(Tensor self, float p=0.5) -> Tensor",
    "exponential_(Tensor self, float lambd=1) -> Tensor",
    "index_put_(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor",
    "backward(Tensor self, Tensor? gradient=None, bool? retain_graph=None) -> Tensor",
    "__format__(Tensor self, str spec) -> str",
    "__contains__(Tensor self, Scalar value) -> bool",
    "__repr__(Tensor self) -> str",
    "__dlpack__(Tensor self) -> Tensor",
    "size(Tensor self, int? dim=None) -> int",
    "stride(Tensor self, int? dim=None) -> int",
)


@dataclasses.dataclass(frozen=True)
class Entry:
    """A way to call an operation: `kind` is function, functional, method, inplace or out."""

    schema: Schema
    kind: str
    namespace: str = ""  # of a function written in Python: "nn.functional", "linalg", ...

    @property
    def name(self) -> str:
        prefix = f"{self.namespace}." if self.namespace else ""
        return f"{prefix}{self.schema.name}{'_' if self.kind == 'inplace' else ''} ({self.kind})"


def at_path(path: str) -> Any:
    """What stands at a dotted path below weft."""
    found = weft
    for part in path.split("."):
        found = getattr(found, part)
    return found


class Changed(Exception):
    """A refused in-place call has changed its tensor."""


def registry() -> list[dict[str, Any]]:
    if IS_WEFT:
        entries: list[dict[str, Any]] = weft._core.registry()
        return entries
    return torch_registry()


def torch_registry() -> list[dict[str, Any]]:
    """The same operations as PyTorch declares them, to try the fuzzer on."""
    names = {
        line.strip().rpartition(".")[2]
        for line in (ROOT / "tests/parity/engine_ops.txt").read_text().splitlines()
    }
    found = []
    for schema in weft._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace != "aten" or name not in names or "out" in schema.overload_name:
            continue
        kinds = [
            kind
            for kind, owner, spelled in (
                ("function", weft, name),
                ("functional", weft.nn.functional, name),
                ("method", weft.Tensor, name),
                ("inplace", weft.Tensor, f"{name}_"),
            )
            if hasattr(owner, spelled)
        ]
        text = str(schema).partition("::")[2]
        found.append({"name": name, "schema": text, "kinds": kinds})
    return found


def composed_entries() -> Iterator[Entry]:
    """The operations written in Python, which the registry of the core does not list."""
    if not IS_WEFT:
        return
    from weft.ops._composed import composed_operations

    for operation in composed_operations:
        schema = schema_of(operation.name, operation.function)
        kinds = set(operation.kinds)
        if "out" in inspect.signature(operation.function).parameters:
            kinds.add("out")
        for kind in sorted(kinds):
            namespace = operation.namespace if kind in ("function", "out") else ""
            yield Entry(schema, kind, namespace)


def entries() -> list[Entry]:
    found: dict[Entry, None] = {}
    for item in registry():
        try:
            schema = parse(item["schema"])
        except ValueError as error:
            raise SystemExit(f"schema of {item['name']}: {item['schema']!r}: {error}") from None
        for kind in item["kinds"]:
            found[Entry(schema, kind)] = None
    found |= dict.fromkeys(composed_entries())
    for text in EXTRA:
        schema = parse(text)
        if hasattr(weft, schema.name):
            found[Entry(schema, "function")] = None
    for text in METHODS:
        schema = parse(text)
        if hasattr(weft.Tensor, schema.name):
            found[Entry(schema, "method")] = None
    for name in ("__getitem__", "__setitem__"):
        found[Entry(Schema(name, ()), "syntax")] = None
    return list(found)


# -- one call ------------------------------------------------------------------------------------


def snapshot(value: Any) -> Any:
    """Everything of a tensor that a refused call must leave alone."""
    with weft.no_grad():
        plain = value.detach()
        shown = repr(plain.reshape(-1).tolist())  # text, because NaN is not equal to itself
    return tuple(value.shape), tuple(value.stride()), str(value.dtype), value.requires_grad, shown


def tensors_in(value: Any) -> Iterator[Any]:
    if isinstance(value, weft.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


class Call:
    """One random call, ready to be made."""

    def __init__(self, all_entries: list[Entry], seed: str) -> None:
        self.source = Arguments(seed)
        self.entry = self.source.random.choice(all_entries)
        self.target: Any = None
        self.positional: list[Any] = []
        self.named: dict[str, Any] = {}
        if self.entry.kind == "syntax":
            self.positional = [self.source.tensor(), self.source.index()]
            if self.entry.schema.name == "__setitem__":
                tensor = self.source.chance(0.6)
                self.positional.append(self.source.tensor() if tensor else self.source.number())
                self.target = self.positional[0]
        else:
            self._fill()

    def _fill(self) -> None:
        source = self.source
        for parameter in self.entry.schema.parameters:
            if not parameter.required and source.chance(0.5):
                continue
            if parameter.type.startswith("*"):
                several = dataclasses.replace(parameter, type=parameter.type[1:])
                self.positional += [
                    source.of(several) for _ in range(source.random.choice((0, 1, 2, 2, 3)))
                ]
                continue
            value = source.of(parameter)
            by_name = parameter.keyword_only or (not parameter.required and source.chance(0.5))
            if by_name or self.named:
                self.named[parameter.name] = value
            else:
                self.positional.append(value)
        if source.chance(0.01):
            self.named["surprise"] = 1
        if source.chance(0.01) and self.positional:
            self.positional.pop()
        if source.chance(0.01):
            self.positional.append(source.number())
        method = self.entry.kind in ("method", "inplace")
        if method and not (self.positional and isinstance(self.positional[0], weft.Tensor)):
            self.positional[:1] = [source.tensor()]
        writes = self.entry.kind == "inplace" or self.entry.schema.name.endswith("_")
        if writes and self.positional and isinstance(self.positional[0], weft.Tensor):
            self.target = self.positional[0]
        if self.entry.kind == "out":
            out = source.tensor()
            self.named["out"] = out.detach() if source.chance(0.9) else out

    def __str__(self) -> str:
        parts = [text_of(value) for value in self.positional]
        parts += [f"{name}={text_of(value)}" for name, value in self.named.items()]
        return f"{self.entry.name}: {', '.join(parts)}"

    def function(self) -> Callable[..., Any]:
        name = self.entry.schema.name
        match self.entry.kind:
            case "function" | "out":
                if self.entry.namespace:
                    return getattr(at_path(self.entry.namespace), name)  # type: ignore[no-any-return]
                registered = getattr(weft, "_core", None)
                if registered is not None and name in registered.ops:
                    return registered.ops[name]  # type: ignore[no-any-return]
                return at_path(name)  # type: ignore[no-any-return]
            case "functional":
                return getattr(weft.nn.functional, name)  # type: ignore[no-any-return]
            case "inplace":
                return getattr(weft.Tensor, f"{name}_")  # type: ignore[no-any-return]
            case _:
                return getattr(weft.Tensor, name)  # type: ignore[no-any-return]

    def run(self) -> str:
        """Makes the call and uses what it gives; the kind of outcome."""
        function = self.function()
        before = snapshot(self.target) if self.target is not None else None
        try:
            result = function(*self.positional, **self.named)
        except FORBIDDEN:
            raise
        except AssertionError as error:
            # PyTorch asserts a few things of arguments (embedding, attention) and says what they
            # are; an assertion without words is the library's mistake.
            if not str(error):
                raise
            return "refused"
        except ALLOWED as error:
            if before is not None and snapshot(self.target) != before and IS_WEFT:
                raise Changed(f"{before} became {snapshot(self.target)}") from error
            return "refused"
        self._use([result, *self.positional, *self.named.values()])
        return "done"

    def _use(self, values: list[Any]) -> None:
        """Reads everything that came back, and runs backward through it."""
        source = self.source
        outputs = list(tensors_in(values))
        for value in outputs:
            if value.numel() <= 10_000:
                value.detach().reshape(-1).tolist()
        roots = [value for value in outputs if value.requires_grad and value.numel() <= 10_000]
        if not roots:
            return
        leaves = [value for value in source.tensors if value.requires_grad]
        create_graph = source.chance(0.3)
        try:
            root = roots[0]
            seed = weft.ones_like(root) if source.chance(0.9) else source.tensor().detach()
            grads = weft.autograd.grad(
                root, leaves, seed, create_graph=create_graph, allow_unused=True
            )
            again = [grad for grad in grads if grad is not None and grad.requires_grad]
            for grad in grads:
                if grad is not None:
                    grad.detach().reshape(-1).tolist()
            if create_graph and again:
                weft.autograd.grad(
                    [grad.sum() for grad in again], leaves, allow_unused=True, retain_graph=True
                )
            if source.chance(0.2):
                root.backward(seed)
        except FORBIDDEN:
            raise
        except ALLOWED:
            pass


# -- children ------------------------------------------------------------------------------------


def bound_memory(room: int) -> None:
    """What is truly too large must fail to allocate, not meet the system's killer."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + room
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def child(options: argparse.Namespace) -> None:
    """Makes calls `start` to `start + calls` and writes findings to standard output."""
    warnings.simplefilter("ignore")
    chosen = [e for e in entries() if not options.only or e.schema.name == options.only]
    if not chosen:
        raise SystemExit(f"no entry is called {options.only}")
    if "ASAN_OPTIONS" not in os.environ:  # its shadow memory is larger than any limit
        bound_memory(ROOM)
    if hasattr(weft, "set_num_threads"):
        weft.set_num_threads(2)
    progress = os.open(options.progress, os.O_WRONLY | os.O_CREAT)
    outcomes: collections.Counter[str] = collections.Counter()
    for index in range(options.start, options.start + options.calls):
        call = Call(chosen, f"{options.seed}:{index}")
        line = f"{index} {call}".encode(errors="replace")[:2000]
        os.pwrite(progress, line.ljust(2000), 0)
        try:
            outcomes[call.run()] += 1
        except BaseException as error:
            print(f"finding\t{index}\t{call}\t{type(error).__name__}: {str(error)[:500]!r}")
    print(f"outcomes\t{outcomes['done']}\t{outcomes['refused']}", flush=True)
    os._exit(0)  # tearing down half a million odd objects proves nothing


@dataclasses.dataclass
class Result:
    done: int = 0
    refused: int = 0
    findings: list[str] = dataclasses.field(default_factory=list)


def run_child(options: argparse.Namespace, start: int, calls: int, result: Result) -> int:
    """Runs calls from `start`; gives the number of the next call to be made."""
    handle, progress = tempfile.mkstemp(prefix="fuzz-")
    os.close(handle)
    command = [sys.executable, "-m", "tests.fuzz", "--child", "--progress", progress]
    command += ["--seed", str(options.seed), "--start", str(start), "--calls", str(calls)]
    command += ["--only", options.only] if options.only else []
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1"}
    environment["WEFT_MEMORY_LIMIT"] = str(ROOM)
    try:
        finished = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            text=True,
            errors="replace",
            capture_output=True,
            timeout=options.timeout + calls * 0.02,
        )
        code: int | None = finished.returncode
        output, errors = finished.stdout, finished.stderr
    except subprocess.TimeoutExpired as expired:
        code, errors = None, ""
        output = (expired.stdout or b"").decode(errors="replace")
    last = Path(progress).read_text(errors="replace").strip()
    Path(progress).unlink()
    for line in output.splitlines():
        kind, _, rest = line.partition("\t")
        if kind == "finding":
            result.findings.append(rest)
        elif kind == "outcomes":
            done, refused = map(int, rest.split("\t"))
            result.done += done
            result.refused += refused
    if code == 0:
        return start + calls
    if not last:
        raise SystemExit(f"the child did not start:\n{errors[-3000:]}")
    what = (
        "hang" if code is None else f"crash ({f'signal {-code}' if code < 0 else f'exit {code}'})"
    )
    telling = [line for line in errors.splitlines() if "ERROR:" in line or "runtime error" in line]
    telling += [line for line in errors.splitlines() if "Fatal" in line]
    result.findings.append(f"{what}\t{last}\t{(telling or [''])[0][:300]}")
    return int(last.split(" ", 1)[0]) + 1


def fuzz(options: argparse.Namespace) -> Result:
    result, position, crashes = Result(), options.start, 0
    end = options.start + options.calls
    while position < end and crashes < options.crashes:
        before = len(result.findings)
        following = run_child(options, position, min(CHUNK, end - position), result)
        crashes += sum(f.startswith(("crash", "hang")) for f in result.findings[before:])
        position = following
    return result


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--call", type=int)
    parser.add_argument("--crashes", type=int, default=20, help="stop after so many")
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--progress", default="", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = options_of(sys.argv[1:] if arguments is None else arguments)
    if options.child:
        child(options)
        return 0
    if options.call is not None:
        chosen = [e for e in entries() if not options.only or e.schema.name == options.only]
        call = Call(chosen, f"{options.seed}:{options.call}")
        print(call, flush=True)
        print(call.run())
        return 0
    result = fuzz(options)
    for finding in result.findings:
        print(finding)
    print(
        f"seed {options.seed}: {result.done} calls gave a result, {result.refused} were refused, "
        f"{len(result.findings)} findings"
    )
    return 1 if result.findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
