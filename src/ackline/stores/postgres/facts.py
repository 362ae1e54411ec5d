"""What a server is, how it fares, and when a job is safe on it."""

from __future__ import annotations

from ackline.stores.base import StoreInfo
from ackline.stores.postgres.address import Address
from ackline.stores.postgres.journal import journal_end
from ackline.stores.postgres.migrate import newest_schema
from ackline.stores.postgres.transaction import Transaction

_REMOTE = {
    "on": "and, where it has synchronous standbys, on their disks too",
    "remote_apply": "and applied by its synchronous standbys",
    "remote_write": "and in the memory of its synchronous standbys",
}


def in_words(synchronous_commit: str, fsync: str, full_page_writes: str, standbys: bool) -> str:
    """When an answered job is safe."""
    if fsync != "on":
        return (
            "none: fsync is off, so a crash of the server's machine may lose or damage everything"
        )
    if synchronous_commit == "off":
        return (
            "synchronous_commit off: an answered job survives a crash of this process; a crash "
            "of the server may lose the last moments"
        )
    words = (
        f"synchronous_commit {synchronous_commit}: an answered job survives a crash of the server "
        "and the loss of power"
    )
    if standbys and synchronous_commit in _REMOTE:
        words += f", {_REMOTE[synchronous_commit]}"
    if full_page_writes != "on":
        words += "; full_page_writes is off, which a torn page may punish"
    return words


def info(tx: Transaction, address: Address) -> StoreInfo:
    """What the store is, and where."""
    [row] = tx.rows("facts", {"now": tx.clock})
    version, commit, fsync, pages, standbys, recovering, now, age, held = row
    details = {
        "role": "standby" if recovering else "primary",
        "schema": address.schema,
        "notify": "yes" if address.notify else "no: listeners poll",
        "oldest snapshot": f"{held:,.0f} s old, {age:,} transactions behind",
    }
    for table, live, dead in tx.rows("dead_rows", {"schema": address.schema}):
        details[f"rows of {table}"] = f"{live:,} live, {dead:,} dead"
    return StoreInfo(
        name="postgresql",
        location=address.location,
        durability=in_words(commit, fsync, pages, standbys),
        version=f"PostgreSQL {version}",
        schema=newest_schema(),
        now=now,
        cursor=journal_end(tx),
        details=details,
    )
