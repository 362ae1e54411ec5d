"""API keys and tickets: creation, restrictions, revocation, and secrecy."""

from __future__ import annotations

import datetime
import io
import json
import logging
import threading
import time

import httpx
import msgspec
import pytest
from httpx_sse import connect_sse
from tests.service.auth.issuers import bearer
from tests.service.conftest import Api, Live, client_for

from ackline.cli.app import run
from ackline.core.job import QueueKey
from ackline.queues import Queues
from ackline.service import Settings
from ackline.service.auth import api_keys, tickets
from ackline.service.auth.api_keys import PREFIX, list_keys, new_key, revoke_key, store_key
from ackline.service.auth.caller import Caller
from ackline.service.auth.credentials import SERVICE_TENANT, ApiKey, hash_of
from ackline.service.auth.permissions import Scope
from ackline.service.auth.principal import Principal
from ackline.service.http.problems import Unauthorized
from ackline.service.runtime import Runtime
from ackline.service.settings import load
from ackline.stores.registry import store_from_url


def made(**limits):
    text, id = new_key()
    output = {"name": "billing", "tenant": "acme", "scopes": frozenset(Scope), **limits}
    return text, ApiKey(id=id, hash=hash_of(text), **output)


@pytest.fixture
def settings():
    return Settings(store="memory://", stored_keys=True, maintenance=False, drain=0.0)


@pytest.fixture
def runtime(settings):
    return Runtime.from_settings(settings)


@pytest.fixture
def client(runtime):
    with client_for(runtime, "http://queue.example.com") as client:
        yield client


@pytest.fixture
def api_for(runtime, client):
    """The API with a new key with these restrictions."""

    def make(**limits):
        text, key = made(**limits)
        store_key(runtime.store, key)

        class AuthenticatedApi(Api):
            def __call__(self, method, path, status=200, **options):
                headers = {**bearer(text), **options.pop("headers", {})}
                return super().__call__(method, path, status, headers=headers, **options)

        return AuthenticatedApi(client, "/api")

    return make


class TestKeys:
    def test_allow_what_they_were_created_for(self, api_for):
        producer = api_for(scopes=frozenset({Scope.PRODUCE}), queues=frozenset({"default"}))

        producer.enqueue(1)
        producer.get("/queue/poll", 403)
        assert "email" in producer.post("/v1/queues/email/jobs", {"payload": 1}, 403)["detail"]

    def test_are_kept_as_a_hash(self, runtime, api_for):
        api = api_for()
        api.enqueue(1)

        ((entry),) = runtime.store.read_keys(SERVICE_TENANT, (), 10)
        assert b"sha256:" in entry.value
        (key,) = list_keys(runtime.store)
        assert key.matches("ack_nobody") is False

    def test_are_refused_a_moment_after_they_were_revoked(self, runtime, api_for, monkeypatch):
        api = api_for()
        api.get("/queue/stats")
        (key,) = list_keys(runtime.store)
        assert revoke_key(runtime.store, key.id)
        assert not revoke_key(runtime.store, key.id)

        later = time.monotonic() + api_keys.CACHE_SECONDS
        monkeypatch.setattr(time, "monotonic", lambda: later)
        api.get("/queue/stats", 401)

    def test_expire(self, api_for):
        now = datetime.datetime.now(datetime.UTC)
        api_for(expires=now + datetime.timedelta(hours=1)).get("/queue/stats")
        api_for(expires=now - datetime.timedelta(seconds=1)).get("/queue/stats", 401)

    def test_from_the_file_need_no_store(self, tmp_path):
        text, key = made()
        file = tmp_path / "service.toml"
        file.write_text(
            f'store = "memory://"\n[[api_keys]]\nid = "{key.id}"\nhash = "{key.hash}"\n'
            'name = "billing"\ntenant = "acme"\nscopes = ["read"]\n'
        )
        settings = load(file, {})
        with client_for(settings) as client:
            good = client.get("/api/queue/stats", headers=bearer(text))
            wrong = client.get("/api/queue/stats", headers=bearer(text[:-1] + "!"))
        assert (good.status_code, wrong.status_code) == (200, 401)

    @pytest.mark.parametrize("hash", ["", "sha256:12", "md5:" + "0" * 64, "sha256:" + "G" * 64])
    def test_an_invalid_hash_is_refused(self, hash):
        with pytest.raises(ValueError, match="hex"):
            ApiKey(id="a", hash=hash, name="n", tenant="t", scopes=frozenset())

    def test_nobody_can_belong_to_the_service_tenant(self):
        with pytest.raises(ValueError, match="own"):
            made(tenant=SERVICE_TENANT)

    def test_cannot_be_reached_by_the_routes_of_keys(self, api_for):
        api = api_for(tenant="default")
        assert api.get("/keys") == []
        assert api.get("/keys", prefix="ackline") == []
        api.get("/keys/ackline/api-keys", 404)
        query = {"prefix": ["ackline", "api-keys"], "limit": 10}
        assert api.post("/v1/store/read_keys", query) == []


class TestKinds:
    """With a key for some kinds, jobs of others do not exist."""

    @pytest.fixture
    def apis(self, api_for):
        return api_for(), api_for(kinds=frozenset({"mine"}))

    def test_are_all_that_it_can_access(self, apis):
        whole, api = apis
        body = {"payload": 1, "id": "theirs", "kind": "theirs", "max_attempts": 1}
        whole.post("/v1/queues/email/jobs", body, 201)
        (job,) = whole.post("/v1/queues/email/claim", {})["jobs"]
        lease = {"id": "theirs", "token": job["token"]}

        done = {"outcomes": [{**lease, "outcome": "complete"}]}
        assert not api.post("/v1/queues/email/settle", done)["results"][0]["ok"]
        assert api.post("/v1/queues/email/extend", {"leases": [lease]})["lost"] == ["theirs"]
        for verb in ("ack", "nack", "touch"):
            api.post(f"/queue/{verb}", {"id": "theirs", "queue": "email"}, 404)
        api.get("/v1/queues/email/jobs/theirs", 404)
        api.get("/v1/queues/email/jobs/theirs/result", 404)
        api.post("/v1/queues/email/jobs/theirs/cancel", status=404)
        assert api.post("/v1/queues/email/purge")["changed"] == 0
        for act in ("pause", "resume"):
            api.post(f"/v1/queues/email/{act}", status=403)
        api.delete("/v1/queues/email", 403)
        api.post("/v1/queues/email/rename", {"to": "x"}, 403)
        api.get("/keys", 403)

        # The control: the same, by who may.
        assert whole.post("/v1/queues/email/settle", done)["results"][0]["ok"]
        assert whole.post("/v1/queues/email/jobs", body)["result"] is None
        assert "result" not in api.post("/v1/queues/email/jobs", {**body, "kind": "mine"})

    def test_also_in_the_dead_letters(self, apis):
        whole, api = apis
        for kind in ("mine", "theirs"):
            body = {"payload": 1, "id": kind, "kind": kind, "max_attempts": 1}
            whole.post("/v1/queues/default/jobs", body, 201)
            whole.get("/queue/poll")
            whole.post("/queue/nack", {"id": kind})

        assert [letter["id"] for letter in api.get("/queue/dlq")] == ["mine"]
        api.get("/queue/dlq/theirs", 404)
        api.post("/queue/dlq/theirs/requeue", status=404)
        api.delete("/queue/dlq/theirs", 404)
        assert api.delete("/queue/dlq") == {"deletedCount": 1}
        assert [letter["id"] for letter in whole.get("/queue/dlq")] == ["theirs"]

    def test_other_kinds_do_not_crowd_out_search_hits(self, apis):
        whole, api = apis
        for n in range(30):
            body = {"payload": 1, "id": f"job-{n}", "kind": "theirs" if n < 29 else "mine"}
            whole.post("/v1/queues/email/jobs", body, 201)

        found = api.get("/v1/search", text="job-")

        assert [hit["job"]["id"] for hit in found["hits"]] == ["job-29"]

    def test_a_timeline_is_without_the_job_that_had_the_id_before(self, apis):
        whole, api = apis
        for kind in ("theirs", "mine"):
            body = {"payload": 1, "id": "a", "kind": kind, "max_attempts": 1}
            whole.post("/v1/queues/default/jobs", body, 201)
            whole.get("/queue/poll")
            whole.post("/queue/nack", {"id": "a", "error": f"of {kind}"})

        timeline = api.get("/v1/queues/default/jobs/a")["timeline"]

        assert [event["kind"] for event in timeline] == ["mine"] * 3
        assert len(whole.get("/v1/queues/default/jobs/a")["timeline"]) == 6

    def test_a_search_reveals_nothing_of_others(self, apis):
        whole, api = apis
        whole.post("/v1/queues/email/jobs", {"payload": 1, "id": "ab", "kind": "mine"}, 201)
        before = [api.get("/v1/search", text=text) for text in ("a", "theirs")]
        for id in ("a", *range(20)):
            body = {"payload": 1, "id": str(id), "kind": "theirs"}
            whole.post("/v1/queues/email/jobs", body, 201)

        assert [api.get("/v1/search", text=text) for text in ("a", "theirs")] == before
        assert [hit["job"]["id"] for hit in before[0]["hits"]] == ["ab"]

    def test_and_in_its_schedules(self, apis):
        whole, api = apis
        whole.put("/v1/queues/email/schedules/s", {"cron": "* * * * *", "kind": "theirs"})

        assert api.get("/v1/queues/email/schedules") == {"schedules": []}
        api.delete("/v1/queues/email/schedules/s", 404)
        whole.delete("/v1/queues/email/schedules/s", 204)

    def test_the_name_of_a_schedule_of_another_kind_is_refused(self, apis):
        whole, api = apis
        path = "/v1/queues/email/schedules/s"
        whole.put(path, {"cron": "* * * * *", "kind": "theirs", "payload": "precious"})

        problem = api.put(path, {"cron": "* * * * *", "kind": "mine"}, 409)

        assert "'s' is taken by a schedule that your token cannot access" in problem["detail"]
        assert whole.get(path)["payload"] == "precious"
        whole.delete(path, 204)
        api.put(path, {"cron": "* * * * *", "kind": "mine"})
        assert api.put(path, {"cron": "0 * * * *", "kind": "mine"})["cron"] == "0 * * * *"


class TestKeysIfUndelivered:
    """Keys belong to the whole tenant: restricted callers cannot write them indirectly."""

    @pytest.mark.parametrize(
        "limit", [{"queues": frozenset({"q"})}, {"kinds": frozenset({"default"})}]
    )
    def test_are_refused_to_restricted_tokens_by_every_route(self, api_for, limit):
        whole, limited = api_for(), api_for(**limit)
        keys = [["config", "price"]]
        job = {"payload": 1, "keys_if_undelivered": keys}
        message = {"value": 1, "options": {"queue": "q", "keysIfUndelivered": keys}}
        options = {"keys_if_undelivered": keys}
        draft = {"id": "z", "kind": "default", "payload": "MQ==", "options": options}
        schedule = {"cron": "* * * * *", "keys_if_undelivered": keys}

        limited.post("/v1/queues/q/jobs", job, 403)
        limited.post("/v1/queues/q/jobs/batch", {"jobs": [{"payload": 1}, job]}, 403)
        limited.post("/queue/enqueue", message, 403)
        line = msgspec.json.encode(job)
        assert limited("POST", "/v1/queues/q/import", content=line)["problem"]["status"] == 403
        limited.post("/v1/store/enqueue", {"queue": "q", "drafts": [draft]}, 403)
        limited.put("/v1/queues/q/schedules/s", schedule, 403)

        # The control: the same, by who may.
        whole.post("/v1/queues/q/jobs", job, 201)
        whole.post("/v1/store/enqueue", {"queue": "q", "drafts": [draft]})
        limited.post("/v1/queues/q/jobs", {"payload": 1, "keys_if_undelivered": []}, 201)


class TestHealth:
    def test_metrics_are_of_the_tenant_unless_for_an_operator(self, runtime, client, api_for):
        api_for(tenant="acme").enqueue(1)
        beta = api_for(tenant="beta")
        beta.enqueue(1)
        beta.enqueue(1, queue="secret")

        def metrics(**limits):
            text, key = made(tenant="beta", **limits)
            store_key(runtime.store, key)
            answer = client.get("/metrics", headers=bearer(text))
            assert answer.status_code == 200
            return answer.text

        assert 'tenant="beta"' in (mine := metrics())
        assert "acme" not in mine
        assert "http_requests" not in mine
        assert "secret" not in metrics(queues=frozenset({"default"}))
        assert 'tenant="acme"' in (everything := metrics(operator=True))
        assert "http_requests" in everything

    def test_unauthenticated_callers_get_no_details(self, client, api_for):
        assert client.get("/livez").status_code == 200
        assert client.get("/readyz").json() == {"ready": True, "checks": {}}
        assert client.get("/readyz", headers=bearer("ack_wrong")).status_code == 401
        api = api_for()
        api.base = ""
        assert api.get("/readyz")["checks"]["store"]["ok"]


class TestForeignKinds:
    """The id of a failed job can be enqueued again, but only by callers that may access it."""

    @pytest.fixture
    def limited(self, api_for):
        api = api_for()
        api.post("/v1/queues/q/jobs", {"payload": "precious", "id": "z", "kind": "two"}, 201)
        [job] = api.post("/v1/queues/q/claim", {"limit": 1})["jobs"]
        bury = {"id": "z", "token": job["token"], "outcome": "bury"}
        api.post("/v1/queues/q/settle", {"outcomes": [bury]})
        return api_for(kinds=frozenset({"one"}))

    def test_a_failed_job_is_not_replaced(self, limited, runtime):
        job = {"payload": 1, "id": "z", "kind": "one"}
        message = {"value": 1, "options": {"id": "z", "kind": "one", "queue": "q"}}

        limited.post("/v1/queues/q/jobs", job, 409)
        limited.post("/v1/queues/q/jobs/batch", {"jobs": [job]}, 409)
        limited.post("/queue/enqueue", message, 409)
        line = msgspec.json.encode(job)
        assert limited("POST", "/v1/queues/q/import", content=line)["problem"]["status"] == 409
        draft = {"id": "z", "kind": "one", "payload": "MQ=="}
        limited.post("/v1/store/enqueue", {"queue": "q", "drafts": [draft]}, 409)

        [kept] = runtime.store.get(QueueKey("acme", "q"), ["z"])
        assert (kept.kind, kept.payload) == ("two", b'"precious"')

    def test_nor_one_that_fails_after_the_check(self, limited, runtime, monkeypatch):
        """The check was too early, but the store still refuses to replace the job."""
        monkeypatch.setattr(Caller, "require_replaceable_blocking", lambda *_seen: None)
        job = {"payload": 1, "id": "z", "kind": "one"}
        message = {"value": 1, "options": {"id": "z", "kind": "one", "queue": "q"}}
        draft = {"id": "z", "kind": "one", "payload": "MQ=="}

        limited.post("/v1/queues/q/jobs", job, 409)
        batch = {"jobs": [job, {**job, "id": "y"}]}
        answers = limited.post("/v1/queues/q/jobs/batch", batch)["jobs"]
        assert [(answer["id"], answer["state"]) for answer in answers] == [
            ("z", "failed"),
            ("y", "queued"),
        ]
        limited.post("/queue/enqueue", message, 409)
        line = msgspec.json.encode(job)
        assert limited("POST", "/v1/queues/q/import", content=line)["enqueued"] == 0
        limited.post("/v1/store/enqueue", {"queue": "q", "drafts": [draft]})

        [kept] = runtime.store.get(QueueKey("acme", "q"), ["z"])
        assert (kept.kind, kept.payload) == ("two", b'"precious"')

    def test_jobs_of_own_kinds_are_replaced(self, limited):
        job = {"payload": 1, "id": "y", "kind": "one"}

        limited.post("/v1/queues/q/jobs", job, 201)


class TestTickets:
    @pytest.fixture
    def store(self):
        store = store_from_url("memory://")
        store.open()
        yield store
        store.close()

    def test_open_one_stream_once(self, runtime):
        text, key = made(scopes=frozenset({Scope.READ, Scope.PRODUCE}))
        live = Live(runtime)
        try:
            store_key(runtime.store, key)
            headers = bearer(text)
            answer = live.client.post("/api/v1/tickets", headers=headers).json()
            stream = f"{live.url}/api/v1/events/stream?ticket={answer['ticket']}"
            assert answer["expires_in"] == 30

            with httpx.Client(timeout=10) as browser, connect_sse(browser, "GET", stream) as source:
                events = source.iter_sse()
                assert next(events).event == "ping"
                body = {"value": 1}
                live.client.post("/api/queue/enqueue", json=body, headers=headers)
                assert next(events).event == "enqueue"

            assert httpx.get(stream).status_code == 401
        finally:
            live.stop()

    def test_open_streams_only(self, client, api_for):
        ticket = api_for().post("/v1/tickets", status=201)["ticket"]

        assert client.get(f"/api/queue/stats?ticket={ticket}").status_code == 401
        assert client.get(f"/metrics?ticket={ticket}").status_code == 401

    def test_have_the_permissions_of_their_caller(self, client, api_for):
        ticket = api_for(scopes=frozenset({Scope.READ})).post("/v1/tickets", status=201)["ticket"]

        assert client.get(f"/api/queue/listen?ticket={ticket}").status_code == 403

    def test_a_token_is_never_taken_from_a_url(self, client, runtime):
        text, key = made()
        store_key(runtime.store, key)

        for name in ("token", "access_token", "ticket", "key", "authorization"):
            assert client.get(f"/api/v1/events/stream?{name}={text}").status_code == 401

    def test_are_redeemed_by_one_of_many(self, store):
        ticket = tickets.issue(store, Principal("acme", frozenset()))
        ready, got = threading.Barrier(8), []

        def use():
            ready.wait()
            try:
                got.append(tickets.redeem(store, ticket).tenant)
            except Unauthorized:
                got.append("refused")

        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(got) == ["acme", *["refused"] * 7]

    def test_of_one_process_open_a_stream_of_another(self, tmp_path):
        one, another = (store_from_url(f"sqlite:///{tmp_path}/jobs.db") for _ in range(2))
        for store in (one, another):
            store.open()
        try:
            ticket = tickets.issue(one, Principal("acme", frozenset({Scope.READ})))
            assert tickets.redeem(another, ticket) == Principal("acme", frozenset({Scope.READ}))
            with pytest.raises(Unauthorized):
                tickets.redeem(one, ticket)
        finally:
            for store in (one, another):
                store.close()

    def test_expire_and_are_deleted(self, store, monkeypatch):
        old = [tickets.issue(store, Principal("acme", frozenset())) for _ in range(3)]
        later = time.time() + tickets.TTL + 1
        monkeypatch.setattr(time, "time", lambda: later)

        with pytest.raises(Unauthorized):
            tickets.redeem(store, old[0])
        tickets.issue(store, Principal("acme", frozenset()))
        assert len(store.read_keys(SERVICE_TENANT, tickets.TICKETS_PREFIX, 10)) == 1

    @pytest.mark.parametrize("text", ["", "x", "-", "1-", "9" * 20 + "-x", "٣-x"])
    def test_invalid_ones_are_refused(self, store, text):
        with pytest.raises(Unauthorized):
            tickets.redeem(store, text)

    def test_are_stored_as_hashes(self, store):
        ticket = tickets.issue(store, Principal("acme", frozenset()))
        (kept,) = store.read_keys(SERVICE_TENANT, tickets.TICKETS_PREFIX, 10)

        assert ticket.partition("-")[2] not in str(kept)


def test_a_stream_ends_when_its_credential_expires(runtime, monkeypatch):
    text, key = made()
    monkeypatch.setattr(api_keys, "STREAM_AUTH_SECONDS", 0.3)
    live = Live(runtime)
    try:
        store_key(runtime.store, key)
        for path in ("/api/queue/listen", "/api/v1/events/stream", "/api/watch"):
            with live.client.stream("GET", path, headers=bearer(text)) as answer:
                assert answer.status_code == 200
                assert list(answer.iter_text())  # and then it ends
    finally:
        live.stop()


def test_tenants_stream_their_own_messages_only(runtime):
    live = Live(runtime)
    try:
        (acme, of_acme), (beta, of_beta) = made(tenant="acme"), made(tenant="beta")
        for key in (of_acme, of_beta):
            store_key(runtime.store, key)
        Queues(runtime.store, "beta")["default"].enqueue("of beta")
        with connect_sse(live.client, "GET", "/api/queue/listen", headers=bearer(acme)) as source:
            events = source.iter_sse()
            assert next(events).event == "ping"
            live.client.post("/api/queue/enqueue", json={"value": "of acme"}, headers=bearer(acme))
            message = json.loads(next(events).data)
            assert message["value"] == "of acme"
            body = {"id": message["id"], "receipt": message["receipt"]}
            answer = live.client.post("/api/queue/ack", json=body, headers=bearer(beta))
            assert answer.status_code == 404
    finally:
        live.stop()


def test_secrets_are_in_no_log_and_no_answer(runtime, client, monkeypatch):
    """Even when something breaks in between, with all logging enabled."""
    text, key = made()
    store_key(runtime.store, key)
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    # What the client logs of its own requests is not the service's.
    handler.addFilter(lambda record: not record.name.startswith("http"))
    root = logging.getLogger()
    monkeypatch.setattr(root, "level", logging.DEBUG)
    root.addHandler(handler)
    try:
        ticket = client.post("/api/v1/tickets", headers=bearer(text)).json()["ticket"]
        answers = [client.get("/api/queue/stats", headers=bearer(text + "x"))]
        answers.append(client.get(f"/api/queue/stats?ticket={ticket}"))
        monkeypatch.setattr(runtime.store, "describe", _broken)
        answers.append(client.get("/api/v1/queues", headers=bearer(text)))
    finally:
        root.removeHandler(handler)

    assert [answer.status_code for answer in answers] == [401, 401, 500]
    assert "a bug" in log.getvalue()  # the control: the error was logged
    secret = text.removeprefix(PREFIX).partition("_")[2]
    for written in (log.getvalue(), *(answer.text for answer in answers)):
        assert secret not in written
        assert ticket not in written
        assert key.hash not in written


def _broken(*_arguments):
    raise RuntimeError("a bug")


def test_several_processes_know_the_same_keys_and_tickets(serve, tmp_path, capsys):
    arguments = ["token", "create", "page", "--tenant", "acme", "--scope", "read"]
    assert run([*arguments, "--store", f"sqlite:///{tmp_path}/ackline.db"]) == 0
    headers = bearer(capsys.readouterr().out.strip())
    url = serve("--stored-keys", "--processes", "2").url

    assert httpx.get(f"{url}/queue/stats", timeout=20).status_code == 401
    for _ in range(10):  # a connection each: made by one process, often used in the other
        answer = httpx.post(f"{url}/v1/tickets", headers=headers, timeout=20).json()
        stream = f"{url}/v1/events/stream?ticket={answer['ticket']}"
        with httpx.Client(timeout=20) as browser, connect_sse(browser, "GET", stream) as source:
            events = source.iter_sse()
            assert next(events).event == "ping"
        assert httpx.get(stream, timeout=20).status_code == 401


class TestCommand:
    @pytest.fixture
    def store(self, tmp_path):
        return f"sqlite:///{tmp_path}/jobs.db"

    def test_creates_a_key_for_the_service(self, store, capsys):
        arguments = ["billing", "--tenant", "acme", "--scope", "produce", "--queue", "email"]
        assert run(["token", "create", *arguments, "--expires", "1d", "--store", store]) == 0
        output = capsys.readouterr()
        text = output.out.strip()
        assert "--stored-keys" in output.err

        settings = Settings(store=store, stored_keys=True, maintenance=False, drain=0.0)
        with client_for(settings) as client:
            path = "/api/v1/queues/email/jobs"
            answer = client.post(path, json={"payload": 1}, headers=bearer(text))
            assert answer.status_code == 201
            assert client.get(path, headers=bearer(text)).status_code == 403

    def test_lists_and_revokes(self, store, capsys):
        run(["token", "create", "billing", "--scope", "read", "--store", store, "--json"])
        made = json.loads(capsys.readouterr().out)

        assert run(["token", "list", "--store", store, "--json"]) == 0
        listed = json.loads(capsys.readouterr().out)
        assert (listed["id"], listed["name"]) == (made["id"], "billing")
        assert "hash" not in listed
        assert run(["token", "revoke", made["id"], "--store", store]) == 0
        assert run(["token", "revoke", made["id"], "--store", store]) == 1
        assert run(["token", "list", "--store", store]) == 0

    def test_prints_the_settings_for_a_file(self, store, tmp_path, capsys):
        arguments = ["token", "create", "billing", "--tenant", "acme", "--scope", "read"]
        run([*arguments, "--operator", "--expires", "1h", "--for-file"])
        output = capsys.readouterr()
        file = tmp_path / "service.toml"
        file.write_text(output.err[output.err.index("[[api_keys]]") :])

        (key,) = load(file, {}).api_keys
        assert key.matches(output.out.strip())
        assert (key.tenant, key.operator) == ("acme", True)
        assert key.expires is not None

    def test_creates_tokens_and_prints_the_issuer_settings(self, tmp_path, capsys):
        arguments = ["token", "test", "--tenant", "acme", "--scope", "read", "--kind", "welcome"]
        assert run([*arguments, "--directory", str(tmp_path / "issuer")]) == 0
        output = capsys.readouterr()
        file = tmp_path / "service.toml"
        table = output.err[output.err.index("[[issuers]]") :]
        file.write_text(f'store = "memory://"\n{table}')

        assert (tmp_path / "issuer" / "private.pem").stat().st_mode & 0o077 == 0
        assert '"d"' not in (tmp_path / "issuer" / "jwks.json").read_text()
        with client_for(load(file, {})) as client:
            answer = client.get("/api/queue/stats", headers=bearer(output.out.strip()))
            assert answer.status_code == 200

    def test_refuses_an_unknown_scope(self, store):
        assert run(["token", "create", "x", "--scope", "root", "--store", store]) == 2

    def test_the_refusal_to_start_says_what_to_do(self, store, capsys):
        assert run(["serve", "--host", "0.0.0.0", "--store", store]) == 2
        output = capsys.readouterr().err
        assert "ackline token create" in output
        assert "--stored-keys" in output


def test_schedules_of_all_queues_are_those_that_one_may_see(api_for):
    whole = api_for()
    for queue, kind in (("a", "one"), ("a", "two"), ("b", "one")):
        schedule = {"cron": "0 3 * * *", "kind": kind}
        whole.put(f"/v1/queues/{queue}/schedules/{kind}", schedule)

    def seen(**limit):
        found = api_for(**limit).get("/v1/schedules")["schedules"]
        return [(one["queue"], one["kind"]) for one in found]

    assert seen() == [("a", "one"), ("a", "two"), ("b", "one")]
    assert seen(queues=frozenset({"b"})) == [("b", "one")]
    assert seen(kinds=frozenset({"two"})) == [("a", "two")]
    api_for(scopes=frozenset({Scope.CONSUME})).get("/v1/schedules", 403)
