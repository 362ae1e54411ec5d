"""Logging of commands that run for long."""

from __future__ import annotations

from typing import get_args

import click

from ackline.cli.session import Session
from ackline.logs import LogFormat, configure_logging

format_option = click.option(
    "--log-format",
    type=click.Choice(get_args(LogFormat)),
    default="text",
    help="Log lines for people, or JSON objects.",
)


def configure_session_logging(
    session: Session, form: LogFormat, *, verbose: bool = False
) -> list[str]:
    """Log to standard error; returns the options with which child processes log alike."""
    chosen: LogFormat = "json" if session.json else form
    configure_logging(chosen, verbose=verbose)
    return ["--log-format", chosen]
