"""Webhooks from a finished job to a receiver: delivered once, signed, retried, dead-lettered."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError
from tests.service.auth.issuers import Signer, bearer, issuer, key_set
from tests.service.conftest import Live
from tests.service.webhook_receiver import Received
from tests.service.webhooks import fast_service
from tests.service.webhooks.fast_service import HERE, deliver_all, deliveries, subscribe
from tests.waiting import until

import ackline
from ackline.core.job import State
from ackline.core.lifecycle import complete
from ackline.queues import Queues
from ackline.relay import Relay
from ackline.service.webhooks import delivery, repository
from ackline.service.webhooks.dispatcher import Dispatcher
from ackline.service.webhooks.settings import WebhookSettings
from ackline.service.webhooks.webhook import Webhook, filter_fields, new_webhook, with_changes
from ackline.stores.memory import MemoryStore


@pytest.fixture(autouse=True)
def prompt(monkeypatch):
    """Check for callbacks as often as for webhooks."""
    monkeypatch.setattr("ackline.service.webhooks.dispatcher.CALLBACK_CHECK_EVERY", 0.0)


@pytest.fixture
def live():
    live = fast_service.start()
    yield live
    live.stop()


@pytest.fixture
def runtime(live):
    return live.runtime


def run(live: Live, id: str, queue: str = "email", **options: Any) -> None:
    """A whole life of a job."""
    live.api.post(f"/v1/queues/{queue}/jobs", {"payload": 1, "id": id, **options}, 201)
    [job] = live.api.post(f"/v1/queues/{queue}/claim", {"limit": 1, "worker": "w"})["jobs"]
    outcome = {"id": id, "token": job["token"], "outcome": "complete", "result": {"sum": 3}}
    live.api.post(f"/v1/queues/{queue}/settle", {"outcomes": [outcome]})


# --- callbacks ---


def test_a_job_calls_back_when_it_is_completed(live, receiver):
    run(live, "a", callback_url=receiver.url)

    [message] = receiver.wait_for(1)

    assert message.content["type"] == "complete"
    data = message.content["data"]
    assert (data["queue"], data["id"], data["to"]) == ("email", "a", "completed")
    assert data["result"] == {"sum": 3}
    assert deliver_all(live, receiver) == 1


def test_a_job_calls_back_when_it_is_dead_lettered(live, receiver):
    options = {"callbackUrl": receiver.url, "id": "a", "maxAttempts": 1}
    live.api.post("/queue/enqueue", {"value": 1, "options": options})
    message = live.api.get("/queue/poll")["message"]
    live.api.post("/queue/nack", {"id": message["id"], "error": "boom"})

    [message] = receiver.wait_for(1)

    assert (message.content["type"], message.content["data"]["to"]) == ("fail", "failed")
    assert "boom" in message.content["data"]["error"]


def test_a_job_calls_back_when_it_is_cancelled(live, receiver):
    body = {"payload": 1, "id": "a", "callback_url": receiver.url}
    live.api.post("/v1/queues/email/jobs", body, 201)
    live.api.post("/v1/queues/email/jobs/a/cancel")

    [message] = receiver.wait_for(1)

    assert (message.content["type"], message.content["data"]["to"]) == ("cancel", "cancelled")


def test_an_attempt_that_is_tried_again_is_no_end(live, receiver):
    options = {"callbackUrl": receiver.url, "id": "a", "backoffSchedule": [0, 0]}
    live.api.post("/queue/enqueue", {"value": 1, "options": options})
    for _ in range(3):
        message = live.api.get("/queue/poll", wait=5)["message"]
        live.api.post("/queue/nack", {"id": message["id"], "error": "boom"})

    receiver.wait_for(1)

    assert deliver_all(live, receiver) == 1


def test_a_result_that_is_not_kept_still_calls_back(live, receiver):
    """Without the longer retention, the job would be deleted before its callback."""
    run(live, "a", callback_url=receiver.url, result_ttl=0)

    [message] = receiver.wait_for(1)

    assert message.content["data"]["result"] == {"sum": 3}


def test_jobs_without_a_callback_call_nobody(live, receiver):
    run(live, "a", callback_url=receiver.url)
    run(live, "b")

    receiver.wait_for(1)

    assert deliver_all(live, receiver) == 1
    assert receiver.jobs == {"a": 1}


def test_a_job_of_the_library_calls_back(live, runtime, receiver):
    queue = Queues(runtime.store)["email"]
    queue.enqueue(1, id="a", callback_url=receiver.url)
    queue.complete(queue.claim(1)[0], "done")

    [message] = receiver.wait_for(1)

    assert message.content["data"]["result"] == "done"


def test_a_job_that_was_moved_calls_back(live, receiver):
    body = {"payload": 1, "id": "a", "callback_url": receiver.url}
    live.api.post("/v1/queues/email/jobs", body, 201)
    live.api.post("/v1/queues/email/jobs/a/move", {"to": "other"})
    live.api.post("/v1/queues/other/jobs/a/cancel")

    [message] = receiver.wait_for(1)

    assert message.content["data"]["queue"] == "other"


class TestLaterThanTheEnd:
    """The journal is read after a job has finished, when the job may have changed again."""

    @pytest.fixture
    def queues(self):
        store = MemoryStore()
        store.open()
        return Queues(store)

    def sent_to_callbacks(
        self, queues: Queues, name: str = "email"
    ) -> list[tuple[str | None, Any]]:
        """URLs and messages."""
        dispatcher = Dispatcher(queues.store)
        dispatcher.queues = (queues[name],)
        dispatcher.step()
        sent = delivery.open_queue(queues.store).jobs().jobs
        return [(job.payload.url, msgspec.json.decode(job.payload.body)["data"]) for job in sent]

    def completed(self, queues: Queues) -> ackline.Queue[Any, Any]:
        queue = queues["email"]
        queue.enqueue(1, id="a", callback_url="https://example.com/first")
        queue.complete(queue.claim(1)[0], "done")
        return queue

    @pytest.mark.parametrize("way", ["purged", "moved", "dropped"])
    def test_a_job_that_is_gone_has_called_back(self, queues, way):
        queue = self.completed(queues)
        match way:
            case "purged":
                queue.purge()
            case "moved":
                queue.move("a", "other")
            case _:
                queue.drop(force=True)

        [(url, data)] = self.sent_to_callbacks(queues)

        assert url == "https://example.com/first"
        assert (data["to"], data["result_left_out"]) == ("completed", True)

    def test_a_note_is_only_text(self, queues):
        queue = queues["email"]
        queue.enqueue(1, id="a", callback_url="https://example.com/first")
        [job] = queue.claim(1)
        queue.apply([complete(job.record, None, queue.policies.of(job.record), "relayed")])

        assert len(self.sent_to_callbacks(queues)) == 1

    def test_a_job_that_was_only_relayed_has_not_ended(self, queues):
        target = MemoryStore()
        target.open()
        queues["email"].enqueue(1, id="a", callback_url="https://example.com/first")

        Relay(queues["email"], Queues(target)["email"], maintenance=False).drain()

        assert self.sent_to_callbacks(queues) == []

    def test_each_life_calls_the_url_of_its_own(self, queues):
        queue = queues["email"]
        for url in ("https://example.com/first", "https://example.com/second"):
            queue.enqueue(1, id="a", callback_url=url, max_attempts=1)
            queue.fail(queue.claim(1)[0], url)
        queue.enqueue(1, id="a", max_attempts=1)

        sent = self.sent_to_callbacks(queues)

        assert [url for url, _ in sent] == [
            "https://example.com/first",
            "https://example.com/second",
        ]
        assert all(url in data["error"] for url, data in sent)


# --- subscriptions ---


def test_a_webhook_gets_matching_events(live, receiver):
    subscribe(live, receiver, acts=["complete"], queues=["email"], kinds=["welcome"])
    run(live, "wanted", kind="welcome")
    run(live, "another kind", kind="other")
    run(live, "another queue", queue="slow", kind="welcome")

    receiver.wait_for(1)

    assert deliver_all(live, receiver) == 1
    assert receiver.jobs == {"wanted": 1}


def test_a_webhook_gets_all_events_that_lead_to_a_state(live, receiver):
    subscribe(live, receiver, states=["queued", "completed"])
    run(live, "a")

    messages = receiver.wait_for(2)

    assert sorted(one.content["type"] for one in messages) == ["complete", "enqueue"]


def test_a_webhook_hears_of_a_failed_job_once(live, receiver):
    subscribe(live, receiver, states=["failed"])
    options = {"id": "a", "maxAttempts": 1}
    live.api.post("/queue/enqueue", {"value": 1, "options": options})
    message = live.api.get("/queue/poll")["message"]
    live.api.post("/queue/nack", {"id": message["id"], "error": "boom"})
    live.api.patch("/v1/queues/default/jobs/a", {"payload": 2})

    receiver.wait_for(1)
    assert deliver_all(live, receiver) == 1


def test_a_webhook_gets_no_earlier_events(live, receiver):
    run(live, "before")
    subscribe(live, receiver, acts=["complete"])
    run(live, "after")

    receiver.wait_for(1)

    assert deliver_all(live, receiver) == 1
    assert receiver.jobs == {"after": 1}


@pytest.mark.parametrize("queues", [["a", "b"], None])
def test_an_added_queue_sends_no_earlier_events(live, receiver, queues):
    made = subscribe(live, receiver, queues=["a"], acts=["enqueue"])
    live.api.post("/v1/queues/b/jobs", {"payload": 1, "id": "before"}, 201)
    assert deliver_all(live, receiver) == 0
    live.api.patch(f"/v1/webhooks/{made['id']}", {"queues": queues})
    for queue in ("a", "b"):
        live.api.post(f"/v1/queues/{queue}/jobs", {"payload": 1, "id": f"after-{queue}"}, 201)

    assert deliver_all(live, receiver) == 2
    assert receiver.jobs == {"after-a": 1, "after-b": 1}


class TestChangedQueues:
    """From which event on a webhook gets a queue's events, however its queues are changed."""

    def webhook(self, queues: list[str] | None) -> Webhook:
        info = MemoryStore().info()
        fields = filter_fields({"queues": queues})
        return msgspec.structs.replace(
            new_webhook("acme", "https://example.com/", info, **fields), since="1.0"
        )

    def change(self, webhook: Webhook, queues: list[str] | None, end: str) -> Webhook:
        return with_changes(webhook, filter_fields({"queues": queues}), end)

    def test_pending_events_are_still_delivered(self):
        wider = self.change(self.webhook(["a"]), ["a", "b"], "5.0")

        assert (wider.since_for("a"), wider.since_for("b")) == ("1.0", "5.0")

    def test_a_queue_that_was_removed_for_a_while_starts_over(self):
        narrow = self.change(self.webhook(["a", "b"]), ["a"], "5.0")
        wide = self.change(narrow, ["a", "b"], "9.0")

        assert (wide.since_for("a"), wide.since_for("b")) == ("1.0", "9.0")

    def test_from_some_to_all_and_back(self):
        every = self.change(self.webhook(["a"]), None, "5.0")
        some = self.change(every, ["a", "b"], "9.0")

        assert (every.since_for("a"), every.since_for("b")) == ("1.0", "5.0")
        assert (some.since_for("a"), some.since_for("b")) == ("1.0", "5.0")

    def test_from_all_to_some_adds_no_events(self):
        some = self.change(self.webhook(None), ["a"], "5.0")

        assert some.since_for("a") == "1.0"

    def test_reactivated_it_starts_now_for_all_queues(self):
        off = with_changes(
            self.change(self.webhook(["a"]), ["a", "b"], "5.0"), {"active": False}, "6.0"
        )
        on = with_changes(off, {"active": True}, "7.0")

        assert {on.since_for("a"), on.since_for("b")} == {"7.0"}


def test_an_inactive_webhook_gets_nothing(live, receiver):
    made = subscribe(live, receiver, acts=["complete"])
    live.api.patch(f"/v1/webhooks/{made['id']}", {"active": False})
    run(live, "a")
    assert deliver_all(live, receiver) == 0

    live.api.patch(f"/v1/webhooks/{made['id']}", {"active": True, "note": "back"})
    run(live, "b")

    receiver.wait_for(1)
    assert deliver_all(live, receiver) == 1
    assert receiver.jobs == {"b": 1}


def test_a_webhook_that_is_deleted_is_gone(live, receiver, runtime):
    made = subscribe(live, receiver)
    run(live, "a")
    receiver.wait_for(3)
    live.api.delete(f"/v1/webhooks/{made['id']}", 204)

    live.api.get(f"/v1/webhooks/{made['id']}", 404)
    live.api.delete(f"/v1/webhooks/{made['id']}", 404)
    queue = Queues(runtime.store)["email"]
    until(lambda: not queue.readers())


def test_the_journal_is_kept_until_webhooks_have_read_it(live, receiver, runtime):
    subscribe(live, receiver)
    run(live, "a")
    receiver.wait_for(3)

    assert [reader.name for reader in Queues(runtime.store)["email"].readers()] == ["webhooks"]


# --- signatures ---


def test_a_receiver_can_verify_the_signature(live, receiver):
    secret = subscribe(live, receiver, acts=["complete"])["secret"]
    run(live, "a")

    [message] = receiver.wait_for(1)

    assert Verifier(secret).verify(message.body, message.headers)["type"] == "complete"
    for changed in (
        message._replace(body=message.body + b" "),
        with_header(message, "webhook-id", "x"),
    ):
        with pytest.raises(WebhookVerificationError):
            Verifier(secret).verify(changed.body, changed.headers)


def with_header(message: Received, name: str, value: str) -> Received:
    return message._replace(headers={**message.headers, name: value})


def test_two_secrets_are_good_while_they_are_rotated(live, receiver):
    made = subscribe(live, receiver, acts=["complete"])
    path = f"/v1/webhooks/{made['id']}/rotate"
    second = live.api.post(path, {"overlap": 60})
    run(live, "a")
    receiver.wait_for(1)
    third = live.api.post(path, {})
    live.api.post(path, {"overlap": 0})
    fourth = live.api.post(path, {"overlap": 60})
    run(live, "b")

    [first_message, second_message] = receiver.wait_for(2)

    assert second["previous_until"] > time.time()
    for secret in (made["secret"], second["secret"]):
        assert Verifier(secret).verify(first_message.body, first_message.headers)
    assert Verifier(fourth["secret"]).verify(second_message.body, second_message.headers)
    for secret in (made["secret"], second["secret"], third["secret"]):
        with pytest.raises(WebhookVerificationError):
            Verifier(secret).verify(second_message.body, second_message.headers)


def test_callbacks_are_signed_with_a_secret_of_the_tenant(live, receiver):
    secret = live.api.post("/v1/webhooks/callbacks/rotate", {})["secret"]
    run(live, "a", callback_url=receiver.url)

    [message] = receiver.wait_for(1)

    assert Verifier(secret).verify(message.body, message.headers)


def test_a_secret_is_shown_once(live, receiver, runtime):
    made = subscribe(live, receiver)
    id = made["id"]

    shown = [live.api.get("/v1/webhooks"), live.api.get(f"/v1/webhooks/{id}")]
    shown += [live.api.patch(f"/v1/webhooks/{id}", {"note": "n"}), deliveries(live, id)]
    kept = repository.find(runtime.store, "default", id)

    assert made["secret"].startswith("whsec_")
    assert "whsec_" not in repr(shown) + repr(kept)


# --- when the receiver fails ---


def test_a_delivery_is_tried_again_under_the_same_id(live, receiver):
    made = subscribe(live, receiver, acts=["complete"])
    answers = iter([500, 301])
    receiver.answer = lambda _request: next(answers, 204)
    run(live, "a")

    messages = receiver.wait_for(3)

    assert len({one.id for one in messages}) == 1
    [made_now] = until(lambda: deliveries(live, made["id"], state="completed"))
    assert (made_now["attempts"], made_now["status"]) == (3, 204)
    assert [ended["message"] for ended in made_now["history"]] == [
        "the receiver answered 500",
        "the receiver answered 301: redirects are not followed",
    ]


def test_a_delivery_that_never_succeeds_fails_and_can_be_redelivered(live, receiver):
    made = subscribe(live, receiver, acts=["complete"])
    receiver.answer = lambda _request: 500
    run(live, "a")

    [failed] = until(lambda: deliveries(live, made["id"], state="failed"))
    assert (failed["attempts"], len(receiver.received)) == (3, 3)
    receiver.answer = lambda _request: 200
    path = f"/v1/webhooks/{made['id']}/deliveries/{failed['id']}/redeliver"
    live.api.post(path, status=202)

    [message] = receiver.wait_for(4)[3:]
    assert message.id == failed["id"]
    until(lambda: deliveries(live, made["id"], state="completed"))
    live.api.post(path, status=409)
    live.api.post(path.replace(failed["id"], "msg_x"), status=404)


def test_a_receiver_can_ask_for_a_later_retry(live, receiver):
    subscribe(live, receiver, acts=["complete"])
    times: list[float] = []

    def answer(_request: Received) -> Any:
        times.append(time.monotonic())
        return (503, {"retry-after": "1"}) if len(times) == 1 else 200

    receiver.answer = answer
    run(live, "a")

    receiver.wait_for(2)

    assert 0.9 < times[1] - times[0] < 5


def test_a_receiver_that_is_gone_is_not_called_again(live, receiver):
    made = subscribe(live, receiver, acts=["complete"])
    receiver.answer = lambda _request: 410
    run(live, "a")

    until(lambda: not live.api.get(f"/v1/webhooks/{made['id']}")["active"])

    run(live, "b")
    assert deliver_all(live, receiver) == 1


def test_a_delivery_to_a_slow_receiver_times_out_and_is_retried(live, receiver, runtime):
    made = subscribe(live, receiver, acts=["complete"])
    times = iter([1.0])

    def answer(_request: Received) -> int:
        time.sleep(next(times, 0.0))
        return 200

    receiver.answer = answer
    run(live, "a")

    [late] = until(lambda: deliveries(live, made["id"], state="completed"))

    assert [ended["message"] for ended in late["history"]] == ["no answer within 0.5 s"]


def test_a_test_message_is_sent(live, receiver):
    made = subscribe(live, receiver, queues=["none"])
    sent = live.api.post(f"/v1/webhooks/{made['id']}/test", status=202)

    [message] = receiver.wait_for(1)

    assert (message.id, message.content["type"]) == (sent["delivery"], "test")
    [listed] = until(lambda: deliveries(live, made["id"], state="completed"))
    assert (listed["id"], listed["type"], listed["status"]) == (message.id, "test", 200)


# --- whom it concerns ---


def test_invalid_webhooks_are_refused(live, receiver):
    for url in ("ftp://example.com/", "x", "https://ann:secret@example.com/"):
        live.api.post("/v1/webhooks", {"url": url}, 422)
        live.api.post("/v1/queues/q/jobs", {"payload": 1, "callback_url": url}, 422)
    made = subscribe(live, receiver)
    live.api.patch(f"/v1/webhooks/{made['id']}", {"url": "x"}, 422)
    live.api.post("/v1/webhooks", {"url": receiver.url, "acts": ["explode"]}, 400)
    many = [f"q{n}" for n in range(101)]
    live.api.post("/v1/webhooks", {"url": receiver.url, "queues": many}, 400)
    live.api.patch(f"/v1/webhooks/{made['id']}", {"kinds": many}, 400)
    live.api.post("/v1/webhooks/callbacks/rotate", {"overlap": 1e9}, 400)
    live.api.post("/v1/webhooks/callbacks/rotate", {})
    live.api.delete("/v1/webhooks/callbacks", 409)
    live.api.patch("/v1/webhooks/callbacks", {"url": receiver.url}, 422)
    live.api.post("/v1/webhooks/callbacks/test", status=409)


def test_the_webhooks_of_a_tenant_are_limited(receiver):
    few = msgspec.structs.replace(HERE, max_webhooks=1)
    live = fast_service.start(webhooks=few)
    try:
        subscribe(live, receiver)
        live.api.post("/v1/webhooks", {"url": receiver.url}, 409)
    finally:
        live.stop()


def test_a_text_in_another_delivery_does_not_list_it(live, receiver, runtime):
    """The list searches for a text, and results can be any JSON."""
    own = subscribe(live, receiver, queues=["none"])
    queue = Queues(runtime.store)["email"]
    queue.enqueue(1, callback_url=receiver.url)
    queue.complete(queue.claim(1)[0], {"tenant": "default", "webhook": own["id"], "body": 1})

    [message] = receiver.wait_for(1)

    assert f'{{"tenant":"default","webhook":"{own["id"]}"'.encode() in message.body
    assert deliveries(live, own["id"]) == []
    assert len(deliveries(live, "callbacks")) == 1


def test_loopback_is_not_called_unless_allowed(receiver):
    """The same call as above; only the settings differ."""
    strict = WebhookSettings(plain_http=True, backoff=(0.05,))
    live = fast_service.start(webhooks=strict)
    try:
        made = subscribe(live, receiver, acts=["complete"])
        run(live, "a")
        [refused] = until(lambda: deliveries(live, made["id"], state="failed"))
    finally:
        live.stop()

    assert refused["attempts"] == 1
    assert refused["history"][0]["message"].startswith("not sent: 127.0.0.1 is not a public")
    assert receiver.received == []


def test_a_tenant_gets_only_events_of_its_own_jobs(receiver, tmp_path):
    signer = Signer()
    (tmp_path / "jwks.json").write_text(key_set(signer))
    live = fast_service.start(issuers=(issuer(jwks=str(tmp_path / "jwks.json")),))
    acme, beta = (bearer(signer.sign(tenant=name)) for name in ("acme", "beta"))
    try:
        body = {"url": receiver.url, "acts": ["enqueue"]}
        made = live.api.post("/v1/webhooks", body, 201, headers=acme)
        for headers, id in ((beta, "of beta"), (acme, "of acme")):
            live.api.post("/v1/queues/q/jobs", {"payload": 1, "id": id}, 201, headers=headers)
        receiver.wait_for(1)

        assert live.api("GET", "/v1/webhooks", headers=beta) == {"webhooks": []}
        path = f"/v1/webhooks/{made['id']}"
        for method, end in (("GET", ""), ("DELETE", ""), ("POST", "/test"), ("GET", "/deliveries")):
            live.api(method, path + end, 404, headers=beta)
        for scope in ("read", "produce", "consume"):
            live.api("GET", path, 403, headers=bearer(signer.sign(scope=scope)))
        live.api("GET", path, 403, headers=bearer(signer.sign(queues=["q"])))
        assert deliver_all(live, receiver) == 1
    finally:
        live.stop()
    assert receiver.jobs == {"of acme": 1}


def test_a_producer_over_http_can_set_a_callback(receiver, tmp_path):
    """With only the scope to produce."""
    signer = Signer()
    (tmp_path / "jwks.json").write_text(key_set(signer))
    live = fast_service.start(issuers=(issuer(jwks=str(tmp_path / "jwks.json")),))
    try:
        with ackline.open(live.url, token=signer.sign(scope="produce", queues=["q"])) as queues:
            queues["q"].enqueue(1, id="a", callback_url=receiver.url)
        Queues(live.runtime.store, "acme")["q"].cancel("a")
        receiver.wait_for(1)
    finally:
        live.stop()
    assert receiver.jobs == {"a": 1}


# --- several at once ---


def test_two_dispatchers_make_each_delivery_once(monkeypatch):
    store = MemoryStore()
    store.open()
    queues = Queues(store)
    queue = queues["email"]
    for number in range(50):
        queue.enqueue(number, id=str(number), callback_url="https://example.com/")
    for job in queue.claim(50):
        queue.complete(job, None)
    both = [Dispatcher(store), Dispatcher(store)]
    with monkeypatch.context() as patched:
        # Each enqueues its deliveries, and stops before it saves its position.
        patched.setattr("ackline.queue.JournalReader.save", lambda _reader: None)
        for dispatcher in both:
            dispatcher.queues = (queue,)
            dispatcher.step()
            assert dispatcher.stats().done["dispatched"] >= 50
    for dispatcher in both * 2:
        dispatcher.step()

    counts = delivery.open_queue(store).counts()
    assert counts[State.QUEUED] == 50
