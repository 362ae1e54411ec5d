"""Input that is well formed and absurd: refused, and never an error of the server."""

from __future__ import annotations

import msgspec
import pytest

from tests.service.conftest import Api


@pytest.mark.parametrize("weights", [("1e308", "1e-308"), ("0", "1"), ("nan", "1"), ("1e4", "1")])
def test_weights_out_of_proportion(api, weights):
    query = {"queue": ["a", "b"], "weight": list(weights)}

    problem = api("GET", "/queue/poll", 422, params=query)

    assert problem["at"] == "weight"


@pytest.mark.parametrize("cursor", ["-1.0", "1.-1", "1", "x.y", "1.1.1", "1." + "9" * 30])
def test_cursors_that_are_none(api, cursor):
    assert api.get("/v1/events", 422, after=cursor)["at"] == "after"


class TestCursorsBeyondAllEvents:
    @pytest.fixture(params=["memory", "sqlite", "redis", "postgres"])
    def settings(self, settings, request, tmp_path):
        match request.param:
            case "redis":
                server = request.getfixturevalue("redis_server")
                url = f"{server.url}?prefix={tmp_path.name}"
            case "postgres":
                server = request.getfixturevalue("postgres_server")
                url = f"{server.socket_url}&schema={tmp_path.name}"
            case "sqlite":
                url = f"sqlite:///{tmp_path / 'ackline.db'}"
            case _:
                url = "memory://"
        return msgspec.structs.replace(settings, store=url)

    def test_have_nothing_behind_them(self, api):
        api.enqueue(1)
        for cursor in ("9" * 22 + ".1", "9" * 60 + ".0"):
            assert api.get("/v1/events", after=cursor)["events"] == []
            assert api.get("/v1/events", after=cursor, queue="default")["events"] == []


@pytest.mark.parametrize("host", ["[", "[::1", "]", "evil.example"])
def test_hosts_that_are_none(api, host):
    api("GET", "/queue/stats", 403, headers={"host": host})


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "["])
def test_pages_of_other_sites_may_not_call(api, origin):
    """Also from browsers that do not say `Sec-Fetch-Site`."""
    api("POST", "/v1/queues/default/pause", 403, headers={"origin": origin})


def test_pages_of_this_machine_may(api):
    api("POST", "/v1/queues/default/pause", headers={"origin": "http://localhost:5173"})


@pytest.mark.parametrize("keys", [[[]], [[""]], [["a", ""]], [["x" * 513]], [["a"] * 65]])
def test_keys_that_no_route_could_reach(api, keys):
    body = {"value": 1, "options": {"keysIfUndelivered": keys}}

    api.post("/queue/enqueue", body, 422)
    assert api.get("/queue/stats")["total"] == 0


def test_methods_that_strangers_made_up_are_one_figure(api):
    for number in range(5):
        api.client.request(f"RAND{number}", f"{api.base}/nosuch")

    text = Api(api.client, "").client.get("/metrics").text
    assert "RAND" not in text
    assert 'method="other"' in text
