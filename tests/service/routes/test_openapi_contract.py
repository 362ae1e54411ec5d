"""The service does what its description says: every operation, with data that fits and does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.config import SchemathesisConfig
from tests.service.conftest import Live
from tools.openapi_document import document

from ackline.queues import Queues
from ackline.service import Settings
from ackline.service.runtime import Runtime

FEW, MANY = 5, 100
"""Requests for each operation beside those that try its limits one by one."""

CONFIG = {
    "checks": {
        "positive_data_acceptance": {
            # Valid by schema, but refused for its meaning: a name of too many bytes, an invalid
            # cron expression, an outdated ETag.
            "expected-statuses": ["2xx", "3xx", 404, 409, 410, 412, 413, 422, 429, 504]
        }
    }
}

SHORT, LONGEST_WAIT = 0.01, 60


@pytest.fixture(scope="module")
def documented_api() -> Iterator[Any]:
    """A service with a failed job, whose streams end immediately."""
    live = Live(Runtime.from_settings(Settings(store="memory://", maintenance=False, drain=0.0)))
    queue = Queues(live.runtime.store)["email"]
    queue.enqueue({"to": "ann"}, id="email-123", kind="welcome", max_attempts=1)
    queue.fail(queue.claim(1)[0], "boom")
    live.runtime.streams.end_all()
    url = f"{live.url}/api/openapi.json"
    yield schemathesis.openapi.from_url(url, config=SchemathesisConfig.from_dict(CONFIG))
    live.stop()


contract = schemathesis.pytest.from_fixture("documented_api")


ALWAYS_THE_SAME = settings(
    max_examples=FEW,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@contract.parametrize()
@ALWAYS_THE_SAME
def test_an_operation_conforms_to_its_description(case: Any) -> None:
    call_and_check(case)


@pytest.mark.slow
@contract.parametrize()
@settings(ALWAYS_THE_SAME, max_examples=MANY, derandomize=False)
def test_an_operation_conforms_with_more_requests(case: Any) -> None:
    call_and_check(case)


def test_operation_ids_are_unique_camel_case_verbs() -> None:
    paths = document()["paths"].values()
    ids = [operation["operationId"] for path in paths for operation in path.values()]

    assert len(ids) == len({*ids}) > 60
    assert [id for id in ids if not re.fullmatch("[a-z]+([A-Z][a-z]+)+(V1)?", id)] == []


def call_and_check(case: Any) -> None:
    """All checks: no server error, no undocumented status, type or body, and more."""
    wait_briefly(case)
    if not has_whole_floats(case.body):
        case.call_and_validate()


def wait_briefly(case: Any) -> None:
    """Shorten long polls."""
    for part in (case.query, case.body):
        wait: Any = part.get("wait") if isinstance(part, dict) else None
        if type(wait) in (int, float) and SHORT < wait <= LONGEST_WAIT:
            part["wait"] = SHORT


def has_whole_floats(value: Any) -> bool:
    """JSON Schema calls 7.0 an integer; the service, which is strict, calls it a float."""
    if isinstance(value, dict):
        return any(map(has_whole_floats, value.values()))
    if isinstance(value, list):
        return any(map(has_whole_floats, value))
    return isinstance(value, float) and value.is_integer()
