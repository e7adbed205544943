"""`DataLoader.state_dict()`: interrupted anywhere, the very next sample comes next."""

from __future__ import annotations

import itertools
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ._target import submodule, weft, weft_only

data = submodule("utils.data")
DataLoader = data.DataLoader

pytest.importorskip("numpy")  # loaded, so that its random state is a part of every position

pytestmark = weft_only

KINDS: dict[str, dict[str, Any]] = {
    "alone": {},
    "threads": {"num_workers": 2, "worker_method": "thread"},
    "three threads": {"num_workers": 3, "worker_method": "thread"},
    "processes": {"num_workers": 2, "multiprocessing_context": "fork"},
    "persistent": {
        "num_workers": 2,
        "multiprocessing_context": "fork",
        "persistent_workers": True,
    },
}
ALL_KINDS = pytest.mark.parametrize("kind", list(KINDS))


# ---- datasets and samplers -----------------------------------------------------------------------


class Noisy(data.Dataset):  # type: ignore[misc]
    """Samples with random numbers in them, as an augmentation would draw them."""

    def __len__(self) -> int:
        return 13

    def __getitem__(self, index: int) -> Any:
        info = data.get_worker_info()
        if info is not None and info.rng is not None:
            noise = info.rng.random_generator.random()
            return index, noise, weft.rand((), generator=info.rng.torch_generator)
        return index, random.random(), weft.rand(())


class Stream(data.IterableDataset):  # type: ignore[misc]
    """A stream through a buffer that shuffles it."""

    def __iter__(self) -> Iterator[tuple[int, float]]:
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        source = random if info is None or info.rng is None else info.rng.random_generator
        # The second worker has less.
        numbers = iter(range(first, 9 if first == 1 else 17, step))
        buffer = list(itertools.islice(numbers, 3))
        while buffer:
            place = source.randrange(len(buffer))
            yield buffer[place], source.random()
            following = next(numbers, None)
            if following is None:
                del buffer[place]
            else:
                buffer[place] = following


class StatefulStream(data.IterableDataset):  # type: ignore[misc]
    """Knows where it is, and cannot be skipped through."""

    def __init__(self) -> None:
        self.done = 0
        self.produced = 0

    def __iter__(self) -> Iterator[int]:
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for number in range(first + self.done * step, 8 if first == 1 else 19, step):
            self.done += 1
            self.produced += 1
            yield number
        self.done = 0

    def state_dict(self) -> dict[str, int]:
        return {"done": self.done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.done = state["done"]


class StatefulSampler(data.Sampler):  # type: ignore[misc]
    """Draws from a generator that nobody else knows, and never begins again."""

    def __init__(self) -> None:
        self.random = random.Random(5)
        self.left: list[int] = []

    def __iter__(self) -> Iterator[int]:
        if not self.left:
            self.left = self.random.sample(range(13), 13)
        while self.left:
            yield self.left.pop()

    def __len__(self) -> int:
        return 13

    def state_dict(self) -> dict[str, Any]:
        return {"random": self.random.getstate(), "left": self.left}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.random.setstate(state["random"])
        self.left = list(state["left"])


class Shuffled(data.Sampler):  # type: ignore[misc]
    """Has no state of its own: what most people write."""

    def __iter__(self) -> Iterator[int]:
        order = list(range(13))
        random.shuffle(order)
        yield from order

    def __len__(self) -> int:
        return 13


def seeded() -> Any:
    return weft.Generator().manual_seed(99)


LOADERS: dict[str, Callable[..., Any]] = {
    "shuffled": lambda **w: DataLoader(Noisy(), 2, shuffle=True, **w),
    "in order": lambda **w: DataLoader(Noisy(), 2, drop_last=True, **w),
    "own generator": lambda **w: DataLoader(range(13), 2, shuffle=True, generator=seeded(), **w),
    "sampler's generator": lambda **w: DataLoader(
        range(13), 2, sampler=data.RandomSampler(range(13), True, generator=seeded()), **w
    ),
    "subset": lambda **w: DataLoader(range(13), 2, sampler=data.SubsetRandomSampler(range(3, 12)),
                                     **w),
    "weighted": lambda **w: DataLoader(
        range(13), 3, sampler=data.WeightedRandomSampler([1.0] * 13, 13), **w
    ),
    "single samples": lambda **w: DataLoader(range(5), None, shuffle=True, **w),
    "batch sampler": lambda **w: DataLoader(Noisy(), batch_sampler=[[3], [1, 2], [5, 4], [9]], **w),
    "stateful sampler": lambda **w: DataLoader(Noisy(), 2, sampler=StatefulSampler(), **w),
    "sampler of the user": lambda **w: DataLoader(Noisy(), 2, sampler=Shuffled(), **w),
    "distributed": lambda **w: DataLoader(
        range(13), 2, sampler=data.DistributedSampler(range(13), 2, 1), **w
    ),
    "distributed batches": lambda **w: DataLoader(
        range(13),
        batch_sampler=data.BatchSampler(data.DistributedSampler(range(13), 2, 1), 2, False),
        **w,
    ),
    "generator of the inner sampler": lambda **w: DataLoader(
        range(13),
        batch_sampler=data.BatchSampler(
            data.RandomSampler(range(13), generator=seeded()), 2, False
        ),
        **w,
    ),
    "stream": lambda **w: DataLoader(Stream(), 2, **w),
    "single samples of a stream": lambda **w: DataLoader(Stream(), None, **w),
    "stateful stream": lambda **w: DataLoader(StatefulStream(), 2, **w),
}  # fmt: skip


# ---- interrupting -------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    if isinstance(value, weft.Tensor):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def seed_all() -> None:
    weft.manual_seed(11)
    random.seed(11)


def epoch(loader: Any, number: int) -> Iterator[Any]:
    for sampler in (loader.sampler, getattr(loader.batch_sampler, "sampler", None)):
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(number)
    for batch in loader:
        yield plain(batch)
        weft.rand(3)  # as the training would


def interrupted(make: Callable[..., Any], workers: dict[str, Any], after: int) -> list[Any]:
    """Two epochs, by two loaders: the second goes on where the first was after so many batches."""
    seed_all()
    loader = make(**workers)
    begun: list[list[Any]] = []
    left = after
    for number in range(2):
        begun.append([])
        batches = epoch(loader, number)
        begun[-1] += itertools.islice(batches, left)
        left -= len(begun[-1])
        if left == 0:
            break
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    before = weft.get_rng_state(), random.getstate()
    batches.close()  # type: ignore[attr-defined]
    del loader, batches

    weft.manual_seed(12345)
    random.seed(54321)
    loader = make(**workers)
    loader.load_state_dict(state)
    weft.set_rng_state(before[0])
    random.setstate(before[1])
    weft.rand(3)  # what the loop would have drawn after that batch
    begun[-1] += list(epoch(loader, len(begun) - 1))
    if len(begun) == 1:
        begun.append(list(epoch(loader, 1)))
    return begun


@ALL_KINDS
@pytest.mark.parametrize("name", list(LOADERS))
def test_interrupted_at_every_index(name: str, kind: str) -> None:
    make, workers = LOADERS[name], KINDS[kind]
    seed_all()
    loader = make(**workers)
    expected = [list(epoch(loader, number)) for number in range(2)]
    del loader
    count = len(expected[0])
    assert count >= 4
    stop = 2 * count + 1 if kind in ("alone", "persistent") else count + 2
    for after in range(1, stop):
        assert interrupted(make, workers, after) == expected, f"after {after} batches"


@ALL_KINDS
def test_before_the_first_batch(kind: str) -> None:
    def rest(state: Any) -> list[Any]:
        loader = LOADERS["own generator"](**KINDS[kind])
        if state is not None:
            loader.load_state_dict(state)
        return [plain(batch) for batch in loader]

    unstarted = LOADERS["own generator"](**KINDS[kind])
    state = unstarted.state_dict()
    assert rest(state) == rest(None)
    begun = LOADERS["own generator"](**KINDS[kind])
    iterator = iter(begun)
    state = begun.state_dict()
    assert rest(state) == [plain(batch) for batch in iterator]


@ALL_KINDS
@pytest.mark.parametrize("name", ["shuffled", "stream", "stateful stream", "stateful sampler"])
def test_a_state_says_the_same_after_it_was_loaded(name: str, kind: str) -> None:
    """A program may be interrupted again before, or soon after, it goes on."""
    make, workers = LOADERS[name], KINDS[kind]
    seed_all()
    expected = list(epoch(make(**workers), 0))
    seed_all()
    loader = make(**workers)
    batches = epoch(loader, 0)
    found = []
    for _ in range(len(expected)):
        found.append(next(batches))
        state = loader.state_dict()
        before = random.getstate(), weft.get_rng_state()
        batches.close()  # type: ignore[attr-defined]
        loader = make(**workers)
        loader.load_state_dict(state)
        loader_again = make(**workers)
        loader_again.load_state_dict(loader.state_dict())
        loader = loader_again
        random.setstate(before[0])
        weft.set_rng_state(before[1])
        weft.rand(3)
        batches = epoch(loader, 0)
    assert found == expected and list(batches) == []


@ALL_KINDS
def test_going_on_does_not_touch_the_programs_random_numbers(kind: str) -> None:
    seed_all()
    loader = LOADERS["sampler of the user"](**KINDS[kind])
    next(iter(loader))
    state = loader.state_dict()
    loader = LOADERS["sampler of the user"](**KINDS[kind])
    loader.load_state_dict(state)
    before = random.getstate(), weft.get_rng_state().tolist()
    batches = iter(loader)
    assert (random.getstate(), weft.get_rng_state().tolist()) == before
    del batches


def test_numpy_random_numbers_are_part_of_a_workers_position() -> None:
    import numpy

    class Augmented(Noisy):
        def __getitem__(self, index: int) -> Any:
            return float(numpy.random.rand())

    def make() -> Any:
        return DataLoader(Augmented(), 2, **KINDS["processes"])

    weft.manual_seed(3)
    expected = [plain(batch) for batch in make()]
    for after in range(1, len(expected)):
        weft.manual_seed(3)
        loader = make()
        batches = iter(loader)
        begun = [plain(next(batches)) for _ in range(after)]
        state = loader.state_dict()
        loader = make()
        loader.load_state_dict(state)
        assert begun + [plain(batch) for batch in loader] == expected


@pytest.mark.parametrize("after", [1, 4, 9])
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_out_of_order_every_sample_comes_once(kind: str, after: int) -> None:
    def late(index: int) -> int:
        if index in (0, 5):
            import time

            time.sleep(0.2)
        return index

    class Late(Noisy):
        def __getitem__(self, index: int) -> int:
            return late(index)

    def make() -> Any:
        return DataLoader(Late(), in_order=False, **KINDS[kind])

    loader = make()
    batches = iter(loader)
    begun = [next(batches).item() for _ in range(after)]
    state = loader.state_dict()
    if after == 4:
        assert state["ahead"], "0 is late, so others came before it"
    del batches
    loader = make()
    loader.load_state_dict(state)
    assert sorted(begun + [batch.item() for batch in loader]) == list(range(13))


@pytest.mark.parametrize("now", ["alone", "threads", "processes"])
@pytest.mark.parametrize("before", ["alone", "threads", "processes"])
def test_other_workers_give_the_same_samples(before: str, now: str) -> None:
    seed_all()
    make = LOADERS["own generator"]
    expected = [plain(batch) for batch in make()]
    loader = make(**KINDS[before])
    batches = iter(loader)
    begun = [plain(next(batches)) for _ in range(3)]
    state = loader.state_dict()
    loader = make(**KINDS[now])
    loader.load_state_dict(state)
    assert begun + [plain(batch) for batch in loader] == expected


def test_workers_that_are_spawned_go_on(tmp_path: Any) -> None:
    import subprocess
    import sys

    from .test_data_workers import environment, script

    program = """
        import random, sys
        import weft
        from weft.utils.data import DataLoader, TensorDataset

        class Noisy(TensorDataset):
            def __getitem__(self, index):
                return super().__getitem__(index)[0].item(), random.random()

        def make():
            return DataLoader(Noisy(weft.arange(9)), 2, True, num_workers=2,
                              multiprocessing_context="spawn")

        if __name__ == "__main__":
            weft.manual_seed(2)
            expected = [str(batch) for batch in make()]
            weft.manual_seed(2)
            loader = make()
            batches = iter(loader)
            begun = [str(next(batches)) for _ in range(3)]
            state = loader.state_dict()
            del batches
            loader = make()
            loader.load_state_dict(state)
            assert begun + [str(batch) for batch in loader] == expected
            print("done")
    """
    ended = subprocess.run(
        [sys.executable, str(script(tmp_path, program))],
        capture_output=True, text=True, timeout=100, env=environment(),
    )  # fmt: skip
    assert ended.stdout == "done\n", ended.stderr


@ALL_KINDS
def test_an_exception_counts_as_delivered(kind: str) -> None:
    class Broken(Noisy):
        def __getitem__(self, index: int) -> int:
            if index == 2:
                raise ValueError("broken")
            return index

    def make() -> Any:
        return DataLoader(Broken(), **KINDS[kind])

    loader = make()
    batches = iter(loader)
    assert next(batches).item() == 0 and next(batches).item() == 1
    with pytest.raises(ValueError, match="broken"):
        next(batches)
    state = loader.state_dict()
    loader = make()
    loader.load_state_dict(state)
    assert next(iter(loader)).item() == 3


def test_the_epoch_of_a_distributed_sampler_is_part_of_the_position() -> None:
    make = LOADERS["distributed"]
    loader = make()
    batches = epoch(loader, 7)
    begun = [next(batches)]
    state = loader.state_dict()
    expected = begun + list(batches)
    loader = make()
    loader.load_state_dict(state)
    assert begun + [plain(batch) for batch in loader] == expected


def test_a_stream_with_a_broken_sample_goes_on_after_it() -> None:
    class Broken(data.IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Any:
            self.next = -1
            return self

        def __next__(self) -> int:
            self.next += 1
            if self.next == 2:
                raise ZeroDivisionError
            if self.next == 6:
                raise StopIteration
            return self.next

    for kind in ("alone", "threads"):
        workers = {**KINDS[kind], "num_workers": 1} if kind != "alone" else {}
        loader = DataLoader(Broken(), **workers)
        batches = iter(loader)
        next(batches), next(batches)
        with pytest.raises(ZeroDivisionError):
            next(batches)
        assert next(batches).item() == 3
        state = loader.state_dict()
        loader = DataLoader(Broken(), **workers)
        loader.load_state_dict(state)
        assert [batch.item() for batch in loader] == [4, 5]


def content(value: Any) -> set[type]:
    """The classes of all that a state is made of."""
    if isinstance(value, dict):
        return {dict}.union(*map(content, value), *map(content, value.values()))
    if isinstance(value, list):
        return {list}.union(*map(content, value))
    return {type(value)}


@ALL_KINDS
@pytest.mark.parametrize("name", ["shuffled", "stream", "stateful stream", "sampler of the user"])
def test_a_state_needs_no_pickle(name: str, kind: str) -> None:
    loader = LOADERS[name](**KINDS[kind])
    for _ in zip(range(2), loader, strict=False):
        pass
    harmless = {dict, list, str, int, float, bool, type(None), weft.Tensor}
    assert content(loader.state_dict()) <= harmless


def test_a_state_does_not_change_while_the_loop_goes_on() -> None:
    loader = LOADERS["stateful sampler"]()
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    copy = pickle.dumps(state)
    next(batches)
    assert pickle.dumps(state) == copy


def test_states_that_do_not_fit_are_refused() -> None:
    loader = DataLoader(range(10), 2)
    next(iter(loader))
    state = loader.state_dict()
    with pytest.raises(ValueError, match="batch_size=2, this one has batch_size=3"):
        DataLoader(range(10), 3).load_state_dict(state)
    with pytest.raises(ValueError, match="iterable=False, this one has iterable=True"):
        DataLoader(Stream(), 2).load_state_dict(state)
    with pytest.raises(TypeError, match=r"expected what DataLoader.state_dict\(\) returned"):
        DataLoader(range(10), 2).load_state_dict({})
    with pytest.raises(ValueError, match="version 99"):
        DataLoader(range(10), 2).load_state_dict({**state, "version": 99})
    stream = DataLoader(Stream(), 2, **KINDS["threads"])
    next(iter(stream))
    with pytest.raises(ValueError, match="num_workers=2, this one has num_workers=0"):
        DataLoader(Stream(), 2).load_state_dict(stream.state_dict())
    for _ in loader:
        state = loader.state_dict()
    shorter = DataLoader(range(4), 2)
    shorter.load_state_dict(state)
    with pytest.raises(RuntimeError, match="after batch 5, but the sampler ends after 2"):
        iter(shorter)
