"""What the tables themselves refuse: each check is violated in plain SQL."""

from collections.abc import Iterator

import psycopg
import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.actions import finish, put, take
from tests.stores.postgres.conftest import OpenStore

from ackline.core.job import QueueKey

READY = "INSERT INTO ready (kind_id, lane, rank, job, attempts, act) VALUES "
PARKED = "INSERT INTO parked (queue, job_group, kind_id, rank, job, attempts, act) VALUES "
LEASE = """
INSERT INTO lease (token, queue, worker, started, deadline, jobs, attempts, ranks, cancel_requested)
VALUES (1, 1, '', 0, 1, """
INACTIVE = "INSERT INTO inactive (job, queue, state, at, attempts, finished, act, result) VALUES "

VIOLATIONS = {
    "migration_compatible_from_check": "INSERT INTO migration VALUES (7, 'later', now(), 8)",
    "epoch_one_check": "INSERT INTO epoch (one, base, era) VALUES (false, 0, 0)",
    "epoch_base_check": "UPDATE epoch SET base = -1",
    "epoch_era_check": "UPDATE epoch SET era = -1",
    "queue_version_check": "UPDATE queue SET version = 0",
    "job_priority_check": "UPDATE job SET priority = 10",
    "ready_lane_check": READY + "(1, 21, 0, 99, 0, 0)",
    "ready_attempts_check": READY + "(1, 0, 0, 99, -1, 0)",
    "ready_act_check": READY + "(1, 0, 0, 99, 0, 6)",
    "parked_attempts_check": PARKED + "(1, '', 1, 0, 99, -1, 0)",
    "parked_act_check": PARKED + "(1, '', 1, 0, 99, 0, 6)",
    "lease_jobs_check": LEASE + "'{}', '{}', '{}', '{}')",
    "lease_attempts_check": LEASE + "'{1,2}', '{1}', '{0,0}', '{}')",
    "lease_ranks_check": LEASE + "'{1,2}', '{1,1}', '{0}', '{}')",
    "lease_cancel_requested_check": LEASE + "'{1,2}', '{1,1}', '{0,0}', '{3}')",
    "inactive_state_check": INACTIVE + "(99, 1, 1, 0, 0, NULL, NULL, NULL)",
    "inactive_attempts_check": INACTIVE + "(99, 1, 0, 0, -1, NULL, NULL, NULL)",
    "inactive_finished_check": INACTIVE + "(99, 1, 0, 0, 0, 5, NULL, NULL)",
    "inactive_act_check": INACTIVE + "(99, 1, 0, 0, 0, NULL, 6, NULL)",
    "inactive_result_check": INACTIVE + "(99, 1, 5, 0, 0, 5, NULL, '')",
    "job_group_running_check": "INSERT INTO job_group VALUES (1, '', -1)",
    "journal_size_check": "INSERT INTO journal VALUES (0, '1', 1, 1, 0, 0, '')",
    "count_change_states_check": "INSERT INTO count_change (queue, states, events) "
    "VALUES (1, '{1}', 0)",
}
"""Check → what it refuses."""

TWICE = {
    "migration_pkey": "INSERT INTO migration SELECT * FROM migration",
    "epoch_pkey": "INSERT INTO epoch SELECT * FROM epoch",
    "queue_tenant_name_key": "INSERT INTO queue (tenant, name, settings) "
    "SELECT tenant, name, settings FROM queue",
    "queue_kind_queue_kind_key": "INSERT INTO queue_kind (queue, kind) "
    "SELECT queue, kind FROM queue_kind",
    "job_queue_id_key": "INSERT INTO job SELECT num + 1000, queue, id, kind, job_group, priority, "
    "created, options, payload FROM job",
    "ready_job": "INSERT INTO ready (kind_id, lane, rank, job) "
    "SELECT kind_id, 20, rank, job FROM ready",
    "inactive_pkey": "INSERT INTO inactive SELECT * FROM inactive",
}
"""What must be unique → an insert of a duplicate."""


@pytest.fixture
def tables(
    open_store: OpenStore, server: PostgresServer, schema: str, queue: QueueKey
) -> Iterator[psycopg.Connection]:
    """A connection to a schema with one queued and one completed job, as its search path."""
    store = open_store()
    put(store, queue, "a", "b")
    finish(store, queue, *take(store, queue, 1))
    with server.connect() as connection:
        connection.execute(f'SET search_path = "{schema}"')
        yield connection


def test_every_check_refuses_what_it_is_for(tables: psycopg.Connection) -> None:
    for name, sql in VIOLATIONS.items():
        with pytest.raises(psycopg.errors.CheckViolation) as refusal:
            tables.execute(sql.encode())
        assert refusal.value.diag.constraint_name == name


def test_every_check_is_tried_here(tables: psycopg.Connection, schema: str) -> None:
    rows = tables.execute(
        "SELECT conname FROM pg_constraint c JOIN pg_namespace n ON n.oid = c.connamespace "
        "WHERE n.nspname = %s AND c.contype = 'c'",
        [schema],
    ).fetchall()

    assert {name for (name,) in rows} == VIOLATIONS.keys()


def test_duplicates_are_refused(tables: psycopg.Connection) -> None:
    for name, sql in TWICE.items():
        with pytest.raises(psycopg.errors.UniqueViolation) as refusal:
            tables.execute(sql.encode())
        assert refusal.value.diag.constraint_name == name


def test_a_kind_belongs_to_a_queue(tables: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        tables.execute("INSERT INTO queue_kind (queue, kind) VALUES (99, '')")
