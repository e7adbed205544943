"""Turns measurements into lines of the report: both figures, the ratio, the bar, met or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from bench import bits, cases_models, child, footprint, machine, provenance
from bench.alternate import Measured, Results
from bench.case import Case
from bench.cases_models import Trained
from bench.cases_overhead import REUSE_BACKWARD, REUSE_LIMIT, REUSE_PRODUCTS

SLOW_LIBRARY_GFLOPS = 130.0  # below it, per core, PyTorch's products are known to be beatable
IMPORT_MILLISECONDS = 60.0
IMPORT_RATIO = 15.0
RESIDENT_MEGABYTES = 15.0
BYTES_PER_NODE_RATIO = 3.0
PROVENANCE_SHARE = 0.10
SIDES = ("weft", "torch")

Progress = Callable[[str], None]


@dataclass
class Line:
    """One line of the report. `ratio` is PyTorch's figure over weft's, unless the note says so."""

    id: str
    title: str
    weft: float | None = None
    torch: float | None = None
    unit: str = "ns"
    ratio: float | None = None
    bar: str = ""
    met: bool | None = None
    floor: float | None = None
    note: str = ""


def quotient(upper: float | None, lower: float | None) -> float | None:
    return upper / lower if upper is not None and lower else None


def error_notes(**measured: Measured) -> list[str]:
    return [f"{name}: {found.error}" for name, found in measured.items() if found.error]


def times(cases: Iterable[Case], results: Results) -> list[Line]:
    """A line for every timed case."""
    slow_library = is_slow_library(results)
    lines = []
    for case in cases:
        weft, torch = results.of("weft", case.id), results.of("torch", case.id)
        bar = case.bar
        if slow_library and case.bar_on_slow_library is not None:
            bar = case.bar_on_slow_library
        line = Line(case.id, case.title, weft.ns, torch.ns, ratio=quotient(torch.ns, weft.ns))
        notes = error_notes(weft=weft, torch=torch)
        if bar is not None:
            line.bar = f">= {bar:.4g}x"
            line.met = line.ratio is not None and line.ratio >= bar
        if case.floor:
            floor = results.of("floor", case.id)
            line.floor = floor.ns
            notes += error_notes(floor=floor)
        if weft.ulp is not None or torch.ulp is not None:
            notes.append(
                "ulp "
                + " / ".join(
                    "-" if found.ulp is None else f"{found.ulp:.3g}" for found in (weft, torch)
                )
            )
        if case.ulp_limit is not None:
            line.bar += f", <= {case.ulp_limit:g} ulp"
            if weft.ulp is None or weft.ulp > case.ulp_limit:
                line.met = False
        if case.flops:
            notes.append(
                "GFLOP/s "
                + " / ".join(
                    "-" if found.ns is None else f"{case.flops / found.ns:.0f}"
                    for found in (weft, torch)
                )
            )
        line.note = "; ".join(notes)
        lines.append(line)
    return lines


def is_slow_library(results: Results) -> bool:
    """Whether PyTorch's matrix products are the slow ones, as measured in this run."""
    rate = machine.matmul_rate(results, "torch")
    return rate is not None and rate < SLOW_LIBRARY_GFLOPS


def model_floors(results: Results) -> list[Line]:
    """Training steps over the time of what they cannot do without.

    The products and convolutions at the rate of whichever library is faster at them here, and the
    optimiser's bytes at the rate of a copy.
    """
    lines = []
    for model in cases_models.TRAINED:
        for threads, limit in cases_models.FLOOR_LIMITS.items() if model.parameters else ():
            floor = _model_floor(results, model, threads)
            if floor is None:
                continue
            step = {n: results.of(n, cases_models.step_id(model.id, threads)).ns for n in SIDES}
            line = Line(
                f"models/{model.id}/floor/{threads}",
                f"{model.title}: step / floor, {threads} thread{'s' * (threads > 1)}",
                quotient(step["weft"], floor),
                quotient(step["torch"], floor),
                unit="times",
                bar=f"weft <= {limit:g}",
            )
            line.ratio = quotient(line.torch, line.weft)
            line.met = line.weft is not None and line.weft <= limit
            line.note = f"floor {floor / 1e6:.3f} ms"
            lines.append(line)
    return lines


def _model_floor(results: Results, model: Trained, threads: int) -> float | None:
    found = [results.of(n, cases_models.products_id(model.id, threads)).ns for n in SIDES]
    copies = [results.of(n, cases_models.copy_id(threads)).ns for n in SIDES]
    products = [ns for ns in found if ns is not None]
    copy = [ns for ns in copies if ns is not None]
    if not products or not copy:
        return None
    moved = model.parameters * cases_models.ADAM_BYTES
    return min(products) + min(copy) * moved / cases_models.COPY_BYTES


def weight_reuse(results: Results) -> list[Line]:
    """The backward of a weight used often, over the products it cannot do without."""
    shares = {}
    notes = []
    for name in ("weft", "torch"):
        backward, products = results.of(name, REUSE_BACKWARD), results.of(name, REUSE_PRODUCTS)
        shares[name] = quotient(backward.ns, products.ns)
        notes += error_notes(**{name: backward if backward.error else products})
    weft = shares["weft"]
    return [
        Line(
            "weight-reuse",
            "weight used 1,000 times: backward / its products",
            weft,
            shares["torch"],
            unit="times",
            ratio=quotient(shares["torch"], weft),
            bar=f"weft <= {REUSE_LIMIT:g}",
            met=weft is not None and weft <= REUSE_LIMIT,
            note="; ".join(notes),
        )
    ]


def imports(quick: bool, progress: Progress) -> list[Line]:
    """Time and memory of the bare import."""
    progress("footprint: import")
    costs = footprint.import_costs(("weft", "torch"), repeats=2 if quick else 8)

    def found(name: str) -> footprint.ImportCost | None:
        cost = costs[name]
        return cost if isinstance(cost, footprint.ImportCost) else None

    weft, torch = found("weft"), found("torch")
    note = "; ".join(f"{name}: {cost}" for name, cost in costs.items() if isinstance(cost, str))
    time = Line(
        "footprint/import",
        "import, over bare Python",
        weft.milliseconds if weft else None,
        torch.milliseconds if torch else None,
        unit="ms",
        bar=f"<= {IMPORT_MILLISECONDS:g} ms, >= {IMPORT_RATIO:g}x",
        note=note,
    )
    time.ratio = quotient(time.torch, time.weft)
    time.met = (
        time.weft is not None
        and time.weft <= IMPORT_MILLISECONDS
        and (time.ratio is None or time.ratio >= IMPORT_RATIO)
    )
    memory = Line(
        "footprint/memory",
        "resident memory after import, over bare Python",
        weft.resident_megabytes if weft else None,
        torch.resident_megabytes if torch else None,
        unit="MB",
        bar=f"<= {RESIDENT_MEGABYTES:g} MB",
        note=note,
    )
    memory.ratio = quotient(memory.torch, memory.weft)
    memory.met = memory.weft is not None and memory.weft <= RESIDENT_MEGABYTES
    return [time, memory]


def long_chain(quick: bool, progress: Progress) -> list[Line]:
    """A graph of millions of nodes on the default stack: memory and times."""
    wanted = footprint.QUICK_CHAIN_OPERATIONS if quick else footprint.CHAIN_OPERATIONS
    figures: dict[str, dict[str, float]] = {"weft": {}, "torch": {}}
    notes = []
    for name, found in figures.items():
        # weft's chain has its full length whatever happens: that it works is the bar.
        operations = wanted if name == "weft" else footprint.operations_that_fit(wanted)
        progress(f"footprint: chain of {operations:,} operations, {name}")
        try:
            found.update(
                {
                    key: value if key == "bytes_per_node" else value * 1e9 / operations
                    for key, value in footprint.long_chain(name, operations).items()
                }
            )
        except child.ChildError as error:
            notes.append(f"{name}: {error}")
        if operations != wanted:
            notes.append(f"{name}: {operations:,} operations, memory is short")
    note = "; ".join(notes)

    def line(key: str, id: str, title: str, unit: str) -> Line:
        weft, torch = figures["weft"].get(key), figures["torch"].get(key)
        return Line(
            f"footprint/chain/{id}",
            f"chain of {wanted:,} ops, 8 MB stack: {title}",
            weft,
            torch,
            unit,
            quotient(torch, weft),
            note=note,
        )

    size = line("bytes_per_node", "bytes", "bytes per node", "bytes")
    size.bar = f">= {BYTES_PER_NODE_RATIO:g}x"
    size.met = size.ratio is not None and size.ratio >= BYTES_PER_NODE_RATIO
    rest = [
        line("build_s", "build", "build, per op", "ns"),
        line("backward_s", "backward", "backward, per op", "ns"),
        line("free_s", "free", "free after backward, per op", "ns"),
        line("free_unused_s", "free-unused", "free without backward, per op", "ns"),
    ]
    for one in rest:
        one.bar = "works"
        one.met = one.weft is not None
    return [size, *rest]


def provenance_cost(wanted: Callable[[str], bool], quick: bool, progress: Progress) -> list[Line]:
    """What remembering every node's line costs, as a share of the time without it."""
    cases = {id: case for id, case in provenance.cases().items() if wanted(f"provenance/{id}")}
    if not cases:
        return []
    progress("provenance: with and without")
    figures: dict[str, Any] = {}
    failure = ""
    try:
        figures = child.json_of(
            "bench.provenance", "--framework", "weft", "--cases", *cases, *["--quick"] * quick
        )
    except child.ChildError as error:
        failure = str(error)
    lines = []
    for id, case in cases.items():
        found = figures.get(id, {})
        line = Line(
            f"provenance/{id}",
            f"provenance: {case.title}",
            found.get("with_ns"),
            bar=f"<= {PROVENANCE_SHARE:.0%} of the time",
            met=False,
            note=found.get("error", failure),
        )
        if "with_ns" in found:
            share = 1 - found["without_ns"] / found["with_ns"]
            line.met = share <= PROVENANCE_SHARE
            line.note = f"{found['without_ns']:.1f} ns without: {share:.1%}"
        lines.append(line)
    return lines


def equal_bits(quick: bool, progress: Progress) -> list[Line]:
    """Equal bits of instruction sets and thread counts; only weft promises them."""
    titles = {
        "arithmetic": "element-wise operations, reductions and scans",
        "products": "matrix products",
    }
    try:
        found = bits.compare(quick, progress)
    except child.ChildError as error:
        return [
            Line(f"bits/{kind}", f"equal bits: {title}", bar="all", met=False, note=str(error))
            for kind, title in titles.items()
        ]
    lines = []
    for kind, title in titles.items():
        differing, errors = found["differing"][kind], found["errors"][kind]
        over = f"threads {' '.join(found['threads'])}"
        if kind == "arithmetic":
            over += f", {' '.join(found['instruction_sets'])}"
        notes = [f"{found['compared'][kind]} compared over {over}"]
        notes += [
            f"{words}: {_some(names)}"
            for words, names in (("differ", differing), ("raised", errors))
            if names
        ]
        lines.append(
            Line(
                f"bits/{kind}",
                f"equal bits: {title}",
                bar="all",
                met=not differing and not errors,
                note="; ".join(notes),
            )
        )
    return lines


def _some(names: list[str], most: int = 6) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{len(names)} ({', '.join(names[:most])}{rest})"
