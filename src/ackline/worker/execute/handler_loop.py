"""The event loop of async handlers: a worker's own, in a thread, or one that the caller runs."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ackline.worker.execute.daemon_thread_pool import DaemonThreadPool

logger = logging.getLogger("ackline")

T = TypeVar("T")

CANCEL_TIMEOUT = 5.0
"""Seconds that the tasks left on a worker's own loop have to end when it stops."""


POLL_INTERVAL = 0.2
"""Seconds between two looks at whether a coroutine should be given up."""


class HandlerLoop(ABC):
    """The event loop on which all async handlers of a worker run, and its async resources live."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.broken = False
        """Whether it has failed and runs nothing any more."""

    @abstractmethod
    def start(self) -> None:
        """Start the loop, unless its owner runs it."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the loop, unless its owner runs it."""

    def call_soon(self, callback: Callable[..., None], *args: object) -> None:
        """Call a function on the loop, from any thread; on a closed loop, nothing happens."""
        try:
            self.loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            # A closed loop is expected: it was blocked for good, or the worker has stopped.
            if not self.loop.is_closed():
                raise

    def run(
        self,
        coroutine: Coroutine[Any, Any, T],
        stopping: Callable[[], bool] = lambda: False,
    ) -> T:
        """Run a coroutine on the loop and wait for it, from another thread.

        It is cancelled if `stopping` becomes true, which raises `CancelledError`.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        while True:
            try:
                return future.result(POLL_INTERVAL)
            except concurrent.futures.TimeoutError:
                if future.done():
                    raise  # the coroutine raised it
                if stopping():
                    future.cancel()
                    raise concurrent.futures.CancelledError(
                        "the worker was asked to stop"
                    ) from None


class CallersLoop(HandlerLoop):
    """A loop that the caller runs: handlers share it with the rest of the program."""

    def start(self) -> None:
        """Its owner runs it."""

    def stop(self) -> None:
        """Its owner stops it."""


class OwnLoop(HandlerLoop):
    """A loop in a background thread of the worker."""

    def __init__(self) -> None:
        super().__init__(asyncio.new_event_loop())
        self.loop.set_default_executor(DaemonThreadPool())
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="ackline event loop", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.ident is None:
            self.loop.close()
            return
        self.call_soon(self._stop_loop)
        self._thread.join(timeout=CANCEL_TIMEOUT)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self._run_until(lambda: self._stopped)
            ending = self.loop.create_task(self._cancel_tasks())
            ending.add_done_callback(lambda _: self.loop.stop())
            self._run_until(ending.done)
        except Exception:
            # For example, a handler has closed its selector: no job can continue here.
            self.broken = True
            logger.exception("the event loop of async handlers is broken")
        finally:
            self.loop.close()

    def _run_until(self, ended: Callable[[], bool]) -> None:
        """Run the loop again if a handler stops it, for example by `sys.exit` in a task."""
        while not ended():
            try:
                self.loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                logger.exception(
                    "a task or callback of a handler raised %s; the event loop was restarted",
                    type(error).__name__,
                )
            else:
                if not ended():
                    logger.error("a handler stopped the event loop of its worker; it was restarted")

    def _stop_loop(self) -> None:
        self._stopped = True
        self.loop.stop()

    async def _cancel_tasks(self) -> None:
        """Cancel the remaining tasks: jobs, and tasks that handlers have started."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.loop.shutdown_asyncgens()
