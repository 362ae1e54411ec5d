"""Conformance of the modes that the documentation names, then a part of the tests on other Pythons.

`./check` has run before: memory, SQLite, Redis, PostgreSQL and HTTP over memory are in it. A mode
that is only reported does not fail the run; its figures are in the table all the same.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HTTP = "tests/conformance/test_http.py"
POOLED = "tests/conformance/test_pgbouncer.py"
PART = ["tests/core", "tests/library", "tests/worker", "tests/conformance/test_memory.py"]

# No mode starts when this much has passed, so that the run ends before its host ends it.
BUDGET_SECONDS = 50 * 60
MODE_SECONDS = 12 * 60


@dataclass
class Mode:
    """One row of the table."""

    name: str
    tests: list[str]
    fails_the_run: bool = False
    python: Path = ROOT / ".venv" / "bin" / "python"
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    note: str = ""


MODES = [
    Mode("SQLite, durability=normal", ["tests/conformance/test_sqlite.py"], fails_the_run=True),
    Mode("Redis Sentinel", ["tests/conformance/test_redis_sentinel.py"], fails_the_run=True),
    Mode("Redis Cluster", ["tests/conformance/test_redis_cluster.py"], fails_the_run=True),
    Mode("PostgreSQL, next schema", ["tests/stores/postgres/test_migrate.py"], fails_the_run=True),
    Mode("PostgreSQL behind PgBouncer", [POOLED]),
    Mode("HTTP over SQLite", [f"{HTTP}::TestOnSqlite"], fails_the_run=True),
    Mode("HTTP over Redis", [f"{HTTP}::TestOnRedis"], fails_the_run=True),
    Mode("HTTP over PostgreSQL", [f"{HTTP}::TestOnPostgres"], fails_the_run=True),
]


def main(checked: Path, check_status: int) -> int:
    """Run every mode and print the table; the last line is what pytest would say of all."""
    started = time.monotonic()
    rows = [Mode("./check", [], fails_the_run=True, counts=read_counts(checked))]
    if check_status:
        rows[0].note = f"exit status {check_status}; no mode was run"
        return report(rows)
    for mode in MODES:
        rows.append(mode)
        if time.monotonic() - started > BUDGET_SECONDS:
            mode.note = "NOT RUN: out of time"
        else:
            run(mode, ["-m", "slow"])
    for python in other_pythons():
        mode = Mode(f"Python {python.name.removeprefix('python')}", PART)
        rows.append(mode)
        if time.monotonic() - started > BUDGET_SECONDS:
            mode.note = "NOT RUN: out of time"
        else:
            run_on(python, mode)
    return report(rows)


def run(mode: Mode, options: list[str]) -> None:
    """Run the tests of one mode, bounded in time."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        command = [str(mode.python), "-m", "pytest", "-q", "-n", "2", "--timeout", "300", *options]
        root = mode.python.parents[2]
        try:
            done = subprocess.run(
                [*command, f"--junitxml={results}", *mode.tests],
                cwd=root,
                timeout=MODE_SECONDS,
                capture_output=True,
                text=True,
                check=False,
            )
            mode.note = "" if done.returncode == 0 else f"exit status {done.returncode}"
            if done.returncode:
                print(f"--- {mode.name}\n{done.stdout[-6000:]}{done.stderr[-2000:]}", flush=True)
        except subprocess.TimeoutExpired:
            mode.note = f"ended after {MODE_SECONDS} s"
        mode.counts = read_counts(results)
    if mode.counts and mode.counts["skipped"] == mode.counts["tests"]:
        mode.note = "NOT TESTED: every case was skipped"
    mode.seconds = time.monotonic() - began


def run_on(python: Path, mode: Mode) -> None:
    """Set up an empty copy of the checkout with this Python and run a part of the tests there."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "ackline"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".venv", ".git", "node_modules"))
        began = time.monotonic()
        environment = {**os.environ, "PYTHON": str(python)}
        setup = subprocess.run(
            ["tools/environment", "dev"],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if setup.returncode:
            mode.note = "cannot be set up"
            print(f"--- {mode.name}\n{setup.stderr[-3000:]}", flush=True)
        else:
            mode.python = copy / ".venv" / "bin" / "python"
            run(mode, [])
        mode.seconds = time.monotonic() - began


def other_pythons() -> list[Path]:
    """The newest of each Python from 3.11 on that PATH or pyenv has, without the one of `.venv`."""
    found: dict[str, Path] = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders = [*map(Path, os.get_exec_path()), *sorted(pyenv.glob("3.*/bin"), reverse=True)]
    for minor in range(11, 16):
        name = f"python3.{minor}"
        for folder in folders:
            if minor != sys.version_info.minor and works(folder / name):
                found.setdefault(name, folder / name)
    return list(found.values())


def works(python: Path) -> bool:
    """Whether it starts: a shim of pyenv may name a version that is not chosen."""
    if not python.exists():
        return False
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def read_counts(results: Path) -> dict[str, int]:
    """What pytest counted; nothing if it did not come to its end."""
    if not results.exists() or not results.stat().st_size:
        return {}
    suite = next(ET.parse(results).iter("testsuite"))
    return {key: int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped")}


def report(rows: list[Mode]) -> int:
    """Print the table and the sum, and return the exit status."""
    passed = failed = reported_passed = reported_failed = status = 0
    print(f"\n{'mode':32} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}")
    for row in rows:
        bad = row.counts.get("failures", 0) + row.counts.get("errors", 0)
        good = row.counts.get("tests", 0) - bad - row.counts.get("skipped", 0)
        skipped = row.counts.get("skipped", 0)
        only = "" if row.fails_the_run or row.note.startswith("NOT") else "only reported"
        note = "; ".join(filter(None, [row.note, only]))
        print(f"{row.name:32} {good:7} {bad:7} {skipped:8} {row.seconds:8.0f}  {note}")
        if row.fails_the_run:
            passed += good
            failed += bad
            status |= bool(bad or row.note or not row.counts)
        else:
            reported_passed += good
            reported_failed += bad
    print(f"only reported, not counted below: {reported_passed} passed, {reported_failed} failed")
    print(f"{passed} passed, {failed} failed")
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
