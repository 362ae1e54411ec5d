"""Export and import as JSON lines: everything that can be enqueued again is kept."""

from __future__ import annotations

import json
import shutil
import subprocess
import time

import msgspec
import pytest

import ackline
from ackline.core.job import QueueKey
from ackline.queue.transfer.documents import JobDocument
from ackline.queue.transfer.import_jobs import IGNORED
from ackline.stores.contract import Filter

QUEUE = "/v1/queues/email"


def test_an_export_of_a_queue_in_use_has_each_job_once(api, runtime, monkeypatch):
    """Each page finds jobs in other states, as workers are busy with them."""
    queue = ackline.Queues(runtime.store)["email"]
    queue.enqueue_many(range(1200))
    claimed = queue.claim(300)
    page, busy = runtime.store.page, iter([claimed[:100], claimed[100:200], claimed[200:]])

    def page_of_a_busy_queue(*arguments):
        found = page(*arguments)
        for job in next(busy, ()):
            queue.release(job)
        queue.claim(50)
        return found

    monkeypatch.setattr(runtime.store, "page", page_of_a_busy_queue)

    lines = api.client.get(f"/api{QUEUE}/export").text.splitlines()

    ids = [json.loads(line)["id"] for line in lines]
    assert len(ids) == len(set(ids)) == 1200


KEPT = ("id", "kind", "payload", "priority", "run_at", "options")
"""The fields of a stored job that an import keeps."""


def stored(runtime, queue):
    jobs = runtime.store.page(QueueKey("default", queue), Filter(), None, 100).jobs
    return {job.id: [getattr(job, name) for name in KEPT] for job in jobs}


def fill(api):
    """Jobs with all options, in every waiting state."""
    jobs = [
        {
            "id": "all",
            "kind": "welcome",
            "payload": {"to": "ünïcode", "n": 1.5e300, "deep": [[], {}, None, True]},
            "priority": 9,
            "max_attempts": 7,
            "backoff": {"shape": "linear", "base": 2, "jitter": "equal"},
            "lease": 12.5,
            "timeout": 3,
            "result_ttl": 60,
            "keys_if_undelivered": [["lost", "a"]],
            "callback_url": "https://example.com/done",
            "group": "g",
            "headers": {"x": "y"},
            "trace": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        },
        {"id": "null", "payload": None},
        {"id": "later", "payload": 1, "run_at": time.time() + 3600},
        {"id": "a/b c\n", "payload": "text"},
        {"id": "waits", "payload": 2, "backoff": [1, 5]},
    ]
    api.post(f"{QUEUE}/jobs/batch", {"jobs": jobs})


def counts(**changed: int) -> dict[str, int]:
    return {"lines": 0, "enqueued": 0, "duplicates": 0, "completed": 0, **changed}


def copy(api, query=""):
    lines = api.client.get(f"/api{QUEUE}/export{query}")
    return api("POST", "/v1/queues/copy/import", content=lines.content)


def test_all_options_of_a_job_are_exported_and_imported(api, runtime):
    fill(api)

    assert copy(api) == counts(lines=5, enqueued=5)

    assert stored(runtime, "copy") == stored(runtime, "email")


def test_started_and_finished_jobs_start_over(api):
    fill(api)
    jobs = api.post(f"{QUEUE}/claim", {"limit": 2})["jobs"]
    outcome = {"id": jobs[0]["id"], "token": jobs[0]["token"], "outcome": "complete", "result": 1}
    api.post(f"{QUEUE}/settle", {"outcomes": [outcome]})

    assert copy(api)["enqueued"] == 5

    copies = api.get("/v1/queues/copy/jobs")["jobs"]
    assert {job["state"] for job in copies} == {"queued", "scheduled"}
    assert {job["attempts"] for job in copies} == {0}


def test_a_repeated_import_stores_nothing_twice(api):
    fill(api)
    copy(api)

    assert copy(api) == counts(lines=5, duplicates=5)


def test_payloads_that_are_not_json_are_kept(api, runtime):
    with ackline.Queues(runtime.store) as queues:
        msgpack_queue = queues.queue("email", serde="msgpack")
        msgpack_queue.enqueue({"bytes": b"\x00\xff"}, id="packed")

        assert copy(api) == counts(lines=1, enqueued=1)

        assert stored(runtime, "copy") == stored(runtime, "email")
        [job] = queues.queue("copy", serde="msgpack").claim()
        assert job.payload == {"bytes": b"\x00\xff"}


@pytest.mark.parametrize(
    "line",
    [
        {"payload": 1, "codec": "msgpack"},
        {"payload": {"base64": "no!"}, "codec": "msgpack"},
        {"payload": {"base64": "AA==", "more": 1}, "codec": "msgpack"},
    ],
)
def test_a_codec_that_does_not_fit_is_refused(api, line):
    answer = api("POST", f"{QUEUE}/import", content=json.dumps(line))

    assert (answer["stopped_at"], answer.get("enqueued", 0)) == (1, 0)


def test_an_unreadable_payload_is_refused(api):
    answer = api("POST", f"{QUEUE}/import", content=b'{"payload": "\\ud800"}')

    assert answer["stopped_at"] == 1


def test_an_import_knows_all_that_an_export_writes(api):
    line = dict.fromkeys(field.encode_name for field in msgspec.structs.fields(JobDocument))

    assert api("POST", f"{QUEUE}/import", content=json.dumps(line)) == counts(lines=1, enqueued=1)
    assert {"state", "attempts", "result", "history"} <= IGNORED


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_with_curl_from_one_service_to_another(live, runtime):
    fill(live.api)
    url = f"{live.url}/api/v1/queues"

    piped = subprocess.run(
        f"curl -sf {url}/email/export | curl -sf -X POST -T - {url}/copy/import",
        shell=True,
        check=True,
        capture_output=True,
        timeout=30,
    )

    assert json.loads(piped.stdout) == counts(lines=5, enqueued=5)
    assert stored(runtime, "copy") == stored(runtime, "email")


def test_counts_include_zeros(api):
    answer = api("POST", "/v1/queues/q/import", content=b"")

    assert answer == counts()


def test_a_byte_order_mark_is_skipped(api):
    assert (
        api("POST", "/v1/queues/q/import", content=b'\xef\xbb\xbf{"payload": 1}')["enqueued"] == 1
    )


@pytest.mark.parametrize("type", ["text/html", "multipart/form-data"])
def test_another_content_type_is_refused(api, type):
    api("POST", "/v1/queues/q/import", 415, content=b"{}", headers={"content-type": type})
