"""The command that all others of the pipeline belong to."""

from __future__ import annotations

import typer

from ackline.cli.app import app
from ackline.cli.help import Group

PIPELINE = "Spark"

pipeline = typer.Typer(cls=Group, no_args_is_help=True, help="What Spark makes of the journal.")
app.add_typer(pipeline, name="pipeline", rich_help_panel=PIPELINE)
