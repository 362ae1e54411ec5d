"""`ackline cancel`, `redrive`, `edit`, `move`, `purge`: acting on jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from ackline.cli import values
from ackline.cli.app import command
from ackline.cli.exits import Refusal, UsageMistake
from ackline.cli.jobs import KindOption, StateOption
from ackline.cli.queues import ACT, QueueArgument, who
from ackline.cli.session import Session
from ackline.cli.words import count, plain
from ackline.errors import JobNotFound, WrongState
from ackline.job import LIVE, State
from ackline.queue import Queue

IdArgument = Annotated[str, typer.Argument(help="The job's id.", show_default=False)]
IdsArgument = Annotated[list[str], typer.Argument(help="Ids of jobs.", show_default=False)]


@command("cancel", panel=ACT)
def cancel(session: Session, queue: QueueArgument, ids: IdsArgument) -> None:
    """Cancel jobs that wait; ask those that run to stop."""
    found = session.known_queue(queue)

    def act(id: str) -> str:
        state = found.cancel(id, by=who())
        if state not in (State.CANCELLED, State.PROCESSING):
            raise WrongState("cancel", id, state)
        return "cancelled" if state is State.CANCELLED else "runs: its handler was asked to stop"

    _each(session, ids, act)


@command("redrive", panel=ACT)
def redrive(
    session: Session,
    queue: QueueArgument,
    ids: Annotated[
        list[str] | None, typer.Argument(help="Ids of failed jobs.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that is in the DLQ.")] = False,
    kind: KindOption = None,
    delay: Annotated[
        float,
        typer.Option(parser=values.seconds, metavar="SPAN", help="Run them later: 30, 5m, 2h."),
    ] = 0.0,
    rate: Annotated[
        float | None, typer.Option(help="With --all: let so many become due each second.")
    ] = None,
) -> None:
    """Take failed jobs out of the DLQ and run them again."""
    if bool(ids) == everything or (kind and not everything):
        raise UsageMistake("which jobs? Give ids, or --all for the whole DLQ (--kind narrows it)")
    found = session.known_queue(queue)
    if ids:
        if rate is not None:
            raise UsageMistake("--rate goes with --all; with ids, --delay runs them later")
        _each(session, ids, lambda id: _redrive(found, id, delay))
        return
    if delay:
        raise UsageMistake("--delay goes with ids; with --all, --rate spreads them over time")
    total = found.redrive_all(kinds=kind or None, rate=rate, by=who())
    _tell_count(session, "redriven", total)


def _redrive(queue: Queue[Any, Any], id: str, delay: float) -> str:
    queue.redrive(id, delay=delay, by=who())
    return "scheduled" if delay else "queued again"


@command("edit", panel=ACT)
def edit(
    session: Session,
    queue: QueueArgument,
    id: IdArgument,
    payload: Annotated[str | None, typer.Option(metavar="JSON", help="A new payload.")] = None,
    priority: Annotated[
        int | None, typer.Option(metavar="N", help="0 (lowest) to 9 (highest).")
    ] = None,
    delay: Annotated[
        float | None,
        typer.Option(parser=values.seconds, metavar="SPAN", help="Run it so much later than now."),
    ] = None,
) -> None:
    """Change a job that is not being processed."""
    changes: dict[str, Any] = {}
    if payload is not None:
        changes["payload"] = values.payload(payload)
    if priority is not None:
        changes["priority"] = priority
    if delay is not None:
        changes["delay"] = delay
    if not changes:
        raise UsageMistake("nothing to change: give --payload, --priority or --delay")
    found = session.known_queue(queue)

    def act(id: str) -> str:
        found.edit(id, **changes, by=who())
        return f"edited: {', '.join(changes)}"

    _each(session, [id], act)


@command("move", panel=ACT)
def move(
    session: Session,
    queue: QueueArgument,
    id: IdArgument,
    target: Annotated[str, typer.Argument(help="The queue to move it to.", show_default=False)],
) -> None:
    """Hand a job to another queue of the same tenant."""
    found = session.known_queue(queue)

    def act(id: str) -> str:
        found.move(id, target, by=who())
        return f"moved to {plain(target)}"

    _each(session, [id], act)


@command("purge", panel=ACT)
def purge(
    session: Session,
    queue: QueueArgument,
    state: StateOption = None,
    kind: KindOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete jobs for good: all, or of some states or kinds."""
    found = session.known_queue(queue)
    if not yes:
        _confirm(session, found, state or None, kind or None)
    total = found.purge(states=state or None, kinds=kind or None, by=who())
    _tell_count(session, "purged", total)


@command("drop", panel=ACT)
def drop(
    session: Session,
    queue: QueueArgument,
    force: Annotated[
        bool, typer.Option("--force", help="Also if jobs wait or run; they are deleted.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a queue for good, with its finished jobs, settings and schedules.

    Refused while jobs wait or run, unless forced. Its journal stays for as long as it is kept.
    """
    found = session.known_queue(queue)
    if not force and (live := _count(found, [*LIVE], None)):
        raise Refusal(
            f"{plain(queue)} has {count(live, 'job')} waiting or running: wait for the end, "
            "or add --force to delete what is left too"
        )
    if not yes:
        _confirm(session, found, None, None)
    gone = found.drop(force=force, by=who())
    if session.json:
        session.document({"dropped": queue, "purged": gone})
    else:
        session.line(f"{plain(queue)} dropped; {count(gone, 'job')} purged")


def _confirm(
    session: Session,
    queue: Queue[Any, Any],
    states: Sequence[State] | None,
    kinds: Sequence[str] | None,
) -> None:
    total = _count(queue, states, kinds)
    jobs = " ".join(["", *(states or ()), *(map(plain, kinds or ()))])
    chosen = f"{count(total, 'job')} of {plain(queue.name)}{f' ({jobs.strip()})' if jobs else ''}"
    if session.json or not sys.stdin.isatty():
        raise UsageMistake(f"this would delete {chosen} for good: add --yes to do it")
    if not typer.confirm(f"Delete {chosen} for good?", err=True):
        raise Refusal("nothing was deleted")


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


# --- each job in turn ---


def _each(session: Session, ids: Sequence[str], act: Callable[[str], str]) -> None:
    """Act on each id; a failure is reported, and the other ids are still acted on."""
    answers: list[dict[str, Any]] = []
    for id in ids:
        try:
            answers.append({"id": id, "done": True, "now": act(id)})
        except (JobNotFound, WrongState) as error:
            answers.append({"id": id, "done": False, "error": str(error)})
    failed = [answer for answer in answers if not answer["done"]]
    if session.json:
        session.document({"jobs": answers})
    for answer in answers:
        if answer["done"] and not session.json:
            session.line(f"{plain(answer['id'])} {answer['now']}")
    if failed:
        first = plain(failed[0]["error"])
        more = f"\nand {count(len(failed) - 1, 'other')} of {len(ids)}: {_rest(failed)}"
        raise Refusal(first + (more if len(failed) > 1 else ""))


def _rest(failed: Sequence[dict[str, Any]]) -> str:
    return ", ".join(plain(answer["id"]) for answer in failed[1:6]) + ", …" * (len(failed) > 6)


def _tell_count(session: Session, word: str, total: int) -> None:
    if session.json:
        session.document({word: total})
    else:
        session.line(f"{count(total, 'job')} {word}")
