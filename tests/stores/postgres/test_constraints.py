"""What the tables themselves refuse, whoever writes: each check is violated in plain SQL."""

from collections.abc import Iterator

import psycopg
import pytest
from tests.harness.servers.postgres import PostgresServer
from tests.stores.postgres.actions import finish, put, take
from tests.stores.postgres.conftest import OpenStore

from ackline.core.job import QueueKey

READY = "INSERT INTO ready (line, lane, rank, job, attempts, act) VALUES "
PARKED = "INSERT INTO parked (queue, grp, line, rank, job, attempts, act) VALUES "
LEASE = """
INSERT INTO lease (token, queue, worker, started, deadline, jobs, attempts, ranks, asked)
VALUES (1, 1, '', 0, 1, """
REST = "INSERT INTO rest (job, queue, state, at, attempts, finished, act, result) VALUES "

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
    "lease_asked_check": LEASE + "'{1,2}', '{1,1}', '{0,0}', '{3}')",
    "rest_state_check": REST + "(99, 1, 1, 0, 0, NULL, NULL, NULL)",
    "rest_attempts_check": REST + "(99, 1, 0, 0, -1, NULL, NULL, NULL)",
    "rest_finished_check": REST + "(99, 1, 0, 0, 0, 5, NULL, NULL)",
    "rest_act_check": REST + "(99, 1, 0, 0, 0, NULL, 6, NULL)",
    "rest_result_check": REST + "(99, 1, 5, 0, 0, 5, NULL, '')",
    "grp_running_check": "INSERT INTO grp VALUES (1, '', -1)",
    "journal_size_check": "INSERT INTO journal VALUES (0, '1', 1, 1, 0, 0, '')",
    "tally_states_check": "INSERT INTO tally (queue, states, events) VALUES (1, '{1}', 0)",
}
"""Check → what it refuses."""

TWICE = {
    "migration_pkey": "INSERT INTO migration SELECT * FROM migration",
    "epoch_pkey": "INSERT INTO epoch SELECT * FROM epoch",
    "queue_tenant_name_key": "INSERT INTO queue (tenant, name, settings) "
    "SELECT tenant, name, settings FROM queue",
    "line_queue_kind_key": "INSERT INTO line (queue, kind) SELECT queue, kind FROM line",
    "job_queue_id_key": "INSERT INTO job SELECT num + 1000, queue, id, kind, grp, priority, "
    "created, options, payload FROM job",
    "ready_job": "INSERT INTO ready (line, lane, rank, job) SELECT line, 20, rank, job FROM ready",
    "rest_pkey": "INSERT INTO rest SELECT * FROM rest",
}
"""What must be there once → how to have it twice."""


@pytest.fixture
def tables(
    open_store: OpenStore, server: PostgresServer, schema: str, queue: QueueKey
) -> Iterator[psycopg.Connection]:
    """A schema with one job in line and one completed, found by bare names."""
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


def test_what_must_be_there_once_cannot_be_there_twice(tables: psycopg.Connection) -> None:
    for name, sql in TWICE.items():
        with pytest.raises(psycopg.errors.UniqueViolation) as refusal:
            tables.execute(sql.encode())
        assert refusal.value.diag.constraint_name == name


def test_a_line_belongs_to_a_queue(tables: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        tables.execute("INSERT INTO line (queue, kind) VALUES (99, '')")
