"""What a store says of its server, and what it warns of."""

import json
import logging
import time
from collections.abc import Iterator

import msgspec
import psycopg
import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.conftest import OpenStore
from tests.stores.postgres.words import put

from ackline.cli.app import run
from ackline.job import QueueKey
from ackline.maintenance import Watcher
from ackline.queue import Queue
from ackline.queues import Queues
from ackline.stores.base import Trouble
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.address import Address, read_address
from ackline.stores.postgres.server_info import (
    MANY_DEAD,
    OLD_TRANSACTIONS,
    Facts,
    Holder,
    Table,
    in_words,
    troubles_of,
)

ADDRESS = Address(conninfo="")

WELL = Facts(
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
    sees_all=True,
    pooled=False,
)


def facts(**differing: object) -> Facts:
    return msgspec.structs.replace(WELL, **differing)


def session(seconds: float | None, **more: object) -> Holder:
    holder = Holder("session 7 of ann (psql)", "idle in transaction", seconds, 9, False)
    return msgspec.structs.replace(holder, **more)


def troubles(address: Address = ADDRESS, **differing: object) -> list[Trouble]:
    return list(troubles_of(facts(**differing), address))


# --- in words ---


def test_durability_in_words() -> None:
    assert in_words(facts(fsync=False)).startswith("none")
    assert "may lose the last moments" in in_words(facts(synchronous_commit="off"))
    assert "survives a crash of the server" in in_words(WELL)
    assert "standbys" not in in_words(WELL)
    assert "standbys" in in_words(facts(synchronous_standbys=True))


def test_a_server_that_is_well_has_no_troubles() -> None:
    assert troubles() == []


def test_a_transaction_that_is_old_is_told_of() -> None:
    young, old = session(299.0), session(301.0)

    assert troubles(holders=(young,)) == []
    [trouble] = troubles(holders=(old, old, young))
    assert trouble.grave
    assert "session 7 of ann (psql), idle in transaction" in trouble.says
    assert "for 5 min, and 1 more" in trouble.says
    assert "follows events" not in trouble.says
    assert "pg_terminate_backend(7)" in trouble.do


def test_one_that_writes_lets_followers_wait() -> None:
    [trouble] = troubles(holders=(session(400.0, writes=True),))

    assert "who follows events waits" in trouble.says


def test_a_slot_is_old_by_its_transactions() -> None:
    slot = Holder("replication slot spare", "unused", None, OLD_TRANSACTIONS - 1, False)

    assert troubles(holders=(slot,)) == []
    [trouble] = troubles(holders=(msgspec.structs.replace(slot, transactions=OLD_TRANSACTIONS),))
    assert "replication slot spare" in trouble.says
    assert "pg_drop_replication_slot" in trouble.do


def test_a_prepared_transaction_is_to_be_ended() -> None:
    [trouble] = troubles(holders=(Holder("prepared transaction x", "prepared", 400.0, 1, True),))

    assert "ROLLBACK PREPARED" in trouble.do


def test_how_old_is_old_can_be_said() -> None:
    address = read_address("postgresql://h/d?alert_after=3600")

    assert troubles(address, holders=(session(400.0),)) == []


def test_vacuum_must_be_at_work() -> None:
    table = Table("ready", 10, 0, 8192, None, True, True)
    behind = msgspec.structs.replace(table, dead=MANY_DEAD + 1, unattended=False)

    assert "it is off: tables grow" in troubles(autovacuum=False)[0].says
    assert "off for ready" in troubles(tables=(table,))[0].says
    assert "does not keep up" in troubles(tables=(behind,))[0].says
    assert not troubles(tables=(behind,))[0].grave


def test_a_standby_and_torn_pages_are_told_of() -> None:
    assert [trouble.grave for trouble in troubles(standby=True, full_page_writes=False)] == [
        True,
        False,
    ]


def test_a_pooler_that_the_url_does_not_know_of() -> None:
    pooled = read_address("postgresql://h/d?pooler=transaction")

    assert "?pooler=transaction" in troubles(pooled=True)[0].do
    assert troubles(pooled, pooled=True) == []


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
    assert info.details["pooler"] == "none seen, pooler=none"
    assert info.details["table job"].endswith("dead, vacuumed never")
    # The server of these tests has it off.
    assert "autovacuum" in {trouble.what for trouble in info.troubles}


@pytest.mark.usefixtures("old_snapshot")
def test_an_old_snapshot_is_seen(open_store: OpenStore) -> None:
    told = {trouble.what: trouble for trouble in open_store("&alert_after=1").info().troubles}
    quiet = {trouble.what: trouble for trouble in open_store().info().troubles}

    assert "(report), idle in transaction" in told["snapshot"].says
    assert "snapshot" not in quiet


def test_what_was_found_out_is_not_asked_for_every_time(
    store: PostgresStore, sent: list[str]
) -> None:
    before = store.info()
    assert "facts" in sent
    sent.clear()

    again = store.info()

    assert "facts" not in sent
    assert again.version == before.version
    assert again.now > before.now


@pytest.mark.usefixtures("old_snapshot")
def test_a_worker_warns_of_it_once(open_store: OpenStore, caplog: pytest.LogCaptureFixture) -> None:
    queue: Queue[object, object] = Queues(open_store("&alert_after=1"))["work"]
    watcher = Watcher([queue], 60.0)

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
    [level] = [finding["level"] for finding in findings if finding["what"] == "durability"]
    return str(level)


def test_doctor_wants_a_server_to_keep_what_it_answers(
    server: PostgresServer, open_store: OpenStore, schema: str, capsys: pytest.CaptureFixture[str]
) -> None:
    open_store()

    assert durability(f"{server.url}?schema={schema}", capsys) == "wrong"
    # The control: a store that is known to keep nothing.
    assert durability("memory://", capsys) == "note"
