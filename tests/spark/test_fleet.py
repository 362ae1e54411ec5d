"""Handlers on Spark's executors: workers like any other, stopped by a flag in the store."""

from __future__ import annotations

import threading

import pyarrow
import pytest

import ackline
from ackline.cli.app import run
from ackline.cli.pipeline import work as work_command
from ackline.errors import ConfigError
from ackline.job import State
from ackline.spark import fleet
from ackline.spark.fleet import Fleet, StopFlag, run_fleet, serve
from tests.spark.test_command import KeptSpark

SEAT = pyarrow.RecordBatch.from_pylist([{"id": 0}])

MODULE = """
import os
import ackline

queue = ackline.open(os.environ["ACKLINE_STORE"])["email"]


@queue.handler("welcome")
def welcome(job):
    if job.payload == 13:
        raise ValueError("no")
    return job.payload * 2
"""


class TestOneTask:
    @pytest.fixture(autouse=True)
    def _quick(self, monkeypatch):
        monkeypatch.setattr(fleet, "PAUSE", 0.01)

    @pytest.fixture
    def load(self, url):
        opened = []

        def call():
            queues = ackline.open(url)
            opened.append(queues)
            queue = queues["email"]

            @queue.handler("welcome")
            def welcome(job):
                return job.payload * 2

            return [queue]

        yield call
        for queues in opened:
            queues.close()

    def test_it_works_until_nothing_is_left(self, load):
        queue = load()[0]
        queue.enqueue_many(range(20), kind="welcome")

        (batch,) = serve(load, Fleet(name="f", executors=1, until_empty=True), iter([SEAT]))

        (told,) = batch.to_pylist()
        assert (told["ended"], told["failed"]) == (20, 0)
        assert told["worker"].startswith("spark f ")
        assert queue.counts()[State.COMPLETED] == 20

    def test_the_flag_ends_it_and_running_jobs_end(self, url):
        started, go_on = threading.Event(), threading.Event()
        queues = ackline.open(url)
        queue = queues["email"]

        @queue.handler("welcome")
        def welcome(job):
            started.set()
            go_on.wait(30)
            return "done"

        queue.enqueue(1, id="1", kind="welcome")
        task = threading.Thread(
            target=lambda: list(serve(lambda: [queue], Fleet(name="f", executors=1), iter([SEAT])))
        )
        task.start()
        assert started.wait(30)

        StopFlag([queue], "another").hoist()
        StopFlag([queues["images"]], "f").hoist()
        task.join(0.2)
        assert task.is_alive()
        StopFlag([queue], "f").hoist()
        go_on.set()
        task.join(30)

        assert not task.is_alive()
        assert queue.result("1") == "done"
        queues.close()


def test_a_fleet_that_begins_does_not_undo_the_stop_of_another(sqlite_url):
    class Began(Exception):
        pass

    class NoSpark:
        def range(self, *_):
            raise Began

    with ackline.open(sqlite_url) as queues:
        queue = queues["email"]
        old = StopFlag([queue], "f", StopFlag([queue], "f").says())
        before = old.raised
        StopFlag([queue], "f").hoist()

        with pytest.raises(Began):
            run_fleet(NoSpark(), lambda: [queue], Fleet(name="f", executors=1))  # type: ignore[arg-type]

        assert (before, old.raised) == (False, True)
        new = StopFlag([queue], "f", StopFlag([queue], "f").says())
        begun = new.raised
        StopFlag([queue], "f").hoist()
        assert (begun, new.raised) == (False, True)


def test_a_store_of_one_process_is_refused():
    queues = ackline.open("memory://")
    queue = queues["email"]
    queue.handler("welcome")(lambda job: None)

    with pytest.raises(ConfigError, match="each executor would have for itself"):
        run_fleet(None, lambda: [queue], Fleet(name="f", executors=1))  # type: ignore[arg-type]


def test_a_fleet_has_someone_in_it():
    with pytest.raises(ConfigError, match="at least one executor"):
        Fleet(name="f", executors=0)


def test_the_command_runs_the_handlers_of_a_module(
    spark, sqlite_url, tmp_path, monkeypatch, capsys
):
    (tmp_path / "fleet_of_tests.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ACKLINE_STORE", sqlite_url)
    # Spark's workers find the module as those of a cluster do.
    spark.addArtifacts(str(tmp_path / "fleet_of_tests.py"), pyfile=True)
    monkeypatch.setattr(work_command, "start_spark", lambda master: KeptSpark(spark))
    with ackline.open(sqlite_url) as queues:
        queue = queues["email"]
        queue.enqueue_many(range(30), kind="welcome", max_attempts=1)

        code = run(
            ["--store", sqlite_url, "pipeline", "work", "fleet_of_tests:queue", "--until-empty"]
        )

        assert code == 0
        assert "30 deliveries handled by 2 workers" in capsys.readouterr().out
        assert queue.counts()[State.COMPLETED] == 29
        assert queue.counts()[State.FAILED] == 1

    assert run(["--store", sqlite_url, "pipeline", "stop", "fleet_of_tests:queue"]) == 0
