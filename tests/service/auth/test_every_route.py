"""Every route, with every token that must not have access."""

from __future__ import annotations

import re
import time
from typing import Any, NamedTuple

import msgspec
import pytest
from litestar.testing import TestClient
from tests.service.auth.issuers import (
    Signer,
    bearer,
    issuer,
    key_set,
    signed_with_public_key,
    with_none,
)
from tests.service.conftest import undocumented

from ackline.queues import Queues
from ackline.service import Settings, create_app
from ackline.service.app import create_routes
from ackline.service.auth.guard import NO_AUTH, OPTIONAL_AUTH
from ackline.service.runtime import Runtime
from ackline.service.ui.dashboard import PAGE_PATHS
from ackline.stores.wire import LISTEN, VERBS, Verb

ANY_CALLER = {"/api/v1/tickets", "/api/v1/me", "/api/v1/store/handshake"}
"""For all who are known, whatever their scopes: a ticket opens no more than its token, and a
client may ask whose its token is."""

SAMPLES = {"queue": "email", "id": "letter", "name": "nightly", "key": "lost/letter",
           "path": "nowhere", "delivery": "msg_x"}  # fmt: skip
"""Path parameters, all of which exist in the tenant acme."""

ARGUMENTS: dict[str, Any] = {
    "queue": "email",
    "queues": ["email"],
    "drafts": [],
    "request": {"worker": "w", "limit": 1, "lease": 30.0},
    "transitions": [],
    "heartbeat": {"id": "w", "host": "", "pid": 1, "started_at": 0.0, "concurrency": 1,
                  "kinds": None, "ttl": 9.0},
    "extensions": [],
    "limit": 10,
    "ids": ["letter"],
    "job_filter": {},
    "cursor": None,
    "after": None,
    "settings": {},
    "prefix": [],
    "writes": [],
    "topic": "ready",
}  # fmt: skip
"""Arguments of the store methods."""


class Call(NamedTuple):
    """A route with its path parameters filled in."""

    method: str
    path: str
    rule: str | None
    options: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def calls(settings: Settings) -> list[Call]:
    """From the application itself, so that no new route is forgotten."""
    found = []
    routes: list[Any] = create_routes(settings).routes
    for route in routes:
        for handler in route.route_handlers:
            rule = handler.opt.get("auth")
            for method in sorted(handler.http_methods - {"OPTIONS", "HEAD"}):
                if "/store/" in route.path:
                    found += _verbs(route.path)
                    continue
                path = re.sub(r"\{(\w+)(:\w+)?\}", lambda one: SAMPLES[one[1]], route.path)
                found.append(Call(method, path, rule, _body(handler, method, route.path)))
    return found


def _verbs(path: str) -> list[Call]:
    """Each store method is a route."""
    verbs = {**VERBS, "listen": LISTEN} if "{" in path else {"handshake": None}
    base = path.rpartition("/")[0]
    return [
        Call("POST", f"{base}/{name}", None, {"json": _arguments(verb)})
        for name, verb in verbs.items()
    ]


def _arguments(verb: Verb | None) -> dict[str, Any]:
    fields = msgspec.structs.fields(verb.request) if verb is not None else ()
    return {field.name: ARGUMENTS[field.name] for field in fields if field.required}


def _body(handler: Any, method: Any, path: str) -> dict[str, Any]:
    if "data" not in handler.parsed_fn_signature.parameters:
        return {}
    example = handler.operation_class.example
    assert example is not None, f"{method} {path} has a body: its handler declares no example"
    return {"json": example}


@pytest.fixture(scope="module")
def signer():
    return Signer()


@pytest.fixture(scope="module")
def settings(signer, tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "jwks.json"
    file.write_text(key_set(signer))
    issuers = (issuer(jwks=str(file), operators=True),)
    # No limit of failures: there is nothing but failures here.
    return Settings(store="memory://", issuers=issuers, maintenance=False, login_failures=0)


class SampleService:
    """A service whose streams end immediately, and its store."""

    def __init__(self, settings: Settings) -> None:
        self.runtime = Runtime.from_settings(settings)
        self.app = create_app(runtime=self.runtime)
        self.client = TestClient(self.app, base_url="http://queue.example.com")
        self.calls = calls(settings)
        self.runtime.streams.end_all()

    def populate(self) -> None:
        """Create one of everything in the tenant acme."""
        queue = Queues(self.runtime.store, "acme")["email"]
        queue.enqueue({"secret": "of acme"}, id="letter", kind="welcome", max_attempts=1,
                      keys_if_undelivered=[["lost", "letter"]],
                      headers={"cookie": "of acme"})  # fmt: skip
        queue.fail(queue.claim(1)[0], "boom of acme")
        queue.enqueue({"secret": "of acme"}, id="email-123")
        self.call(
            Call("PUT", "/api/v1/queues/email/schedules/nightly", None,
                 {"json": {"cron": "0 3 * * *", "payload": "of acme"}}),
            self.owner,
        )  # fmt: skip

    owner = ""

    def call(self, call: Call, token: str | None = None, **headers: str) -> Any:
        headers |= bearer(token) if token is not None else {}
        return self.client.request(call.method, call.path, headers=headers, **call.options)

    def data_of_acme(self) -> Any:
        """Everything that acme has."""
        queues = Queues(self.runtime.store, "acme")
        jobs = [job.record for name in queues for job in queues[name].jobs().jobs]
        return queues.describe(), jobs, queues.read_keys(), queues.read_keys("ackline")


@pytest.fixture(scope="module")
def service(settings, signer):
    service = SampleService(settings)
    service.owner = signer.sign()
    with service.client:
        service.populate()
        yield service
    assert undocumented(service.runtime) == []


def refused_tokens(signer: Signer) -> dict[str, str | None]:
    return {
        "no token": None,
        "expired": signer.sign(exp=int(time.time()) - 60),
        "none": with_none(),
        "None": with_none("None"),
        "HS with the public key": signed_with_public_key(signer),
        "wrong aud": signer.sign(aud="another"),
        "no aud": signer.sign("aud"),
        "wrong iss": signer.sign(iss="https://evil.example.com/"),
        "no iss": signer.sign("iss"),
        "no exp": signer.sign("exp"),
        "no tenant": signer.sign("tenant"),
        "not yet": signer.sign(nbf=int(time.time()) + 600),
        "wrong kid": signer.sign(header={"kid": "another"}),
        "another's key": Signer().sign(),
        "an unknown API key": "ack_0123456789abcdef_secret",
        "no token at all": "x",
    }


@pytest.fixture(scope="module")
def refused(signer):
    return refused_tokens(signer)


def test_open_routes_reveal_nothing_of_a_tenant(service):
    """The list is short, and extending it needs a change here."""
    rules = {str(call): call.rule for call in service.calls if call.rule is not None}
    assert rules == {
        "GET /livez": NO_AUTH["auth"],
        "GET /readyz": OPTIONAL_AUTH["auth"],
        "GET /api/docs": NO_AUTH["auth"],
        "GET /api/docs/nightly": NO_AUTH["auth"],
        "GET /api/openapi.json": NO_AUTH["auth"],
        "GET /api/openapi.json/openapi.json": NO_AUTH["auth"],
        "GET /api/openapi.json/nowhere": NO_AUTH["auth"],
        # The dashboard is a page like any other: what it shows, it asks for with a token.
        **{f"GET /{view}": NO_AUTH["auth"] for view in ("", *PAGE_PATHS)},
        "GET /queues/nowhere": NO_AUTH["auth"],
        "GET /assets/nightly": NO_AUTH["auth"],
    }


@pytest.mark.parametrize("case", sorted(refused_tokens(Signer())))
def test_no_route_opens_to(service, refused, case):
    closed = [call for call in service.calls if call.rule is None]
    assert len(closed) > 50
    before = service.data_of_acme()

    answers = {str(call): service.call(call, refused[case]) for call in closed}

    wrong = {call: one.status_code for call, one in answers.items() if one.status_code != 401}
    assert not wrong
    assert all(one.headers["www-authenticate"] == "Bearer" for one in answers.values())
    assert not [call for call, one in answers.items() if (refused[case] or "no") in one.text]
    assert service.data_of_acme() == before


def test_the_same_calls_open_with_a_good_token(settings, signer):
    """Control: the calls above are refused because of the token only."""
    service = SampleService(settings)
    service.owner = signer.sign()
    with service.client:
        for call in service.calls:
            service.populate() if not service.data_of_acme()[1] else None
            assert service.call(call, service.owner).status_code not in (401, 403, 415, 500), call


def test_no_route_opens_without_a_scope(service, signer):
    without_scope = signer.sign(scope="openid email")
    before = service.data_of_acme()

    needed = [call for call in service.calls if not call.rule and call.path not in ANY_CALLER]
    wrong = {
        str(call): answer.status_code
        for call in needed
        if (answer := service.call(call, without_scope)).status_code != 403
    }

    assert not wrong
    assert service.data_of_acme() == before


@pytest.mark.parametrize("scope", ["produce", "consume", "read"])
def test_only_admins_change_jobs_of_others(service, signer, scope):
    """What each scope alone allows."""
    token = signer.sign(scope=scope)
    before = service.data_of_acme()[0][0].settings

    for call in service.calls:
        if call.rule is None and re.search(
            r"pause|purge|rename|bulk|dlq/letter/requeue", call.path
        ):
            assert service.call(call, token).status_code == 403, call

    assert service.data_of_acme()[0][0].settings == before


@pytest.mark.parametrize("claims", [{"tenant": "beta"}, {"queues": ["other"]}])
def test_other_tenants_and_queues_do_not_see_it(settings, signer, claims):
    """All responses are the same whether acme's queue exists or not."""
    beta = signer.sign(**claims)
    with_data, without_data = SampleService(settings), SampleService(settings)
    with_data.owner = signer.sign()
    with with_data.client, without_data.client:
        with_data.populate()
        before = with_data.data_of_acme()

        for call in with_data.calls:
            there, absent = with_data.call(call, beta), without_data.call(call, beta)
            assert (there.status_code, _plain(there)) == (absent.status_code, _plain(absent)), call
            assert "of acme" not in there.text, call

        assert with_data.data_of_acme() == before


def test_a_foreign_tenant_may_use_the_same_ids(settings, signer):
    service = SampleService(settings)
    service.owner = signer.sign()
    beta = signer.sign(tenant="beta")
    with service.client:
        service.populate()
        body = {"json": {"value": "of beta", "options": {"queue": "email", "id": "email-123"}}}
        call = Call("POST", "/api/queue/enqueue", None, body)

        assert service.call(call, beta).json() == {"ok": True, "id": "email-123"}
        assert service.call(call, service.owner).json()["duplicate"] is True
        assert service.call(call, beta, **{"idempotency-key": "k"}).json()["duplicate"] is True


def _plain(answer: Any) -> str:
    """A response without what depends on the time."""
    text = re.sub(r'"(ticket|id|cursor|secret)": ?("[^"]*"|null)', "", answer.text)
    return re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "0", text)
