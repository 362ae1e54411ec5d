"""The store API: permissions, and invalid arguments."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.service.conftest import client_for

from ackline import Queues
from ackline.core.config import DEFAULTS, Policy, QueueSettings
from ackline.core.cron import Schedule
from ackline.core.events import Act
from ackline.core.job import Draft, Failure, Options, QueueKey, State
from ackline.core.lifecycle import Edit as Change
from ackline.core.lifecycle import (
    Transition,
    bury,
    cancel,
    complete,
    edit,
    expected_from,
    expire,
    move,
    progress,
    redrive,
    request_cancel,
)
from ackline.core.reserved_keys import SERVICE_FAMILIES, KeyFamily
from ackline.queue import JournalReader
from ackline.queue.journal.saved_cursor import ALL_QUEUES, ReaderCursor
from ackline.service import Settings, schedules
from ackline.service.auth.permissions import (
    PERMISSION_OF_RESERVED_KEY,
    PERMISSIONS_OF_VERB,
    RULES,
    Scope,
)
from ackline.service.auth.principal import Principal
from ackline.service.callback_tenants import CallbackTenants
from ackline.service.limits.tenant_limits import TenantLimits
from ackline.service.readiness import CachedStoreChecks
from ackline.service.runtime import Runtime
from ackline.service.store_api import execute
from ackline.service.store_api.reserved_keys import RESERVED_KEYS
from ackline.stores.contract import (
    ClaimRequest,
    Filter,
    HealthIssue,
    Heartbeat,
    KeyWrite,
    LeaseExtension,
    Page,
)
from ackline.stores.memory import MemoryStore
from ackline.stores.wire import CONTINUE_AFTER_HEADER, JSON, LISTEN, MSGPACK, TENANT_HEADER, VERBS

KEY = QueueKey("acme", "mail")
HEARTBEAT = Heartbeat(id="w", host="h", pid=1, started_at=0.0, concurrency=1, kinds=None, ttl=9.0)
LEASED = Filter(states=frozenset({State.PROCESSING}))
REQUEST = ClaimRequest(worker="w", limit=5, lease=30.0)
ALL = frozenset(Scope)

CALLS: dict[str, dict[str, Any]] = {
    "info": {},
    "now": {},
    "next_due": {"queues": [KEY]},
    "enqueue": {"queue": KEY, "drafts": [Draft("new", "mail", b"1")], "keys": []},
    "claim": {"queue": KEY, "request": REQUEST, "transitions": []},
    "heartbeat": {
        "queue": KEY,
        "heartbeat": HEARTBEAT,
        "extensions": [LeaseExtension("a", 1, 30.0)],
    },
    "promote": {"queue": KEY, "limit": 5},
    "leases": {"queue": KEY, "worker": None, "limit": 5},
    "prune": {"queue": KEY, "limit": 5},
    "get": {"queue": KEY, "ids": ["a"]},
    "page": {"queue": KEY, "job_filter": LEASED, "cursor": None, "limit": 5},
    "describe": {"name": "mail"},
    "workers": {"queues": [KEY]},
    "events": {"queue": KEY, "after": None, "limit": 5},
    "purge": {"queue": KEY, "job_filter": Filter(), "limit": 5},
    "drop": {"queue": KEY},
}
"""A call of each method whose permission does not depend on its arguments."""


class Fixed:
    """Every request is from the caller that the test sets."""

    principal = Principal("acme", ALL, name="ann")

    def is_known(self, connection):
        return True

    async def authenticate(self, connection):
        return self.principal


@pytest.fixture(scope="module")
def running():
    """One service for all tests; each has its own store and caller."""
    runtime = Runtime(Settings(maintenance=False), MemoryStore(), Fixed())
    with client_for(runtime) as client:
        yield runtime, client


@pytest.fixture
def store(running):
    running[0].store = MemoryStore()
    return running[0].store


@pytest.fixture
def authenticator(running):
    running[0].authenticator.principal = Fixed.principal
    return running[0].authenticator


@pytest.fixture
def client(running, store, authenticator):
    return running[1]


@pytest.fixture
def call_store(client):
    """Calls a method as the library does."""

    def call(verb, status=200, /, **arguments):
        verb_format = VERBS[verb]
        answer = client.post(
            f"/api/v1/store/{verb}",
            content=verb_format.pack(arguments),
            headers={"content-type": MSGPACK},
        )
        assert answer.status_code == status, answer.text
        return (
            verb_format.formats[MSGPACK].responses.decode(answer.content)
            if status == 200
            else answer
        )

    return call


def apply(call_store, *steps, status=200):
    return call_store("apply", status, queue=KEY, transitions=steps)


def set_caller(authenticator, *scopes, **limits):
    authenticator.principal = Principal("acme", frozenset(scopes), name="ann", **limits)


class TestScopes:
    @pytest.mark.parametrize("verb", CALLS)
    @pytest.mark.parametrize("scope", Scope)
    def test_each_verb_needs_one_of_its_scopes(self, call_store, authenticator, verb, scope):
        set_caller(authenticator, scope)
        allowed = any(scope in RULES[access].scopes for access in PERMISSIONS_OF_VERB[verb])

        call_store(verb, 200 if allowed else 403, **CALLS[verb])

    @pytest.mark.parametrize("verb", CALLS)
    def test_without_scopes_nothing_is_allowed(self, call_store, authenticator, verb):
        set_caller(authenticator)

        assert "scope" in call_store(verb, 403, **CALLS[verb]).json()["detail"]

    def test_every_method_has_permissions(self):
        assert PERMISSIONS_OF_VERB.keys() == VERBS.keys() | {"listen"}
        assert CALLS.keys() == VERBS.keys() - {"apply", "configure", "read_keys", "write_keys"}

    @pytest.mark.parametrize(
        ("step", "needed"),
        [
            (Transition("a", Act.COMPLETE, State.COMPLETED, 7), Scope.CONSUME),
            (Transition("a", Act.CANCEL, State.CANCELLED, 7), Scope.CONSUME),
            (redrive("a", token=7, change=Change(payload=b"1")), Scope.ADMIN),
            (cancel("a", DEFAULTS), Scope.PRODUCE),
            (request_cancel("a"), Scope.PRODUCE),
            (redrive("a"), Scope.ADMIN),
            (edit("a", Change(priority=9)), Scope.ADMIN),
            (move("a", QueueKey("acme", "slow")), Scope.ADMIN),
        ],
    )
    def test_each_transition_needs_its_scope(self, call_store, authenticator, step, needed):
        for scope in Scope:
            set_caller(authenticator, scope)
            apply(call_store, step, status=200 if scope is needed else 403)
        set_caller(authenticator, *(ALL - {needed}))
        apply(call_store, step, status=403)

    def test_an_act_is_not_smuggled_in_with_a_claim(self, call_store, authenticator):
        call_store("enqueue", queue=KEY, drafts=[Draft("a", "mail", b"1")])
        set_caller(authenticator, Scope.CONSUME)

        call_store("claim", 403, queue=KEY, request=REQUEST, transitions=[redrive("a")])

        set_caller(authenticator, Scope.READ)
        [job] = call_store("get", queue=KEY, ids=["a"])
        assert job.state is State.QUEUED

    def test_the_limit_of_groups_is_not_passed_over_by_a_worker(self, call_store, authenticator):
        request = msgspec.structs.replace(REQUEST, ignore_group_limit=True)
        set_caller(authenticator, *(ALL - {Scope.ADMIN}))
        call_store("claim", 403, queue=KEY, request=request, transitions=[])
        set_caller(authenticator, *ALL)
        call_store("claim", queue=KEY, request=request, transitions=[])

    def test_a_worker_may_publish_its_policies_and_nothing_else(self, call_store, authenticator):
        set_caller(authenticator, Scope.CONSUME)
        stored = QueueSettings()
        mine = QueueSettings(kinds={"mail": Policy(max_attempts=5)})

        assert call_store("configure", queue=KEY, settings=mine, expected=stored) is True
        more = msgspec.structs.replace(mine, paused=True)
        call_store("configure", 403, queue=KEY, settings=more, expected=mine)
        call_store("configure", 403, queue=KEY, settings=more)

    @pytest.mark.parametrize(
        ("key", "scopes"),
        [
            (("mine",), {Scope.ADMIN}),
            (("ackline", "schedules", "mail", "nightly"), {Scope.ADMIN}),
            (("ackline", "recovered", "mail"), {Scope.ADMIN, Scope.CONSUME}),
            (("ackline", "attempts", "mail"), {Scope.ADMIN, Scope.CONSUME}),
            (("ackline", "cron", "mail", "nightly"), {Scope.ADMIN, Scope.CONSUME}),
            (("ackline", "readers", "mail", "audit"), {Scope.ADMIN, Scope.CONSUME, Scope.READ}),
            (("ackline", "queue", "mail", "relay"), {Scope.ADMIN, Scope.CONSUME, Scope.PRODUCE}),
        ],
    )
    def test_keys_are_written_by_those_they_belong_to(self, call_store, authenticator, key, scopes):
        write = KeyWrite(key=key, value=None)
        for scope in Scope:
            set_caller(authenticator, scope)
            call_store("write_keys", 200 if scope in scopes else 403, writes=[write])


class TestVisibility:
    """The library reads jobs by their ids; what it does not need is left out."""

    @pytest.fixture(autouse=True)
    def jobs(self, store):
        store.enqueue(KEY, [Draft(id, "mail", b'"secret"') for id in ("done", "leased", "queued")])
        [done, leased] = store.claim(KEY, ClaimRequest(worker="w", limit=2, lease=30.0)).jobs
        assert (done.id, leased.id) == ("done", "leased")
        store.apply(KEY, [complete(done, b'"result"', DEFAULTS), progress(leased, b'"half"')])

    @pytest.mark.parametrize(
        ("scopes", "payload", "half", "result"),
        [
            ({Scope.READ}, b'"secret"', b'"half"', b'"result"'),
            ({Scope.PRODUCE}, b"", None, b'"result"'),
            ({Scope.CONSUME}, b"", None, None),
            ({Scope.CONSUME, Scope.PRODUCE}, b"", None, b'"result"'),
            (ALL, b'"secret"', b'"half"', b'"result"'),
        ],
    )
    def test_of_a_job(self, call_store, authenticator, scopes, payload, half, result):
        set_caller(authenticator, *scopes)

        done, leased = call_store("get", queue=KEY, ids=["done", "leased"])

        assert (done.state, leased.state) == (State.COMPLETED, State.PROCESSING)
        assert (done.payload, leased.payload) == (payload, payload)
        assert (leased.progress, done.result) == (half, result)

    def test_of_a_jobs_options(self, call_store, authenticator, store):
        plain, url = Options(max_attempts=2), "https://a.example"
        settling = replace(plain, callback_url=url, keys_if_undelivered=(("k",),))
        options = replace(settling, headers={"cookie": "secret"}, trace="secret")
        store.enqueue(KEY, [Draft("options", "mail", b"1", options=options)])
        for scope, kept in (
            (Scope.READ, options),
            (Scope.CONSUME, settling),
            (Scope.PRODUCE, plain),
        ):
            set_caller(authenticator, scope)
            [job] = call_store("get", queue=KEY, ids=["options"])
            assert job.options == kept

    def test_of_a_job_that_an_admin_edits_or_moves(self, client, authenticator):
        for scopes, payload in ((ALL, "secret"), ({Scope.ADMIN}, None)):
            set_caller(authenticator, *scopes)
            for method, path, body in (
                ("PATCH", "mail/jobs/queued", {"priority": 1}),
                ("POST", "mail/jobs/queued/move", {"to": "other"}),
                ("POST", "other/jobs/queued/move", {"to": "mail"}),
            ):
                answer = client.request(method, f"/api/v1/queues/{path}", json=body).json()
                assert (answer["id"], answer["payload"]) == ("queued", payload)

    def test_of_a_lease(self, call_store, authenticator):
        set_caller(authenticator, Scope.CONSUME)
        [lease] = call_store("leases", queue=KEY, worker="w", limit=5)

        assert (lease.id, lease.payload, lease.progress) == ("leased", b"", None)
        # It is enough to take the lease back.
        [verdict] = apply(call_store, expire(lease, DEFAULTS, "gone"))
        assert verdict.applied

    @pytest.mark.parametrize(
        ("scope", "counts"),
        [
            (Scope.READ, set(State)),
            (Scope.ADMIN, set(State)),
            (Scope.CONSUME, set()),
            (Scope.PRODUCE, set()),
        ],
    )
    def test_of_a_queue(self, call_store, authenticator, store, scope, counts):
        settings = QueueSettings(policy=Policy(max_attempts=7))
        store.configure(KEY, settings)
        set_caller(authenticator, scope)

        [info] = call_store("describe", name="mail")

        assert info.settings == settings
        assert info.counts.keys() == counts
        call_store("describe", 200 if scope is Scope.READ else 403, name=None)

    @pytest.mark.parametrize(
        ("prefix", "scopes"),
        [
            ((), {Scope.READ, Scope.ADMIN}),
            (("mine",), {Scope.READ, Scope.ADMIN}),
            (("ackline",), {Scope.READ}),
            (("ackline", "of a later version"), {Scope.READ}),
            (("ackline", "schedules", "mail"), {Scope.READ, Scope.ADMIN}),
            (("ackline", "recovered", "mail"), {Scope.READ, Scope.CONSUME, Scope.ADMIN}),
            (("ackline", "callbacks", "mail"), {Scope.READ, Scope.PRODUCE, Scope.ADMIN}),
            (("ackline", "queue", "mail"), ALL),
        ],
    )
    def test_of_keys(self, call_store, authenticator, prefix, scopes):
        for scope in Scope:
            set_caller(authenticator, scope)
            call_store("read_keys", 200 if scope in scopes else 403, prefix=prefix, limit=5)

    def test_an_admin_does_not_list_other_reserved_keys(self, call_store, authenticator, store):
        keys = (("mine",), ("ackline", "of a later version", "mail"))
        store.write_keys("acme", [KeyWrite(key=key, value=b"1") for key in keys])
        set_caller(authenticator, Scope.ADMIN)

        assert [found.key for found in call_store("read_keys", prefix=(), limit=5)] == [("mine",)]

    @pytest.mark.parametrize(
        ("topic", "scopes"),
        [
            ("ready", {Scope.CONSUME, Scope.READ}),
            ("cancel_requests", {Scope.CONSUME, Scope.READ}),
            ("finished", {Scope.PRODUCE, Scope.READ}),
            ("changes", {Scope.READ}),
        ],
    )
    def test_of_notifications(self, running, client, authenticator, topic, scopes):
        running[0].streams.end_all()
        body = LISTEN.pack({"queues": [KEY], "topic": topic, "kinds": None})
        for scope in Scope:
            set_caller(authenticator, scope)
            answer = client.post(
                "/api/v1/store/listen", content=body, headers={"content-type": MSGPACK}
            )
            assert answer.status_code == (200 if scope in scopes else 403), scope

    def test_a_producer_cannot_delete_a_job_by_cancelling_it_for_no_time(
        self, call_store, authenticator, store
    ):
        set_caller(authenticator, Scope.PRODUCE)
        without_retention = msgspec.structs.replace(cancel("queued", DEFAULTS), keep=0.0)

        [verdict] = apply(call_store, without_retention)

        assert verdict.applied
        [job] = store.get(KEY, ["queued"])
        assert job.state is State.CANCELLED
        assert job.expires_at - job.finished_at == DEFAULTS.keep_cancelled

    def test_a_cancel_keeps_its_guard(self, call_store, store):
        [job] = store.get(KEY, ["queued"])
        seen = msgspec.structs.replace(expected_from(job), priority=job.priority + 1)

        [verdict] = apply(
            call_store, msgspec.structs.replace(cancel("queued", DEFAULTS), expected=seen)
        )

        assert (verdict.applied, verdict.state) == (False, State.QUEUED)

    def test_the_result_of_another_kind_is_not_in_a_receipt(
        self, call_store, authenticator, client
    ):
        again = [Draft("done", "mail", b"1")]
        sent = {"payload": 1, "id": "done", "kind": "other"}
        limits = {"kinds": frozenset({"other"})}

        for mine, others in (({}, limits), ({"kinds": frozenset({"mail"})}, limits)):
            set_caller(authenticator, Scope.PRODUCE, **mine)
            assert call_store("enqueue", queue=KEY, drafts=again)[0].result == b'"result"'
            set_caller(authenticator, Scope.PRODUCE, **others)
            foreign = [Draft("done", "other", b"1")]
            assert call_store("enqueue", queue=KEY, drafts=foreign)[0].result is None
            assert "result" not in client.post("/api/v1/queues/mail/jobs", json=sent).json()


@pytest.mark.parametrize("scopes", [{Scope.READ}, {Scope.READ, Scope.ADMIN}])
def test_only_admins_see_the_health_issues_of_the_store(
    running, client, call_store, authenticator, store, monkeypatch, scopes
):
    issue = HealthIssue("eviction", "jobs may be evicted", "set noeviction")
    info = msgspec.structs.replace(store.info(), issues=(issue,))
    monkeypatch.setattr(store, "info", lambda: info)
    set_caller(authenticator, *scopes)

    shown = client.get("/api/v1/overview").json()["store"]["issues"]

    assert [one["code"] for one in shown] == (["eviction"] if Scope.ADMIN in scopes else [])
    assert [one["code"] for one in shown] == [one.code for one in call_store("info").issues]
    running[0].store_checks = CachedStoreChecks()
    checks = client.get("/readyz").json()["checks"]
    assert {"store", "durability"} <= checks.keys()
    assert ("eviction" in checks) is (Scope.ADMIN in scopes)


class TestReservedKeys:
    """Reserved keys: the service reads them, so invalid ones are refused."""

    @pytest.mark.parametrize(
        ("key", "status"),
        [
            (("ackline",), 403),
            (("ackline", "schedules"), 403),
            (("ackline", "schedules", "mail"), 422),
            (("ackline", "schedules", "mail", "nightly"), 403),
            (("ackline", "schedules", "mail", "nightly", "more"), 422),
            (("ackline", "api-keys", "mail"), 403),
            (("ackline", "tickets", "mail"), 403),
            (("ackline", "webhooks", "mail", "x"), 403),
            (("ackline", "readyz", "mail"), 403),
            (("ackline", "of a later version", "mail"), 403),
            (("ackline", "cron"), 403),
            (("ackline", "cron", "mail"), 422),
            (("ackline", "recovered", "mail", "more"), 422),
            (("ackline", "readers", "mail"), 422),
            (("ackline", "cron", "", "nightly"), 422),
            (("ackline", "callbacks", "mail", "more"), 422),
        ],
    )
    def test_internal_keys_are_refused_even_to_an_admin(self, call_store, store, key, status):
        for value in (b"garbage", b"{}"):
            call_store("write_keys", status, writes=[KeyWrite(key=key, value=value, version=0)])

        assert store.read_keys("acme", (), 10) == []

    @pytest.mark.parametrize(
        ("key", "good"),
        [
            (("ackline", "cron", "mail", "nightly"), b'{"tick":5.0,"updated_at":5.0}'),
            (
                ("ackline", "recovered", "mail"),
                b'{"sweep":{"jobs":1,"dead_lettered":0,"last_at":5.0}}',
            ),
            (("ackline", "attempts", "mail"), b'{"":5,"welcome":3}'),
            (("ackline", "callbacks", "mail"), b"0.0"),
            (
                ("ackline", "readers", "mail", "audit"),
                b'{"cursor":"0.0","saved_at":0.0,"saved_by":"x"}',
            ),
            (("ackline", "readers", "", "lake"), b'{"cursor":"0.0","saved_at":0.0,"saved_by":"x"}'),
        ],
    )
    def test_an_invalid_value_is_refused(self, call_store, key, good):
        for bad in (b"garbage", b"\xff", b"[]", b'{"tick":1e300,"updated_at":-5.0}'):
            call_store("write_keys", 422, writes=[KeyWrite(key=key, value=bad, version=0)])

        assert call_store("write_keys", writes=[KeyWrite(key=key, value=good, version=0)]) is True

    def test_one_invalid_key_refuses_the_whole_write(self, call_store, store):
        good = KeyWrite(key=("ackline", "queue", "mail", "relay"), value=b"1")
        bad = KeyWrite(key=("ackline", "cron", "mail", "nightly"), value=b"garbage")

        call_store("write_keys", 422, writes=[good, bad])

        assert store.read_keys("acme", (), 10) == []

    def test_the_callbacks_key_is_neither_changed_nor_deleted(self, call_store):
        key = ("ackline", "callbacks", "mail")
        assert call_store("write_keys", writes=[KeyWrite(key=key, value=b"0.0", version=0)])

        for value, version in ((None, None), (b"1.0", None), (None, 1)):
            call_store("write_keys", 403, writes=[KeyWrite(key=key, value=value, version=version)])

    def test_the_state_of_a_service_schedule_is_not_writable(
        self, call_store, authenticator, store
    ):
        schedules.write(store, KEY, Schedule("nightly", "0 3 * * *"))
        state = KeyWrite(
            key=("ackline", "cron", "mail", "nightly"), value=b'{"tick":9e10,"updated_at":5.0}'
        )
        deletion = KeyWrite(key=state.key, value=None)

        call_store("write_keys", 403, writes=[state])
        set_caller(authenticator, Scope.CONSUME)
        call_store("write_keys", 403, writes=[deletion])
        set_caller(authenticator, Scope.ADMIN)
        call_store("write_keys", writes=[deletion])

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            (("ackline", "callbacks", "mail"), b"9999999.0"),
            (
                ("ackline", "readers", "mail", "a"),
                b'{"cursor":"9999999.0","saved_at":0.0,"saved_by":"x"}',
            ),
        ],
    )
    def test_a_cursor_beyond_the_end_is_refused(self, call_store, key, value):
        refused = call_store("write_keys", 422, writes=[KeyWrite(key=key, value=value, version=0)])

        assert "is beyond the journal's end" in refused.json()["detail"]

    def test_the_services_own_reader_is_not_moved(self, call_store, store):
        key = ("ackline", "readers", "mail", "webhooks")

        for value in (b'{"cursor":"0.0","saved_at":0.0,"saved_by":"x"}', None):
            call_store("write_keys", 403, writes=[KeyWrite(key=key, value=value)])

        assert store.read_keys("acme", (), 10) == []

    @pytest.mark.parametrize(
        "limits", [{"queues": frozenset({"mail"})}, {"kinds": frozenset({"m"})}]
    )
    def test_a_restricted_reader_cannot_read_all_queues(self, call_store, authenticator, limits):
        value = b'{"cursor":"0.0","saved_at":0.0,"saved_by":"x"}'
        write = KeyWrite(key=("ackline", "readers", "", "lake"), value=value)
        set_caller(authenticator, Scope.READ, **limits)

        call_store("write_keys", 403, writes=[write])

        set_caller(authenticator, Scope.READ)
        assert call_store("write_keys", writes=[write]) is True

    def test_what_a_reader_of_all_queues_needs_is_not_pruned(
        self, call_store, authenticator, store
    ):
        ReaderCursor(store, "acme", ALL_QUEUES, "lake").load(lambda: store.info().cursor)
        store.configure(KEY, QueueSettings(keep_journal=0.0))
        store.enqueue(KEY, [Draft("a", "mail", b"1")])
        set_caller(authenticator, Scope.CONSUME, queues=frozenset({"mail"}))

        call_store("prune", queue=KEY, limit=5)

        assert [event.id for event in store.events(KEY, None, 9)][-1] == "a"

    def test_what_a_reader_needs_is_not_pruned(self, call_store, authenticator, store, monkeypatch):
        store.configure(KEY, QueueSettings(keep_journal=0.0))
        JournalReader(store, KEY, "webhooks").read()
        store.enqueue(KEY, [Draft("a", "mail", b"1")])
        set_caller(authenticator, Scope.CONSUME)

        call_store("prune", queue=KEY, limit=5)
        call_store("prune", queue=KEY, limit=5, needed_after="9999999.0")

        assert [event.id for event in store.events(KEY, None, 9)][-1] == "a"
        call_store("prune", 400, queue=KEY, limit=5, needed_after="nowhere")

    def test_a_queue_is_dropped_with_its_schedules(self, call_store, store):
        schedules.write(store, KEY, Schedule("nightly", "0 3 * * *"))
        [entry] = store.read_keys("acme", ("ackline",), 10)

        call_store(
            "write_keys", writes=[KeyWrite(key=entry.key, value=None, version=entry.version)]
        )

        assert store.read_keys("acme", ("ackline",), 10) == []


class TestBatches:
    """The same batch limits as elsewhere."""

    @pytest.fixture(autouse=True)
    def few(self, running, monkeypatch):
        settings = msgspec.structs.replace(running[0].settings, max_batch=3)
        monkeypatch.setattr(running[0], "settings", settings)

    @pytest.mark.parametrize(
        ("verb", "arguments", "name", "one"),
        [
            ("enqueue", {"queue": KEY}, "drafts", lambda n: Draft(f"{n}", "mail", b"1")),
            (
                "enqueue",
                {"queue": KEY, "drafts": []},
                "keys",
                lambda n: KeyWrite(key=("ackline", "queue", "mail", f"{n}"), value=b"1"),
            ),
            ("apply", {"queue": KEY}, "transitions", lambda n: cancel(f"{n}", DEFAULTS)),
            (
                "claim",
                {"queue": KEY, "request": REQUEST},
                "transitions",
                lambda n: Transition(f"{n}", Act.COMPLETE, State.COMPLETED, 7),
            ),
            (
                "heartbeat",
                {"queue": KEY, "heartbeat": HEARTBEAT},
                "extensions",
                lambda n: LeaseExtension(f"{n}", 1, 30.0),
            ),
            ("get", {"queue": KEY}, "ids", str),
            ("write_keys", {}, "writes", lambda n: KeyWrite(key=("k", f"{n}"), value=b"1")),
        ],
    )
    def test_more_are_refused(self, call_store, store, verb, arguments, name, one):
        refused = call_store(verb, 413, **arguments, **{name: [one(n) for n in range(4)]})

        assert "the limit is 3" in refused.json()["detail"]
        assert store.describe(None) == []
        assert store.read_keys("acme", (), 9) == []
        call_store(verb, **arguments, **{name: [one(n) for n in range(3)]})

    def test_a_claim_is_limited_to_the_batch_size(self, call_store, store):
        store.enqueue(KEY, [Draft(f"{n}", "mail", b"1") for n in range(5)])

        assert len(call_store("claim", queue=KEY, request=REQUEST).jobs) == 3
        assert len(call_store("claim", queue=KEY, request=REQUEST).jobs) == 2

    @pytest.mark.parametrize("verb", ["page", "purge"])
    def test_the_ids_of_a_filter_are_limited(self, call_store, verb):
        which = Filter(ids=frozenset(map(str, range(10_001))))

        call_store(verb, 422, **{**CALLS[verb], "job_filter": which})


class TestTenants:
    def test_the_tenant_is_the_callers(self, call_store, store):
        call_store(
            "enqueue", queue=QueueKey("somebody else", "mail"), drafts=[Draft("a", "mail", b"1")]
        )

        assert [info.key for info in store.describe(None)] == [KEY]

    def test_another_tenant_is_refused(self, client):
        headers = {"content-type": MSGPACK, TENANT_HEADER: "other"}
        body = VERBS["describe"].pack({"name": None})

        answer = client.post("/api/v1/store/describe", content=body, headers=headers)

        assert answer.status_code == 403
        assert "'acme'" in answer.json()["detail"]

    def test_a_foreign_queue_is_never_seen(self, call_store, store):
        foreign = QueueKey("other", "mail")
        store.enqueue(foreign, [Draft("a", "mail", b"secret")])
        call_store("enqueue", queue=KEY, drafts=[Draft("mine", "mail", b"1")])

        assert [info.key for info in call_store("describe", name=None)] == [KEY]
        assert [event.id for event in call_store("events", queue=None, after=None, limit=1)] == [
            "mine"
        ]
        assert call_store("get", queue=KEY, ids=["a"]) == [None]
        assert call_store("claim", **CALLS["claim"]).jobs[0].id == "mine"

    def test_the_events_of_others_are_not_read(self, call_store, store, monkeypatch):
        for n in range(100):
            store.enqueue(QueueKey("other", "mail"), [Draft(f"{n}", "mail", b"secret")])
        call_store("enqueue", queue=KEY, drafts=[Draft("mine", "mail", b"1")])
        read, reads = store.events, []

        def counted(*arguments, **of):
            reads.append(found := read(*arguments, **of))
            return found

        monkeypatch.setattr(store, "events", counted)

        assert [event.id for event in call_store("events", queue=None, after=None, limit=1)] == [
            "mine"
        ]
        assert list(map(len, reads)) == [1]

    def test_skipping_invisible_events_ends_in_time_with_a_cursor(
        self, client, authenticator, store, monkeypatch
    ):
        monkeypatch.setattr(execute, "SKIP_TIME_LIMIT", -1.0)
        monkeypatch.setattr(execute, "SKIP_PAGE", 10)
        for n in range(15):
            store.enqueue(QueueKey("acme", "other"), [Draft(f"{n}", "mail", b"secret")])
        store.enqueue(KEY, [Draft("mine", "mail", b"1")])
        set_caller(authenticator, *Scope, queues=frozenset({KEY.name}))
        headers = {"content-type": JSON}

        def read(after):
            body = msgspec.json.encode({"queue": None, "after": after, "limit": 1})
            return client.post("/api/v1/store/events", content=body, headers=headers)

        first = read(None)
        second = read(first.headers[CONTINUE_AFTER_HEADER])

        assert first.json() == []
        assert [event["id"] for event in second.json()] == ["mine"]
        assert CONTINUE_AFTER_HEADER not in second.headers
        assert read(second.json()[0]["cursor"]).json() == []

    def test_a_job_is_not_moved_to_another_tenant(self, call_store, store):
        call_store("enqueue", queue=KEY, drafts=[Draft("a", "mail", b"1")])

        [verdict] = apply(call_store, move("a", QueueKey("other", "mail")))

        assert not verdict.applied
        assert [info.key for info in store.describe(None)] == [KEY]

    def test_trying_to_reveals_and_reserves_no_capacity(self):
        other_queue = QueueKey("other", "mail")
        settings = Settings(maintenance=False, limits=TenantLimits(queue_jobs=2))
        runtime = Runtime(settings, MemoryStore(), Fixed())
        runtime.store.enqueue(KEY, [Draft("a", "mail", b"1")])
        step = VERBS["apply"].pack({"queue": KEY, "transitions": [move("a", other_queue)]})
        with client_for(runtime) as client:
            for _ in range(3):
                headers = {"content-type": MSGPACK}
                answer = client.post("/api/v1/store/apply", content=step, headers=headers)
                assert answer.status_code == 200
            runtime.limits.reserve_capacity(other_queue, 2)


class TestLimitedTokens:
    def test_other_queues_are_out_of_reach(self, call_store, authenticator):
        call_store("enqueue", queue=QueueKey("acme", "secret"), drafts=[Draft("s", "mail", b"1")])
        set_caller(authenticator, *Scope, queues=frozenset({"mail"}))

        for verb, arguments in CALLS.items():
            if "queue" in arguments:
                call_store(verb, 403, **{**arguments, "queue": QueueKey("acme", "secret")})
        call_store("describe", 403, name="secret")
        assert call_store("describe", name=None) == []
        assert call_store("events", queue=None, after=None, limit=9) == []
        apply(call_store, move("a", QueueKey("acme", "secret")), status=403)

    def test_other_kinds_are_out_of_reach(self, call_store, authenticator):
        drafts = [Draft("a", "mail", b"1"), Draft("b", "secret", b"2")]
        call_store("enqueue", queue=KEY, drafts=drafts)
        set_caller(authenticator, *Scope, kinds=frozenset({"mail"}))

        call_store("enqueue", 403, queue=KEY, drafts=[Draft("c", "secret", b"1")])
        assert [job and job.id for job in call_store("get", queue=KEY, ids=["b", "a"])] == [
            None,
            "a",
        ]
        page = call_store("page", **{**CALLS["page"], "job_filter": Filter()})
        assert [job.id for job in page.jobs] == ["a"]
        events = call_store("events", queue=KEY, after=None, limit=9)
        assert [event.id for event in events] == ["a"]
        assert [job.id for job in call_store("claim", **CALLS["claim"]).jobs] == ["a"]
        request = msgspec.structs.replace(REQUEST, kinds=frozenset({"secret"}))
        call_store("claim", 403, queue=KEY, request=request)
        assert call_store("purge", **CALLS["purge"]) == 1

    @pytest.mark.parametrize("scope", [Scope.READ, Scope.ADMIN])
    def test_schedules_of_other_kinds_are_not_read_or_deleted(
        self, call_store, authenticator, store, scope
    ):
        schedules.write(store, KEY, Schedule("nightly", "* * * * *", "secret", "precious"))
        key = ("ackline", "schedules", "mail", "nightly")
        set_caller(authenticator, scope, kinds=frozenset({"mail"}))

        call_store("read_keys", 403, prefix=key[:3], limit=5)
        if scope is Scope.READ:
            assert call_store("read_keys", prefix=key[:1], limit=5) == []
        call_store("write_keys", 403, writes=[KeyWrite(key=key, value=None)])
        assert schedules.find(store, KEY, "nightly")[0] is not None

    def test_a_page_does_not_tell_whether_others_match(self, call_store, authenticator, store):
        store.enqueue(KEY, [Draft(str(n), "secret", b'"pin 1234"') for n in range(3)])
        set_caller(authenticator, Scope.READ, kinds=frozenset({"mail"}))

        for text in ("pin 1234", "pin 9999"):
            page = call_store("page", queue=KEY, job_filter=Filter(text=text), cursor=None, limit=1)
            assert page == Page([], None)
        secret = Filter(kinds=frozenset({"secret"}))
        call_store("page", 403, queue=KEY, job_filter=secret, cursor=None, limit=1)

    def test_leases_of_other_kinds_are_left_out(self, call_store, authenticator, store):
        store.enqueue(KEY, [Draft("b", "secret", b"2"), Draft("a", "mail", b"1")])
        store.claim(KEY, REQUEST)
        set_caller(authenticator, *Scope, kinds=frozenset({"mail"}))

        assert [job.id for job in call_store("leases", queue=KEY, worker="w", limit=5)] == ["a"]

    def test_events_of_other_kinds_do_not_end_the_journal(
        self, call_store, authenticator, store, monkeypatch
    ):
        monkeypatch.setattr(execute, "SKIP_PAGE", 2)
        store.enqueue(KEY, [Draft(str(number), "secret", b"2") for number in range(5)])
        store.enqueue(KEY, [Draft("a", "mail", b"1")])
        set_caller(authenticator, *Scope, kinds=frozenset({"mail"}))

        assert [event.id for event in call_store("events", queue=KEY, after=None, limit=2)] == ["a"]

    def test_jobs_of_other_kinds_are_not_touched_by_their_ids(
        self, call_store, authenticator, store
    ):
        store.enqueue(KEY, [Draft("a", "mail", b"1"), Draft("b", "secret", b"2")])
        set_caller(authenticator, *Scope, kinds=frozenset({"mail"}))

        steps = [cancel(id, DEFAULTS) for id in ("b", "a", "none")]
        assert [verdict.applied for verdict in apply(call_store, *steps)] == [False, True, False]
        assert [verdict.state for verdict in apply(call_store, steps[0], steps[2])] == [None, None]
        assert [job.state for job in store.get(KEY, ["a", "b"])] == [
            State.CANCELLED,
            State.QUEUED,
        ]
        claimed = call_store("claim", queue=KEY, request=REQUEST, transitions=steps[:1])
        assert [verdict.applied for verdict in claimed.verdicts] == [False]
        reply = call_store(
            "heartbeat", queue=KEY, heartbeat=HEARTBEAT, extensions=[LeaseExtension("b", 1, 30.0)]
        )
        assert reply.lost == [0]

    def test_settings_of_other_kinds_are_not_changed(self, call_store, authenticator, store):
        store.configure(KEY, QueueSettings(kinds={"secret": Policy()}))
        set_caller(authenticator, *Scope, kinds=frozenset({"mail"}))
        old = store.describe("acme", "mail")[0].settings

        own = msgspec.structs.replace(old, kinds={**old.kinds, "mail": Policy(max_attempts=7)})
        assert call_store("configure", queue=KEY, settings=own, expected=old) is True
        call_store("configure", 403, queue=KEY, settings=QueueSettings(), expected=own)
        call_store("configure", 403, queue=KEY, settings=msgspec.structs.replace(own, paused=True))

    def test_a_transition_writes_only_the_keys_of_its_job(self, call_store, authenticator, store):
        own, other = ("lost", "a"), ("config", "price")
        store.write_keys("acme", [KeyWrite(key=other, value=b"100")])
        options = Options(keys_if_undelivered=(own,), max_attempts=1)
        store.enqueue(KEY, [Draft("a", "mail", b"1", options=options), Draft("b", "mail", b"2")])
        set_caller(authenticator, Scope.CONSUME, queues=frozenset({"mail"}))
        jobs = call_store("claim", queue=KEY, request=REQUEST, transitions=[]).jobs

        steps = [
            msgspec.structs.replace(
                bury(job, Failure(act="fail", attempt=1), DEFAULTS), undelivered_keys=(own, other)
            )
            for job in jobs
        ]

        assert [verdict.applied for verdict in apply(call_store, *steps)] == [True, True]
        written = {entry.key: entry.value for entry in store.read_keys("acme", (), 10)}
        assert written == {own: b"1", other: b"100"}

    @pytest.mark.parametrize(
        "limit", [{"kinds": frozenset({"a"})}, {"queues": frozenset({"mail"})}]
    )
    def test_keys_of_the_whole_tenant_are_out_of_reach(
        self, call_store, authenticator, store, limit
    ):
        store.write_keys("acme", [KeyWrite(key=("k", "1"), value=b"secret")])
        set_caller(authenticator, *Scope, **limit)

        call_store("read_keys", 403, prefix=("k",), limit=5)
        call_store("write_keys", 403, writes=[KeyWrite(key=("k", "2"), value=b"1")])


class TestSignatures:
    def test_the_journal_has_the_callers_name(self, call_store):
        call_store("enqueue", queue=KEY, drafts=[Draft("a", "mail", b"1")])
        apply(call_store, cancel("a", DEFAULTS, by="the boss"))
        call_store("configure", queue=KEY, settings=QueueSettings(paused=True), by="")

        actors = {e.act: e.by for e in call_store("events", queue=KEY, after=None, limit=9)}

        assert actors[Act.CANCEL] == "ann: the boss"
        assert actors[Act.PAUSE] == "ann"


def test_every_family_of_reserved_keys_has_its_permission_and_its_check():
    of_clients = frozenset(KeyFamily) - SERVICE_FAMILIES

    assert PERMISSION_OF_RESERVED_KEY.keys() == RESERVED_KEYS.keys() == of_clients


class TestCallbacks:
    @pytest.mark.parametrize(("scopes", "calls_back"), [({Scope.CONSUME}, True), (ALL, False)])
    def test_only_who_may_move_a_job_may_end_it_without_its_callback(
        self, call_store, running, store, authenticator, scopes, calls_back
    ):
        """A relay may: the job calls back from the store that it was moved to."""
        running[0].callback_tenants = CallbackTenants(store)
        Queues(store, "acme")["mail"].enqueue(1, id="a", callback_url="https://example.com/")
        set_caller(authenticator, *scopes)
        [job] = call_store("claim", queue=KEY, request=REQUEST, transitions=[]).jobs

        step = replace(complete(job, b"1", DEFAULTS, "relayed"), has_callback=False)
        assert apply(call_store, step)[0].applied

        event = store.events(KEY, None, 9)[-1]
        assert event.act is Act.COMPLETE
        assert (event.callback_url is not None) == calls_back


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        "draft",
        [
            Draft("", "mail", b""),
            Draft("x" * 513, "mail", b""),
            Draft("a", "", b""),
            Draft("a", "mail", b"", priority=10),
            Draft("a", "mail", b"", delay=-1.0),
            Draft("a", "mail", b"", delay=float("nan")),
            Draft("a", "mail", b"", run_at=1e12),
            Draft("a", "mail", b"", options=Options(keys_if_undelivered=(("ackline", "cron"),))),
        ],
    )
    def test_an_invalid_draft(self, call_store, draft):
        call_store("enqueue", 422, queue=KEY, drafts=[Draft("fine", "mail", b""), draft])

        assert call_store("describe", name=None) == []

    def test_a_payload_that_is_too_large(self, call_store):
        call_store("enqueue", 413, queue=KEY, drafts=[Draft("a", "mail", b"x" * (2**20 + 1))])

    @pytest.mark.parametrize(
        "step",
        [
            Transition(
                "a", Act.FAIL, State.FAILED, 1, undelivered_keys=(("ackline", "recovered", "mail"),)
            ),
            Transition("a", Act.SNOOZE, State.SCHEDULED, 1, attempts=-1),
            Transition("a", Act.SNOOZE, State.SCHEDULED, 1, delay=float("inf")),
            edit("a", Change(priority=99)),
        ],
    )
    def test_an_illegal_transition(self, call_store, step):
        call_store("enqueue", queue=KEY, drafts=[Draft("a", "mail", b"1")])

        apply(call_store, step, status=422)

    @pytest.mark.parametrize(
        "step",
        [
            {"act": "complete", "to": "failed", "token": 1},
            {"act": "complete", "token": 1},
            {"act": "extend", "to": "completed", "token": 1},
            {"act": "enqueue", "to": "queued"},
            {"act": "claim", "to": "processing"},
            {"act": "prune"},
            {"act": "request_cancel", "attempts": 0},
            {"act": "request_cancel", "edit": {"priority": 9}},
            {"act": "complete", "to": "completed", "token": 1, "edit": {"priority": 9}},
        ],
        ids=str,
    )
    def test_an_inconsistent_transition(self, client, step):
        sent = {"queue": "mail", "transitions": [{"id": "a", **step}]}

        for verb, more in (("apply", {}), ("claim", {"request": msgspec.to_builtins(REQUEST)})):
            answer = client.post(f"/api/v1/store/{verb}", json={**sent, **more})
            assert answer.status_code == 422, answer.text

    def test_transitions_of_the_lifecycle_are_accepted(self, call_store):
        call_store("enqueue", queue=KEY, drafts=[Draft(id, "mail", b"1") for id in "ab"])
        a, b = call_store("claim", **CALLS["claim"]).jobs

        verdicts = apply(call_store, complete(a, b"1", DEFAULTS), expire(b, DEFAULTS))

        assert [verdict.applied for verdict in verdicts] == [True, True]

    @pytest.mark.parametrize("limit", [-1, 10_001])
    def test_an_excessive_limit(self, call_store, limit):
        call_store("promote", 422, queue=KEY, limit=limit)

    def test_an_invalid_cursor(self, call_store):
        call_store("events", 400, queue=KEY, after="nonsense", limit=5)

    @pytest.mark.parametrize(
        ("body", "media_type", "status"),
        [
            (b"\xc1", MSGPACK, 400),
            (b"", MSGPACK, 400),
            (b'{"queue": "mail"}', MSGPACK, 400),
            (b'{"queue": "mail"}', JSON, 400),
            (b'{"queue": "mail", "ids": [], "tenant": "other"}', JSON, 400),
            (b'{"queue": "mail", "ids": [], "ids": []}', JSON, 400),
            (b'{"queue": true, "ids": []}', JSON, 400),
            (b'{"queue": "mail", "ids": []}', "text/plain", 415),
            (b'{"queue": "mail", "ids": ["a"]}', JSON, 200),
        ],
    )
    def test_bodies_are_read_strictly(self, client, body, media_type, status):
        answer = client.post(
            "/api/v1/store/get", content=body, headers={"content-type": media_type}
        )

        assert answer.status_code == status, answer.text

    def test_an_unknown_method(self, client):
        for verb in ("close", "open", "join", "__init__", "_lock"):
            answer = client.post(
                f"/api/v1/store/{verb}", content=b"\x80", headers={"content-type": MSGPACK}
            )
            assert answer.status_code == 404


def test_the_location_of_the_store_is_not_revealed(call_store, authenticator):
    set_caller(authenticator, Scope.READ)

    info = call_store("info")

    assert (info.location, info.details) == ("", {})
    assert info.durability


class TestLongTexts:
    def test_a_reported_failure_and_its_note_are_cut_off(self, call_store, store):
        store.enqueue(KEY, [Draft("a", "mail", b"1")])
        [job] = store.claim(KEY, REQUEST).jobs
        long = "x" * 1_000_000
        failure = Failure(act=Act.FAIL, attempt=1, type=long, message=long, traceback=long)
        step = msgspec.structs.replace(bury(job, failure, DEFAULTS), note=long, by=long)

        assert apply(call_store, step)[0].applied

        [kept] = store.get(KEY, ["a"])
        assert len(msgspec.msgpack.encode(kept)) < 50_000
        assert len(msgspec.msgpack.encode(list(store.events(KEY, None, 10)))) < 5_000

    def test_a_host_is_cut_off(self, call_store, store):
        beat = msgspec.structs.replace(HEARTBEAT, host="h" * 1_000_000)

        call_store("heartbeat", queue=KEY, heartbeat=beat, extensions=[])

        assert len(store.workers([KEY])[0][0].heartbeat.host) == 512
