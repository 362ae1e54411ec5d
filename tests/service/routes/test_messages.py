"""Messages over HTTP: enqueued, taken, and settled."""

from __future__ import annotations

import http.client
import json
from urllib.parse import quote

import msgspec
import pytest
from tests.service.conftest import Api, client_for

from ackline.core.job import QueueKey, State
from ackline.queue.drafts import bloom_filter
from ackline.queue.metadata.local_max_attempts import ALL_KINDS, load_max_attempts
from ackline.queues import Queues
from ackline.service.runtime import Runtime

NDJSON = "application/x-ndjson"
DEFAULT = QueueKey("default", "default")


def record(runtime, id, queue=DEFAULT):
    return runtime.store.get(queue, [id])[0]


def test_a_message_is_enqueued_and_delivered(api):
    id = api.enqueue({"to": "ann"})

    message = api.get("/queue/poll")["message"]

    assert (message["id"], message["value"], message["attempts"]) == (id, {"to": "ann"}, 1)
    assert api.get("/queue/poll") == {"message": None}


def test_the_service_default_of_attempts_is_published_for_audits(runtime):
    settings = msgspec.structs.replace(runtime.settings, max_attempts=5)
    served = Runtime.from_settings(settings)
    with client_for(served) as client:
        api = Api(client, settings.base)
        id = api.enqueue(1)
        api.get("/queue/poll")

        api.post("/queue/nack", {"id": id})

        assert load_max_attempts(served.store, DEFAULT) == {ALL_KINDS: 5}


def test_options_are_in_milliseconds(api, runtime):
    id = api.enqueue(
        1,
        delay=60_000,
        backoffSchedule=[1000, 5000],
        keysIfUndelivered=[["a", "b"]],
        priority=9,
        lockDuration=7000,
    )

    job = record(runtime, id)
    assert job.state is State.SCHEDULED
    assert job.run_at - job.created_at == pytest.approx(60)
    assert job.options.backoff.delays == (1.0, 5.0)
    assert job.options.keys_if_undelivered == (("a", "b"),)
    assert (job.priority, job.options.lease) == (9, 7.0)


def test_the_queue_is_chosen_by_option_or_by_query(api):
    first = api.enqueue(1, queue="one")
    second = api.post("/queue/enqueue", {"value": 2}, params={"queue": "two"})["id"]

    assert api.get("/queue/poll", queue="one")["message"]["id"] == first
    assert api.get("/queue/poll", queue="two")["message"]["id"] == second
    assert api.get("/queue/poll")["message"] is None


def test_an_id_that_is_alive_is_a_duplicate(api):
    api.enqueue(1, id="once")

    again = api.post("/queue/enqueue", {"value": 2, "options": {"id": "once"}})

    assert again == {"ok": True, "id": "once", "duplicate": True, "state": "queued"}
    assert api.get("/queue/stats")["total"] == 1


def test_a_poll_returns_only_the_requested_kinds(api):
    api.enqueue(1, kind="red")
    blue = api.enqueue(2, kind="blue")

    assert api.get("/queue/poll", kinds="green,blue")["message"]["id"] == blue
    assert api.get("/queue/poll", kinds="green,blue")["message"] is None


class TestAck:
    def test_by_the_id_alone(self, api, runtime):
        id = api.enqueue()
        api.get("/queue/poll")

        assert api.post("/queue/ack", {"id": id}) == {"ok": True}
        assert record(runtime, id).state is State.COMPLETED

    def test_by_the_receipt(self, api, runtime):
        id = api.enqueue()
        receipt = api.get("/queue/poll")["message"]["receipt"]

        api.post("/queue/ack", {"id": id, "receipt": receipt, "result": [1]})

        assert record(runtime, id).result == b"[1]"

    def test_again_answers_the_same(self, api):
        id = api.enqueue()
        receipt = api.get("/queue/poll")["message"]["receipt"]

        for body in [{"id": id, "receipt": receipt}] * 2 + [{"id": id}] * 2:
            assert api.post("/queue/ack", body) == {"ok": True}

    def test_by_a_stale_receipt_is_refused_and_changes_nothing(self, api, runtime):
        id = api.enqueue(1, backoffSchedule=[0])
        stale = api.get("/queue/poll")["message"]["receipt"]
        api.post("/queue/nack", {"id": id, "receipt": stale})
        fresh = api.get("/queue/poll", wait=5)["message"]["receipt"]

        problem = api.post("/queue/ack", {"id": id, "receipt": stale}, status=409)

        assert problem["type"].endswith("lease-lost")
        assert problem["state"] == "processing"
        assert record(runtime, id).state is State.PROCESSING
        api.post("/queue/ack", {"id": id, "receipt": fresh})

    def test_of_a_message_that_is_not_leased_is_refused(self, api):
        id = api.enqueue()

        assert api.post("/queue/ack", {"id": id}, status=409)["state"] == "queued"

    def test_of_an_unknown_message(self, api):
        assert api.post("/queue/ack", {"id": "never"}, status=404)["type"].endswith("not-found")

    def test_with_an_invalid_receipt(self, api):
        id = api.enqueue()
        api.get("/queue/poll")

        for receipt in ("", "x", "1.5", "-1", "9" * 30):
            problem = api.post("/queue/ack", {"id": id, "receipt": receipt}, status=422)
            assert problem["at"] == "receipt"


class TestNack:
    def test_tries_again_after_the_backoff(self, api, runtime):
        id = api.enqueue(1, backoffSchedule=[90_000])
        api.get("/queue/poll")

        api.post("/queue/nack", {"id": id, "error": "no route"})

        job = record(runtime, id)
        assert job.state is State.FAILING
        assert job.failure.message == "no route"

    def test_or_after_its_own_delay(self, api):
        id = api.enqueue()
        api.get("/queue/poll")

        api.post("/queue/nack", {"id": id, "delay": 50})

        assert api.get("/queue/poll", wait=5)["message"]["attempts"] == 2

    def test_a_schedule_of_two_waits_makes_three_attempts(self, api, runtime):
        id = api.enqueue({"n": 1}, backoffSchedule=[0, 0], keysIfUndelivered=[["lost", "n"]])

        for attempt in (1, 2, 3):
            assert api.get("/queue/poll", wait=5)["message"]["attempts"] == attempt
            api.post("/queue/nack", {"id": id})

        assert record(runtime, id).state is State.FAILED
        assert api.get("/keys", prefix="lost")[0]["value"] == {"n": 1}

    def test_the_default_schedule_makes_3_retries(self, api, runtime):
        id = api.enqueue()

        for _ in range(1 + 3):
            assert api.get("/queue/poll", wait=5)["message"] is not None
            api.post("/queue/nack", {"id": id, "delay": 0})

        assert record(runtime, id).state is State.FAILED


def test_touch_extends_the_lock(api, runtime):
    id = api.enqueue()
    api.get("/queue/poll")
    before = record(runtime, id).deadline

    api.post("/queue/touch", {"id": id, "duration": 600_000})

    assert record(runtime, id).deadline > before + 500
    api.post("/queue/touch", {"id": id})
    assert record(runtime, id).deadline < before + 500


def test_a_touch_never_revives(api):
    id = api.enqueue()
    receipt = api.get("/queue/poll")["message"]["receipt"]
    api.post("/queue/ack", {"id": id})

    api.post("/queue/touch", {"id": id, "receipt": receipt}, status=409)


def test_stats_count_messages(api):
    for _ in range(3):
        api.enqueue()
    api.enqueue(1, delay=60_000)
    dead = api.enqueue(1, maxAttempts=1, priority=9)
    assert api.get("/queue/poll")["message"]["id"] == dead
    api.post("/queue/nack", {"id": dead})
    api.get("/queue/poll")

    assert api.get("/queue/stats") == {"pending": 3, "processing": 1, "dlq": 1, "total": 5}


class TestIdempotencyKey:
    def send(self, api, value, status=200, **options):
        headers = {"Idempotency-Key": "order 7"}
        body = {"value": value, "options": options}
        return api.post("/queue/enqueue", body, status, headers=headers)

    def test_the_same_request_is_the_same_message(self, api):
        first, again = self.send(api, 1), self.send(api, 1)

        assert (again["id"], again["duplicate"]) == (first["id"], True)
        assert api.get("/queue/stats")["total"] == 1

    def test_another_value_under_the_same_key_is_refused(self, api):
        self.send(api, 1)

        assert self.send(api, 2, status=422)["type"].endswith("idempotency-key-reused")

    def test_a_message_that_failed_does_not_run_again(self, api):
        self.send(api, 1, maxAttempts=1)
        api.post("/queue/nack", {"id": api.get("/queue/poll")["message"]["id"]})

        again = self.send(api, 1, maxAttempts=1)

        assert (again["duplicate"], again["state"]) == (True, "failed")
        assert api.get("/queue/stats") == {"pending": 0, "processing": 0, "dlq": 1, "total": 1}

    def test_the_filter_saves_the_look_up_of_a_new_key(self, api, runtime, monkeypatch):
        calls: list[str] = []

        def count(name, act):
            def counted(*args, **more):
                calls.append(name)
                return act(*args, **more)

            monkeypatch.setattr(runtime.store, name, counted)

        count("get", runtime.store.get)
        count("enqueue", runtime.store.enqueue)

        self.send(api, 1)
        assert calls == ["enqueue"]
        self.send(api, 1)
        assert calls == ["enqueue", "get"]

    @pytest.mark.every_store
    @pytest.mark.parametrize("state", ["queued", "failed"])
    def test_a_key_that_another_process_has_had_is_not_new(self, api, runtime, state):
        first = self.send(api, 1, maxAttempts=1)
        if state == "failed":
            api.post("/queue/nack", {"id": api.get("/queue/poll")["message"]["id"]})
        bloom_filter._filters.pop(runtime.store)  # another process has a filter of its own

        again = self.send(api, 1, maxAttempts=1)
        assert (again["id"], again["duplicate"], again["state"]) == (first["id"], True, state)
        bloom_filter._filters.pop(runtime.store)
        self.send(api, 2, status=422)
        assert api.get("/queue/stats")["total"] == 1

    def test_nor_one_that_fails_while_it_is_sent_again(self, api, runtime, monkeypatch):
        """Between the read and the insert, the first of two requests arrives, runs and fails."""
        bloom_filter.filter_for_store(runtime.store).add((DEFAULT, "idempotency-key:order 7"))
        read = runtime.store.get

        def read_too_early(*args):
            monkeypatch.undo()
            seen = read(*args)
            queue = Queues(runtime.store)["default"]
            draft = queue.draft_builder.draft(1, {"max_attempts": 1})
            runtime.store.enqueue(
                queue.key, [msgspec.structs.replace(draft, id="idempotency-key:order 7")]
            )
            queue.fail(queue.claim(1)[0], "boom")
            return seen

        monkeypatch.setattr(runtime.store, "get", read_too_early)

        again = self.send(api, 1, maxAttempts=1)

        assert (again["duplicate"], again["state"]) == (True, "failed")
        assert api.get("/queue/stats") == {"pending": 0, "processing": 0, "dlq": 1, "total": 1}

    def test_its_id_cannot_be_taken_by_a_job_without_a_key(self, api):
        for id in ("idempotency-key:order 7", "idempotency-key-of-many:order 7:0"):
            refused = api.post("/queue/enqueue", {"value": 1, "options": {"id": id}}, 422)
            assert "Idempotency-Key" in refused["detail"]
            api.post("/v1/queues/default/jobs/batch", {"jobs": [{"payload": 1, "id": id}]}, 422)
        assert "duplicate" not in self.send(api, 1)

    def test_a_job_of_a_key_can_be_exported_and_imported(self, api):
        id = self.send(api, 1)["id"]
        exported = api.client.get(f"{api.base}/v1/queues/default/export").content
        api.delete(f"/v1/queues/default/jobs/{id}", 204)

        answer = api.client.post(
            f"{api.base}/v1/queues/default/import",
            content=exported,
            headers={"content-type": NDJSON},
        )

        assert (answer.status_code, answer.json()["enqueued"]) == (200, 1)
        assert api.get(f"/v1/queues/default/jobs/{id}")["payload"] == 1

    def send_bytes(self, live, key):
        """The key as it is on the wire."""
        host = live.url.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=10)
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        path = f"{live.runtime.settings.base}/queue/enqueue"
        connection.request("POST", path, b'{"value": 1}', headers)
        answer = connection.getresponse()
        found = answer.status, json.loads(answer.read())
        connection.close()
        return found

    def test_keys_of_other_bytes_are_other_keys(self, live):
        keys = [b"\xc3\xa9", b"\xe9", b"%C3%A9", b"%25C3%25A9", b"e", b"E", b"e ;,/=\"'"]
        ids = []
        for key in keys:
            (_, first), (_, again) = self.send_bytes(live, key), self.send_bytes(live, key)
            assert (again["id"], again["duplicate"]) == (first["id"], True)
            ids.append(first["id"])
            live.api.get(f"/v1/queues/default/jobs/{quote(first['id'], safe='')}")

        assert len(set(ids)) == len(keys)
        assert ids[0] == "idempotency-key:%C3%A9"

    def test_a_key_whose_id_would_be_too_long_is_refused(self, live):
        status, refused = self.send_bytes(live, b"\xe9" * 255)

        assert (status, refused["at"]) == (400, "Idempotency-Key")

    @pytest.mark.parametrize("other", [{"delay": 3_600_000}, {"priority": 9}, {"maxAttempts": 2}])
    def test_other_options_under_the_same_key_are_refused(self, api, other):
        self.send(api, 1)

        assert self.send(api, 1, status=422, **other)["type"].endswith("idempotency-key-reused")

    def test_a_delayed_message_sent_again_is_the_same(self, api):
        self.send(api, 1, delay=60_000)

        assert self.send(api, 1, delay=60_000)["state"] == "scheduled"
        assert self.send(api, 1, status=422, delay=90_000)

    def claimed(self, api):
        (job,) = api.post("/v1/queues/default/claim", {})["jobs"]
        return {"id": job["id"], "token": job["token"]}

    def settle(self, api, **outcome):
        outcomes = {"outcomes": [{**self.claimed(api), **outcome}]}
        api.post("/v1/queues/default/settle", outcomes)

    @pytest.mark.parametrize("options", [{}, {"delay": 0, "priority": 3, "headers": {"a": "b"}}])
    def test_a_repeated_request_answers_the_same_in_any_state(self, api, options):
        id = self.send(api, 1, **options)["id"]
        path = f"/v1/queues/default/jobs/{id}"
        becomes = [
            lambda: self.settle(api, outcome="snooze", delay=50),
            lambda: api.patch(path, {"priority": 9, "payload": "other"}),
            lambda: api.patch(path, {"delay": 0}),
            lambda: self.settle(api, outcome="bury"),
            lambda: api.post(f"{path}/redrive", {"delay": 60}),
            lambda: api.patch(path, {"delay": 0}),
            lambda: self.settle(api, outcome="complete"),
        ]
        for become in becomes:
            become()
            assert self.send(api, 1, **options)["id"] == id
            assert self.send(api, 2, status=422, **options)
        assert len(api.get("/v1/queues/default/jobs")["jobs"]) == 1

    def test_a_longer_batch_under_the_same_key_is_refused(self, api):
        path, headers = "/v1/queues/default/jobs/batch", {"Idempotency-Key": "order 7"}
        jobs = [{"payload": 1}, {"payload": 2}]
        api.post(path, {"jobs": jobs}, headers=headers)

        for others in ([*jobs, {"payload": 3}], jobs[:1], jobs[::-1]):
            refused = api.post(path, {"jobs": others}, 422, headers=headers)
            assert refused["type"].endswith("idempotency-key-reused")
        assert api.get("/queue/stats")["total"] == 2

    def test_a_batch_sent_again_is_the_same_batch(self, api):
        headers = {"Idempotency-Key": "order 7"}
        body = {"jobs": [{"payload": 1}, {"payload": 2, "id": "own"}, {"payload": 3}]}

        first, again = (
            api.post("/v1/queues/default/jobs/batch", body, headers=headers)["jobs"]
            for _ in range(2)
        )

        assert [job["id"] for job in again] == [job["id"] for job in first]
        assert [job["accepted"] for job in first + again] == [True] * 3 + [False] * 3
        assert api.get("/queue/stats")["total"] == 3

    def test_a_key_is_not_an_id(self, api):
        api.enqueue(1, id="order 7")

        assert "duplicate" not in self.send(api, 1)


class TestDeadLetters:
    @pytest.fixture
    def dead(self, api):
        ids = []
        for number in range(3):
            ids.append(api.enqueue({"n": number}, maxAttempts=1))
            api.get("/queue/poll")
            api.post("/queue/nack", {"id": ids[-1], "error": f"reason {number}"})
        return ids

    def test_are_listed_with_what_happened(self, api, dead):
        letter = api.get("/queue/dlq", limit=50, offset=0)[0]

        assert letter["id"] == letter["originalId"] == dead[0]
        assert letter["value"] == {"n": 0}
        assert (letter["attempts"], letter["errorMessage"]) == (1, "reason 0")
        assert 0 < letter["originalCreatedAt"] <= letter["failedAt"]

    def test_by_pages(self, api, dead):
        pages = [api.get("/queue/dlq", limit=2, offset=offset) for offset in (0, 2, 4)]

        assert [[letter["id"] for letter in page] for page in pages] == [dead[:2], dead[2:], []]
        assert [x["id"] for x in api.get("/queue/dlq", limit=2, offset=1)] == dead[1:]

    def test_one_is_shown(self, api, dead):
        assert api.get(f"/queue/dlq/{dead[1]}")["errorMessage"] == "reason 1"

    def test_requeue_moves(self, api, dead):
        assert api.post(f"/queue/dlq/{dead[1]}/requeue") == {"ok": True, "newId": dead[1]}

        assert api.get("/queue/poll")["message"]["id"] == dead[1]
        assert api.get("/queue/stats")["dlq"] == 2

    def test_delete(self, api, dead):
        assert api.delete(f"/queue/dlq/{dead[1]}") == {"ok": True}
        assert len(api.get("/queue/dlq")) == 2

    def test_purge(self, api, dead):
        waiting = api.enqueue()

        assert api.delete("/queue/dlq") == {"deletedCount": 3}
        assert api.get("/queue/poll")["message"]["id"] == waiting

    def test_only_dead_letters_are_there(self, api):
        waiting = api.enqueue()

        for method, path in (("GET", ""), ("POST", "/requeue"), ("DELETE", "")):
            for id in (waiting, "never"):
                api(method, f"/queue/dlq/{id}{path}", 404)
        assert api.get("/queue/stats")["pending"] == 1
