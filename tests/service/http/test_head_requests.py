"""HEAD responds like GET, without the body, for load balancers and probes."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import pytest


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/queues",
        "/livez",
        "/readyz",
        "/api/docs",
        "/api/docs/swagger-ui.css",
        "/api/v1/queues/default",
        "/api/v1/queues/default/jobs/one",
        "/api/v1/queues/default/jobs/none",
        "/api/keys/none",
        "/assets/none",
    ],
)
def test_the_same_status_and_headers_as_get_and_no_body(api, path):
    api.enqueue(1, id="one")
    got = api.client.get(path)

    head = api.client.head(path)

    assert (head.status_code, head.content) == (got.status_code, b"")
    assert dict(head.headers) == dict(got.headers)
    assert int(head.headers["content-length"]) > 0


def test_metrics_that_change_between_requests(api):
    head = api.client.head("/metrics")

    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == "text/plain; version=1.0.0; charset=utf-8"


def test_readiness_is_reported_to_head_requests(api, runtime):
    runtime.drain()

    assert api.client.head("/readyz").status_code == 503


@pytest.mark.parametrize("path", ["/queue/poll", "/queue/listen", "/v1/claims"])
def test_routes_that_claim_or_stream_have_no_head(api, path):
    id = api.enqueue()

    assert api.client.head(f"/api{path}").status_code == 405
    assert api.get(f"/v1/queues/default/jobs/{id}")["attempts"] == 0


def test_a_connection_is_reused_after_a_head(live):
    address = urlsplit(live.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=10)
    for method in ("HEAD", "GET", "HEAD"):
        connection.request(method, "/livez")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (
            200,
            b"" if method == "HEAD" else b'{"status":"alive"}',
        )
    connection.close()


def test_the_openapi_document_omits_head(api):
    paths = api.get("/openapi.json")["paths"]

    assert "get" in paths["/livez"]
    assert not [path for path, operations in paths.items() if "head" in operations]
