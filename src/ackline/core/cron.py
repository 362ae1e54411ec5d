"""Schedules as pure functions: which ticks lie between two moments."""

from __future__ import annotations

import datetime
import functools
import itertools
import math
import re
import zoneinfo
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
from cronsim import CronSim, CronSimError

from ackline.core.errors import ConfigError
from ackline.core.limits import MAX_DELAY, MAX_NAME_BYTES, require_name, require_text

CatchUp = Literal["one", "all", "none"]

Every = str | datetime.timedelta
"""When a schedule ticks: a cron expression, a name such as `@daily`, or an interval."""

CRON_BY_NAME = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}

MAX_CAUGHT_UP = 1000
"""After a downtime, `catch_up="all"` enqueues at most this many ticks, the latest ones."""

MAX_LATENESS = 60.0
"""With `catch_up="none"`, ticks older than this many seconds are skipped."""

_DST_FOLD = 3 * 3600
"""Seconds; longer than any local time that repeats when clocks are set back."""


def _interval_expression(interval: datetime.timedelta) -> str:
    seconds = interval.total_seconds()
    return f"@every {int(seconds) if seconds.is_integer() else seconds}s"


class Schedule(msgspec.Struct, frozen=True):
    """A job to enqueue once at each tick, however many workers there are.

    >>> nightly = Schedule("report", "0 3 * * *", kind="report", tz="Europe/Berlin")
    >>> nightly.job_id(nightly.next_tick(1_700_000_000.0))
    'report@2023-11-15T02:00:00Z'
    """

    name: str
    cron: str
    """Five fields: minute, hour, day of month, month, day of week. Or `@hourly`, `@daily`,
    `@weekly`, `@monthly`, `@yearly`. Or `@every 300s`: each time that many seconds have passed
    since 1970 began, so that all processes agree."""
    kind: str = "default"
    payload: Any = None
    tz: str = "UTC"
    catch_up: CatchUp = "one"
    """After a downtime: the latest missed tick, all of them, or none."""
    options: Mapping[str, Any] = {}
    """Other options of `enqueue`: priority, max_attempts, …"""

    if TYPE_CHECKING:  # a struct's fields are its parameters, and `cron` takes more than it keeps

        def __init__(
            self,
            name: str,
            cron: Every,
            kind: str = "default",
            payload: Any = None,
            tz: str = "UTC",
            catch_up: CatchUp = "one",
            options: Mapping[str, Any] = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        given = cast(Every, self.cron)
        if isinstance(given, datetime.timedelta):
            msgspec.structs.force_setattr(self, "cron", _interval_expression(given))
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
        if interval := self._interval:
            return (math.floor(after / interval) + 1) * interval
        ticks = (tick.timestamp() for tick in self._simulate(after))
        return next(tick for tick in ticks if tick > after)

    def ticks_between(self, after: float, until: float, limit: int = MAX_CAUGHT_UP) -> list[float]:
        """The ticks after one moment and up to another, in order; only the latest `limit`."""
        if interval := self._interval:
            last = math.floor(until / interval)
            first = max(math.floor(after / interval), last - limit) + 1
            return [tick * interval for tick in range(first, last + 1)]
        # Backwards, so that a downtime of years costs no more than the ticks that are returned.
        start = until + (1.0 if self.tz == "UTC" else _DST_FOLD)
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

    @property
    def _interval(self) -> int | None:
        found = _INTERVAL.fullmatch(self.cron)
        return int(found[1]) if found else None

    def _simulate(self, start: float, *, reverse: bool = False) -> Iterator[datetime.datetime]:
        # Whole seconds: cron knows no others, and the step to the next second is exact.
        moment = datetime.datetime.fromtimestamp(int(start), _zone(self.tz))
        return CronSim(CRON_BY_NAME.get(self.cron, self.cron), moment, reverse=reverse)

    def _require_ticks(self) -> None:
        interval = self._interval
        if interval is not None and not 1 <= interval <= MAX_DELAY:
            raise ConfigError(
                f"schedule {self.name!r}: its interval must be 1 to {MAX_DELAY:.0f} seconds, "
                f"not {interval}"
            )
        if interval is None and len(CRON_BY_NAME.get(self.cron, self.cron).split()) != 5:
            raise ConfigError(
                f"schedule {self.name!r}: {self.cron!r} must have five fields (minute, hour, day "
                f"of month, month, day of week), or be {', '.join(CRON_BY_NAME)}, or an interval "
                "in whole seconds, as a timedelta or like @every 300s"
            )
        try:
            self.next_tick(0.0)
        except CronSimError as error:
            raise ConfigError(f"schedule {self.name!r}: {self.cron!r}: {error}") from None
        except StopIteration:
            raise ConfigError(f"schedule {self.name!r}: {self.cron!r} never fires") from None
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise ConfigError(f"schedule {self.name!r}: unknown time zone {self.tz!r}") from None


_INTERVAL = re.compile(r"@every (\d{1,12})s", re.ASCII)


@functools.lru_cache(maxsize=64)
def _zone(name: str) -> datetime.tzinfo:
    # cronsim recognises this very object as the zone whose clock is never put forward or back.
    return datetime.UTC if name == "UTC" else zoneinfo.ZoneInfo(name)
