"""`ackline migrate` answers for every store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import psycopg
import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.harness.servers.redis import RedisServer

import ackline


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


def test_a_sqlite_file_is_migrated_once(cli, workdir):
    first, again = cli("migrate"), cli("migrate")

    assert first.code == again.code == 0
    assert "0001_start.sql" in first.out
    assert "schema 1: nothing to migrate" in again.out
    assert (workdir / "ackline.db").exists()


def test_a_dry_run_changes_nothing_and_prints_what_can_be_run(cli, workdir):
    answer = cli("migrate", "--dry-run")

    assert not (workdir / "ackline.db").exists()
    assert "schema 0 → 1" in answer.err
    database = sqlite3.connect(workdir / "by-hand.db", isolation_level=None)
    database.executescript(answer.out)
    database.close()
    assert "nothing to migrate" in cli("migrate", "--store", "by-hand.db").out
    with ackline.open("sqlite:///by-hand.db") as queues:
        assert queues["email"].enqueue(1, id="a") == ackline.Queued("a", ackline.State.QUEUED)


def test_a_file_of_another_program_is_rejected(cli, workdir):
    (workdir / "notes.db").write_text("not a database, but a diary of many words" * 50)

    answer = cli("migrate", "--store", "notes.db")

    assert answer.code == 3
    assert "not a SQLite database" in answer.err


def test_a_store_without_tables_says_so(cli):
    with RedisServer() as redis:
        for url in ("memory://", redis.url):
            answer = cli("migrate", "--store", url)
            assert answer.code == 0
            assert "nothing to migrate" in answer.out
            assert cli("migrate", "--dry-run", "--json", "--store", url).document["pending"] == []


def test_a_postgresql_schema(cli, server):
    url = f"{server.url}?schema=by_command"

    assert cli("queues", "--store", f"{url}&migrate=no").code == 3
    shown = cli("migrate", "--dry-run", "--store", url, "--json").document
    done = cli("migrate", "--store", url, "--json").document
    again = cli("migrate", "--store", url, "--json").document

    assert (shown["schema"], done["schema"]) == (0, shown["newest"])
    assert [step["name"] for step in shown["pending"]] == [s["name"] for s in done["applied"]]
    assert again["applied"] == []
    assert cli("queues", "--store", f"{url}&migrate=no").code == 0


def test_the_sql_of_a_dry_run_can_be_run_by_another_user(cli, server):
    url = f"{server.url}?schema=by.hand"
    answer = cli("migrate", "--dry-run", "--store", url)

    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(answer.out.encode())

    assert "nothing to migrate" in cli("migrate", "--store", url).out


def test_a_missing_schema_names_the_command(cli, server):
    for options in ("schema=missing", "schema=missing&migrate=no"):
        answer = cli("doctor", "--store", f"{server.url}?{options}")
        assert answer.code == 3
        assert "run `ackline migrate`" in answer.err
    assert cli(
        "migrate", "--dry-run", "--json", "--store", f"{server.url}?schema=missing"
    ).document["pending"]


def test_enqueue_creates_the_schema(cli, server):
    url = f"{server.url}?schema=made_by_a_job"

    assert cli("queues", "--store", url).code == 3
    assert cli("enqueue", "email", "1", "--store", url).code == 0
    assert cli("queues", "--store", url).code == 0
