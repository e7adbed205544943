"""`weft.utils.data` beside `torch.utils.data`: signatures, batches, refusals.

Which numbers a seed gives is another matter in both, so nothing here draws any, except where only
their count or their set is compared.
"""

from __future__ import annotations

import collections
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from .._target import submodule, weft

data = submodule("utils.data")

WEFT_HAS_MORE = {"worker_method"}  # parameters of weft's own


@pytest.mark.parametrize("name", [name for name in data.__all__ if name[0] != "_"])
def test_signatures(name: str) -> None:
    ours, theirs = getattr(data, name), getattr(torch.utils.data, name)

    def parameters(thing: Any) -> list[tuple[str, Any, Any]]:
        return [
            (parameter.name, parameter.kind, parameter.default)
            for parameter in inspect.signature(thing).parameters.values()
            if parameter.name not in WEFT_HAS_MORE
            and not isinstance(parameter.default, torch.Generator | weft.Generator)
        ]

    assert parameters(ours) == parameters(theirs)
    if isinstance(theirs, type):
        public = {key for key in vars(theirs) if key[0] != "_"} - {"dataset"}
        assert public <= set(dir(ours)) | set(getattr(ours, "__annotations__", {}))


def test_everything_but_data_pipes_is_there() -> None:
    pipes = {name for name in torch.utils.data.__all__ if "Pipe" in name or "DataChunk" in name}
    pipes |= {
        "argument_validation",
        "functional_datapipe",
        "guaranteed_datapipes_determinism",
        "non_deterministic",
        "runtime_validation",
        "runtime_validation_disabled",
    }
    assert set(torch.utils.data.__all__) - set(data.__all__) == pipes


# ---- scenarios that both run ---------------------------------------------------------------------


def shown(value: Any) -> Any:
    """Classes and values of a result, in words that both libraries share."""
    if type(value).__name__ == "Tensor":
        return "tensor", str(value.dtype).rpartition(".")[2], tuple(value.shape), value.tolist()
    if isinstance(value, collections.abc.Mapping):
        content = {key: shown(value[key]) for key in value}
        return type(value).__name__, content, getattr(value, "tag", None)
    if isinstance(value, tuple | list | collections.UserList):
        return type(value).__name__, [shown(item) for item in value], getattr(value, "tag", None)
    if isinstance(value, np.ndarray | np.generic):
        return type(value).__name__, str(value.dtype), value.tolist()
    return value


def outcome(call: Callable[[Any, Any], Any], module: Any, its_data: Any) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = shown(call(module, its_data))
        except Exception as error:
            result = type(error).__name__
    return result, sorted({warning.category.__name__ for warning in caught})


def agree(call: Callable[[Any, Any], Any]) -> None:
    ours = outcome(call, weft, data)
    theirs = outcome(call, torch, torch.utils.data)
    assert ours == theirs


Pair = collections.namedtuple("Pair", "left right")


class TaggedDict(dict[str, Any]):
    tag = "none"


class TaggedList(list[Any]):
    tag = "none"


class Frozen(collections.abc.Mapping[str, Any]):
    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content

    def __getitem__(self, key: str) -> Any:
        return self.content[key]

    def __iter__(self) -> Any:
        return iter(self.content)

    def __len__(self) -> int:
        return len(self.content)


class Stubborn(Frozen):
    """Cannot be made of a dict alone."""

    def __init__(self, content: dict[str, Any], other: int) -> None:
        super().__init__(content)


def tagged(kind: Any, content: Any) -> Any:
    result = kind(content)
    result.tag = "kept"
    return result


BATCHES: dict[str, Callable[[Any], Any]] = {
    "ints": lambda m: [1, 2, 3],
    "large ints": lambda m: [1 << 40, -1],
    "bools": lambda m: [True, False],
    "floats": lambda m: [1.0, 2.0],
    "int then float": lambda m: [1, 2.5],
    "float then int": lambda m: [2.5, 1],
    "strings": lambda m: ["a", "b"],
    "bytes": lambda m: [b"a", b"b"],
    "tensors": lambda m: [m.ones(2, 3), m.zeros(2, 3)],
    "scalars": lambda m: [m.tensor(1), m.tensor(2)],
    "mixed types": lambda m: [m.tensor([1]), m.tensor([2.0])],
    "other shapes": lambda m: [m.ones(2), m.ones(3)],
    "tuples": lambda m: [(1, 2.0, "x"), (3, 4.0, "y")],
    "tuples of other lengths": lambda m: [(1, 2), (3,)],
    "lists": lambda m: [[1, m.ones(2)], [2, m.ones(2)]],
    "empty tuples": lambda m: [(), ()],
    "named tuples": lambda m: [Pair(1, "a"), Pair(2, "b")],
    "dicts": lambda m: [{"a": 1, "b": [2, 3]}, {"a": 4, "b": [5, 6]}],
    "dicts with other keys": lambda m: [{"a": 1}, {"b": 1}],
    "dicts with more keys": lambda m: [{"a": 1}, {"a": 2, "b": 1}],
    "ordered": lambda m: [collections.OrderedDict(a=1), collections.OrderedDict(a=2)],
    "tagged dicts": lambda m: [tagged(TaggedDict, {"a": 1}), tagged(TaggedDict, {"a": 2})],
    "tagged lists": lambda m: [tagged(TaggedList, [1]), tagged(TaggedList, [2])],
    "frozen": lambda m: [Frozen({"a": 1}), Frozen({"a": 2})],
    "stubborn": lambda m: [Stubborn({"a": 1}, 1), Stubborn({"a": 2}, 1)],
    "ranges": lambda m: [range(2), range(2)],
    "user lists": lambda m: [collections.UserList([1]), collections.UserList([2])],
    "arrays": lambda m: [np.ones(2), np.zeros(2)],
    "float32 arrays": lambda m: [np.ones((2, 1), "float32"), np.zeros((2, 1), "float32")],
    "numpy floats": lambda m: [np.float32(1), np.float32(2)],
    "numpy float64s": lambda m: [np.float64(1), np.float64(2)],
    "numpy ints": lambda m: [np.int16(1), np.int16(2)],
    "numpy bools": lambda m: [np.bool_(True), np.bool_(False)],
    "numpy 0-dim": lambda m: [np.array(1.5), np.array(2.5)],
    "numpy strings": lambda m: [np.array(["a"]), np.array(["b"])],
    "numpy objects": lambda m: [np.array([None]), np.array([None])],
    "numpy texts": lambda m: [np.str_("a"), np.str_("b")],
    "none": lambda m: [None, None],
    "objects": lambda m: [object(), object()],
    "sets": lambda m: [{1}, {2}],
    "nothing": lambda m: [],
}


@pytest.mark.parametrize("name", list(BATCHES))
def test_collate(name: str) -> None:
    agree(lambda module, its: its.default_collate(BATCHES[name](module)))


@pytest.mark.parametrize("name", list(BATCHES))
def test_convert(name: str) -> None:
    if name == "objects":
        pytest.skip("an object is returned as it is, and equals no other")
    agree(lambda module, its: [its.default_convert(one) for one in BATCHES[name](module)])


@pytest.mark.parametrize("name", list(BATCHES))
@pytest.mark.parametrize("options", [{"batch_size": 2}, {"batch_size": None}, {"drop_last": True}])
def test_loading(name: str, options: dict[str, Any]) -> None:
    if name == "objects" and options.get("batch_size", 1) is None:
        pytest.skip("an object is returned as it is, and equals no other")
    agree(lambda module, its: list(its.DataLoader(BATCHES[name](module), **options)))


SCENARIOS: list[Callable[[Any, Any], Any]] = [
    lambda m, d: len(d.DataLoader(range(10), 3)),
    lambda m, d: len(d.DataLoader(range(10), 3, drop_last=True)),
    lambda m, d: len(d.DataLoader(range(10), None)),
    lambda m, d: len(d.DataLoader(range(10), batch_sampler=[[1], [2]])),
    lambda m, d: len(d.RandomSampler(range(10), num_samples=3)),
    lambda m, d: d.DataLoader([], shuffle=True),
    lambda m, d: list(d.DataLoader([])),
    lambda m, d: d.DataLoader(range(3), num_workers=-1),
    lambda m, d: d.DataLoader(range(3), batch_size=-1),
    lambda m, d: d.DataLoader(range(3), batch_size="2"),
    lambda m, d: d.DataLoader(range(3), batch_sampler=[[1]], batch_size=None),
    lambda m, d: d.DataLoader(range(3), sampler=[1], shuffle=False).sampler,
    lambda m, d: d.DataLoader(range(3)).prefetch_factor,
    lambda m, d: d.DataLoader(range(3), num_workers=1).prefetch_factor,
    lambda m, d: d.DataLoader(range(3), batch_sampler=[[1]]).batch_size,
    lambda m, d: type(iter(d.DataLoader(range(3)))).__name__,
    lambda m, d: len(iter(d.DataLoader(range(3)))),
    lambda m, d: list(d.DataLoader(d.TensorDataset(m.arange(5), m.ones(5, 2)), 2)),
    lambda m, d: list(d.DataLoader(d.TensorDataset(m.arange(5)), batch_sampler=[[-1, 2], [0]])),
    lambda m, d: list(d.DataLoader(d.TensorDataset(m.arange(5)), batch_sampler=[[5]])),
    lambda m, d: list(d.DataLoader(d.TensorDataset(m.arange(5)), batch_sampler=[[1.5]])),
    lambda m, d: list(d.DataLoader(d.TensorDataset(m.arange(5)), batch_sampler=[[True]])),
    lambda m, d: list(
        d.DataLoader(d.TensorDataset(m.arange(5)), batch_sampler=[[m.tensor(1), m.tensor(3)]])
    ),
    lambda m, d: list(d.DataLoader(d.TensorDataset(m.arange(5)), batch_sampler=[m.tensor([1, 3])])),
    lambda m, d: list(d.DataLoader(d.TensorDataset(m.arange(9)), 2, sampler=m.tensor([1, 3]))),
    lambda m, d: list(d.DataLoader(d.Subset(d.TensorDataset(m.arange(5)), range(1, 4)), 2)),
    lambda m, d: list(d.DataLoader(d.Subset(d.TensorDataset(m.arange(5)), m.tensor([4, 0])), 2)),
    lambda m, d: list(d.DataLoader(d.Subset(d.TensorDataset(m.arange(5)), np.array([4, 0])), 2)),
    lambda m, d: list(d.DataLoader(d.Subset(d.TensorDataset(m.arange(5)), [9]), 2)),
    lambda m, d: list(
        d.DataLoader(
            d.TensorDataset(m.ones(3, 1), m.arange(3)) + d.TensorDataset(m.zeros(1, 1), m.ones(1)),
            2,
        )
    ),
    lambda m, d: list(d.DataLoader(d.StackDataset(a=range(3), b="xyz"), 2)),
    lambda m, d: d.TensorDataset(m.ones(2), m.ones(3)),
    lambda m, d: len(d.TensorDataset()),
    lambda m, d: d.TensorDataset(m.tensor(1.0)),
    lambda m, d: d.random_split(range(10), [3, 3]),
    lambda m, d: [len(part) for part in d.random_split(range(10), [0.33, 0.33, 0.34])],
    lambda m, d: [len(part) for part in d.random_split(range(3), [0.1, 0.1, 0.8])],
    lambda m, d: [len(part) for part in d.random_split(range(10), [10])],
    lambda m, d: [len(part) for part in d.random_split(range(1), [1])],
    lambda m, d: d.WeightedRandomSampler([1.0, 2.0], 0),
    lambda m, d: d.WeightedRandomSampler([[1.0]], 1),
    lambda m, d: list(d.WeightedRandomSampler([0, 0, 1], 3)),
    lambda m, d: list(d.WeightedRandomSampler(m.tensor([1.0, 0.0]), 2)),
    lambda m, d: list(d.WeightedRandomSampler([1.0], 2, replacement=False)),
    lambda m, d: d.BatchSampler(range(3), 2, "yes"),
    lambda m, d: list(d.BatchSampler(range(3), 2, False)),
    lambda m, d: iter(d.Sampler()),
    lambda m, d: d.Dataset()[0],
    lambda m, d: iter(d.IterableDataset()),
    lambda m, d: list(d.DistributedSampler(range(10), 3, 1, shuffle=False)),
    lambda m, d: list(d.DistributedSampler(range(10), 3, 1, shuffle=False, drop_last=True)),
    lambda m, d: list(d.DistributedSampler(range(1), 3, 2, shuffle=False)),
    lambda m, d: list(d.DistributedSampler([], 2, 1, shuffle=False)),
    lambda m, d: d.DistributedSampler(range(10), 3, 3),
    lambda m, d: d.ConcatDataset([[1, 2], [3]])[-3],
    lambda m, d: d.ConcatDataset([[1, 2], [3]])[3],
    lambda m, d: d.Subset(range(10), [1, 2])[[0]],
    lambda m, d: setattr(d.DataLoader(range(3)), "batch_size", 2),
    lambda m, d: list(d.DataLoader(range(3), pin_memory=True)),
    lambda m, d: d.get_worker_info(),
]


@pytest.mark.parametrize("number", range(len(SCENARIOS)))
def test_scenario(number: int) -> None:
    agree(SCENARIOS[number])


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [None, 1, 2, 5])
@pytest.mark.parametrize("lengths", [(5, 5), (6, 1), (1, 6), (0, 4), (3, 0)])
def test_streams_of_two_workers_come_in_the_same_order(
    lengths: tuple[int, int], batch_size: int | None, drop_last: bool
) -> None:
    def run(module: Any, its: Any) -> Any:
        class Stream(its.IterableDataset):  # type: ignore[misc,name-defined]
            def __iter__(self) -> Any:
                worker = its.get_worker_info().id
                return iter([100 * worker + number for number in range(lengths[worker])])

        loader = its.DataLoader(
            Stream(),
            batch_size,
            drop_last=drop_last and batch_size is not None,
            num_workers=2,
            multiprocessing_context="fork",
        )
        return [module.as_tensor(batch).tolist() for batch in loader]

    agree(run)


def test_seeds_of_workers() -> None:
    from torch.utils.data import _utils

    random_state = submodule("utils.data._utils.random_state")
    for base_seed, worker in ((0, 0), (123456789012345, 3), ((1 << 63) - 1, 7)):
        random_state.seed_numpy(base_seed, worker)
        ours = np.random.randint(1 << 30, size=4).tolist()
        np.random.seed(_utils.worker._generate_state(base_seed, worker))
        assert ours == np.random.randint(1 << 30, size=4).tolist()


def test_exceptions_of_workers() -> None:
    class Broken:
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> int:
            raise KeyError("sample")

    def message(its: Any) -> str:
        with pytest.raises(KeyError) as caught:
            next(iter(its.DataLoader(Broken(), num_workers=1, multiprocessing_context="fork")))
        return str(caught.value)

    ours, theirs = message(data).splitlines(), message(torch.utils.data).splitlines()
    assert ours[:2] == theirs[:2] and ours[-1] == theirs[-1]
