import pytest
from tests.mutants import campaign
from tests.mutants.__main__ import source_passes
from tests.mutants.catalogue import ALL, QUICK
from tests.mutants.mutant import Mutant


def test_two_mutants_die():
    verdicts = list(campaign.run(QUICK))

    assert [verdict.outcome for verdict in verdicts] == ["killed"] * 2


def test_every_mutant_applies_to_exactly_one_place():
    stale = [
        mutant.name
        for mutant in ALL
        if (campaign.ROOT / "src/ackline" / mutant.path).read_text().count(mutant.find) != 1
    ]

    assert stale == []


def test_a_mutant_that_does_not_apply_is_not_taken_for_dead():
    stale = Mutant("stale", "lifecycle.py", "no such line", "")

    assert campaign.try_one(stale).outcome == "does not apply"


@pytest.mark.slow
def test_control_the_source_itself_passes():
    assert source_passes(ALL)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_every_mutant_dies(mutant: Mutant):
    verdict = campaign.try_one(mutant)

    assert verdict.outcome == "killed", verdict.detail
