"""The limits of an audit: the widest that any process may go by. Spark is not needed."""

from __future__ import annotations

import pytest

from ackline.core.config import DEFAULTS, Policy, QueueSettings
from ackline.core.job import QueueKey
from ackline.queue.metadata.local_max_attempts import ALL_KINDS
from ackline.spark.audit.effective_limits import effective_policies
from ackline.stores.contract import QueueInfo

DAY = 86_400.0


def limits(noted, policy=None, **kinds):
    settings = QueueSettings(policy=policy or Policy(), kinds=kinds)
    info = QueueInfo(key=QueueKey("default", "work"), settings=settings, counts={})
    return dict(effective_policies(info, noted))


def attempts(noted, policy=None, **kinds):
    return {kind: one.max_attempts for kind, one in limits(noted, policy, **kinds).items()}


def test_the_librarys_if_nobody_says_anything():
    assert limits({}) == {None: DEFAULTS}


def test_what_is_configured_holds_for_all():
    policies = attempts({ALL_KINDS: 7}, Policy(max_attempts=5), mail=Policy(max_attempts=1))

    assert policies == {None: 5, "mail": 1}


@pytest.mark.parametrize(("service", "limit"), [(5, 5), (2, 3)])
def test_a_service_may_go_by_more_than_the_library(service, limit):
    kinds = {"mail": Policy(timeout=9)}

    assert attempts({ALL_KINDS: service}, **kinds) == {None: limit, "mail": limit}


@pytest.mark.parametrize(("earlier", "limit"), [(5, 5), (3, 4), (0, 4)])
def test_an_old_process_may_go_by_more_than_what_a_new_one_has_published(earlier, limit):
    kinds = {"mail": Policy(max_attempts=2, from_handler=True)}

    assert attempts({"mail": earlier}, Policy(max_attempts=4), **kinds) == {None: 4, "mail": limit}


def test_a_handler_that_is_gone_may_still_run_somewhere():
    assert attempts({"mail": 9}) == {None: 3, "mail": 9}


def test_a_handler_that_may_not_note_its_limit():
    assert attempts({}, mail=Policy(max_attempts=2, from_handler=True))["mail"] == 3


def test_a_handler_does_not_know_how_long_jobs_of_its_kind_are_kept():
    kept = Policy(keep_failed=90 * DAY, keep_cancelled=DAY / 2)

    assert limits({}, mail=kept)["mail"].keep_failed == 90 * DAY
    found = limits({"mail": 5}, mail=kept)["mail"]
    assert (found.keep_failed, found.keep_cancelled) == (DEFAULTS.keep_failed, DAY / 2)
