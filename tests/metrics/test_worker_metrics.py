"""Metrics and health of workers, scraped as Prometheus does."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import ackline
from ackline import Dead, Queue, Snooze, State
from ackline.core.errors import ConfigError, HandlersHang
from ackline.metrics import WorkerMetrics, asgi_app, multiprocess
from ackline.metrics.endpoints import (
    MetricsPublisher,
    MetricsServer,
    SupervisorSource,
    WorkerSource,
)
from tests.waiting import TIMEOUT, until


@pytest.fixture
def queue() -> Iterator[Queue[Any, Any]]:
    with ackline.open("memory://") as queues:
        yield queues["email"]


def get(app: Any, path: str, method: str = "GET") -> tuple[int, str]:
    """The status and the body that an ASGI app answers with."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "path": path, "method": method}
    asyncio.run(app(scope, None, send))
    assert int(dict(sent[0]["headers"])[b"content-length"]) >= len(sent[1]["body"])
    return sent[0]["status"], sent[1]["body"].decode()


def values(text: str, name: str) -> dict[str, float]:
    """The samples of this name, by their labels besides tenant and queue."""
    return {
        "/".join(v for k, v in sorted(s.labels.items()) if k not in ("tenant", "queue")): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
        if s.name == name
    }


@pytest.mark.parametrize("sort", ["sync", "async"])
def test_jobs_are_counted_and_timed_by_kind(queue, start, sort):
    async def on_the_loop(job):
        return Snooze(3600) if job.payload == "later" else None

    @queue.handler("bad", max_attempts=2, backoff=[0.01])
    def bad(job):
        raise ValueError

    queue.handler("good")(
        on_the_loop if sort == "async" else lambda job: job.payload and Snooze(60)
    )
    queue.handler("dead")(lambda job: Dead("never"))
    queue.enqueue_many([None] * 5, kind="good")
    queue.enqueue("later", kind="good")
    queue.enqueue(1, kind="bad", id="bad")
    queue.enqueue(1, kind="dead")
    worker = ackline.Worker(queue, grace=1.0)
    app = asgi_app(worker)
    worker.start()
    try:
        until(lambda: queue.counts()[State.FAILED] == 2 and queue.counts()[State.COMPLETED] == 5)
        text = until(lambda: _text_with(app, "ackline_worker_jobs_total", 9))
    finally:
        worker.stop()
    assert values(text, "ackline_worker_jobs_total") == {
        "good/completed": 5,
        "good/scheduled": 1,
        "bad/completed": 0,
        "bad/failing": 1,
        "bad/failed": 1,
        "dead/completed": 0,
        "dead/failed": 1,
    }
    runs = {"good": 6, "bad": 2, "dead": 1}
    assert values(text, "ackline_worker_job_run_seconds_count") == runs
    # A retry waited for its backoff, so only the first attempt tells how long jobs wait.
    assert values(text, "ackline_worker_job_wait_seconds_count") == {**runs, "bad": 1}
    assert values(text, "ackline_worker_claimed_jobs_total") == {"": 9}
    assert values(text, "ackline_worker_claims_total")[""] >= 1
    assert values(text, "ackline_worker_concurrency") == {"": 16}
    assert 0 <= values(text, "ackline_worker_heartbeat_age_seconds")[""] < TIMEOUT


def _text_with(app: Any, name: str, total: float) -> str:
    text = get(app, "/worker/metrics")[1]
    return text if sum(values(text, name).values()) == total else ""


def test_running_and_prefetched_jobs_are_seen(queue):
    go_on = threading.Event()
    queue.handler(lambda job: go_on.wait(TIMEOUT) and None)
    queue.enqueue_many([1] * 5)
    worker = ackline.Worker(queue, concurrency=2)
    app = asgi_app(worker)
    worker.start()
    try:
        running = "ackline_worker_running"
        text = until(lambda: _text_with(app, running, 2))
        assert values(text, running) == {"": 2}
        assert 0 <= values(text, "ackline_worker_prefetched")[""] <= 3
    finally:
        go_on.set()
        worker.stop()


def test_a_lost_lease_is_an_outcome(queue):
    running, go_on = threading.Event(), threading.Event()

    @queue.handler
    def slow(job):
        running.set()
        assert go_on.wait(TIMEOUT)

    worker = ackline.Worker(queue, maintenance=False)
    app = asgi_app(worker)
    worker.start()
    try:
        queue.enqueue(1)
        assert running.wait(TIMEOUT)
        queue.purge()
        go_on.set()
        text = until(lambda: _text_with(app, "ackline_worker_jobs_total", 1))
        assert values(text, "ackline_worker_jobs_total") == {
            "default/completed": 0,
            "default/lost": 1,
        }
    finally:
        worker.stop()


def test_a_worker_is_ready_while_it_runs_and_reaches_its_store(queue, monkeypatch):
    queue.handler(lambda job: None)
    worker = ackline.Worker(queue)
    app = asgi_app(worker)
    assert get(app, "/livez") == (200, "ok\n")
    assert get(app, "/readyz")[0] == 503
    worker.start()
    try:
        assert get(app, "/readyz") == (200, "ok\n")
        assert values(get(app, "/metrics")[1], "ackline_worker_ready") == {"": 1}
        monkeypatch.setattr(worker, "heartbeat_ttl", 0.0)  # as if none had arrived for long
        assert get(app, "/readyz") == (503, "no worker is ready\n")
        assert get(app, "/livez")[0] == 200
        worker.stop_with_error(HandlersHang("email"))
        assert get(app, "/livez")[0] == 503
        assert "hang" in get(app, "/readyz")[1]
    finally:
        worker.stop()


def test_an_asyncio_worker_is_measured_too(queue):
    async def work() -> str:
        worker = ackline.aio.Worker(queue)
        source = WorkerSource(WorkerMetrics(worker))
        queue.handler(lambda job: None)
        async with worker:
            await asyncio.to_thread(queue.enqueue_and_wait, 1, timeout=TIMEOUT)
            assert source.ready()
        return source.metrics().decode()

    queue.handler("other")(lambda job: None)
    assert values(asyncio.run(work()), "ackline_worker_jobs_total") == {"default/completed": 1}


def test_other_paths_methods_and_protocols_are_refused(queue):
    queue.handler(lambda job: None)
    app: Any = asgi_app(ackline.Worker(queue))
    assert get(app, "/nothing")[0] == 404
    assert get(app, "/metrics", "POST")[0] == 405
    assert get(app, "/livez", "HEAD") == (200, "")
    with pytest.raises(ValueError, match="not lifespan"):
        asyncio.run(app({"type": "lifespan"}, None, None))


def test_a_running_worker_cannot_be_measured_from_now_on(queue, start):
    queue.handler(lambda job: None)
    with pytest.raises(ConfigError, match="before it starts"):
        asgi_app(start(queue))


def test_the_port_serves_the_same(queue):
    queue.handler(lambda job: None)
    with contextlib.closing(
        MetricsServer(WorkerSource(WorkerMetrics(ackline.Worker(queue))), "127.0.0.1", 0)
    ) as server:
        url = f"http://127.0.0.1:{server.port}"
        with urllib.request.urlopen(f"{url}/metrics", timeout=TIMEOUT) as response:
            assert values(response.read().decode(), "ackline_worker_ready") == {"": 0}
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{url}/readyz", timeout=TIMEOUT)


class Child:
    """A worker process, as its supervisor sees it: a file."""

    def __init__(self, folder: Path, name: str, jobs: int, age: float) -> None:
        text = (
            f"# TYPE ackline_worker_jobs counter\nackline_worker_jobs_total {jobs}\n"
            f"# TYPE ackline_worker_ready gauge\nackline_worker_ready 1\n"
            "# TYPE ackline_worker_heartbeat_age_seconds gauge\n"
            f"ackline_worker_heartbeat_age_seconds {age}\n"
        )
        multiprocess.SharedMetrics(folder, name).publish(text.encode())


def test_a_supervisor_adds_up_its_processes(tmp_path):
    source = SupervisorSource(tmp_path)
    assert not source.ready()
    Child(tmp_path, "one", 3, 0.5)
    Child(tmp_path, "two", 4, 2.5)
    text = source.metrics().decode()
    assert source.ready()
    assert values(text, "ackline_worker_jobs_total") == {"": 7}
    assert values(text, "ackline_worker_ready") == {"": 2}
    assert values(text, "ackline_worker_heartbeat_age_seconds") == {"": 2.5}


def test_counts_of_many_dead_processes_are_kept_in_one_file(tmp_path, monkeypatch):
    source = SupervisorSource(tmp_path)
    monkeypatch.setattr(multiprocess, "DEAD_AFTER", -1.0)
    for round in range(1, 4):
        for number in range(25):
            Child(tmp_path, f"{round}-{number}", 2, 1.0)
        text = source.metrics().decode()
        assert values(text, "ackline_worker_jobs_total") == {"": 50 * round}
        assert len(list(tmp_path.glob("*.metrics"))) == 1
    assert not source.ready()


def test_a_closed_publisher_has_published_the_last_counts(tmp_path, queue):
    queue.handler(lambda job: None)
    worker = ackline.Worker(queue)
    publisher = MetricsPublisher(WorkerMetrics(worker), tmp_path, "one")
    worker.start()
    queue.enqueue_and_wait(1, timeout=TIMEOUT)
    worker.stop()
    publisher.close()
    text = SupervisorSource(tmp_path).metrics().decode()
    assert values(text, "ackline_worker_jobs_total") == {"default/completed": 1}


def test_without_the_extra_the_error_names_it():
    program = "import sys; sys.modules['prometheus_client'] = None; import ackline.metrics"
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert "MissingExtra" in ended.stderr
    assert "pip install 'ackline[metrics]'" in ended.stderr
