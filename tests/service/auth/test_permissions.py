"""Every route and store method with every scope: only the table decides."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.service.auth.issuers import bearer
from tests.service.auth.test_every_route import (
    ANY_CALLER,
    ARGUMENTS,
    Call,
    SampleService,
    settings,
    signer,
)

from ackline.core.job import QueueKey
from ackline.core.lifecycle import Edit, edit, move, redrive, request_cancel
from ackline.service.auth.permissions import (
    PERMISSION_OF_ACT,
    PERMISSION_OF_TOPIC,
    PERMISSIONS_OF_VERB,
    RULES,
    Permission,
    Scope,
)
from ackline.stores.contract import Filter
from ackline.stores.wire import JSON, MSGPACK, VERBS

__all__ = ["settings", "signer"]

GUIDE = Path(__file__).parents[3] / "docs/guides/auth.md"

A = Permission
ROWS: dict[str, Permission] = {
    # The simple routes.
    "POST /api/queue/enqueue": A.ENQUEUE,
    "GET /api/queue/listen": A.CLAIM,
    "GET /api/queue/poll": A.CLAIM,
    "POST /api/queue/ack": A.SETTLE,
    "POST /api/queue/nack": A.SETTLE,
    "POST /api/queue/touch": A.SETTLE,
    "GET /api/queue/stats": A.READ_QUEUES,
    "GET /api/queue/dlq": A.READ_JOBS,
    "DELETE /api/queue/dlq": A.DELETE,
    "GET /api/queue/dlq/letter": A.READ_JOBS,
    "DELETE /api/queue/dlq/letter": A.DELETE,
    "POST /api/queue/dlq/letter/requeue": A.REDRIVE,
    "GET /api/keys": A.READ_KEYS,
    "GET /api/keys/lost/letter": A.READ_KEYS,
    "PUT /api/keys/lost/letter": A.WRITE_KEYS,
    "DELETE /api/keys/lost/letter": A.WRITE_KEYS,
    "GET /api/watch": A.READ_KEYS,
    "GET /metrics": A.READ_STATS,
    # The resources.
    "GET /api/v1/queues": A.READ_QUEUES,
    "GET /api/v1/queues/email": A.READ_QUEUES,
    "PATCH /api/v1/queues/email": A.CONFIGURE,
    "DELETE /api/v1/queues/email": A.DROP,
    "POST /api/v1/queues/email/pause": A.CONFIGURE,
    "POST /api/v1/queues/email/resume": A.CONFIGURE,
    "POST /api/v1/queues/email/purge": A.DELETE,
    "POST /api/v1/queues/email/rename": A.DROP,
    "GET /api/v1/queues/email/workers": A.READ_WORKERS,
    "GET /api/v1/workers": A.READ_WORKERS,
    "GET /api/v1/queues/email/jobs": A.READ_JOBS,
    "POST /api/v1/queues/email/jobs": A.ENQUEUE,
    "POST /api/v1/queues/email/jobs/batch": A.ENQUEUE,
    "GET /api/v1/queues/email/jobs/letter": A.READ_JOBS,
    "GET /api/v1/queues/email/jobs/letter/result": A.READ_RESULT,
    "PATCH /api/v1/queues/email/jobs/letter": A.EDIT,
    "DELETE /api/v1/queues/email/jobs/letter": A.DELETE,
    "POST /api/v1/queues/email/jobs/letter/cancel": A.CANCEL,
    "POST /api/v1/queues/email/jobs/letter/redrive": A.REDRIVE,
    "POST /api/v1/queues/email/jobs/letter/move": A.MOVE,
    "POST /api/v1/queues/email/claim": A.CLAIM,
    "GET /api/v1/claims": A.CLAIM,
    "POST /api/v1/claims": A.CLAIM,
    "POST /api/v1/queues/email/settle": A.SETTLE,
    "POST /api/v1/queues/email/extend": A.SETTLE,
    "POST /api/v1/queues/email/bulk": A.BULK,
    "POST /api/v1/queues/email/import": A.ENQUEUE,
    "GET /api/v1/queues/email/export": A.READ_JOBS,
    "GET /api/v1/queues/email/dlq/groups": A.READ_JOBS,
    "GET /api/v1/schedules": A.READ_SCHEDULES,
    "GET /api/v1/queues/email/schedules": A.READ_SCHEDULES,
    "GET /api/v1/queues/email/schedules/nightly": A.READ_SCHEDULES,
    "PUT /api/v1/queues/email/schedules/nightly": A.WRITE_SCHEDULES,
    "DELETE /api/v1/queues/email/schedules/nightly": A.WRITE_SCHEDULES,
    "GET /api/v1/events": A.READ_EVENTS,
    "GET /api/v1/events/stream": A.READ_EVENTS,
    "GET /api/v1/keys": A.READ_KEYS,
    "GET /api/v1/keys/lost/letter": A.READ_KEYS,
    "PUT /api/v1/keys/lost/letter": A.WRITE_KEYS,
    "DELETE /api/v1/keys/lost/letter": A.WRITE_KEYS,
    "GET /api/v1/watch": A.READ_KEYS,
    "GET /api/v1/overview": A.READ_STATS,
    "GET /api/v1/analytics": A.READ_STATS,
    "GET /api/v1/search": A.READ_JOBS,
    "GET /api/v1/webhooks": A.WEBHOOKS,
    "POST /api/v1/webhooks": A.WEBHOOKS,
    "GET /api/v1/webhooks/letter": A.WEBHOOKS,
    "PATCH /api/v1/webhooks/letter": A.WEBHOOKS,
    "DELETE /api/v1/webhooks/letter": A.WEBHOOKS,
    "POST /api/v1/webhooks/letter/rotate": A.WEBHOOKS,
    "POST /api/v1/webhooks/letter/test": A.WEBHOOKS,
    "GET /api/v1/webhooks/letter/deliveries": A.WEBHOOKS,
    "POST /api/v1/webhooks/letter/deliveries/msg_x/redeliver": A.WEBHOOKS,
}
"""The permission of each route; those of store methods are in `PERMISSIONS_OF_VERB`."""

BY_ARGUMENTS = {
    "/api/v1/store/describe": (A.READ_QUEUES,),
    "/api/v1/store/configure": (A.CONFIGURE,),
    "/api/v1/store/read_keys": (A.READ_KEYS,),
    "/api/v1/store/listen": (A.CLAIM, A.READ_EVENTS),
}
"""The permissions of the calls below, where they depend on the arguments."""


@pytest.fixture(scope="module")
def service(settings, signer):
    service = SampleService(settings)
    service.owner = signer.sign()
    with service.client:
        yield service


def permissions_of(call: Call) -> tuple[Permission, ...]:
    if "/store/" in call.path:
        return BY_ARGUMENTS.get(call.path) or PERMISSIONS_OF_VERB[call.path.rpartition("/")[2]]
    return (ROWS[str(call).partition("?")[0]],)


def closed(service: SampleService) -> list[Call]:
    return [call for call in service.calls if call.rule is None and call.path not in ANY_CALLER]


def test_every_route_has_a_row(service):
    routes = {str(call) for call in closed(service) if "/store/" not in call.path}

    assert routes == ROWS.keys()
    assert PERMISSIONS_OF_VERB.keys() == VERBS.keys() | {"listen"}
    assert RULES.keys() == set(Permission)


def test_every_permission_is_used():
    required = {*ROWS.values(), *PERMISSION_OF_ACT.values(), *PERMISSION_OF_TOPIC.values()}.union(
        *PERMISSIONS_OF_VERB.values()
    )

    assert set(Permission) - required == {A.SET_UNDELIVERED_KEYS, A.READ_HEALTH_ISSUES}


@pytest.mark.parametrize("scope", Scope)
def test_a_route_opens_to_the_scopes_of_its_row_and_to_no_others(service, signer, scope):
    alone, others = signer.sign(scope=scope), signer.sign(scope=" ".join(set(Scope) - {scope}))
    wrong = {}

    for call in closed(service):
        scopes = set[Scope]().union(*(RULES[access].scopes for access in permissions_of(call)))
        for token, may in ((alone, scope in scopes), (others, bool(scopes - {scope}))):
            service.populate() if not service.data_of_acme()[1] else None
            status = service.call(call, token).status_code
            if (status != 403) is not may:
                wrong[str(call)] = (status, may)

    assert not wrong


KEY = QueueKey("acme", "email")


def route(path: str, method: str = "POST", **body: Any) -> Call:
    return Call(method, f"/api{path}", None, {"json": body} if body else {})


def verb(name: str, /, **arguments: Any) -> Call:
    content = VERBS[name].pack(arguments)
    headers = {"content-type": MSGPACK}
    return Call("POST", f"/api/v1/store/{name}", None, {"content": content, "headers": headers})


def step(one: Any) -> Call:
    return verb("apply", queue=KEY, transitions=[one])


DEAD = Filter(ids=frozenset({"letter"}))
SAME: dict[str, list[Call]] = {
    "redrive": [
        route("/queue/dlq/letter/requeue?queue=email"),
        route("/v1/queues/email/jobs/letter/redrive", delay=0.0),
        step(redrive("letter")),
        step(redrive("letter", token=1)),
        step(redrive("letter", token=1, change=Edit(payload=b"1"))),
    ],
    "edit": [
        route("/v1/queues/email/jobs/letter", "PATCH", priority=9),
        step(edit("letter", Edit(priority=9))),
    ],
    "move": [
        route("/v1/queues/email/jobs/letter/move", to="other"),
        step(move("letter", QueueKey("acme", "other"))),
    ],
    "delete": [
        route("/queue/dlq/letter?queue=email", "DELETE"),
        route("/v1/queues/email/jobs/letter", "DELETE"),
        verb("purge", queue=KEY, job_filter=DEAD, limit=1),
    ],
    "cancel": [
        route("/v1/queues/email/jobs/letter/cancel"),
        step(request_cancel("letter")),
    ],
    "list jobs": [
        route("/queue/dlq?queue=email", "GET"),
        route("/v1/queues/email/jobs", "GET"),
        verb("page", queue=KEY, job_filter=DEAD, cursor=None, limit=1),
    ],
    "count jobs": [
        route("/queue/stats?queue=email", "GET"),
        route("/v1/queues/email", "GET"),
    ],
    "list queues": [
        route("/v1/queues", "GET"),
        verb("describe", name=None),
    ],
    "read the journal": [
        route("/v1/events?queue=email", "GET"),
        verb("events", queue=KEY, after=None, limit=1),
    ],
    "read keys": [
        route("/keys/lost/letter", "GET"),
        route("/v1/keys/lost/letter", "GET"),
        verb("read_keys", prefix=("lost",), limit=1),
    ],
    "write keys": [
        route("/keys/lost/letter", "DELETE"),
        route("/v1/keys/lost/letter", "DELETE"),
        verb("write_keys", writes=[{"key": ("lost", "letter"), "value": None}]),
    ],
    "drop": [
        route("/v1/queues/empty", "DELETE"),
        verb("drop", queue=QueueKey("acme", "empty")),
    ],
    "claim": [
        route("/queue/poll?queue=empty", "GET"),
        route("/v1/queues/empty/claim", limit=1),
        verb(
            "claim",
            queue=QueueKey("acme", "empty"),
            request={"worker": "w", "limit": 1, "lease": 1.0},
            transitions=[],
        ),
    ],
    "extend": [
        route("/queue/touch", queue="email", id="letter"),
        route("/v1/queues/email/extend", worker="w", leases=[]),
        verb("heartbeat", queue=KEY, heartbeat=ARGUMENTS["heartbeat"], extensions=[]),
    ],
    "enqueue": [
        route("/queue/enqueue", value=1, options={"queue": "email", "id": "same"}),
        route("/v1/queues/email/jobs", payload=1, id="same"),
        verb("enqueue", queue=KEY, drafts=[{"id": "same", "kind": "default", "payload": b"1"}]),
    ],
}
"""The same act by each interface that has it."""


@pytest.mark.parametrize("act", SAME)
@pytest.mark.parametrize("limit", ["none", "queues", "kinds"])
def test_all_interfaces_give_the_same_answer(service, signer, act, limit):
    limits = {"none": {}, "queues": {"queues": ["other"]}, "kinds": {"kinds": ["other"]}}[limit]
    for scope in Scope:
        answers = set()
        for call in SAME[act]:
            service.populate() if not service.data_of_acme()[1] else None
            token = signer.sign(scope=scope, **limits)
            headers = {**bearer(token), **call.options.get("headers", {})}
            options = {**call.options, "headers": headers}
            status = service.client.request(call.method, call.path, **options).status_code
            answers.add(status == 403)
        assert len(answers) == 1, (act, scope, limits)


def json_verb(name: str, **arguments: Any) -> Call:
    return Call("POST", f"/api/v1/store/{name}", None, {"json": arguments})


MORE = [
    json_verb("read_keys", prefix=["ackline"], limit=99),
    json_verb("read_keys", prefix=["ackline", "schedules", "email"], limit=99),
    json_verb("events", queue="email", after=None, limit=99),
    json_verb("leases", queue="email", worker=None, limit=99),
    json_verb("get", queue="email", ids=["letter", "email-123"]),
    route("/v1/search?text=letter", "GET"),
    route("/v1/search?text=acme", "GET"),
    route("/v1/events?last=99", "GET"),
    route("/v1/queues/email/jobs?id=letter&summary=true", "GET"),
    route("/v1/queues/email/jobs?worker=http", "GET"),
]
"""Reads with arguments that find something."""


def test_a_token_for_some_kinds_neither_sees_nor_changes_others(settings, signer):
    service = SampleService(settings)
    service.owner = signer.sign()
    limited = signer.sign(kinds=["other"])
    with service.client:
        service.populate()
        before = service.data_of_acme()

        for call in [*closed(service), *MORE]:
            assert "of acme" not in text_of(call, service.call(call, limited)), call
        assert service.data_of_acme() == before

        revealing = [
            call for call in MORE if "of acme" in text_of(call, service.call(call, service.owner))
        ]
        assert len(revealing) > len(MORE) // 2  # the control


@pytest.mark.parametrize("scope", [Scope.PRODUCE, Scope.CONSUME, Scope.ADMIN])
def test_without_read_permission_jobs_have_no_contents(settings, signer, scope):
    service = SampleService(settings)
    service.owner = signer.sign()
    alone = signer.sign(scope=scope)
    with service.client:
        for call in [*closed(service), *MORE]:
            service.populate() if not service.data_of_acme()[1] else None
            # A claim brings payloads, and so do the keys that undelivered jobs have left.
            if not {A.CLAIM, A.READ_KEYS} & set(permissions_of(call)):
                text = text_of(call, service.call(call, alone)).replace("boom of acme", "")
                assert "of acme" not in text, call


OTHER = {"payload": 1, "kind": "other"}
MIXED: list[Call] = [
    route("/queue/poll?queue=other&queue=email", "GET"),
    route("/queue/listen?queue=other&queue=email", "GET"),
    route("/v1/claims?queue=other&queue=email", "GET"),
    route("/v1/claims", queues=["other", "email"]),
    route("/v1/queues/other/jobs/batch", jobs=[OTHER, {**OTHER, "kind": "welcome"}]),
    route("/v1/queues/other/rename", to="email"),
    route("/v1/queues/other/bulk", action="move", filter={}, to="email"),
    json_verb("listen", queues=["other", "email"], topic="ready"),
    json_verb("workers", queues=["other", "email"]),
    verb(
        "enqueue",
        queue=QueueKey("acme", "other"),
        drafts=[{"id": kind, "kind": kind, "payload": b"1"} for kind in ("other", "welcome")],
    ),
    verb("apply", queue=QueueKey("acme", "other"), transitions=[move("x", KEY)]),
]
"""Requests about something that the caller may access and something that it may not."""


@pytest.mark.parametrize("call", MIXED, ids=str)
def test_partly_forbidden_requests_are_refused_as_a_whole(service, signer, call):
    service.populate() if not service.data_of_acme()[1] else None
    before = service.data_of_acme()
    limited = bearer(signer.sign(queues=["other"], kinds=["other"]))
    options = {**call.options, "headers": {**limited, **call.options.get("headers", {})}}

    assert service.client.request(call.method, call.path, **options).status_code == 403
    assert service.data_of_acme() == before


def text_of(call: Call, answer: Any) -> str:
    """A response with its bytes as text."""
    name = call.path.rpartition("/")[2]
    if "/store/" not in call.path or name not in VERBS or answer.status_code != 200:
        return str(answer.text)
    return repr(VERBS[name].formats[JSON].responses.decode(answer.content))


def test_the_guide_has_the_table():
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", GUIDE.read_text(), re.M)

    assert [row for row in rows if row[0] in {rule.description for rule in RULES.values()}] == [
        (rule.description, scope_names(rule.scopes), rule.impact) for rule in RULES.values()
    ]


def scope_names(scopes: frozenset[Scope]) -> str:
    return (
        "any" if scopes == set(Scope) else ", ".join(f"`{one}`" for one in Scope if one in scopes)
    )
