"""Training ends with the same bits for any number of threads: 200 steps of every example."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
STEPS = 200

# Trains for STEPS optimizer steps, whatever the program would do, and prints a digest of every
# parameter that was trained.
TRAIN = """
import hashlib, runpy, sys
import weft
from weft.optim.optimizer import register_optimizer_step_post_hook

threads, steps, path, *arguments = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
weft.set_num_threads(threads)
weft.manual_seed(0)
trained, taken = {}, 0

class Enough(Exception):
    pass

def count(optimizer, args, kwargs):
    global taken
    taken += 1
    trained.setdefault(id(optimizer), optimizer)
    if taken == steps:
        raise Enough

register_optimizer_step_post_hook(count)
weft.as_torch()
sys.argv = [path, *arguments]
try:
    runpy.run_path(path, run_name="__main__")
except Enough:
    pass
digest = hashlib.sha256()
for optimizer in trained.values():
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            digest.update(bytes(memoryview(parameter.detach().numpy()).cast("B")))
print("digest", taken, digest.hexdigest())
"""


def digest_of(program: str, threads: int) -> str:
    path, *arguments = program.split()
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, str(threads), str(STEPS), str(EXAMPLES / path), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    word, taken, digest = done.stdout.splitlines()[-1].split()
    assert word == "digest"
    assert int(taken) >= min(STEPS, 150)  # the policy plays 150 episodes
    return digest


@pytest.mark.parametrize(
    "program",
    [
        "tagger.py",
        "neural_ode.py",
        "maml.py",
        "growing.py",
        "torch_programs/char_gpt.py",
        "torch_programs/digits_cnn.py --epochs 9",
        "torch_programs/policy_gradient.py",
    ],
)
def test_the_same_bits_for_any_number_of_threads(program: str) -> None:
    alone = digest_of(program, 1)
    for threads in (2, 4):
        assert digest_of(program, threads) == alone, threads


def test_the_tree_network_has_the_same_bits_for_any_number_of_threads() -> None:
    import hashlib

    import weft
    from weft.demo import load_listops

    listops = load_listops()
    before = weft.get_num_threads()
    digests = set()
    try:
        for threads in (1, 2, 4):
            weft.set_num_threads(threads)
            weft.manual_seed(0)
            model = listops.TreeReader()
            for _ in listops.train(model, steps=STEPS):
                pass
            digest = hashlib.sha256()
            for parameter in model.parameters():
                digest.update(bytes(memoryview(parameter.detach().numpy()).cast("B")))
            digests.add(digest.hexdigest())
    finally:
        weft.set_num_threads(before)
    assert len(digests) == 1
