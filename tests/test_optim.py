"""Groups of parameters, state, saving and loading, hooks, copies: what all optimisers share."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from ._target import IS_WEFT, submodule, weft, weft_only

optim = submodule("optim")
steps = submodule("optim.optimizer")


def parameter(*values: float) -> Any:
    return weft.tensor(list(values or (1.0, 2.0)), dtype=weft.float64, requires_grad=True)


def give_gradients(params: list[Any], value: float = 1.0) -> None:
    for param in params:
        param.grad = weft.full_like(param.detach(), value)


def values_of(params: list[Any]) -> list[Any]:
    return [param.detach().tolist() for param in params]


# -- groups ---------------------------------------------------------------------------------------


def test_groups_have_options_of_their_own() -> None:
    a, b = parameter(0.0), parameter(0.0)
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
    give_gradients([a, b])
    optimizer.step()
    assert values_of([a, b]) == [[-0.1], [-0.5]]
    assert optimizer.defaults["lr"] == 0.1
    assert optimizer.param_groups[1]["params"][0] is b
    c = parameter(0.0)
    optimizer.add_param_group({"params": [c], "lr": 2.0})
    give_gradients([a, b, c])
    optimizer.step()
    assert values_of([c]) == [[-2.0]]
    optimizer.param_groups[1]["lr"] = 0.25
    give_gradients([a, b, c])
    optimizer.step()
    assert values_of([b]) == [[-1.25]]


def test_named_parameters() -> None:
    a, b = parameter(), parameter()
    optimizer = optim.Adam([("first", a), ("second", b)])
    assert optimizer.param_groups[0]["param_names"] == ["first", "second"]
    assert optimizer.param_groups[0]["params"][1] is b
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["first", "second"]
    with pytest.raises(ValueError, match="cannot add param group without names to the optimizer"):
        optimizer.add_param_group({"params": [parameter()]})
    with pytest.raises(ValueError, match="Some param names are missing"):
        optim.Adam([("first", a), b])
    # Names are read from a saved state where it has them, and kept where it has none.
    saved = optim.Adam([a, b]).state_dict()
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["param_names"] == ["first", "second"]
    saved["param_groups"][0]["param_names"] = ["x", "y"]
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["param_names"] == ["x", "y"]


MISTAKES: dict[str, tuple[type[Exception], str, Any]] = {
    "a tensor": (TypeError, "should be an iterable of Tensors or dicts", lambda: parameter()),
    "nothing": (ValueError, "optimizer got an empty parameter list", list),
    "a number": (TypeError, "can only optimize Tensors, but one of the params is", lambda: [3.0]),
    "a result": (ValueError, "can't optimize a non-leaf Tensor", lambda: [parameter() * 2]),
    "a set": (TypeError, "ordered collections", lambda: [{"params": {parameter()}}]),
    "no dict": (
        TypeError,
        "param_group must be a dict",
        lambda: [{"params": [parameter()]}, parameter()],
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_with_parameters(mistake: str) -> None:
    kind, words, params = MISTAKES[mistake]
    with pytest.raises(kind, match=words):
        optim.SGD(params(), lr=0.1)


def test_a_parameter_is_in_one_group() -> None:
    a = parameter()
    with pytest.raises(ValueError, match="appear in more than one parameter group"):
        optim.SGD([{"params": [a]}, {"params": [a]}], lr=0.1)
    with pytest.warns(UserWarning, match="parameter group with duplicate parameters"):
        optim.SGD([a, a], lr=0.1)


def test_required_options() -> None:
    class Plain(optim.Optimizer):  # type: ignore[misc, name-defined]
        def __init__(self, params: Any, rate: Any = steps.required) -> None:
            super().__init__(params, {"rate": rate})

    with pytest.raises(ValueError, match="required optimization parameter rate"):
        Plain([parameter()])
    assert Plain([{"params": [parameter()], "rate": 3}]).param_groups[0]["rate"] == 3


@pytest.mark.parametrize("kind", ["SGD", "Adam", "Adagrad"])
def test_flags_that_exclude_each_other(kind: str) -> None:
    make = getattr(optim, kind)
    with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
        make([parameter()], fused=True, differentiable=True)
    with pytest.raises(RuntimeError, match="`fused` and `foreach` cannot be `True` together"):
        make([parameter()], fused=True, foreach=True)


def test_repr() -> None:
    shown = repr(optim.SGD([{"params": [parameter()], "lr": 0.5}, {"params": parameter()}], lr=0.1))
    lines = shown.splitlines()
    assert lines[:2] == ["SGD (", "Parameter Group 0"]
    assert "    lr: 0.5" in lines[: lines.index("Parameter Group 1")]
    assert "    lr: 0.1" in lines[lines.index("Parameter Group 1") :]
    assert lines[-1] == ")" and lines[2:10] == sorted(lines[2:10])


# -- gradients ------------------------------------------------------------------------------------


def test_zero_grad() -> None:
    a, b = parameter(), parameter()
    optimizer = optim.SGD([a, b], lr=0.1)
    a.grad = weft.ones(2, dtype=weft.float64)
    optimizer.zero_grad()
    assert a.grad is None and b.grad is None
    (kept,) = weft.autograd.grad((a * a).sum(), a, create_graph=True)
    a.grad = kept
    optimizer.zero_grad(set_to_none=False)
    assert a.grad is kept and a.grad.tolist() == [0.0, 0.0] and not a.grad.requires_grad
    assert b.grad is None


def test_closure() -> None:
    param = parameter(3.0)
    optimizer = optim.SGD([param], lr=0.5)
    recording = []

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (param * param).sum()
        loss.backward()
        recording.append(weft.is_grad_enabled())
        return loss

    with weft.no_grad():
        loss = optimizer.step(closure)
    assert loss.item() == 9.0 and recording == [True]
    assert param.item() == 0.0
    assert optimizer.step() is None


def test_closure_of_lbfgs() -> None:
    param = weft.tensor([3.0, -2.0], requires_grad=True)
    optimizer = optim.LBFGS([param], line_search_fn="strong_wolfe")

    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((param - weft.tensor([1.0, 5.0])) ** 2 * weft.tensor([1.0, 10.0])).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert weft.allclose(param, weft.tensor([1.0, 5.0]), atol=1e-4)
    if IS_WEFT:
        with pytest.raises(TypeError, match="closure"):
            optimizer.step()
        optimizer.param_groups[0]["line_search_fn"] = "golden"
        with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
            optimizer.step(closure)
    with pytest.raises(ValueError, match="doesn't support per-parameter options"):
        optim.LBFGS([{"params": [parameter()]}, {"params": [parameter()]}])


def test_tensors_as_numbers() -> None:
    results = []
    for wrap in (float, weft.tensor):
        params = [parameter(1.0, -2.0)]
        optimizer = optim.Adam(params, lr=wrap(0.125), betas=(wrap(0.5), wrap(0.75)))
        for value in (1.0, 0.5, -2.0):
            give_gradients(params, value)
            optimizer.step()
        results.append(values_of(params))
    assert results[0][0] == pytest.approx(results[1][0], rel=0 if IS_WEFT else 1e-6)
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        optim.SGD([parameter()], lr=weft.ones(2))


# -- state ----------------------------------------------------------------------------------------


def trained(kind: str = "Adam", **options: Any) -> tuple[Any, list[Any]]:
    params = [parameter(1.0, 2.0), parameter(3.0)]
    optimizer = getattr(optim, kind)(params, **{"lr": 0.1, **options})
    for value in (1.0, -0.5, 2.0):
        give_gradients(params, value)
        optimizer.step()
    return optimizer, params


def go_on(optimizer: Any, params: list[Any]) -> list[Any]:
    for value in (0.3, -1.0):
        give_gradients(params, value)
        optimizer.step()
    return values_of(params)


def test_state_is_keyed_by_parameter() -> None:
    optimizer, params = trained()
    assert isinstance(optimizer.state, defaultdict)
    assert [id(p) for p in optimizer.state] == [id(p) for p in params]
    assert list(optimizer.state[params[0]]) == ["step", "exp_avg", "exp_avg_sq"]
    assert optimizer.state[params[0]]["step"].item() == 3
    assert optimizer.state[params[0]]["exp_avg"].shape == params[0].shape


def test_state_may_be_changed_between_steps() -> None:
    """What a step remembers of the state is what the state holds."""
    optimizer, params = trained()
    other, others = trained()
    for own in (optimizer, other):  # one in place, one by exchange
        kept = own.state[own.param_groups[0]["params"][0]]
        if own is optimizer:
            kept["exp_avg"].fill_(5.0)
            kept["step"].fill_(7.0)
        else:
            kept["exp_avg"] = weft.full((2,), 5.0, dtype=weft.float64)
            kept.update(step=weft.tensor(7.0))
    assert go_on(optimizer, params) == go_on(other, others)

    optimizer.state.clear()
    fresh = [p.detach().clone().requires_grad_() for p in params]
    assert go_on(optimizer, params) == go_on(optim.Adam(fresh, lr=0.1), fresh)
    assert optimizer.state[params[0]]["step"].item() == 2

    del optimizer.state[params[1]]
    give_gradients(params)
    optimizer.step()
    assert [optimizer.state[p]["step"].item() for p in params] == [3, 1]

    optimizer.state = defaultdict(dict)
    give_gradients(params)
    optimizer.step()
    assert [optimizer.state[p]["step"].item() for p in params] == [1, 1]


def test_parameters_may_be_exchanged_between_steps() -> None:
    optimizer, params = trained("SGD", momentum=0.9)
    group = optimizer.param_groups[0]
    new = parameter(0.0)
    group["params"][1] = new
    give_gradients([params[0], new])
    optimizer.step()
    assert values_of([new]) == [[-0.1]]
    group["params"].append(params[1])
    group["params"].remove(params[0])
    before = values_of([params[0]])
    give_gradients([*params, new])
    optimizer.step()
    assert values_of([params[0]]) == before
    assert new.item() == pytest.approx(-0.1 - 0.1 * 1.9)
    group["params"] = [new]
    del optimizer.param_groups[0]
    give_gradients([new])
    optimizer.step()
    assert new.item() == pytest.approx(-0.29)


def test_options_may_be_changed_between_steps() -> None:
    """A rule with other states begins with zeros for those that were not there."""
    optimizer, params = trained("Adam")
    optimizer.param_groups[0]["amsgrad"] = True
    if IS_WEFT:
        go_on(optimizer, params)
        assert "max_exp_avg_sq" in optimizer.state[params[0]]
    optimizer, params = trained("SGD")
    optimizer.param_groups[0]["momentum"] = 0.5
    before = params[1].item()
    give_gradients(params)
    optimizer.step()
    assert params[1].item() == pytest.approx(before - 0.1)
    assert optimizer.state[params[1]]["momentum_buffer"].item() == 1.0


EVERY_KIND = pytest.mark.parametrize(
    "kind",
    ["SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adagrad", "Adadelta", "ASGD",
     "Rprop", "Adafactor"],
)  # fmt: skip


@EVERY_KIND
def test_state_dict_continues_elsewhere(kind: str) -> None:
    options = {"momentum": 0.9} if kind == "SGD" else {}
    optimizer, params = trained(kind, **options)
    saved = copy.deepcopy(optimizer.state_dict())
    assert saved["param_groups"][0]["params"] == [0, 1]
    fresh = [p.detach().clone().requires_grad_() for p in params]
    other = getattr(optim, kind)(fresh, lr=99.0)
    other.load_state_dict(pickle.loads(pickle.dumps(saved)))
    assert other.param_groups[0]["lr"] == 0.1
    found, expected = go_on(other, fresh), go_on(optimizer, params)
    # PyTorch casts NAdam's product to the dtype of the parameter.
    assert found == expected or not IS_WEFT


@EVERY_KIND
@pytest.mark.parametrize("way", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies(kind: str, way: Any) -> None:
    options = {"momentum": 0.9} if kind == "SGD" else {}
    optimizer, params = trained(kind, **options)
    optimizer.register_step_pre_hook(print)
    twin = way(optimizer)
    assert repr(twin) == repr(optimizer)
    twins = twin.param_groups[0]["params"]
    assert twins[0] is not params[0]
    optimizer._optimizer_step_pre_hooks.clear()
    assert go_on(twin, twins) == go_on(optimizer, params)


@weft_only
def test_loading_copies_tensors() -> None:
    """Two optimisers do not share a state because one was loaded from the other."""
    optimizer, params = trained()
    other = optim.Adam([p.detach().clone().requires_grad_() for p in params])
    other.load_state_dict(optimizer.state_dict())
    before = other.state_dict()["state"][0]["exp_avg"].tolist()
    go_on(optimizer, params)
    assert other.state_dict()["state"][0]["exp_avg"].tolist() == before


def test_loading_casts() -> None:
    optimizer, params = trained()
    half = [p.detach().to(weft.bfloat16).requires_grad_() for p in params]
    other = optim.Adam(half)
    other.load_state_dict(optimizer.state_dict())
    kept = other.state[half[0]]
    assert kept["exp_avg"].dtype is weft.bfloat16 and kept["step"].dtype is weft.float32
    go_on(other, half)


def test_loading_what_does_not_fit() -> None:
    optimizer, _ = trained()
    saved = optimizer.state_dict()
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        optim.Adam([parameter()]).load_state_dict(saved)
    two = optim.Adam([{"params": [parameter()]}, {"params": [parameter()]}])
    with pytest.raises(ValueError, match="different number of parameter groups"):
        two.load_state_dict(saved)


def test_loading_an_older_state() -> None:
    """Counts were plain numbers once, and newer options are not there."""
    optimizer, params = trained()
    saved = copy.deepcopy(optimizer.state_dict())
    for kept in saved["state"].values():
        kept["step"] = int(kept["step"])
    for option in ("foreach", "maximize", "capturable", "differentiable", "fused", "amsgrad"):
        del saved["param_groups"][0][option]
    fresh = [p.detach().clone().requires_grad_() for p in params]
    other = optim.Adam(fresh)
    other.load_state_dict(saved)
    assert isinstance(other.state[fresh[0]]["step"], weft.Tensor)
    assert go_on(other, fresh) == go_on(optimizer, params)


@weft_only
def test_unknown_entries_survive() -> None:
    optimizer, params = trained()
    optimizer.state["of my own"] = {"n": 3}
    optimizer.state[params[0]]["note"] = "kept"
    saved = optimizer.state_dict()
    assert saved["state"]["of my own"] == {"n": 3}
    other = optim.Adam([p.detach().clone().requires_grad_() for p in params])
    other.load_state_dict(saved)
    assert other.state["of my own"] == {"n": 3}
    assert other.state_dict()["state"][0]["note"] == "kept"


# -- hooks ----------------------------------------------------------------------------------------


@pytest.fixture
def calls() -> Iterator[list[str]]:
    found: list[str] = []
    yield found
    for kind in ("pre", "post"):
        name = f"_global_{kind}_hooks" if IS_WEFT else f"_global_optimizer_{kind}_hooks"
        getattr(steps, name).clear()


def test_step_hooks(calls: list[str]) -> None:
    optimizer, _ = trained()
    steps.register_optimizer_step_pre_hook(lambda o, args, kwargs: calls.append("all before"))
    steps.register_optimizer_step_post_hook(lambda o, args, kwargs: calls.append("all after"))
    handle = optimizer.register_step_pre_hook(lambda o, args, kwargs: calls.append("before"))

    def after(own: Any, args: Any, kwargs: Any) -> None:
        assert own is optimizer and args == (optimizer,) and kwargs == {"closure": None}
        calls.append("after")

    optimizer.register_step_post_hook(after)
    optimizer.step(closure=None)
    assert calls == ["all before", "before", "after", "all after"]
    handle.remove()
    calls.clear()
    optimizer.step(closure=None)
    assert calls == ["all before", "after", "all after"]


def test_step_hooks_may_change_arguments() -> None:
    optimizer, _ = trained()
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: 42), {}))
    assert optimizer.step() == 42
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        optimizer.step()


def test_hooks_of_optimisers_that_users_write() -> None:
    class Sign(optim.Optimizer):  # type: ignore[misc, name-defined]
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr})

        @weft.no_grad()
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for param in group["params"]:
                    state = self.state[param]
                    state["count"] = state.get("count", 0) + 1
                    param.sub_(group["lr"] * param.grad.sign())

    param = parameter(1.0)
    optimizer = Sign([param], lr=0.5)
    seen: list[Any] = []
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(param.item()))
    give_gradients([param], -3.0)
    optimizer.step()
    assert seen == [1.5]
    assert optimizer.state_dict()["state"] == {0: {"count": 1}}


@weft_only
def test_hooks_run_once_where_a_step_calls_another(calls: list[str]) -> None:
    class Twice(optim.SGD):  # type: ignore[misc, name-defined]
        def step(self, closure: Any = None) -> None:
            super().step(closure)
            super().step()

    optimizer = Twice([parameter(1.0)], lr=0.25)
    give_gradients(optimizer.param_groups[0]["params"])
    optimizer.register_step_pre_hook(lambda o, args, kwargs: calls.append("before"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: calls.append("after"))
    optimizer.step()
    assert calls == ["before", "after"]
    assert values_of(optimizer.param_groups[0]["params"]) == [[0.5]]


def test_state_dict_hooks(calls: list[str]) -> None:
    optimizer, _ = trained()
    optimizer.register_state_dict_pre_hook(lambda o: calls.append("before"))
    optimizer.register_state_dict_pre_hook(lambda o: calls.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, saved: {**saved, "extra": 1})
    saved = optimizer.state_dict()
    assert calls == ["first", "before"] and saved["extra"] == 1
    calls.clear()

    def rename(own: Any, loaded: Any) -> Any:
        calls.append("loading")
        return {**loaded, "param_groups": [{**g, "lr": 7.0} for g in loaded["param_groups"]]}

    optimizer.register_load_state_dict_pre_hook(rename)
    optimizer.register_load_state_dict_post_hook(lambda o: calls.append("loaded"))
    optimizer.load_state_dict(saved)
    assert calls == ["loading", "loaded"]
    assert optimizer.param_groups[0]["lr"] == 7.0
    assert saved["param_groups"][0]["lr"] == 0.1


# -- life -----------------------------------------------------------------------------------------


def test_nothing_keeps_an_optimiser_alive() -> None:
    optimizer, params = trained()
    params[0].owner = optimizer  # a cycle through the tensors that a step remembers
    optimizer.state[params[1]]["me"] = optimizer
    gone = weakref.ref(optimizer), weakref.ref(params[0])
    del optimizer, params
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


@weft_only
def test_one_step_at_a_time() -> None:
    """Threads may share an optimiser; a step in the middle of another is refused, not mixed up."""
    params = [weft.zeros(300_000, requires_grad=True)]
    optimizer = optim.SGD(params, lr=1.0)
    params[0].grad = weft.ones(300_000)
    done, refused = [0] * 3, [0] * 3

    def train(index: int) -> None:
        for _ in range(40):
            try:
                optimizer.step()
                done[index] += 1
            except RuntimeError as error:
                assert "in the middle of a step" in str(error)
                refused[index] += 1

    threads = [threading.Thread(target=train, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(done) + sum(refused) == 120
    assert weft.equal(params[0].detach(), weft.full((300_000,), -float(sum(done))))
