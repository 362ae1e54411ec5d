"""Every command, in the order of the help."""

from __future__ import annotations

import importlib

from typer.models import CommandInfo

from ackline.cli.app import app

MODULES = (
    "demo",
    "enqueue",
    "worker",
    "relay",
    "serve",
    "token",
    "webhook",
    "queues",
    "jobs",
    "export",
    "show",
    "events",
    "readers",
    "top",
    "keys",
    "act",
    "recover",
    "doctor",
    "pipeline.audit",
    "pipeline.lake",
    "pipeline.report",
    "pipeline.jobs",
    "pipeline.work",
    "pipeline.streams",
    "migrate",
    "bench",
)


def load_all() -> None:
    """Import the module of each command group; importing it registers its commands."""
    for name in MODULES:
        importlib.import_module(f"ackline.cli.{name}")
    # Modules import each other, so they do not register in the order of the help.
    app.registered_commands.sort(key=lambda info: MODULES.index(_module_of(info)))


def _module_of(info: CommandInfo) -> str:
    return info.callback.__module__.removeprefix("ackline.cli.") if info.callback else ""
