"""Apply each mutant to a copy of the source, and see whether a test fails."""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from tests.mutants.forked_pytest import Run, run_pytest
from tests.mutants.mutant import Mutant
from tests.mutants.source_change import StaleMutant, changed

ROOT = Path(__file__).parents[2]

Outcome = Literal["killed", "survived", "does not apply", "broken"]


KILLERS = Path(__file__).with_name("killers.json")
"""The test that killed each mutant the last time, which is tried first."""

_OPTIONS = ["--exitfirst", "--quiet", "--tb=line", "-m", "not slow", "-p", "no:cacheprovider"]
_OPTIONS += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # plugins are already imported

_parsing = threading.Lock()
"""Python 3.11 cannot parse in two threads at once."""


class Verdict(NamedTuple):
    """The outcome for a mutant, and the test that killed it."""

    mutant: Mutant
    outcome: Outcome
    detail: str


def run(mutants: Iterable[Mutant], processes: int = 2) -> Iterator[Verdict]:
    """Try all mutants, in order."""
    with ThreadPoolExecutor(processes) as executor:
        yield from executor.map(try_one, mutants)


def try_one(mutant: Mutant) -> Verdict:
    """Try one mutant in a copy of its own."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        source = copy_source(Path(folder))
        try:
            apply(mutant, source)
        except StaleMutant as error:
            return Verdict(mutant, "does not apply", str(error))
        killer = read_killers().get(mutant.name, "")
        if killer:
            first = run_tests(source, [[killer]], mutant.test_timeout)
            if first.code == pytest.ExitCode.TESTS_FAILED:
                return judge(mutant, first)
        return judge(mutant, run_tests(source, mutant.stages, mutant.test_timeout))


def apply(mutant: Mutant, source: Path) -> None:
    """Apply a mutant to the source, or raise StaleMutant."""
    target = source / "ackline" / mutant.path
    if not target.exists():
        raise StaleMutant(f"there is no {mutant.path}; say where its code is now")
    with _parsing:
        target.write_text(changed(target.read_text(), *mutant[1:5]))


@functools.cache
def read_killers() -> dict[str, str]:
    """The test that killed each mutant the last time, by the mutant's name."""
    return json.loads(KILLERS.read_text())  # type: ignore[no-any-return]


def write_killers(verdicts: list[Verdict], names: Iterable[str]) -> None:
    """Save which tests killed these mutants, and drop mutants that no longer exist."""
    killed = [verdict for verdict in verdicts if verdict.outcome == "killed"]
    known = read_killers() | {verdict.mutant.name: verdict.detail for verdict in killed}
    kept = {name: known[name] for name in sorted(names) if name in known}
    KILLERS.write_text(json.dumps(kept, indent=0) + "\n")


def copy_source(folder: Path) -> Path:
    """A copy of src/ for a mutant, with its compiled files."""
    source = folder / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("static"))
    return source


def run_tests(source: Path, stages: list[list[str]], timeout: float) -> Run:
    """Run the stages up to the first that fails."""
    for stage in stages:
        own = [f"--basetemp={source.parent / 'tmp'}", f"--timeout={timeout}"]
        tests = run_pytest(source, [*_OPTIONS, *own, *stage])
        if tests.code != 0:
            break
    return tests


def judge(mutant: Mutant, tests: Run) -> Verdict:
    """A mutant is killed only by a failing test; any other error makes it `broken`."""
    lines = tests.output.splitlines()
    if tests.code == 0:
        return Verdict(mutant, "survived", lines[-1])
    failed = [line for line in lines if line.startswith("FAILED ")]
    if tests.code == pytest.ExitCode.TESTS_FAILED and failed:
        return Verdict(mutant, "killed", failed[0].removeprefix("FAILED ").split(" - ")[0])
    return Verdict(mutant, "broken", "\n".join(lines[-20:]))
