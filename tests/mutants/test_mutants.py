import shutil
from pathlib import Path

import pytest
from tests.mutants import campaign
from tests.mutants.__main__ import source_passes
from tests.mutants.catalogue import ALL, QUICK, RULES
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


SEES = """
import ackline, pathlib, subprocess, sys

def test_a_copy_is_seen():
    program = [sys.executable, "-c", "import ackline; print(ackline.__file__)"]
    for seen in (ackline.__file__, subprocess.check_output(program, text=True)):
        assert pathlib.Path(seen).parent.parent == pathlib.Path({source!r})
"""


def test_tests_and_the_programs_that_they_start_see_the_copy(tmp_path: Path):
    source = campaign.copy_source(tmp_path)
    (tmp_path / "test_seen.py").write_text(SEES.format(source=str(source)))

    assert campaign.run_tests(source, [[str(tmp_path / "test_seen.py")]], 60).code == 0


def test_what_another_source_does_proves_nothing(tmp_path: Path):
    source = campaign.copy_source(tmp_path)
    shutil.rmtree(source / "ackline")
    other = campaign.run_tests(source, [["tests/core/test_errors.py"]], 60)

    assert campaign.judge(RULES[0], other).outcome == "broken"


@pytest.mark.slow
def test_control_the_source_itself_passes():
    assert source_passes(ALL)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_every_mutant_dies(mutant: Mutant):
    verdict = campaign.try_one(mutant)

    assert verdict.outcome == "killed", verdict.detail
