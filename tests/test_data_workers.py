"""The loader with workers: processes and threads, how they end, and what travels."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ._target import submodule, weft, weft_only

data = submodule("utils.data")
DataLoader = data.DataLoader

pytestmark = weft_only

PROCESSES: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork"}
THREADS: dict[str, Any] = {"num_workers": 2, "worker_method": "thread"}
BOTH = pytest.mark.parametrize("workers", [PROCESSES, THREADS], ids=["processes", "threads"])
SEGMENT = 1 << 16  # floats: larger than what goes through the socket


class Calls(data.Dataset):  # type: ignore[misc]
    """Sample `i` is what a function makes of `i`."""

    def __init__(self, count: int, function: Callable[[int], Any]) -> None:
        self.count = count
        self.function = function

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.function(index)


class Stream(data.IterableDataset):  # type: ignore[misc]
    """Each worker's share of 0, 1, 2, ..., in one piece: later workers have less."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        info = data.get_worker_info()
        if info is None:
            return iter(range(self.count))
        share = -(-self.count // info.num_workers)
        return iter(range(info.id * share, min(self.count, (info.id + 1) * share)))


def lists(batches: Any) -> list[Any]:
    return [batch.tolist() for batch in batches]


def workers_left() -> list[Any]:
    gc.collect()
    threads = [t for t in threading.enumerate() if t.name.startswith("DataLoader worker")]
    return [*multiprocessing.active_children(), *threads]


@pytest.fixture(autouse=True)
def nobody_waits_for_ever() -> Iterator[None]:
    def too_long(*_: object) -> None:
        raise TimeoutError("the test hangs")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = os.listdir("/dev/shm"), len(os.listdir("/proc/self/fd"))
    yield
    assert workers_left() == []
    assert os.listdir("/dev/shm") == before[0]
    assert len(os.listdir("/proc/self/fd")) <= before[1] + 3  # the pool of threads may have begun


# ---- what is delivered -------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("persistent", [False, True])
def test_the_same_batches_as_without_workers(workers: dict[str, Any], persistent: bool) -> None:
    squares = Calls(11, lambda index: index * index)
    for options in (
        {"batch_size": 3},
        {"batch_size": 3, "drop_last": True},
        {"batch_size": None},
        {"batch_sampler": [[5], [1, 2], [3]]},
    ):
        alone = [weft.as_tensor(batch).tolist() for batch in DataLoader(squares, **options)]
        for prefetch in (0, 1, 4):
            loader = DataLoader(
                squares,
                prefetch_factor=prefetch,
                persistent_workers=persistent,
                **options,
                **workers,
            )
            for _ in range(2):
                assert [weft.as_tensor(batch).tolist() for batch in loader] == alone


@BOTH
def test_shuffled_epochs(workers: dict[str, Any]) -> None:
    def epochs(**options: Any) -> Any:
        weft.manual_seed(8)
        loader = DataLoader(range(20), batch_size=6, shuffle=True, **options)
        return [lists(loader), lists(loader)]

    assert epochs() == epochs(**workers)


@BOTH
def test_streams_are_shared_out(workers: dict[str, Any]) -> None:
    batches = lists(DataLoader(Stream(9), batch_size=2, **workers))
    assert batches == [[0, 1], [5, 6], [2, 3], [7, 8], [4]]
    assert lists(DataLoader(Stream(9), batch_size=2, drop_last=True, **workers)) == batches[:4]
    assert list(DataLoader(Stream(3), batch_size=None, **workers)) == [0, 2, 1]
    persistent = DataLoader(Stream(9), batch_size=2, persistent_workers=True, **workers)
    assert lists(persistent) == batches == lists(persistent)
    for batch in persistent:
        assert batch.tolist() == [0, 1]
        break
    assert lists(persistent) == batches
    del persistent, batch


@BOTH
def test_out_of_order(workers: dict[str, Any]) -> None:
    def slow_first(index: int) -> int:
        if index == 0:
            time.sleep(0.3)
        return index

    loader = DataLoader(Calls(8, slow_first), in_order=False, **workers)
    found = [batch.item() for batch in loader]
    assert sorted(found) == list(range(8)) and found[0] != 0


@BOTH
def test_a_loop_that_is_left_takes_its_workers_along(workers: dict[str, Any]) -> None:
    for batch in DataLoader(range(100), **workers):
        assert batch.item() == 0
        break
    assert workers_left() == []
    persistent = DataLoader(range(100), persistent_workers=True, **workers)
    next(iter(persistent))
    assert len(workers_left()) == 2
    del persistent
    assert workers_left() == []


def test_persistent_workers_are_the_same_processes() -> None:
    def epochs(**options: Any) -> list[set[int]]:
        loader = DataLoader(Calls(6, lambda _: os.getpid()), **options, **PROCESSES)
        return [{batch.item() for batch in loader} for _ in range(2)]

    first, second = epochs(persistent_workers=True)
    assert first == second and len(first) == 2
    first, second = epochs()
    assert not first & second


# ---- what workers know ---------------------------------------------------------------------------


@BOTH
def test_worker_info(workers: dict[str, Any]) -> None:
    def about(_: int) -> tuple[Any, ...]:
        info = data.get_worker_info()
        return info.id, info.num_workers, info.seed, info.dataset.count, info.worker_method

    assert data.get_worker_info() is None
    found = list(DataLoader(Calls(4, about), batch_size=None, **workers))
    assert data.get_worker_info() is None
    first, second = found[0], found[1]
    assert found == [first, second, first, second]
    method = workers.get("worker_method", "multiprocessing")
    assert first[0] == 0 and second[0] == 1 and first[1] == 2 and first[3:] == [4, method]
    assert second[2] == first[2] + 1


@BOTH
def test_worker_init_fn(workers: dict[str, Any]) -> None:
    seen = threading.local()

    def begin(number: int) -> None:
        seen.value = 10 * number

    loader = DataLoader(Calls(3, lambda index: seen.value + index), worker_init_fn=begin, **workers)
    assert lists(loader) == [[0], [11], [2]]

    def fails(number: int) -> None:
        raise ZeroDivisionError(f"worker {number} has no luck")

    with pytest.raises(ZeroDivisionError, match="has no luck"):
        next(iter(DataLoader(range(3), worker_init_fn=fails, **workers)))


def test_random_numbers_in_processes() -> None:
    numpy = pytest.importorskip("numpy")

    def draw(_: int) -> Any:
        return weft.rand(()).item(), random.random(), numpy.random.rand()

    def epoch() -> list[Any]:
        weft.manual_seed(4)
        return list(DataLoader(Calls(6, draw), batch_size=None, **PROCESSES))

    first = epoch()
    assert epoch() == first
    assert len({number for sample in first for number in sample}) == 18
    weft.manual_seed(4)
    loader = DataLoader(Calls(2, draw), batch_size=None, **PROCESSES)
    base_seed = weft.empty((), dtype=weft.int64).random_().item()
    weft.manual_seed(4)
    for number, sample in enumerate(loader):
        seeded = random.Random(base_seed + number)
        assert sample[1] == seeded.random()
        weft.manual_seed(base_seed + number)
        assert sample[0] == weft.rand(()).item()


def test_random_numbers_in_threads() -> None:
    def draw(_: int) -> Any:
        rng = data.get_worker_info().rng
        mine = weft.rand((), generator=rng.torch_generator).item()
        return rng.random_generator.random(), mine, rng.numpy_generator.random()

    pytest.importorskip("numpy")

    def epoch() -> list[Any]:
        weft.manual_seed(4)
        return list(DataLoader(Calls(6, draw), batch_size=None, **THREADS))

    first = epoch()
    assert epoch() == first
    assert len({number for sample in first for number in sample}) == 18


# ---- what goes wrong ---------------------------------------------------------------------------


class TwoArguments(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(one, two)


@BOTH
def test_exceptions_come_with_the_workers_traceback(workers: dict[str, Any]) -> None:
    def troubled(index: int) -> int:
        if index == 1:
            raise ValueError("a broken sample")
        return index

    iterator = iter(DataLoader(Calls(4, troubled), **workers))
    assert next(iterator).item() == 0
    with pytest.raises(ValueError, match="a broken sample") as caught:
        next(iterator)
    lines = [entry.name for entry in caught.traceback]
    notes = "".join(getattr(caught.value, "__notes__", ()))
    assert "in troubled" in str(caught.value) or "troubled" in lines
    assert "in DataLoader worker" in str(caught.value) + notes
    assert [batch.item() for batch in iterator] == [2, 3]


def test_exceptions_that_are_hard_to_send() -> None:
    class Local(KeyError):
        pass

    def raises(error: Exception) -> Any:
        def function(_: int) -> Any:
            raise error

        return DataLoader(Calls(1, function), **PROCESSES)

    with pytest.raises(KeyError, match="Local: 'gone'") as caught:
        list(raises(Local("gone")))
    assert "\\n" not in str(caught.value)  # a message, not its repr
    with pytest.raises(RuntimeError, match="Caught TwoArguments in DataLoader worker process 0"):
        list(raises(TwoArguments(1, 2)))
    with pytest.raises(Exception, match=r"pickle|local object") as unsendable:
        next(iter(DataLoader(Calls(1, lambda _: lambda: 0), batch_size=None, **PROCESSES)))
    assert "which could not send its data" in str(unsendable.value)


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), r"killed by signal 9 \(Killed\)"),
        (lambda: os._exit(3), "with exit code 3"),
        (lambda: os._exit(0), "it called exit"),
    ],
)
@pytest.mark.parametrize("in_order", [True, False])
def test_a_worker_that_dies_is_reported(end: Any, words: str, in_order: bool) -> None:
    def dies(index: int) -> int:
        if index == 3:
            end()
        return index

    iterator = iter(DataLoader(Calls(100, dies), in_order=in_order, **PROCESSES))
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexp") as e:
        for _ in range(100):
            next(iterator)
    assert time.monotonic() - begun < 5
    assert str(e.value).count("exited") == 1
    assert re.search(words, str(e.value))
    with pytest.raises(StopIteration):
        next(iterator)


@BOTH
def test_a_worker_that_takes_too_long_is_reported(workers: dict[str, Any]) -> None:
    def slow(index: int) -> int:
        time.sleep(0.6)
        return index

    begun = time.monotonic()
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.1 seconds"):
        next(iter(DataLoader(Calls(2, slow), timeout=0.1, **workers)))
    assert time.monotonic() - begun < 2
    time.sleep(0.6)  # a thread cannot be killed
    quick = DataLoader(range(4), timeout=20, **workers)
    assert lists(quick) == [[0], [1], [2], [3]]


@pytest.mark.parametrize("size", [100, 300_000])
def test_workers_that_are_killed_anywhere(size: int) -> None:
    """In the middle of what they send, too: there is an error, and no waiting for ever."""
    data_of_size = weft.zeros(size)
    choice = random.Random(1)
    for kept_back in (False, True):
        for _ in range(6):
            loader = DataLoader(
                Calls(1 << 40, lambda _: data_of_size), batch_size=None, timeout=20, **PROCESSES
            )
            iterator = iter(loader)
            kept = [next(iterator) for _ in range(4)]
            pid = choice.choice(multiprocessing.active_children()).pid
            killer = threading.Timer(choice.random() * 0.05, os.kill, (pid, signal.SIGKILL))
            killer.start()
            with pytest.raises(RuntimeError, match="exited unexpectedly"):
                while True:
                    kept.append(next(iterator))
                    if not kept_back:
                        kept.clear()
            killer.join()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_thread_that_is_told_to_exit_is_not_waited_for(error: type[BaseException]) -> None:
    def leave(index: int) -> int:
        raise error

    with pytest.raises(error):
        next(iter(DataLoader(Calls(3, leave), timeout=20, **THREADS)))


def test_threads_take_no_way_of_starting_processes() -> None:
    with pytest.raises(ValueError, match="can only be used with multi-process loading"):
        DataLoader(range(2), multiprocessing_context="fork", **THREADS)
    with pytest.raises(ValueError, match="worker_method option should be one of"):
        DataLoader(range(2), num_workers=1, worker_method="fibre")


# ---- what travels --------------------------------------------------------------------------------


def travelled(sample: Any) -> Any:
    return next(iter(DataLoader(Calls(1, lambda _: sample), batch_size=None, **PROCESSES)))


@pytest.mark.parametrize("count", [0, 1, 100, SEGMENT, 20 * SEGMENT])
def test_tensors_of_all_sizes_and_types(count: int) -> None:
    for dtype in (weft.float32, weft.bfloat16, weft.bool, weft.int8):
        sent = (weft.arange(count) % 100).to(dtype)
        found = travelled({"x": sent, "y": [sent.clone(), 3, "text"]})
        for tensor in (found["x"], found["y"][0]):
            assert tensor.dtype is dtype and weft.equal(tensor, sent)
        found["x"].zero_()
        assert weft.equal(found["y"][0], sent)
    assert travelled(weft.tensor(3.5)).item() == 3.5


def test_tensors_keep_their_layout() -> None:
    image = weft.rand(2, 3, 64, 64)
    last = travelled(image.to(memory_format=weft.channels_last))
    assert last.is_contiguous(memory_format=weft.channels_last) and weft.equal(last, image)
    wide = weft.rand(10, 1000)
    assert weft.equal(travelled(wide[:, ::7]), wide[:, ::7])
    assert weft.equal(travelled(wide.t()), wide.t()) and travelled(wide.t()).stride() == (1, 1000)
    assert weft.equal(travelled(wide[3:5, 1:]), wide[3:5, 1:])
    assert weft.equal(travelled(wide[:1].expand(5, 1000)), wide[:1].expand(5, 1000))


def test_gradients_do_not_travel_unnoticed() -> None:
    leaf = weft.ones(3, requires_grad=True)
    found = travelled(leaf)
    assert found.requires_grad and found.is_leaf
    (found * 2).sum().backward()
    assert found.grad.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        travelled(leaf * 2)


def test_arrays_travel() -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(3 * SEGMENT, dtype="float32").reshape(3, SEGMENT)
    found = DataLoader(Calls(1, lambda _: array), batch_size=None, collate_fn=lambda x: x,
                       **PROCESSES)  # fmt: skip
    (copy,) = found
    assert isinstance(copy, numpy.ndarray) and (copy == array).all()
    copy += 1
    assert array[0, 0] == 0


def test_batches_that_are_kept_stay_what_they_are() -> None:
    loader = DataLoader(
        Calls(60, lambda index: weft.full((SEGMENT,), float(index))), batch_size=None, **PROCESSES
    )
    kept = list(loader)  # far more than there are segments
    parts = [batch[5:10] for batch in loader]
    view = next(iter(loader)).numpy() if "numpy" in sys.modules else None
    for index, (batch, part) in enumerate(zip(kept, parts, strict=True)):
        assert weft.equal(batch, weft.full((SEGMENT,), float(index)))
        assert part.tolist() == [float(index)] * 5
    gc.collect()
    if view is not None:
        assert (view == 0).all()


def test_what_is_kept_at_random_stays_what_it_is() -> None:
    choice = random.Random(2)

    def sample(index: int) -> Any:
        size = 1000 * (1 + index % 97)  # from small to several segments' worth
        return weft.full((size,), float(index)), {"half": weft.full((size, 2), index)[:, 0]}

    kept: list[tuple[int, Any, Any]] = []
    loader = DataLoader(Calls(300, sample), batch_size=None, prefetch_factor=1, **PROCESSES)
    for index, (values, parts) in enumerate(loader):
        kept.append((index, values if choice.random() < 0.5 else values[7:99], parts["half"]))
        choice.shuffle(kept)
        del kept[choice.randrange(1, 8) :]
        for number, part, half in kept:
            assert part.min().item() == part.max().item() == number
            assert half.min().item() == half.max().item() == number


def test_segments_are_used_again() -> None:
    """Otherwise every batch would cost its page faults anew."""
    loader = DataLoader(
        Calls(40, lambda index: weft.full((SEGMENT,), float(index))),
        batch_size=None,
        num_workers=1,
        multiprocessing_context="fork",
    )
    places = {batch.data_ptr() for batch in loader}
    assert len(places) <= 4


def test_tasks_and_answers_that_fill_the_socket() -> None:
    """Neither end may wait for the other while the other waits for it."""
    loader = DataLoader(
        Calls(4_000_000, lambda index: index),
        batch_size=400_000,
        collate_fn=lambda batch: b"x" * 3_000_000 + str(batch[-1]).encode(),
        **PROCESSES,
    )
    ends = [int(batch[3_000_000:]) for batch in loader]
    assert ends == [400_000 * (i + 1) - 1 for i in range(10)]


# ---- processes and threads -----------------------------------------------------------------------


def large(seed: int) -> float:
    """Enough for every thread of the pool, and a matrix product."""
    x = weft.arange(1_000_000.0).view(1000, 1000) * (seed + 1) * 1e-9
    return float((x.exp().sum() + (x @ x).sum()).item())


def test_forked_workers_and_the_pool_of_threads() -> None:
    threads = weft.get_num_threads()
    weft.set_num_threads(4)
    try:
        expected = [large(seed) for seed in range(6)]

        def in_worker(seed: int) -> tuple[float, int]:
            number = weft.get_num_threads()
            weft.set_num_threads(2)  # a pool of the child's own
            value = large(seed)
            weft.set_num_threads(1)
            return value if large(seed) == value else -1.0, number

        for _ in range(3):
            values, numbers = [], []
            for value, number in DataLoader(Calls(6, in_worker), batch_size=None, **PROCESSES):
                values.append(value)
                numbers.append(number)
                assert large(2) == expected[2]  # the parent's pool, meanwhile
            assert values == expected and numbers == [1] * 6
    finally:
        weft.set_num_threads(threads)


def test_a_fork_while_other_threads_compute() -> None:
    threads = weft.get_num_threads()
    weft.set_num_threads(3)
    done = threading.Event()

    def compute() -> None:
        x = weft.rand(300, 300)
        while not done.is_set():
            (x @ x).exp().sum()

    busy = [threading.Thread(target=compute) for _ in range(2)]
    for thread in busy:
        thread.start()
    try:
        expected = large(1)
        for _ in range(8):
            loader = DataLoader(Calls(2, lambda _: large(1)), batch_size=None, timeout=30,
                                **PROCESSES)  # fmt: skip
            assert list(loader) == [expected] * 2
    finally:
        done.set()
        for thread in busy:
            thread.join()
        weft.set_num_threads(threads)


def script(folder: Path, text: str) -> Path:
    path = folder / "program.py"
    path.write_text(textwrap.dedent(text))
    return path


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}


SPAWNED = """
    import os, sys
    import weft
    from weft.utils.data import DataLoader, IterableDataset, TensorDataset, get_worker_info

    class Stream(IterableDataset):
        def __iter__(self):
            info = get_worker_info()
            return iter(range(info.id, 7, info.num_workers))

    class Broken(TensorDataset):
        def __getitem__(self, index):
            raise LookupError("not here")

    def note(number):
        os.environ["NOTE"] = str(number)

    def collate(batch):
        return os.environ["NOTE"] + str(batch)

    if __name__ == "__main__":
        how = dict(num_workers=2, multiprocessing_context=sys.argv[1])
        rows = TensorDataset(weft.arange(200_000.0).view(2, 100_000))
        sums = [batch.sum().item() for (batch,) in DataLoader(rows, **how)]
        assert sums == [row.sum().item() for (row,) in rows], sums
        loader = DataLoader(Stream(), batch_size=2, worker_init_fn=note, collate_fn=collate,
                            persistent_workers=True, **how)
        for _ in range(2):
            assert list(loader) == ["0[0, 2]", "1[1, 3]", "0[4, 6]", "1[5]"]
        try:
            list(DataLoader(Broken(weft.ones(1)), **how))
        except LookupError as error:
            assert "Caught LookupError in DataLoader worker process 0" in str(error)
        else:
            raise AssertionError("no error")
        try:
            iter(DataLoader(Stream(), worker_init_fn=lambda _: 0, **how))
        except Exception as error:
            assert "pickle" in str(error), error
            assert "get the dataset, collate_fn and worker_init_fn pickled" in error.__notes__[0]
        else:
            raise AssertionError("a lambda was pickled")
        print("done")
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_that_are_started_afresh(tmp_path: Path, method: str) -> None:
    program = script(tmp_path, SPAWNED)
    ended = subprocess.run(
        [sys.executable, str(program), method],
        capture_output=True, text=True, timeout=100, env=environment(),
    )  # fmt: skip
    assert ended.returncode == 0 and ended.stdout == "done\n", ended.stderr


ENDLESS = """
    import os, sys, time
    from weft.utils.data import DataLoader

    class Endless:
        def __len__(self):
            return 1 << 40
        def __getitem__(self, index):
            if index > 20:
                time.sleep(0.05)
            return index

    loader = DataLoader(Endless(), num_workers=2, worker_method=sys.argv[1])
    for number, batch in enumerate(loader):
        if number == 20:
            children = open(f"/proc/self/task/{os.getpid()}/children").read()
            print("begun", children, flush=True)
"""


def begun(tmp_path: Path, method: str) -> tuple[Any, list[int]]:
    process = subprocess.Popen(
        [sys.executable, str(script(tmp_path, ENDLESS)), method],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
        start_new_session=True,
    )  # fmt: skip
    word, *pids = process.stdout.readline().split()  # type: ignore[union-attr]
    assert word == "begun"
    return process, [int(pid) for pid in pids]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("method", ["multiprocessing", "thread"])
def test_ctrl_c_ends_everything_with_one_traceback(tmp_path: Path, method: str) -> None:
    process, pids = begun(tmp_path, method)
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt")
    assert not any(map(alive, pids))


RESTLESS = """
    import sys
    from weft.utils.data import DataLoader

    print("begun", flush=True)
    number = 0
    while True:
        for batch in DataLoader(
            range(4), num_workers=2, worker_method=sys.argv[1], persistent_workers=number % 2 == 1
        ):
            number += 1
            if number % 5 == 0:
                break
"""


def interrupted(process: subprocess.Popen[str]) -> str:
    """Presses Ctrl-C until the program ends; what it wrote to stderr meanwhile.

    Once is enough unless the signal meets a finalizer: Python drops any exception there, and says
    so ("Exception ignored in"). A person would press again.
    """
    try:
        for _ in range(4):
            os.killpg(process.pid, signal.SIGINT)
            try:
                return process.communicate(timeout=5)[1]  # until the last worker has gone, too
            except subprocess.TimeoutExpired as late:
                partial = late.stderr or b""
                assert b"Exception ignored in" in partial, partial
        raise AssertionError("four interrupts did not end the program")
    finally:
        if process.poll() is None:  # it would go on for ever, beginning workers
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("method", ["multiprocessing", "thread"])
def test_ctrl_c_while_workers_begin_and_end(tmp_path: Path, method: str) -> None:
    choice = random.Random(6)
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, str(script(tmp_path, RESTLESS)), method],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
            start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        time.sleep(0.02 + choice.random() * 0.1)
        errors = interrupted(process)
        assert process.returncode == -signal.SIGINT
        ignored = errors.count("Exception ignored in")
        assert errors.count("Traceback") == 1 + ignored, errors
        assert errors.rstrip().endswith("KeyboardInterrupt")


def test_workers_end_with_a_loop_that_was_killed(tmp_path: Path) -> None:
    process, pids = begun(tmp_path, "multiprocessing")
    assert len(pids) == 2 and all(map(alive, pids))
    process.kill()
    process.wait(20)
    # Less than the time after which idle workers look for themselves.
    deadline = time.monotonic() + 2.5
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [pid for pid in pids if alive(pid)]
    process.communicate(timeout=20)
    assert left == []
