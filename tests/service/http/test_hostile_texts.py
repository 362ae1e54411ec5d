"""Hostile texts in every field of every route: refused or kept as they are, never interpreted."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from litestar.testing import TestClient
from tests.service.conftest import HERE, undocumented
from tests.service.http.hostile_texts import HOSTILE

from ackline.queues import Queues
from ackline.service import Settings, create_app
from ackline.service.runtime import Runtime

FEW = 12
"""Texts per field in the usual run (all on demand); together the fields use every text."""

PAGES = ("/api/docs", "/dashboard")
"""Routes that respond with pages."""


class Field(NamedTuple):
    """A field of a route that takes text."""

    method: str
    path: str
    location: str
    name: tuple[Any, ...]
    body: Any

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.location} {'.'.join(map(str, self.name))}"


def texts_in(body: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The text fields of a body, including names."""
    match body:
        case str():
            yield at
        case dict():
            for name, value in body.items():
                yield from texts_in(value, (*at, name))
        case list():
            for index, value in enumerate(body):
                yield from texts_in(value, (*at, index))
        case _:
            return


def fields_of(described: Any) -> Iterator[Field]:
    """From the OpenAPI document, so that no new field is forgotten."""
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {})
            body = content.get("application/json", {}).get("example")
            for parameter in operation.get("parameters", ()):
                location, name = parameter["in"], parameter["name"]
                yield Field(method.upper(), path, location, (name,), body)
            for name in texts_in(body):
                yield Field(method.upper(), path, "body", name, body)


class Service:
    """A service whose streams end immediately."""

    def __init__(self) -> None:
        self.runtime = Runtime.from_settings(Settings(store="memory://", maintenance=False))
        self.client = TestClient(create_app(runtime=self.runtime), base_url=HERE)
        self.runtime.streams.end_all()

    def put(self, field: Field, text: str) -> Any:
        """Call a route with a text in one of its fields."""
        path, options = field.path, dict[str, Any]()
        body = copy.deepcopy(field.body)
        match field.location:
            case "path":
                path = path.replace(f"{{{field.name[0]}}}", quote(text, safe=""))
            case "query":
                options["params"] = {field.name[0]: text}
            case "header":
                options["headers"] = {field.name[0]: text.encode()}
            case _:
                insert_into(body, field.name, text)
        if body is not None:
            options["json"] = body
        for name in ("queue", "id", "name", "key", "delivery"):
            path = path.replace(f"{{{name}}}", "there")
        return self.client.request(field.method, path, **options)


def insert_into(body: Any, name: tuple[Any, ...], text: str) -> None:
    for step in name[:-1]:
        body = body[step]
    body[name[-1]] = text


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    service = Service()
    with service.client:
        yield service
    assert undocumented(service.runtime) == []


@pytest.fixture(scope="module")
def fresh() -> Iterator[Service]:
    """Another, empty service."""
    service = Service()
    with service.client:
        yield service


@pytest.fixture(scope="module")
def fields(service) -> list[Field]:
    found = list(fields_of(service.client.get("/api/openapi.json").json()))
    assert len(found) > 150
    return found


def check(service: Service, field: Field, text: str) -> None:
    if field.location == "header" and not text.strip().isprintable():
        return  # no client can send it: its library, or the server's parser, refuses
    answer = service.put(field, text)
    where = f"{field} {text!r}: {answer.status_code} {answer.text[:200]}"
    assert answer.status_code < 500 or answer.status_code == 504, where
    kind = answer.headers.get("content-type", "")
    page = field.path.startswith(PAGES)
    assert page or "html" not in kind, where
    assert "x-injected" not in answer.headers, where
    assert "set-cookie" not in answer.headers, where
    assert "root:" not in answer.text, where


def test_there_are_two_hundred_of_them():
    assert len(HOSTILE) >= 200
    assert len(set(HOSTILE)) == len(HOSTILE)


def test_some_texts_in_every_field(service, fields):
    """Each field gets some texts, and each text is used."""
    texts = itertools.cycle(HOSTILE)
    for field in fields:
        for text in itertools.islice(texts, FEW):
            check(service, field, text)


@pytest.mark.slow
def test_every_text_in_every_field(service, fields):
    for field, text in itertools.product(fields, HOSTILE):
        check(service, field, text)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_returned_unchanged(fresh, text):
    """As the name of a queue, an id, kind, group, header and payload: all are kept."""
    client, queue, id = fresh.client, path_of([text]), path_of([text])
    body = {
        "payload": {text: [text]},
        "id": text,
        "kind": text,
        "group": text,
        "headers": {text: text},
        "keys_if_undelivered": [["kept", text]],
    }
    made = client.post(f"/api/v1/queues/{queue}/jobs", json=body)
    assert made.status_code in (200, 201), made.text

    job = client.get(f"/api/v1/queues/{queue}/jobs/{id}").json()
    listed = client.get(f"/api/v1/queues/{queue}/jobs", params={"kind": text}).json()["jobs"]

    for name in ("id", "kind", "group", "payload", "headers", "keys_if_undelivered"):
        assert job[name] == body[name]
    assert (job["queue"], [one["id"] for one in listed]) == (text, [text])
    assert text in list(Queues(fresh.runtime.store))


# --- names stay apart ---


@pytest.fixture(scope="module")
def apart() -> Iterator[Service]:
    service = Service()
    with service.client:
        yield service


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(
    lambda name: len(name.encode()) <= 512
)
TRICKY = st.sampled_from(["a", "a/b", "b", "%2F", "..", ".", ":", "a:b", "ackline "])
PARTS = st.lists(NAMES | TRICKY, min_size=1, max_size=4)
QUICK = settings(
    max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


def path_of(parts: list[str]) -> str:
    # Clients normalize a segment of dots, so a careful one writes them out.
    return "/".join(quote(part, safe="").replace(".", "%2E") for part in parts)


@QUICK
@given(PARTS, PARTS)
@example(["a", "b"], ["a/b"])
@example(["a%2Fb"], ["a/b"])
@example(["a:b", "c"], ["a", "b:c"])
@example(["a", ""], ["a"])
@example([".."], ["."])
def test_keys_do_not_collide(service, one, other):
    """Two keys are one only if all their parts are the same."""
    client = service.client
    if "" in (*one, *other) or "ackline" in (one[0], other[0]):
        return
    for parts, value in ((one, "one"), (other, "other")):
        url = f"/api/v1/keys/{path_of(parts)}"
        assert client.put(url, json={"value": value}).status_code == 200, parts

    found = [client.get(f"/api/v1/keys/{path_of(parts)}").json() for parts in (one, other)]

    assert [entry["key"] for entry in found] == [one, other]
    assert found[1]["value"] == "other"
    assert found[0]["value"] == ("other" if one == other else "one")


@QUICK
@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES))
@example(("a/b", "c"), ("a", "b/c"))
@example(("a:b", "c"), ("a", "b:c"))
@example(("a%2Fb", "c"), ("a/b", "c"))
def test_queues_and_ids_do_not_collide(apart, one, other):
    """A job is another's only if its queue and its id both are."""
    client = apart.client
    for queue, id in (one, other):
        url = f"/api/v1/queues/{path_of([queue])}/jobs"
        body = {"payload": [queue, id], "id": id, "result_ttl": 0}
        assert client.post(url, json=body).status_code in (200, 201)

    for queue, id in (one, other):
        job = client.get(f"/api/v1/queues/{path_of([queue])}/jobs/{path_of([id])}").json()
        assert (job["queue"], job["id"], job["payload"]) == (queue, id, [queue, id])
