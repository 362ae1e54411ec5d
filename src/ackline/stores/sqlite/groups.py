"""Groups: how many jobs of one group may be processing at once.

A claim parks the queued jobs of a full group in lines of their own, so that it does not meet
them again and again. Whenever a place in a group may have become free, as many jobs as fit go
back into their line. One too many does no harm: the next claim parks it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ackline.stores.sqlite.lines import Lines
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.rows import numbers


def running_in(lines: Lines, group: str) -> int:
    """How many jobs of a group are leased."""
    rows = lines.tx.execute(sql("group_running"), (lines.num, group)).fetchall()
    return rows[0][0] if rows else 0


def enter_groups(lines: Lines, entered: Mapping[str, int]) -> None:
    """Count new leases."""
    lines.tx.executemany(
        sql("enter_group"), [(lines.num, group, count) for group, count in entered.items()]
    )


def leave_groups(lines: Lines, left: Mapping[str, int]) -> None:
    """Count ended leases, and let parked jobs of these groups stand in line again."""
    for group, count in left.items():
        if count:
            lines.tx.execute(sql("leave_group"), (count, lines.num, group))
            lines.tx.execute(sql("forget_group"), (lines.num, group))
    unpark(lines, left)


def unpark(lines: Lines, groups: Iterable[str]) -> None:
    """Let as many parked jobs of each group stand in line as the group has room for.

    That many of each kind, because the next claim may want only some kinds.
    """
    for group in groups:
        slots = lines.tx.execute(sql("parked_slots"), (lines.num, group)).fetchall()
        room = lines.settings.group_limit - running_in(lines, group) if slots else 0
        if room > 0:
            for parked, kind in slots:
                _unpark_line(lines, parked, kind, room)


def _unpark_line(lines: Lines, parked: int, kind: str, room: int) -> None:
    jobs = [job for (job,) in lines.tx.execute(sql("parked_jobs"), (parked, room)).fetchall()]
    if jobs:
        ready = lines.ready(kind)
        lines.tx.execute(sql("put_many"), (ready, numbers(jobs)))
        lines.shift(parked, ready, len(jobs))
        lines.flush()
        lines.tx.wake(lines.key, "ready")
    lines.tx.execute(sql("drop_slot"), (parked,))


def unpark_all(lines: Lines) -> None:
    """Unpark jobs of every group that has parked ones, because the limit has changed."""
    rows = lines.tx.execute(sql("parked_groups"), (lines.num,)).fetchall()
    unpark(lines, [group for (group,) in rows])
