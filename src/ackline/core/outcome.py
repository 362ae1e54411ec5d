"""Outcomes that a handler may return or raise instead of a plain result."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from ackline.core.limits import Seconds, as_seconds


class Done(msgspec.Struct, frozen=True):
    """Completed with this result, kept for `result_ttl` if given.

    A handler that returns any other value means `Done(value)`. It is only returned: the others
    can also be raised, from wherever the handler finds out what becomes of the job.
    """

    result: Any = None
    result_ttl: Seconds | None = None


class RaisableOutcome(Exception):
    """An outcome that ends the handler when it is raised; equal to another of the same values."""

    __match_args__: ClassVar[tuple[str, ...]]

    # The values are the exception's `args`: that is what copies and pickles are made from.

    def __repr__(self) -> str:
        values = ", ".join(
            f"{name}={value!r}" for name, value in zip(self.__match_args__, self.args, strict=True)
        )
        return f"{type(self).__name__}({values})"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.args == self.args

    def __hash__(self) -> int:
        return hash((type(self), self.args))


class Retry(RaisableOutcome):
    """The attempt failed; run again after `delay`, or by the backoff if None.

    >>> raise Retry(30, "the bank is closed")  # doctest: +SKIP
    """

    __match_args__ = ("delay", "reason")

    def __init__(
        self, delay: Seconds | None = None, reason: str = "the handler asked for another attempt"
    ) -> None:
        super().__init__(as_seconds(delay), reason)

    @property
    def delay(self) -> float | None:
        """Seconds until the next attempt."""
        delay: float | None = self.args[0]
        return delay

    @property
    def reason(self) -> str:
        """Why, for the job's history."""
        reason: str = self.args[1]
        return reason


class Snooze(RaisableOutcome):
    """Run again after `delay`, without using up an attempt."""

    __match_args__ = ("delay",)

    def __init__(self, delay: Seconds) -> None:
        super().__init__(as_seconds(delay))

    @property
    def delay(self) -> float:
        """Seconds until it runs again."""
        delay: float = self.args[0]
        return delay


class Cancel(RaisableOutcome):
    """The job need not be done any more: it ends as `cancelled`."""

    __match_args__ = ("reason",)

    def __init__(self, reason: str = "cancelled by its handler") -> None:
        super().__init__(reason)

    @property
    def reason(self) -> str:
        """Why, for the job's history."""
        reason: str = self.args[0]
        return reason


class Dead(RaisableOutcome):
    """The job can never succeed: go straight to the DLQ, whatever attempts remain."""

    __match_args__ = ("reason",)

    def __init__(self, reason: str = "declared dead by its handler") -> None:
        super().__init__(reason)

    @property
    def reason(self) -> str:
        """Why, for the job's history."""
        reason: str = self.args[0]
        return reason


Outcome = Done | Retry | Snooze | Cancel | Dead

OUTCOMES = (Done, Retry, Snooze, Cancel, Dead)
