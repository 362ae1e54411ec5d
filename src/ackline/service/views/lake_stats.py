"""Statistics of a lake for the dashboard: its gold tables, read by DuckDB."""

from __future__ import annotations

import datetime
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ackline.core import error_fingerprint
from ackline.core.errors import MissingExtra, StoreError
from ackline.service.views.lake_queries import sql

T = TypeVar("T", bound=msgspec.Struct)


class HourlyLatency(msgspec.Struct):
    """Latency quantiles of one hour, in seconds; null without any measurement."""

    at: float
    wait_p50: float | None
    wait_p99: float | None
    run_p50: float | None
    run_p99: float | None
    recovery_p50: float | None
    recovery_max: float | None


class HourlyStats(msgspec.Struct):
    """One hour of the selected queues; durations in seconds, null without any measurement.

    They are also null for a caller that is restricted to several queues or kinds and has not
    selected one: the lake has quantiles of everything, of a queue, and of a kind of a queue.
    """

    at: float
    enqueued: int
    completed: int
    failed: int
    stalled: int
    wait_p50: float | None = None
    wait_p99: float | None = None
    run_p50: float | None = None
    run_p99: float | None = None
    recovery_p50: float | None = None
    recovery_max: float | None = None


class _LakeMetadata(msgspec.Struct):
    """The part of `lake.json` that says when the lake was last updated."""

    read_at: float | None = None


class LakeErrorGroup(msgspec.Struct):
    """Similar errors of failed jobs."""

    queue: str
    kind: str
    fingerprint: str
    exception: str | None
    message: str | None
    jobs: int
    first_at: float
    last_at: float
    example: str | None


class _ErrorGroupRow(LakeErrorGroup):
    """A group as the query returns it, with the messages of its latest jobs."""

    messages: list[str | None]

    def cluster(self) -> LakeErrorGroup:
        fields = msgspec.structs.asdict(self)
        messages = [message for message in fields.pop("messages") if message]
        if messages:
            fields["message"] = str(error_fingerprint.CommonMessage.of(messages))
        return LakeErrorGroup(**fields)


class Objective(msgspec.Struct):
    """How often jobs of a queue were started within the wait objective."""

    queue: str
    objective: float
    target: float
    deliveries: int
    attained: float | None


class WorkerReliability(msgspec.Struct):
    """The outcomes of a worker's jobs."""

    worker: str
    queue: str
    """Its queues, separated by commas."""
    deliveries: int
    completed: int
    errors: int
    stalled: int
    reliability: float | None
    last_at: float


class LakeStats:
    """The gold tables of the last days."""

    def __init__(self, folder: Path, days: int) -> None:
        self._folder = folder
        self._gold = folder / "gold"
        today = datetime.datetime.now(datetime.UTC).date()
        self._since = (today - datetime.timedelta(days=days - 1)).isoformat()

    def exists(self) -> bool:
        """Whether the pipeline has run."""
        return self._gold.is_dir()

    def as_of(self) -> float | None:
        """When the last run started, by the store's clock: statistics include everything before."""
        try:
            metadata = (self._folder / "lake.json").read_bytes()
            return msgspec.json.decode(metadata, type=_LakeMetadata).read_at
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise StoreError(f"cannot read the lake: {error}") from error

    def hours(self, **visible: Any) -> list[HourlyStats]:
        """The statistics of each hour."""
        latency = {one.at: msgspec.structs.asdict(one) for one in self._latency(**visible)}
        hours = self._query_table("hourly", "hours", HourlyStats, **visible)
        return [msgspec.structs.replace(hour, **latency.get(hour.at, {})) for hour in hours]

    def _latency(
        self, tenant: str, queues: list[str] | None, kinds: list[str] | None
    ) -> list[HourlyLatency]:
        """The quantiles of what is visible, if the lake has them for exactly that."""
        match queues, kinds:
            case None, None:
                queue, kind = None, None
            case [queue], None:
                kind = None
            case [queue], [kind]:
                pass
            case _:
                return []
        return self._query_table(
            "latency", "latency", HourlyLatency, tenant=tenant, queue=queue, kind=kind
        )

    def errors(self, **visible: Any) -> list[LakeErrorGroup]:
        """The most frequent errors."""
        rows = self._query_table("errors", "errors", _ErrorGroupRow, **visible)
        return [row.cluster() for row in rows]

    def objectives(self, **visible: Any) -> list[Objective]:
        """The objectives of queues, the least attained first."""
        return self._query_table("slo", "objectives", Objective, **visible)

    def workers(self, **visible: Any) -> list[WorkerReliability]:
        """Workers, the least reliable first."""
        return self._query_table("workers", "workers", WorkerReliability, **visible)

    def _query_table(
        self, table: str, statement: str, row_type: type[T], **visible: Any
    ) -> list[T]:
        files = [
            str(file)
            for file in sorted((self._gold / table).glob("*.parquet"))
            if file.stem >= self._since
        ]
        if not files:
            return []
        rows = _query(sql(statement), {"files": files, **visible})
        return [msgspec.convert(row, row_type) for row in rows]


def visibility_parameters(
    tenant: str, queues: Collection[str] | None, kinds: Collection[str] | None
) -> dict[str, Any]:
    """What a caller can see, as parameters of the statements."""
    return {
        "tenant": tenant,
        "queues": sorted(queues) if queues is not None else None,
        "kinds": sorted(kinds) if kinds is not None else None,
    }


def _query(statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise MissingExtra("the analytics page", "analytics") from None
    # DuckDB must not download anything: its Parquet reader is built in.
    settings: dict[str, Any] = {"autoinstall_known_extensions": False, "threads": 2}
    used = {name: value for name, value in parameters.items() if f"${name}" in statement}
    try:
        with duckdb.connect(config=settings) as connection:
            answer = connection.execute(statement, used)
            names = [column[0] for column in answer.description or ()]
            return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
    except duckdb.Error as error:
        raise StoreError(f"cannot read the lake: {error}") from error
