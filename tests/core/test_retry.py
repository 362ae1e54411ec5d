import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackline.core.errors import InvalidOption
from ackline.core.limits import MAX_DELAY
from ackline.core.retry import (
    Backoff,
    Jitter,
    backoff_from,
    exponential,
    fixed,
    linear,
    schedule,
)

ANY = random.Random(0)


def delays(backoff: Backoff, attempts: int) -> list[float]:
    return [backoff.delay(attempt, ANY) for attempt in range(1, attempts + 1)]


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (fixed(10), [10, 10, 10]),
        (linear(10), [10, 20, 30]),
        (exponential(1, jitter="none"), [1, 2, 4, 8]),
        (exponential(2, factor=3, jitter="none"), [2, 6, 18]),
        (schedule([1, 5, 30]), [1, 5, 30, 30, 30]),
    ],
)
def test_each_shape_waits_as_its_name_says(backoff, expected):
    assert delays(backoff, len(expected)) == expected


def test_the_cap_bounds_linear_and_exponential():
    assert delays(linear(10, cap=15), 3) == [10, 15, 15]
    assert delays(exponential(1, cap=5, jitter="none"), 5) == [1, 2, 4, 5, 5]


def test_a_schedule_longer_than_an_hour_is_not_capped():
    assert delays(schedule([7200, 86400]), 2) == [7200, 86400]


def test_an_attempt_before_the_first_waits_as_the_first():
    assert fixed(3).delay(0, ANY) == 3
    assert schedule([1, 2]).delay(0, ANY) == 1


@pytest.mark.parametrize("attempt", [65, 1000, 10**9])
def test_far_attempts_do_not_overflow(attempt):
    assert exponential(1, cap=600, jitter="none").delay(attempt, ANY) == 600


def test_a_small_factor_reaches_the_cap_in_the_end():
    slow = exponential(1, factor=1.1, jitter="none")

    assert slow.delay(66, ANY) > slow.delay(65, ANY)
    assert slow.delay(100, ANY) == slow.cap == 3600


@pytest.mark.parametrize("attempt", [1, 64, 65, 1000, 10**9])
@pytest.mark.parametrize("base", [0, 1])
def test_no_factor_overflows(base, attempt):
    steep = exponential(base, factor=1_000_000, jitter="none")

    assert steep.delay(attempt, ANY) == (min(base * 1e6 ** (min(attempt, 9) - 1), 3600))


@pytest.mark.parametrize("factor", [0, 0.5, -1, 1e9, math.nan, math.inf, "2", True])
def test_an_impossible_factor_is_refused(factor):
    with pytest.raises(InvalidOption, match="factor"):
        exponential(1, factor=factor)


@given(
    base=st.floats(0, 1e6),
    attempt=st.integers(1, 200),
    jitter=st.sampled_from(["none", "full", "equal"]),
    seed=st.integers(),
)
def test_jitter_stays_within_its_bounds(base: float, attempt: int, jitter: Jitter, seed: int):
    plain = exponential(base, jitter="none").delay(attempt, ANY)

    jittered = exponential(base, jitter=jitter).delay(attempt, random.Random(seed))

    least = {"none": plain, "full": 0.0, "equal": plain / 2}[jitter]
    assert least <= jittered <= plain
    assert math.isfinite(jittered)


def test_jitter_spreads_out():
    source = random.Random(1)

    assert len({exponential(10).delay(1, source) for _ in range(20)}) == 20


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf, MAX_DELAY * 2])
def test_impossible_waits_are_refused(seconds):
    for make in (fixed, linear, exponential, lambda value: schedule([1, value])):
        with pytest.raises(InvalidOption):
            make(seconds)


def test_an_empty_schedule_is_refused():
    with pytest.raises(InvalidOption, match="at least one"):
        schedule([])


def test_what_users_write_is_read():
    assert backoff_from(5) == fixed(5.0)
    assert backoff_from([1, 2]) == schedule([1, 2])
    assert backoff_from((1, 2)) == schedule([1, 2])
    assert backoff_from(linear(3)) == linear(3)
