"""Cron schedules as pure functions: which ticks lie between two moments."""

from __future__ import annotations

import datetime
import functools
import itertools
import zoneinfo
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
from cronsim import CronSim, CronSimError

from ackline.core.errors import ConfigError
from ackline.core.limits import MAX_NAME_BYTES, require_name, require_text

CatchUp = Literal["one", "all", "none"]

MAX_CAUGHT_UP = 1000
"""After a downtime, `catch_up="all"` enqueues at most this many ticks, the latest ones."""

MAX_LATENESS = 60.0
"""With `catch_up="none"`, ticks older than this many seconds are skipped."""

_DST_FOLD = 3 * 3600
"""Seconds; longer than any local time that repeats when clocks are set back."""


class Schedule(msgspec.Struct, frozen=True):
    """A job to enqueue once at each tick of a cron expression, however many workers there are.

    >>> nightly = Schedule("report", "0 3 * * *", kind="report", timezone="Europe/Berlin")
    >>> nightly.job_id(nightly.next_tick(1_700_000_000.0))
    'report@2023-11-15T02:00:00Z'
    """

    name: str
    cron: str
    """Five fields: minute, hour, day of month, month, day of week."""
    kind: str = "default"
    payload: Any = None
    timezone: str = "UTC"
    catch_up: CatchUp = "one"
    """After a downtime: the latest missed tick, all of them, or none."""
    options: Mapping[str, Any] = {}
    """Other options of `enqueue`: priority, max_attempts, …"""

    def __post_init__(self) -> None:
        require_name("schedule", self.name)
        require_name("kind", self.kind)
        require_text("cron expression", self.cron)
        if len(self.name.encode()) > MAX_NAME_BYTES - 32:
            raise ConfigError(
                f"schedule {self.name!r}: its name is too long: at most {MAX_NAME_BYTES - 32} bytes"
            )
        if self.catch_up not in ("one", "all", "none"):
            raise ConfigError(
                f"schedule {self.name!r}: catch_up is one, all or none, not {self.catch_up!r}"
            )
        if taken := {"id", "kind", "delay", "run_at"} & self.options.keys():
            raise ConfigError(
                f"schedule {self.name!r} sets {' and '.join(sorted(taken))} itself: "
                "remove this from its options"
            )
        self._require_ticks()

    def next_tick(self, after: float) -> float:
        """The first tick after a moment."""
        ticks = (tick.timestamp() for tick in self._simulate(after))
        return next(tick for tick in ticks if tick > after)

    def ticks_between(self, after: float, until: float, limit: int = MAX_CAUGHT_UP) -> list[float]:
        """The ticks after one moment and up to another, in order; only the latest `limit`."""
        # Backwards, so that a downtime of years costs no more than the ticks that are returned.
        start = until + (1.0 if self.timezone == "UTC" else _DST_FOLD)
        backwards = (tick.timestamp() for tick in self._simulate(start, reverse=True))
        ticks = itertools.takewhile(lambda tick: tick > after, backwards)
        latest = itertools.islice((tick for tick in ticks if tick <= until), limit)
        return sorted(set(latest))

    def due(self, after: float, now: float) -> list[float]:
        """The ticks to enqueue now, if all up to `after` have been handled."""
        match self.catch_up:
            case "one":
                return self.ticks_between(after, now, limit=1)
            case "all":
                return self.ticks_between(after, now)
            case "none":
                return self.ticks_between(max(after, now - MAX_LATENESS), now, limit=1)

    def job_id(self, tick: float) -> str:
        """The id of a tick's job: the same in every process, so there is one job a tick."""
        moment = datetime.datetime.fromtimestamp(tick, datetime.UTC)
        return f"{self.name}@{moment:%Y-%m-%dT%H:%M:%SZ}"

    def _simulate(self, start: float, *, reverse: bool = False) -> Iterator[datetime.datetime]:
        # Whole seconds: cron knows no others, and the step to the next second is exact.
        moment = datetime.datetime.fromtimestamp(int(start), _zone(self.timezone))
        return CronSim(self.cron, moment, reverse=reverse)

    def _require_ticks(self) -> None:
        if len(self.cron.split()) != 5:
            raise ConfigError(
                f"schedule {self.name!r}: {self.cron!r} must have five fields "
                "(minute, hour, day of month, month, day of week)"
            )
        try:
            self.next_tick(0.0)
        except CronSimError as error:
            raise ConfigError(f"schedule {self.name!r}: {self.cron!r}: {error}") from None
        except StopIteration:
            raise ConfigError(f"schedule {self.name!r}: {self.cron!r} never fires") from None
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise ConfigError(
                f"schedule {self.name!r}: unknown time zone {self.timezone!r}"
            ) from None


@functools.lru_cache(maxsize=64)
def _zone(name: str) -> datetime.tzinfo:
    # cronsim recognises this very object as the zone whose clock is never put forward or back.
    return datetime.UTC if name == "UTC" else zoneinfo.ZoneInfo(name)
