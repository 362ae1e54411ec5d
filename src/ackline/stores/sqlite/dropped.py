"""Up to where each journal was dropped, kept as one number among the counters."""

from __future__ import annotations

from ackline.stores.sqlite.connection import Execute
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.transaction import Transaction

_BITS = 24
_MOST = (1 << _BITS) - 1
"""More entries than one batch can have in SQLite."""


def note_dropped(tx: Transaction, queue: int, last: tuple[int, int]) -> None:
    """Remember the last batch that was dropped, with the number of its entries."""
    batch, size = last
    tx.execute(sql("set_dropped"), (queue, batch << _BITS | min(size, _MOST)))


def last_dropped(execute: Execute, queue: int | None, tenant: str | None = None) -> tuple[int, int]:
    """The last batch that was dropped of a queue, and how many entries it had.

    Without a queue, of any queue, or of any queue of a tenant.
    """
    if queue is None and tenant is not None:
        rows = execute(sql("dropped_of_tenant"), (tenant,)).fetchall()
    elif queue is None:
        rows = execute(sql("dropped_of_any")).fetchall()
    else:
        rows = execute(sql("dropped_of"), (queue,)).fetchall()
    packed = rows[0][0] or 0 if rows else 0
    return packed >> _BITS, packed & _MOST
