"""`ackline pipeline …`: the commands that use Spark."""

from __future__ import annotations

from ackline.cli.app import Commands, app
from ackline.spark.java import SUPPORTED_JAVA

COMMANDS = {
    "Commands": {
        "run": "pipeline.run",
        "report": "pipeline.report",
        "audit": "pipeline.audit",
        "load": "pipeline.bulk",
        "export": "pipeline.bulk",
        "redrive": "pipeline.bulk",
        "work": "pipeline.fleet",
        "stop": "pipeline.fleet",
        "streams": "pipeline.streams",
    }
}


@app.group(
    cls=Commands,
    table=COMMANDS,
    help=f"""Analyse, move and run jobs with Spark, on this machine or on a cluster.

    It needs `pip install 'ackline[spark]'` and {SUPPORTED_JAVA}. For a first report on your
    queues:

    \b
    ackline pipeline run --lake lake
    ackline pipeline report --lake lake
    """,
)
def pipeline() -> None:
    """Group the commands; the help is in the decorator."""
