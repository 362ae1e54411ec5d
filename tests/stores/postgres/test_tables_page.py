"""docs/postgres-tables.md lists everything that is in a schema, and nothing else."""

import re
from pathlib import Path

import psycopg
import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.conftest import OpenStore

PAGE = Path(__file__).parents[3] / "docs" / "postgres-tables.md"

RELATIONS = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = %s
"""
CONSTRAINTS = """
SELECT conname FROM pg_constraint c JOIN pg_namespace n ON n.oid = c.connamespace
WHERE n.nspname = %s AND c.contype IN ('c', 'f')
"""
FUNCTIONS = """
SELECT proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = %s
"""
AUTOVACUUM = """
SELECT c.relname, split_part(o, '=', 2) FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace CROSS JOIN unnest(c.reloptions) o
WHERE n.nspname = %s AND o LIKE 'autovacuum_vacuum_threshold=%%'
"""


def on_page(title: str) -> dict[str, list[str]]:
    """The names in the first column of a section's table, each with the cells of its row."""
    section = re.split(rf"^## {title}$", PAGE.read_text(), flags=re.MULTILINE)[1]
    section = section.partition("\n## ")[0]
    rows = [re.split(r" *\| *", line.strip("| ")) for line in section.splitlines() if "|" in line]
    return {name: row for row in rows for name in re.findall(r"`(\w+)`", row[0])}


@pytest.fixture
def names(open_store: OpenStore, server: PostgresServer, schema: str):
    open_store()

    def ask(query: str, *values: str) -> set[str]:
        with server.connect() as connection:
            rows = connection.execute(query.encode(), [schema, *values]).fetchall()
        return {str(name) for (name, *_) in rows}

    return ask


def test_tables(names) -> None:
    assert on_page("Tables").keys() == names(RELATIONS, "r")


def test_indexes(names) -> None:
    others = {name for name in names(RELATIONS, "i") if not name.endswith("_pkey")}

    assert on_page("Indexes").keys() == others


def test_sequences(names) -> None:
    assert on_page("Sequences").keys() == names(RELATIONS, "S")


def test_functions(names) -> None:
    assert on_page("Functions").keys() == names(FUNCTIONS)


def test_checks(names) -> None:
    assert on_page("Checks").keys() == names(CONSTRAINTS)


def test_autovacuum(open_store: OpenStore, server: PostgresServer, schema: str) -> None:
    open_store()
    with server.connect() as connection:
        found = connection.execute(AUTOVACUUM, [schema]).fetchall()
    listed = {
        name: row[1].split()[0].replace(",", "") for name, row in on_page("Autovacuum").items()
    }

    assert listed == dict(found)


def test_the_query_that_it_shows_runs(
    open_store: OpenStore, server: PostgresServer, schema: str
) -> None:
    open_store()
    [query] = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    with psycopg.connect(server.url) as connection:
        connection.execute(query.replace("ackline.", f'"{schema}".').encode())
