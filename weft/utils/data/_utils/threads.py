"""Workers that are threads of this process."""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections import deque
from typing import Any

from .worker import PATIENCE, Job, Start, Worker

_STOP, _NEW_EPOCH = object(), object()


def _work(job: Job, number: int, start: Start, tasks: Any, answers: Any) -> None:
    # The thread was made while its maker kept Ctrl-C back; a program that it starts should hear it.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
    worker = Worker(job, number, start)
    while (task := tasks.get()) is not _STOP:
        if task is _NEW_EPOCH:
            worker.new_epoch()
        else:
            answers.put((number, worker.answer(task)))
            del task


class Threads:
    """A crew of worker threads.

    For datasets whose time is spent where the interpreter lock is free: in files, in the network,
    in native decoders. They start at once, share the dataset and pass data on without copying.
    """

    def __init__(self, job: Job, starts: list[Start], timeout: float) -> None:
        self._timeout = timeout or None
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waiting: list[deque[Any]] = [deque() for _ in starts]
        self._tasks: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in starts]
        self._threads = [
            threading.Thread(
                target=_work,
                args=(job, number, start, self._tasks[number], self._answers),
                name=f"DataLoader worker {number}",
                daemon=True,
            )
            for number, start in enumerate(starts)
        ]
        for thread in self._threads:
            thread.start()

    def post(self, worker: int, index: Any) -> None:
        """Gives a worker its next task."""
        self._tasks[worker].put(index)

    def receive(self, worker: int) -> Any:
        """That worker's next answer."""
        waiting = self._waiting[worker]
        while not waiting:
            number, answer = self._get()
            self._waiting[number].append(answer)
        return waiting.popleft()

    def receive_any(self) -> tuple[int, Any]:
        """(worker, answer): whichever comes first."""
        for number, waiting in enumerate(self._waiting):
            if waiting:
                return number, waiting.popleft()
        answer: tuple[int, Any] = self._get()
        return answer

    def _get(self) -> Any:
        try:
            return self._answers.get(timeout=self._timeout)
        except queue.Empty:
            raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from None

    def new_epoch(self) -> None:
        """Has every worker begin again."""
        for tasks in self._tasks:
            tasks.put(_NEW_EPOCH)

    def stop(self, patience: float = PATIENCE) -> None:
        """Ends the threads, each after what it is doing; waits `patience` seconds for that."""
        for tasks in self._tasks:
            while not tasks.empty():  # what nobody will wait for any more
                try:
                    tasks.get_nowait()
                except queue.Empty:
                    break
            tasks.put(_STOP)
        deadline = time.monotonic() + patience
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
