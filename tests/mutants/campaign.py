"""Apply each mutant to a copy of the source, and see whether a test fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple

from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]

Outcome = Literal["killed", "survived", "does not apply", "broken"]


class Verdict(NamedTuple):
    """What became of a mutant, and the test that killed it."""

    mutant: Mutant
    outcome: Outcome
    detail: str


def run(mutants: Iterable[Mutant], processes: int = 2) -> Iterator[Verdict]:
    """Try all, as they come."""
    with ThreadPoolExecutor(processes) as threads:
        yield from threads.map(try_one, mutants)


def try_one(mutant: Mutant) -> Verdict:
    """Try one mutant in a copy of its own."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as place:
        source = copy_source(Path(place))
        target = source / "ackline" / mutant.path
        text = target.read_text() if target.exists() else ""
        if text.count(mutant.find) != 1:
            return Verdict(mutant, "does not apply", f"found {text.count(mutant.find)} times")
        target.write_text(text.replace(mutant.find, mutant.replace))
        return _judge(mutant, run_tests(source, mutant.stages, mutant.patience))


def copy_source(place: Path) -> Path:
    """A copy of src/ that a mutant may change, compiled as far as the original is."""
    source = place / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("static"))
    return source


def run_tests(
    source: Path, stages: list[list[str]], patience: float
) -> subprocess.CompletedProcess[str]:
    """Run one stage after the other, up to the first that fails."""
    for stage in stages:
        tests = _run_stage(source, stage, patience)
        if tests.returncode != 0:
            break
    return tests


def _run_stage(source: Path, stage: list[str], patience: float) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "--exitfirst", "--quiet", "--tb=line"]
    command += ["-m", "not slow"]
    command += ["-p", "no:cacheprovider", "--basetemp", str(source.parent / "tmp"), *stage]
    environment = os.environ | {"PYTHONPATH": str(source), "ACKLINE_HISTORIES": "100"}
    try:
        return subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "FAILED by hanging", "")


def _judge(mutant: Mutant, tests: subprocess.CompletedProcess[str]) -> Verdict:
    lines = tests.stdout.splitlines()
    if tests.returncode == 0:
        return Verdict(mutant, "survived", lines[-1])
    failed = [line for line in lines if line.startswith("FAILED")]
    if tests.returncode == 1 and failed:
        return Verdict(mutant, "killed", failed[0].split("::")[-1].split(" - ")[0])
    return Verdict(mutant, "broken", "\n".join(lines[-20:]) + tests.stderr)
