"""The faults of an interfering client cover everything that it does to leases."""

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
    """Others may expire its leases before its claim returns."""
    during: list[Phase] = []

    def abandon() -> None:
        during.extend(step.phase for step in read_all(tmp_path))

    queues = ackline.open("memory://")
    program = SimpleNamespace(
        queues=queues,
        queue=queues["work"],
        options=SimpleNamespace(seed=1, name="interfering_client"),
        history=History(tmp_path, "interfering_client"),
    )
    client = InterferingClient(cast(Any, program))
    for act in ("abandon", "settle_late", "sweep", "operate", "move", "promote_and_prune"):
        monkeypatch.setattr(client, act, abandon)

    client.interfere()

    assert during == [Phase.INVOKE]
    steps = read_all(tmp_path)
    assert [step.phase for step in steps] == [Phase.INVOKE, Phase.OK]
    assert len({step.id for step in steps}) == 1
    program.history.close()
    queues.close()
