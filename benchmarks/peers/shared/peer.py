"""What a peer is, and the work it is given."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

Payload = dict[str, Any]
Handle = Callable[[Payload], Any]

PAYLOAD: Payload = {"order": 12345, "pad": "x" * 75}
"""About 100 bytes of JSON."""

CALLERS = 100
"""Callers that enqueue at the same time."""


@dataclass(frozen=True, kw_only=True)
class About:
    """What a reader must know to judge a peer's figures."""

    name: str
    packages: Sequence[str]
    delivery: str
    fenced: str
    settings: str
    bulk: str = ""
    """Its bulk call; empty if there is none."""


class Peer:
    """One queue. Methods may be coroutine functions; class attributes are settings."""

    about: ClassVar[About]
    url = ""
    results = False
    """Whether callers wait for results; if not, none are kept where a peer has that choice."""

    def open(self) -> Any:
        """Be ready to enqueue."""
        raise NotImplementedError

    def close(self) -> Any:
        """Let go of what would keep the process alive."""

    def enqueue(self, payload: Payload) -> Any:
        raise NotImplementedError

    @property
    def shared_enqueue(self) -> Callable[[Payload], Any]:
        """What each of many concurrent callers calls."""
        return self.enqueue

    def enqueue_many(self, payloads: Sequence[Payload]) -> Any:
        """The bulk call, or the nearest thing to it."""
        if inspect.iscoroutinefunction(self.enqueue):
            return from_many_callers(self.enqueue, len(payloads))
        for payload in payloads:
            self.enqueue(payload)
        return None

    def request(self, payload: Payload) -> Any:
        """Enqueue, wait, and return the result."""
        raise NotImplementedError

    def left(self) -> Any:
        """How many jobs are not yet acknowledged."""
        raise NotImplementedError

    def work(self, handle: Handle) -> None:
        """Be the worker, until a signal."""
        raise NotImplementedError


async def from_many_callers(enqueue: Callable[[Payload], Any], jobs: int) -> None:
    """Tasks for a coroutine function, threads for a plain one."""
    shares = [jobs // CALLERS] * CALLERS
    if inspect.iscoroutinefunction(enqueue):
        await asyncio.gather(*(call_repeatedly(enqueue, share) for share in shares))
        return
    with ThreadPoolExecutor(CALLERS) as threads:
        list(threads.map(lambda share: [enqueue(PAYLOAD) for _ in range(share)], shares))


async def call_repeatedly(enqueue: Callable[[Payload], Awaitable[Any]], times: int) -> None:
    for _ in range(times):
        await enqueue(PAYLOAD)


async def finish(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer
