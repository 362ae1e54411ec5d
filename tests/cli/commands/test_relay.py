"""`ackline relay`."""

from __future__ import annotations

import signal

import ackline
from ackline import State


def test_once_relays_the_jobs_that_are_ready(cli, queues):
    queues["email"].enqueue_many(range(3))

    answer = cli("relay", "--to", "other.db", "--queue", "email", "--once")

    assert answer.code == 0
    assert "email: 3 jobs relayed" in answer.out
    assert queues["email"].counts()[State.COMPLETED] == 3
    with ackline.open("sqlite:///other.db") as other:
        assert other["email"].counts()[State.QUEUED] == 3


def test_several_queues_and_renamed_ones_as_json(cli, queues):
    queues["email"].enqueue(1)
    queues["push"].enqueue(2)

    answer = cli(
        *("relay", "--from", "sqlite:///ackline.db", "--to", "sqlite:///other.db"),
        *("--queue", "email", "--queue", "push=notify", "--once", "--json"),
    )

    targets = {one["queue"]: (one["to"], one["relayed"]) for one in answer.document["relays"]}
    assert targets == {"email": ("email", 1), "push": ("notify", 1)}
    with ackline.open("sqlite:///other.db") as other:
        assert sorted(other) == ["email", "notify"]


def test_a_relay_runs_until_it_is_stopped(start, queues):
    process = start("relay", "--to", "sqlite:///other.db", "--queue", "email")
    process.wait_for("relay of email in ", "ackline.db to email in ", "other.db: started")
    queues["email"].enqueue(1)
    with ackline.open("sqlite:///other.db") as other:
        assert other["email"].claim(wait=20)

    answer = process.end(signal.SIGTERM)

    assert answer.code == 0
    assert "email: 1 job relayed" in answer.out
    assert queues["email"].counts()[State.COMPLETED] == 1


def test_a_relay_waits_for_a_store_that_is_down(start, queues):
    process = start("relay", "--to", "redis://127.0.0.1:1", "--queue", "email")

    process.wait_for("127.0.0.1:1 cannot be reached", "retrying in")

    assert process.end(signal.SIGTERM).code == 0


def test_once_does_not_wait(cli, queues):
    answer = cli("relay", "--to", "redis://127.0.0.1:1", "--queue", "email", "--once")

    assert answer.code == 3
    assert "cannot be reached" in answer.err


def test_a_missing_source_is_not_created(cli, workdir):
    answer = cli("relay", "--from", "none.db", "--to", "other.db", "--queue", "email", "--once")

    assert answer.code == 3
    assert "no store at" in answer.err
    assert "or select another with --from." in answer.err
    assert not (workdir / "none.db").exists()


def test_an_empty_queue_name_is_a_usage_error(cli, queues):
    answer = cli("relay", "--to", "other.db", "--queue", "email=", "--once")

    assert answer.code == 2
    assert "NAME=OTHER" in answer.err


def test_a_missing_queue_is_warned_of_and_awaited(start, queues):
    queues["email"].enqueue(1)
    process = start("relay", "--to", "other.db", "--queue", "emial", "--queue", "email")
    process.wait_for("has no queue 'emial'. Did you mean 'email'?")
    process.wait_for("relay of emial", "started")
    queues["emial"].enqueue(2)
    with ackline.open("sqlite:///other.db") as other:
        assert other["emial"].claim(wait=20)

    answer = process.end(signal.SIGTERM)

    assert answer.code == 0
    assert "has no queue" not in answer.err


def test_once_with_a_missing_queue(cli, queues):
    queues["email"].enqueue(1)

    answer = cli("relay", "--to", "other.db", "--queue", "emial", "--once")

    assert answer.code == 0
    assert answer.err.count("has no queue 'emial'. Did you mean 'email'?") == 1
