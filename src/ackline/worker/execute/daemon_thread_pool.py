"""Threads for blocking calls of async handlers: `asyncio.to_thread`, `run_in_executor(None, …)`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Call = tuple[Future[Any], Callable[[], Any]]


class DaemonThreadPool(ThreadPoolExecutor):
    """Daemon threads, which do not keep the process running, unlike those of other pools.

    The job of a call that hangs has been released long before, like that of a sync handler.
    """

    def __init__(self) -> None:
        super().__init__()
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0
        self._closing = threading.Lock()
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        with self._closing:
            if self._closed:
                raise RuntimeError("the worker has stopped and runs no more blocking calls")
            self._calls.put((future, partial(fn, *args, **kwargs)))
            if not self._idle.acquire(blocking=False) and self._started < self._max_workers:
                name = f"ackline blocking {self._started}"
                threading.Thread(target=self._run_calls, name=name, daemon=True).start()
                self._started += 1
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """Refuse new calls, and end each thread after its last one, without waiting for them."""
        with self._closing:
            self._closed = True
            for _ in range(self._started):
                self._calls.put(None)

    def _run_calls(self) -> None:
        while (call := self._calls.get()) is not None:
            _run_call(*call)
            del call  # or this thread would reference its result until the next call
            self._idle.release()


def _run_call(future: Future[T], function: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)
