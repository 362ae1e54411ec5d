"""Which problem a client gets for an error."""

from __future__ import annotations

import pytest

from ackline.core.errors import AcklineError, HandlersHang, LeaseLost, LifespanFailed, Stopped
from ackline.service.http.problems import TYPE_PREFIX, problem_of


@pytest.mark.parametrize(
    "error",
    [Stopped("asked to stop"), HandlersHang("work"), LifespanFailed("app.open", OSError("no"))],
)
def test_an_error_that_no_request_should_lead_to_is_internal(error: AcklineError) -> None:
    problem = problem_of(error)
    assert (problem.status, problem.type) == (500, f"{TYPE_PREFIX}internal")


def test_control_the_nearest_class_counts() -> None:
    problem = problem_of(LeaseLost("a", None))
    assert (problem.status, problem.type) == (409, f"{TYPE_PREFIX}lease-lost")
