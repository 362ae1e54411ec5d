import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackline.core.errors import InvalidJob, InvalidName, InvalidOption
from ackline.core.job import LIVE, TERMINAL, WAITING, Options, QueueKey, State
from ackline.core.limits import (
    MAX_DELAY,
    MAX_NAME_BYTES,
    require_lease,
    require_name,
    require_priority,
    require_seconds,
)


@pytest.mark.parametrize(
    "name", ["a", " ", "\x00", "a:b", "🙂", "x" * MAX_NAME_BYTES, "é" * (MAX_NAME_BYTES // 2)]
)
def test_names_that_can_be_kept(name):
    require_name("job id", name)
    assert Options(group=name).group == name


@pytest.mark.parametrize(
    "name", ["", "x" * (MAX_NAME_BYTES + 1), "é" * (MAX_NAME_BYTES // 2 + 1), "\ud800", "a\udfff"]
)
def test_names_that_cannot_be_kept(name):
    with pytest.raises(InvalidName, match="job id"):
        require_name("job id", name)
    with pytest.raises(InvalidName):
        Options(group=name)


@pytest.mark.parametrize("name", [None, 5, b"a", ["a"]])
def test_a_name_is_text(name):
    with pytest.raises(InvalidName, match="kind"):
        require_name("kind", name)


@given(st.text())
def test_a_name_is_accepted_just_when_its_bytes_fit(name):
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if 1 <= size <= MAX_NAME_BYTES:
        require_name("queue", name)
    else:
        with pytest.raises(InvalidName):
            require_name("queue", name)


@pytest.mark.parametrize("priority", range(10))
def test_ten_priorities(priority):
    require_priority(priority)


@pytest.mark.parametrize("priority", [-1, 10, 5.0, "5", None, True])
def test_other_priorities_are_refused(priority):
    with pytest.raises(InvalidOption, match="priority"):
        require_priority(priority)


@pytest.mark.parametrize("seconds", [None, 0, 0.5, 1, MAX_DELAY])
def test_spans_of_time(seconds):
    require_seconds("delay", seconds)


@pytest.mark.parametrize("seconds", [-0.1, math.nan, math.inf, MAX_DELAY + 1, "5", True])
def test_other_spans_are_refused(seconds):
    with pytest.raises(InvalidOption, match="delay"):
        require_seconds("delay", seconds)


@pytest.mark.parametrize("seconds", [1e-9, 0.009, 0])
def test_a_lease_lasts_long_enough_to_begin_a_job(seconds):
    with pytest.raises(InvalidOption, match="lease"):
        require_lease(seconds)
    for enough in (0.01, 30, None):
        require_lease(enough)


def test_a_timeout_is_more_than_nothing():
    with pytest.raises(InvalidOption, match="timeout"):
        require_seconds("timeout", 0, above_zero=True)


def test_every_refusal_is_an_invalid_job():
    assert issubclass(InvalidName, InvalidJob)
    assert issubclass(InvalidOption, InvalidJob)
    assert issubclass(InvalidJob, ValueError)


def test_each_state_is_live_or_terminal():
    assert set(State) == LIVE | TERMINAL
    assert not LIVE & TERMINAL
    assert WAITING | {State.PROCESSING} == LIVE
    assert {state for state in State if state.terminal} == TERMINAL


def test_a_queue_is_named_with_its_tenant_unless_it_is_the_default():
    assert str(QueueKey("default", "mail")) == "mail"
    assert str(QueueKey("acme", "mail")) == "acme/mail"
