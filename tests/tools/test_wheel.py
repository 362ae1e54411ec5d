"""The wheel, the source archive, and the extras."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tarfile
import time
import urllib.request
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
from tools import environment

ROOT = Path(__file__).parents[2]


class Built(NamedTuple):
    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Built:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return Built(next(folder.glob("*.whl")), next(folder.glob("*.tar.gz")))


def source_files() -> set[str]:
    files = (path for path in (ROOT / "src").rglob("*") if path.is_file())
    return {str(p.relative_to(ROOT / "src")) for p in files if "__pycache__" not in p.parts}


def test_the_wheel_is_the_source_and_nothing_else(built):
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
    added = {name for name in names if ".dist-info/" in name}
    print(f"wheel: {built.wheel.stat().st_size:,} bytes, {len(names)} files")
    assert names - added == source_files()
    assert {name.partition("/")[0] for name in names - added} == {"ackline", "pyspark_ackline"}
    assert any(name.endswith("/entry_points.txt") for name in added)


@pytest.fixture
def unpacked(built: Built, tmp_path: Path) -> Path:
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    return next(tmp_path.glob("ackline-*"))


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_the_source_archive_is_the_checkout(unpacked):
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    files = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    there = {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}
    assert files == there | {"PKG-INFO"}
    for name in there:
        assert os.access(unpacked / name, os.X_OK) == os.access(ROOT / name, os.X_OK), name


def test_check_starts_from_the_source_archive(unpacked, tmp_path):
    # given a uv that links the packages of this environment instead of installing them
    [site] = [path for path in sys.path if path.startswith(sys.prefix) and "site-packages" in path]
    library = f".venv/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    uv = tmp_path / "uv"
    link_file = f"{unpacked}/{library}/links.pth"
    uv.write_text(f"#!/bin/sh\nprintf '%s\\n' {site} {unpacked}/src >{link_file}\n")
    uv.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"

    # when
    done = subprocess.run(
        ["./check", "-q", "tests/core/test_ids.py"],
        cwd=unpacked,
        env={**os.environ, "PATH": path, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )

    # then
    assert done.returncode == 0, done.stdout + done.stderr
    assert "setting up .venv (dev)" in done.stderr
    assert re.search(r"\d+ passed", done.stdout)


# --- in an empty environment ---


class EmptyEnvironment:
    """An environment with only the packages that a test installs."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        monkeypatch.setattr(environment, "VENV", folder)
        monkeypatch.delenv("PYTHONPATH", raising=False)
        venv.create(folder, symlinks=True)
        self._installer = environment.find_installer(str(self.python))

    def install(self, requirement: str) -> None:
        environment.run(*self._installer, requirement)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, *arguments], cwd=self.folder, capture_output=True, text=True, check=False
        )

    def seconds(self, *arguments: str) -> float:
        """The fastest of five runs."""
        durations = []
        for _ in range(5):
            started = time.perf_counter()
            assert self.run(*arguments).returncode == 0
            durations.append(time.perf_counter() - started)
        return min(durations)


@pytest.fixture
def empty(tmp_path, monkeypatch) -> EmptyEnvironment:
    return EmptyEnvironment(tmp_path / "empty", monkeypatch)


@pytest.mark.ci
def test_the_package_without_extras_runs_and_names_missing_extras(built, empty):
    empty.install(str(built.wheel))
    library = next(empty.folder.glob("lib/python*/site-packages"))
    folders = [path for path in library.iterdir() if not path.name.startswith("pip")]
    for folder in folders:
        size = sum(path.stat().st_size for path in [folder, *folder.rglob("*")])
        if size > 100_000:
            print(f"{folder.name}: {size / 1e6:.1f} MB")
    print(f"python -c 'import ackline': {empty.seconds('-c', 'import ackline'):.2f} s")
    print(f"ackline --help: {empty.seconds('-m', 'ackline', '--help'):.2f} s")

    program = (ROOT / "README.md").read_text().split("## A first program")[1]
    (empty.folder / "first.py").write_text(program.split("```python\n")[1].split("```")[0])
    first = subprocess.Popen(
        [empty.python, "-u", "first.py"], cwd=empty.folder, stdout=subprocess.PIPE, text=True
    )
    assert first.stdout is not None
    assert first.stdout.readline() == "welcome, ann@example.com\n"
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=30)
    shown = empty.run("-m", "ackline", "show", "email", "email-1", "--store", "jobs.db")
    assert "completed" in shown.stdout

    for command, extra in [
        (["serve"], "service"),
        (["queues", "--store", "redis://localhost"], "redis"),
        (["queues", "--store", "postgresql://localhost"], "postgres"),
        (["pipeline", "report", "--lake", "lake"], "spark"),
    ]:
        assert f"pip install 'ackline[{extra}]'" in empty.run("-m", "ackline", *command).stderr


IMPORT_OPENER = "from ackline.stores.registry import store_from_url as at; "

PROGRAMS = {
    "metrics": "import ackline.metrics",
    "redis": f"{IMPORT_OPENER} at('redis://localhost')",
    "postgres": f"{IMPORT_OPENER} at('postgresql://localhost')",
    "analytics": "import duckdb",
    "delta": "import deltalake",
    "spark": "import ackline.spark.runtime.session, ackline.spark.lake.lake, pyspark_ackline",
    "testing": "import ackline.testing.conformance, ackline.testing.model",
}
"""Code that works with each extra."""


@pytest.mark.ci
@pytest.mark.parametrize("extra", PROGRAMS)
def test_extras_install_what_they_need(built, empty, extra):
    empty.install(f"{built.wheel}[{extra}]")
    done = empty.run("-W", "error", "-c", PROGRAMS[extra])
    assert done.returncode == 0, done.stderr


@pytest.mark.ci
def test_the_service_serves(built, empty):
    empty.install(f"{built.wheel}[service]")
    serving = subprocess.Popen(
        [empty.python, "-m", "ackline", "serve", "--port", "0"],
        cwd=empty.folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    with serving:
        assert serving.stderr is not None
        found = (re.search(r"dashboard at (\S+)", line) for line in serving.stderr)
        address = next(match[1] for match in found if match)
        with urllib.request.urlopen(f"{address}readyz", timeout=10) as answer:
            assert answer.status == 200
        serving.terminate()
        serving.communicate(timeout=30)
    assert serving.returncode == 0
