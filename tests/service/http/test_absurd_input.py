"""Well formed but absurd input: refused, never an internal error."""

from __future__ import annotations

import gzip

import httpx
import msgspec
import pytest
from httpx_sse import connect_sse
from tests.service.conftest import Api

from ackline.service.keyspace import prefix_watcher


@pytest.mark.parametrize("weights", [("1e308", "1e-308"), ("0", "1"), ("nan", "1"), ("1e4", "1")])
def test_weights_out_of_range(api, weights):
    query = {"queue": ["a", "b"], "weight": list(weights)}

    problem = api("GET", "/queue/poll", 422, params=query)

    assert problem["at"] == "weight"


@pytest.mark.parametrize("cursor", ["-1.0", "1.-1", "1", "x.y", "1.1.1", "1." + "9" * 30])
def test_invalid_cursors(api, cursor):
    assert api.get("/v1/events", 422, after=cursor)["at"] == "after"


@pytest.mark.every_store
class TestCursorsBeyondAllEvents:
    @pytest.fixture
    def settings(self, settings, store_url):
        return msgspec.structs.replace(settings, store=store_url)

    def test_are_from_another_store(self, api):
        api.enqueue(1)
        for cursor in ("9" * 22 + ".1", "9" * 60 + ".0"):
            dropped = api.get("/v1/events", 410, after=cursor)
            assert len(api.get("/v1/events", after=dropped["cursor"])["events"]) == 1
            assert api.get("/v1/events", 410, after=cursor, queue="default") == dropped

    def test_but_the_last_one_is_not(self, api):
        api.enqueue(1)
        end = api.get("/v1/events")["cursor"]

        assert api.get("/v1/events", after=end)["events"] == []


@pytest.mark.parametrize("host", ["[", "[::1", "]", "evil.example"])
def test_invalid_hosts(api, host):
    api("GET", "/queue/stats", 403, headers={"host": host})


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "["])
def test_pages_of_other_sites_may_not_call(api, origin):
    """Even from browsers that do not send `Sec-Fetch-Site`."""
    api("POST", "/v1/queues/default/pause", 403, headers={"origin": origin})


def test_local_pages_may_call(api):
    api("POST", "/v1/queues/default/pause", headers={"origin": "http://localhost:5173"})


@pytest.mark.parametrize("keys", [[[]], [[""]], [["a", ""]], [["x" * 513]], [["a"] * 65]])
def test_unreachable_keys(api, keys):
    body = {"value": 1, "options": {"keysIfUndelivered": keys}}

    api.post("/queue/enqueue", body, 422)
    assert api.get("/queue/stats")["total"] == 0


def test_unknown_methods_share_one_metric(api):
    for number in range(5):
        api.client.request(f"RAND{number}", f"{api.base}/nosuch")

    text = Api(api.client, "").client.get("/metrics").text
    assert "RAND" not in text
    assert 'method="other"' in text


def test_a_worker_without_a_name(api):
    api.post("/v1/queues/q/extend", {"leases": [], "worker": "", "ttl": 5}, 422)


@pytest.mark.parametrize("duration", [0, 86_400_001])
def test_lock_durations_out_of_range(api, duration):
    id = api.enqueue(1)
    api.get("/queue/poll")

    api.post("/queue/touch", {"id": id, "duration": duration}, 400)


def test_no_kinds_are_all_kinds(api):
    id = api.enqueue(1)

    assert api.get("/queue/poll", kinds="")["message"]["id"] == id


class TestTooManyKeys:
    @pytest.fixture(autouse=True)
    def most(self, monkeypatch):
        monkeypatch.setattr(prefix_watcher, "MAX_KEYS", 3)

    def put(self, api, *names):
        for name in names:
            api.put(f"/keys/w/{name}", {"value": 1})

    def test_are_not_watched(self, api):
        self.put(api, *"abcd")

        assert api.get("/watch", 422, prefix="w")["at"] == "prefix"

    def test_end_a_watch(self, live):
        """Instead of reporting keys beyond the limit as deleted."""
        self.put(live.api, *"bcd")
        url = f"{live.url}{live.runtime.settings.base}/watch?prefix=w"
        with httpx.Client(timeout=10) as client, connect_sse(client, "GET", url) as source:
            events = (one for one in source.iter_sse() if one.event != "ping")
            assert [next(events).event for _ in range(3)] == ["set"] * 3
            self.put(live.api, "a")

            assert [one.event for one in events] == ["error"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/queues/nope", None),
        ("GET", "/v1/queues/nope/jobs", None),
        ("GET", "/v1/queues/nope/workers", None),
        ("GET", "/v1/queues/nope/export", None),
        ("GET", "/v1/queues/nope/dlq/groups", None),
        ("POST", "/v1/queues/nope/bulk", {"action": "delete", "filter": {}}),
        ("GET", "/queue/stats?queue=nope", None),
        ("GET", "/queue/dlq?queue=nope", None),
        ("DELETE", "/queue/dlq?queue=nope", None),
    ],
)
def test_a_queue_that_does_not_exist_is_not_an_empty_one(api, method, path, body):
    """Otherwise a typo in a backup or clean-up would go unnoticed."""
    refused = api(method, path, 404, **({} if body is None else {"json": body}))

    assert "there is no queue 'nope'" in refused["detail"]


def test_the_default_queue_always_exists(api):
    assert api.get("/queue/stats") == {"pending": 0, "processing": 0, "dlq": 0, "total": 0}
    assert api.get("/queue/dlq") == []
    assert api.delete("/queue/dlq") == {"deletedCount": 0}


@pytest.mark.parametrize(
    ("query", "queue", "status"), [("", "", 400), ("?queue=a", "b", 422), ("?queue=a", "a", 200)]
)
def test_a_message_goes_to_one_queue(api, query, queue, status):
    body = {"value": 1, "options": {"queue": queue}}

    api.post(f"/queue/enqueue{query}", body, status)

    assert [one["queue"] for one in api.get("/v1/queues")["queues"]] == ["a"] * (status == 200)


def test_a_compressed_body_is_not_read_as_text(api):
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    answer = api.client.post("/api/queue/enqueue", content=gzip.compress(b"{}"), headers=headers)

    assert answer.status_code == 415


def test_the_documentation_redirects_without_a_trailing_slash(api):
    answer = api.client.get("/api/docs/", follow_redirects=False)

    assert (answer.is_redirect, answer.headers["location"]) == (True, "/api/docs")
    assert "swagger" in api.client.get("/api/docs").text
