"""Every command, in the order of the help."""

from __future__ import annotations

import importlib
import importlib.util

MODULES = (
    "demo",
    "enqueue",
    "worker",
    "queues",
    "jobs",
    "show",
    "events",
    "top",
    "act",
    "doctor",
    "bench",
)


def load_all() -> None:
    """Import the module of each command group, whereby it registers itself."""
    for name in MODULES:
        module = f"ackline.cli.{name}"
        if importlib.util.find_spec(module) is not None:
            importlib.import_module(module)
