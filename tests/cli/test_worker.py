from __future__ import annotations

import json
import os
import signal

import pytest

import ackline
from ackline import State
from ackline.events import Act, Event

MODULE = """
import os, time
import ackline

queues = ackline.open(os.environ.get("ACKLINE_STORE", "sqlite:///ackline.db"))
queue = queues["email"]
bare = queues["bare"]
number = 7
in_memory = ackline.open("memory://")["m"]

@in_memory.handler
@queue.handler
def work(job):
    job.progress("begun")
    if job.signal.wait(job.payload):
        raise RuntimeError("stopped")
    return os.getpid()
"""


@pytest.fixture(autouse=True)
def module(place):
    (place / "work.py").write_text(MODULE)
    (place / "broken.py").write_text("x = 1 / 0\n")


def first_begun(queue) -> Event:
    """The handler's first sign, waited for; a job that has not begun would be given back."""
    found: Event = next(e for e in queue.events(follow_for=10) if e.act is Act.PROGRESS)
    return found


def test_sigterm_drains(start, queues):
    process = start("worker", "work:queue", "-v")
    process.wait_for("worker", "started on email")
    queue = queues["email"]
    queue.enqueue(0.4, id="running")
    first_begun(queue)
    answer = process.end(signal.SIGTERM)
    assert answer.code == 0
    assert queue.status("running").state is State.COMPLETED
    assert "running attempt 1 ended" in answer.err
    assert "stopped" in answer.err


def test_what_does_not_end_in_time_is_given_back(start, queues):
    process = start("worker", "work:queue", "--grace", "0.1s", "--log-json", "--no-maintenance")
    started = json.loads(process.wait_for("started on email"))
    assert started["level"] == "info"
    queue = queues["email"]
    queue.enqueue(60, id="long")
    first_begun(queue)
    assert process.end(signal.SIGINT).code == 0
    job = queue.status("long")
    assert (job.state, job.attempts) == (State.QUEUED, 0)


def test_a_killed_process_is_replaced_and_its_jobs_run_again(start, queues):
    process = start("worker", "work:queue", "--processes", "2", "--concurrency", "1")
    process.wait_for("started on email")
    process.wait_for("started on email")
    queue = queues["email"]
    queue.enqueue(0.5, id="a", backoff=[0])
    event = first_begun(queue)
    [victim] = [w.beat.pid for w in queue.workers() if w.beat.id == event.worker]
    os.kill(victim, signal.SIGKILL)
    assert queue.result("a", timeout=10) != victim
    assert queue.status("a").attempts == 2
    assert str(victim) in process.wait_for("killed by SIGKILL")
    replaced = process.wait_for("started on email")
    assert str(victim) not in replaced
    answer = process.end(signal.SIGTERM)
    assert answer.code == 0
    now = queue.store.info().now
    assert {w.beat.pid for w in queue.workers() if w.expires_at > now} <= {victim}


def test_the_children_end_with_their_supervisor(start, queues):
    process = start("worker", "work:queue", "--processes", "2")
    pids = {int(process.wait_for("started on email").split()[1]) for _ in range(2)}
    process.process.kill()
    ended = {int(process.wait_for("stopped").split()[1]) for _ in range(2)}
    assert ended == pids


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("work", "MODULE:QUEUE"),
        ("nope:queue", "no module 'nope'"),
        ("work:nope", "It has these queues: queue, bare, in_memory"),
        ("work:number", "type int"),
        ("work:queues", "open store, not one of its queues"),
        ("work:bare", "without handlers"),
        ("work.py:queue", "work:queue"),
        ("broken:queue", "broken.py line 1"),
    ],
)
def test_a_target_that_is_no_queue_is_explained(cli, target, words):
    answer = cli("worker", target)
    assert answer.code == 2
    assert words in answer.err
    assert "Traceback" not in answer.err


def test_memory_cannot_be_shared_by_processes(cli):
    answer = cli("worker", "work:in_memory", "--processes", "2")
    assert answer.code == 2
    assert "--processes 1" in answer.err


def test_the_store_reaches_the_module(start, place):
    process = start("worker", "work:queue", "--store", "other.db")
    assert "other.db" in process.wait_for("handlers for default")
    process.wait_for("started on email")
    with ackline.open("sqlite:///other.db") as queues:
        assert queues["email"].enqueue_and_wait(0, timeout=10) == process.process.pid
    assert process.end(signal.SIGTERM).code == 0
