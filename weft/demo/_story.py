"""What `weft demo` does, told in the order in which a person would do it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import weft
from weft import doctor

HERE = Path(__file__).parent
WIDTH = 79
BASELINE_SECONDS = 4.0
TREE_SECONDS = 18.0
CHECKED_EXAMPLES = 4
EXAMPLE_SEED = 9  # an expression that is neither trivial nor too long for a line


def load_listops() -> ModuleType:
    """The example program, as a module of its own: its lines are a user's lines, not weft's."""
    name = "listops"
    if name not in sys.modules:
        specification = importlib.util.spec_from_file_location(name, HERE / "listops.py")
        assert specification is not None and specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        sys.modules[name] = module
        specification.loader.exec_module(module)
    return sys.modules[name]


def main(folder: str | os.PathLike[str] = "weft-demo", patience: float = 1.0) -> int:
    """Runs the demo; what it writes goes to a folder. Returns the exit status.

    ``patience`` scales the time spent training.
    """
    begun = time.perf_counter()
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    listops = load_listops()
    weft.manual_seed(0)
    _title("ListOps: a network that is another graph for every example")
    example = listops.generate(listops.random.Random(EXAMPLE_SEED))
    _say(f"An expression:  {listops.text_of(example)}  =  {listops.value_of(example)}")
    wrong, right = _check(listops, out)
    baseline, tree, model = _train(listops, patience)
    _look(listops, model, example, out)
    _compare_with_pytorch(tree["seconds_per_example"])
    _title("In short")
    _say(f"bag of symbols, the same in any order:   {baseline['accuracy']:6.1%} right")
    _say(f"tree network, one graph per expression:  {tree['accuracy']:6.1%} right")
    _say(f"different graphs met in training:        {tree['graphs']:6,}")
    _say(f"gradient errors, with and without the mistake: {wrong:.1e}, {right:.1e}")
    _say(f"{time.perf_counter() - begun:.0f} s; records and page are in {out}{os.sep}")
    return 0 if tree["accuracy"] > baseline["accuracy"] + 0.15 and right < 1e-6 < wrong else 1


# -- the chapters ----------------------------------------------------------------------------------


def _check(listops: ModuleType, out: Path) -> tuple[float, float]:
    """A mistake is planted, found twice (by differences, by the doctor), and corrected."""
    _title("A mistake, and how it shows")
    rng = listops.random.Random(1)
    examples = [listops.generate(rng, depth=2) for _ in range(CHECKED_EXAMPLES)]
    worst = []
    for name, reader, verdict in (
        ("before", listops.MistakenReader, "with the mistake"),
        ("after", listops.TreeReader, "corrected"),
    ):
        weft.manual_seed(0)
        model = reader(width=8).double()
        record = weft.verify(model, (examples,), samples=40, record=out / f"gradients-{name}.json")
        worst.append(max(result.worst_error for result in record.results))
        _say(
            f"gradients {verdict}: {'right' if record.passed else 'WRONG'}, worst error "
            f"{worst[-1]:.1e} in {sum(r.elements for r in record.results)} elements"
        )
        if name == "before":
            _show_finding(listops)
    return worst[0], worst[1]


def _show_finding(listops: ModuleType) -> None:
    """Three steps of training are all that the doctor needs."""
    known = len(doctor.findings())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", doctor.DoctorWarning)
        for _ in listops.train(listops.MistakenReader(width=8), steps=3):
            pass
    for finding in doctor.findings()[known:]:
        _say("")
        _say(f"the doctor: {finding.message}")
        if finding.cause:
            file, line = finding.cause
            _say(f"  at {os.path.basename(file)}:{line}:  {_source(file, line)}")
        _say(f"  cure: {finding.cure}")
        _say("")


def _train(listops: ModuleType, patience: float) -> tuple[dict[str, Any], dict[str, Any], Any]:
    _title("Training")
    results = []
    for name, model, seconds in (
        ("bag of symbols", listops.BagReader(), BASELINE_SECONDS),
        ("tree network", listops.TreeReader(), TREE_SECONDS),
    ):
        live = _Live(name)
        progress = None
        for progress in listops.train(model, seconds=patience * seconds):
            live.show(progress)
        assert progress is not None
        found = listops.accuracy(model)
        live.end(f"{progress.examples:,} examples, loss {progress.loss:.3f}, {found:.1%} right")
        results.append(
            {
                "accuracy": found,
                "graphs": len(progress.shapes),
                "seconds_per_example": progress.seconds / progress.examples,
            }
        )
    return results[0], results[1], model


def _look(listops: ModuleType, model: Any, example: Any, out: Path) -> None:
    _title("One of the graphs, to look at")
    graph = weft.graph(model, [example])
    page = out / "listops.html"
    graph.html(page)
    _say(f"{listops.text_of(example)}: {len(graph)} nodes")
    _say(f"written to {page}")
    _say("modules fold, every node has its line, the chain rule can be stepped through")


def _compare_with_pytorch(own: float) -> None:
    """The same file under PyTorch, if it is installed: it only has to be called weft."""
    if importlib.util.find_spec("torch") is None:
        return
    _title("Beside PyTorch")
    program = (
        "import sys, torch, torch.nn, json, runpy; torch.set_num_threads(1)\n"
        "sys.modules['weft'] = torch; sys.modules['weft.nn'] = torch.nn\n"
        f"listops = runpy.run_path({str(HERE / 'listops.py')!r})\n"
        "*_, last = listops['train'](listops['TreeReader'](), seconds=4)\n"
        "print(json.dumps(last.seconds / last.examples))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        _say("(it could not run the same file)")
        return
    other = float(json.loads(done.stdout))
    _say(
        f"the same file: {1e6 * own:,.0f} us per example here, {1e6 * other:,.0f} us there "
        f"({other / own:.1f} times)"
    )


# -- printing --------------------------------------------------------------------------------------


class _Live:
    """One line that is rewritten on a terminal, and written once elsewhere."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.terminal = sys.stdout.isatty()
        self.last = 0.0

    def show(self, progress: Any) -> None:
        now = time.perf_counter()
        if not self.terminal or now - self.last < 0.1:
            return
        self.last = now
        text = (
            f"  {self.name}: {progress.examples:,} examples, {len(progress.shapes):,} graphs, "
            f"loss {progress.loss:.3f}"
        )
        print(f"\r\033[K{text[:WIDTH]}", end="", flush=True)

    def end(self, text: str) -> None:
        if self.terminal:
            print("\r\033[K", end="")
        _say(f"{self.name}: {text}")


def _title(text: str) -> None:
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}{text}{plain}", flush=True)


def _say(text: str) -> None:
    print(f"  {text}".rstrip(), flush=True)


def _source(file: str, line: int) -> str:
    import linecache

    return linecache.getline(file, line).strip()
