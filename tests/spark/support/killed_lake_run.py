"""`ackline pipeline run`, killed somewhere: `python -m tests.spark.support.killed_lake_run WHERE
URL LAKE`.

WHERE is the name of a point and how often it is passed until then, `jobs:2`; or a time in seconds
after the run has begun, `3.5`. The process group is killed, so the Java machine dies with it, at
once and without a word.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark import SparkContext

from ackline.cli.app import run
from ackline.spark.lake import compaction, placing, running
from ackline.spark.lake import lake as lake_module
from ackline.spark.lake.folder import Folder
from ackline.spark.lake.layout import COMPACTING

BATCH_EVENTS = 60

MERGING = ("aside", "noted", "switched", "removed", "placed", "replaced", "unlinked")
"""Points that are passed when batches are put together; for them, two are enough."""

RENAMED = "renamed"
"""A point that is passed whenever something has taken its place, or has left it."""


def die() -> None:
    # Java has a process group of its own, so that Ctrl-C does not reach it.
    gateway: Any = SparkContext._gateway
    os.killpg(gateway.proc.pid, signal.SIGKILL)
    os.killpg(os.getpgid(0), signal.SIGKILL)


def dying_at(where: str) -> Callable[[str], None]:
    name, _, times = where.partition(":")
    passed: list[str] = []

    def pass_by(point: str) -> None:
        passed.append(point)
        if passed.count(name) == int(times):
            die()

    return pass_by


class Timed(running.Run):
    """Dies so many seconds after its beginning."""

    def __init__(self, seconds: float, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        timer = threading.Timer(seconds, die)
        timer.daemon = True
        timer.start()


class DyingFolder(Folder):
    """Dies when so many files of what was written aside are removed, one after the other."""

    passing: Callable[[str], None]

    def remove(self, *parts: str) -> None:
        if parts[:1] == (COMPACTING,):
            for above, _, names in os.walk(self._own(*parts)):
                for name in names:
                    os.unlink(f"{above}/{name}")
                    DyingFolder.passing("unlinked")
        super().remove(*parts)


def dying_renames(passing: Callable[[str], None]) -> None:
    rename = placing.move

    def move(*arguments: Any) -> None:
        rename(*arguments)
        passing(RENAMED)

    vars(placing)["move"] = move


def main(where: str, url: str, lake: str) -> int:
    # The command makes its run by this name.
    if ":" in where:
        passing = dying_at(where)
        running.Run = partial(running.Run, passing=passing)  # type: ignore[assignment, misc]
        dying_renames(passing)
        if where.partition(":")[0] in MERGING:
            compaction.TOGETHER = 2
            DyingFolder.passing = staticmethod(passing)
            vars(lake_module)["Folder"] = DyingFolder
    else:
        running.Run = partial(Timed, float(where))  # type: ignore[assignment, misc]
    command = ["pipeline", "run", "--lake", lake, f"--batch-events={BATCH_EVENTS}"]
    return run(["--store", url, *command, "--master", "local[2]"])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
