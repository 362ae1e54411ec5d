"""A worker within a program that runs an event loop of its own."""

from __future__ import annotations

import asyncio
from typing import Any, Self, Unpack

from ackline.aio.queues import AsyncQueue
from ackline.core.errors import AcklineError
from ackline.queue import Queue
from ackline.worker import worker as blocking
from ackline.worker.execute.handler_loop import CallersLoop, HandlerLoop
from ackline.worker.leased_jobs import JobObserver
from ackline.worker.worker import Application, WorkerOptions, WorkerStats


class Worker:
    """Runs async handlers on the caller's event loop, so that they share its connection pools.

    The options are those of `ackline.Worker`. Sync handlers run in threads, as always.

    >>> async with Worker(app, concurrency=64):  # doctest: +SKIP
    ...     await serve_requests()
    """

    def __init__(
        self,
        *queues: Queue[Any, Any] | AsyncQueue[Any, Any] | Application,
        **options: Unpack[WorkerOptions],
    ) -> None:
        plain = [queue.sync if isinstance(queue, AsyncQueue) else queue for queue in queues]
        self._worker = _WorkerOnLoop(*plain, **options)

    @property
    def id(self) -> str:
        """The worker's id."""
        return self._worker.id

    def observe(self, observer: JobObserver) -> None:
        """Have its jobs measured from its next start on, as `ackline.metrics` does."""
        self._worker.observe(observer)

    def stats(self) -> WorkerStats:
        """What it is doing, and has done so far."""
        return self._worker.stats()

    async def serve(self) -> None:
        """Work until it is cancelled; then finish the running jobs, and release the others.

        A second cancellation does not wait for them. Raises what `ackline.Worker.run` raises.

        >>> asyncio.run(Worker(app).serve())  # doctest: +SKIP
        """
        async with self:
            await self._worker.stopped.wait()
        if self._worker.error is not None:
            raise self._worker.error

    async def start(self) -> None:
        """Start working; the store and the resources are opened before this returns."""
        self._worker.use_running_loop()
        starting = asyncio.ensure_future(asyncio.to_thread(self._worker.start))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The thread goes on: what it has started must not be left running.
            self._worker.request_stop()
            await asyncio.wait([starting])
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop claiming, let running jobs end within the grace period, release the rest."""
        stopping = asyncio.ensure_future(asyncio.to_thread(self._worker.stop))
        try:
            await asyncio.shield(stopping)
        except asyncio.CancelledError:
            self._worker.request_stop()
            await stopping
            raise

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.stop()


class _WorkerOnLoop(blocking.Worker):
    """A worker whose handlers run on a loop that somebody else runs."""

    def use_running_loop(self) -> None:
        self._loop = CallersLoop(asyncio.get_running_loop())
        self.stopped = asyncio.Event()
        """Set when it stops by itself, because of an error."""

    def _make_loop(self) -> HandlerLoop:
        return self._loop

    def stop_with_error(self, error: AcklineError) -> None:
        super().stop_with_error(error)
        self._loop.call_soon(self.stopped.set)
