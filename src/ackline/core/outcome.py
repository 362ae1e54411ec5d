"""Outcomes that a handler may return instead of a plain result."""

from __future__ import annotations

from typing import Any

import msgspec


class Done(msgspec.Struct, frozen=True):
    """Completed with this result, kept for `result_ttl` seconds if given.

    A handler that returns any other value means `Done(value)`.
    """

    result: Any = None
    result_ttl: float | None = None


class Retry(msgspec.Struct, frozen=True):
    """The attempt failed; run again after `delay` seconds, or by the backoff if None."""

    delay: float | None = None
    reason: str = "the handler asked for another attempt"


class Snooze(msgspec.Struct, frozen=True):
    """Run again after `delay` seconds, without using up an attempt."""

    delay: float


class Cancel(msgspec.Struct, frozen=True):
    """The job need not be done any more: it ends as `cancelled`."""

    reason: str = "cancelled by its handler"


class Dead(msgspec.Struct, frozen=True):
    """The job can never succeed: go straight to the DLQ, whatever attempts remain."""

    reason: str = "declared dead by its handler"


Outcome = Done | Retry | Snooze | Cancel | Dead
