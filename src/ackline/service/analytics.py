"""What a lake knows, for the dashboard: its gold tables, read by DuckDB from their files."""

from __future__ import annotations

import datetime
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ackline import alike
from ackline.errors import MissingExtra, StoreError
from ackline.service.queries import sql

T = TypeVar("T", bound=msgspec.Struct)


class Hour(msgspec.Struct):
    """One hour of the chosen queues; spans in seconds, null where there was nothing to measure."""

    at: float
    enqueued: int
    completed: int
    failed: int
    stalled: int
    wait_p50: float | None
    wait_p99: float | None
    run_p50: float | None
    run_p99: float | None
    recovery_p50: float | None
    recovery_max: float | None


class ErrorCluster(msgspec.Struct):
    """Like errors that filled the DLQ."""

    queue: str
    kind: str
    fingerprint: str
    exception: str | None
    message: str | None
    jobs: int
    first_at: float
    last_at: float
    example: str | None


class _Told(ErrorCluster):
    """One with the messages of its latest jobs."""

    said: list[str | None]

    def cluster(self) -> ErrorCluster:
        fields = msgspec.structs.asdict(self)
        said = [message for message in fields.pop("said") if message]
        if said:
            fields["message"] = str(alike.Wording.of(said))
        return ErrorCluster(**fields)


class Objective(msgspec.Struct):
    """How often deliveries of a queue began in time."""

    queue: str
    objective: float
    target: float
    deliveries: int
    attained: float | None


class Reliability(msgspec.Struct):
    """What became of the deliveries of a worker."""

    worker: str
    queue: str
    """Those that it works for, with commas between them."""
    deliveries: int
    completed: int
    errors: int
    stalled: int
    reliability: float | None
    last_at: float


class Lake:
    """The gold tables of the last days."""

    def __init__(self, folder: Path, days: int) -> None:
        self._gold = folder / "gold"
        today = datetime.datetime.now(datetime.UTC).date()
        self._since = (today - datetime.timedelta(days=days - 1)).isoformat()

    def made(self) -> bool:
        """Whether a run of the pipeline has left anything."""
        return self._gold.is_dir()

    def hours(self, **whose: Any) -> list[Hour]:
        """Hour by hour."""
        return self._ask("hourly", "hours", Hour, **whose)

    def errors(self, **whose: Any) -> list[ErrorCluster]:
        """The errors that were most."""
        found = self._ask("errors", "errors", _Told, **whose)
        return [one.cluster() for one in found]

    def objectives(self, **whose: Any) -> list[Objective]:
        """Queues, the least attained first."""
        return self._ask("slo", "objectives", Objective, **whose)

    def workers(self, **whose: Any) -> list[Reliability]:
        """Workers, the least reliable first."""
        return self._ask("workers", "workers", Reliability, **whose)

    def _ask(self, table: str, statement: str, row: type[T], **whose: Any) -> list[T]:
        files = [
            str(file)
            for file in sorted((self._gold / table).glob("*.parquet"))
            if file.stem >= self._since
        ]
        if not files:
            return []
        found = _query(sql(statement), {"files": files, **whose})
        return [msgspec.convert(one, row) for one in found]


def whose(
    tenant: str, queues: Collection[str] | None, kinds: Collection[str] | None
) -> dict[str, Any]:
    """What a caller may see, as the statements ask for it."""
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
    # Nothing is fetched from anywhere: what reads Parquet is built in.
    settings: dict[str, Any] = {"autoinstall_known_extensions": False, "threads": 2}
    used = {name: value for name, value in parameters.items() if f"${name}" in statement}
    try:
        with duckdb.connect(config=settings) as connection:
            answer = connection.execute(statement, used)
            names = [column[0] for column in answer.description or ()]
            return [dict(zip(names, one, strict=True)) for one in answer.fetchall()]
    except duckdb.Error as error:
        raise StoreError(f"the lake cannot be read: {error}") from error
