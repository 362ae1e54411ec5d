"""A meddler's faults cover all of what it does to leases."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import ackline
from tests.harness.faults.checks.history import History, Phase, read_all
from tests.harness.faults.programs.interfering_client import InterferingClient


def test_a_fault_lasts_from_before_the_act_until_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may expire what it has leased before its claim returns."""
    during: list[Phase] = []

    def abandon() -> None:
        during.extend(step.phase for step in read_all(tmp_path))

    queues = ackline.open("memory://")
    post = SimpleNamespace(
        queues=queues,
        queue=queues["work"],
        assignment=SimpleNamespace(seed=1, name="interfering_client"),
        history=History(tmp_path, "interfering_client"),
    )
    meddler = InterferingClient(cast(Any, post))
    for act in ("abandon", "settle_late", "sweep", "operate", "move", "promote_and_prune"):
        monkeypatch.setattr(meddler, act, abandon)

    meddler.interfere()

    assert during == [Phase.INVOKE]
    steps = read_all(tmp_path)
    assert [step.phase for step in steps] == [Phase.INVOKE, Phase.OK]
    assert len({step.id for step in steps}) == 1
    post.history.close()
    queues.close()
