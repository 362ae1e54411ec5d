"""The command that all others of the pipeline belong to."""

from __future__ import annotations

import typer

from ackline.cli.app import app
from ackline.cli.help import Group
from ackline.spark.java import JAVA

PIPELINE = "Spark"

HELP = f"""Analyse, move and run jobs with Spark, on this machine or on a cluster.

It needs `pip install 'ackline\\[spark]'` and {JAVA}. To see what your queues do, begin with:

ackline pipeline run --lake lake
ackline pipeline report --lake lake
"""

pipeline = typer.Typer(cls=Group, no_args_is_help=True, help=HELP)
app.add_typer(pipeline, name="pipeline", rich_help_panel=PIPELINE)
