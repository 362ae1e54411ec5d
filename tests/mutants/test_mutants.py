import shutil
from pathlib import Path

import pytest
from tests.mutants import campaign
from tests.mutants.__main__ import source_passes
from tests.mutants.catalogue import ALL, QUICK
from tests.mutants.mutant import Mutant
from tests.mutants.source_change import StaleMutant, changed

SOURCE = campaign.ROOT / "src/ackline"


def test_two_mutants_die():
    verdicts = list(campaign.run(QUICK))

    assert [verdict.outcome for verdict in verdicts] == ["killed"] * 2


def test_every_mutant_applies_to_exactly_one_place():
    stale = []
    for mutant in ALL:
        try:
            text = (SOURCE / mutant.path).read_text()
            changed(text, *mutant[1:5])
        except (OSError, StaleMutant) as error:
            stale.append(f"{mutant.name}: {error}")

    assert "\n\n".join(stale) == ""
    assert len({mutant.name for mutant in ALL}) == len(ALL)


PYTHON = """
class Line:
    def first(self):
        if self.open and not (
            self.paused
        ):
            return take(self.jobs, limit=1)

    def last(self):
        self.forget()
        return take(self.jobs, limit=1)
"""


@pytest.mark.parametrize(
    ("scope", "old", "new", "line"),
    [
        ("Line.first", "not self.paused", "True", "if self.open and True:"),
        ("Line.first", "limit=1", "", "return take(self.jobs)"),
        ("Line.last", "limit=1", "limit=2\nrest=0", "return take(self.jobs, limit=2, rest=0)"),
        ("", "self.forget()", "", "pass"),
        ("Line.last", "self.forget()", "self.forget()\nreturn", "return"),
    ],
)
def test_the_layout_does_not_matter_in_python(scope: str, old: str, new: str, line: str):
    lines = changed(PYTHON, "line.py", scope, old, new).splitlines()

    assert line in map(str.strip, lines)


def test_white_space_does_not_matter_in_sql_and_lua():
    sql = "-- name: one\nSELECT a;\n\n-- name: two\nSELECT a,\n  b FROM c;\n"
    lua = "function f()\n  g(1,\n    2)\nend\nfunction h()\n  g(1, 2)\nend\n"

    assert changed(sql, "q.sql", "two", "a, b", "b") == sql.replace("a,\n  b", "b")
    assert changed(lua, "f.lua", "f", "g(1, 2)", "g(3)") == lua.replace("g(1,\n    2)", "g(3)")


@pytest.mark.parametrize(
    ("scope", "old", "advice"),
    [
        ("Line.middle", "self.forget()", "say where"),
        ("Line.first", "self.forget()", "quote what stands there"),
        ("Line", "limit=1", "quote more"),
    ],
)
def test_a_mutant_that_does_not_apply_says_what_to_do(scope: str, old: str, advice: str):
    with pytest.raises(StaleMutant, match=advice):
        changed(PYTHON, "line.py", scope, old, "")


def test_a_mutant_that_does_not_apply_is_not_killed():
    stale = Mutant("stale", "lifecycle.py", "", "no_such_line()", "")

    assert campaign.try_one(stale).outcome == "does not apply"


USES_THE_COPY = """
import ackline, pathlib, subprocess, sys

def test_the_copy_is_used():
    program = [sys.executable, "-c", "import ackline; print(ackline.__file__)"]
    for path in (ackline.__file__, subprocess.check_output(program, text=True)):
        assert pathlib.Path(path).parent.parent == pathlib.Path({source!r})
"""


def test_tests_and_the_programs_that_they_start_use_the_copy(tmp_path: Path):
    source = campaign.copy_source(tmp_path)
    (tmp_path / "test_copy.py").write_text(USES_THE_COPY.format(source=str(source)))

    assert campaign.run_tests(source, [[str(tmp_path / "test_copy.py")]], 60).code == 0


def test_a_test_that_hangs_fails(tmp_path: Path):
    source = campaign.copy_source(tmp_path)
    (tmp_path / "test_hangs.py").write_text(
        "import ackline, threading\n\ndef test_waits():\n    threading.Event().wait()\n"
    )
    hangs = campaign.run_tests(source, [[str(tmp_path / "test_hangs.py")]], 2)

    assert campaign.judge(QUICK[0], hangs).outcome == "killed"


def test_a_run_with_another_source_is_broken(tmp_path: Path):
    source = campaign.copy_source(tmp_path)
    shutil.rmtree(source / "ackline")
    other = campaign.run_tests(source, [["tests/core/test_errors.py"]], 60)

    assert campaign.judge(QUICK[0], other).outcome == "broken"


@pytest.mark.slow
def test_control_the_source_itself_passes():
    assert source_passes(ALL)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_every_mutant_dies(mutant: Mutant):
    verdict = campaign.try_one(mutant)

    assert verdict.outcome == "killed", verdict.detail
