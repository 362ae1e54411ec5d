"""`ackline pipeline run`: write the journal to a lake of tables."""

from __future__ import annotations

import signal
import threading
from collections.abc import Collection, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from ackline.cli.app import command
from ackline.cli.exits import UsageError
from ackline.cli.options import values
from ackline.cli.output.text import duration, pluralize, safe
from ackline.cli.pipeline import pipeline
from ackline.cli.pipeline.gap_text import gap_text
from ackline.cli.pipeline.preflight import (
    lake_option,
    master_option,
    require_shared_store,
    require_writable,
    shared_files_option,
    start_spark,
    warn_if_no_queues,
)
from ackline.cli.pipeline.spark_errors import stopping_spark
from ackline.cli.session import Session
from ackline.worker.processes.stop_signals import handle_stop_signals

if TYPE_CHECKING:
    from ackline.spark.lake.running import Ran, Run

slo_option = click.option(
    "--slo",
    multiple=True,
    metavar="QUEUE=SPAN",
    help="Wait objective of a queue: email=5s, or *=1m for all other queues (the default). The "
    "lake remembers it; email=none removes it. Can be repeated.",
)


@command("run", group=pipeline)
@lake_option
@master_option
@click.option("--continuous", is_flag=True, help="Keep running and add new events, until Ctrl-C.")
@slo_option
@click.option(
    "--delta",
    metavar="PATH",
    help="Also write Delta tables to this path, from now on; `none` stops that.",
)
@click.option(
    "--keep",
    type=values.seconds,
    metavar="SPAN",
    help="Drop events and job runs that are older than this, such as 90d. Gold is kept.",
)
@click.option(
    "--reader",
    default="lake",
    metavar="NAME",
    help="The lake's name as a reader of the journal, which keeps events for it.",
)
@click.option(
    "--batch-events",
    type=click.IntRange(min=1),
    metavar="N",
    help="Maximum number of events in a batch (default: all).",
)
@click.option(
    "--skip-dropped",
    multiple=True,
    metavar="QUEUE",
    help="Continue without events that the queue's journal dropped before they were read; each "
    "report shows the gap. '*' is all queues. Can be repeated.",
)
@click.option(
    "--moved", is_flag=True, help="Accept another store URL: it is the same store, moved."
)
@shared_files_option
def run(
    session: Session,
    lake: str,
    master: str | None,
    continuous: bool,
    slo: tuple[str, ...],
    delta: str | None,
    keep: float | None,
    reader: str,
    batch_events: int | None,
    skip_dropped: tuple[str, ...],
    moved: bool,
    shared_files: bool,
) -> None:
    """Add new events of the journal to a lake of Parquet tables.

    The journal becomes bronze (events), silver (one row for each run of a job) and gold (traffic,
    quantiles, errors, workers, objectives, a forecast). It may be stopped or killed at any time:
    the next run continues from there, and each event is in the lake exactly once.

    ackline pipeline run --lake lake --slo email=5s
    """
    require_shared_store(session, master, shared_files)
    objectives = dict(parse_slo(text) for text in slo or ())
    if keep is not None:
        _require_above_zero(keep, f"--keep {keep:g}", "90d")
    queues = session.queues
    _notice_missing(session, objectives, skip_dropped or ())
    require_writable(lake, None if delta == "none" else delta)
    spark = start_spark(session, master)
    from ackline.spark.lake.running import Asked, Run

    options = Asked(
        url=session.url,
        tenant=session.tenant,
        lake=lake,
        reader=reader,
        objectives=objectives,
        delta=delta,
        keep=keep,
        moved=moved,
        shared_files=shared_files,
        events_per_batch=batch_events,
        skip_dropped=tuple(skip_dropped or ()),
    )
    with stopping_spark(spark, "the next run continues where this one stopped"):
        job = Run(spark, queues, options)
        if continuous:
            _run_continuously(session, job)
        else:
            with session.notices.status("reading the journal"):
                result = job.to_now()
            _print_run(session, result)


def parse_slo(text: str) -> tuple[str, float | None]:
    """Parse `email=5s`; `email=none` has no objective."""
    queue, equals, within = text.rpartition("=")
    if not equals or not queue:
        raise UsageError(f"--slo {text!r}: write QUEUE=SPAN, such as email=5s or *=1m")
    if within == "none":
        return queue, None
    return queue, _require_above_zero(values.seconds(within), f"--slo {text}", "5s")


def _require_above_zero(seconds: float, option: str, example: str) -> float:
    if seconds <= 0:
        raise UsageError(f"{safe(option)}: write a duration above 0, such as {example}")
    return seconds


def _notice_missing(
    session: Session, objectives: Mapping[str, float | None], skipped: Collection[str]
) -> None:
    """Warn of queue names that do not exist, and may be mistyped."""
    if warn_if_no_queues(session):
        return
    names = sorted(session.queues)
    for queue, seconds in objectives.items():
        if seconds is not None and queue not in ("*", *names):
            session.notice(
                f"--slo {safe(queue)}: no such queue yet; the lake remembers it. "
                f"Existing queues: {', '.join(map(safe, names))}. {safe(queue)}=none removes it",
                "yellow",
            )
    # The journal of a dropped queue may have a gap, too.
    infos = session.queues.store.describe(session.tenant, include_dropped=True)
    journals = sorted(info.key.name for info in infos)
    for queue in skipped:
        if queue not in ("*", *journals):
            session.notice(
                f"--skip-dropped {safe(queue)}: no such queue, so nothing is skipped. "
                f"Existing queues: {', '.join(map(safe, journals))}",
                "yellow",
            )


def _print_run(session: Session, result: Ran) -> None:
    if session.json:
        session.print_json(result)
        return
    for gap in result.skipped:
        session.notice(f"missing from now on: {gap_text(gap)}", "yellow")
    if not result.events:
        session.print(f"No new events. {result.lake} is up to date.")
        return
    batches = pluralize(result.batches, "batch", "batches")
    session.print(
        f"{pluralize(result.events, 'event')} in {batches}, "
        f"{pluralize(result.ended, 'job run')} ended, "
        f"gold of {pluralize(result.days, 'day')} updated: {duration(result.seconds)}"
    )
    if result.compacted or result.dropped:
        session.print(f"{result.compacted} batches compacted, {result.dropped} dropped.")


def _run_continuously(session: Session, job: Run) -> None:
    """Run until Ctrl-C or SIGTERM, and finish the current batch unless Ctrl-C is pressed again."""
    stopping = threading.Event()

    def stop(_number: int) -> None:
        if not stopping.is_set():
            session.notice("stopping after the current batch; press Ctrl-C again to stop now")
        stopping.set()

    previous = signal.getsignal(signal.SIGINT)
    restore_signals = handle_stop_signals(stop)
    _restore_after_first_signal(previous)
    session.notice("stop it with Ctrl-C")
    try:
        job.for_ever(lambda result: _print_run(session, result), stopping)
    finally:
        restore_signals()


def _restore_after_first_signal(previous: Any) -> None:
    """Handle the first Ctrl-C with the current handler, and later ones with the previous one."""
    current: Any = signal.getsignal(signal.SIGINT)

    def first(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, previous)
        current(number, frame)

    if current is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, first)
