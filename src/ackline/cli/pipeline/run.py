"""`ackline pipeline run`: the journal as a lake of tables."""

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
    help="How long jobs of a queue may wait: email=5s, or *=1m for all other queues, which is "
    "the default. The lake remembers it; email=none forgets it. May be repeated.",
)


@command("run", group=pipeline)
@lake_option
@master_option
@click.option(
    "--continuous", is_flag=True, help="Keep running and take in what is new, until Ctrl-C."
)
@slo_option
@click.option(
    "--delta",
    metavar="PATH",
    help="Also keep the tables as Delta tables here, from now on; `none` ends that.",
)
@click.option(
    "--keep",
    type=values.seconds,
    metavar="SPAN",
    help="Drop events and lives that are older than this, such as 90d. Gold stays.",
)
@click.option(
    "--reader",
    default="lake",
    metavar="NAME",
    help="The lake's name in the store, which keeps events until it has them.",
)
@click.option(
    "--batch-events",
    type=click.IntRange(min=1),
    metavar="N",
    help="Events in one batch at most; by default, all.",
)
@click.option(
    "--skip-dropped",
    multiple=True,
    metavar="QUEUE",
    help="Go on without events that the queue's journal dropped before they were read; each "
    "report tells of the gap. '*' is all queues. May be repeated.",
)
@click.option(
    "--moved", is_flag=True, help="Accept a store at another URL: it is the same one, moved."
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
    """Add what has happened since the last run to a lake of Parquet tables.

    The journal becomes bronze (events), silver (one row for each life of a job) and gold
    (traffic, quantiles, errors, workers, objectives, a forecast). It may be stopped or killed at
    any time: the next run continues from there, and each event is in the lake once.

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

    asked = Asked(
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
    with stopping_spark(spark, "the next run continues where this one ended"):
        job = Run(spark, queues, asked)
        if continuous:
            _run_continuously(session, job)
        else:
            with session.notices.status("taking in the journal"):
                ran = job.to_now()
            _print_run(session, ran)


def parse_slo(text: str) -> tuple[str, float | None]:
    """Read `email=5s`; `email=none` is none."""
    queue, equals, within = text.rpartition("=")
    if not equals or not queue:
        raise UsageError(f"--slo {text!r}: write QUEUE=SPAN, such as email=5s or *=1m")
    if within == "none":
        return queue, None
    return queue, _require_above_zero(values.seconds(within), f"--slo {text}", "5s")


def _require_above_zero(seconds: float, option: str, such_as: str) -> float:
    if seconds <= 0:
        raise UsageError(f"{safe(option)}: write a span above 0, such as {such_as}")
    return seconds


def _notice_missing(
    session: Session, objectives: Mapping[str, float | None], skipped: Collection[str]
) -> None:
    """Warn of a mistyped queue name, which would have no effect."""
    if warn_if_no_queues(session):
        return
    names = sorted(session.queues)
    for queue, seconds in objectives.items():
        if seconds is not None and queue not in ("*", *names):
            session.notice(
                f"--slo {safe(queue)}: there is no such queue yet; the lake remembers it. "
                f"There are: {', '.join(map(safe, names))}. {safe(queue)}=none forgets it",
                "yellow",
            )
    # Of a queue that was dropped, the journal may have a gap, too.
    infos = session.queues.store.describe(session.tenant, include_dropped=True)
    journals = sorted(info.key.name for info in infos)
    for queue in skipped:
        if queue not in ("*", *journals):
            session.notice(
                f"--skip-dropped {safe(queue)}: there is no such queue, so nothing is skipped. "
                f"There are: {', '.join(map(safe, journals))}",
                "yellow",
            )


def _print_run(session: Session, ran: Ran) -> None:
    if session.json:
        session.print_json(ran)
        return
    for gap in ran.skipped:
        session.notice(f"missing from now on, {gap_text(gap)}", "yellow")
    if not ran.events:
        session.print(f"Nothing new. {ran.lake} is up to date.")
        return
    batches = pluralize(ran.batches, "batch", "batches")
    session.print(
        f"{pluralize(ran.events, 'event')} in {batches}, {pluralize(ran.ended, 'life', 'lives')} "
        f"ended, "
        f"gold of {pluralize(ran.days, 'day')}: {duration(ran.seconds)}"
    )
    if ran.compacted or ran.dropped:
        session.print(f"{ran.compacted} batches were put together, {ran.dropped} dropped.")


def _run_continuously(session: Session, job: Run) -> None:
    """Run until Ctrl-C or SIGTERM; a batch is finished first, unless Ctrl-C comes a second time."""
    stopping = threading.Event()

    def stop(_number: int) -> None:
        if not stopping.is_set():
            session.notice("stopping: a batch under way is finished; a second Ctrl-C ends it")
        stopping.set()

    at_once = signal.getsignal(signal.SIGINT)
    deafen = handle_stop_signals(stop)
    _restore_after_first_signal(at_once)
    session.notice("Ctrl-C ends it")
    try:
        job.for_ever(lambda ran: _print_run(session, ran), stopping)
    finally:
        deafen()


def _restore_after_first_signal(at_once: Any) -> None:
    """The first Ctrl-C is heard as it is now, any further one as it was before."""
    gently: Any = signal.getsignal(signal.SIGINT)

    def first(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, at_once)
        gently(number, frame)

    if gently is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, first)
