"""The progress bar of Spark jobs, shown only in a terminal."""

from __future__ import annotations

import io
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from ackline.cli.pipeline import progress
from ackline.cli.pipeline.progress import tasks_done, with_progress
from ackline.cli.session import CommonOptions, Session


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(progress, "PROGRESS_EVERY", 0.01)


def spark_with(stages: dict[int, tuple[int, int] | None]) -> Any:
    """A Spark with stages of (tasks done, tasks); None is a stage that has ended meanwhile."""

    def info_of(stage):
        known = stages[stage]
        return known and SimpleNamespace(numCompletedTasks=known[0], numTasks=known[1])

    polled = threading.Event()
    tracker = SimpleNamespace(getActiveStageIds=lambda: list(stages), getStageInfo=info_of)

    def poll():
        polled.set()
        return tracker

    return SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=poll), polled=polled)


def session_on(*, terminal: bool, json: bool = False) -> Session:
    session = Session(CommonOptions(json=json))
    session.notices = Console(file=io.StringIO(), force_terminal=terminal, width=80)
    return session


def shown(session: Session) -> str:
    assert isinstance(session.notices.file, io.StringIO)
    return session.notices.file.getvalue()


def test_tasks_of_all_stages_are_counted():
    assert tasks_done(spark_with({1: (3, 4), 2: (0, 8), 3: None})) == (3, 12)
    assert tasks_done(spark_with({})) == (0, 0)


def test_a_terminal_shows_the_progress():
    session, spark = session_on(terminal=True), spark_with({1: (1, 4)})

    def act():
        assert spark.polled.wait(30)
        spark.polled.clear()
        # By the second poll, the first has moved the bar.
        assert spark.polled.wait(30)
        return "done"

    assert with_progress(session, spark, "enqueueing", act) == "done"
    assert "enqueueing" in shown(session)
    assert "25%" in shown(session)


@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError("the store's own")])
def test_errors_of_the_action_are_raised(error):
    def act():
        raise error

    with pytest.raises(type(error), match=str(error)):
        with_progress(session_on(terminal=True), spark_with({}), "enqueueing", act)


@pytest.mark.parametrize(
    ("session", "spark"),
    [
        (session_on(terminal=False), spark_with({1: (1, 4)})),
        (session_on(terminal=True, json=True), spark_with({1: (1, 4)})),
        pytest.param(session_on(terminal=True), SimpleNamespace(), id="Spark Connect"),
    ],
)
def test_no_bar_without_a_terminal_or_a_local_spark(session, spark):
    assert with_progress(session, spark, "enqueueing", threading.current_thread) is (
        threading.current_thread()
    )
    assert shown(session) == ""
