"""Servers, databases and users as they should not be: a typed error, and nothing half done."""

import contextlib
import traceback
from collections.abc import Iterator

import psycopg
import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.harness.servers.postgres_standby import PostgresStandby
from tests.stores.postgres.actions import finish, ids, put, take
from tests.stores.postgres.conftest import OpenStore

from ackline.core.errors import (
    ConfigError,
    StoreError,
    StoreFull,
    StoreMismatch,
    StoreReadOnly,
    StoreUnavailable,
)
from ackline.core.job import QueueKey
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.io.address import read_address

SECRET = "s3cr3t"


@contextlib.contextmanager
def opened(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(read_address(url))
    try:
        store.open()
        yield store
    finally:
        store.close()


def opening(url: str) -> None:
    with opened(url):
        pass


def relations(server: PostgresServer, schema: str) -> set[str]:
    with server.connect() as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND relkind = 'r'",
            [schema],
        ).fetchall()
    return {name for (name,) in rows}


# --- whose schema it is ---


def test_tables_of_another_program_are_left_alone(server: PostgresServer, schema: str) -> None:
    with server.connect() as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"')
        connection.execute(f'CREATE TABLE "{schema}".theirs (n int)')

    with pytest.raises(StoreMismatch, match="schema="):
        opening(f"{server.url}?schema={schema}")
    assert relations(server, schema) == {"theirs"}


def test_a_table_of_the_same_name_is_not_recognized(server: PostgresServer, schema: str) -> None:
    """Other programs keep their migrations in a table of that name, too."""
    with server.connect() as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"')
        connection.execute(f'CREATE TABLE "{schema}".migration (id int, name text)')

    with pytest.raises(StoreMismatch, match="another program"):
        opening(f"{server.url}?schema={schema}")
    assert relations(server, schema) == {"migration"}


@pytest.mark.parametrize("name", ["UPPER", "a.b-c", "1", "select", "a" * 63])
def test_a_schema_may_have_an_odd_name(server: PostgresServer, queue: QueueKey, name: str) -> None:
    with opened(f"{server.url}?schema={name}") as store, store.listen([queue], "ready") as news:
        put(store, queue, "a")
        assert news.wait(5.0)
        finish(store, queue, *take(store, queue))
        assert store.describe("default")
        assert "migration" in relations(server, name)


def test_instances_of_one_database_know_nothing_of_each_other(
    server: PostgresServer, queue: QueueKey
) -> None:
    base = f"{server.url}?schema="
    with opened(f"{base}one") as one, opened(f"{base}two") as two:
        put(one, queue, "a")
        with two.listen([queue], "ready") as news:
            while news.wait(0.2):
                pass
            put(one, queue, "b")
            assert not news.wait(0.3)

        assert take(two, queue) == []
        assert two.describe(None) == []
        assert two.events(None, None, 10) == []
        assert ids(take(one, queue)) == ["a", "b"]


# --- the database ---


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_of_another_encoding_is_refused(server: PostgresServer, encoding: str) -> None:
    database = f"in_{encoding.lower()}"
    with server.connect() as connection:
        connection.execute(
            f"CREATE DATABASE {database} ENCODING '{encoding}' TEMPLATE template0 "
            "LC_COLLATE 'C' LC_CTYPE 'C'"
        )
    url = server.url.removesuffix("postgres") + database

    with pytest.raises(StoreMismatch, match=encoding):
        opening(url)
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT to_regnamespace('ackline')").fetchone()
    assert row == (None,)


# --- the server ---


@pytest.fixture
def small_server() -> Iterator[PostgresServer]:
    with PostgresServer(max_connections="6", superuser_reserved_connections="3") as server:
        yield server


def test_a_server_without_connections_left(small_server: PostgresServer, queue: QueueKey) -> None:
    with opened(small_server.url) as store:
        with contextlib.ExitStack() as others:
            with contextlib.suppress(psycopg.OperationalError):
                while True:
                    others.enter_context(small_server.connect())
            with pytest.raises(StoreUnavailable, match="max_connections"):
                put(store, queue, "a")

        put(store, queue, "a")
        assert ids(take(store, queue)) == ["a"]


def test_a_password_that_is_wrong(small_server: PostgresServer) -> None:
    with small_server.connect() as connection:
        connection.execute("SET password_encryption = 'scram-sha-256'")
        connection.execute(f"CREATE ROLE app LOGIN SUPERUSER PASSWORD '{SECRET}'")
        (small_server.data / "pg_hba.conf").write_text(
            "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        )
        connection.execute("SELECT pg_reload_conf()")
    base = small_server.url.split("@")[1]
    small_server.wait_for("its new rules", lambda: not lets_in(f"postgresql://app@{base}"))

    with pytest.raises(StoreError, match="password"):
        opening(f"postgresql://app:wrong@{base}")
    with pytest.raises(StoreError, match="password"):
        opening(f"postgresql://app@{base}")
    with opened(f"postgresql://app:{SECRET}@{base}") as store:
        assert store.info().name == "postgresql"


def lets_in(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def test_a_full_disk_takes_no_jobs_but_can_be_purged(
    store: PostgresStore, server: PostgresServer, schema: str, queue: QueueKey
) -> None:
    """The server's own error, raised where a body would need room."""
    put(store, queue, "a", "b")
    [job] = take(store, queue, 1)
    with server.connect() as connection:
        connection.execute(
            f"""
            SET search_path = "{schema}";
            CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE 'no space left on device' USING ERRCODE = 'disk_full'; END $$;
            CREATE TRIGGER full_disk BEFORE INSERT ON job EXECUTE FUNCTION full_disk();
            """.encode()
        )

    with pytest.raises(StoreFull, match="disk"):
        put(store, queue, "c")
    assert store.get(queue, ["c"]) == [None]
    assert finish(store, queue, job)[0].applied
    assert ids(take(store, queue)) == ["b"]


# --- standbys ---


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


def test_a_standby_is_read_until_it_is_promoted(primary: PostgresServer, queue: QueueKey) -> None:
    with opened(primary.url) as store:
        put(store, queue, "a", "b", "c")
        lost = [take(store, queue, 1)[0].token for _ in range(2)]
    with PostgresStandby(primary) as standby, opened(standby.url) as store:
        standby.wait_until_caught_up()
        assert store.info().details["role"] == "standby"
        assert store.info().issues[0].message.startswith("it is a standby")
        assert [job.id for job in store.get(queue, ["c"]) if job] == ["c"]
        with pytest.raises(StoreReadOnly, match="standby"):
            put(store, queue, "d")
        primary.stop_immediately()
        # As if the last that the old primary did had never arrived.
        standby.promote()

        put(store, queue, "d")
        [job] = take(store, queue, 1)
        assert job.id == "c"
        assert job.token > max(lost)


def test_of_several_hosts_the_primary_is_found(primary: PostgresServer, queue: QueueKey) -> None:
    with PostgresStandby(primary) as standby:
        hosts = f"127.0.0.1:{standby.port},127.0.0.1:{primary.port}"
        url = f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"
        with opened(url) as store:
            put(store, queue, "a")
            standby.wait_until_caught_up()
            primary.stop_immediately()
            standby.promote()
            assert ids(take(store, queue)) == ["a"]


def test_a_standby_without_the_schema_is_not_migrated(primary: PostgresServer) -> None:
    with (
        PostgresStandby(primary) as standby,
        pytest.raises(StoreReadOnly, match="standby"),
    ):
        opening(standby.url)


# --- the URL ---


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@h/d?nope=1",
        f"postgresql://me:{SECRET}@h/d?connections=0",
        f"postgresql://me:{SECRET}@h:port/d",
        f"postgresql://me:{SECRET}%@h/d",
        # Not percent-encoded, the password ends where the URL says it does.
        f"postgresql://me:{SECRET}/@h/d",
        f"postgresql://me:/{SECRET}@h/d",
        f"postgresql://me:1#{SECRET}@h/d",
        f"postgresql://me:1?{SECRET}@h/d",
        f"postgresql://me:[{SECRET}@h/d",
        f"postgresql://me:@{SECRET}@h/d",
    ],
)
def test_no_error_shows_the_password(url: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        read_address(url)

    assert SECRET not in "".join(traceback.format_exception(refusal.value))


def test_an_address_does_not_show_its_password() -> None:
    address = read_address(f"postgresql://me:{SECRET}@127.0.0.1/db")

    assert SECRET in address.conninfo
    assert SECRET not in f"{address} {address!r} {address.location}"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("schema=", "schema must be 1 to 63 letters"),
        ("schema=pg_x", "not a schema of PostgreSQL itself"),
        ("schema=information_schema", "not a schema of PostgreSQL itself"),
        ('schema=a"b', "letters, digits"),
        ("schema=a%00b", "letters, digits"),
        (f"schema={'a' * 64}", "1 to 63"),
        ("migrate=maybe", "migrate must be yes or no, not 'maybe'"),
        ("pooler=session", "pooler must be none or transaction, not 'session'"),
        ("prepare=1", "prepare must be yes or no"),
        ("connections=0", "connections must be a whole number from 1 to 1000, not '0'"),
        ("timeout=never", "timeout must be seconds above zero"),
        ("alert_after=0", "alert_after must be a whole number from 1"),
        (
            "unheard=of",
            "pooler, prepare, notify, connections, timeout, alert_after",
        ),
    ],
)
def test_a_mistake_in_the_url_is_named(options: str, words: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        read_address(f"postgresql://localhost/db?{options}")

    assert words in str(refusal.value)


# --- a store that was never made ---


def test_a_missing_table_says_what_to_do(
    open_store: OpenStore, server: PostgresServer, schema: str, queue: QueueKey
) -> None:
    store = open_store()
    with server.connect() as connection:
        connection.execute(f'DROP SCHEMA "{schema}" CASCADE')

    with pytest.raises(StoreMismatch, match="ackline migrate"):
        put(store, queue, "a")
