"""Setup of `.venv`: after an interruption or a change, the next start sets it up again."""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.waiting import until
from tools import environment

ROOT = Path(__file__).parents[2]
FALSE = str(shutil.which("false"))

PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "tiny"
version = "1"

[tool.hatch]
"""

BACKEND = """
import zipfile

def build_editable(folder, settings=None, metadata=None):
    info = "tiny-1.dist-info"
    with zipfile.ZipFile(f"{folder}/tiny-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return "tiny-1-py3-none-any.whl"
"""

UV = """#!/bin/sh
echo "$UV_DEFAULT_INDEX $*" >>"{calls}"
[ -e "{fails}" ] && echo "no such package" && exit 1
while [ -e "{hangs}" ]; do sleep 0.05; done
exit 0
"""


class Checkout:
    """A small project, and a uv that the test controls."""

    def __init__(self, folder: Path) -> None:
        self.root, self.bin = folder / "checkout", folder / "bin"
        (self.root / "tools").mkdir(parents=True)
        self.bin.mkdir()
        for name in ("environment", "environment.py"):
            shutil.copy(ROOT / "tools" / name, self.root / "tools")
        (self.root / "requirements").mkdir()
        for lock in ("run.txt", "dev.txt", "bench.txt"):
            (self.root / "requirements" / lock).touch()
        installer = ROOT / "requirements" / "installer.txt"
        shutil.copy(installer, self.root / "requirements")
        (self.root / "pyproject.toml").write_text(PROJECT)
        (self.root / "backend.py").write_text(BACKEND)
        self.calls, self.fails, self.hangs = (folder / n for n in ("calls", "fails", "hangs"))
        self.calls.touch()
        for program in ("sh", "dirname", "readlink", "sleep"):
            (self.bin / program).symlink_to(str(shutil.which(program)))
        self.environment = {**os.environ, "PYTHON": sys.executable, "PATH": str(self.bin)}
        self.environment |= {"PIP_INDEX_URL": "https://index.example/simple"}

    def with_uv(self) -> None:
        uv = self.bin / "uv"
        uv.write_text(UV.format(calls=self.calls, fails=self.fails, hangs=self.hangs))
        uv.chmod(0o755)

    def start(self, profile: str = "run") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.root / "tools" / "environment", profile],
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def set_up(self, profile: str = "run") -> tuple[int, str]:
        process = self.start(profile)
        _, err = process.communicate(timeout=60)
        return process.returncode, err

    def installs(self) -> int:
        """How often packages were installed since the last call."""
        lines = self.calls.read_text().splitlines()
        self.calls.write_text("")
        return sum("--require-hashes" in line for line in lines)


@pytest.fixture
def checkout(tmp_path) -> Checkout:
    made = Checkout(tmp_path)
    made.with_uv()
    return made


def test_setup_runs_once_and_uses_pips_index(checkout):
    assert checkout.set_up() == (0, "ackline: setting up .venv (run)\n")
    assert "https://index.example/simple pip install" in checkout.calls.read_text()
    assert checkout.installs() == 1
    assert checkout.set_up() == (0, "")
    assert checkout.installs() == 0


@pytest.mark.parametrize(
    ("file", "added"),
    [("requirements/run.txt", "# newer\n"), ("pyproject.toml", "dev-mode-dirs = ['src']\n")],
)
def test_a_changed_lock_or_project_sets_up_again(checkout, file, added):
    checkout.set_up()
    (leftover := checkout.root / ".venv" / "leftover.py").touch()
    with (checkout.root / file).open("a") as changed:
        changed.write(added)

    assert checkout.set_up()[0] == 0

    assert checkout.installs() == 2
    assert not leftover.exists()


def test_a_larger_profile_includes_the_smaller_ones(checkout):
    checkout.set_up("dev")
    assert checkout.set_up("run") == (0, "")
    assert checkout.installs() == 1
    assert checkout.set_up("bench")[0] == 0
    assert checkout.installs() == 2


def test_a_failed_setup_is_reported_and_retried(checkout):
    checkout.fails.touch()
    code, stderr = checkout.set_up()
    assert code == 1
    assert "this failed" in stderr
    assert "no such package" in stderr
    checkout.fails.unlink()
    assert checkout.set_up()[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_setup_starts_over(checkout, number):
    checkout.hangs.touch()
    process = checkout.start()
    until(checkout.calls.read_text, 30.0)
    os.killpg(process.pid, number)
    process.communicate(timeout=10)
    assert process.returncode
    checkout.installs()
    checkout.hangs.unlink()

    assert checkout.set_up()[0] == 0

    assert checkout.installs() == 1


def test_concurrent_setups_wait_for_each_other(checkout):
    checkout.hangs.touch()
    both = [checkout.start(), checkout.start()]
    until(checkout.calls.read_text, 30.0)
    time.sleep(0.3)
    assert [one.poll() for one in both] == [None, None]
    checkout.hangs.unlink()

    for one in both:
        one.communicate(timeout=60)
    assert [one.returncode for one in both] == [0, 0]

    assert checkout.installs() == 1


def test_without_uv_the_pip_of_this_python_is_used(tmp_path):
    checkout = Checkout(tmp_path)

    code, stderr = checkout.set_up()

    assert code == 0, stderr
    python = checkout.root / ".venv" / "bin" / "python"
    subprocess.run([python, "-c", "import tiny"], check=True)


@pytest.fixture
def index(tmp_path: Path, monkeypatch) -> Path:
    """A machine with neither uv nor any pip, and the folder of pip on its index."""
    checkout = Checkout(tmp_path)
    monkeypatch.setattr(environment, "ROOT", checkout.root)
    monkeypatch.setattr(environment, "VENV", tmp_path)
    monkeypatch.setattr(sys, "executable", FALSE)
    monkeypatch.setenv("PATH", "/no/programs")
    monkeypatch.setenv("PIP_INDEX_URL", f"file://{tmp_path}/index")
    lock = f"pip==7.0 \\\n    --hash=sha256:{hashlib.sha256(b'the wheel').hexdigest()}\n"
    (checkout.root / "requirements" / "installer.txt").write_text(lock)
    folder = tmp_path / "index" / "pip"
    folder.mkdir(parents=True)
    (folder / "index.html").write_text('<a href="pip-7.0-py3-none-any.whl#sha256=…">pip</a>')
    return folder


def test_without_uv_and_pip_the_locked_pip_is_downloaded(index, tmp_path):
    (index / "pip-7.0-py3-none-any.whl").write_bytes(b"the wheel")

    assert environment.find_installer(FALSE) == [
        *(FALSE, f"{tmp_path}/pip-7.0-py3-none-any.whl/pip", "install", "--quiet")
    ]


@pytest.mark.parametrize("content", [b"another wheel", None])
def test_without_any_installer_the_error_gives_advice(index, content):
    if content is not None:
        (index / "pip-7.0-py3-none-any.whl").write_bytes(content)

    with pytest.raises(SystemExit) as stopped:
        environment.find_installer(FALSE)

    assert "apt install python3-venv" in str(stopped.value)


def test_peers_have_an_environment_of_their_own(checkout, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setenv("PATH", str(checkout.bin), prepend=os.pathsep)
    peers = importlib.import_module("comparison.environments")
    monkeypatch.setattr(peers, "ROOT", tmp_path)
    folder, lock = tmp_path / "peers", tmp_path / "peers.txt"
    lock.touch()

    peers.prepare_python(folder, lock, Path(sys.executable))
    peers.prepare_python(folder, lock, Path(sys.executable))

    assert f"--python {folder}/bin/python --require-hashes" in checkout.calls.read_text()
    assert checkout.installs() == 1
