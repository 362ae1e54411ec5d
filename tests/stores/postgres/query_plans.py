"""The plan and the cost of every statement that a store runs, as the server ran it.

Not by EXPLAIN of a copy: auto_explain reports what the server did for the session itself, with
its settings and prepared plans.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import psycopg
import pytest

from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.io.address import read_address
from ackline.stores.postgres.io.connection_pool import ConnectionPool
from ackline.stores.postgres.io.pipeline import Connection

TOLD = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_buffers": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_format": "json",
    "auto_explain.log_level": "notice",
}


class Plan(NamedTuple):
    """One statement that was run."""

    statement: str
    buffers: int
    """Pages read, from memory or disk."""
    scans: frozenset[tuple[str, str]]
    """The tables and indexes that were read, and how."""

    def __str__(self) -> str:
        begin = " ".join(self.statement.split())[:90]
        return f"{self.buffers:6} pages  {begin}"


def _plan(text: str) -> Plan:
    report = json.loads(text[text.index("{") :])
    scans = set()

    def visit(node: dict[str, Any]) -> None:
        if "Scan" in node["Node Type"] and "Relation Name" in node:
            scans.add((node["Node Type"], node["Relation Name"]))
        for child in node.get("Plans", ()):
            visit(child)

    visit(report["Plan"])
    buffers = report["Plan"]["Shared Hit Blocks"] + report["Plan"]["Shared Read Blocks"]
    return Plan(report["Query Text"], buffers, frozenset(scans))


class WatchedStore(NamedTuple):
    """A store, and the statements that it has run."""

    store: PostgresStore
    plans: list[Plan]


@contextlib.contextmanager
def watched(url: str) -> Iterator[WatchedStore]:
    """A store with one connection, so that it uses the plans that it has prepared."""
    options = quote(" ".join(f"-c {name}={value}" for name, value in TOLD.items()))
    store = PostgresStore(read_address(f"{url}&connections=1&options={options}"))
    plans: list[Plan] = []
    connect = ConnectionPool.connect

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        message = diagnostic.message_primary or ""
        if message.startswith("duration:"):
            plans.append(_plan(message))

    def connect_and_watch(connections: ConnectionPool) -> Connection:
        connection = connect(connections)
        connection.add_notice_handler(note)
        return connection

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ConnectionPool, "connect", connect_and_watch)
        store.open()
        try:
            yield WatchedStore(store, plans)
        finally:
            store.close()
