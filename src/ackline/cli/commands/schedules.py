"""`ackline schedules`: the schedules of queues, and when they tick next."""

from __future__ import annotations

from ackline.cli.app import command
from ackline.cli.options.common import any_queue_argument
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import duration, safe, timestamp
from ackline.cli.session import Session
from ackline.maintenance.scheduler import ScheduleInfo, list_schedules


@command("schedules")
@any_queue_argument
def schedules(session: Session, queue: str | None) -> None:
    """List the schedules of workers and of the service, by their next tick.

    A schedule is listed from the first time that a process has run it. One that is overdue is no
    longer run by any.
    """
    store = session.queues.store
    found, now = list_schedules(store, session.tenant, queue), store.now()
    if session.json:
        session.print_json({"schedules": found, "now": now})
    elif found:
        _show(session, found, now)
    else:
        session.print("No schedules: workers run those of their code, the service its own.")


def _show(session: Session, found: list[ScheduleInfo], now: float) -> None:
    columns = ("queue", "name", "ticks", "zone", "kind", "next", "last job")
    table = new_table(*columns, shrinkable=[("last job", 12), ("kind", 8)], fold=["last job"])
    for info in found:
        overdue = f"overdue by {duration(now - info.next_at)}"
        table.add_row(
            safe(info.queue),
            safe(info.name),
            info.cron,
            info.tz,
            safe(info.kind),
            timestamp(info.next_at, now) if info.next_at > now else overdue,
            safe(info.last_job or ""),
        )
    session.print(table)
