"""Averaged models: means and exponential means of parameters and buffers, and their schedule."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from ._target import submodule, weft

swa_utils = submodule("optim.swa_utils")
nn = submodule("nn")


def model_of(seed: int = 0) -> Any:
    weft.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def history(model: Any, averaged: Any, updates: int = 5) -> list[list[Any]]:
    """Changes the model and takes it into the averages; all parameters it has had."""
    seen = []
    with weft.no_grad():
        for _ in range(updates):
            for param in model.parameters():
                param.add_(weft.randn(param.shape))
            model[1].running_mean.add_(1.0)
            model[1].num_batches_tracked.add_(3)
            seen.append([p.detach().clone() for p in model.parameters()])
            averaged.update_parameters(model)
    return seen


@pytest.mark.parametrize("form", ["default", "avg_fn", "multi_avg_fn"])
def test_mean(form: str) -> None:
    model = model_of()
    functions = {
        "avg_fn": {"avg_fn": swa_utils.get_swa_avg_fn()},
        "multi_avg_fn": {"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()},
    }
    averaged = swa_utils.AveragedModel(model, **functions.get(form, {}))
    seen = history(model, averaged)
    for values, average in zip(zip(*seen, strict=True), averaged.parameters(), strict=True):
        assert weft.allclose(average, weft.stack(values).mean(0), atol=1e-5)
    assert averaged.n_averaged.item() == 5
    assert weft.equal(averaged.module[1].running_mean, model[1].running_mean)
    x = weft.randn(6, 3)
    assert weft.equal(averaged(x), averaged.module(x))


@pytest.mark.parametrize("form", ["avg_fn", "multi_avg_fn"])
def test_exponential_mean(form: str) -> None:
    model = model_of()
    make = swa_utils.get_ema_avg_fn if form == "avg_fn" else swa_utils.get_ema_multi_avg_fn
    averaged = swa_utils.AveragedModel(model, use_buffers=True, **{form: make(0.75)})
    seen = history(model, averaged)
    for values, average in zip(zip(*seen, strict=True), averaged.module.parameters(), strict=True):
        expected = values[0]
        for value in values[1:]:
            expected = 0.75 * expected + 0.25 * value
        assert weft.allclose(average, expected, atol=1e-5)
    # Running means went 1, 2, 3, 4, 5.
    expected = 1.0
    for value in (2.0, 3.0, 4.0, 5.0):
        expected = 0.75 * expected + 0.25 * value
    assert averaged.module[1].running_mean.tolist() == pytest.approx([expected] * 4)
    assert averaged.module[1].num_batches_tracked.dtype is weft.int64
    with pytest.raises(ValueError, match=r"Invalid decay value 1\.5"):
        make(1.5)


def test_one_way_to_average() -> None:
    with pytest.raises(AssertionError, match="Only one of avg_fn"):
        swa_utils.AveragedModel(
            model_of(),
            avg_fn=swa_utils.get_swa_avg_fn(),
            multi_avg_fn=swa_utils.get_swa_multi_avg_fn(),
        )


def test_saved_and_copied() -> None:
    model = model_of()
    averaged = swa_utils.AveragedModel(model)
    history(model, averaged, 3)
    saved = averaged.state_dict()
    assert "n_averaged" in saved and "module.0.weight" in saved
    fresh = swa_utils.AveragedModel(model_of(1))
    fresh.load_state_dict(pickle.loads(pickle.dumps(saved)))
    twin = copy.deepcopy(averaged)
    for other in (fresh, twin):
        assert other.n_averaged.item() == 3
        for a, b in zip(other.parameters(), averaged.parameters(), strict=True):
            assert weft.equal(a, b)


def test_statistics_of_the_averaged_model() -> None:
    model = model_of()
    averaged = swa_utils.AveragedModel(model)
    history(model, averaged, 2)
    averaged.eval()
    data = weft.randn(4, 10, 3)
    before = averaged.module[1].momentum
    swa_utils.update_bn([(batch, None) for batch in data], averaged)
    inputs = averaged.module[0](data.reshape(40, 3)).detach()
    assert weft.allclose(averaged.module[1].running_mean, inputs.mean(0), atol=1e-5)
    assert averaged.module[1].momentum == before
    assert not averaged.training
    swa_utils.update_bn([], nn.Linear(2, 2))  # nothing to do, and nothing is read


def test_schedule() -> None:
    param = weft.zeros(2, requires_grad=True)
    param.grad = weft.ones(2)
    optimizer = weft.optim.SGD([param], lr=1.0)
    scheduler = swa_utils.SWALR(optimizer, swa_lr=0.2, anneal_epochs=4, anneal_strategy="linear")
    rates = []
    for _ in range(6):
        rates += scheduler.get_last_lr()
        optimizer.step()
        scheduler.step()
    assert rates == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.2])
    cosine = swa_utils.SWALR(weft.optim.SGD([param], lr=1.0), swa_lr=0.0, anneal_epochs=2)
    cosine.optimizer.step()
    cosine.step()
    assert cosine.get_last_lr() == pytest.approx([0.5])
    for wrong in ({"anneal_strategy": "square"}, {"anneal_epochs": -1}, {"swa_lr": [0.1, 0.2]}):
        with pytest.raises(ValueError, match=r"anneal|same length"):
            swa_utils.SWALR(optimizer, **{"swa_lr": 0.1, **wrong})
