"""What a store reports about its server, and what it warns of."""

import json
import logging
import time
from collections.abc import Iterator

import msgspec
import psycopg
import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.actions import put
from tests.stores.postgres.conftest import OpenStore

from ackline.cli.app import run
from ackline.core.job import QueueKey
from ackline.maintenance import StoreMonitor
from ackline.queue import Queue
from ackline.queues import Queues
from ackline.stores.contract import HealthIssue
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.io.address import Address, read_address
from ackline.stores.postgres.server_info import (
    MAX_DEAD_ROWS,
    OLD_TRANSACTIONS,
    OpenTransaction,
    ServerFacts,
    Table,
    durability_text,
    health_issues,
)

ADDRESS = Address(conninfo="")

WELL = ServerFacts(
    version="16.0",
    schema=1,
    encoding="UTF8",
    standby=False,
    synchronous_commit="on",
    fsync=True,
    full_page_writes=True,
    synchronous_standbys=False,
    replicas=0,
    autovacuum=True,
    sees_all_sessions=True,
    pooled=False,
)


def facts(**differing: object) -> ServerFacts:
    return msgspec.structs.replace(WELL, **differing)


def session(seconds: float | None, **more: object) -> OpenTransaction:
    holder = OpenTransaction("session 7 of ann (psql)", "idle in transaction", seconds, 9, False)
    return msgspec.structs.replace(holder, **more)


def issues(address: Address = ADDRESS, **differing: object) -> list[HealthIssue]:
    return list(health_issues(facts(**differing), address))


# --- in words ---


def test_durability_in_words() -> None:
    assert durability_text(facts(fsync=False)).startswith("none")
    assert "may lose the last moments" in durability_text(facts(synchronous_commit="off"))
    assert "survives a crash of the server" in durability_text(WELL)
    assert "standbys" not in durability_text(WELL)
    assert "standbys" in durability_text(facts(synchronous_standbys=True))


def test_a_healthy_server_has_no_issues() -> None:
    assert issues() == []


def test_an_old_transaction_is_a_health_issue() -> None:
    young, old = session(299.0), session(301.0)

    assert issues(open_transactions=(young,)) == []
    [issue] = issues(open_transactions=(old, old, young))
    assert issue.critical
    assert "session 7 of ann (psql), idle in transaction" in issue.message
    assert "for 5 min, and 1 more" in issue.message
    assert "readers of the journal" not in issue.message
    assert "pg_terminate_backend(7)" in issue.advice


def test_a_writing_transaction_delays_readers_of_the_journal() -> None:
    [issue] = issues(open_transactions=(session(400.0, writes=True),))

    assert "readers of the journal wait" in issue.message


def test_a_replication_slot_is_old_by_its_transactions() -> None:
    slot = OpenTransaction("replication slot spare", "unused", None, OLD_TRANSACTIONS - 1, False)

    assert issues(open_transactions=(slot,)) == []
    [issue] = issues(
        open_transactions=(msgspec.structs.replace(slot, transactions=OLD_TRANSACTIONS),)
    )
    assert "replication slot spare" in issue.message
    assert "pg_drop_replication_slot" in issue.advice


def test_a_prepared_transaction_is_a_health_issue() -> None:
    [issue] = issues(
        open_transactions=(OpenTransaction("prepared transaction x", "prepared", 400.0, 1, True),)
    )

    assert "ROLLBACK PREPARED" in issue.advice


def test_alert_after_is_configurable() -> None:
    address = read_address("postgresql://h/d?alert_after=3600")

    assert issues(address, open_transactions=(session(400.0),)) == []


def test_autovacuum_that_is_off_is_a_health_issue() -> None:
    table = Table("ready", 10, 0, 8192, None, True, True)
    behind = msgspec.structs.replace(table, dead=MAX_DEAD_ROWS + 1, autovacuum_off=False)

    assert "autovacuum is off: tables grow" in issues(autovacuum=False)[0].message
    assert "off for ready" in issues(tables=(table,))[0].message
    assert "vacuum does not keep up" in issues(tables=(behind,))[0].message
    assert not issues(tables=(behind,))[0].critical


def test_a_standby_and_torn_pages_are_health_issues() -> None:
    assert [issue.critical for issue in issues(standby=True, full_page_writes=False)] == [
        True,
        False,
    ]


def test_a_pooler_that_the_url_does_not_name_is_a_health_issue() -> None:
    pooled = read_address("postgresql://h/d?pooler=transaction")

    assert "?pooler=transaction" in issues(pooled=True)[0].advice
    assert issues(pooled, pooled=True) == []


# --- on a server ---


@pytest.fixture
def old_snapshot(server: PostgresServer) -> Iterator[psycopg.Connection]:
    with server.connect(autocommit=False, application_name="report") as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT 1")
        time.sleep(1.1)
        yield connection


def test_the_facts_are_read(store: PostgresStore, server: PostgresServer, queue: QueueKey) -> None:
    put(store, queue, "a")
    info = store.info()

    with server.connect() as connection:
        row = connection.execute("SHOW server_version").fetchone()
    assert row is not None
    assert info.version == f"PostgreSQL {row[0]}"
    assert info.schema == 1
    assert info.details["role"] == "primary"
    assert info.details["encoding"] == "UTF8"
    assert info.details["synchronous_commit"] == "off"
    assert info.details["fsync"] == "off"
    assert info.details["wake-ups"] == "LISTEN"
    assert info.details["pooler"] == "none detected, pooler=none"
    assert info.details["table job"].endswith("dead, vacuumed never")
    # The server of these tests has fsync off.
    assert "autovacuum" in {issue.code for issue in info.issues}


@pytest.mark.usefixtures("old_snapshot")
def test_an_old_snapshot_is_reported(open_store: OpenStore) -> None:
    issues_by_code = {issue.code: issue for issue in open_store("&alert_after=1").info().issues}
    quiet = {issue.code: issue for issue in open_store().info().issues}

    assert "(report), idle in transaction" in issues_by_code["snapshot"].message
    assert "snapshot" not in quiet


def test_facts_are_cached(store: PostgresStore, sent: list[str]) -> None:
    before = store.info()
    assert "server_facts" in sent
    sent.clear()

    again = store.info()

    assert "server_facts" not in sent
    assert again.version == before.version
    assert again.now > before.now


@pytest.mark.usefixtures("old_snapshot")
def test_a_worker_warns_of_it_once(open_store: OpenStore, caplog: pytest.LogCaptureFixture) -> None:
    queue: Queue[object, object] = Queues(open_store("&alert_after=1"))["work"]
    watcher = StoreMonitor([queue], 60.0)

    with caplog.at_level(logging.WARNING, "ackline"):
        watcher.step()
        watcher.step()

    assert len([one for one in caplog.messages if "kept a transaction open" in one]) == 1


@pytest.mark.usefixtures("old_snapshot")
def test_doctor_ends_with_1(
    server: PostgresServer, open_store: OpenStore, schema: str, capsys: pytest.CaptureFixture[str]
) -> None:
    open_store()
    url = f"{server.url}?schema={schema}&alert_after=1"

    assert run(["doctor", "--store", url]) == 1
    said = capsys.readouterr()
    assert "open transactions: " in said.out
    assert "kept a transaction open" in " ".join(said.out.split())


def durability(url: str, capsys: pytest.CaptureFixture[str]) -> str:
    run(["doctor", "--json", "--store", url])
    findings = json.loads(capsys.readouterr().out)["findings"]
    [level] = [finding["severity"] for finding in findings if finding["subject"] == "durability"]
    return str(level)


def test_doctor_reports_a_server_that_may_lose_accepted_jobs(
    server: PostgresServer, open_store: OpenStore, schema: str, capsys: pytest.CaptureFixture[str]
) -> None:
    open_store()

    assert durability(f"{server.url}?schema={schema}", capsys) == "error"
    # The control: a store without any durability.
    assert durability("memory://", capsys) == "warning"
