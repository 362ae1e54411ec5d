"""`ackline relay`: move the jobs of one store to another, each exactly once."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

import ackline
from ackline.cli.app import command
from ackline.cli.exits import UsageError
from ackline.cli.options import log_format as logging_options
from ackline.cli.options import values
from ackline.cli.output.text import pluralize, safe
from ackline.cli.session import Session, require_existing_store, store_url
from ackline.logs import LogFormat
from ackline.queue import Queue
from ackline.queues import Queues, queue_not_found_message
from ackline.relay import Relay, RelayStats
from ackline.relay.relay import BATCH, LEASE
from ackline.worker.processes.stop_signals import handle_stop_signals
from ackline.worker.startup_retry import retry_until_available

logger = logging.getLogger("ackline")

REPORT_EVERY = 10.0
"""Seconds between log lines about relayed jobs."""


@command("relay")
@click.option("--to", required=True, metavar="URL", help="The target store.")
@click.option(
    "--queue",
    multiple=True,
    required=True,
    metavar="NAME[=OTHER]",
    help="The queue, and its name in the target if it differs. Can be repeated.",
)
@click.option("--from", "source", metavar="URL", help="The source store (default: --store).")
@click.option("--once", is_flag=True, help="Relay the jobs that are ready, then exit.")
@click.option(
    "--batch", type=click.IntRange(min=1), default=BATCH, metavar="N", help="Jobs per batch."
)
@click.option(
    "--lease",
    type=values.seconds,
    default=f"{LEASE:g}s",
    metavar="SPAN",
    help="Time after which another relay takes over from one that died.",
)
@click.option(
    "--maintenance/--no-maintenance",
    default=True,
    help="Run maintenance of the source queues in this process.",
)
@logging_options.format_option
def relay(
    session: Session,
    to: str,
    queue: tuple[str, ...],
    source: str | None,
    once: bool,
    batch: int,
    lease: float,
    maintenance: bool,
    log_format: LogFormat,
) -> None:
    """Move the jobs of one store to another, each exactly once.

    For jobs that an application enqueues in its own transaction (an outbox in PostgreSQL), and
    that workers of another store, such as Redis, run. A job keeps its id, kind, payload, priority
    and options; a delayed job is relayed when it is due.

    SIGTERM or Ctrl-C stops it. If a store cannot be reached, it waits and continues by itself.

    ackline relay --from postgresql://db/app --to redis://redis --queue email
    """
    logging_options.configure_session_logging(session, log_format)
    stopping = threading.Event()
    if source is None:
        source_url = session.url
        require_existing_store(source_url, "--from, --store or ACKLINE_STORE")
    else:
        source_url = store_url(source)
        require_existing_store(source_url, "--from")
    restore_signals = handle_stop_signals(lambda _number: stopping.set())
    try:
        with (
            _opened(source_url, session, stopping, retry=not once) as sources,
            _opened(store_url(to), session, stopping, retry=not once) as targets,
        ):
            names = [_parse_queue(text) for text in dict.fromkeys(queue)]
            then = "There is nothing to relay." if once else "Waiting for its first job."
            _warn_of_missing(sources, [name for name, _ in names], then)
            relays = [
                Relay(
                    sources[name], targets[other], batch=batch, lease=lease, maintenance=maintenance
                )
                for name, other in names
            ]
            if once:
                _drain_relays(relays)
            else:
                _run_relays(relays, stopping)
            _print_stats(session, relays)
    except _Stopped:
        return
    finally:
        restore_signals()


class _Stopped(Exception):
    """A stop signal came before both stores were open."""


def _parse_queue(text: str) -> tuple[str, str]:
    name, mark, other = text.partition("=")
    if not name or (mark and not other):
        raise UsageError(f"--queue {text!r}: write a queue's name, or NAME=OTHER")
    return name, other or name


@contextlib.contextmanager
def _opened(
    url: str, session: Session, stopping: threading.Event, *, retry: bool
) -> Iterator[Queues]:
    """Open a store; with `retry`, wait while it cannot be reached."""

    def open_store() -> Queues:
        return ackline.open(url, tenant=session.tenant)

    queues = retry_until_available(open_store, stopping) if retry else open_store()
    if queues is None:
        raise _Stopped
    with queues:
        yield queues


def _warn_of_missing(queues: Queues, names: Sequence[str], then: str) -> None:
    """Warn of a queue that does not exist: not yet, or its name is mistyped."""
    known = set(queues)
    for name in names:
        if name not in known:
            logger.warning("%s %s", queue_not_found_message(queues, name), then)


def _location(queue: Queue[Any, Any]) -> str:
    return f"{queue.key} in {queue.store.info().location}"


def _drain_relays(relays: Sequence[Relay]) -> None:
    for relay in relays:
        relay.drain()


def _run_relays(relays: Sequence[Relay], stopping: threading.Event) -> None:
    threads = [
        threading.Thread(target=relay.run, name=f"relay {relay.source.key}") for relay in relays
    ]
    for relay, thread in zip(relays, threads, strict=True):
        logger.info("relay of %s to %s: started", _location(relay.source), _location(relay.target))
        thread.start()
    reported = [0] * len(relays)
    while not stopping.wait(REPORT_EVERY):
        reported = [_report(relay, before) for relay, before in zip(relays, reported, strict=True)]
    for relay in relays:
        relay.request_stop()
    for thread in threads:
        thread.join()


def _report(relay: Relay, before: int) -> int:
    relayed = relay.stats().relayed
    if relayed > before:
        logger.info("relay of %s: %s relayed", relay.source.key, pluralize(relayed - before, "job"))
    return relayed


def _print_stats(session: Session, relays: Sequence[Relay]) -> None:
    if session.json:
        documents = [
            {
                "queue": relay.source.name,
                "to": relay.target.name,
                **msgspec.structs.asdict(relay.stats()),
            }
            for relay in relays
        ]
        session.print_json({"relays": documents})
        return
    for relay in relays:
        session.print_line(f"{safe(relay.source.name)}: {_stats_text(relay.stats())}")


def _stats_text(stats: RelayStats) -> str:
    parts = [f"{pluralize(stats.relayed, 'job')} relayed"]
    more = {
        "already in the target": stats.duplicates,
        "already relayed by a relay that died": stats.replayed,
        "rejected, moved to the DLQ": stats.refused,
    }
    return ", ".join([*parts, *(f"{number:,} {label}" for label, number in more.items() if number)])
