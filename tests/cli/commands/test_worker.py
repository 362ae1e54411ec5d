from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import urllib.request

import pytest
from tests.harness.faults.postgres.server import KillablePostgres
from tests.harness.servers.ports import free_port
from tests.harness.servers.redis import RedisServer
from tests.waiting import until

import ackline
from ackline import State
from ackline.core.events import Act, Event

MODULE = """
import asyncio, ctypes, os, time
import ackline

queues = ackline.open(os.environ.get("ACKLINE_STORE", "sqlite:///ackline.db"))
queue = queues["email"]
bare = queues["bare"]
number = 7
in_memory = ackline.open("memory://")["m"]

@in_memory.handler
@queue.handler
def work(job):
    job.report("begun")
    if job.signal.wait(job.payload):
        raise RuntimeError("stopped")
    return os.getpid()

other = queues["other"]
other.handler(work)

hanging = queues["hanging"]

@hanging.handler
def hang(job):
    open("hangs", "x").close()  # the worker could not store progress
    ctypes.PyDLL(None).sleep(60)  # keeps the interpreter's lock

blocking = queues["blocking"]

@blocking.handler
async def block(job):
    job.report("begun")
    await asyncio.to_thread(time.sleep, 60)
"""


SHOP = """
import os
import ackline

app = ackline.App("sqlite:///ackline.db")

@app.lifespan
def resources():
    print("opened", os.getpid(), flush=True)
    yield {"till": "till"}
    print("closed", os.getpid(), flush=True)

@app.task(queue="payments")
def pay(amount: int, *, till: str = ackline.resource()) -> str:
    return f"{amount} in {till}"

@app.task(queue="mail")
def mail(to: str) -> None: ...

def make_app():
    return app

def make_worker():
    return ackline.Worker(app, concurrency=3)

def fails():
    return 1 / 0

def needs_name(name):
    return app

if __name__ == "__main__":
    ackline.Worker(app).run()
"""

RUNNING = """
import ackline
app = ackline.App("memory://")

@app.task
def work(): ...

ackline.Worker(app).run()
"""


INCLUDES = """
import ackline
app = ackline.App("memory://", include=["nope.tasks"])
broken = ackline.App("memory://", include=["broken"])
"""

LIFESPAN = """
import ackline
app = ackline.App("memory://")

@app.lifespan
def resources(): ...
"""

FAILING_LIFESPAN = """
import ackline
app = ackline.App("memory://")

@app.lifespan
async def resources():
    raise ConnectionError("db down")
    yield

@app.task
def work(): ...
"""


TRACED = """
import ackline
app = ackline.App("sqlite:///ackline.db")

@app.middleware
async def trace(job, call_next):
    return await call_next()

@app.task
def work(): ...
"""

INCOMPLETE_LIFESPAN = """
import os
import ackline
app = ackline.App("sqlite:///ackline.db")

@app.lifespan
def resources():
    yield {"db": 1} if os.path.exists("complete") else {}

@app.task
def work(*, db=ackline.resource()): ...
"""

LATE_LIFESPAN = """
import os
import ackline
app = ackline.App("sqlite:///ackline.db")

@app.lifespan
def resources():
    if not os.path.exists("up"):
        raise ConnectionError("db down")
    yield {}

@app.task
def work(): ...
"""


MODULES = {
    "traced": TRACED,
    "incomplete": INCOMPLETE_LIFESPAN,
    "late": LATE_LIFESPAN,
    "includes": INCLUDES,
    "lifespan": LIFESPAN,
    "failing": FAILING_LIFESPAN,
    "work": MODULE,
    "shop": SHOP,
    "running": RUNNING,
    "broken": "x = 1 / 0\n",
}


@pytest.fixture(autouse=True)
def modules(workdir):
    for name, text in MODULES.items():
        (workdir / f"{name}.py").write_text(text)
    yield
    # Commands that run in this process import them, and other tests have modules of these names.
    for name in MODULES:
        sys.modules.pop(name, None)


def wait_for_start(queue) -> Event:
    """The handler's first sign, waited for; a job that has not begun would be given back."""
    found: Event = next(e for e in queue.events(follow_for=10) if e.act is Act.PROGRESS)
    return found


def test_sigterm_drains(start, queues):
    process = start("worker", "work:queue", "-v")
    process.wait_for("worker", "started on email")
    queue = queues["email"]
    queue.enqueue(0.4, id="running")
    wait_for_start(queue)
    answer = process.end(signal.SIGTERM)
    assert answer.code == 0
    assert queue.status("running").state is State.COMPLETED
    assert "job 'running' (default, queue email): attempt 1 ended as completed in" in answer.err
    assert "stopped" in answer.err


def test_weights_are_one_for_each_queue(start, cli, queues):
    process = start("worker", "work:queue", "work:other", "--weights", "3,1")
    process.wait_for("worker", "started on email, other")
    assert process.end(signal.SIGTERM).code == 0
    for processes in ("1", "2"):
        refused = cli("worker", "work:queue", "--weights", "3,1", "--processes", processes)
        assert refused.code == 2
        assert "2 numbers for 1 queue" in refused.err


def test_jobs_that_exceed_the_grace_period_are_released(start, queues):
    process = start(
        "worker", "work:queue", "--grace", "0.1s", "--log-format", "json", "--no-maintenance"
    )
    started = json.loads(process.wait_for("started on email"))
    assert started["level"] == "info"
    queue = queues["email"]
    queue.enqueue(60, id="long")
    wait_for_start(queue)
    assert process.end(signal.SIGINT).code == 0
    job = queue.status("long")
    assert (job.state, job.attempt) == (State.QUEUED, 0)


def test_a_blocking_call_of_an_async_handler_does_not_outlive_the_worker(start, queues):
    process = start("worker", "work:blocking", "--grace", "0.1s")
    process.wait_for("started on blocking")
    queue = queues["blocking"]
    queue.enqueue(1, id="a")
    wait_for_start(queue)
    assert process.end(signal.SIGTERM).code == 0
    assert queue.status("a").state is State.QUEUED


def test_a_killed_process_is_replaced_and_its_jobs_run_again(start, queues):
    process = start("worker", "work:queue", "--processes", "2", "--concurrency", "1")
    process.wait_for("started on email")
    process.wait_for("started on email")
    queue = queues["email"]
    queue.enqueue(0.5, id="a", backoff=[0])
    event = wait_for_start(queue)
    [victim] = [w.heartbeat.pid for w in queue.workers() if w.heartbeat.id == event.worker]
    os.kill(victim, signal.SIGKILL)
    assert queue.result("a", timeout=10) != victim
    assert queue.status("a").attempt == 2
    assert str(victim) in process.wait_for("killed by SIGKILL")
    replaced = process.wait_for("started on email")
    assert str(victim) not in replaced
    answer = process.end(signal.SIGTERM)
    assert answer.code == 0
    now = queue.store.now()
    assert {w.heartbeat.pid for w in queue.workers() if w.expires_at > now} <= {victim}


def test_a_second_signal_ends_a_process_that_hangs(start, queues):
    process = start("worker", "work:hanging", "--processes", "2", "--concurrency", "1")
    process.wait_for("started on hanging")
    process.wait_for("started on hanging")
    queue = queues["hanging"]
    queue.enqueue(1, id="a", max_attempts=1)
    until(lambda: os.path.exists("hangs"))
    dead = next(event.worker for event in queue.events() if event.act is Act.CLAIM)
    process.process.send_signal(signal.SIGTERM)
    process.wait_for("stopped")  # the other one
    answer = process.end(signal.SIGTERM)
    assert answer.code == 0
    assert "did not stop in time: killing it" in answer.err
    assert f"took back 1 running and 0 unstarted jobs of worker {dead}" in answer.err
    assert queue.status("a").state is State.FAILED


def test_the_children_end_with_their_supervisor(start, queues):
    process = start("worker", "work:queue", "--processes", "2")
    pids = {int(process.wait_for("started on email").split()[1]) for _ in range(2)}
    process.process.kill()
    ended = {int(process.wait_for("stopped").split()[1]) for _ in range(2)}
    assert ended == pids


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("work", "MODULE:NAME"),
        ("nope:queue", "no module 'nope'"),
        ("work:nope", "It has: queue, bare, in_memory, other, hanging"),
        ("work:number", "type int"),
        ("work:queues", "open store, not one of its queues"),
        ("work:bare", "without handlers"),
        ("work.py:queue", "work:queue"),
        ("broken:queue", "broken.py line 1"),
        ("shop:pay", "name its app"),
        ("shop:nope", "It has: app, make_app, make_worker, fails."),
        ("shop:fails", "calling shop:fails failed: ZeroDivisionError: division by zero (/"),
        ("shop:needs_name", "calling shop:needs_name failed: TypeError: needs_name() missing"),
        ("includes:app", "there is no module 'nope'"),
        ("includes:broken", "broken.py line 1"),
        ("lifespan:app", "lifespan:resources is not"),
        ("running:app", 'below `if __name__ == "__main__":`'),
    ],
)
def test_a_target_that_is_not_a_queue_is_explained(cli, target, message):
    answer = cli("worker", target)
    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.err


def test_a_lifespan_that_fails_is_named_with_its_line(cli):
    answer = cli("worker", "failing:app")
    assert answer.code == 1
    assert "failing.resources failed: ConnectionError: db down (/" in answer.err
    assert "failing.py line 7)" in answer.err
    assert "Traceback" not in answer.err

    assert "Traceback" in cli("worker", "failing:app", "--debug").err


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_lifespan_without_a_resource_stops_the_worker(start, processes):
    answer = start("worker", "incomplete:app", "--processes", processes).end()
    assert answer.code == 2
    assert "needs the resource 'db'" in answer.err


def test_a_process_that_is_misconfigured_later_does_not_stop_the_others(start, workdir):
    (workdir / "complete").touch()
    process = start("worker", "incomplete:app", "--processes", "2")
    victim, other = (int(process.wait_for("started on default").split()[1]) for _ in range(2))
    (workdir / "complete").unlink()
    os.kill(victim, signal.SIGKILL)
    process.wait_for("needs the resource 'db'")
    process.wait_for("exited with status 2")
    os.kill(other, 0)
    (workdir / "complete").touch()
    process.wait_for("started on default")
    assert process.end(signal.SIGTERM).code == 0


def test_processes_whose_lifespan_fails_are_restarted(start, workdir):
    process = start("worker", "late:app", "--processes", "2")
    process.wait_for("db down")
    (workdir / "up").touch()
    process.wait_for("started on default")
    assert process.end(signal.SIGTERM).code == 0


def test_memory_cannot_be_shared_by_processes(cli):
    answer = cli("worker", "work:in_memory", "--processes", "2")
    assert answer.code == 2
    assert "--processes 1" in answer.err


@pytest.fixture
def server(request):
    with request.param() as server:
        yield server


# Each server and each number once; all four on demand.
@pytest.mark.parametrize(
    ("server", "processes"),
    [
        (RedisServer, "1"),
        (KillablePostgres, "2"),
        pytest.param(RedisServer, "2", marks=pytest.mark.slow),
        pytest.param(KillablePostgres, "1", marks=pytest.mark.slow),
    ],
    indirect=["server"],
)
def test_a_worker_waits_for_a_server_that_is_down(start, server, processes):
    """At its start, and while it works."""
    server.kill()
    worker = start("worker", "work:queue", "--store", server.url, "--processes", processes)
    assert "retrying in" in worker.wait_for("not started yet")
    worker.wait_for("not started yet")

    server.restart()
    worker.wait_for("started on email")
    with ackline.open(server.url) as queues:
        assert queues["email"].enqueue_and_wait(0, timeout=20)
    server.restart()
    with ackline.open(server.url) as queues:
        assert queues["email"].enqueue_and_wait(0, timeout=20)

    assert worker.end(signal.SIGTERM).code == 0


def test_a_worker_that_waits_for_its_server_can_be_stopped(start):
    worker = start("worker", "work:queue", "--store", f"redis://127.0.0.1:{free_port()}")
    worker.wait_for("not started yet")

    assert worker.end(signal.SIGTERM).code == -signal.SIGTERM


def test_a_child_that_waits_for_its_server_ends_with_its_supervisor(start):
    with RedisServer() as server:
        process = start("worker", "work:queue", "--store", server.url, "--processes", "2")
        victim = int(process.wait_for("started on email").split()[1])
        process.wait_for("started on email")
        server.kill()
        os.kill(victim, signal.SIGKILL)
        process.wait_for("not started yet")
        process.process.kill()

        # Their standard error is closed when the last of them has ended.
        assert process.end().code == -signal.SIGKILL


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://nobody@{address}/postgres", "does not allow this user to connect"),
        ("postgresql://postgres@{address}/nowhere", "no such database"),
    ],
)
def test_a_permanent_error_stops_the_worker_immediately(start, url, message):
    with KillablePostgres() as server:
        address = f"127.0.0.1:{server.port}"
        answer = start("worker", "work:queue", "--store", url.format(address=address)).end()

    assert answer.code == 3
    assert message in answer.err
    assert "retrying" not in answer.err


def test_a_wrong_password_stops_the_worker_immediately(start):
    with RedisServer(password="secret") as server:
        url = f"redis://:wrong@127.0.0.1:{server.port}"
        answer = start("worker", "work:queue", "--store", url).end()

    assert answer.code == 3
    assert "wrong user or password" in answer.err
    assert "retrying" not in answer.err


def test_the_store_option_is_passed_to_the_module(start, workdir):
    process = start("worker", "work:queue", "--store", "other.db")
    assert "other.db" in process.wait_for("handlers for default")
    process.wait_for("started on email")
    with ackline.open("sqlite:///other.db") as queues:
        assert queues["email"].enqueue_and_wait(0, timeout=10) == process.process.pid
    assert process.end(signal.SIGTERM).code == 0


@pytest.mark.parametrize("target", ["shop:app", "shop:make_app", "shop:make_worker"])
def test_an_app_is_served_with_its_resources(start, queues, target):
    process = start("worker", target)
    process.wait_for("worker", "started on")
    result = queues["payments"].enqueue_and_wait({"amount": 7}, kind="shop.pay")
    answer = process.end(signal.SIGTERM)

    assert result == "7 in till"
    assert answer.code == 0
    assert [line.split()[0] for line in answer.out.splitlines()] == ["opened", "closed"]


def test_the_same_module_runs_as_a_script(start_script, queues):
    start_script("shop.py")

    assert queues["payments"].enqueue_and_wait({"amount": 7}, kind="shop.pay") == "7 in till"


def test_each_process_of_an_app_has_its_resources(start, queues):
    process = start("worker", "shop:app", "--processes", "2", "--queues", "payments")
    for _ in range(2):
        process.wait_for("started on payments")
    answer = process.end(signal.SIGTERM)

    lines = [line.split() for line in answer.out.splitlines()]
    opened = {pid for word, pid in lines if word == "opened"}
    closed = {pid for word, pid in lines if word == "closed"}
    assert len(opened) == 2
    assert closed == opened


def test_middleware_that_never_runs_is_a_single_warning(start):
    process = start("worker", "traced:app", "--processes", "2")
    lines = [process.wait_for("")]
    while sum("started on default" in line for line in lines) < 2:
        lines.append(process.wait_for(""))
    assert sum("middleware traced:trace never runs" in line for line in lines) == 1


def test_only_the_named_queues_of_an_app_are_served(start, cli):
    process = start("worker", "shop:app", "--queues", "mail")
    process.wait_for("worker", "started on mail")

    unknown = cli("worker", "shop:app", "--queues", "post")
    assert unknown.code == 2
    assert "its queues are mail, payments" in unknown.err
    assert "--queues" in cli("worker", "work:queue", "--queues", "email").err


def test_an_app_is_served_alone(cli):
    answer = cli("worker", "shop:app", "work:queue")
    assert answer.code == 2
    assert "one app" in answer.err


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as response:
        text: str = response.read().decode()
    return text


@pytest.mark.parametrize("processes", ["1", "2"])
def test_one_port_serves_the_metrics_of_all_processes(start, queues, processes):
    process = start("worker", "work:queue", "--metrics-port", "0", "--processes", processes)
    url = process.wait_for("metrics on").rsplit("/", 1)[0].rsplit(" ", 1)[1]
    assert get(f"{url}/livez") == "ok\n"
    queue = queues["email"]
    for number in range(4):
        assert queue.enqueue_and_wait(0, id=str(number), timeout=20) is not None
    completed = re.compile(r'^ackline_worker_jobs_total\{.*outcome="completed".* 4\.0$', re.M)
    until(lambda: completed.search(get(f"{url}/metrics")))
    assert get(f"{url}/readyz") == "ok\n"
    assert process.end(signal.SIGTERM).code == 0


def test_a_port_that_is_taken_is_an_error(cli):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = cli("worker", "work:queue", "--metrics-port", str(port))
    assert refused.code == 1
    assert f"cannot serve metrics on 127.0.0.1:{port}: Address already in use" in refused.err
