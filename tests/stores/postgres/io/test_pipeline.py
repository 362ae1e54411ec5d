"""Statements leave together, and whatever goes wrong, a session is fit for use or gone."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.stores.postgres.actions import finish, put, take

from ackline.core.config import DEFAULTS
from ackline.core.job import QueueKey
from ackline.core.lifecycle import complete
from ackline.stores.contract import ClaimRequest
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.io.pipeline import Connection, Pipeline, Row, compile_statement

STATEMENTS = {
    "begin": compile_statement("BEGIN"),
    "rollback": compile_statement("ROLLBACK"),
    "double": compile_statement("SELECT %(number)b::bigint * 2"),
    "divide": compile_statement("SELECT 1 / %(number)b::bigint"),
    "echo": compile_statement("SELECT %(text)b::bytea"),
}


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:
    with engine.connections.connect() as connection:
        yield connection


def exchange(
    connection: Connection,
    *said: tuple[str, dict[str, Any]],
    then: BaseException | None = None,
) -> list[list[Row]]:
    """Send statements by name; answers the rows of each."""
    with Pipeline(connection, STATEMENTS) as talk:
        sent = [talk.send(name, values) for name, values in said]
        if then is not None:
            raise then
    return [one.rows or [] for one in sent]


def prepared(connection: Connection) -> list[str]:
    """What the server has prepared for a session by names of ours."""
    query = "SELECT name FROM pg_prepared_statements WHERE name LIKE 'ackline%'"
    return [name for (name,) in connection.execute(query)]


class TestRoundTrips:
    """Each time that somebody waits for the server is a round trip."""

    @pytest.fixture
    def known(self, store: PostgresStore, queue: QueueKey, sent: list[str]) -> None:
        """The store has met the queue, and its statements are prepared."""
        put(store, queue, "a", "b", assume_new=True)
        jobs = take(store, queue, 1)
        done = [complete(job, b"1", DEFAULTS) for job in jobs]
        store.claim(queue, ClaimRequest(worker="w", limit=1, lease=30.0), done)
        sent.clear()

    @pytest.mark.usefixtures("known")
    def test_a_new_job_takes_one(
        self, store: PostgresStore, queue: QueueKey, sent: list[str]
    ) -> None:
        put(store, queue, "c", assume_new=True)

        assert sent.count("→") == 1

    @pytest.mark.usefixtures("known")
    def test_settling_and_claiming_together_take_two(
        self, store: PostgresStore, queue: QueueKey, sent: list[str]
    ) -> None:
        put(store, queue, "c", "d", assume_new=True)
        jobs = take(store, queue, 1)
        sent.clear()

        done = [complete(job, b"1", DEFAULTS) for job in jobs]
        claimed = store.claim(queue, ClaimRequest(worker="w", limit=1, lease=30.0), done)

        assert claimed.verdicts[0].applied
        assert len(claimed.jobs) == 1
        # For what is there, and for the commit.
        assert sent.count("→") == 2

    @pytest.mark.usefixtures("known")
    def test_settling_alone_takes_three(
        self, store: PostgresStore, queue: QueueKey, sent: list[str]
    ) -> None:
        put(store, queue, "c", assume_new=True)
        jobs = take(store, queue)
        sent.clear()

        assert all(verdict.applied for verdict in finish(store, queue, *jobs))

        assert sent.count("→") == 3


def test_rows_can_be_read_inside_and_afterwards(connection: Connection) -> None:
    with Pipeline(connection, STATEMENTS) as talk:
        first = talk.send("double", {"number": 4})
        second = talk.send("double", {"number": 5})
        assert first.fetchall() == [(8,)]

    assert second.fetchall() == [(10,)]


def test_of_several_errors_the_first_is_raised(connection: Connection) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        exchange(connection, ("divide", {"number": 0}), ("double", {"number": 1}))


def test_what_an_error_kept_from_being_prepared_is_prepared_later(connection: Connection) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        exchange(connection, ("divide", {"number": 0}), ("echo", {"text": b"never read"}))

    said = exchange(connection, ("echo", {"text": b"now"}), ("divide", {"number": 1}))

    assert said == [[(b"now",)], [(1,)]]


def test_an_error_in_python_leaves_the_session_usable(connection: Connection) -> None:
    with pytest.raises(LookupError):
        exchange(connection, ("begin", {}), ("double", {"number": 1}), then=LookupError())

    said = exchange(connection, ("rollback", {}), ("double", {"number": 2}))

    assert said[1] == [(4,)]


def test_an_interruption_ends_the_session(connection: Connection) -> None:
    with pytest.raises(KeyboardInterrupt):
        exchange(connection, ("double", {"number": 1}), then=KeyboardInterrupt())

    assert connection.closed


def test_a_cut_session_raises_an_error(connection: Connection, engine: Engine) -> None:
    with engine.connections.connect() as other:
        other.execute("SELECT pg_terminate_backend(%s::int)", [connection.info.backend_pid])

    with pytest.raises(psycopg.OperationalError):
        exchange(connection, ("double", {"number": 1}))

    assert connection.broken


def test_more_than_the_buffers_hold_is_sent_and_received(connection: Connection) -> None:
    large = b"x" * 3_000_000

    said = exchange(connection, *[("echo", {"text": large})] * 20)

    assert said == [[(large,)]] * 20


def test_nothing_is_prepared_where_sessions_change(connection: Connection) -> None:
    connection.prepared = None

    assert exchange(connection, ("double", {"number": 3})) == [[(6,)]]

    assert prepared(connection) == []
    connection.prepared = {}
    exchange(connection, ("double", {"number": 3}))
    assert prepared(connection) == ["ackline_0"]


def test_a_name_used_twice_is_one_parameter() -> None:
    statement = compile_statement("SELECT %(a)b + %(b)s + %(a)b")

    assert (statement.text, statement.names) == (b"SELECT $1 + $2 + $1", ("a", "b"))
