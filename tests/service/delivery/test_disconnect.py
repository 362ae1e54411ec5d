"""A client that disconnects before the response is written gets no jobs."""

from __future__ import annotations

import socket
import threading

import httpx
import pytest
from tests.waiting import until

from ackline.core.job import State
from ackline.queues import Queues

CLAIM = b'{"limit": 2}'
REQUESTS = {
    "claim": (b"POST", b"/v1/queues/default/claim", CLAIM),
    "claim and wait": (b"POST", b"/v1/queues/default/claim", b'{"limit": 2, "wait": 10}'),
    "claims": (b"POST", b"/v1/claims", b'{"limit": 2, "queues": ["default", "other"]}'),
    "poll": (b"GET", b"/queue/poll", b""),
}


@pytest.mark.parametrize("way", REQUESTS)
def test_jobs_of_a_disconnected_request_are_released(live, monkeypatch, way):
    store, queue = live.runtime.store, Queues(live.runtime.store)["default"]
    queue.enqueue_many([1, 2])
    claim, started, resume = store.claim, threading.Event(), threading.Event()

    def slow(*arguments, **options):
        claimed = claim(*arguments, **options)
        if claimed.jobs:
            started.set()
            assert resume.wait(10)
        return claimed

    monkeypatch.setattr(store, "claim", slow)
    method, path, body = REQUESTS[way]
    url = httpx.URL(live.url)
    with socket.create_connection((url.host, url.port or 0)) as client:
        client.sendall(
            b"%s %s%s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%s"
            % (method, live.runtime.settings.base.encode(), path, len(body), body)
        )
        assert started.wait(10)
        assert queue.counts()[State.PROCESSING]
    resume.set()

    until(lambda: queue.counts()[State.QUEUED] == 2)
    assert [job.attempt for job in queue.jobs().jobs] == [0, 0]


def test_a_connected_client_gets_its_jobs(live):
    ids = {live.api.enqueue() for _ in range(3)}

    claimed = live.api.post("/v1/queues/default/claim", {"limit": 2})["jobs"]
    polled = live.api.get("/queue/poll")["message"]

    assert {job["id"] for job in claimed} | {polled["id"]} == ids
