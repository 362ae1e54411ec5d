"""What cannot be read is refused, with what and where, and nothing is done."""

from __future__ import annotations

import pytest

BAD = {
    b"": ("the body is missing", "$"),
    b"{": ("not JSON", None),
    b"[]": ("Expected `object`", "$"),
    b'{"value": 1': ("not JSON", None),
    b'{"value": 1} x': ("not JSON", None),
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
    b'{"value": 1, "value": 2}': ("'value' stands twice", "value"),
    b'{"value": {"a": [{"b": 1, "b": 2}]}}': ("'b' stands twice", "b"),
    b'{"value": NaN}': ("NaN is no number", None),
    b'{"value": -Infinity}': ("-Infinity is no number", None),
    b'{"value": "\xff"}': ("not UTF-8", None),
    b'{"value": "\\ud800"}': ("not JSON", None),
    b"\xef\xbb\xbf{}": ("not JSON", None),
    b'{"value": ' + b"[" * 100_000: ("nested too deeply", None),
    b'{"value": ' + b"9" * 10_000 + b"}": ("not JSON", None),
}


@pytest.mark.parametrize("body", BAD, ids=lambda body: repr(body[:40]))
def test_a_bad_body_is_refused_with_what_and_where(api, body):
    problem = api.send(body)

    says, at = BAD[body]
    assert says in problem["detail"]
    assert problem.get("at") == at
    assert api.get("/queue/stats")["total"] == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"id": ""}, "id must have 1 to 512 bytes"),
        ({"id": "x" * 513}, "id must have 1 to 512 bytes"),
        ({"queue": "x" * 513}, "queue must have 1 to 512 bytes"),
        ({"maxAttempts": 0}, "max_attempts must be 1"),
        ({"lockDuration": 0}, "lease must be more than 0"),
        ({"keysIfUndelivered": [["ackline", "x"]]}, "Ackline's own"),
        ({"headers": {"a": "x" * 70_000}}, "headers and trace"),
    ],
)
def test_what_the_library_refuses_is_422(api, options, says):
    problem = api.post("/queue/enqueue", {"value": 1, "options": options}, status=422)

    assert says in problem["detail"]
    assert api.get("/queue/stats")["total"] == 0


@pytest.mark.parametrize("value", [None, 0, "", [], {"a": None}, 10**30, 1.5, "é\N{BUG}\x00"])
def test_every_value_that_json_has_comes_back(api, value):
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
        ("/queue/poll?queue=", "queue"),
    ],
)
def test_a_bad_parameter_is_named(api, path, at):
    assert api.get(path, status=400)["at"] == at


def test_unknown_parameters_are_named(api):
    assert api.get("/queue/poll", status=400, colour=1)["at"] == "colour"


def test_too_large_a_payload(api):
    problem = api.post("/queue/enqueue", {"value": "x" * 1_100_000}, status=413)

    assert problem["type"].endswith("payload-too-large")


def test_routes_that_are_not_there(api):
    assert api.get("/queue/nothing", status=404)["type"].endswith("not-found")
    assert api.put("/queue/poll", {}, status=405)["title"] == "Method Not Allowed"
