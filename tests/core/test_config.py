import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackline.core.config import (
    CALLBACK_RETENTION,
    DAY,
    DEFAULTS,
    Policy,
    QueueSettings,
    ResolvedPolicy,
    resolve_policy,
)
from ackline.core.errors import ConfigError, InvalidOption
from ackline.core.job import Options, Record, State
from ackline.core.retry import fixed, schedule


def job(kind: str = "mail", **options) -> Record:
    return Record("a", kind, State.QUEUED, b"", 5, Options(**options), 0, 0.0)


def test_nothing_said_is_the_default():
    assert resolve_policy(job(), QueueSettings()) == DEFAULTS == ResolvedPolicy()


def test_the_seeds_defaults():
    assert (DEFAULTS.max_attempts, DEFAULTS.lease) == (3, 30.0)


def test_job_over_kind_over_queue_over_default():
    settings = QueueSettings(
        policy=Policy(max_attempts=10, lease=10.0, timeout=10.0),
        kinds={"mail": Policy(max_attempts=20, lease=20.0)},
    )

    resolved = resolve_policy(job(max_attempts=30), settings)

    assert (resolved.max_attempts, resolved.lease, resolved.timeout) == (30, 20.0, 10.0)
    assert resolved.result_ttl == DEFAULTS.result_ttl


def test_another_kind_is_not_meant():
    settings = QueueSettings(kinds={"mail": Policy(lease=20.0)})

    assert resolve_policy(job(kind="image"), settings).lease == DEFAULTS.lease


def test_a_schedule_implies_how_many_attempts():
    assert resolve_policy(job(backoff=schedule([1, 5, 30])), QueueSettings()).max_attempts == 4


def test_a_schedule_does_not_outweigh_what_is_said_beside_it():
    assert (
        resolve_policy(job(backoff=schedule([1, 5]), max_attempts=9), QueueSettings()).max_attempts
        == 9
    )


def test_a_schedule_of_the_job_outweighs_the_attempts_of_its_queue():
    settings = QueueSettings(policy=Policy(max_attempts=9))

    assert resolve_policy(job(backoff=schedule([1, 5])), settings).max_attempts == 3


def test_the_attempts_of_the_job_outweigh_the_schedule_of_its_queue():
    settings = QueueSettings(policy=Policy(backoff=schedule([1, 5])))

    assert resolve_policy(job(max_attempts=9), settings).max_attempts == 9
    assert resolve_policy(job(max_attempts=9), settings).backoff == schedule([1, 5])


def test_a_plain_backoff_says_nothing_about_attempts():
    assert (
        resolve_policy(job(backoff=fixed(1)), QueueSettings()).max_attempts == DEFAULTS.max_attempts
    )


def test_zero_is_something_said():
    assert resolve_policy(job(result_ttl=0.0), QueueSettings()).result_ttl == 0.0


levels = st.one_of(st.none(), st.integers(1, 9))


@given(own=levels, kind=levels, queue=levels)
def test_the_narrowest_level_that_says_something_wins(own, kind, queue):
    settings = QueueSettings(
        policy=Policy(max_attempts=queue), kinds={"mail": Policy(max_attempts=kind)}
    )

    levels = [level for level in (own, kind, queue, DEFAULTS.max_attempts) if level is not None]
    assert resolve_policy(job(max_attempts=own), settings).max_attempts == levels[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 0},
        {"max_attempts": 2.5},
        {"max_attempts": 5.0},
        {"max_attempts": True},
        {"max_attempts": "3"},
        {"lease": 0.0},
        {"lease": -1.0},
        {"timeout": 0.0},
        {"result_ttl": -1.0},
        {"lease": math.nan},
        {"result_ttl": math.inf},
    ],
)
def test_impossible_values_are_refused_at_every_level(wrong):
    with pytest.raises(InvalidOption):
        Options(**wrong)
    with pytest.raises(InvalidOption):
        Policy(**wrong)


@pytest.mark.parametrize("wrong", [{"keep_failed": -1.0}, {"keep_cancelled": math.nan}])
def test_impossible_retention_is_refused(wrong):
    with pytest.raises(InvalidOption):
        Policy(**wrong)


@pytest.mark.parametrize(
    "nonsense",
    [
        {"ageing": math.nan},
        {"ageing": -1.0},
        {"ageing": math.inf},
        {"group_limit": 0},
        {"repair_limit": 0},
        {"repair_limit": 10_001},
        {"max_jobs": -1},
        {"max_journal": -5},
        {"keep_journal": math.nan},
        {"keep_journal": -1.0},
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused(nonsense):
    [name] = nonsense
    with pytest.raises(ConfigError, match=name):
        QueueSettings(**nonsense)


@pytest.mark.parametrize(
    ("stored", "most"), [({}, None), ({"max_journal": 1_000_000}, 1_000_000)], ids=str
)
def test_settings_stored_by_older_versions_can_be_read(stored, most):
    settings = msgspec.msgpack.decode(msgspec.msgpack.encode(stored), type=QueueSettings)

    assert settings.max_journal == most


def test_the_least_settings_are_accepted():
    QueueSettings(ageing=0.0, group_limit=1, max_jobs=0, max_journal=0, keep_journal=0.0)


def test_a_job_that_wants_a_callback_is_kept_until_it_was_made():
    settings = QueueSettings(policy=Policy(keep_failed=0, keep_cancelled=5 * DAY))
    plain, calling = (
        resolve_policy(one, settings) for one in (job(), job(callback_url="https://example.com/"))
    )
    assert (plain.keep_failed, plain.keep_cancelled) == (0, 5 * DAY)
    assert (calling.keep_failed, calling.keep_cancelled) == (CALLBACK_RETENTION, 5 * DAY)
