"""Jobs enqueued in a caller's own transaction exist once it commits, and only then."""

import threading
import time
from typing import Any

import psycopg
import pytest
from psycopg.rows import class_row, dict_row
from psycopg.types.string import StrDumper
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.conftest import OpenStore
from tests.stores.postgres.transactions.shop import Shop

import ackline
from ackline import CannotJoin, Completed, Duplicate, NewJob, Queue, Queued, Queues
from ackline.core.errors import (
    InvalidOption,
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreReadOnly,
    StoreUnavailable,
)
from ackline.core.job import State
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.io.address import read_address
from ackline.stores.postgres.transactions import joined

Work = Queue[Any, Any]


def test_a_job_is_committed_with_the_users_rows(shop: Shop) -> None:
    with shop.connect() as tx:
        tx.execute(shop.insert("o-1"))
        assert shop.queue.enqueue({"n": 1}, id="o-1", connection=tx) == Queued("o-1")
        assert shop.state("o-1") is None

    assert (shop.orders(), shop.jobs()) == ({"o-1"}, {"o-1"})
    [job] = shop.queue.claim()
    assert job.payload == {"n": 1}


def test_a_rolled_back_job_does_not_exist(shop: Shop) -> None:
    with shop.connect() as tx:
        tx.execute(shop.insert("o-1"))
        shop.queue.enqueue({}, id="o-1", connection=tx)
        tx.rollback()

    assert (shop.orders(), shop.jobs()) == (set(), set())
    assert list(shop.queue.events()) == []
    assert shop.queue.claim() == []
    assert shop.queue.enqueue({}, id="o-1") == Queued("o-1")


def test_without_a_connection_a_job_outlives_the_rollback(shop: Shop) -> None:
    """The control: why the connection is passed."""
    with shop.connect() as tx:
        tx.execute(shop.insert("o-1"))
        shop.queue.enqueue({}, id="o-1")
        tx.rollback()

    assert (shop.orders(), shop.jobs()) == (set(), {"o-1"})


def test_the_store_neither_commits_nor_begins_a_transaction_of_its_own(shop: Shop) -> None:
    with shop.connect() as tx, tx.transaction():
        [before] = tx.execute("SELECT pg_current_xact_id()").fetchall()
        shop.queue.enqueue({}, id="o-1", connection=tx)
        [after] = tx.execute("SELECT pg_current_xact_id()").fetchall()
        assert before == after
        assert shop.jobs() == set()

    assert shop.jobs() == {"o-1"}


def test_a_job_goes_with_the_savepoint_it_was_enqueued_in(shop: Shop) -> None:
    with shop.connect() as tx:
        shop.queue.enqueue({}, id="stays", connection=tx)
        with tx.transaction(force_rollback=True):
            shop.queue.enqueue({}, id="goes", connection=tx)

    assert shop.jobs() == {"stays"}


def test_ids_deduplicate_in_the_transaction_and_against_what_is_committed(shop: Shop) -> None:
    shop.queue.enqueue({}, id="waits")
    shop.queue.enqueue({}, id="done")
    for job in shop.queue.claim(2):
        if job.id == "done":
            shop.queue.complete(job, 42)

    with shop.connect() as tx:
        assert shop.queue.enqueue({}, id="new", connection=tx) == Queued("new")
        assert shop.queue.enqueue({}, id="new", connection=tx) == Duplicate("new", State.QUEUED)
        waits = shop.queue.enqueue({}, id="waits", connection=tx)
        assert waits == Duplicate("waits", State.PROCESSING)
        assert shop.queue.enqueue({}, id="done", connection=tx) == Completed("done", 42)


def test_many_jobs_with_all_options(shop: Shop) -> None:
    jobs = [
        NewJob("urgent", id="urgent", priority=9, headers={"a": "b"}),
        NewJob("later", id="later", delay=3600),
        *(NewJob(n, id=str(n), kind="count") for n in range(2500)),
    ]
    with shop.connect() as tx:
        answers = shop.queue.enqueue_many(jobs, connection=tx, max_attempts=7)
        assert len(answers) == 2502
        assert shop.queue.counts()[State.QUEUED] == 0

    counts = shop.queue.counts()
    assert (counts[State.QUEUED], counts[State.SCHEDULED]) == (2501, 1)
    [job] = shop.queue.claim()
    assert (job.id, job.record.options.max_attempts, job.headers) == ("urgent", 7, {"a": "b"})


def test_a_refused_job_refuses_before_the_transaction_is_touched(shop: Shop) -> None:
    with shop.connect() as tx:
        with pytest.raises(InvalidOption):
            shop.queue.enqueue({}, priority=99, connection=tx)
        assert tx.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_two_transactions_with_one_id_enqueue_one_job(shop: Shop) -> None:
    answers: list[Any] = []
    with shop.connect() as first:
        shop.queue.enqueue({"by": 1}, id="o-1", connection=first)

        def second() -> None:
            with shop.connect() as tx:
                answers.append(shop.queue.enqueue({"by": 2}, id="o-1", connection=tx))

        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive(), "it waits for what becomes of the first"
    thread.join(10)

    assert answers == [Duplicate("o-1", State.QUEUED)]
    assert shop.queue.counts()[State.QUEUED] == 1


def test_an_enqueue_that_waited_for_a_rollback_inserts(shop: Shop) -> None:
    answers: list[Any] = []
    with shop.connect() as first:
        shop.queue.enqueue({"by": 1}, id="o-1", connection=first)
        thread = threading.Thread(
            target=lambda: answers.append(shop.queue.enqueue({"by": 2}, id="o-1"))
        )
        thread.start()
        thread.join(0.1)
        first.rollback()
    thread.join(10)

    assert answers == [Queued("o-1")]
    [job] = shop.queue.claim()
    assert job.payload == {"by": 2}


def test_workers_wake_at_the_commit(shop: Shop, open_store: OpenStore) -> None:
    """Not before it, and not by polling, which a waiting claim does once a second."""
    elsewhere = Queues(open_store())["work"]
    started: list[float] = []

    def wait() -> None:
        [_] = elsewhere.claim(wait=10)
        started.append(time.monotonic())

    delays = []
    for n in range(4):
        thread = threading.Thread(target=wait)
        with shop.connect() as tx:
            shop.queue.enqueue({}, connection=tx)
            # It starts to wait after the job was written: no listener was registered then.
            thread.start()
            time.sleep(0.3 + 0.11 * n)
            committed = time.monotonic()
        thread.join(10)
        delays.append(started[-1] - committed)

    assert sorted(delays)[1] < 0.15, delays


# --- the caller's session: its settings do not matter, and are not changed ---


class Shouting(StrDumper):
    def dump(self, obj: str) -> bytes:
        return obj.upper().encode()


def test_factories_and_adapters_of_the_caller_do_not_matter(shop: Shop) -> None:
    class Row:
        def __init__(self, **columns: Any) -> None:
            raise AssertionError("a row of the store came through the caller's factory")

    with shop.connect(row_factory=class_row(Row), cursor_factory=psycopg.ClientCursor) as tx:
        tx.adapters.register_dumper(str, Shouting)
        tx.adapters.register_dumper(int, psycopg.types.numeric.IntDumper)
        shop.queue.enqueue({"n": 1}, id="o-1", connection=tx)
        [job] = shop.queue.claim(connection=tx)
        shop.queue.complete(job, {"n": 2}, connection=tx)
        tx.row_factory = dict_row
        assert tx.execute("SELECT %s AS a", ["x"]).fetchone() == {"a": "X"}

    assert shop.queue.result("o-1") == {"n": 2}


def test_prepared_statements_of_the_caller_stay_its_own(shop: Shop) -> None:
    with shop.connect(prepare_threshold=0) as tx:
        for n in range(3):
            assert tx.execute("SELECT %s::int + 1", [n]).fetchone() == (n + 1,)
            shop.queue.enqueue({}, id=f"o-{n}", connection=tx)
        rows = tx.execute("SELECT statement FROM pg_prepared_statements").fetchall()
        assert not [text for (text,) in rows if "ackline" in text or "job" in text]

    assert len(shop.jobs()) == 3


def test_the_settings_of_the_session_stay_as_they_were(shop: Shop) -> None:
    show = "SELECT name, setting FROM pg_settings WHERE name <> 'transaction_deferrable' ORDER BY 1"
    with shop.connect() as tx:
        tx.execute("SET enable_hashjoin = off; SET LOCAL enable_mergejoin = off")
        before = tx.execute(show).fetchall()
        shop.queue.enqueue({}, id="o-1", connection=tx)
        [job] = shop.queue.claim(connection=tx)
        shop.queue.complete(job, connection=tx)
        with pytest.raises(ackline.LeaseLost):
            shop.queue.fail(job, "again", connection=tx)
        assert tx.execute(show).fetchall() == before
        tx.commit()
        assert tx.execute("SHOW enable_hashjoin").fetchone() == ("off",)
        assert tx.execute("SHOW enable_mergejoin").fetchone() == ("on",)
        assert tx.execute("SHOW enable_seqscan").fetchone() == ("on",)


def test_notifications_reach_the_owner_of_the_connection(shop: Shop) -> None:
    received: list[str] = []
    with shop.connect(autocommit=True) as tx, shop.connect(autocommit=True) as other:
        tx.add_notify_handler(lambda notify: received.append(notify.payload))
        tx.execute("LISTEN gossip")
        with tx.transaction():
            tx.execute("SELECT 1")
        other.execute("NOTIFY gossip, 'hello'")
        with tx.transaction():
            shop.queue.enqueue({}, connection=tx)
        tx.execute("SELECT 1")

    assert received == ["hello"]


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "UTF8"])
def test_any_client_encoding_is_accepted(shop: Shop, encoding: str) -> None:
    with shop.connect(client_encoding=encoding) as tx:
        shop.queue.enqueue({"name": "Zoë 文"}, id="é", connection=tx)
        tx.commit()
        [job] = shop.queue.claim(connection=tx)
        assert (job.id, job.payload) == ("é", {"name": "Zoë 文"})


@pytest.mark.parametrize("level", list(psycopg.IsolationLevel))
def test_enqueue_works_at_any_isolation_level(shop: Shop, level: psycopg.IsolationLevel) -> None:
    shop.queue.enqueue({}, id="before")
    with shop.connect() as tx:
        tx.isolation_level = level
        shop.queue.enqueue({}, id="o-1", connection=tx)
        [(found,)] = tx.execute("SHOW transaction_isolation").fetchall()
        assert found == level.name.replace("_", " ").lower()

    assert shop.jobs() == {"before", "o-1"}


def test_a_snapshot_that_is_too_old_says_so_and_the_transaction_goes_on(shop: Shop) -> None:
    with shop.connect() as tx:
        tx.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        tx.execute("SELECT 1")
        shop.queue.enqueue({}, id="o-1")
        with pytest.raises(StoreUnavailable, match="READ COMMITTED"):
            shop.queue.enqueue({}, id="o-1", connection=tx)
        tx.execute(shop.insert("o-2"))

    assert shop.orders() == {"o-2"}


# --- what cannot be joined ---


def test_autocommit_is_refused(shop: Shop) -> None:
    with shop.connect(autocommit=True) as connection:
        with pytest.raises(CannotJoin, match="autocommit"):
            shop.queue.enqueue({}, connection=connection)
        with connection.transaction():
            shop.queue.enqueue({}, id="o-1", connection=connection)

    assert shop.jobs() == {"o-1"}


def test_a_transaction_that_has_failed_is_refused(shop: Shop) -> None:
    with shop.connect() as tx:
        with pytest.raises(psycopg.errors.DivisionByZero):
            tx.execute("SELECT 1/0")
        with pytest.raises(CannotJoin, match="roll it back"):
            shop.queue.enqueue({}, connection=tx)
        tx.rollback()
        shop.queue.enqueue({}, id="o-1", connection=tx)

    assert shop.jobs() == {"o-1"}


def test_a_closed_connection_is_refused(shop: Shop) -> None:
    tx = shop.connect()
    tx.close()

    with pytest.raises(CannotJoin, match="closed"):
        shop.queue.enqueue({}, connection=tx)


def test_a_connection_closed_by_the_server_is_refused(shop: Shop) -> None:
    with shop.connect() as tx, shop.connect(autocommit=True) as other:
        tx.execute("SELECT 1")
        other.execute("SELECT pg_terminate_backend(%s)", [tx.info.backend_pid])
        with pytest.raises(StoreUnavailable):
            shop.queue.enqueue({}, id="o-1", connection=tx)
        with pytest.raises(CannotJoin, match="broken"):
            shop.queue.enqueue({}, id="o-1", connection=tx)

    assert shop.jobs() == set()


def test_a_pipeline_is_refused(shop: Shop) -> None:
    with shop.connect() as tx:
        with tx.pipeline():
            tx.execute(shop.insert("o-1"))
            with pytest.raises(CannotJoin, match="pipeline"):
                shop.queue.enqueue({}, connection=tx)
        shop.queue.enqueue({}, id="o-1", connection=tx)

    assert shop.jobs() == shop.orders() == {"o-1"}


def test_a_connection_that_is_busy_is_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined, "BUSY_TIMEOUT", 0.1)
    with shop.connect() as tx:
        with (
            tx.cursor() as cursor,
            cursor.copy("COPY (SELECT generate_series(1, 9)) TO STDOUT") as copy,
        ):
            rows = iter(copy)
            next(rows)
            with pytest.raises(CannotJoin, match="busy"):
                shop.queue.enqueue({}, connection=tx)
            assert len(list(rows)) == 8
        shop.queue.enqueue({}, id="o-1", connection=tx)

    assert shop.jobs() == {"o-1"}


def test_another_database_is_refused(shop: Shop, server: PostgresServer) -> None:
    with shop.connect(autocommit=True) as connection:
        connection.execute("CREATE DATABASE elsewhere")
    elsewhere = psycopg.conninfo.make_conninfo(shop.url, dbname="elsewhere")
    store = PostgresStore(read_address(f"{server.socket_url}&dbname=elsewhere"))

    with psycopg.connect(elsewhere) as tx:
        with pytest.raises(StoreMismatch, match="no such schema"):
            shop.queue.enqueue({}, connection=tx)
        tx.rollback()
        store.open()
        store.close()
        with pytest.raises(StoreMismatch, match="no such schema"):
            shop.queue.enqueue({}, connection=tx)


def test_a_copy_of_the_schema_in_another_database_is_refused(
    shop: Shop, schema: str, server: PostgresServer
) -> None:
    with shop.connect(autocommit=True) as connection:
        connection.execute("CREATE DATABASE twin")
    twin = psycopg.conninfo.make_conninfo(shop.url, dbname="twin")
    with psycopg.connect(twin, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"')
        connection.execute(f'CREATE TABLE "{schema}".job (num bigint)')

    with psycopg.connect(twin) as tx:
        with pytest.raises(StoreMismatch, match="another server"):
            shop.queue.enqueue({}, connection=tx)
        assert tx.execute("SELECT 1").fetchone() == (1,)


def test_a_read_only_transaction_is_refused(shop: Shop) -> None:
    with shop.connect() as tx:
        tx.read_only = True
        with pytest.raises(StoreReadOnly, match="write"):
            shop.queue.enqueue({}, connection=tx)
        assert tx.execute("SELECT 1").fetchone() == (1,)


def test_a_user_without_permissions_gets_an_error_and_the_transaction_goes_on(shop: Shop) -> None:
    with shop.connect(autocommit=True) as connection:
        connection.execute(
            "DO $$ BEGIN CREATE ROLE guest; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
        )
    with shop.connect() as tx:
        tx.execute("SET LOCAL ROLE guest")
        with pytest.raises(StoreError, match="may not"):
            shop.queue.enqueue({}, connection=tx)
        tx.execute("RESET ROLE")
        tx.execute(shop.insert("o-1"))

    assert shop.orders() == {"o-1"}


def test_an_object_that_is_no_connection_is_refused(work: Work) -> None:
    with pytest.raises(CannotJoin, match="psycopg Connection"):
        work.enqueue({}, connection="postgresql://localhost")


@pytest.mark.parametrize("url", ["memory://", "sqlite:///jobs.db"])
def test_stores_that_cannot_join_name_one_that_can(
    url: str, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with ackline.open(url) as queues:
        assert not queues.store.capabilities.joins_transactions
        with pytest.raises(CannotJoin, match="postgresql"):
            queues["work"].enqueue({}, connection=object())
        assert queues["work"].counts()[State.QUEUED] == 0


def test_waiting_for_a_result_takes_no_connection(shop: Shop) -> None:
    """Its job could not run before the commit."""
    with shop.connect() as tx, pytest.raises(TypeError, match="connection"):
        shop.queue.enqueue_and_wait({}, connection=tx)  # type: ignore[call-arg]


# --- nothing half done ---


def test_a_full_queue_refuses_and_the_transaction_goes_on(shop: Shop) -> None:
    shop.queue.configure(max_jobs=2)
    with shop.connect() as tx:
        tx.execute(shop.insert("o-1"))
        shop.queue.enqueue({}, id="1", connection=tx)
        with pytest.raises(StoreFull):
            shop.queue.enqueue_many([{}, {}], connection=tx)
        shop.queue.enqueue({}, id="2", connection=tx)

    assert (shop.orders(), shop.jobs()) == ({"o-1"}, {"1", "2"})


def test_an_open_transaction_does_not_block_enqueues_into_a_full_queue(shop: Shop) -> None:
    shop.queue.configure(max_jobs=10)
    with shop.connect() as tx:
        shop.queue.enqueue({}, connection=tx)
        started = time.monotonic()
        shop.queue.enqueue({}, id="other")
        assert time.monotonic() - started < 5


def test_a_new_queue_is_not_blocked_by_its_first_transaction(
    shop: Shop, store: PostgresStore
) -> None:
    fresh = Queues(store)["fresh"]
    with shop.connect() as tx:
        fresh.enqueue({}, kind="a", connection=tx)
        started = time.monotonic()
        fresh.enqueue({}, kind="a")
        fresh.enqueue({}, kind="b")
        assert time.monotonic() - started < 5
        tx.rollback()

    assert fresh.counts()[State.QUEUED] == 2


def test_a_statement_that_times_out_changes_nothing(shop: Shop) -> None:
    with shop.connect() as first, shop.connect() as second:
        shop.queue.enqueue({}, id="o-1", connection=first)
        second.execute(shop.insert("o-2"))
        second.execute("SET LOCAL statement_timeout = '100ms'")
        with pytest.raises(StoreUnavailable, match="statement_timeout"):
            shop.queue.enqueue({}, id="o-1", connection=second)
        first.rollback()
        shop.queue.enqueue({}, id="o-3", connection=second)

    assert (shop.orders(), shop.jobs()) == ({"o-2"}, {"o-3"})


def test_a_deadlock_ends_one_call_and_both_transactions_go_on(shop: Shop) -> None:
    """Two transactions enqueue the same two ids in opposite order."""
    refused: list[Exception] = []
    both = threading.Barrier(2)

    def run(mine: str, other: str) -> None:
        with shop.connect() as tx:
            shop.queue.enqueue({}, id=mine, connection=tx)
            both.wait()
            try:
                shop.queue.enqueue({}, id=other, connection=tx)
            except StoreUnavailable as error:
                refused.append(error)
            tx.execute(shop.insert(mine))

    threads = [threading.Thread(target=run, args=args) for args in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert len(refused) == 1
    assert shop.orders() == {"a", "b"}
    assert shop.jobs() == {"a", "b"}
