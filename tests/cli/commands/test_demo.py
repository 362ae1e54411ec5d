from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import urllib.request

import pytest
from tests.waiting import until

import ackline
from ackline.core.events import Act, Event
from ackline.core.job import QueueKey, State
from ackline.demo.job_audit import JobAudit
from ackline.demo.workload import Workload
from ackline.stores.contract import Heartbeat


def running(workdir: object) -> list[str]:
    """Processes whose command line or environment names this folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                line = file.read().replace("\0", " ")
            with open(f"/proc/{pid}/environ") as file:
                around = file.read()
        except (OSError, UnicodeDecodeError):
            continue
        if int(pid) != os.getpid() and "ackline" in line and str(workdir) in line + around:
            found.append(line)
    return found


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def wait_for(process, words):
    """The next line of its standard output with these words."""
    for line in process.process.stdout:
        if words in line:
            return line
    raise AssertionError(f"{words!r} was never printed")


def test_the_demo_proves_that_nothing_is_lost(start, cli, workdir):
    answer = start("demo", "--seconds", "8").end(timeout=60)
    assert answer.code == 0, answer.out + answer.err
    assert "Every job is accounted for." in answer.out
    numbers = re.search(
        r"enqueued ([\d,]+) = completed (\d+) \+ DLQ (\d+) \+ cancelled (\d+)"
        r" \+ unfinished (\d+)",
        answer.out,
    )
    assert numbers is not None, answer.out
    enqueued, *parts = (int(number.replace(",", "")) for number in numbers.groups())
    assert enqueued == sum(parts) > 300
    assert "kill -9" in answer.out
    assert "recovered" in answer.out
    assert running(workdir) == []
    commands = re.findall(r"^  ackline (.+)$", answer.out, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        assert cli(*shlex.split(command)).code == 0, command


def queue_names(url: str) -> set[str]:
    overview = json.loads(fetch(f"{url}api/v1/overview"))
    return {queue["queue"] for queue in overview["queues"]}


def test_the_dashboard_serves_the_demo_until_ctrl_c(start, workdir):
    # given a tour without an end, and what somebody does meanwhile
    tour = start("demo", "--no-browser")
    url = wait_for(tour, "dashboard").split()[-1]
    wait_for(tour, "reports scheduled")
    assert "<title>Ackline" in fetch(url)
    until(lambda: queue_names(url) >= {"acme/email", "initech/webhooks"})
    schedules = json.loads(fetch(f"{url}api/v1/queues/globex%2Freports/schedules"))
    assert {one["name"] for one in schedules["schedules"]} == {"usage"}
    request = urllib.request.Request(
        f"{url}api/v1/queues/acme%2Femail/jobs",
        data=b'{"kind": "welcome", "payload": {"to": "me@example.com"}}',
        headers={"content-type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=10).close()

    # when
    answer = tour.end(signal.SIGINT)

    # then
    assert answer.code == 0, answer.out + answer.err
    assert "Traceback" not in answer.err
    assert "Every job is accounted for." in answer.out
    assert running(workdir) == []


@pytest.mark.ci
def test_a_folder_runs_one_demo_at_a_time(start, cli, workdir):
    first = start("demo", "--seconds", "60")
    wait_for(first, "dashboard")
    second = cli("demo", "--seconds", "2")
    assert second.code == 1
    assert "a demo is already running here" in second.err
    answer = first.end(signal.SIGTERM)
    assert answer.code == 130
    assert "Every job is accounted for." in answer.out
    again = start("demo", "--seconds", "1", "--json").end(timeout=30)
    assert again.document["ok"]
    assert running(workdir) == []


@pytest.mark.ci
def test_a_free_port_replaces_one_in_use(start):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        tour = start("demo", "--seconds", "1", "--port", str(port))
        assert f":{port}/" not in wait_for(tour, "dashboard")
        assert tour.end(timeout=30).code == 0


def test_a_demo_that_is_too_short_is_a_usage_error(cli):
    assert cli("demo", "--seconds", "0.2").code == 2


def test_a_worker_is_killed_once_one_has_leases():
    # given a load, and no worker yet
    lines: list[str] = []
    with ackline.open("memory://") as queues, subprocess.Popen(["sleep", "60"]) as worker:
        act = Workload(queues, lines.append).run_faults(1, 8.0)
        moments = [next(act) for _ in range(5)]
        assert moments == sorted(moments)
        assert not any(line.startswith("kill -9") for line in lines)
        email = queues["acme/email"]
        heartbeat = Heartbeat(
            id="late",
            host="here",
            pid=worker.pid,
            started_at=0.0,
            concurrency=6,
            kinds=None,
            ttl=60.0,
        )
        email.store.heartbeat(email.key, heartbeat, [])
        email.claim(2, worker="late")

        # when
        next(act)

    # then it is killed
    assert worker.returncode == -signal.SIGKILL
    kills = [line for line in lines if line.startswith("kill -9")]
    assert kills == [f"kill -9 {worker.pid}: a worker with 2 leases"]


# --- the proof must be able to fail ---


class EmptyStore:
    """Queues with the given counts."""

    def __init__(self, **counts: int) -> None:
        self._counts = counts

    def __iter__(self):
        return iter(["q"])

    def __getitem__(self, _name):
        return self

    def counts(self):
        return {state: self._counts.get(state, 0) for state in State}


def event(act: Act, id: str, to: State | None, source: State | None = None, by="") -> Event:
    return Event(
        cursor="1.1",
        at=1.0,
        queue=QueueKey("default", "q"),
        act=act,
        id=id,
        kind="k",
        source=source,
        to=to,
        attempt=1,
        token=1,
        worker="",
        note="",
        by=by,
    )


def audit(events, accepted, **counts):
    job_audit = JobAudit()
    job_audit.read(events)
    return job_audit.result(EmptyStore(**counts), {("q", id) for id in accepted})  # type: ignore[arg-type]


ENQUEUED = event(Act.ENQUEUE, "a", State.QUEUED)
DONE = event(Act.COMPLETE, "a", State.COMPLETED)
FAILED = event(Act.FAIL, "a", State.FAILED)


@pytest.mark.parametrize(
    ("events", "counts"),
    [
        ([ENQUEUED, DONE], {"completed": 1}),
        ([ENQUEUED], {"queued": 1}),
        ([ENQUEUED, DONE, event(Act.PRUNE, "a", None)], {}),
        ([ENQUEUED, event(Act.PURGE, "a", None, by="http")], {}),
        ([ENQUEUED, FAILED, ENQUEUED], {"queued": 1}),
        ([ENQUEUED, event(Act.ENQUEUE, "b", State.QUEUED)], {"queued": 2}),
    ],
    ids=["completed", "waiting", "pruned", "deleted by somebody", "replaced", "by hand"],
)
def test_audits_that_pass(events, counts):
    assert audit(events, "a", **counts).ok


@pytest.mark.parametrize(
    ("events", "counts"),
    [
        ([], {}),
        ([ENQUEUED, event(Act.PURGE, "a", None)], {}),
        ([ENQUEUED, event(Act.CLAIM, "b", State.PROCESSING)], {"queued": 1, "processing": 1}),
        ([ENQUEUED, DONE, DONE], {"completed": 1}),
        ([ENQUEUED, DONE], {"queued": 1}),
    ],
    ids=["lost", "deleted by nobody", "from nowhere", "completed twice", "the store disagrees"],
)
def test_audits_that_fail(events, counts):
    assert not audit(events, "a", **counts).ok
