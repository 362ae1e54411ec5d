"""Every option of the format, in one place: its name, its meaning, its default.

Spark passes them as text, with their names in any case; `option_parsing.py` reads them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ackline.core.errors import ConfigError
from ackline.core.events import Act, read_cursor
from ackline.core.job import State
from ackline.core.limits import require_lease, require_name, require_priority, require_seconds
from ackline.spark.option_text import parse_names, parse_time, require_known, require_ordered_times
from ackline.spark.queue_names import parse_queue_names
from ackline.spark.worker_names import STREAM, stream_worker


class CommonOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The options of every use of the format."""

    store: Annotated[str, Meta(description="The store's URL; executors must reach it.")]
    table: Annotated[str, Meta(description="What to read or write; `load(…)` names it, too.")]
    tenant: Annotated[str, Meta(description="Whose queues.")] = "default"
    shared_files: Annotated[
        bool,
        Meta(description="Every machine sees the same files, so SQLite may be used by many."),
    ] = False
    retry_for: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds that a store is tried again for that cannot be used: it is away, "
            "fails over, or is full.",
        ),
    ] = 60.0

    def __post_init__(self) -> None:
        require_name("tenant", self.tenant)
        require_seconds("retryFor", self.retry_for)


class ReadOptions(CommonOptions, frozen=True, kw_only=True, rename="camel"):
    """The options of every reader."""

    queue: Annotated[str | None, Meta(description="Only this queue; else all of them.")] = None
    kinds: Annotated[
        str | None,
        Meta(description="Only these kinds, with commas between them or as a JSON list."),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.queue is not None:
            require_name("queue", self.queue)
        for kind in self.kinds_or_all or ():
            require_name("kind", kind)

    @property
    def kinds_or_all(self) -> frozenset[str] | None:
        """The kinds to read; None is all."""
        return None if self.kinds is None else parse_names(self.kinds)


class PartitionedReadOptions(ReadOptions, frozen=True, kw_only=True, rename="camel"):
    """The options of readers whose tasks share out what the store has."""

    partitions: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        Meta(
            description="Tasks that read in parallel, about: small queues share a task, and a "
            "large journal is read by several. By default as many as the machine that plans the "
            "query has cores. On a cluster, as many as its executors have is best."
        ),
    ] = None

    @property
    def target_tasks(self) -> int:
        """How many tasks to plan for: at least two, because a cluster's driver may be small."""
        return self.partitions or max(2, os.cpu_count() or 2)


class JobsReadOptions(PartitionedReadOptions, frozen=True, kw_only=True, rename="camel"):
    """The options that reading `jobs` and reading `dlq` as tables share."""

    created_after: Annotated[
        str | None,
        Meta(
            description="Only jobs enqueued at this time or later: `2030-01-31T08:00+02:00`, UTC "
            "if it names no zone, or seconds since 1970."
        ),
    ] = None
    created_before: Annotated[
        str | None, Meta(description="Only jobs enqueued before this time.")
    ] = None
    columns: Annotated[
        str | None,
        Meta(
            description="Only these columns, with commas between them: the others do not go to "
            "Spark, and payloads are most of what a job weighs."
        ),
    ] = None
    page_size: Annotated[
        int,
        Meta(
            ge=1,
            le=100_000,
            description="Rows in memory at once, for each task; fewer where they are large.",
        ),
    ] = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        require_ordered_times("createdAfter", self.since, "createdBefore", self.until)

    @property
    def column_set(self) -> frozenset[str] | None:
        """The columns to read; None is all."""
        return None if self.columns is None else parse_names(self.columns)

    @property
    def state_set(self) -> frozenset[State]:
        """The states to read."""
        return frozenset(State)

    @property
    def since(self) -> float | None:
        """Only jobs enqueued at this time or later are read."""
        return parse_time("createdAfter", self.created_after)

    @property
    def until(self) -> float | None:
        """Only jobs enqueued before this time are read."""
        return parse_time("createdBefore", self.created_before)


class DlqOptions(JobsReadOptions, frozen=True, kw_only=True, rename="camel"):
    """Reading `dlq` as a table."""

    @property
    def state_set(self) -> frozenset[State]:
        """Only the jobs that have failed for good."""
        return frozenset({State.FAILED})


class JobsOptions(JobsReadOptions, frozen=True, kw_only=True, rename="camel"):
    """Reading `jobs` as a table."""

    states: Annotated[
        str | None,
        Meta(
            description="Only these states, with commas between them; not for `dlq`, which has "
            "what failed."
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.states is not None:
            require_known("state", parse_names(self.states), State)

    @property
    def state_set(self) -> frozenset[State]:
        """The states to read."""
        return frozenset(State if self.states is None else map(State, parse_names(self.states)))


class EventsOptions(PartitionedReadOptions, frozen=True, kw_only=True, rename="camel"):
    """Reading `events` as a table or a stream."""

    acts: Annotated[
        str | None, Meta(description="Only these acts, with commas between them: `fail,expire`.")
    ] = None
    happened_after: Annotated[
        str | None,
        Meta(
            description="Only what happened at this time or later: `2030-01-31T08:00+02:00`, UTC "
            "if it names no zone, or seconds since 1970."
        ),
    ] = None
    happened_before: Annotated[
        str | None, Meta(description="Only what happened before this time.")
    ] = None
    page_size: Annotated[
        int,
        Meta(
            ge=1,
            le=100_000,
            description="Rows in memory at once, for each task; fewer where they are large.",
        ),
    ] = 50_000
    start: Annotated[
        str, Meta(description="`oldest` that is kept, `now`, or a cursor to read on behind.")
    ] = "oldest"
    reader: Annotated[
        str | None,
        Meta(description="A name under which the journal is kept until the stream has read it."),
    ] = None
    skip_dropped: Annotated[
        str | None,
        Meta(
            description="Queues, with commas between them or as a JSON list, or `*`, whose events "
            "may be missing: where the journal has dropped some before the stream came to them, it "
            "goes on with the oldest that is kept."
        ),
    ] = None
    max_events_per_trigger: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="Events in one micro-batch at most; those count, too, that are left out by "
            "their kind, act or time."
        ),
    ] = None
    wait: Annotated[
        float, Meta(ge=0, le=60, description="Seconds that an idle stream waits for news.")
    ] = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_known("act", self.act_set or (), Act)
        require_ordered_times("happenedAfter", self.happened_since, "happenedBefore", self.until)
        if self.reader is not None:
            require_name("reader", self.reader)
        if self.start not in ("oldest", "now"):
            try:
                read_cursor(self.start)
            except ValueError as error:
                raise ConfigError(f"{error}: start is 'oldest', 'now' or a cursor") from None

    @property
    def act_set(self) -> frozenset[str] | None:
        """The acts whose events are read; None is all."""
        return None if self.acts is None else parse_names(self.acts)

    @property
    def happened_since(self) -> float | None:
        """Only events that happened at this time or later are read."""
        return parse_time("happenedAfter", self.happened_after)

    @property
    def until(self) -> float | None:
        """Only events that happened before this time are read."""
        return parse_time("happenedBefore", self.happened_before)

    def may_skip(self, queue: str) -> bool:
        """Whether the stream may go on without the events that a queue's journal has dropped."""
        if self.skip_dropped is None:
            return False
        named = parse_queue_names(self.skip_dropped)
        return named is None or queue in named


class ClaimsOptions(ReadOptions, frozen=True, kw_only=True, rename="camel"):
    """Reading `jobs` as a stream: each micro-batch is claimed, and settled when it is done."""

    queue: Annotated[str, Meta(description="The queue to claim from.")]
    stream_id: Annotated[
        str,
        Meta(
            description="A lasting name for this stream: one for each checkpoint, the same after "
            "every restart. Under it the store keeps what was claimed."
        ),
    ]
    partitions: Annotated[
        int,
        Meta(
            ge=1,
            le=10_000,
            description="Tasks that a micro-batch is shared out to, about: as many as Spark has "
            "cores is best, for each costs some hundredths of a second.",
        ),
    ] = 4
    max_jobs_per_trigger: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Jobs in one micro-batch at most.")
    ] = 10_000
    max_bytes_per_trigger: Annotated[
        int,
        Meta(
            ge=1, le=1 << 30, description="Bytes of payload after which no more jobs are claimed."
        ),
    ] = 64 << 20
    lease: Annotated[
        float,
        Meta(
            gt=0,
            description="Seconds that jobs stay leased without a sign of life from the driver: "
            "longer than its restart takes.",
        ),
    ] = 300.0
    ack: Annotated[
        Literal["commit", "outcome"],
        Meta(
            description="`commit` completes jobs when their micro-batch is committed; with "
            "`outcome` you write the outcome of each to the table `outcomes`."
        ),
    ] = "commit"
    max_replays: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="How often a micro-batch may be begun again before it is cut into "
            "smaller ones, and a single job sent to the DLQ if others can be committed.",
        ),
    ] = 3
    keep_for: Annotated[
        float,
        Meta(ge=0, description="Seconds that completed jobs are kept at least, to be replayed."),
    ] = 3600.0
    wait: Annotated[
        float, Meta(ge=0, le=60, description="Seconds that an idle stream waits for jobs.")
    ] = 0.5
    reset: Annotated[
        bool,
        Meta(description="Begin anew with another checkpoint: give back what the old one holds."),
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_name("streamId", self.stream_id)
        require_name(f"streamId with {STREAM!r} before it", self.worker_id)
        require_lease(self.lease)
        require_seconds("keepFor", self.keep_for)

    @property
    def worker_id(self) -> str:
        """The name under which jobs are claimed: the same after every restart."""
        return stream_worker(self.stream_id)


class WriteOptions(CommonOptions, frozen=True, kw_only=True, rename="camel"):
    """The options of every writer."""

    queue: Annotated[
        str | None, Meta(description="The queue of all rows; else a column `queue` names it.")
    ] = None
    rejected_path: Annotated[
        str | None,
        Meta(
            description="A folder for rows that are refused, as Parquet, with the reason: each "
            "task adds a file. On a cluster, one that all machines reach. Without it, a single "
            "refused row fails the write when all others are written, and a stream at each "
            "restart."
        ),
    ] = None
    max_rejected: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Refused rows of one task above which it fails at once; a folder takes "
            "any number.",
        ),
    ] = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.queue is not None:
            require_name("queue", self.queue)


class JobsWriteOptions(WriteOptions, frozen=True, kw_only=True, rename="camel"):
    """Writing `jobs`: each row is enqueued. An option overrides the column of the same name."""

    id_from: Annotated[
        Literal["column", "content"],
        Meta(
            description="Where ids come from: the column `id`, or a hash of queue, kind and "
            "payload, so that equal rows are one job."
        ),
    ] = "column"
    payload_as: Annotated[
        Literal["json", "value"],
        Meta(
            description="`json`: a text or binary `payload` is JSON already. `value`: it is a "
            "value, to be written as JSON."
        ),
    ] = "json"
    existing: Annotated[
        Literal["keep", "replace"],
        Meta(
            description="What to do with an id whose job has failed or was cancelled: leave it, "
            "so that a repeated write never runs it twice, or enqueue it anew."
        ),
    ] = "keep"
    kind: Annotated[str | None, Meta(description="The kind of all jobs.")] = None
    priority: Annotated[int | None, Meta(description="The priority of all jobs.")] = None
    delay: Annotated[float | None, Meta(description="Seconds until all jobs are due.")] = None
    max_attempts: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="The attempts of all jobs.")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind is not None:
            require_name("kind", self.kind)
        if self.priority is not None:
            require_priority(self.priority)
        require_seconds("delay", self.delay)


class OutcomesWriteOptions(WriteOptions, frozen=True, kw_only=True, rename="camel"):
    """Writing `outcomes`: each row settles a claimed job."""

    keep_for: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds that completed jobs are kept at least: their micro-batch may be "
            "replayed.",
        ),
    ] = 3600.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_seconds("keepFor", self.keep_for)


OPTIONS_BY_USE: Mapping[str, Mapping[str, type[CommonOptions]]] = {
    "read": {"jobs": JobsOptions, "dlq": DlqOptions, "events": EventsOptions},
    "readStream": {"jobs": ClaimsOptions, "events": EventsOptions},
    "write": {"jobs": JobsWriteOptions, "outcomes": OutcomesWriteOptions},
}
"""The options of each table, for each use of the format."""
