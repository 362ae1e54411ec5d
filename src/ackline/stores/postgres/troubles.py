"""Problems of a server that an operator should know of, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator

from ackline.stores.base import Trouble
from ackline.stores.postgres.address import Address
from ackline.stores.postgres.facts import Facts, Holder

OLD_TRANSACTIONS = 5_000_000
"""A transaction this many behind counts as old if no time is known."""

MANY_DEAD = 1_000_000
"""With more dead rows than this, autovacuum does not keep up with a table."""


def troubles_of(facts: Facts, address: Address) -> tuple[Trouble, ...]:
    """Everything that is not as it should be, the worst first."""
    troubles = [*_of_server(facts), *_of_holders(facts, address), *_of_vacuum(facts)]
    troubles += _of_pooler(facts, address)
    return tuple(sorted(troubles, key=lambda trouble: not trouble.grave))


def _of_server(facts: Facts) -> Iterator[Trouble]:
    if facts.standby:
        yield Trouble("store", "it is a standby: nothing can be enqueued", "name its primary")
    if facts.fsync and not facts.full_page_writes:
        yield Trouble(
            "durability",
            "full_page_writes is off: a crash may leave a page half written",
            "turn it on, unless the file system cannot tear a page",
            grave=False,
        )


def _of_holders(facts: Facts, address: Address) -> Iterator[Trouble]:
    old = [holder for holder in facts.holders if _is_old(holder, address.alert_after)]
    if not old:
        return
    first = old[0]
    others = f", and {len(old) - 1} more" if len(old) > 1 else ""
    waits = ", and who follows events waits for it" if any(one.writes for one in old) else ""
    yield Trouble(
        "snapshot",
        f"{first.who}, {first.state}, has kept a transaction open for {_since(first)}{others}: "
        f"rows that are done with cannot be removed, so tables grow{waits}",
        _ending(first),
    )


def _is_old(holder: Holder, limit: float) -> bool:
    if holder.seconds is not None:
        return holder.seconds >= limit
    return (holder.transactions or 0) >= OLD_TRANSACTIONS


def _since(holder: Holder) -> str:
    if holder.seconds is None:
        return f"{holder.transactions:,} transactions"
    minutes = holder.seconds / 60
    return f"{minutes:,.0f} min" if minutes >= 1 else f"{holder.seconds:,.0f} s"


def _ending(holder: Holder) -> str:
    match holder.who.split()[0]:
        case "session":
            number = holder.who.split()[1]
            return (
                f"end it: SELECT pg_terminate_backend({number}). "
                "idle_in_transaction_session_timeout ends such sessions by itself"
            )
        case "replication":
            return "drop the slot if nobody needs it: pg_drop_replication_slot"
        case _:
            return "COMMIT PREPARED or ROLLBACK PREPARED"


def _of_vacuum(facts: Facts) -> Iterator[Trouble]:
    unattended = [table.name for table in facts.tables if table.unattended]
    if not facts.autovacuum:
        yield Trouble(
            "autovacuum", "it is off: tables grow with every job", "set autovacuum and track_counts"
        )
    elif unattended:
        names = ", ".join(unattended)
        yield Trouble(
            "autovacuum", f"it is off for {names}: they grow", "RESET (autovacuum_enabled)"
        )
    behind = [table for table in facts.tables if table.dead > max(MANY_DEAD, table.live)]
    if behind and facts.autovacuum:
        worst = max(behind, key=lambda table: table.dead)
        yield Trouble(
            "autovacuum",
            f"table {worst.name} has {worst.dead:,} dead rows: it does not keep up",
            "raise autovacuum_max_workers or its cost limit, and look for old transactions",
            grave=False,
        )


def _of_pooler(facts: Facts, address: Address) -> Iterator[Trouble]:
    if facts.pooled and address.lasting:
        yield Trouble(
            "pooler",
            "one is in between, and the URL does not say so",
            "if it pools by transaction, add ?pooler=transaction; if by session, all is well",
            grave=False,
        )
