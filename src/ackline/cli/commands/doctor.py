"""`ackline doctor`: check a store and its queues, and say what to do about each problem."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from rich.text import Text

from ackline.cli.app import command
from ackline.cli.exits import CommandError
from ackline.cli.output.queue_tables import oldest_age
from ackline.cli.output.reader_lag import reader_lag
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import duration, pluralize, safe
from ackline.cli.output.versions import ackline_version, python_version
from ackline.cli.session import Session
from ackline.core.config import QueueSettings
from ackline.core.job import State
from ackline.maintenance.unhandled_kinds import find_unhandled_kinds
from ackline.queue import Queue, RecoveryStats
from ackline.queues import Queues
from ackline.stores.contract import Filter, QueueInfo, StoreInfo, WorkerRecord
from ackline.stores.registry import sqlite_file_of

CLOCK_LIMIT = 1.0
"""Seconds that this machine's clock may differ from the store's."""

OVERDUE_AFTER = 10.0
"""Seconds past its deadline after which a lease should have been recovered."""

MAX_LISTED = 5
"""Stuck jobs that are listed by id."""

MIN_FREE_DISK = 128 * 1024 * 1024
"""Bytes."""

NO_WORKER_AFTER = 60.0
"""Seconds after which queued jobs without a worker are an error, not just a restart."""

LONG_RUN = 600.0
"""Seconds after which a job without a timeout is compared with finished ones of its kind."""

LONG_RUN_FACTOR = 10
"""How many times as long as the longest of those it may run before it is reported."""

COMPARED_JOBS = 200
"""Running jobs of a queue that are checked, and finished ones that they are compared with."""

READER_LATE_AFTER = 86400.0
"""Seconds that a registered reader may be behind."""

Severity = Literal["ok", "warning", "error"]


class Finding(msgspec.Struct, frozen=True):
    """The result of one check."""

    severity: Severity
    subject: str
    message: str
    advice: str = ""


@command("doctor")
def doctor(session: Session) -> None:
    """Check the store, its clock, leases, workers and readers.

    It only reads, and changes nothing. Exits with 1 if there is an error.

    It checks whether the store opens and can be read, where it is and how durable it is, whether
    its file is writable and its disk has space, the clocks, overdue leases, handlers that seem to
    hang, workers that died with jobs, kinds that no worker handles, and readers of the journal that
    are behind; on PostgreSQL also transactions left open by others, and whether vacuum keeps up.
    """
    findings = list(_run_checks(session))
    errors = [finding for finding in findings if finding.severity == "error"]
    if session.json:
        session.print_json({"ok": not errors, "findings": findings})
    else:
        _print_findings(session, findings)
    if errors:
        first = f"{errors[0].subject}: {errors[0].message}\n{errors[0].advice}"
        raise CommandError(f"{pluralize(len(errors), 'error')}: {first}")


def _run_checks(session: Session) -> Iterator[Finding]:
    yield Finding("ok", "versions", f"ackline {ackline_version()}, Python {python_version()}")
    queues = session.queues
    info = queues.info()
    yield from _store(info, persistent=queues.store.capabilities.persistent)
    yield from _file(session.url)
    yield _clock(info)
    found = queues.describe()
    yield Finding("ok", "journal", f"readable, ends at {info.cursor}")
    yield Finding("ok", "queues", ", ".join(safe(i.key.name) for i in found) or "none yet")
    for queue in found:
        yield from _queue(queues, queue, info.now)


def _store(info: StoreInfo, *, persistent: bool) -> Iterator[Finding]:
    yield Finding("ok", "store", f"{info.name} {info.location}")
    yield Finding("ok", "", f"version {info.version}, schema {info.schema}")
    for name, value in info.details.items():
        yield Finding("ok", "", f"{name}: {value}")
    yield _durability(info, persistent=persistent)
    for issue in info.issues:
        severity: Severity = "error" if issue.critical else "warning"
        yield Finding(severity, issue.code, issue.message, issue.advice)


def _durability(info: StoreInfo, *, persistent: bool) -> Finding:
    """What an accepted job survives; a persistent store that is not durable is an error."""
    if info.durable:
        return Finding("ok", "durability", info.durability)
    if not persistent:
        return Finding("warning", "durability", info.durability)
    advice = "enable persistence on the server, or use it only for jobs that may be lost"
    return Finding("error", "durability", info.durability, advice)


def _file(url: str) -> Iterator[Finding]:
    path = sqlite_file_of(url)
    if path is None:
        return
    folder = os.path.dirname(path)
    if os.access(path, os.W_OK) and os.access(folder, os.W_OK):
        yield Finding("ok", "file", "writable by this user (not tried)")
    else:
        yield Finding(
            "error",
            "file",
            f"{path} is not writable by this user",
            "change its owner or its folder's",
        )
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if free < MIN_FREE_DISK:
        yield Finding("error", "disk", f"{free >> 20:,} MB left", "free up space")
    else:
        yield Finding("ok", "disk", f"{free >> 20:,} MB left")


def _clock(info: StoreInfo) -> Finding:
    difference = info.now - time.time()
    if abs(difference) <= CLOCK_LIMIT:
        agree = f"store and this machine agree within {abs(difference):.3f} s"
        return Finding("ok", "clock", agree)
    direction = "ahead of" if difference > 0 else "behind"
    return Finding(
        "error",
        "clock",
        f"the store's clock is {duration(abs(difference))} {direction} this machine's",
        "deadlines follow the store's clock; synchronize both with NTP",
    )


def _queue(queues: Queues, info: QueueInfo, now: float) -> Iterator[Finding]:
    queue = queues[info.key.name]
    name, counts = safe(info.key.name), info.counts
    alive = [worker for worker in queue.workers() if worker.expires_at > now]
    recovery = queue.recovery()
    errors = [*_overdue(queue, recovery, info.settings), *_dead_workers(queue, now)]
    yield from errors
    if not errors:
        yield Finding("ok", name, f"{pluralize(len(alive), 'worker')}, no leases overdue")
    yield from _recovered(name, recovery, now)
    if counts[State.PROCESSING]:
        yield from _long_runs(queue, name, now)
    if info.settings.paused:
        yield Finding("warning", name, "paused", f"ackline resume {name}")
    elif counts[State.QUEUED] and not alive:
        yield _no_worker(queue, name, counts[State.QUEUED], now)
    elif counts[State.QUEUED]:
        yield from _no_handler(queue, name, alive, now)
    if counts[State.FAILED]:
        yield Finding(
            "warning",
            name,
            f"{pluralize(counts[State.FAILED], 'job')} in the DLQ",
            f"ackline list {name} --state failed",
        )
    yield from _late_readers(queue, now)


def _no_worker(queue: Queue[Any, Any], name: str, queued: int, now: float) -> Finding:
    """An error once the oldest job has waited long, so that monitoring notices."""
    waited = oldest_age(queue, now) or 0.0
    return Finding(
        "error" if waited > NO_WORKER_AFTER else "warning",
        name,
        f"{pluralize(queued, 'job')} queued and no worker, oldest {duration(waited)}",
        "start one: ackline worker MODULE:NAME",
    )


def _no_handler(
    queue: Queue[Any, Any], name: str, alive: list[WorkerRecord], now: float
) -> Iterator[Finding]:
    """Kinds of queued jobs that no live worker has a handler for."""
    for found in find_unhandled_kinds(queue, alive):
        waited = now - found.oldest_created_at
        at_least = "at least " if found.may_have_more else ""
        yield Finding(
            "error" if waited > NO_WORKER_AFTER else "warning",
            name,
            f"{at_least}{pluralize(found.jobs, 'job')} of kind {found.kind!r}, which no live "
            f"worker handles, oldest {duration(waited)}",
            f"start a worker that handles it; see ackline list {name} --kind {safe(found.kind)}",
        )


def _overdue(
    queue: Queue[Any, Any], recovery: RecoveryStats, settings: QueueSettings
) -> Iterator[Finding]:
    if recovery.longest_overdue <= OVERDUE_AFTER:
        return
    overdue = pluralize(recovery.overdue, "lease")
    message = f"{overdue} overdue, by up to {duration(recovery.longest_overdue)}"
    if recovery.stuck:
        message += f"; stuck: {', '.join(map(safe, recovery.stuck[:MAX_LISTED]))}"
    advice = "start a worker: it recovers them immediately"
    if not settings.recovery:
        advice = f"recovery is off for this queue: ackline recover {safe(queue.name)}"
    yield Finding("error", safe(queue.name), message, advice)


def _long_runs(queue: Queue[Any, Any], name: str, now: float) -> Iterator[Finding]:
    """Jobs that run far longer than they should: their workers are alive and extend the leases."""
    which = Filter(states=frozenset({State.PROCESSING}))
    usual: dict[str, float | None] = {}
    for job in queue.store.page(queue.key, which, None, COMPARED_JOBS).jobs:
        seconds = now - (job.started_at or now)
        timeout = queue.policies.of(job).timeout
        if timeout is not None:
            limit, than = timeout + OVERDUE_AFTER, f"its timeout is {duration(timeout)}"
        elif seconds > LONG_RUN:
            if job.kind not in usual:
                usual[job.kind] = _longest_run(queue, job.kind)
            longest = usual[job.kind]
            if longest is None:
                continue
            limit = max(LONG_RUN, LONG_RUN_FACTOR * longest)
            than = f"the last ones of kind {job.kind!r} took at most {duration(longest)}"
        else:
            continue
        if seconds > limit:
            yield Finding(
                "warning",
                name,
                f"job {safe(job.id)} has been running for {duration(seconds)} in worker "
                f"{safe(job.worker)}, and {than}",
                f"see whether its handler hangs, then ackline cancel {name} {safe(job.id)}; a "
                "timeout of the handler or the queue ends such jobs",
            )


def _longest_run(queue: Queue[Any, Any], kind: str) -> float | None:
    """The longest run among the jobs of a kind that were completed last."""
    which = Filter(states=frozenset({State.COMPLETED}), kinds=frozenset({kind}))
    jobs = queue.store.page(queue.key, which, None, COMPARED_JOBS, newest_first=True).jobs
    return max(
        (job.finished_at - job.started_at for job in jobs if job.finished_at and job.started_at),
        default=None,
    )


def _recovered(name: str, recovery: RecoveryStats, now: float) -> Iterator[Finding]:
    if recovery.by_source:
        by = ", ".join(
            f"{source} {recovered.jobs:,} (last {duration(now - recovered.last_at)} ago)"
            for source, recovered in recovery.by_source.items()
        )
        yield Finding("ok", name, f"{pluralize(recovery.jobs, 'job')} recovered so far: {by}")


def _dead_workers(queue: Queue[Any, Any], now: float) -> Iterator[Finding]:
    for worker in queue.workers():
        if worker.expires_at <= now and worker.leases:
            since = duration(now - worker.last_heartbeat_at)
            yield Finding(
                "error",
                safe(queue.name),
                f"worker {safe(worker.heartbeat.id)} is dead: no heartbeat for {since}, and it "
                f"still has {pluralize(worker.leases, 'lease')}",
                "start a worker: it recovers the jobs, at the latest when their leases expire",
            )


def _late_readers(queue: Queue[Any, Any], now: float) -> Iterator[Finding]:
    name = safe(queue.name)
    for info in queue.readers():
        lag, unsaved, reader = reader_lag(queue, info), now - info.saved_at, safe(info.name)
        where = "" if info.every_queue else f" {name}"
        if lag.dropped:
            message = f"reader {reader} has lost events: the journal dropped them unread"
            rerun = f"ackline events{where} --reader {reader}"
            advice = "its next run" if info.every_queue else rerun
            yield Finding("warning", name, message, f"{advice} shows where it can continue")
        elif min(unsaved, lag.seconds(now)) > READER_LATE_AFTER:
            message = (
                f"reader {reader} is {pluralize(lag.events, 'event')} behind, "
                f"and last saved {duration(unsaved)} ago"
            )
            advice = f"start it, or remove it: ackline readers{where} --forget {reader}"
            yield Finding("warning", name, message, advice)


_LABELS = {
    "ok": ("ok", "green"),
    "warning": ("warning", "yellow"),
    "error": ("ERROR", "bold red"),
}


def _print_findings(session: Session, findings: list[Finding]) -> None:
    table = new_table(
        "severity",
        "subject",
        "message",
        shrinkable=[("subject", 24), ("message", 24)],
        fold=["subject", "message"],
    )
    table.show_header = False
    subject = ""
    for finding in findings:
        repeated, subject = finding.subject == subject, finding.subject
        message = Text(safe(finding.message))
        if finding.advice:
            message.append(f"\n→ {finding.advice}", "bold")
        table.add_row(
            Text(*_LABELS[finding.severity]), Text("" if repeated else subject, "bold"), message
        )
    session.print(table)
