"""ETags: unchanged documents are not sent again, changed ones not overwritten unseen."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ackline.queues import Queues

JOB = "/v1/queues/email/jobs/a"
QUEUE = "/v1/queues/email"
SCHEDULE = "/v1/queues/email/schedules/nightly"
EVERY_NIGHT = {"cron": "0 3 * * *", "payload": 1}


@pytest.fixture
def filled_api(api):
    api.post("/v1/queues/email/jobs", {"payload": 1, "id": "a"}, 201)
    api.put(SCHEDULE, EVERY_NIGHT)
    return api


def send(api: Any, method: str, path: str, body: Any = None, **headers: str) -> Any:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    options = {} if body is None else {"json": body}
    return api.client.request(method, api.base + path, headers=sent, **options)


FORCED = {QUEUE: "?force=true"}

CHANGES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    JOB: ("PATCH", {"payload": 2}, {"payload": 3}),
    QUEUE: ("PATCH", {"max_jobs": 5}, {"max_jobs": 6}),
    SCHEDULE: ("PUT", {**EVERY_NIGHT, "payload": 2}, {**EVERY_NIGHT, "payload": 3}),
}


@pytest.mark.parametrize("path", CHANGES)
def test_an_unchanged_document_is_not_sent_again(filled_api, path):
    first = send(filled_api, "GET", path)
    tag = first.headers["etag"]

    for condition in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = send(filled_api, "GET", path, if_none_match=condition)
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    assert send(filled_api, "GET", path, if_none_match='"other"').status_code == 200


@pytest.mark.parametrize("path", CHANGES)
def test_a_changed_job_is_not_deleted(filled_api, path):
    tag = send(filled_api, "GET", path).headers["etag"]
    method, body, _ = CHANGES[path]
    send(filled_api, method, path, body)

    for stale in (tag, '"stale"'):
        refused = send(filled_api, "DELETE", f"{path}{FORCED.get(path, '')}", if_match=stale)
        assert (refused.status_code, refused.json()["title"]) == (412, "Precondition Failed")
    seen = send(filled_api, "GET", path).headers["etag"]
    deleted = send(filled_api, "DELETE", f"{path}{FORCED.get(path, '')}", if_match=seen)

    assert deleted.is_success
    assert send(filled_api, "GET", path).status_code == 404


def test_a_job_claimed_after_the_check_is_not_deleted(filled_api, runtime, monkeypatch):
    tag = send(filled_api, "GET", JOB).headers["etag"]
    read = runtime.store.get

    def read_too_early(*arguments):
        monkeypatch.undo()
        seen = read(*arguments)
        filled_api.post("/v1/queues/email/claim", {})
        return seen

    monkeypatch.setattr(runtime.store, "get", read_too_early)

    assert send(filled_api, "DELETE", JOB, if_match=tag).status_code == 412
    assert filled_api.get(JOB)["state"] == "processing"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", f"{JOB}/cancel", None),
        ("POST", f"{JOB}/move", {"to": "other"}),
        ("POST", f"{QUEUE}/purge", None),
        ("POST", f"{QUEUE}/rename", {"to": "other"}),
        ("DELETE", "/queue/dlq", None),
    ],
)
def test_an_unsupported_condition_is_refused(filled_api, method, path, body):
    refused = send(filled_api, method, path, body, if_match='"stale"')

    assert (refused.status_code, refused.json()["at"]) == (400, "If-Match")
    assert filled_api.get(JOB)["state"] == "queued"


@pytest.mark.parametrize("path", CHANGES)
def test_a_changed_document_is_sent(filled_api, path):
    tag = send(filled_api, "GET", path).headers["etag"]
    method, body, _ = CHANGES[path]
    assert send(filled_api, method, path, body).status_code == 200

    again = send(filled_api, "GET", path, if_none_match=tag)

    assert again.status_code == 200
    assert again.headers["etag"] != tag


@pytest.mark.parametrize("path", CHANGES)
def test_a_change_with_the_current_etag_is_made(filled_api, path):
    method, body, _ = CHANGES[path]
    tag = send(filled_api, "GET", path).headers["etag"]
    assert send(filled_api, method, path, body, if_match=tag).status_code == 200
    assert send(filled_api, method, path, body, if_match="*").status_code == 200


@pytest.mark.parametrize("path", CHANGES)
def test_a_change_with_an_old_etag_is_refused(filled_api, path):
    method, body, other = CHANGES[path]
    tag = send(filled_api, "GET", path).headers["etag"]
    send(filled_api, method, path, body)
    before = send(filled_api, "GET", path).headers["etag"]

    refused = send(filled_api, method, path, other, if_match=tag)

    assert refused.status_code == 412
    assert refused.json()["type"] == "urn:ackline:problem:changed"
    assert send(filled_api, "GET", path).headers["etag"] == before
    assert send(filled_api, method, path, other).status_code == 200


@pytest.mark.parametrize("path", CHANGES)
def test_an_absent_document_matches_no_etag(api, path):
    method, body, _ = CHANGES[path]
    assert send(api, method, path, body, if_match="*").status_code == 404
    assert send(api, "GET", path, if_none_match="*").status_code == 404


def test_counts_change_only_the_second_part_of_the_etag(filled_api):
    tag = send(filled_api, "GET", QUEUE).headers["etag"]
    filled_api.post("/v1/queues/email/jobs", {"payload": 1, "id": "b"}, 201)

    assert send(filled_api, "GET", QUEUE, if_none_match=tag).status_code == 200
    assert send(filled_api, "PATCH", QUEUE, {"max_jobs": 5}, if_match=tag).status_code == 200


@pytest.mark.parametrize(("tag", "statuses"), [(None, [200, 412]), ("*", [200, 200])])
def test_one_of_two_concurrent_editors_wins(live, monkeypatch, tag, statuses):
    """Both read before either edits; with `*`, which matches any version, both succeed."""
    live.api.post("/v1/queues/email/jobs", {"payload": 1, "id": "a"}, 201)
    tag = tag or send(live.api, "GET", JOB).headers["etag"]
    apply, both_have_read = live.runtime.store.apply, threading.Barrier(2, timeout=10)

    def apply_together(*args: Any) -> Any:
        both_have_read.wait()
        return apply(*args)

    monkeypatch.setattr(live.runtime.store, "apply", apply_together)
    with ThreadPoolExecutor() as editors:
        answers = list(
            editors.map(
                lambda n: send(live.api, "PATCH", JOB, {"payload": n}, if_match=tag), (2, 3)
            )
        )

    assert sorted(answer.status_code for answer in answers) == statuses
    if tag != "*":
        [won, lost] = sorted(answers, key=lambda answer: answer.status_code)
        assert lost.json()["type"] == "urn:ackline:problem:changed"
        assert live.api.get(JOB)["payload"] == won.json()["payload"]


def test_settings_changed_after_the_check_are_noticed(filled_api, runtime, monkeypatch):
    """Two at the same time: the store compares, so the second tag is checked again."""
    tag = send(filled_api, "GET", QUEUE).headers["etag"]
    queue = Queues(runtime.store)["email"]
    configure = runtime.store.configure

    def late(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        queue.configure(max_jobs=7)
        return configure(*args, **options)

    monkeypatch.setattr(runtime.store, "configure", late)

    assert send(filled_api, "PATCH", QUEUE, {"max_jobs": 5}, if_match=tag).status_code == 412
    assert queue.settings().max_jobs == 7
