"""`ackline pipeline run`, killed somewhere: `python -m tests.spark.killed_lake WHERE URL LAKE`.

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

from ackline.cli.app import run
from ackline.spark.lake import running

BATCH_EVENTS = 60


def die() -> None:
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


def main(where: str, url: str, lake: str) -> int:
    # The command makes its run by this name.
    if ":" in where:
        running.Run = partial(running.Run, passing=dying_at(where))  # type: ignore[assignment, misc]
    else:
        running.Run = partial(Timed, float(where))  # type: ignore[assignment, misc]
    command = ["pipeline", "run", "--lake", lake, f"--batch-events={BATCH_EVENTS}"]
    return run(["--store", url, *command, "--master", "local[2]"])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
