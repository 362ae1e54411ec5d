"""The command `ackline`: enqueue, run, inspect and operate jobs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and end the process with its exit code."""
    from ackline.cli.app import run

    sys.exit(run(sys.argv[1:] if arguments is None else arguments))
