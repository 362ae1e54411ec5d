from __future__ import annotations

import copy
import pickle
from datetime import timedelta

import pytest

from ackline import Cancel, Dead, Retry, Snooze

RAISABLE = [Retry(), Retry(30, "closed"), Snooze(5), Cancel("not needed"), Dead("never")]


@pytest.mark.parametrize("outcome", RAISABLE, ids=repr)
def test_a_copy_is_equal_and_has_the_same_hash(outcome):
    for same in (copy.copy(outcome), pickle.loads(pickle.dumps(outcome))):
        assert same == outcome
        assert hash(same) == hash(outcome)
        assert repr(same) == repr(outcome)


def test_outcomes_of_other_values_or_types_differ():
    assert Retry(30) != Retry(31)
    assert Retry(30) != Retry(30, "closed")
    assert Cancel("never") != Dead("never")
    assert Snooze(5) != 5


def test_it_prints_its_values():
    assert (
        repr(Retry(30, "closed")) == str(Retry(30, "closed")) == "Retry(delay=30, reason='closed')"
    )


def test_its_values_cannot_be_changed():
    with pytest.raises(AttributeError):
        Snooze(5).delay = 6  # type: ignore[misc]


def test_a_delay_may_be_a_timedelta():
    assert Retry(timedelta(minutes=1)) == Retry(60.0)
    assert Snooze(timedelta(seconds=2)).delay == 2.0


@pytest.mark.parametrize("outcome", RAISABLE, ids=repr)
def test_it_can_be_raised(outcome):
    with pytest.raises(type(outcome)) as caught:
        raise outcome
    assert caught.value == outcome
