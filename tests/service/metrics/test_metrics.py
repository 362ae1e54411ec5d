"""Metrics for Prometheus, of one process and of several together."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import httpx
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.waiting import until

import ackline
from ackline.metrics import multiprocess
from ackline.metrics.multiprocess import SharedMetrics, merge
from ackline.queue import RecoveredBy
from ackline.service import Settings


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Samples by name and label values, in the order of the label names."""
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def settings() -> Settings:
    return Settings(store="memory://", port=0, drain=0.0)


def scrape(api) -> dict[tuple[str, ...], float]:
    return samples(api.client.get("/metrics").text)


def test_how_long_jobs_wait_and_run(api):
    for n in range(3):
        api.enqueue(n)
    message = api.get("/queue/poll")["message"]
    time.sleep(0.03)
    api.post("/queue/ack", {"id": message["id"], "receipt": message["receipt"]})
    claimed = api.post("/v1/queues/default/claim", {"limit": 5})["jobs"]
    outcomes = [{"id": job["id"], "token": job["token"], "outcome": "complete"} for job in claimed]
    api.post("/v1/queues/default/settle", {"outcomes": outcomes})

    found = scrape(api)
    assert found["ackline_job_wait_seconds_count", "default", "default"] == 3
    assert found["ackline_job_run_seconds_count", "default", "default"] == 3
    assert found["ackline_job_run_seconds_sum", "default", "default"] >= 0.03
    assert found["ackline_job_run_seconds_bucket", "0.025", "default", "default"] == 2
    assert found["ackline_job_run_seconds_bucket", "+Inf", "default", "default"] == 3
    assert found["ackline_jobs", "default", "completed", "default"] == 3


def test_a_dropped_queue_has_no_metrics(api):
    api.enqueue(1)
    api.get("/queue/poll")
    assert ("ackline_job_wait_seconds_count", "default", "default") in scrape(api)

    api.delete("/v1/queues/default", force="true")

    assert not [name for name in scrape(api) if name[0].startswith("ackline_job_wait")]


def test_readiness_checks_are_cached(api, runtime, monkeypatch):
    written = []
    write = runtime.store.write_keys

    def recorded(*args: Any) -> bool:
        written.append(args)
        return bool(write(*args))

    monkeypatch.setattr(runtime.store, "write_keys", recorded)

    for _ in range(20):
        assert api.client.get("/readyz").json()["checks"]["store"]["ok"]

    assert len(written) <= 4


def test_a_loop_that_never_ran_is_late(api, runtime, monkeypatch):
    loop = runtime.background.loops[0]
    runtime.background.stop()
    never = msgspec.structs.replace(loop.stats(), last_run=None)
    monkeypatch.setattr(loop, "stats", lambda: never)
    runtime.opened_at -= 3600

    answer = api.client.get("/readyz")

    assert answer.status_code == 503
    assert "ago" in answer.json()["checks"]["sweep"]["message"]


def test_stale_settles(api):
    api.enqueue(1)
    message = api.get("/queue/poll")["message"]
    late = {"id": message["id"], "receipt": str(int(message["receipt"]) - 1)}
    api.post("/queue/ack", late, status=409)
    wrong = {"id": message["id"], "token": "1", "outcome": "fail"}
    api.post("/v1/queues/default/settle", {"outcomes": [wrong]})
    api.post("/queue/ack", {"id": message["id"], "receipt": message["receipt"]})

    found = scrape(api)
    assert found["ackline_stale_settles_total", "default", "default"] == 2
    assert found["ackline_job_run_seconds_count", "default", "default"] == 1


def test_counters_start_at_zero(api):
    api.enqueue(1)

    found = scrape(api)
    assert found["ackline_stale_settles_total", "default", "default"] == 0
    expired = {key[1]: value for key, value in found.items() if "expired_leases" in key[0]}
    assert expired == dict.fromkeys(list(RecoveredBy), 0)
    done = {key[2] for key in found if key[0] == "ackline_maintenance_total"}
    assert done >= {"promoted", "pruned", "expired", "dead_lettered", "fired", "dispatched"}


def test_expired_leases(api):
    api.enqueue(1, lockDuration=10)
    api.get("/queue/poll")
    until(lambda: not api.get("/queue/stats")["processing"])

    taken = [value for key, value in scrape(api).items() if "expired_leases" in key[0]]
    assert sum(taken) == 1


def test_the_store_over_http_counts_as_well(live):
    with ackline.open(f"{live.url}/api") as queues:
        queue = queues["q"]
        queue.enqueue_many([1, 2])
        jobs = queue.claim(2)
        queue.complete(jobs[0])
        queue.complete(jobs[0])  # again: the same answer
        with pytest.raises(ackline.LeaseLost):
            queue.fail(jobs[0], "late")

    found = scrape(live.api)
    assert found["ackline_job_wait_seconds_count", "q", "default"] == 2
    assert found["ackline_job_run_seconds_count", "q", "default"] == 1
    assert found["ackline_stale_settles_total", "q", "default"] == 1


def test_an_encoded_path_is_counted_under_its_route(api):
    api.get("/v1/queues/a%2Fb", status=404)

    found = scrape(api)
    assert found["ackline_http_requests_total", "GET", "/api/v1/queues/{queue}", "404"] == 1


class TestTogether:
    def text(self, streams: int, requests: int, lag: float) -> str:
        return (
            f"# TYPE ackline_streams gauge\nackline_streams {streams}\n"
            "# TYPE ackline_http_requests_total counter\n"
            f'ackline_http_requests_total{{route="/a"}} {requests}\n'
            "# TYPE ackline_loop_lag_seconds gauge\n"
            f'ackline_loop_lag_seconds{{loop="pruner"}} {lag}\n'
        )

    def test_samples_are_added_up_and_the_last_run_is_that_of_any(self):
        merged = merge(
            [text_string_to_metric_families(self.text(*of)) for of in ((1, 2, 3.0), (10, 20, 0.5))]
        )

        found = {sample.name: sample.value for family in merged for sample in family.samples}
        assert found == {
            "ackline_streams": 11,
            "ackline_http_requests_total": 22,
            "ackline_loop_lag_seconds": 0.5,
        }

    def test_gauges_of_dead_processes_are_dropped(self, tmp_path, monkeypatch):
        SharedMetrics(tmp_path, "other").publish(self.text(1, 2, 3.0).encode())
        own = SharedMetrics(tmp_path, "mine")
        own.publish(self.text(100, 100, 100.0).encode())

        assert [family.name for (others,) in [list(own.read())] for family in others] == [
            "ackline_streams",
            "ackline_http_requests",
            "ackline_loop_lag_seconds",
        ]
        monkeypatch.setattr(multiprocess, "DEAD_AFTER", -1.0)
        assert [family.name for (others,) in [list(own.read())] for family in others] == [
            "ackline_http_requests"
        ]


def test_every_process_reports_the_same(serve):
    process = serve("--processes", "2")
    sent = 40
    for n in range(sent):  # a connection each, so that both get some
        answer = httpx.post(f"{process.url}/queue/enqueue", json={"value": n}, timeout=30)
        assert answer.status_code == 200
    key = ("ackline_http_requests_total", "POST", "/api/queue/enqueue", "200")
    url = process.url.removesuffix("/api") + "/metrics"

    def all_agree() -> bool:
        counts = [samples(httpx.get(url, timeout=30).text).get(key, 0) for _ in range(10)]
        assert max(counts) <= sent
        return counts == [sent] * 10

    until(all_agree, 20.0)
    # One process may have answered them all: what it has not left for the other dies with it.
    time.sleep(2 * multiprocess.PUBLISH_EVERY)
    killed = _child(process)
    os.kill(killed, signal.SIGKILL)
    until(lambda: _child(process) != killed)
    assert {samples(httpx.get(url, timeout=30).text)[key] for _ in range(5)} == {sent}
    assert process.end(signal.SIGTERM).count("Traceback") == 0


def _child(process) -> int:
    path = f"/proc/{process.process.pid}/task/{process.process.pid}/children"
    with open(path) as file:
        return int(file.read().split()[0])
