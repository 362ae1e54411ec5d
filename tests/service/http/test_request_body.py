"""Malformed requests are refused with a location, and nothing is done."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import msgspec
import pytest
from tests.service.http.test_connection import HEAD, connect

from ackline.core.job import QueueKey
from ackline.service import Settings
from ackline.service.http import strict_json
from ackline.service.http.strict_json import (
    MAX_DEPTH,
    BadBody,
    TooDeep,
    read_json,
    require_max_depth,
)

BAD = {
    b"": ("the body is missing", "$"),
    b"{": ("not valid JSON", None),
    b"[]": ("Expected `object`", "$"),
    b'{"value": 1': ("not valid JSON", None),
    b'{"value": 1} x': ("not valid JSON", None),
    b'{"options": {}}': ("`value`", "$"),
    b'{"value": 1, "colour": 2}': ("`colour`", "$"),
    b'{"value": 1, "options": {"colour": 2}}': ("`colour`", "$.options"),
    b'{"value": 1, "options": {"priority": true}}': ("`bool`", "$.options.priority"),
    b'{"value": 1, "options": {"priority": "5"}}': ("`str`", "$.options.priority"),
    b'{"value": 1, "options": {"priority": 10}}': ("<= 9", "$.options.priority"),
    b'{"value": 1, "options": {"delay": -1}}': (">= 0", "$.options.delay"),
    b'{"value": 1, "options": {"delay": 1e400}}': ("out of range", "$.options.delay"),
    b'{"value": 1, "options": {"backoffSchedule": [1, "2"]}}': (
        "`str`",
        "$.options.backoffSchedule[1]",
    ),
    b'{"value": 1, "value": 2}': ("'value' appears twice", "value"),
    b'{"value": {"a": [{"b": 1, "b": 2}]}}': ("'b' appears twice", "b"),
    b'{"value": NaN}': ("NaN is not a number", None),
    b'{"value": -Infinity}': ("-Infinity is not a number", None),
    b'{"value": "\xff"}': ("not UTF-8", None),
    b'{"value": "\\ud800"}': ("not valid JSON", None),
    b"\xef\xbb\xbf{}": ("not valid JSON", None),
    b'{"value": ' + b"[" * 100_000: ("deeper than 100 levels", None),
    b'{"value": ' + b"9" * 10_000 + b"}": ("out of range", None),
    b'{"value": [1e999]}': ("the number 1e999… is out of range", None),
    b'{"value": {"\\u0061": 1, "a": 2}}': ("'a' appears twice", "a"),
}


@pytest.mark.parametrize("body", BAD, ids=lambda body: repr(body[:40]))
def test_a_bad_body_is_refused_with_its_location(api, body):
    problem = api.send(body)

    message, at = BAD[body]
    assert message in problem["detail"]
    assert problem.get("at") == at
    assert api.get("/queue/stats")["total"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": ""}, "id must have 1 to 512 bytes"),
        ({"id": "x" * 513}, "id must have 1 to 512 bytes"),
        ({"queue": "x" * 513}, "queue must have 1 to 512 bytes"),
        ({"maxAttempts": 0}, "max_attempts must be a whole number from 1"),
        ({"lockDuration": 0}, "lease must be at least 0.01 seconds"),
        ({"keysIfUndelivered": [["ackline", "x"]]}, "are reserved"),
        ({"headers": {"a": "x" * 70_000}}, "headers, keys_if_undelivered and trace"),
    ],
)
def test_invalid_options_are_422(api, options, message):
    problem = api.post("/queue/enqueue", {"value": 1, "options": options}, status=422)

    assert message in problem["detail"]
    assert api.get("/queue/stats")["total"] == 0


@pytest.mark.parametrize("value", [None, 0, "", [], {"a": None}, 10**30, 1.5, "é\N{BUG}\x00"])
def test_every_json_value_is_returned(api, value):
    api.enqueue(value)

    assert api.get("/queue/poll")["message"]["value"] == value


@pytest.mark.parametrize(
    "type", ["application/json", "application/json; charset=utf-8", "application/cloud+json"]
)
def test_content_types_that_are_json(api, type):
    api("POST", "/queue/enqueue", content=b'{"value": 1}', headers={"content-type": type})


@pytest.mark.parametrize("type", ["text/plain", "application/x-www-form-urlencoded", "json", ""])
def test_content_types_that_are_not(api, type):
    headers = {"content-type": type}
    problem = api("POST", "/queue/enqueue", 415, content=b'{"value": 1}', headers=headers)

    assert problem["type"].endswith("wrong-media-type")


@pytest.mark.parametrize(
    ("path", "at"),
    [
        ("/queue/poll?wait=-1", "wait"),
        ("/queue/poll?wait=x", "wait"),
        ("/queue/poll?wait=nan", "wait"),
        ("/queue/listen?prefetch=0", "prefetch"),
        ("/queue/listen?prefetch=1.5", "prefetch"),
        ("/queue/dlq?limit=1001", "limit"),
        ("/queue/dlq?offset=-1", "offset"),
        ("/queue/stats?queue=", "queue"),
    ],
)
def test_a_bad_parameter_is_named(api, path, at):
    assert api.get(path, status=400)["at"] == at


def test_unknown_parameters_are_named(api):
    assert api.get("/queue/poll", status=400, colour=1)["at"] == "colour"


def test_too_large_a_payload(api):
    problem = api.post("/queue/enqueue", {"value": "x" * 1_100_000}, status=413)

    assert problem["type"].endswith("payload-too-large")


def test_unknown_routes(api):
    assert api.get("/queue/nothing", status=404)["type"].endswith("not-found")


def test_an_unsupported_method(api):
    answer = api.client.put("/api/queue/poll", json={})

    assert answer.status_code == 405
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["allow"] == "GET, OPTIONS"
    assert answer.json() == {
        "type": "urn:ackline:problem:method-not-allowed",
        "title": "Method Not Allowed",
        "status": 405,
        "detail": "PUT is not supported here, only GET, OPTIONS",
    }


def nested(levels, inside=b"", before=b"", after=b""):
    """A message whose value is an array in an array and so on, with strings around each."""
    return b'{"value": ' + (b"[" + before) * levels + inside + (after + b"]") * levels + b"}"


class TestDepth:
    def test_at_the_limit(self, api):
        api.send(nested(MAX_DEPTH - 1), status=200)
        problem = api.send(nested(MAX_DEPTH))

        assert problem["type"].endswith("too-deep")

    def test_brackets_in_strings_are_not_levels(self, api):
        api.send(nested(1, inside=b'"' + b"[{" * 1000 + b'\\""'), status=200)

    @pytest.mark.parametrize("string", [b'"]"', b'"\\"]"', b'"\\\\"', b'"]\\\\"'])
    def test_strings_do_not_hide_depth(self, api, string):
        """Closing brackets in strings must not balance opening ones."""
        opening = string.replace(b"]", b"[")

        api.send(nested(MAX_DEPTH - 1, b"1", string + b",", b"," + opening), status=200)
        problem = api.send(nested(MAX_DEPTH, b"1", string + b",", b"," + opening))
        assert problem["type"].endswith("too-deep")

    def test_many_objects_side_by_side_are_not_deep(self, api):
        jobs: list[Any] = [{"payload": {"a": [{}, {"b": []}]}} for _ in range(500)]

        assert len(api.post("/v1/queues/q/jobs/batch", {"jobs": jobs})["jobs"]) == 500


def test_a_payload_is_stored_unchanged(api, runtime):
    """Byte for byte: another number or another space would be another payload."""
    api.send(b'{"value": {"a":  1.0, "b": "\\u00e9"}, "options": {"id": "a"}}', status=200)

    [job] = runtime.store.get(QueueKey("default", "default"), ["a"])
    assert job.payload == b'{"a":  1.0, "b": "\\u00e9"}'


class TestLarge:
    """Large bodies are decoded in a thread."""

    @pytest.fixture
    def readers(self, monkeypatch):
        """The threads in which bodies were decoded."""
        threads: list[threading.Thread] = []

        def record(body: bytes) -> None:
            threads.append(threading.current_thread())
            require_max_depth(body)

        monkeypatch.setattr(strict_json, "require_max_depth", record)
        return threads

    def send(self, api, name: str, size: int, status: int = 200) -> None:
        many = b",".join([b'{"a":1}'] * (size // 8))
        if name == "import":
            headers = {"content-type": "application/x-ndjson"}
            line = b'{"payload":[' + many + b"]}"
            api("POST", "/v1/queues/q/import", status, content=line, headers=headers)
        elif name == "batch":
            api.send(b'{"jobs":[{"payload":[' + many + b"]}]}", "/v1/queues/q/jobs/batch", status)
        else:
            api.send(b'{"value":[' + many + b"]}", status=status)

    @pytest.mark.parametrize("name", ["enqueue", "batch", "import"])
    def test_is_decoded_off_the_event_loop(self, api, readers, name):
        self.send(api, name, 200)
        self.send(api, name, 200_000)

        on_the_loop, apart = readers
        assert on_the_loop is not apart
        assert gc.isenabled()

    def test_only_batches_may_exceed_one_payload(self, api, readers):
        self.send(api, "enqueue", 2_000_000, status=413)
        assert not readers
        jobs = [{"payload": "x" * 1_000_000}] * 2
        api.post("/v1/queues/q/jobs/batch", {"jobs": jobs})

    def test_too_many_objects_are_refused_before_decoding(self, api):
        problem = api.send(
            b'{"jobs":[' + b",".join([b"{}"] * 10_001) + b"]}", "/v1/queues/q/jobs/batch", 413
        )
        assert "10,001 objects" in problem["detail"]

    @pytest.mark.parametrize(
        "text", [b'"' + b'\\"' * 500_000, b"[" * 500_000, b"1" * 500_000, b"-" * 500_000]
    )
    def test_each_byte_is_scanned_once(self, text):
        """Otherwise this would take minutes."""
        began = time.process_time()
        with pytest.raises((BadBody, TooDeep)):
            read_json(text, msgspec.json.Decoder(msgspec.Raw))
        assert time.process_time() - began < 5


class TestSize:
    @pytest.fixture
    def settings(self):
        return Settings(store="memory://", max_body=1000)

    def test_at_the_limit(self, api):
        exactly = b'{"value": "' + b"x" * 987 + b'"}'

        api.send(exactly, status=200)
        problem = api.send(exactly + b" ", status=413)
        assert (problem["type"], problem["detail"]) == (
            "urn:ackline:problem:too-large",
            "the body has more than 1,000 bytes: send less at a time",
        )

    def test_an_announced_size_is_refused_before_reading(self, live):
        with connect(live) as link:
            link.sendall(HEAD + b"content-length: 1001\r\n\r\n")
            assert link.recv(1000).startswith(b"HTTP/1.1 413 ")

    def test_an_unannounced_size_is_refused_while_reading(self, live):
        with connect(live) as link:
            link.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
            link.sendall(b"3e8\r\n" + b" " * 1000 + b"\r\n")
            link.settimeout(0.2)
            with pytest.raises(TimeoutError):
                link.recv(1000)
            link.settimeout(10)
            link.sendall(b"1\r\n \r\n")
            assert link.recv(1000).startswith(b"HTTP/1.1 413 ")
