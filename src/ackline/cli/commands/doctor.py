"""`ackline doctor`: is everything as it should be, and if not, what to do."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from rich.text import Text

from ackline.cli.app import command
from ackline.cli.commands.queues import oldest_age
from ackline.cli.commands.readers import reader_lag
from ackline.cli.exits import Refusal
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import duration, pluralize, safe
from ackline.cli.output.versions import ackline_version, python_version
from ackline.cli.session import Session
from ackline.core.config import QueueSettings
from ackline.core.job import State
from ackline.queue import Queue, RecoveryStats
from ackline.queues import Queues
from ackline.stores.contract import Filter, QueueInfo, StoreInfo, WorkerRecord
from ackline.stores.registry import sqlite_file_of

CLOCK_LIMIT = 1.0
"""Seconds that this machine's clock may differ from the store's."""

OVERDUE_AFTER = 10.0
"""Seconds past its deadline after which a lease should have been taken back."""

MAX_LISTED = 5
"""Stuck jobs that are named."""

MIN_FREE_DISK = 128 * 1024 * 1024

NO_WORKER_AFTER = 60.0
"""Seconds after which jobs without a worker are a fault, not a gap between two workers."""

CHECKED_JOBS = 200
"""Jobs at the head of a line whose kinds are checked: jobs that no worker takes gather there."""

READER_LATE_AFTER = 86400.0
"""Seconds that events may wait for a registered reader."""

Severity = Literal["ok", "note", "wrong"]


class Finding(msgspec.Struct, frozen=True):
    """The result of one check."""

    severity: Severity
    subject: str
    message: str
    advice: str = ""


@command("doctor")
def doctor(session: Session) -> None:
    """Check the store, its clock, leases and workers.

    Nothing is changed.

    Looked at: whether the store opens and can be read, where it is and what its answer
    survives, whether its file may be written and its disk has room, the clocks, leases past
    their deadline, workers that died with jobs, kinds that no worker handles, readers of the
    journal that fell behind; on PostgreSQL also transactions that others leave open, and
    whether vacuum keeps up.
    Not tried: writing.
    """
    findings = list(_run_checks(session))
    wrong = [finding for finding in findings if finding.severity == "wrong"]
    if session.json:
        session.print_json({"ok": not wrong, "findings": findings})
    else:
        _print_findings(session, findings)
    if wrong:
        first = f"{wrong[0].subject}: {wrong[0].message}. {wrong[0].advice}"
        raise Refusal(f"{pluralize(len(wrong), 'thing')} to look after: {first}")


def _run_checks(session: Session) -> Iterator[Finding]:
    yield Finding("ok", "versions", f"ackline {ackline_version()}, Python {python_version()}")
    queues = session.queues
    info = queues.info()
    yield from _store(info, lasts=queues.store.capabilities.persistent)
    yield from _file(session.url)
    yield _clock(info)
    found = queues.describe()
    yield Finding("ok", "journal", f"readable, ends at {info.cursor}")
    yield Finding("ok", "queues", ", ".join(safe(i.key.name) for i in found) or "none yet")
    for queue in found:
        yield from _queue(queues, queue, info.now)


def _store(info: StoreInfo, *, lasts: bool) -> Iterator[Finding]:
    yield Finding("ok", "store", f"{info.name} {info.location}")
    yield Finding("ok", "", f"version {info.version}, schema {info.schema}")
    for name, value in info.details.items():
        yield Finding("ok", "", f"{name}: {value}")
    yield _durability(info, lasts=lasts)
    for trouble in info.issues:
        level: Severity = "wrong" if trouble.critical else "note"
        yield Finding(level, trouble.code, trouble.message, trouble.advice)


def _durability(info: StoreInfo, *, lasts: bool) -> Finding:
    """What an accepted job survives; a persistent store that keeps nothing is wrong."""
    if not info.durability.startswith("none"):
        return Finding("ok", "durability", info.durability)
    if not lasts:
        return Finding("note", "durability", info.durability)
    do = "let the server write to its disk, or give it only jobs that may be lost"
    return Finding("wrong", "durability", info.durability, do)


def _file(url: str) -> Iterator[Finding]:
    path = sqlite_file_of(url)
    if path is None:
        return
    folder = os.path.dirname(path)
    if os.access(path, os.W_OK) and os.access(folder, os.W_OK):
        yield Finding("ok", "file", "this user may write it (not tried)")
    else:
        yield Finding(
            "wrong", "file", f"this user may not write {path}", "change its owner, or its folder's"
        )
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if free < MIN_FREE_DISK:
        yield Finding("wrong", "disk", f"{free >> 20:,} MB left", "free some space")
    else:
        yield Finding("ok", "disk", f"{free >> 20:,} MB left")


def _clock(info: StoreInfo) -> Finding:
    apart = info.now - time.time()
    if abs(apart) <= CLOCK_LIMIT:
        agree = f"the store's and this machine's agree within {abs(apart):.3f} s"
        return Finding("ok", "clock", agree)
    which = "ahead of" if apart > 0 else "behind"
    return Finding(
        "wrong",
        "clock",
        f"the store's is {duration(abs(apart))} {which} this machine's",
        "leases go by the store's; set both by NTP",
    )


def _queue(queues: Queues, info: QueueInfo, now: float) -> Iterator[Finding]:
    queue = queues[info.key.name]
    name, counts = safe(info.key.name), info.counts
    alive = [worker for worker in queue.workers() if worker.expires_at > now]
    recovery = queue.recovery()
    wrong = [*_overdue(queue, recovery, info.settings), *_dead_workers(queue, now)]
    yield from wrong
    yield from _recovered(name, recovery, now)
    if not wrong:
        yield Finding("ok", name, f"{pluralize(len(alive), 'worker')}, no lease overdue")
    if info.settings.paused:
        yield Finding("note", name, "paused", f"ackline resume {name}")
    elif counts[State.QUEUED] and not alive:
        yield _no_worker(queue, name, counts[State.QUEUED], now)
    elif counts[State.QUEUED]:
        yield from _no_handler(queue, name, alive, now)
    if counts[State.FAILED]:
        yield Finding(
            "note",
            name,
            f"{pluralize(counts[State.FAILED], 'job')} in the DLQ",
            f"ackline list {name} --state failed",
        )
    yield from _late_readers(queue, now)


def _no_worker(queue: Queue[Any, Any], name: str, queued: int, now: float) -> Finding:
    """Wrong once jobs have waited for long: a monitor must see that all workers are gone."""
    waited = oldest_age(queue, now) or 0.0
    return Finding(
        "wrong" if waited > NO_WORKER_AFTER else "note",
        name,
        f"{pluralize(queued, 'job')} queued and no worker, the first has waited {duration(waited)}",
        "start one: ackline worker MODULE:QUEUE",
    )


def _no_handler(
    queue: Queue[Any, Any], name: str, alive: list[WorkerRecord], now: float
) -> Iterator[Finding]:
    """Kinds that wait although there are workers: none of these has a handler for them."""
    handled = [worker.heartbeat.kinds for worker in alive]
    if None in handled:
        return
    known = {kind for kinds in handled for kind in kinds or ()}
    which = Filter(states=frozenset({State.QUEUED}))
    page = queue.store.page(queue.key, which, None, CHECKED_JOBS)
    waiting = [job for job in page.jobs if job.kind not in known]
    for kind, number in Counter(job.kind for job in waiting).items():
        waited = now - min(job.created_at for job in waiting if job.kind == kind)
        least = "at least " if page.cursor is not None else ""
        yield Finding(
            "wrong" if waited > NO_WORKER_AFTER else "note",
            name,
            f"{least}{pluralize(number, 'job')} of kind {kind!r}, which no live worker handles, "
            f"the first has waited {duration(waited)}",
            f"start a worker with a handler for it; see ackline list {name} --kind {safe(kind)}",
        )


def _overdue(
    queue: Queue[Any, Any], recovery: RecoveryStats, settings: QueueSettings
) -> Iterator[Finding]:
    if recovery.longest_overdue <= OVERDUE_AFTER:
        return
    overdue = pluralize(recovery.overdue, "lease")
    says = f"{overdue} overdue, by up to {duration(recovery.longest_overdue)}"
    if recovery.stuck:
        says += f"; stuck: {', '.join(map(safe, recovery.stuck[:MAX_LISTED]))}"
    do = "start a worker: it takes them back at once"
    if not settings.recovery:
        do = f"recovery is off for this queue: ackline recover {safe(queue.name)}"
    yield Finding("wrong", safe(queue.name), says, do)


def _recovered(name: str, recovery: RecoveryStats, now: float) -> Iterator[Finding]:
    if recovery.by_source:
        by = ", ".join(
            f"{way} {recovered.jobs:,} (last {duration(now - recovered.last_at)} ago)"
            for way, recovered in recovery.by_source.items()
        )
        yield Finding("ok", name, f"{pluralize(recovery.jobs, 'job')} recovered so far: {by}")


def _dead_workers(queue: Queue[Any, Any], now: float) -> Iterator[Finding]:
    for worker in queue.workers():
        if worker.expires_at <= now and worker.leases:
            silent = duration(now - worker.last_heartbeat_at)
            yield Finding(
                "wrong",
                safe(queue.name),
                f"worker {safe(worker.heartbeat.id)} is silent for {silent} and holds "
                f"{pluralize(worker.leases, 'job')}",
                "start a worker: it takes them back, at the latest when their leases lapse",
            )


def _late_readers(queue: Queue[Any, Any], now: float) -> Iterator[Finding]:
    name = safe(queue.name)
    for info in queue.readers():
        waits, silent, reader = reader_lag(queue, info), now - info.saved_at, safe(info.name)
        where = "" if info.every_queue else f" {name}"
        if waits.dropped:
            says = f"reader {reader} has lost events that it had not read yet"
            again = f"ackline events{where} --reader {reader}"
            how = "when it runs next" if info.every_queue else again
            yield Finding("note", name, says, f"it is told where to go on: {how}")
        elif min(silent, waits.since(now)) > READER_LATE_AFTER:
            says = f"reader {reader} has not saved for {duration(silent)} while events wait for it"
            do = f"start it, or give it up: ackline readers{where} --forget {reader}"
            yield Finding("note", name, says, do)


_LABELS = {"ok": ("ok", "green"), "note": ("note", "yellow"), "wrong": ("WRONG", "bold red")}


def _print_findings(session: Session, findings: list[Finding]) -> None:
    table = new_table(
        "level", "what", "says", shrinkable=[("what", 24), ("says", 24)], fold=["what", "says"]
    )
    table.show_header = False
    for finding in findings:
        says = Text(safe(finding.message))
        if finding.advice:
            says.append(f"\n→ {finding.advice}", "bold")
        table.add_row(Text(*_LABELS[finding.severity]), Text(finding.subject, "bold"), says)
    session.print(table)
