"""Logging of long-running commands."""

from __future__ import annotations

from typing import get_args

import click

from ackline.cli.session import Session
from ackline.logs import LogFormat, configure_logging

format_option = click.option(
    "--log-format",
    type=click.Choice(get_args(LogFormat)),
    default="text",
    help="Log as text, or as JSON objects.",
)


def configure_session_logging(
    session: Session, log_format: LogFormat, *, verbose: bool = False
) -> list[str]:
    """Log to standard error; returns the options that make child processes log the same way."""
    chosen: LogFormat = "json" if session.json else log_format
    configure_logging(chosen, verbose=verbose)
    return ["--log-format", chosen]
