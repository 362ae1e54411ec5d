"""Slow work of one request does not delay others."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ackline.queue.transfer import documents
from ackline.queues import Queues
from ackline.service.runtime import THREAD_ABOVE_BYTES


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/queues/default/jobs", None),
        ("GET", "/v1/queues/default/jobs/big", None),
        ("PATCH", "/v1/queues/default/jobs/big", {"priority": 1}),
        ("POST", "/v1/queues/default/jobs/big/move", {"to": "other"}),
        ("POST", "/v1/queues/default/claim", {}),
        ("GET", "/queue/poll", None),
    ],
)
def test_a_large_payload_is_converted_off_the_event_loop(live, monkeypatch, method, path, body):
    """While it is converted, the service answers others."""
    Queues(live.runtime.store)["default"].enqueue("x" * THREAD_ABOVE_BYTES, id="big")
    started, resume, convert = threading.Event(), threading.Event(), documents.raw_json

    def slow(*arguments):
        started.set()
        assert resume.wait(30)
        return convert(*arguments)

    monkeypatch.setattr(documents, "raw_json", slow)
    with ThreadPoolExecutor(1) as other:
        options = {} if body is None else {"json": body}
        sent = other.submit(live.api, method, path, **options)
        try:
            assert started.wait(10)
            assert live.client.get("/livez", timeout=5).status_code == 200
            assert not sent.done()
        finally:
            resume.set()
        assert sent.result()
