"""Tokens grow, whatever happens to the data."""

from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.actions import put, take
from tests.stores.postgres.conftest import OpenStore

from ackline.core.job import QueueKey
from ackline.stores.postgres import PostgresStore


def set_back(server: PostgresServer, schema: str, seconds: int) -> None:
    """As if a copy of the data of that time had been restored."""
    with server.connect() as connection:
        connection.execute(f'UPDATE "{schema}".epoch SET base = base - {seconds}')
        connection.execute(f"""SELECT setval('"{schema}".token', 1)""")


def test_a_restored_copy_issues_no_token_again(
    open_store: OpenStore, server: PostgresServer, schema: str, queue: QueueKey
) -> None:
    lost = open_store()
    put(lost, queue, *map(str, range(20)))
    before = [take(lost, queue, 1)[0].token for _ in range(10)]
    set_back(server, schema, 60)

    restored = open_store()

    assert take(restored, queue, 1)[0].token > max(before)


def test_a_token_is_above_those_that_the_job_had(
    store: PostgresStore, server: PostgresServer, schema: str, queue: QueueKey
) -> None:
    """Even if the clock was set back and a copy restored."""
    put(store, queue, "a")
    with server.connect() as connection:
        connection.execute(f'UPDATE "{schema}".ready SET token = {2**52}, attempts = 1')

    [job] = take(store, queue)

    assert job.token > 2**52


def test_a_token_fits_in_a_double(store: PostgresStore, queue: QueueKey) -> None:
    put(store, queue, "a")

    assert 0 < take(store, queue)[0].token < 2**53
