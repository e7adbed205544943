"""Datasets, samplers, collating, and the loader without workers."""

from __future__ import annotations

import collections
import doctest
import random
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from ._target import submodule, weft, weft_only

data = submodule("utils.data")
DataLoader = data.DataLoader


class Numbers(data.Dataset):  # type: ignore[misc]
    """0, 10, 20, ..."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        if not -self.count <= index < self.count:
            raise IndexError(index)
        return 10 * (index % self.count)


class Stream(data.IterableDataset):  # type: ignore[misc]
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count))


class SizedStream(Stream):
    def __len__(self) -> int:
        return 4


def lists(batches: Any) -> list[Any]:
    return [batch.tolist() for batch in batches]


# ---- datasets --------------------------------------------------------------------------------


def test_a_dataset_without_getitem_says_so() -> None:
    with pytest.raises(NotImplementedError, match="should implement __getitem__"):
        data.Dataset()[0]
    with pytest.raises(TypeError):
        len(data.Dataset())


def test_tensor_dataset_gives_rows() -> None:
    features, labels = weft.arange(6).view(3, 2), weft.tensor([7, 8, 9])
    rows = data.TensorDataset(features, labels)
    assert len(rows) == 3
    first, second = rows[1]
    assert first.tolist() == [2, 3] and second.item() == 8
    assert [part.tolist() for part in rows[1:]] == [[[2, 3], [4, 5]], [8, 9]]
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(features, weft.zeros(2))


def test_a_row_is_a_view_but_a_batch_is_a_copy() -> None:
    features = weft.zeros(4)
    rows = data.TensorDataset(features)
    for (batch,) in DataLoader(rows, batch_size=2):
        batch += 1
    assert features.tolist() == [0, 0, 0, 0]
    rows[2][0].fill_(5)
    assert features.tolist() == [0, 0, 5, 0]


def test_sums_of_datasets() -> None:
    both = Numbers(2) + Numbers(3)
    assert isinstance(both, data.ConcatDataset)
    assert [both[i] for i in range(5)] == [0, 10, 0, 10, 20]
    assert both[-1] == 20 and both[-5] == 0 and len(both) == 5
    assert both.cumulative_sizes == [2, 5]
    with pytest.raises(ValueError, match="absolute value of index should not exceed"):
        both[-6]
    with pytest.raises(AssertionError, match="should not be an empty iterable"):
        data.ConcatDataset([])
    with pytest.raises(AssertionError, match="does not support IterableDataset"):
        data.ConcatDataset([Stream(1)])
    chain = Stream(2) + Stream(3)
    assert isinstance(chain, data.ChainDataset)
    assert list(chain) == [0, 1, 0, 1, 2]
    assert len(data.ChainDataset([SizedStream(4), SizedStream(4)])) == 8
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        list(data.ChainDataset([Numbers(1)]))


def test_stacked_datasets() -> None:
    pairs = data.StackDataset(Numbers(3), [5, 6, 7])
    assert pairs[1] == (10, 6) and len(pairs) == 3
    assert pairs.__getitems__([0, 2]) == [(0, 5), (20, 7)]
    named = data.StackDataset(x=Numbers(3), y=[5, 6, 7])
    assert named[2] == {"x": 20, "y": 7}
    assert named.__getitems__([1]) == [{"x": 10, "y": 6}]
    with pytest.raises(ValueError, match="Size mismatch"):
        data.StackDataset([1], [1, 2])
    with pytest.raises(ValueError, match="both types are given"):
        data.StackDataset([1], y=[1])
    with pytest.raises(ValueError, match="At least one dataset"):
        data.StackDataset()

    class TooFew(Numbers):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [1]

    with pytest.raises(ValueError, match="Nested dataset's output size mismatch"):
        data.StackDataset(TooFew(3)).__getitems__([0, 1])


def test_subsets() -> None:
    part = data.Subset(Numbers(5), [4, 0])
    assert len(part) == 2 and part[0] == 40 and part[1] == 0
    assert part.__getitems__([1, 0]) == [0, 40]

    class Doubled(data.Subset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            return 2 * super().__getitem__(index)

    with pytest.raises(NotImplementedError, match="Doubled overrides __getitem__ but not"):
        Doubled(Numbers(5), [1])


def test_random_split() -> None:
    def split(lengths: Any, seed: int = 3) -> Any:
        generator = weft.Generator().manual_seed(seed)
        return [list(part.indices) for part in data.random_split(Numbers(11), lengths, generator)]

    parts = split([4, 7])
    assert [len(part) for part in parts] == [4, 7]
    assert sorted(parts[0] + parts[1]) == list(range(11))
    assert split([4, 7]) == parts != split([4, 7], seed=4)
    assert [len(part) for part in split([0.5, 0.25, 0.25])] == [6, 3, 2]
    with pytest.raises(ValueError, match="Sum of input lengths does not equal"):
        split([4, 8])
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        split([-0.5, 1.5])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split([1], [1.0, 0.0])


# ---- samplers --------------------------------------------------------------------------------


def test_samplers_that_do_not_draw() -> None:
    assert list(data.SequentialSampler("abc")) == [0, 1, 2]
    keep = data.BatchSampler(data.SequentialSampler(range(5)), 2, False)
    drop = data.BatchSampler(data.SequentialSampler(range(5)), 2, True)
    assert list(keep) == [[0, 1], [2, 3], [4]] and len(keep) == 3
    assert list(drop) == [[0, 1], [2, 3]] and len(drop) == 2
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="batch_size should be a positive integer"):
            data.BatchSampler(range(5), bad, False)
    with pytest.raises(ValueError, match="drop_last should be a boolean"):
        data.BatchSampler(range(5), 2, 1)


def test_random_sampler() -> None:
    def drawn(**options: Any) -> list[int]:
        generator = weft.Generator().manual_seed(1)
        return list(data.RandomSampler(range(10), generator=generator, **options))

    assert sorted(drawn()) == list(range(10)) and drawn() == drawn() != list(range(10))
    long = drawn(num_samples=25)
    assert sorted(long[:10]) == sorted(long[10:20]) == list(range(10)) and len(long) == 25
    assert len(set(long[20:])) == 5
    assert len(set(drawn(num_samples=4))) == 4
    many = drawn(replacement=True, num_samples=3000)
    assert len(many) == 3000 and set(many) == set(range(10))
    counts = collections.Counter(many)
    assert all(220 < counts[i] < 380 for i in range(10))  # 300 expected, standard deviation 16
    with pytest.raises(TypeError, match="replacement should be a boolean"):
        drawn(replacement=1)
    for bad in (0, -3, 2.0):
        with pytest.raises(ValueError, match="num_samples should be a positive integer"):
            drawn(num_samples=bad)
    with pytest.raises(ValueError, match="num_samples=0"):
        data.RandomSampler([])


def test_without_a_generator_the_order_comes_from_the_default_one() -> None:
    sampler = data.RandomSampler(range(20))
    weft.manual_seed(5)
    first, second = list(sampler), list(sampler)
    weft.manual_seed(5)
    assert list(sampler) == first != second


def test_other_random_samplers() -> None:
    generator = weft.Generator().manual_seed(1)
    chosen = data.SubsetRandomSampler([3, 5, 9], generator=generator)
    orders = {tuple(chosen) for _ in range(50)}
    assert len(orders) == 6 and len(chosen) == 3
    assert set(map(frozenset, orders)) == {frozenset((3, 5, 9))}
    weighted = data.WeightedRandomSampler([1.0, 0.0, 3.0], 4000, generator=generator)
    counts = collections.Counter(weighted)
    assert counts[1] == 0 and 850 < counts[0] < 1150  # 1000 expected, standard deviation 27
    assert sorted(data.WeightedRandomSampler([0.1, 0.9, 0.3], 3, replacement=False)) == [0, 1, 2]
    with pytest.raises(ValueError, match="num_samples should be a positive integer"):
        data.WeightedRandomSampler([1.0], True)
    with pytest.raises(ValueError, match="replacement should be a boolean"):
        data.WeightedRandomSampler([1.0], 1, None)
    with pytest.raises(ValueError, match="weights should be a 1d sequence"):
        data.WeightedRandomSampler([[1.0]], 1)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("count", [1, 7, 8, 9])
def test_distributed_sampler_shares_out(shuffle: bool, drop_last: bool, count: int) -> None:
    def shares(epoch: int) -> list[list[int]]:
        samplers = [
            data.DistributedSampler(Numbers(count), 4, rank, shuffle, drop_last=drop_last)
            for rank in range(4)
        ]
        for sampler in samplers:
            sampler.set_epoch(epoch)
        found = [list(sampler) for sampler in samplers]
        assert [len(sampler) for sampler in samplers] == [len(share) for share in found]
        return found

    first = shares(0)
    assert len({len(share) for share in first}) == 1
    together = [index for share in first for index in share]
    if drop_last and count >= 4:
        assert len(set(together)) == len(together) == count // 4 * 4
    elif not drop_last:
        assert set(together) == set(range(count))
    assert shares(0) == first
    if shuffle and count == 9:
        assert shares(1) != first


def test_distributed_sampler_refuses_a_wrong_rank() -> None:
    with pytest.raises(ValueError, match=r"Invalid rank 2, rank should be in the interval \[0, 1"):
        data.DistributedSampler(Numbers(3), 2, 2)


# ---- collating -------------------------------------------------------------------------------


def test_collating_numbers_and_strings() -> None:
    ints, floats = data.default_collate([1, 2]), data.default_collate([1.5, 2.5])
    assert ints.dtype is weft.int64 and ints.tolist() == [1, 2]
    assert floats.dtype is weft.float64 and floats.tolist() == [1.5, 2.5]
    assert data.default_collate([True, False]).dtype is weft.bool
    assert data.default_collate(["a", "b"]) == ["a", "b"]
    assert data.default_collate([b"a", b"b"]) == [b"a", b"b"]


Point = collections.namedtuple("Point", "x y")


def test_collating_containers() -> None:
    pairs = data.default_collate([(1, "a"), (2, "b")])
    assert type(pairs) is list and pairs[0].tolist() == [1, 2] and tuple(pairs[1]) == ("a", "b")
    assert [item.tolist() for item in data.default_collate([[1, 2.0], [3, 4.0]])] == [
        [1, 3],
        [2.0, 4.0],
    ]
    nested = data.default_collate([{"a": (1, {"b": 2})}, {"a": (3, {"b": 4})}])
    assert nested["a"][0].tolist() == [1, 3] and nested["a"][1]["b"].tolist() == [2, 4]
    points = data.default_collate([Point(1, 2), Point(3, 4)])
    assert isinstance(points, Point) and points.y.tolist() == [2, 4]
    ordered = data.default_collate([collections.OrderedDict(k=1), collections.OrderedDict(k=2)])
    assert type(ordered) is collections.OrderedDict and ordered["k"].tolist() == [1, 2]
    default: Any = collections.defaultdict(list, k=1)
    kept = data.default_collate([default, default])
    assert kept.default_factory is list and default["k"] == 1


def test_collating_tensors_and_arrays() -> None:
    numpy = pytest.importorskip("numpy")
    stacked = data.default_collate([weft.ones(2, 3), weft.zeros(2, 3)])
    assert stacked.shape == (2, 2, 3)
    arrays = data.default_collate([numpy.ones(2, "float32"), numpy.zeros(2, "float32")])
    assert arrays.dtype is weft.float32 and arrays.tolist() == [[1, 1], [0, 0]]
    scalars = data.default_collate([numpy.float32(1), numpy.float32(2)])
    assert scalars.dtype is weft.float32 and scalars.tolist() == [1, 2]
    assert data.default_collate([numpy.float64(1), numpy.float64(2)]).dtype is weft.float64
    with pytest.raises(TypeError, match="batch must contain tensors, numpy arrays"):
        data.default_collate([numpy.array(["a"]), numpy.array(["b"])])
    converted = data.default_convert({"a": numpy.ones(2), "b": (1, "x", [numpy.zeros(1)])})
    assert converted["a"].tolist() == [1, 1] and converted["b"][2][0].tolist() == [0]
    assert converted["b"][0] == 1


def test_what_cannot_be_collated() -> None:
    with pytest.raises(TypeError, match=r"found <class 'object'>"):
        data.default_collate([object(), object()])
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        data.default_collate([[1], [1, 2]])
    with pytest.raises(RuntimeError, match=r"size|shape"):
        data.default_collate([weft.ones(2), weft.ones(3)])


def test_the_table_of_collating_can_be_extended() -> None:
    table = data._utils.collate.default_collate_fn_map

    class Word:
        def __init__(self, text: str) -> None:
            self.text = text

    def join(batch: Any, *, collate_fn_map: Any = None) -> str:
        return "".join(word.text for word in batch)

    table[Word] = join
    try:
        assert data.default_collate([(1, Word("a")), (2, Word("b"))])[1] == "ab"
    finally:
        del table[Word]

    def shapes(batch: Any, *, collate_fn_map: Any = None) -> Any:
        return [tuple(tensor.shape) for tensor in batch]

    before = table[weft.Tensor]
    table[weft.Tensor] = shapes
    try:
        rows = data.TensorDataset(weft.ones(4, 3))
        assert list(DataLoader(rows, batch_size=4)) == [[[(3,)] * 4]]
    finally:
        table[weft.Tensor] = before


# ---- the loader ------------------------------------------------------------------------------


def test_batches_of_a_list() -> None:
    loader = DataLoader([1.0, 2.0, 3.0], batch_size=2)
    assert lists(loader) == [[1.0, 2.0], [3.0]] == lists(loader)
    assert len(loader) == 2
    assert lists(DataLoader([1.0, 2.0, 3.0], batch_size=2, drop_last=True)) == [[1.0, 2.0]]
    assert list(DataLoader([1, 2], batch_size=None)) == [1, 2]
    assert list(DataLoader(["a", "b", "c"], 2, collate_fn="".join)) == ["ab", "c"]


def test_batches_of_tensors_are_those_of_single_rows() -> None:
    features = weft.arange(21.0).view(7, 3)
    rows = data.TensorDataset(features, weft.arange(7))
    for source in (rows, data.Subset(rows, [6, 1, 3, 0, 2])):
        for index in ([0, 1], [4, 2, 0], [-1, 0]):
            whole = next(iter(DataLoader(source, batch_sampler=[index])))
            single = data.default_collate([source[i] for i in index])
            assert type(whole) is type(single) is list
            for left, right in zip(whole, single, strict=True):
                assert left.tolist() == right.tolist() and left.dtype is right.dtype
    with pytest.raises(IndexError):
        list(DataLoader(rows, batch_sampler=[[0, 7]]))
    with pytest.raises(IndexError):
        list(DataLoader(rows, batch_sampler=[[]]))


def test_a_class_derived_from_tensor_dataset_is_asked_for_its_samples() -> None:
    class Negated(data.TensorDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            return -super().__getitem__(index)[0]

    assert lists(DataLoader(Negated(weft.arange(3)), batch_size=3)) == [[0, -1, -2]]
    part = data.Subset(Negated(weft.arange(3)), [2])
    assert lists(DataLoader(part, batch_size=3)) == [[-2]]


def test_getitems_is_preferred() -> None:
    class Whole(Numbers):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [-index for index in indices]

    assert lists(DataLoader(Whole(3), batch_size=2)) == [[0, -1], [-2]]


def test_shuffling_is_decided_by_the_seed() -> None:
    loader = DataLoader(range(30), batch_size=7, shuffle=True)
    weft.manual_seed(1)
    first, second = lists(loader), lists(loader)
    weft.manual_seed(1)
    assert lists(loader) == first != second
    assert sorted(index for batch in first for index in batch) == list(range(30))
    own = [
        lists(DataLoader(range(9), 4, True, generator=weft.Generator().manual_seed(2)))
        for _ in range(2)
    ]
    assert own[0] == own[1]


def test_two_loops_over_one_loader_do_not_disturb_each_other() -> None:
    loader = DataLoader(range(6), batch_size=2)
    assert [(a.tolist(), b.tolist()) for a, b in zip(loader, loader, strict=True)] == [
        ([0, 1], [0, 1]),
        ([2, 3], [2, 3]),
        ([4, 5], [4, 5]),
    ]


def test_samplers_given_by_the_user() -> None:
    assert lists(DataLoader(Numbers(5), 2, sampler=[4, 0, 2])) == [[40, 0], [20]]
    assert lists(DataLoader(Numbers(5), batch_sampler=[[1], [2, 3]])) == [[10], [20, 30]]
    letters = DataLoader({"a": 1, "b": 2}, batch_size=2, sampler=["b", "a"])
    assert lists(letters) == [[2, 1]]


def test_streams() -> None:
    assert lists(DataLoader(Stream(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert lists(DataLoader(Stream(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(DataLoader(Stream(2), batch_size=None)) == [0, 1]
    assert lists(DataLoader(Stream(0), batch_size=2)) == []
    assert len(DataLoader(SizedStream(4), batch_size=3)) == 2
    assert len(DataLoader(SizedStream(4), batch_size=3, drop_last=True)) == 1
    with pytest.raises(TypeError):
        len(DataLoader(Stream(4)))


def test_a_stream_that_begins_again_at_every_iter() -> None:
    class Restarting(data.IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Any:
            self.last = -1
            return self

        def __next__(self) -> int:
            self.last += 1
            if self.last == 5:
                raise StopIteration
            return self.last

    loader = DataLoader(Restarting(), batch_size=2)
    assert lists(loader) == [[0, 1], [2, 3], [4]] == lists(loader)


def test_a_stream_longer_than_it_said_is_reported() -> None:
    loader = DataLoader(SizedStream(6))
    assert len(loader) == 4
    with pytest.warns(UserWarning, match=r"was reported to be 4.*but 5 samples have been fetched"):
        iterator = iter(loader)
        for _ in range(5):
            next(iterator)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(DataLoader(SizedStream(6)))  # nobody asked for the length


def test_the_loop_goes_on_after_a_sample_that_failed() -> None:
    class Gap(Numbers):
        def __getitem__(self, index: int) -> int:
            if index == 1:
                raise KeyError("no such sample")
            return super().__getitem__(index)

    iterator = iter(DataLoader(Gap(3)))
    assert next(iterator).tolist() == [0]
    with pytest.raises(KeyError):
        next(iterator)
    assert next(iterator).tolist() == [20]
    with pytest.raises(StopIteration):
        next(iterator)


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"num_workers": -1}, ValueError, "num_workers option should be non-negative"),
    ({"timeout": -1}, ValueError, "timeout option should be non-negative"),
    ({"prefetch_factor": 2}, ValueError, "prefetch_factor option could only be specified"),
    ({"prefetch_factor": -1, "num_workers": 1}, ValueError, "should be non-negative"),
    ({"persistent_workers": True}, ValueError, "persistent_workers option needs"),
    ({"sampler": [1], "shuffle": True}, ValueError, "mutually exclusive with shuffle"),
    ({"batch_sampler": [[1]], "batch_size": 2}, ValueError, "batch_sampler option is mutually"),
    ({"batch_sampler": [[1]], "shuffle": True}, ValueError, "batch_sampler option is mutually"),
    ({"batch_sampler": [[1]], "drop_last": True}, ValueError, "batch_sampler option is mutually"),
    ({"batch_size": None, "drop_last": True}, ValueError, "batch_size=None option disables"),
    ({"batch_size": 0}, ValueError, "batch_size should be a positive integer"),
    ({"multiprocessing_context": "fork"}, ValueError, "can only be used with multi-process"),
    (
        {"multiprocessing_context": "none", "num_workers": 1},
        ValueError,
        "should specify a valid start method",
    ),
    (
        {"multiprocessing_context": 3, "num_workers": 1},
        TypeError,
        "should be a valid context object",
    ),
]


@pytest.mark.parametrize(("options", "error", "words"), REFUSED)
def test_refused_arguments(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        DataLoader(range(5), **options)


@pytest.mark.parametrize("name", ["shuffle", "sampler", "batch_sampler"])
def test_a_stream_takes_no_other_order(name: str) -> None:
    with pytest.raises(ValueError, match=f"expected unspecified {name} option"):
        DataLoader(Stream(3), **{name: [1] if name != "shuffle" else True})


def test_attributes_that_stay() -> None:
    loader = DataLoader(range(5), batch_size=2)
    assert isinstance(loader.sampler, data.SequentialSampler)
    assert isinstance(loader.batch_sampler, data.BatchSampler)
    for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set"):
            setattr(loader, name, None)
    loader.collate_fn = list
    assert list(loader) == [[0, 1], [2, 3], [4]]


def test_pinning_without_an_accelerator_warns() -> None:
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator"):
        assert lists(DataLoader([1, 2], pin_memory=True)) == [[1], [2]]


def test_more_processes_than_processors_are_reported() -> None:
    with pytest.warns(UserWarning, match="This DataLoader will create 10000 worker processes"):
        DataLoader([1, 2], num_workers=10000)


def test_an_iterator_is_not_pickled() -> None:
    import pickle

    with pytest.raises(NotImplementedError, match="cannot be pickled"):
        pickle.dumps(iter(DataLoader([1])))


def test_module_paths_of_pytorch() -> None:
    for path, name in (
        ("utils.data.dataset", "Dataset"),
        ("utils.data.sampler", "RandomSampler"),
        ("utils.data.dataloader", "DataLoader"),
        ("utils.data.dataloader", "default_collate"),
        ("utils.data.distributed", "DistributedSampler"),
        ("utils.data._utils.collate", "default_collate"),
    ):
        assert getattr(submodule(path), name) is getattr(data, name)


@weft_only
@pytest.mark.parametrize(
    "path", ["", ".dataset", ".sampler", ".dataloader", ".distributed", "._utils.collate",
             "._utils.worker"]
)  # fmt: skip
def test_the_examples_in_docstrings(path: str) -> None:
    module = submodule("utils.data" + path)
    names = {**vars(data), "weft": weft}
    found = doctest.testmod(module, extraglobs=names)
    assert found.attempted > 0 and found.failed == 0


@weft_only
def test_the_light_import() -> None:
    import subprocess
    import sys

    code = (
        "import weft, sys; assert 'weft.utils.data' not in sys.modules; "
        "import weft.utils.data; assert 'numpy' not in sys.modules; "
        "print(weft.utils.data.default_collate([1, 2]))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "tensor([1, 2])\n"


def test_iterating_draws_the_same_numbers_for_any_number_of_workers() -> None:
    def after(**options: Any) -> float:
        weft.manual_seed(3)
        random.seed(3)
        for _ in DataLoader(range(4), shuffle=True, **options):
            pass
        return weft.rand(()).item() + random.random()

    assert after() == after(num_workers=1)
