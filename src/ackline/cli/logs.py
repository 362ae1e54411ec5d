"""Logging of commands that run for long."""

from __future__ import annotations

from typing import Annotated

import typer

from ackline.cli.session import Session
from ackline.logs import LogFormat, start_logging

Form = Annotated[
    LogFormat,
    typer.Option(
        "--log-format", metavar="text|json", help="Log lines for people, or JSON objects."
    ),
]


def start(session: Session, form: LogFormat, *, verbose: bool = False) -> list[str]:
    """Log to standard error; returns the options with which child processes log alike."""
    chosen: LogFormat = "json" if session.json else form
    start_logging(chosen, verbose=verbose)
    return ["--log-format", chosen]
