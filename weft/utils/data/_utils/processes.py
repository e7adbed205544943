"""Workers that are processes.

Note [Worker processes]
Between the loop and each worker there is one socket: tasks go one way, answers the other, in the
same order. No queue, lock or thread is shared, so a worker that is killed at any moment leaves
nothing locked: its socket reports the end, the loop asks how the process died, and says so. In the
same way a worker whose loop has gone sees the end of its socket.

The loop never blocks in sending: a worker that is itself blocked in sending (because nobody reads)
would not read the task. What does not fit is kept, and sent while the loop waits for answers.

A forked process, worker or not, inherits the loop's ends of all sockets, and all segments. It
closes them at once: otherwise a worker would not see that its loop has gone while any of these
lives. A worker also sets back handlers of signals, and leaves weft's thread pool alone (Note [Fork]
in core/kernels/cpu/threads.cpp).
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import multiprocessing.connection  # or else joining imports it, which changes how Ctrl-C exits
import os
import pickle
import select
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from multiprocessing import reduction
from typing import Any

from .wire import Closed, Receiver, Sender, make_segments, read_task, task_bytes
from .worker import FAILURE, PATIENCE, Failure, Job, Start, Worker

_WATCH = 5000  # milliseconds after which an idle worker looks whether its parent still lives


# ---- the worker's process ----------------------------------------------------------------------


class _Ends:
    """The worker's socket and segments, on their way into its process."""

    def __init__(self, connection: socket.socket, segments: Sequence[int]) -> None:
        self.connection = connection
        self.segments = segments

    def __reduce__(self) -> Any:  # when the process is started afresh; a fork inherits them
        duplicate = reduction.DupFd
        return _take_ends, (
            duplicate(self.connection.fileno()),
            [duplicate(segment) for segment in self.segments],
        )


def _take_ends(connection: Any, segments: list[Any]) -> _Ends:
    return _Ends(
        socket.socket(fileno=connection.detach()), [segment.detach() for segment in segments]
    )


def _quiet(*_: object) -> None:
    """Ctrl-C reaches every process of the terminal: the loop's decides what to do about it."""


@contextlib.contextmanager
def ctrl_c_waits() -> Iterator[None]:
    """Inside, Ctrl-C is kept until the end.

    While workers are started: a process that is forked and at once interrupted would go on as a
    second copy of the whole program, and one that nobody has noted yet could not be ended.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(job: Job, number: int, start: Start, ends: _Ends, parent: int) -> None:
    signal.signal(signal.SIGINT, _quiet)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
    sender = Sender(ends.connection, ends.segments)
    worker = Worker(job, number, start)
    idle = select.poll()
    idle.register(ends.connection, select.POLLIN)
    with contextlib.suppress(Closed):
        while True:
            while not idle.poll(_WATCH):
                if os.getppid() != parent:
                    return
            new_epoch, task, released = read_task(ends.connection)
            sender.released(released)
            if new_epoch:
                worker.new_epoch()
                continue
            answer = worker.answer(task)
            try:
                sender.send(answer)
            except Closed:
                raise
            except Exception as error:  # it cannot be pickled
                where = f"in DataLoader worker process {number}, which could not send its data"
                sender.send((FAILURE, Failure(error, where), *answer[2:]))
            del answer, task


# ---- the loop's process ------------------------------------------------------------------------


class _Process:
    """One worker, as the loop sees it."""

    def __init__(self, context: Any, job: Job, number: int, start: Start, prefetch: int) -> None:
        self.connection, remote = socket.socketpair()
        self._segments = make_segments(prefetch + 2)
        self._starting = True
        self.unsent = b""
        self.answered = False
        _all.add(self)
        try:
            ends = _Ends(remote, self._segments)
            arguments = (job, number, start, ends, os.getpid())
            self.process = context.Process(target=_work, args=arguments, daemon=True)
            self.process.start()
        except BaseException as error:
            self.close()
            if isinstance(error, pickle.PicklingError | AttributeError | TypeError):
                error.add_note(
                    "Worker processes that are started afresh get the dataset, collate_fn and "
                    "worker_init_fn pickled: define them at the top of a module (no lambda), or "
                    "pass multiprocessing_context='fork'."
                )
            raise
        finally:
            remote.close()
        self._starting = False
        self.receiver = Receiver(self.connection, self._segments)

    def post(self, task: Any, new_epoch: bool = False) -> None:
        message = task_bytes((new_epoch, task, self.receiver.take_released()))
        if self.unsent:
            self.unsent += message
        else:
            self._send(message)

    def _send(self, message: bytes) -> None:
        try:
            count = self.connection.send(message, socket.MSG_DONTWAIT)
        except BlockingIOError:
            count = 0
        except ConnectionError:  # it is dead, which is reported when its answer is waited for
            count = len(message)
        self.unsent = message[count:]

    def send_unsent(self) -> None:
        self._send(self.unsent)

    def receive(self) -> Any:
        try:
            answer = self.receiver.receive()
        except Closed:
            raise RuntimeError(self._obituary()) from None
        self.answered = True
        return answer

    def _obituary(self) -> str:
        self.process.join(1.0)
        code = self.process.exitcode
        text = f"DataLoader worker (pid(s) {self.process.pid}) exited unexpectedly"
        if code is not None and code < 0:
            text += f": it was killed by signal {-code} ({signal.strsignal(-code)})."
            if code == -signal.SIGKILL:
                text += " Where nobody did that on purpose, memory has run out."
        elif code:
            text += f" with exit code {code}: its own error stands above, on the standard error."
            if not self.answered and self.process._start_method != "fork":
                text += (
                    " A worker that is started afresh imports the main script: keep what the "
                    "script does under `if __name__ == '__main__':`."
                )
        else:
            text += ": it called exit, or closed its connection."
        return text + " To see the error where it happens, try num_workers=0."

    def hang_up(self) -> None:
        """Tells the worker that nobody waits for it any more."""
        with contextlib.suppress(OSError):  # not only this end: forked processes have copies
            self.connection.shutdown(socket.SHUT_RDWR)

    def close_in_child(self) -> None:
        self.connection.close()
        if not self._starting:  # this is that worker's own process: it needs its segments
            self.close()

    def close(self) -> None:
        _all.discard(self)
        self.connection.close()
        for segment in self._segments:
            os.close(segment)
        self._segments = []


_all: set[_Process] = set()  # those that are open


def _close_in_child() -> None:
    for process in list(_all):
        process.close_in_child()


os.register_at_fork(after_in_child=_close_in_child)


class Processes:
    """A crew of worker processes."""

    def __init__(
        self, job: Job, starts: list[Start], timeout: float, context: Any, prefetch: int
    ) -> None:
        self._timeout = timeout
        self._owner = os.getpid()
        context = context or multiprocessing.get_context()
        if context.get_start_method() == "forkserver":
            # Its server outlives this call, and must not be born deaf to Ctrl-C.
            importlib.import_module("multiprocessing.forkserver").ensure_running()
        self._workers: list[_Process] = []
        self._last = -1  # the worker whose answer was received last
        try:
            for number, start in enumerate(starts):
                self._workers.append(_Process(context, job, number, start, prefetch))
        except BaseException:
            self.stop()
            raise

    def post(self, worker: int, index: Any) -> None:
        """Gives a worker its next task."""
        self._workers[worker].post(index)

    def receive(self, worker: int) -> Any:
        """That worker's next answer."""
        if self._timeout or self._workers[worker].unsent:
            self._wait([worker])
        return self._workers[worker].receive()

    def receive_any(self) -> tuple[int, Any]:
        """(worker, answer): whichever comes first."""
        count, last = len(self._workers), self._last
        in_turn = [(last + step) % count for step in range(1, count + 1)]
        number = self._last = self._wait(in_turn)
        return number, self._workers[number].receive()

    def _wait(self, numbers: list[int]) -> int:
        """Waits until one of these has something to say, and sends them what is unsent.

        The first of those that have.
        """
        deadline = time.monotonic() + self._timeout if self._timeout else None
        of_descriptor = {self._workers[number].connection.fileno(): number for number in numbers}
        poll = select.poll()
        while True:
            for descriptor, number in of_descriptor.items():
                unsent = self._workers[number].unsent
                poll.register(descriptor, select.POLLIN | (select.POLLOUT if unsent else 0))
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            ready = poll.poll(left)
            if not ready:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            speaking = {of_descriptor[fd] for fd, events in ready if events & ~select.POLLOUT}
            for number in numbers:
                if number in speaking:
                    return number
            for descriptor, _ in ready:
                self._workers[of_descriptor[descriptor]].send_unsent()

    def new_epoch(self) -> None:
        """Has every worker begin again."""
        for worker in self._workers:
            worker.post(None, new_epoch=True)

    def stop(self, patience: float = PATIENCE) -> None:
        """Ends the processes: by asking and, after `patience` seconds, by killing."""
        try:
            self._end(patience)
        except BaseException:  # Ctrl-C
            self._end(0.0)
            raise

    def _end(self, patience: float) -> None:
        workers = self._workers
        if os.getpid() != self._owner:  # a copy of this object in somebody's forked child
            workers.clear()
        for worker in workers:
            worker.hang_up()
        deadline = time.monotonic() + patience
        while workers:
            worker = workers[-1]
            worker.process.join(max(0.0, deadline - time.monotonic()))
            for end in (worker.process.terminate, worker.process.kill):
                if worker.process.exitcode is None:
                    end()
                    worker.process.join(1.0)
            worker.close()
            workers.pop()
