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
def furnished(api):
    api.post("/v1/queues/email/jobs", {"payload": 1, "id": "a"}, 201)
    api.put(SCHEDULE, EVERY_NIGHT)
    return api


def ask(api: Any, method: str, path: str, body: Any = None, **headers: str) -> Any:
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
def test_an_unchanged_document_is_not_sent_again(furnished, path):
    first = ask(furnished, "GET", path)
    tag = first.headers["etag"]

    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = ask(furnished, "GET", path, if_none_match=known)
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    assert ask(furnished, "GET", path, if_none_match='"other"').status_code == 200


@pytest.mark.parametrize("path", CHANGES)
def test_a_changed_job_is_not_deleted(furnished, path):
    tag = ask(furnished, "GET", path).headers["etag"]
    method, body, _ = CHANGES[path]
    ask(furnished, method, path, body)

    for stale in (tag, '"stale"'):
        refused = ask(furnished, "DELETE", f"{path}{FORCED.get(path, '')}", if_match=stale)
        assert (refused.status_code, refused.json()["title"]) == (412, "Precondition Failed")
    seen = ask(furnished, "GET", path).headers["etag"]
    gone = ask(furnished, "DELETE", f"{path}{FORCED.get(path, '')}", if_match=seen)

    assert gone.is_success
    assert ask(furnished, "GET", path).status_code == 404


def test_a_job_claimed_after_the_check_is_not_deleted(furnished, runtime, monkeypatch):
    tag = ask(furnished, "GET", JOB).headers["etag"]
    look = runtime.store.get

    def look_too_early(*arguments):
        monkeypatch.undo()
        seen = look(*arguments)
        furnished.post("/v1/queues/email/claim", {})
        return seen

    monkeypatch.setattr(runtime.store, "get", look_too_early)

    assert ask(furnished, "DELETE", JOB, if_match=tag).status_code == 412
    assert furnished.get(JOB)["state"] == "processing"


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
def test_an_unsupported_condition_is_refused(furnished, method, path, body):
    refused = ask(furnished, method, path, body, if_match='"stale"')

    assert (refused.status_code, refused.json()["at"]) == (400, "If-Match")
    assert furnished.get(JOB)["state"] == "queued"


@pytest.mark.parametrize("path", CHANGES)
def test_a_changed_document_is_sent(furnished, path):
    tag = ask(furnished, "GET", path).headers["etag"]
    method, body, _ = CHANGES[path]
    assert ask(furnished, method, path, body).status_code == 200

    again = ask(furnished, "GET", path, if_none_match=tag)

    assert again.status_code == 200
    assert again.headers["etag"] != tag


@pytest.mark.parametrize("path", CHANGES)
def test_a_change_with_the_current_etag_is_made(furnished, path):
    method, body, _ = CHANGES[path]
    tag = ask(furnished, "GET", path).headers["etag"]
    assert ask(furnished, method, path, body, if_match=tag).status_code == 200
    assert ask(furnished, method, path, body, if_match="*").status_code == 200


@pytest.mark.parametrize("path", CHANGES)
def test_a_change_with_an_old_etag_is_refused(furnished, path):
    method, body, other = CHANGES[path]
    tag = ask(furnished, "GET", path).headers["etag"]
    ask(furnished, method, path, body)
    before = ask(furnished, "GET", path).headers["etag"]

    refused = ask(furnished, method, path, other, if_match=tag)

    assert refused.status_code == 412
    assert refused.json()["type"] == "urn:ackline:problem:changed"
    assert ask(furnished, "GET", path).headers["etag"] == before
    assert ask(furnished, method, path, other).status_code == 200


@pytest.mark.parametrize("path", CHANGES)
def test_an_absent_document_matches_no_etag(api, path):
    method, body, _ = CHANGES[path]
    assert ask(api, method, path, body, if_match="*").status_code == 404
    assert ask(api, "GET", path, if_none_match="*").status_code == 404


def test_counts_change_only_the_second_part_of_the_etag(furnished):
    tag = ask(furnished, "GET", QUEUE).headers["etag"]
    furnished.post("/v1/queues/email/jobs", {"payload": 1, "id": "b"}, 201)

    assert ask(furnished, "GET", QUEUE, if_none_match=tag).status_code == 200
    assert ask(furnished, "PATCH", QUEUE, {"max_jobs": 5}, if_match=tag).status_code == 200


@pytest.mark.parametrize(("tag", "statuses"), [(None, [200, 412]), ("*", [200, 200])])
def test_one_of_two_concurrent_editors_wins(live, monkeypatch, tag, statuses):
    """Both read before either edits; with `*`, which matches any version, both succeed."""
    live.api.post("/v1/queues/email/jobs", {"payload": 1, "id": "a"}, 201)
    tag = tag or ask(live.api, "GET", JOB).headers["etag"]
    apply, both_looked = live.runtime.store.apply, threading.Barrier(2, timeout=10)

    def apply_together(*args: Any) -> Any:
        both_looked.wait()
        return apply(*args)

    monkeypatch.setattr(live.runtime.store, "apply", apply_together)
    with ThreadPoolExecutor() as editors:
        answers = list(
            editors.map(lambda n: ask(live.api, "PATCH", JOB, {"payload": n}, if_match=tag), (2, 3))
        )

    assert sorted(answer.status_code for answer in answers) == statuses
    if tag != "*":
        [won, lost] = sorted(answers, key=lambda answer: answer.status_code)
        assert lost.json()["type"] == "urn:ackline:problem:changed"
        assert live.api.get(JOB)["payload"] == won.json()["payload"]


def test_settings_changed_after_the_check_are_noticed(furnished, runtime, monkeypatch):
    """Two at the same time: the store compares, so the second tag is checked again."""
    tag = ask(furnished, "GET", QUEUE).headers["etag"]
    queue = Queues(runtime.store)["email"]
    configure = runtime.store.configure

    def late(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        queue.configure(max_jobs=7)
        return configure(*args, **options)

    monkeypatch.setattr(runtime.store, "configure", late)

    assert ask(furnished, "PATCH", QUEUE, {"max_jobs": 5}, if_match=tag).status_code == 412
    assert queue.settings().max_jobs == 7
