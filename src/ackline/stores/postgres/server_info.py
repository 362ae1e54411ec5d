"""The server: its version and state, its durability, and health issues with advice."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import msgspec

from ackline.stores.contract import HealthIssue, StoreInfo
from ackline.stores.postgres import queries
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.io.address import Address
from ackline.stores.postgres.io.transaction import Transaction
from ackline.stores.postgres.journal import journal_end
from ackline.stores.postgres.notify import POLL_INTERVAL

MAX_TABLES = 6
"""The most tables that are reported."""


class OpenTransaction(msgspec.Struct, frozen=True):
    """A session, replication slot or prepared transaction that keeps a snapshot open."""

    owner: str
    state: str
    seconds: float | None
    """How long it has been open; None if unknown."""
    transactions: int | None
    writes: bool


class Table(msgspec.Struct, frozen=True):
    """The statistics of a table."""

    name: str
    live: int
    dead: int
    size: int
    vacuumed: float | None
    """Seconds since the last vacuum; None if there was none."""
    own_settings: bool
    autovacuum_off: bool
    """Whether autovacuum is turned off for it."""


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Settings and statistics of a server."""

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
    sees_all_sessions: bool
    """Whether this user may see the sessions of other users."""
    pooled: bool
    """Whether a connection pooler stands between this process and the server."""
    open_transactions: tuple[OpenTransaction, ...] = ()
    tables: tuple[Table, ...] = ()


def read_facts(tx: Transaction, schema: str, *, pooled: bool) -> ServerFacts:
    """Read the facts from the server."""
    [row] = tx.rows("server_facts")
    version, migrated, encoding, standby, commit, fsync, pages, names, replicas = row[:9]
    autovacuum, sees_all_sessions = row[9:]
    return ServerFacts(
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
        sees_all_sessions=sees_all_sessions,
        pooled=pooled,
        open_transactions=tuple(
            OpenTransaction(*transaction) for transaction in tx.rows("open_transactions")
        ),
        tables=tuple(Table(*table) for table in tx.rows("tables", {"schema": schema})),
    )


_REMOTE = {
    "on": "and, where it has synchronous standbys, on their disks too",
    "remote_apply": "and applied by its synchronous standbys",
    "remote_write": "and in the memory of its synchronous standbys",
}


def durability_text(facts: ServerFacts) -> str:
    """What an accepted job survives, as text."""
    if not facts.fsync:
        return (
            "none: fsync is off, so a crash of the server's machine may lose or damage everything"
        )
    commit = facts.synchronous_commit
    if commit == "off":
        return (
            "synchronous_commit off: an accepted job survives a crash of this process; a crash of "
            "the server may lose the last moments"
        )
    text = (
        f"synchronous_commit {commit}: an accepted job survives a crash of the server "
        "and the loss of power"
    )
    if facts.synchronous_standbys and commit in _REMOTE:
        text += f", {_REMOTE[commit]}"
    return text


def server_details(facts: ServerFacts, address: Address) -> Mapping[str, str]:
    """The facts by name, as text."""
    own = sum(table.own_settings for table in facts.tables)
    named = ", synchronous ones are named" if facts.synchronous_standbys else ""
    details = {
        "role": "standby" if facts.standby else "primary",
        "encoding": facts.encoding,
        "synchronous_commit": facts.synchronous_commit,
        "fsync": _on(facts.fsync),
        "full_page_writes": _on(facts.full_page_writes),
        "replicas": f"{facts.replicas}{named}",
        "wake-ups": "LISTEN" if address.uses_listen else f"polling every {POLL_INTERVAL:g} s",
        "pooler": f"{'detected' if facts.pooled else 'none detected'}, pooler={address.pooler}",
        "autovacuum": f"{_on(facts.autovacuum)}, {own} tables have settings of their own",
        "open transactions": _open_transactions(facts),
    }
    return details | {f"table {table.name}": _table(table) for table in facts.tables[:MAX_TABLES]}


def _on(value: bool) -> str:
    return "on" if value else "off"


def _open_transactions(facts: ServerFacts) -> str:
    if not facts.sees_all_sessions:
        return "not visible to this user: GRANT pg_read_all_stats"
    if not facts.open_transactions:
        return "none"
    idle = sum(
        transaction.state.startswith("idle in transaction")
        for transaction in facts.open_transactions
    )
    oldest = facts.open_transactions[0]
    since = "unknown" if oldest.seconds is None else f"{oldest.seconds:,.0f} s"
    behind = f"{oldest.transactions or 0:,} transactions"
    return f"{len(facts.open_transactions)}, {idle} of them idle; the oldest {since}, {behind} ago"


def _table(table: Table) -> str:
    vacuumed = "never" if table.vacuumed is None else f"{table.vacuumed:,.0f} s ago"
    size = f"{table.size / 2**20:,.1f} MB"
    return f"{size}, {table.live:,} rows, {table.dead:,} dead, vacuumed {vacuumed}"


OLD_TRANSACTIONS = 5_000_000
"""An open transaction is old if this many others have started since and its age is unknown."""

MAX_DEAD_ROWS = 1_000_000
"""A table with more dead rows than this has a health issue."""


def health_issues(facts: ServerFacts, address: Address) -> tuple[HealthIssue, ...]:
    """The health issues of the server, critical ones first."""
    issues = [*_of_server(facts), *_old_transactions(facts, address), *_of_vacuum(facts)]
    issues += _of_pooler(facts, address)
    return tuple(sorted(issues, key=lambda issue: not issue.critical))


def _of_server(facts: ServerFacts) -> Iterator[HealthIssue]:
    if facts.standby:
        yield HealthIssue(
            "store", "it is a standby: nothing can be enqueued", "connect to its primary"
        )
    if facts.fsync and not facts.full_page_writes:
        yield HealthIssue(
            "durability",
            "full_page_writes is off: a crash may leave a half-written page",
            "turn it on, unless the file system writes pages atomically",
            critical=False,
        )


def _old_transactions(facts: ServerFacts, address: Address) -> Iterator[HealthIssue]:
    old = [
        transaction
        for transaction in facts.open_transactions
        if _is_old(transaction, address.alert_after)
    ]
    if not old:
        return
    first = old[0]
    others = f", and {len(old) - 1} more" if len(old) > 1 else ""
    delay = ", and readers of the journal wait for it" if any(one.writes for one in old) else ""
    yield HealthIssue(
        "snapshot",
        f"{first.owner}, {first.state}, has kept a transaction open for {_since(first)}{others}: "
        f"dead rows cannot be removed, so tables grow{delay}",
        _how_to_end(first),
    )


def _is_old(transaction: OpenTransaction, limit: float) -> bool:
    if transaction.seconds is not None:
        return transaction.seconds >= limit
    return (transaction.transactions or 0) >= OLD_TRANSACTIONS


def _since(transaction: OpenTransaction) -> str:
    if transaction.seconds is None:
        return f"{transaction.transactions:,} transactions"
    minutes = transaction.seconds / 60
    return f"{minutes:,.0f} min" if minutes >= 1 else f"{transaction.seconds:,.0f} s"


def _how_to_end(transaction: OpenTransaction) -> str:
    match transaction.owner.split()[0]:
        case "session":
            number = transaction.owner.split()[1]
            return (
                f"end it: SELECT pg_terminate_backend({number}). "
                "idle_in_transaction_session_timeout ends such sessions automatically"
            )
        case "replication":
            return "drop the slot if it is not needed: pg_drop_replication_slot"
        case _:
            return "COMMIT PREPARED or ROLLBACK PREPARED"


def _of_vacuum(facts: ServerFacts) -> Iterator[HealthIssue]:
    autovacuum_off = [table.name for table in facts.tables if table.autovacuum_off]
    if not facts.autovacuum:
        yield HealthIssue(
            "autovacuum",
            "autovacuum is off: tables grow with every job",
            "set autovacuum and track_counts",
        )
    elif autovacuum_off:
        names = ", ".join(autovacuum_off)
        yield HealthIssue(
            "autovacuum",
            f"autovacuum is off for {names}: they grow with every job",
            "RESET (autovacuum_enabled)",
        )
    behind = [table for table in facts.tables if table.dead > max(MAX_DEAD_ROWS, table.live)]
    if behind and facts.autovacuum:
        worst = max(behind, key=lambda table: table.dead)
        yield HealthIssue(
            "autovacuum",
            f"table {worst.name} has {worst.dead:,} dead rows: vacuum does not keep up",
            "raise autovacuum_max_workers or its cost limit, and check for old transactions",
            critical=False,
        )


def _of_pooler(facts: ServerFacts, address: Address) -> Iterator[HealthIssue]:
    if facts.pooled and address.keeps_sessions:
        yield HealthIssue(
            "pooler",
            "there is a connection pooler, and the URL does not say so",
            "if it pools transactions, add ?pooler=transaction; if it pools sessions, ignore this",
            critical=False,
        )


FACTS_TTL = 10.0
"""Seconds for which facts are cached."""


class ServerInfo:
    """Describes the store, with facts about the server that are cached for `FACTS_TTL`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._facts: ServerFacts | None = None
        self._read_at = 0.0

    def info(self, tx: Transaction) -> StoreInfo:
        """The store's location, durability, details and health issues."""
        address, facts = self._engine.address, self._fresh(tx)
        now = queries.now(tx)
        return StoreInfo(
            name="postgresql",
            location=address.location,
            durability=durability_text(facts),
            durable=facts.fsync,
            version=f"PostgreSQL {facts.version}",
            schema=facts.schema,
            now=now,
            cursor=journal_end(tx),
            details=server_details(facts, address),
            issues=health_issues(facts, address),
        )

    def _fresh(self, tx: Transaction) -> ServerFacts:
        if self._facts is None or time.monotonic() - self._read_at > FACTS_TTL:
            engine = self._engine
            self._facts = read_facts(tx, engine.address.schema, pooled=engine.pooled)
            self._read_at = time.monotonic()
        return self._facts
