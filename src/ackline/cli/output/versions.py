"""The versions of Ackline and Python."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import ackline


def ackline_version() -> str:
    """The version of this package, if it was installed as one."""
    try:
        return version(ackline.__name__)
    except PackageNotFoundError:
        return "(not installed, run from its source)"


def python_version() -> str:
    """The interpreter and what it runs on."""
    return f"{platform.python_version()} ({platform.python_implementation()}, {platform.system()})"
