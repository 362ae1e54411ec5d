from __future__ import annotations

import json
import os
import select
import signal
import time

import pytest

import ackline
from ackline import Policy, State
from ackline.core.clock import SystemClock
from ackline.stores.contract import Heartbeat
from ackline.testing import ManualClock


@pytest.fixture
def email(queues):
    """One job in each of several states."""
    queue = queues["email"]
    queue.enqueue({"to": "dead"}, id="dead", kind="welcome", max_attempts=1)
    [job] = queue.claim()
    try:
        raise RuntimeError("the mail\x1b[31m server is gone")
    except RuntimeError as error:
        queue.fail(job, error)
    queue.enqueue({"to": "done"}, id="done", kind="welcome")
    [job] = queue.claim()
    queue.complete(job, {"sent": "x" * 5000})
    queue.enqueue({"to": "next"}, id="next", kind="digest", priority=9, tags=["eu", "vip"])
    queue.enqueue({"to": "later"}, id="later", delay=60)
    return queue


def test_queues(cli, email):
    email.pause()
    answer = cli("queues")
    assert answer.code == 0
    assert "email paused" in answer.out
    found = cli("queues", "--json").document["queues"]
    assert found[0]["counts"]["failed"] == 1
    assert found[0]["paused"] is True
    assert found[0]["oldest"] > 0


def test_list_shows_the_detail_of_each_state(cli, email):
    out = cli("list", "email").out
    assert "due in 6" in out
    assert "RuntimeError: the mail\\x1b[31m server is gone" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--state", "failed"], ["dead"]),
        (["--state", "failed", "--state", "completed"], ["done", "dead"]),
        (["--kind", "digest"], ["next"]),
        (["--text", "later"], ["later"]),
        (["--tag", "vip", "--tag", "eu"], ["next"]),
        (["--tag", "vip", "--tag", "us"], []),
        (["--kind", "none"], []),
    ],
)
def test_list_filters(cli, email, options, ids):
    found = cli("list", "email", *options, "--json").document["jobs"]
    assert [job["id"] for job in found] == ids


def test_a_job_is_enqueued_with_tags(cli):
    cli("enqueue", "email", "1", "--id", "a", "--tag", "vip", "--tag", "eu")
    assert cli("show", "email", "a", "--json").document["tags"] == ["eu", "vip"]
    assert "eu, vip" in cli("show", "email", "a").out
    line = cli("export", "email", "--tag", "vip").out
    assert json.loads(line)["tags"] == ["eu", "vip"]


def test_list_continues_with_a_cursor(cli, email):
    seen: list[str] = []
    cursor: str | None = None
    while True:
        more = ["--cursor", cursor] if cursor else []
        page = cli("list", "email", "--limit", "1", "--json", *more).document
        seen += [job["id"] for job in page["jobs"]]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert sorted(seen) == ["dead", "done", "later", "next"]
    assert "--cursor" in cli("list", "email", "--limit", "1").err


def test_show_has_the_timeline_failures_and_payload(cli, email):
    out = cli("show", "email", "dead").out
    for text in ("moved to the DLQ", "claimed, attempt 1", "Traceback", "1 of 1", '"to": "dead"'):
        assert text in out
    assert "\x1b" not in out


def test_show_truncates_long_values(cli, email):
    assert "--full shows them" in cli("show", "email", "done").out
    assert "x" * 5000 in cli("show", "email", "done", "--full").out


def test_show_as_json(cli, email):
    found = cli("show", "email", "dead", "--json").document
    assert found["state"] == "failed"
    assert found["payload"] == {"to": "dead"}
    assert found["history"][0]["type"] == "RuntimeError"
    assert [event["act"] for event in found["timeline"]] == ["enqueue", "claim", "fail"]


def test_show_of_an_unknown_job(cli, email):
    answer = cli("show", "email", "nope")
    assert (answer.code, answer.out) == (1, "")
    assert "'nope'" in answer.err


@pytest.mark.parametrize("command", ["list", "workers", "pause", "events"])
def test_an_unknown_queue_gets_a_hint(cli, email, command):
    answer = cli(command, "emial")
    assert answer.code == 1
    assert "Did you mean 'email'?" in answer.err


def test_reading_commands_create_no_store(cli, workdir):
    answer = cli("queues")
    assert answer.code == 3
    assert "no store at" in answer.err
    assert os.listdir(workdir) == []


def test_workers(cli, email):
    assert "no workers" in cli("workers", "email").out
    assert cli("workers", "email", "--json").document == {"workers": []}


# --- events ---


def test_events_are_lines(cli, email):
    lines = cli("events", "email").out.splitlines()
    assert len(lines) == 8
    assert "moved to the DLQ" in lines[2]


def test_events_as_json_lines_with_a_cursor(cli, email):
    every = cli("events", "--json").documents
    rest = cli("events", "--json", "--after", every[5]["cursor"]).documents
    assert rest == every[6:]
    assert cli("events", "--json", "--last", "2").documents == every[-2:]


def test_events_of_one_act(cli, email):
    found = cli("events", "--act", "claim", "--act", "fail", "--json").documents
    assert {event["act"] for event in found} == {"claim", "fail"}


def test_events_of_other_tenants_are_not_shown(cli, email):
    assert cli("events", "--tenant", "acme").out == ""


def test_an_invalid_cursor_is_a_usage_error(cli, email):
    assert cli("events", "--after", "x").code == 2
    assert cli("list", "email", "--cursor", "x").code == 2


def test_follow_prints_new_events_until_ctrl_c(start, queues):
    queues["email"].enqueue(1, id="old")
    process = start("events", "--follow", "--json")
    lines = process.process.stdout
    # It begins at the end of the journal, whenever that is: enqueue until it has seen one.
    seen = None
    for n in range(1000):
        queues["email"].enqueue(n, id=f"new-{n}")
        if select.select([lines], [], [], 0.05)[0]:
            seen = json.loads(lines.readline())
            break
    assert seen is not None
    assert seen["id"].startswith("new-")
    answer = process.end(signal.SIGINT)
    assert answer.code == 130
    assert "Traceback" not in answer.err


# --- top and doctor ---


def test_top_without_a_terminal_is_one_snapshot(cli, email):
    answer = cli("top", "--seconds", "0.1")
    assert answer.code == 0
    assert answer.out.count("email") == 1
    found = cli("top", "--json", "--seconds", "0.1").documents
    assert found[0]["queues"][0]["counts"]["queued"] == 1


def test_doctor_of_a_healthy_store(cli, queues):
    queues["email"].enqueue(1)
    answer = cli("doctor")
    assert answer.code == 0
    for text in ("sqlite", "durability", "full:", "clock", "no worker"):
        assert text in answer.out
    assert cli("doctor", "--json").document["ok"] is True


def test_doctor_finds_jobs_without_a_worker(cli, email, monkeypatch):
    email.enqueue(1)
    assert cli("doctor").code == 0  # a worker may be about to start
    monkeypatch.setattr("ackline.cli.commands.doctor.NO_WORKER_AFTER", -1.0)
    answer = cli("doctor")
    assert answer.code == 1
    assert "no worker" in answer.out + answer.err


def send_heartbeat(queue, *kinds):
    """A worker of these kinds gives a heartbeat; without any, it takes all."""
    queue.store.heartbeat(
        queue.key,
        Heartbeat(
            id="worker",
            host="here",
            pid=1,
            started_at=0.0,
            concurrency=1,
            kinds=kinds or None,
            ttl=60.0,
        ),
        [],
    )


def test_doctor_finds_jobs_of_a_kind_that_no_worker_handles(cli, email, monkeypatch):
    send_heartbeat(email, "welcome", "digest")
    assert "jobs of kind" not in cli("doctor").out
    for _ in range(2):
        email.enqueue(1, kind="welcom")
    answer = cli("doctor")
    assert answer.code == 0  # its worker may be about to start
    assert "2 jobs of kind 'welcom'" in answer.out
    monkeypatch.setattr("ackline.cli.commands.doctor.NO_WORKER_AFTER", -1.0)
    answer = cli("doctor")
    assert answer.code == 1
    assert "ackline list email --kind welcom" in answer.out


def test_doctor_checks_only_the_next_jobs_of_a_long_queue(cli, email, monkeypatch):
    monkeypatch.setattr("ackline.maintenance.unhandled_kinds.CHECKED_JOBS", 3)
    send_heartbeat(email, "digest")
    email.enqueue_many(range(5), kind="welcom")
    assert "at least 2 jobs of kind 'welcom'" in cli("doctor").out


def test_doctor_knows_that_a_worker_may_take_every_kind(cli, email):
    send_heartbeat(email)
    email.enqueue(1, kind="welcom")
    assert "jobs of kind" not in cli("doctor").out


def test_doctor_finds_overdue_leases(cli, workdir):
    class Past(SystemClock):
        def now(self) -> float:
            return super().now() - 3600

    with ackline.open("sqlite:///ackline.db", clock=Past()) as past:
        past["email"].enqueue(1)
        past["email"].claim(lease=5)
    answer = cli("doctor")
    assert answer.code == 1
    assert "1 lease overdue" in answer.out
    assert "start a worker" in answer.out


class TestJobsThatHang:
    """A handler hangs in a live worker: heartbeats keep its lease, so nothing recovers the job."""

    @pytest.fixture
    def clock(self):
        return ManualClock(time.time() - 3600)

    @pytest.fixture
    def past(self, workdir, clock):
        with ackline.open("sqlite:///ackline.db", clock=clock) as past:
            past["email"].configure(policy=Policy(result_ttl=86400))
            yield past

    def running(self, cli):
        found = cli("doctor", "--json").document["findings"]
        return [one["message"] for one in found if "has been running" in one["message"]]

    def test_thread_is_alive_or_just_slow_is_reported_after_its_timeout(self, cli, past):
        past["email"].configure(policy=Policy(timeout=60))
        past["email"].enqueue(1, id="hangs")
        past["email"].claim(lease=7200, worker="w1")

        assert self.running(cli) == [
            "job hangs has been running for 60 min in worker w1, and its timeout is 60 s"
        ]

    def test_a_job_without_a_timeout_is_compared_with_others_of_its_kind(self, cli, past, clock):
        past["email"].enqueue(1, id="usual")
        [job] = past["email"].claim(lease=7200)
        clock.advance(5)
        past["email"].complete(job)
        past["email"].enqueue(1, id="hangs")
        past["email"].enqueue(1, id="first of its kind", kind="report")
        past["email"].claim(2, lease=7200)

        assert [message.partition(" has")[0] for message in self.running(cli)] == ["job hangs"]

    def test_a_job_that_runs_as_long_as_others_is_not_reported(self, cli, past, clock):
        past["email"].enqueue(1, id="usual")
        [job] = past["email"].claim(lease=7200)
        clock.advance(1200)
        past["email"].complete(job)
        past["email"].enqueue(1, id="slow")
        past["email"].claim(lease=7200)

        assert self.running(cli) == []


def test_state_is_in_the_help(cli):
    answer = cli("list", "--help")
    assert answer.code == 0
    assert State.CANCELLED in answer.out
