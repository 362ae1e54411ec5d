"""Waiting for a result, until it exists, the client disconnects, or the service stops."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.waiting import until

from ackline.core.job import QueueKey
from ackline.service import Settings
from ackline.service import runtime as runtimes

JOB = "/v1/queues/q/jobs/a"


@pytest.fixture
def settings():
    return Settings(store="memory://", drain=0.0, grace=5.0)


@pytest.fixture
def waiting(live):
    """A request that waits for the result of a job that nobody runs."""
    live.api.post("/v1/queues/q/jobs", {"payload": 1, "id": "a"}, 201)
    with ThreadPoolExecutor(1) as pool:
        path = f"{live.runtime.settings.base}{JOB}/result?wait=30"
        answer = pool.submit(live.client.get, path, timeout=40)
        until(lambda: len(live.runtime.streams) == 1)
        yield answer


def test_a_shutdown_ends_the_wait(live, waiting):
    began = time.monotonic()
    live.request_stop()

    answer = waiting.result()

    assert answer.status_code == 503
    assert answer.json()["type"].endswith("shutting-down")
    assert answer.headers["retry-after"] == "1"
    assert time.monotonic() - began < 3


def test_other_queues_do_not_end_the_wait(live, waiting, monkeypatch):
    monkeypatch.setattr(runtimes, "MAX_OPEN_QUEUES", 3)
    for number in range(10):
        live.api.get("/queue/stats", 404, queue=f"other {number}")
        live.api.enqueue(1, queue=f"another {number}")
    assert not waiting.done()

    [job] = live.api.post("/v1/queues/q/claim", {"limit": 1})["jobs"]
    done = {"id": "a", "token": job["token"], "outcome": "complete", "result": 7}
    live.api.post("/v1/queues/q/settle", {"outcomes": [done]})

    assert waiting.result().json()["result"] == 7


def test_reading_absent_queues_opens_none(api, runtime):
    api.get("/queue/stats", 404, queue="nowhere")

    nowhere = QueueKey("default", "nowhere")
    opened = runtime.queue(nowhere, keep=False)
    assert runtime.queue(nowhere, keep=False) is not opened


def test_a_disconnect_ends_the_wait(live):
    live.api.post("/v1/queues/q/jobs", {"payload": 1, "id": "a"}, 201)
    path = f"{live.runtime.settings.base}{JOB}/result?wait=30"
    disconnected = threading.Event()

    def wait_briefly() -> None:
        with pytest.raises(Exception, match="timed out"):
            live.client.get(path, timeout=0.5)
        disconnected.set()

    threading.Thread(target=wait_briefly).start()
    until(lambda: len(live.runtime.streams) == 1)
    assert disconnected.wait(10)
    until(lambda: len(live.runtime.streams) == 0)
