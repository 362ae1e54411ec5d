"""Traces over HTTP: a request's `traceparent` reaches the handler, in Python and elsewhere."""

from __future__ import annotations

HEADER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_the_trace_of_a_request_is_stored_with_its_jobs(api):
    headers = {"traceparent": HEADER}
    api.post("/v1/queues/q/jobs", {"payload": 1, "id": "a"}, 201, headers=headers)
    api.post(
        "/v1/queues/q/jobs/batch",
        {"jobs": [{"payload": 1, "id": "b"}, {"payload": 1, "id": "c", "trace": OTHER}]},
        headers=headers,
    )
    body = {"value": 1, "options": {"queue": "q", "id": "d"}}
    api.post("/queue/enqueue", body, headers=headers)

    claimed = api.post("/v1/queues/q/claim", {"limit": 10, "worker": "node"})["jobs"]

    traces = {job["id"]: job["trace"] for job in claimed}
    assert traces == {"a": HEADER, "b": HEADER, "c": OTHER, "d": HEADER}


def test_a_malformed_trace_is_ignored(api):
    headers = {"traceparent": "00-tomorrow"}
    api.post("/v1/queues/q/jobs", {"payload": 1, "id": "a"}, 201, headers=headers)

    [job] = api.post("/v1/queues/q/claim", {"limit": 1, "worker": "node"})["jobs"]

    assert job["trace"] is None
