"""A dump that is restored on another server goes on where it was taken."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.harness.servers.postgres_programs import programs
from tests.stores.postgres.actions import finish, ids, put, take

from ackline.core.job import QueueKey, State
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.io.address import read_address

MANY = "SELECT pg_current_xact_id()"


@pytest.fixture
def spare() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def original(server: PostgresServer, schema: str) -> Iterator[PostgresStore]:
    store = PostgresStore(read_address(f"{server.socket_url}&schema={schema}"))
    store.open()
    yield store
    store.close()


def dump(server: PostgresServer, schema: str) -> str:
    debian = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    program = shutil.which("pg_dump", path=":".join([str(programs()), os.environ["PATH"], *debian]))
    if program is None:
        pytest.skip("there is no pg_dump")
    command = [program, "--inserts", f'--schema="{schema}"', server.url]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if "server version mismatch" in done.stderr:
        pytest.skip("pg_dump is older than the server")
    assert done.returncode == 0, done.stderr
    # What is meant for psql alone.
    return "\n".join(line for line in done.stdout.splitlines() if not line.startswith("\\"))


def test_a_restored_dump_continues(
    original: PostgresStore, server: PostgresServer, spare: PostgresServer, schema: str,
    queue: QueueKey,
) -> None:  # fmt: skip
    # So that the transactions of the spare server have lower numbers than those of the dump.
    with server.connect() as connection:
        for _ in range(500):
            connection.execute(MANY)
    put(original, queue, "a", "b", "c")
    finish(original, queue, *take(original, queue, 1))
    [leased] = take(original, queue, 1)
    seen = original.events(queue, None, 100)
    text = dump(server, schema)
    lost = [take(original, queue, 1)[0].token]

    with spare.connect() as connection:
        connection.execute(text.encode())
    restored = PostgresStore(read_address(f"{spare.socket_url}&schema={schema}&migrate=no"))
    restored.open()

    [done] = [job for job in restored.get(queue, ["a"]) if job]
    assert done.state is State.COMPLETED
    assert finish(restored, queue, leased)[0].applied
    [job] = take(restored, queue)
    assert ids([job]) == ["c"]
    assert job.token > max(lost)
    assert [event.id for event in restored.events(queue, None, 100)[: len(seen)]] == [
        event.id for event in seen
    ]
    later = restored.events(queue, seen[-1].cursor, 100)
    assert [(event.act, event.id) for event in later] == [("complete", "b"), ("claim", "c")]
    restored.close()


def test_two_dumps_do_not_mix(server: PostgresServer, spare: PostgresServer, schema: str) -> None:
    """Restoring over a schema that is there is refused by the server, not half done."""
    store = PostgresStore(read_address(f"{server.socket_url}&schema={schema}"))
    store.open()
    store.close()
    text = dump(server, schema)
    with spare.connect() as connection:
        connection.execute(text.encode())
        with pytest.raises(psycopg.errors.DuplicateSchema):
            connection.execute(text.encode())
