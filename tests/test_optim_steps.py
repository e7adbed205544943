"""What one step does: to values, to memory of any layout, to versions; and that it is exact.

PyTorch's results are compared in tests/parity/test_optim_db.py. Here the two ways to take a step,
in the core and in recorded operations, must agree, and the recorded way must have the right
derivative.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import Any

import pytest

from ._target import submodule, weft, weft_only

optim = submodule("optim")
pytestmark = weft_only

# Every rule in the core, with every option that changes its arithmetic.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd decay": ("SGD", {"lr": 0.1, "weight_decay": 0.2, "maximize": True}),
    "momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    "nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "adam": ("Adam", {"lr": 0.1}),
    "adam decay": ("Adam", {"lr": 0.1, "weight_decay": 0.2, "maximize": True}),
    "amsgrad": ("Adam", {"lr": 0.1, "amsgrad": True, "betas": (0.5, 0.6)}),
    "adamw": ("AdamW", {"lr": 0.1, "weight_decay": 0.3, "eps": 1e-3}),
    "nadam": ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "momentum_decay": 0.01}),
    "nadam decoupled": ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    "radam": ("RAdam", {"lr": 0.1, "weight_decay": 0.1}),
    "radam decoupled": ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    "adamax": ("Adamax", {"lr": 0.1, "weight_decay": 0.1}),
    "rmsprop": ("RMSprop", {"lr": 0.1, "weight_decay": 0.1}),
    "rmsprop centered": ("RMSprop", {"lr": 0.1, "centered": True, "maximize": True}),
    "rmsprop momentum": ("RMSprop", {"lr": 0.1, "momentum": 0.8}),
    "rmsprop both": ("RMSprop", {"lr": 0.1, "momentum": 0.8, "centered": True, "alpha": 0.7}),
    "adagrad": ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5}),
    "adadelta": ("Adadelta", {"lr": 0.5, "weight_decay": 0.1}),
    "asgd": ("ASGD", {"lr": 0.1, "t0": 2, "lambd": 0.01}),
    "rprop": ("Rprop", {"lr": 0.1, "etas": (0.4, 1.3), "step_sizes": (0.01, 0.15)}),
}
EVERY_CASE = pytest.mark.parametrize("case", CASES)
STEPS = 8  # RAdam begins to rectify at the sixth


def make(case: str, params: list[Any], **more: Any) -> Any:
    name, options = CASES[case]
    return getattr(optim, name)(params, **options, **more)


def values(count: int, seed: int, dtype: Any = None) -> Any:
    generator = weft.Generator().manual_seed(seed)
    return weft.randn(count, generator=generator, dtype=dtype or weft.float64)


def take_steps(optimizer: Any, params: list[Any], steps: int = STEPS, seed: int = 0) -> None:
    for step in range(steps):
        for index, param in enumerate(params):
            grad = values(param.numel(), seed + 100 * step + index, param.dtype)
            param.grad = grad.reshape(param.shape)
        optimizer.step()


def contents(optimizer: Any) -> list[Any]:
    """Copies of parameters and states, in order."""
    found = []
    for group in optimizer.param_groups:
        for param in group["params"]:
            found.append(param.detach().clone())
            found += [kept.detach().clone() for kept in optimizer.state[param].values()]
    return found


def assert_close(first: list[Any], second: list[Any], tolerance: float) -> None:
    assert len(first) == len(second) > 0
    for a, b in zip(first, second, strict=True):
        assert weft.allclose(a.double(), b.double(), rtol=tolerance, atol=tolerance), (a, b)


# -- the arithmetic -------------------------------------------------------------------------------


@EVERY_CASE
def test_recorded_and_direct_steps_agree(case: str) -> None:
    results = []
    for differentiable in (False, True):
        params = [values(5, 7).reshape(5, 1), values(1, 8).reshape(())]
        optimizer = make(case, params, differentiable=differentiable)
        take_steps(optimizer, params)
        results.append(contents(optimizer))
    # Counts and rates are float32, and enter the arithmetic of the two at different places.
    assert_close(*results, 1e-7)


@EVERY_CASE
def test_derivative_of_recorded_steps(case: str) -> None:
    """By finite differences: by the parameters before, by every gradient, by the rate."""
    start = values(3, 1) * 2
    grads = [values(3, 10 + step) for step in range(3)]
    name, options = CASES[case]
    # Rprop moves by the sign: its derivative by gradients is 0, its rate is read as a number.
    rate = weft.tensor(options.get("lr", 0.1), dtype=weft.float64)

    def after(start: Any, rate: Any, *grads: Any) -> Any:
        param = start.clone()
        given = options if case == "rprop" else {**options, "lr": rate}
        if case == "asgd":
            given = options  # the rate of a step was written down by the step before
        optimizer = getattr(optim, name)([param], differentiable=True, **given)
        for grad in grads:
            param.grad = grad
            optimizer.step()
        return param

    inputs = [start, rate, *grads]
    for tensor in inputs:
        tensor.requires_grad_()
    by_rate = case not in ("rprop", "asgd")
    if not by_rate:
        assert weft.autograd.gradcheck(lambda s, *g: after(s, rate.detach(), *g), [start, *grads])
        return
    assert weft.autograd.gradcheck(after, inputs, eps=1e-6, atol=1e-5)


def test_by_hand() -> None:
    """Momentum and Adam, worked out with Python's numbers."""
    grads = [0.5, -1.0, 0.25]
    param = weft.tensor([2.0], dtype=weft.float64, requires_grad=True)
    optimizer = optim.SGD([param], lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.01)
    x, buffer = 2.0, 0.0
    for step, g in enumerate(grads):
        g += 0.01 * x
        buffer = g if step == 0 else 0.9 * buffer + 0.5 * g
        x -= 0.1 * buffer
        param.grad = weft.tensor([grads[step]], dtype=weft.float64)
        optimizer.step()
        assert param.item() == pytest.approx(x, rel=1e-14)

    param = weft.tensor([2.0], dtype=weft.float64, requires_grad=True)
    optimizer = optim.AdamW([param], lr=0.1, weight_decay=0.5)
    x, mean, square = 2.0, 0.0, 0.0
    for step, g in enumerate(grads, 1):
        x *= 1 - 0.1 * 0.5
        mean = 0.9 * mean + 0.1 * g
        square = 0.999 * square + 0.001 * g * g
        x -= 0.1 * (mean / (1 - 0.9**step)) / ((square / (1 - 0.999**step)) ** 0.5 + 1e-8)
        param.grad = weft.tensor([g], dtype=weft.float64)
        optimizer.step()
        assert param.item() == pytest.approx(x, rel=1e-13)
        assert optimizer.state[param]["step"].item() == step


@EVERY_CASE
def test_parameters_without_gradient_stay(case: str) -> None:
    params = [values(4, 1), values(4, 2)]
    before = params[1].clone()
    optimizer = make(case, params)
    take_steps(optimizer, params[:1], 3)
    assert weft.equal(params[1], before)
    if case != "adagrad":
        assert params[1] not in optimizer.state
    # It joins later, at its own first step.
    alone = [before.clone()]
    take_steps(make(case, alone), alone, 3, seed=1)
    params[0].grad = None
    take_steps(optimizer, params[1:], 3, seed=1)
    assert weft.equal(params[1], alone[0])


@pytest.mark.parametrize("case", [c for c in CASES if c != "rprop"])  # whose sizes begin inexact
def test_sixteen_bits_round_once(case: str) -> None:
    """The result is that of float32, rounded, as long as the states are exact."""
    start = values(64, 3, weft.float32).bfloat16()
    grad = values(64, 4, weft.float32).bfloat16()
    results = []
    for dtype in (weft.bfloat16, weft.float32):
        param = start.clone().to(dtype)
        param.grad = grad.to(dtype)
        make(case, [param]).step()
        results.append(param.bfloat16())
    assert weft.equal(*results)


# -- bits -----------------------------------------------------------------------------------------


def digest() -> str:
    """A hash over every rule, on sizes around vector widths and on one that is worth splitting."""
    found = hashlib.sha256()
    for case in CASES:
        for dtype in (weft.float32, weft.float64, weft.bfloat16):
            params = [values(n, n, dtype) for n in (1, 7, 16, 33, 1023)]
            if dtype is weft.float32:
                params.append(values(200_001, 5, dtype))
            optimizer = make(case, params)
            take_steps(optimizer, params, 2)
            for tensor in contents(optimizer):
                found.update(bytes(memoryview(tensor.view(-1).float()).cast("B")))
    return found.hexdigest()


def test_same_bits_for_any_number_of_threads() -> None:
    before = weft.get_num_threads()
    try:
        found = set()
        for threads in (1, 2, 3, 8):
            weft.set_num_threads(threads)
            found.add(digest())
    finally:
        weft.set_num_threads(before)
    assert len(found) == 1


def test_same_bits_for_every_instruction_set() -> None:
    found = {}
    for build in ("baseline", "avx2", "avx512"):
        run = subprocess.run(
            [sys.executable, "-c", "from tests.test_optim_steps import digest; print(digest())"],
            env={**os.environ, "WEFT_CPU": build},
            capture_output=True,
            text=True,
            check=False,
        )
        if "this processor runs" not in run.stderr:
            assert run.returncode == 0, run.stderr
            found[build] = run.stdout
    assert len(set(found.values())) == 1, found


# -- memory ---------------------------------------------------------------------------------------

LAYOUTS = {
    "transposed": lambda x: x.reshape(6, 8).t(),
    "channels last": lambda x: x.reshape(2, 3, 4, 2).to(memory_format=weft.channels_last),
    "with gaps": lambda x: weft.stack([x, x * 0 + 7], 1)[:, 0].detach().reshape(-1),
    "strided": lambda x: weft.stack([x, x * 0 + 7], 1).detach()[:, 0],
}


@EVERY_CASE
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(case: str, layout: str) -> None:
    laid_out = LAYOUTS[layout](values(48, 1))
    plain = laid_out.clone(memory_format=weft.contiguous_format)
    results = []
    for param in (laid_out, plain):
        optimizer = make(case, [param])
        for step in range(3):
            grad = values(48, 50 + step).reshape(plain.shape)
            # Laid out as the parameter, row by row, and with gaps.
            gaps = weft.stack([grad, grad * 3], -1)[..., 0]
            ways = (weft.empty_like(param).copy_(grad), grad, gaps)
            param.grad = grad if param is plain else ways[step]
            optimizer.step()
        results.append([t.contiguous() for t in contents(optimizer)])
    for a, b in zip(*results, strict=True):
        assert weft.equal(a, b)
    if layout == "strided":  # what lies between its elements is not touched
        assert weft.equal(laid_out._base[:, 1], weft.full((48,), 7.0, dtype=weft.float64))


@pytest.mark.parametrize("gap_in_gradient", [False, True])
def test_large_layouts(gap_in_gradient: bool) -> None:
    """On the way that lets other threads help: several parameters, in memory of every kind."""
    start = values(120_000, 1, weft.float32)
    pairs = weft.stack([start, start * 0 + 7], 1)
    laid_out = [start.reshape(300, 400).t().detach(), pairs[:, 0].detach(), start.clone()[:7]]
    plain = [param.clone(memory_format=weft.contiguous_format) for param in laid_out]
    optimizers = [optim.AdamW(params, lr=0.1) for params in (laid_out, plain)]
    for step in range(2):
        for index in range(3):
            grad = values(laid_out[index].numel(), 10 * step + index, weft.float32)
            grad = grad.reshape(plain[index].shape)
            plain[index].grad = grad
            gaps = weft.stack([grad, grad * 3], -1)[..., 0]
            laid_out[index].grad = gaps if gap_in_gradient else grad
        for optimizer in optimizers:
            optimizer.step()
    for a, b in zip(*map(contents, optimizers), strict=True):
        assert weft.equal(a.contiguous(), b)
    assert weft.equal(pairs[:, 1], weft.full((120_000,), 7.0))


@pytest.mark.parametrize("size", [4, 100_000])
def test_gradients_that_are_expanded(size: int) -> None:
    """As sum() leaves them where a hook takes them over."""
    param = weft.zeros(size)
    param.grad = weft.ones(1).expand(size)
    optim.SGD([param], lr=0.5, momentum=0.9).step()
    assert weft.equal(param, weft.full((size,), -0.5))


def test_overlapping_parameter_is_refused() -> None:
    param = weft.ones(1).expand(4)
    param.grad = weft.ones(4)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        optim.SGD([param], lr=0.1).step()


@pytest.mark.parametrize("size", [4, 100_000])
def test_parameters_that_share_memory_are_updated_in_order(size: int) -> None:
    whole = weft.zeros(2 * size)
    parts = [whole[:size].detach(), whole[size // 2 : 3 * size // 2].detach(), whole.detach()]
    for part in parts:
        part.grad = weft.ones(part.shape)
    optim.SGD(parts, lr=1.0).step()
    expected = weft.zeros(2 * size)
    expected[:size] -= 1
    expected[size // 2 : 3 * size // 2] -= 1
    assert weft.equal(whole, expected - 1)


def test_listed_twice_is_updated_twice() -> None:
    param = weft.zeros(100_000)
    param.grad = weft.ones(100_000)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = optim.SGD([param, param], lr=1.0)
    optimizer.step()
    assert weft.equal(param, weft.full((100_000,), -2.0))


def test_empty_parameters() -> None:
    param = weft.zeros(0, 3)
    param.grad = weft.zeros(0, 3)
    optimizer = optim.Adam([param])
    optimizer.step()
    assert optimizer.state[param]["step"].item() == 1


def test_memory_stays_flat() -> None:
    params = [weft.zeros(16, requires_grad=True) for _ in range(8)]
    optimizer = optim.Adam(params)

    def train(steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            sum((p * p).sum() for p in params).backward()
            optimizer.step()

    train(10)
    before = weft._core.live_counts()
    train(10_000)
    assert weft._core.live_counts() == before


# -- versions, modes, failures --------------------------------------------------------------------


def test_a_step_is_a_write() -> None:
    param = weft.ones(3, requires_grad=True)
    optimizer = optim.Adam([param], lr=0.1)
    loss = (param * param).sum()
    param.grad = weft.ones(3)
    version = param._version
    optimizer.step()
    step_line = sys._getframe().f_lineno - 1
    assert param._version == version + 1
    assert optimizer.state[param]["exp_avg"]._version > 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        loss.backward()
    assert f"{os.path.basename(__file__)}:{step_line}" in str(caught.value)


@pytest.mark.parametrize("mode", ["no_grad", "enable_grad", "inference_mode"])
def test_steps_in_every_mode(mode: str) -> None:
    param = weft.ones(3, requires_grad=True)
    param.grad = weft.ones(3)
    with getattr(weft, mode)():
        optim.SGD([param], lr=0.5, momentum=0.9).step()
    assert param.requires_grad and param.is_leaf
    assert param.tolist() == [0.5] * 3


def test_nothing_changes_when_something_does_not_fit() -> None:
    params = [weft.ones(3, requires_grad=True) for _ in range(3)]
    optimizer = optim.Adam(params, lr=0.1)
    take_steps(optimizer, params, 1)
    before = contents(optimizer)
    for param in params:
        param.grad = weft.ones(3)
    params[2].data = weft.ones(5)
    before[4 * 2] = params[2].detach().clone()
    with pytest.raises(RuntimeError, match="the gradient of parameter 2 of its group") as caught:
        optimizer.step()
    assert "float32[3]" in str(caught.value) and "float32[5]" in str(caught.value)
    for a, b in zip(contents(optimizer), before, strict=True):
        assert weft.equal(a, b)
    params[2].grad = weft.ones(5)
    with pytest.raises(RuntimeError, match="the state of parameter 2 of its group"):
        optimizer.step()
    optimizer.state[params[2]].clear()
    optimizer.step()
    assert [optimizer.state[p]["step"].item() for p in params] == [2, 2, 1]


def test_only_floating_point_is_optimised() -> None:
    param = weft.ones(3, dtype=weft.int64)
    param.grad = weft.ones(3, dtype=weft.int64)
    with pytest.raises(RuntimeError, match="must have a floating point dtype"):
        optim.SGD([param]).step()


def test_dtypes_may_be_mixed() -> None:
    dtypes = (weft.float32, weft.float64, weft.bfloat16, weft.float32)
    together = [values(5, 1, weft.float64).to(dtype) for dtype in dtypes]
    apart = [param.clone() for param in together]
    mixed = optim.Adam(together, lr=0.1)
    single = [optim.Adam([param], lr=0.1) for param in apart]
    for _ in range(3):
        for params in (together, apart):
            for param in params:
                param.grad = param * 0.5 + 1
        mixed.step()
        for optimizer in single:
            optimizer.step()
    for a, b in zip(together, apart, strict=True):
        assert weft.equal(a, b)


def test_steps_inside_backward() -> None:
    """Each parameter is updated, and its gradient given back, as soon as it is known."""
    params = [weft.ones(3, requires_grad=True) for _ in range(3)]
    expected = [p.detach().clone().requires_grad_() for p in params]
    optimizers = {param: optim.Adam([param], lr=0.1) for param in params}
    alive = []

    def update(param: Any) -> None:
        optimizers[param].step()
        optimizers[param].zero_grad()
        alive.append(sum(p.grad is not None for p in params))

    for param in params:
        param.register_post_accumulate_grad_hook(update)
    together = optim.Adam(expected, lr=0.1)

    def loss_of(p: list[Any]) -> Any:
        return (p[0] * 2).sum() + (p[1] * p[1] * 3).sum() + p[2].sum()

    for _ in range(2):
        loss_of(params).backward()
        loss_of(expected).backward()
        together.step()
        together.zero_grad()
    assert alive == [0] * 6
    for a, b in zip(params, expected, strict=True):
        assert weft.equal(a, b)


@EVERY_CASE
def test_it_goes_downhill(case: str) -> None:
    param = weft.tensor([3.0, -2.0], requires_grad=True)
    sign = -1.0 if CASES[case][1].get("maximize") else 1.0
    optimizer = make(case, [param])
    first = (param * param).sum().item()
    for _ in range(40):
        optimizer.zero_grad()
        (sign * (param * param).sum()).backward()
        optimizer.step()
    assert (param * param).sum().item() < first


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_steps_of_recorded_work(name: str) -> None:
    """Under the deferred schedule a step first computes its gradients and what reads its memory."""
    results = []
    for deferred in (False, True):
        param = weft.tensor([1.0, -2.0, 3.0], requires_grad=True)
        optimizer = getattr(optim, name)([param], lr=0.1)
        seen = []
        weft._core._set_deferred(deferred)
        try:
            for _ in range(3):
                optimizer.zero_grad()
                loss = (param * param).sum()
                loss.backward()
                before = param.detach() * 2  # recorded, but not asked for yet
                optimizer.step()
                seen += [loss, before]
        finally:
            weft._core._set_deferred(False)
        results.append([tensor.tolist() for tensor in [*seen, param]])
    assert results[0] == results[1]


# -- optimisers that look at whole matrices -------------------------------------------------------


def test_muon_steps_are_orthogonal() -> None:
    """All directions of a matrix are trained alike: singular values of a step are nearly one."""
    for shape in ((6, 4), (4, 6), (5, 5)):
        param = weft.zeros(shape, requires_grad=True)
        param.grad = values(shape[0] * shape[1], 3, weft.float32).reshape(shape)
        optim.Muon([param], lr=1.0, weight_decay=0.0, adjust_lr_fn="match_rms_adamw").step()
        step = param.detach() / (0.2 * max(shape) ** 0.5)
        small = step @ step.mT if shape[0] <= shape[1] else step.mT @ step
        # The iteration leaves singular values between about 0.7 and 1.2, whatever they were.
        diagonal = weft.diagonal(small)
        assert diagonal.min() > 0.4 and diagonal.max() < 1.6
        assert (small - weft.diag(diagonal)).abs().max() < 0.5
        assert (step * param.grad).sum() < 0
    with pytest.raises(ValueError, match="Muon only supports 2D parameters"):
        optim.Muon([weft.zeros(3)])


def test_adafactor_keeps_rows_and_columns() -> None:
    matrix, vector = weft.zeros(7, 5, requires_grad=True), weft.zeros(3, requires_grad=True)
    optimizer = optim.Adafactor([matrix, vector], lr=0.5)
    first = None
    for _ in range(60):
        optimizer.zero_grad()
        loss = ((matrix - 3) ** 2).sum() + ((vector + 1) ** 2).sum()
        loss.backward()
        optimizer.step()
        first = first or loss.item()
    assert {k: tuple(v.shape) for k, v in optimizer.state[matrix].items()} == {
        "step": (), "row_var": (7, 1), "col_var": (1, 5)
    }  # fmt: skip
    assert tuple(optimizer.state[vector]["variance"].shape) == (3,)
    assert loss.item() < 0.5 * first


def test_adafactor_takes_empty_parameters() -> None:
    param = weft.zeros(2, 0)
    param.grad = weft.zeros(2, 0)
    optim.Adafactor([param]).step()
