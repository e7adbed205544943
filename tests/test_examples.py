"""Every example learns what it is about; a shortened run of each."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from weft.demo import load_listops

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(
        f"example_{name}", EXAMPLES / f"{name}.py"
    )
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[module.__name__] = module
    specification.loader.exec_module(module)
    return module


def test_listops_values() -> None:
    listops = load_listops()
    tree = ("MAX", [2, 9, ("MIN", [4, 7]), 0])
    assert listops.value_of(tree) == 9
    assert listops.text_of(tree) == "[MAX 2 9 [MIN 4 7 ] 0 ]"
    assert listops.value_of(("SM", [9, 9, 5])) == 3
    assert listops.value_of(("MED", [5, 1, 4])) == 4
    rng = random.Random(0)
    shapes = {listops.shape_of(listops.generate(rng)) for _ in range(200)}
    assert len(shapes) > 100


def test_the_tree_network_beats_a_bag_of_symbols() -> None:
    import weft

    listops = load_listops()
    weft.manual_seed(0)
    found = {}
    for name, model in (("bag", listops.BagReader()), ("tree", listops.TreeReader())):
        for _ in listops.train(model, steps=2500, depth=2):
            pass
        found[name] = listops.accuracy(model, 500, depth=2)
    assert found["tree"] > 0.8
    assert found["tree"] > found["bag"] + 0.25


def test_the_tagger_learns_sequences_of_any_length() -> None:
    assert load("tagger").main(steps=500) > 0.93


def test_the_ode_is_learned_through_its_solver() -> None:
    assert load("neural_ode").main() < 0.25


def test_maml_learns_to_adapt() -> None:
    before, after = load("maml").main(steps=800)
    assert after < 0.5 * before


def test_the_network_grows_and_goes_on_learning() -> None:
    layers, accuracy = load("growing").main()
    assert layers >= 2
    assert accuracy > 0.9


@pytest.mark.parametrize(
    ("program", "arguments", "learned"),
    [
        ("char_gpt.py", ("--steps", "120"), lambda losses: losses[-1] < 1.0 < 3.0 < losses[0]),
        ("digits_cnn.py", (), lambda losses: losses[-1] < 0.25 < 2.0 < losses[0]),
        ("policy_gradient.py", (), lambda losses: True),
    ],
)
def test_programs_written_for_pytorch(program: str, arguments: tuple[str, ...], learned) -> None:  # type: ignore[no-untyped-def]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "weft",
            "run",
            str(EXAMPLES / "torch_programs" / program),
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "DoctorWarning" not in done.stderr
    words = [line.split() for line in done.stdout.splitlines() if "loss" in line]
    assert learned([float(line[line.index("loss") + 1]) for line in words])
    if program == "policy_gradient.py":
        lengths = [float(line[line.index("length") + 1]) for line in words]
        assert lengths[-1] > 2 * lengths[0]
    if program == "digits_cnn.py":
        assert float(done.stdout.split()[-1]) > 0.95
