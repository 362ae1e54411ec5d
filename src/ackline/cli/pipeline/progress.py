"""A progress bar for the tasks of a Spark job."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from ackline.cli.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

PROGRESS_EVERY = 0.2
"""Seconds between two updates of the bar."""


def with_progress(session: Session, spark: SparkSession, title: str, act: Callable[[], T]) -> T:
    """Call `act` and show a progress bar, if the command runs in a terminal."""
    if not session.notices.is_terminal or session.json or not hasattr(spark, "sparkContext"):
        return act()
    columns = (TextColumn(title), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with (
        ThreadPoolExecutor(1) as pool,
        Progress(*columns, console=session.notices, transient=True) as progress,
    ):
        bar, running = progress.add_task("", total=None), pool.submit(act)
        while True:
            try:
                return running.result(PROGRESS_EVERY)
            except TimeoutError:
                if running.done():
                    raise
                done, tasks = tasks_done(spark)
                progress.update(bar, completed=done, total=tasks or None)


def tasks_done(spark: SparkSession) -> tuple[int, int]:
    """How many tasks of the active stages are done, and how many there are."""
    tracker = spark.sparkContext.statusTracker()
    infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [info for info in infos if info is not None]
    return sum(info.numCompletedTasks for info in known), sum(info.numTasks for info in known)
