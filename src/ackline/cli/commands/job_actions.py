"""`ackline cancel`, `redrive`, `edit`, `move`, `purge`, `drop` and `recover`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from ackline.cli.app import command
from ackline.cli.exits import CommandError, UsageError
from ackline.cli.options import values
from ackline.cli.options.common import (
    current_user,
    id_argument,
    kind_option,
    priority_option,
    queue_argument,
    state_option,
    yes_option,
)
from ackline.cli.output.text import pluralize, safe
from ackline.cli.session import Session
from ackline.core.errors import JobNotFound, WrongState
from ackline.core.job import LIVE, State
from ackline.core.lifecycle import state_after_redrive
from ackline.maintenance import recover as recover_leases
from ackline.queue import Queue

ids_argument = click.argument("ids", nargs=-1, required=True, help="The ids of the jobs.")


@command("cancel")
@queue_argument
@ids_argument
def cancel(session: Session, queue: str, ids: tuple[str, ...]) -> None:
    """Cancel jobs; those that are running are asked to stop."""
    found = session.existing_queue(queue)

    def act(id: str) -> str:
        state = found.cancel(id, by=current_user())
        if state not in (State.CANCELLED, State.PROCESSING):
            raise WrongState("cancel", id, state)
        return (
            "cancelled" if state is State.CANCELLED else "is running; its handler was asked to stop"
        )

    _act_on_each(session, ids, act)


@command("redrive")
@queue_argument
@click.argument("ids", nargs=-1, help="The ids of failed jobs.")
@click.option("--all", "all_jobs", is_flag=True, help="The whole DLQ.")
@kind_option
@click.option(
    "--delay",
    type=values.seconds,
    default="0s",
    metavar="SPAN",
    help="Run them later: 30, 5m, 2h.",
)
@click.option(
    "--rate", type=float, metavar="N", help="With --all: redrive at most N jobs per second."
)
def redrive(
    session: Session,
    queue: str,
    ids: tuple[str, ...],
    all_jobs: bool,
    kind: tuple[str, ...],
    delay: float,
    rate: float | None,
) -> None:
    """Run failed jobs of the DLQ again."""
    if bool(ids) == all_jobs or (kind and not all_jobs):
        raise UsageError(
            "which jobs? Give ids, or --all for the whole DLQ (--kind selects some of it)"
        )
    found = session.existing_queue(queue)
    if ids:
        if rate is not None:
            raise UsageError("--rate needs --all; with ids, --delay runs them later")
        _act_on_each(session, ids, lambda id: _redrive(found, id, delay))
        return
    if delay:
        raise UsageError("--delay needs ids; with --all, --rate spreads them over time")
    total = found.redrive_all(kinds=kind or None, rate=rate, by=current_user())
    _print_count(session, "redriven", total)


def _redrive(queue: Queue[Any, Any], id: str, delay: float) -> str:
    queue.redrive(id, delay=delay, by=current_user())
    return "scheduled" if state_after_redrive(delay) is State.SCHEDULED else "queued again"


@command("edit")
@queue_argument
@id_argument
@click.option("--payload", metavar="JSON", help="The new payload.")
@priority_option
@click.option(
    "--delay", type=values.seconds, metavar="SPAN", help="Run it this much later than now."
)
def edit(
    session: Session,
    queue: str,
    id: str,
    payload: str | None,
    priority: int | None,
    delay: float | None,
) -> None:
    """Change the payload, priority or due time of a job that is not running."""
    changes: dict[str, Any] = {}
    if payload is not None:
        changes["payload"] = values.payload(payload)
    if priority is not None:
        changes["priority"] = priority
    if delay is not None:
        changes["delay"] = delay
    if not changes:
        raise UsageError("nothing to change: give --payload, --priority or --delay")
    found = session.existing_queue(queue)

    def act(id: str) -> str:
        found.edit(id, **changes, by=current_user())
        return f"edited: {', '.join(changes)}"

    _act_on_each(session, [id], act)


@command("move")
@queue_argument
@id_argument
@click.argument("target", help="The queue to move it to.")
def move(session: Session, queue: str, id: str, target: str) -> None:
    """Move a job to another queue of the same tenant."""
    found = session.existing_queue(queue)

    def act(id: str) -> str:
        found.move(id, target, by=current_user())
        return f"moved to {safe(target)}"

    _act_on_each(session, [id], act)


@command("purge")
@queue_argument
@state_option
@kind_option
@yes_option
def purge(
    session: Session, queue: str, state: tuple[State, ...], kind: tuple[str, ...], yes: bool
) -> None:
    """Delete jobs permanently: all, or those of some states or kinds."""
    found = session.existing_queue(queue)
    if not yes:
        _confirm(session, found, state or None, kind or None)
    total = found.purge(states=state or None, kinds=kind or None, by=current_user())
    _print_count(session, "purged", total)


@command("drop")
@queue_argument
@click.option("--force", is_flag=True, help="Also delete jobs that have not finished.")
@yes_option
def drop(session: Session, queue: str, force: bool, yes: bool) -> None:
    """Drop a queue permanently, with its finished jobs, settings and schedules.

    It is refused while there are unfinished jobs, unless forced. The journal is kept until its
    retention ends.
    """
    found = session.existing_queue(queue)
    if not force and (live := _count(found, [*LIVE], None)):
        raise CommandError(
            f"{safe(queue)} has {pluralize(live, 'unfinished job')}: wait until they "
            "finish, or add --force to delete them too"
        )
    if not yes:
        _confirm(session, found, None, None)
    purged = found.drop(force=force, by=current_user())
    if session.json:
        session.print_json({"dropped": queue, "purged": purged})
    else:
        session.print_line(f"{safe(queue)} dropped; {pluralize(purged, 'job')} purged")


def _confirm(
    session: Session,
    queue: Queue[Any, Any],
    states: Sequence[State] | None,
    kinds: Sequence[str] | None,
) -> None:
    total = _count(queue, states, kinds)
    selected = ", ".join([*(states or ()), *map(safe, kinds or ())])
    which = f" ({selected})" if selected else ""
    jobs = f"{pluralize(total, 'job')} of {safe(queue.name)}{which}"
    if session.json or not sys.stdin.isatty():
        raise UsageError(f"this would permanently delete {jobs}: add --yes to do it")
    if not click.confirm(f"Permanently delete {jobs}?", err=True):
        raise CommandError("nothing was deleted")


def _count(
    queue: Queue[Any, Any], states: Sequence[State] | None, kinds: Sequence[str] | None
) -> int:
    if kinds is None:
        counts = queue.counts()
        return sum(counts[state] for state in states or State)
    total, cursor = 0, None
    while True:
        page = queue.jobs(states=states, kinds=kinds, cursor=cursor, limit=1000)
        total, cursor = total + len(page.jobs), page.cursor
        if cursor is None:
            return total


@command("recover")
@queue_argument
def recover(session: Session, queue: str) -> None:
    """Recover jobs whose lease has expired or whose worker is dead.

    Workers do this themselves, unless the queue's settings turn it off. It costs each job an
    attempt; a job that has none left moves to the DLQ.
    """
    recovered = recover_leases(session.existing_queue(queue))
    if session.json:
        session.print_json(recovered)
        return
    dead = f", {recovered.dead_lettered:,} moved to the DLQ" if recovered.dead_lettered else ""
    session.print_line(f"{safe(queue)}: {pluralize(recovered.expired, 'job')} recovered{dead}")


def _act_on_each(session: Session, ids: Sequence[str], act: Callable[[str], str]) -> None:
    """Act on each id; failures are reported at the end."""
    answers: list[dict[str, Any]] = []
    for id in ids:
        try:
            answers.append({"id": id, "done": True, "now": act(id)})
        except (JobNotFound, WrongState) as error:
            answers.append({"id": id, "done": False, "error": str(error)})
    failed = [answer for answer in answers if not answer["done"]]
    if session.json:
        session.print_json({"jobs": answers})
    for answer in answers:
        if answer["done"] and not session.json:
            session.print_line(f"{safe(answer['id'])} {answer['now']}")
    if failed:
        first = safe(failed[0]["error"])
        more = f"\nand {len(failed) - 1:,} more of {len(ids):,}: {_other_ids(failed)}"
        raise CommandError(first + (more if len(failed) > 1 else ""))


def _other_ids(failed: Sequence[dict[str, Any]]) -> str:
    return ", ".join(safe(answer["id"]) for answer in failed[1:6]) + ", …" * (len(failed) > 6)


def _print_count(session: Session, past_tense: str, total: int) -> None:
    if session.json:
        session.print_json({past_tense: total})
    else:
        session.print_line(f"{pluralize(total, 'job')} {past_tense}")
