"""What a server is, how it fares, and when a job is safe on it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ackline.stores.postgres.address import Address
from ackline.stores.postgres.listen import POLL
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
