"""Care for the database connections of the threads that run jobs.

Django closes connections that are broken or too old between requests, which a worker does not
have. A connection that broke when the database restarted would fail every later job of its thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections

from ackline.app import App
from ackline.queue import Job


@contextmanager
def fresh_connections() -> Iterator[None]:
    """Close broken and old connections before and after a block of synchronous code."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


def refresh_around_tasks(app: App) -> None:
    """Close broken and old connections before and after each task of an app.

    >>> refresh_around_tasks(app)  # doctest: +SKIP
    """
    app.middleware(_around)
    app.middleware(_around_async)


def _around(job: Job, call_next: Callable[[], Any]) -> Any:  # noqa: ARG001
    with fresh_connections():
        return call_next()


async def _around_async(job: Job, call_next: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ARG001
    # In the thread in which Django runs what an async function asks of the database.
    close = sync_to_async(close_old_connections)
    await close()
    try:
        return await call_next()
    finally:
        await close()
