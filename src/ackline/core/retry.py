"""Backoff of failed jobs: when they run again."""

from __future__ import annotations

import datetime
import random as _random
import sys
from collections.abc import Sequence
from typing import Literal

import msgspec

from ackline.core.errors import InvalidOption
from ackline.core.limits import MAX_DELAY, Seconds, as_seconds, require_seconds

MAX_FACTOR = 1_000_000.0

Shape = Literal["schedule", "fixed", "linear", "exponential"]
Jitter = Literal["none", "full", "equal"]


MAX_DELAYS = 1000
"""Maximum length of a schedule, which is stored with each job that has one of its own."""


class Backoff(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How long to wait before attempt n + 1; build it with the functions of this module."""

    shape: Shape
    base: float = 0.0
    factor: float = 2.0
    cap: float = 3600.0
    jitter: Jitter = "none"
    delays: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        require_seconds("backoff base", self.base)
        require_seconds("backoff cap", self.cap)
        if type(self.factor) not in (int, float) or not 1 <= self.factor <= MAX_FACTOR:
            raise InvalidOption(
                f"backoff factor must be a number from 1 to {MAX_FACTOR:,.0f}, not {self.factor!r}"
            )
        if len(self.delays) > MAX_DELAYS:
            raise InvalidOption(f"a backoff schedule has at most {MAX_DELAYS:,} delays")
        for delay in self.delays:
            require_seconds("backoff delay", delay)
        if self.shape == "schedule" and not self.delays:
            raise InvalidOption("a backoff schedule needs at least one delay")

    @property
    def attempts(self) -> int | None:
        """How many attempts a schedule allows, as it lists the waits between them."""
        return len(self.delays) + 1 if self.shape == "schedule" else None

    def delay(self, attempt: int, random: _random.Random) -> float:
        """Seconds to wait after the given attempt (1 is the first) has failed."""
        return self._jittered(min(self.cap, self._plain(max(attempt, 1))), random)

    def _plain(self, attempt: int) -> float:
        match self.shape:
            case "schedule":
                return self.delays[min(attempt, len(self.delays)) - 1]
            case "fixed":
                return self.base
            case "linear":
                return self.base * attempt
            case "exponential":
                return self.base * _bounded_power(float(self.factor), attempt - 1)

    def _jittered(self, delay: float, random: _random.Random) -> float:
        match self.jitter:
            case "none":
                return delay
            case "full":
                return random.uniform(0.0, delay)
            case "equal":
                return delay / 2 + random.uniform(0.0, delay / 2)


def _bounded_power(factor: float, exponent: int) -> float:
    try:
        return factor**exponent
    except OverflowError:
        return sys.float_info.max  # above every cap; not infinity, so that a base of 0 stays 0


def schedule(delays: Sequence[Seconds], *, jitter: Jitter = "none") -> Backoff:
    """Wait as listed; the last delay applies to all later attempts: `schedule([1, 5, 30])`."""
    seconds = tuple(float(as_seconds(delay)) for delay in delays)
    return Backoff("schedule", cap=MAX_DELAY, jitter=jitter, delays=seconds)


def fixed(seconds: Seconds, *, jitter: Jitter = "none") -> Backoff:
    """Wait the same each time: `fixed(10)`."""
    return Backoff("fixed", base=as_seconds(seconds), cap=MAX_DELAY, jitter=jitter)


def linear(step: Seconds, *, cap: Seconds = 3600.0, jitter: Jitter = "none") -> Backoff:
    """Wait one step more each time: `linear(10)` is 10, 20, 30 and so on."""
    return Backoff("linear", base=as_seconds(step), cap=as_seconds(cap), jitter=jitter)


def exponential(
    base: Seconds = 1.0, *, factor: float = 2.0, cap: Seconds = 3600.0, jitter: Jitter = "equal"
) -> Backoff:
    """Wait longer each time: `exponential(1, jitter="none")` is 1, 2, 4, 8 and so on."""
    return Backoff(
        "exponential", base=as_seconds(base), factor=factor, cap=as_seconds(cap), jitter=jitter
    )


DEFAULT_BACKOFF = exponential(1.0, cap=600.0)


BackoffLike = Backoff | Sequence[Seconds] | Seconds
"""What can be given as a backoff: a `Backoff`, a list of durations, or one of them."""


def backoff_from(value: BackoffLike) -> Backoff:
    """Return the backoff that a user means: a `Backoff`, a list of durations, or one of them."""
    if isinstance(value, Backoff):
        return value
    if isinstance(value, (int, float, datetime.timedelta)):
        return fixed(float(as_seconds(value)))
    try:
        return schedule(value)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidOption):
            raise
        raise InvalidOption(
            f"backoff must be a number of seconds, a list of them, or a Backoff, not {value!r}"
        ) from None
