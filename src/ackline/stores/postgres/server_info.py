"""What a server is, how it fares, when a job is safe on it, and what an operator should mend."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import msgspec

from ackline.stores.base import StoreInfo, Trouble
from ackline.stores.postgres import look
from ackline.stores.postgres.address import Address
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.journal import journal_end
from ackline.stores.postgres.notify import POLL
from ackline.stores.postgres.transaction import Transaction

LARGEST = 6
"""How many tables are reported."""


class Holder(msgspec.Struct, frozen=True):
    """A session, slot or prepared transaction that keeps a transaction open."""

    who: str
    state: str
    seconds: float | None
    """For how long already; None if the server does not say."""
    transactions: int | None
    writes: bool


class Table(msgspec.Struct, frozen=True):
    """How one of the tables fares."""

    name: str
    live: int
    dead: int
    size: int
    vacuumed: float | None
    """Seconds since the last vacuum; None if there was none."""
    own_settings: bool
    unattended: bool
    """Whether autovacuum was turned off for it."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What was read from a server."""

    version: str
    schema: int
    encoding: str
    standby: bool
    synchronous_commit: str
    fsync: bool
    full_page_writes: bool
    synchronous_standbys: bool
    replicas: int
    autovacuum: bool
    sees_all: bool
    """Whether this user is shown what the sessions of others do."""
    pooled: bool
    """Whether there is a pooler between this process and the server."""
    holders: tuple[Holder, ...] = ()
    tables: tuple[Table, ...] = ()


def read_facts(tx: Transaction, schema: str, *, pooled: bool) -> Facts:
    """Ask the server."""
    [row] = tx.rows("facts")
    version, migrated, encoding, standby, commit, fsync, pages, names, replicas = row[:9]
    autovacuum, sees_all = row[9:]
    return Facts(
        version=version,
        schema=migrated,
        encoding=encoding,
        standby=standby,
        synchronous_commit=commit,
        fsync=fsync == "on",
        full_page_writes=pages == "on",
        synchronous_standbys=names != "",
        replicas=replicas,
        autovacuum=autovacuum,
        sees_all=sees_all,
        pooled=pooled,
        holders=tuple(Holder(*holder) for holder in tx.rows("holders")),
        tables=tuple(Table(*table) for table in tx.rows("tables", {"schema": schema})),
    )


_REMOTE = {
    "on": "and, where it has synchronous standbys, on their disks too",
    "remote_apply": "and applied by its synchronous standbys",
    "remote_write": "and in the memory of its synchronous standbys",
}


def in_words(facts: Facts) -> str:
    """In words: what an answered job survives."""
    if not facts.fsync:
        return (
            "none: fsync is off, so a crash of the server's machine may lose or damage everything"
        )
    commit = facts.synchronous_commit
    if commit == "off":
        return (
            "synchronous_commit off: an answered job survives a crash of this process; a crash "
            "of the server may lose the last moments"
        )
    words = (
        f"synchronous_commit {commit}: an answered job survives a crash of the server "
        "and the loss of power"
    )
    if facts.synchronous_standbys and commit in _REMOTE:
        words += f", {_REMOTE[commit]}"
    return words


def details_of(facts: Facts, address: Address) -> Mapping[str, str]:
    """The facts by name, in words."""
    own = sum(table.own_settings for table in facts.tables)
    named = ", synchronous ones are named" if facts.synchronous_standbys else ""
    details = {
        "role": "standby" if facts.standby else "primary",
        "encoding": facts.encoding,
        "synchronous_commit": facts.synchronous_commit,
        "fsync": _on(facts.fsync),
        "full_page_writes": _on(facts.full_page_writes),
        "replicas": f"{facts.replicas}{named}",
        "wake-ups": "LISTEN" if address.listens else f"polling every {POLL:g} s",
        "pooler": f"{'in between' if facts.pooled else 'none seen'}, pooler={address.pooler}",
        "autovacuum": f"{_on(facts.autovacuum)}, with settings of their own for {own} tables",
        "open transactions": _open_transactions(facts),
    }
    return details | {f"table {table.name}": _table(table) for table in facts.tables[:LARGEST]}


def _on(value: bool) -> str:
    return "on" if value else "off"


def _open_transactions(facts: Facts) -> str:
    if not facts.sees_all:
        return "not shown to this user: GRANT pg_read_all_stats"
    if not facts.holders:
        return "none"
    idle = sum(holder.state.startswith("idle in transaction") for holder in facts.holders)
    oldest = facts.holders[0]
    since = "unknown" if oldest.seconds is None else f"{oldest.seconds:,.0f} s"
    behind = f"{oldest.transactions or 0:,} transactions"
    return f"{len(facts.holders)}, {idle} of them idle; the oldest {since}, {behind} ago"


def _table(table: Table) -> str:
    vacuumed = "never" if table.vacuumed is None else f"{table.vacuumed:,.0f} s ago"
    size = f"{table.size / 2**20:,.1f} MB"
    return f"{size}, {table.live:,} rows, {table.dead:,} dead, vacuumed {vacuumed}"


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


FRESH_FOR = 10.0
"""Seconds for which facts are not read again: some callers ask for the time every second."""


class Examiner:
    """Describes a store; reads the facts about the server only now and then."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._facts: Facts | None = None
        self._looked_at = 0.0

    def info(self, tx: Transaction) -> StoreInfo:
        """What the store is, where, and how it fares."""
        address, facts = self._engine.address, self._fresh(tx)
        now = look.now(tx)
        return StoreInfo(
            name="postgresql",
            location=address.location,
            durability=in_words(facts),
            version=f"PostgreSQL {facts.version}",
            schema=facts.schema,
            now=now,
            cursor=journal_end(tx),
            details=details_of(facts, address),
            troubles=troubles_of(facts, address),
        )

    def _fresh(self, tx: Transaction) -> Facts:
        if self._facts is None or time.monotonic() - self._looked_at > FRESH_FOR:
            engine = self._engine
            self._facts = read_facts(tx, engine.address.schema, pooled=engine.pooled)
            self._looked_at = time.monotonic()
        return self._facts
