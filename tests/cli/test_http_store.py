"""Commands on a service: `--store http://…` is a store like any other."""

from __future__ import annotations

import pytest

from ackline.core.job import QueueKey
from ackline.service.auth.permissions import Scope
from ackline.service.auth.principal import Principal
from ackline.service.http.problems import Unauthorized
from ackline.service.runtime import Runtime
from ackline.service.settings import Settings
from ackline.stores.memory import MemoryStore
from tests.harness.servers.service import ServiceThread

SECRET = "ak_very-secret-indeed"


class TokenAuthenticator:
    """Knows one token, of the tenant acme."""

    def is_known(self, connection):
        return True

    async def authenticate(self, connection):
        if connection.headers.get("authorization") != f"Bearer {SECRET}":
            raise Unauthorized("this token is not known")
        return Principal("acme", frozenset(Scope), name="ann")


@pytest.fixture
def service():
    settings = Settings(port=0, maintenance=False, drain=0.0, grace=1.0)
    with ServiceThread(Runtime(settings, MemoryStore(), TokenAuthenticator())) as service:
        yield service


@pytest.fixture
def on_service(cli, service, monkeypatch):
    monkeypatch.setenv("ACKLINE_TOKEN", SECRET)
    return lambda *words: cli(*words, "--store", service.url)


def test_an_enqueued_job_belongs_to_the_tenant_of_the_token(on_service, service):
    assert on_service("enqueue", "mail", '{"to": "ann"}', "--id", "a").code == 0

    seen = on_service("--json", "show", "mail", "a")

    assert seen.code == 0
    assert seen.document["id"] == "a"
    [info] = service.runtime.store.describe(None)
    assert info.key == QueueKey("acme", "mail")


def test_doctor_checks_a_store_behind_the_service(on_service, service):
    found = on_service("doctor")

    assert found.code == 0
    assert f"http {service.url}" in found.out
    assert "jobs live as long as this process" in found.out
    assert SECRET not in found.out + found.err


def test_another_tenant_is_refused(on_service):
    refused = on_service("queues", "--tenant", "other")

    assert refused.code != 0
    assert "'acme'" in refused.err


def test_an_unknown_token_is_rejected_and_not_printed(on_service, monkeypatch):
    monkeypatch.setenv("ACKLINE_TOKEN", "ak_somebody-elses")

    refused = on_service("doctor")

    assert refused.code != 0
    assert "ACKLINE_TOKEN" in refused.err
    assert "somebody-elses" not in refused.out + refused.err
