"""Handlers on Spark's executors: workers like any other, stopped by a flag in the store."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest
from tests.spark.audit.test_audit_command import KeptSpark
from tests.waiting import until

import ackline
from ackline.cli.app import run
from ackline.cli.pipeline import fleet as work_command
from ackline.core.clock import ManualClock
from ackline.core.errors import ConfigError, HandlersHang, StoreUnavailable
from ackline.core.job import State
from ackline.spark.fleet import remaining, running, task
from ackline.spark.fleet import task as fleet_task
from ackline.spark.fleet.fleet import Fleet
from ackline.spark.fleet.remaining import Looks, has_nothing_to_do, warn_of_left_jobs
from ackline.spark.fleet.running import run_fleet, warn_of_free_seats
from ackline.spark.fleet.stop_flag import StopFlag
from ackline.spark.fleet.task import serve
from ackline.spark.store.address import StoreFile, store_files
from ackline.spark.worker_names import fleet_worker, fleets_at_work, stream_worker
from ackline.worker import Worker, startup_retry

ROOT = Path(__file__).parents[3]
SEAT = pyarrow.RecordBatch.from_pylist([{"id": 0}])

MODULE = """
import logging
import os
import ackline

queue = ackline.open(os.environ["ACKLINE_STORE"])["email"]


@queue.handler("welcome")
def welcome(job):
    if job.payload == 13:
        raise ValueError("no")
    return job.payload * 2
"""


def fleet_of(queues, **options):
    """A fleet as its workers are told of it."""
    host = socket.gethostname()
    files = tuple(StoreFile(path=path, host=host) for path in store_files(queues))
    return Fleet(name="f", executors=1, files=files, **options)


class Began(Exception):
    """Spark was asked to work."""


def begin(*_):
    raise Began


def no_spark(master: str = "local[2]") -> Any:
    """A session that begins nothing."""

    context = SimpleNamespace(master=master)
    return SimpleNamespace(sparkContext=context, range=begin, stop=lambda: None)


class WatchedFlag(StopFlag):
    """Says when it was looked at."""

    looks = threading.Semaphore(0)

    @property
    def raised(self):
        found = super().raised
        self.looks.release()
        return found


class TestOneTask:
    @pytest.fixture(autouse=True)
    def _quick(self, monkeypatch):
        monkeypatch.setattr(task, "PAUSE", 0.01)

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

        (batch,) = serve(load, fleet_of([queue], until_empty=True), iter([SEAT]))

        (report,) = batch.to_pylist()
        assert (report["ended"], report["failed"]) == (20, 0)
        assert report["worker"].startswith(fleet_worker("f"))
        assert queue.counts()[State.COMPLETED] == 20

    def test_it_does_not_wait_for_kinds_that_it_has_no_handler_for(self, load, monkeypatch):
        monkeypatch.setattr(remaining, "PAUSES", (0.01, 0.01))
        queue = load()[0]
        queue.enqueue_many(range(20), kind="welcome")
        queue.enqueue_many(range(3), kind="goodbye")
        queue.enqueue(1, kind="goodbye", delay=3600)

        (batch,) = serve(load, fleet_of([queue], until_empty=True), iter([SEAT]))

        (report,) = batch.to_pylist()
        assert (report["ended"], report["failed"]) == (20, 0)
        assert queue.counts()[State.QUEUED] == 3

    @pytest.mark.parametrize("asked_to_stop", [False, True])
    def test_one_that_gives_up_leaves_its_seat(self, asked_to_stop, load, monkeypatch):
        """Its process ends, for Spark would give it to the next task, threads that hang and all."""
        left: list[int] = []
        monkeypatch.setattr(logging, "shutdown", lambda: None)
        monkeypatch.setattr(os, "_exit", left.append)
        queue = load()[0]
        fleet = fleet_of([queue])

        class GivesUp(Worker):
            def start(self):
                super().start()
                self.stop_with_error(HandlersHang("email"))
                if asked_to_stop:
                    StopFlag([queue], fleet.name).hoist()

        monkeypatch.setattr(fleet_task, "Worker", GivesUp)

        list(serve(load, fleet, iter([SEAT])))

        assert left == ([] if asked_to_stop else [1])

    def test_the_flag_ends_it_and_running_jobs_end(self, url, monkeypatch):
        monkeypatch.setattr(fleet_task, "StopFlag", WatchedFlag)
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
            target=lambda: list(serve(lambda: [queue], fleet_of([queue]), iter([SEAT])))
        )
        task.start()
        assert started.wait(30)

        StopFlag([queue], "another").hoist()
        StopFlag([queues["images"]], "f").hoist()
        while WatchedFlag.looks.acquire(blocking=False):
            pass
        # One look may have begun before; after one that found itself meant there would be no more.
        assert all(WatchedFlag.looks.acquire(timeout=30) for _ in range(3))
        StopFlag([queue], "f").hoist()
        go_on.set()
        task.join(30)

        assert not task.is_alive()
        assert queue.result("1") == "done"
        queues.close()

    def test_a_stop_while_the_store_was_away_is_heard_before_it_begins(self, load, monkeypatch):
        monkeypatch.setattr(startup_retry, "RETRY_DELAYS", (0.0, 0.0))
        (queue,), starts, really_start = load(), [], Worker.start

        def start(worker):
            starts.append(worker)
            if len(starts) > 1:
                return really_start(worker)
            StopFlag([queue], "f").hoist()
            raise StoreUnavailable("away")

        monkeypatch.setattr(Worker, "start", start)

        (batch,) = serve(load, fleet_of([queue]), iter([SEAT]))

        assert len(starts) == 1
        assert batch.to_pylist()[0]["ended"] == 0


def test_a_fleet_that_begins_does_not_undo_the_stop_of_another(sqlite_url):
    with ackline.open(sqlite_url) as queues:
        queue = queues["email"]
        old = StopFlag([queue], "f", StopFlag([queue], "f").says())
        before = old.raised
        StopFlag([queue], "f").hoist()

        with pytest.raises(Began):
            run_fleet(no_spark(), lambda: [queue], Fleet(name="f", executors=1))

        assert (before, old.raised) == (False, True)
        new = StopFlag([queue], "f", StopFlag([queue], "f").says())
        begun = new.raised
        StopFlag([queue], "f").hoist()
        assert (begun, new.raised) == (False, True)


GIVEN_UP = (
    "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: "
)
LOST_EXECUTOR = (
    "Lost task 0.3 in stage 0.0 (TID 4) (127.0.0.1 executor 4): ExecutorLostFailure (executor 4 "
    "exited caused by one of the running tasks) Reason: Command exited with code 137"
)
LOST_PYTHON = (
    "Lost task 0.3 in stage 0.0 (TID 4) (localhost executor driver): "
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)."
)
RAISED = (
    "Lost task 0.3 in stage 0.0 (TID 4) (localhost executor driver): "
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):"
)


def given_up(why: str) -> Exception:
    """What Spark raises when one task has failed too often."""
    return Exception(
        "An error occurred while calling o73.getResult.\n"
        f"Caused by: org.apache.spark.SparkException: {GIVEN_UP}{why}\n\tat org.apache.spark"
    )


def in_process(*errors: Exception) -> Any:
    """A session that raises these, one after the other, and then runs its tasks by itself."""
    left = list(errors)

    def seats(act, _schema):
        def collect():
            if left:
                raise left.pop(0)
            return pyarrow.Table.from_batches(list(act(iter([SEAT]))))

        return SimpleNamespace(toArrow=collect)

    session = no_spark()
    session.range = lambda *_: SimpleNamespace(mapInArrow=seats)
    return session


class TestLostWorkers:
    """Spark counts how often a task was lost; after the fourth time it ends all of them."""

    @pytest.fixture(autouse=True)
    def _quick(self, monkeypatch):
        monkeypatch.setattr(running, "RESTARTS", (0.0, 0.0))

    @pytest.fixture
    def queue(self, sqlite_url):
        with ackline.open(sqlite_url) as queues:
            queue = queues["email"]
            queue.handler("welcome")(lambda job: job.payload)
            queue.enqueue_many(range(3), kind="welcome")
            yield queue

    def test_start_the_fleet_anew(self, queue, caplog):
        spark = in_process(given_up(LOST_EXECUTOR), given_up(LOST_PYTHON))

        served = run_fleet(spark, lambda: [queue], Fleet(name="f", executors=1, until_empty=True))

        assert [one.ended for one in served] == [3]
        assert "ended the fleet" in caplog.text
        assert "Command exited with code 137" in caplog.text

    def test_what_a_worker_raised_ends_it(self, queue):
        spark = in_process(given_up(RAISED))

        with pytest.raises(Exception, match="PythonException"):
            run_fleet(spark, lambda: [queue], Fleet(name="f", executors=1, until_empty=True))

    def test_a_fleet_that_is_to_stop_does_not_begin_again(self, queue):
        spark = in_process(given_up(LOST_EXECUTOR))
        flag = StopFlag([queue], "f")
        fleet = Fleet(name="f", executors=1, asked_before=flag.says())
        flag.hoist()

        with pytest.raises(Exception, match="ExecutorLostFailure"):
            run_fleet(spark, lambda: [queue], fleet)


class TestWhatIsLeft:
    """A fleet that works until its queues are empty ends when its handlers have nothing to do."""

    @pytest.fixture
    def queue(self, url):
        with ackline.open(url) as queues:
            queue = queues["email"]
            queue.handler("welcome")(lambda job: job.payload)
            yield queue

    def test_is_told_by_kind(self, queue, caplog, monkeypatch):
        monkeypatch.setattr(remaining, "PAUSES", (0.01, 0.01))
        queue.enqueue_many(range(3), kind="welcome")
        queue.enqueue_many(range(2), kind="goodbye")
        queue.enqueue(1, kind="later", delay=3600)
        fleet = Fleet(name="f", executors=1, until_empty=True)

        (served,) = run_fleet(in_process(), lambda: [queue], fleet)

        assert served.ended == 3
        assert "2 jobs of kind 'goodbye'" in caplog.text
        assert "1 job of kind 'later'" in caplog.text

    def test_very_much_is_not_counted_to_the_end(self, queue, caplog, monkeypatch):
        monkeypatch.setattr(remaining, "COUNTED", 100)
        queue.enqueue_many(range(300), kind="goodbye")

        warn_of_left_jobs([queue])

        assert "at least 100 jobs of kind 'goodbye'" in caplog.text

    @pytest.mark.parametrize("options", [{}, {"delay": 3600.0}])
    def test_a_job_that_a_handler_is_for_is_waited_for(self, queue, options):
        queue.enqueue_many(range(300), kind="goodbye")
        queue.enqueue(1, kind="welcome", **options)

        assert not has_nothing_to_do([queue])

    def test_jobs_are_looked_at_less_and_less_often(self, queue, monkeypatch):
        queue.enqueue(1, kind="welcome")
        clock, looks = ManualClock(0.0), []
        monkeypatch.setattr(remaining, "has_nothing_to_do", lambda _: looks.append(clock.now()))

        watch = Looks([queue], clock.now)
        for _ in range(60):
            assert not watch.done
            clock.advance(0.5)

        assert looks == [0.5, 1.5, 3.5, 7.5, 15.5, 25.5]

    def test_a_look_that_takes_long_is_followed_by_a_long_rest(self, queue, monkeypatch):
        queue.enqueue(1, kind="welcome")
        clock, looks = ManualClock(0.0), []

        def look(_):
            looks.append(clock.now())
            clock.advance(5.0)

        monkeypatch.setattr(remaining, "has_nothing_to_do", look)

        watch = Looks([queue], clock.now)
        for _ in range(60):
            assert not watch.done
            clock.advance(1.0)

        assert looks == [1.0, 56.0]

    def test_an_empty_queue_is_seen_at_once(self, queue):
        assert Looks([queue]).done


@pytest.mark.slow
def test_a_cluster_that_gives_a_fleet_up_does_not_end_it(sqlite_url, tmp_path):
    with ackline.open(sqlite_url) as queues:
        queue = queues["email"]
        queue.enqueue_many(range(40), kind="welcome")

        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.spark.support.abandoned_fleet",
                sqlite_url,
                str(tmp_path),
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT}/src{os.pathsep}{ROOT}",
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_WORKER_DIR": str(tmp_path / "work"),
            },
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

        assert done.returncode == 0, done.stdout + done.stderr
        assert "ended the fleet" in done.stderr
        assert queue.counts()[State.COMPLETED] == 40


class TestFreeSeats:
    """Spark starts no more workers than it has slots for."""

    @pytest.fixture
    def queue(self, sqlite_url):
        with ackline.open(sqlite_url) as queues:
            queue = queues["email"]
            queue.handler("welcome")(lambda job: job.payload)
            yield queue

    @pytest.fixture
    def worker(self, queue):
        worker = Worker(queue, id=fleet_worker("f", "1"))
        worker.start()
        yield worker
        worker.stop()

    @pytest.mark.usefixtures("worker")
    def test_are_told_of(self, queue, caplog):
        warn_of_free_seats(queue, Fleet(name="f", executors=1), 0.0)
        warn_of_free_seats(queue, Fleet(name="f", executors=2, until_empty=True), 0.0)
        assert "workers of fleet" not in caplog.text

        warn_of_free_seats(queue, Fleet(name="f", executors=2), 0.0)
        assert "1 of 2 workers" in caplog.text

    def test_are_told_of_while_the_fleet_works(self, queue, caplog, monkeypatch):
        monkeypatch.setattr(running, "SETTLED", 0.0)
        spark = no_spark()
        spark.range = lambda *_: until(lambda: "only 0 of 9 workers" in caplog.text) and begin()

        with pytest.raises(Began):
            run_fleet(spark, lambda: [queue], Fleet(name="f", executors=9))


def test_a_store_of_one_process_is_refused():
    queues = ackline.open("memory://")
    queue = queues["email"]
    queue.handler("welcome")(lambda job: None)

    with pytest.raises(ConfigError, match="executor"):
        run_fleet(None, lambda: [queue], Fleet(name="f", executors=1))  # type: ignore[arg-type]


class TestAStoreThatIsAFile:
    """On another machine it would be made anew, and its emptiness taken for success."""

    @pytest.fixture
    def queue(self, sqlite_url):
        with ackline.open(sqlite_url) as queues:
            yield queues["email"]

    @pytest.mark.parametrize("master", ["spark://head:7077", "yarn", "k8s://head"])
    def test_is_refused_on_a_cluster(self, queue, master):
        alone, shared = (Fleet(name="f", executors=1, shared_files=how) for how in (False, True))

        with pytest.raises(ConfigError, match="shared_files"):
            run_fleet(no_spark(master), lambda: [queue], alone)
        with pytest.raises(Began):
            run_fleet(no_spark(master), lambda: [queue], shared)

    @pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
    def test_is_used_on_one_machine(self, queue, master):
        with pytest.raises(Began):
            run_fleet(no_spark(master), lambda: [queue], Fleet(name="f", executors=1))

    def test_is_not_even_opened_by_a_worker_of_another_machine(self, queue, monkeypatch):
        fleet, opened = fleet_of([queue]), []

        def load():
            opened.append(queue)
            return [queue]

        monkeypatch.setattr(socket, "gethostname", lambda: "another")

        with pytest.raises(ConfigError, match="SQLite"):
            list(serve(load, fleet, iter([SEAT])))

        assert opened == []

    def test_must_be_the_same_for_all(self, queue, tmp_path):
        fleet = fleet_of([queue], until_empty=True)

        with (
            ackline.open(f"sqlite:///{tmp_path}/other.db") as others,
            pytest.raises(ConfigError, match=r"other\.db"),
        ):
            list(serve(lambda: [others["email"]], fleet, iter([SEAT])))


def test_a_fleet_has_someone_in_it():
    with pytest.raises(ConfigError, match="executor"):
        Fleet(name="f", executors=0)


@pytest.fixture
def module(tmp_path, monkeypatch, sqlite_url):
    """Handlers that open the store which the environment names."""
    (tmp_path / "fleet_of_tests.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ACKLINE_STORE", sqlite_url)
    yield "fleet_of_tests:queue"
    if loaded := sys.modules.pop("fleet_of_tests", None):
        loaded.queue.store.close()


def test_the_command_refuses_a_file_on_a_cluster_before_anything_starts(
    module, monkeypatch, capsys
):
    monkeypatch.setattr(
        work_command, "start_spark", lambda session, master: pytest.fail("it has started")
    )

    code = run(["pipeline", "work", module, "--master", "spark://head:7077"])

    assert code == 2
    assert "--shared-files" in capsys.readouterr().err


class TestTheCommandWithoutSpark:
    @pytest.fixture
    def command(self, module, monkeypatch):
        """Runs it, with something in the place of the fleet; returns its exit code."""
        monkeypatch.setattr(work_command, "start_spark", lambda session, master: no_spark())

        def call(act, *options):
            monkeypatch.setattr(running, "run_fleet", act)
            return run([*options, "pipeline", "work", module])

        return call

    def test_workers_are_told_of_the_store_by_a_path_that_leads_there(
        self, command, tmp_path, monkeypatch
    ):
        report = []

        def act(spark, load, fleet):
            report.append(fleet)
            return []

        monkeypatch.chdir(tmp_path)

        assert command(act, "--store", "jobs.db") == 0
        assert report[0].environment == {"ACKLINE_STORE": f"sqlite:///{tmp_path}/jobs.db"}

    @pytest.mark.parametrize("asked", [True, False])
    def test_a_stop_while_spark_starts_is_meant_for_this_fleet(
        self, command, sqlite_url, monkeypatch, asked
    ):
        raised = []

        def start_spark(session, master):
            if asked:
                with ackline.open(sqlite_url) as queues:
                    StopFlag([queues["email"]], "fleet").hoist()
            return no_spark()

        def act(spark, load, fleet):
            raised.append(StopFlag(load(), fleet.name, fleet.asked_before).raised)
            return []

        monkeypatch.setattr(work_command, "start_spark", start_spark)

        assert command(act) == 0
        assert raised == [asked]

    def test_a_signal_raises_the_flag(self, command):
        def act(spark, load, fleet):
            os.kill(os.getpid(), signal.SIGTERM)
            flag = StopFlag(load(), fleet.name, fleet.asked_before)
            until(lambda: flag.raised)
            return []

        assert command(act) == 0

    def test_a_second_signal_ends_it_even_if_the_store_does_not_answer(
        self, command, monkeypatch, capsys
    ):
        asked, answered = threading.Event(), threading.Event()

        def hoist(flag):
            asked.set()
            answered.wait(60)

        def act(spark, load, fleet):
            # Not SIGINT, which is ignored in the background of a shell script.
            os.kill(os.getpid(), signal.SIGTERM)
            asked.wait(60)
            os.kill(os.getpid(), signal.SIGTERM)
            answered.wait(60)
            return []

        monkeypatch.setattr(StopFlag, "hoist", hoist)
        code = command(act)
        answered.set()

        assert code == 130
        assert "delivered again when their leases expire" in capsys.readouterr().err


class TestAskingAFleetToStop:
    @pytest.fixture
    def stop(self, module, sqlite_url, capsys):
        def call(*arguments):
            code = run(["--store", sqlite_url, "pipeline", "stop", module, *arguments])
            return code, capsys.readouterr()

        return call

    @pytest.fixture
    def night_shift(self, sqlite_url):
        """A worker of a fleet that is at work, one of a stream, and one of neither."""
        with ackline.open(sqlite_url) as queues:
            email = queues["email"]
            email.handler("welcome")(print)
            names = (fleet_worker("night shift", "1"), stream_worker("fleet x"), "other")
            workers = [Worker(email, id=name) for name in names]
            for worker in workers:
                worker.start()
            until(lambda: len(email.workers()) == 3)
            yield StopFlag([email], "night shift")
            for worker in workers:
                worker.stop()
            assert not fleets_at_work([email]), "they have said goodbye"

    def test_the_one_that_is_named_is_asked(self, stop, night_shift):
        code, message = stop("--name", "night shift")

        assert code == 0
        assert night_shift.raised
        assert message.out == "1 worker of fleet night shift asked to stop.\n"

    def test_if_it_is_not_known_those_that_are_are_named(self, stop, night_shift):
        code, message = stop("--name", "nosuch")

        assert code == 1
        assert not night_shift.raised
        assert "no fleet 'nosuch' has workers on" in message.err
        assert "known fleets: --name 'night shift'" in message.err

    def test_one_that_is_only_starting_is_asked_as_well(self, stop, sqlite_url):
        code, message = stop()

        assert code == 1
        assert "If it is still starting" in message.err
        with ackline.open(sqlite_url) as queues:
            assert StopFlag([queues["email"]], "fleet").raised


def test_the_command_runs_the_handlers_of_a_module(
    spark, module, sqlite_url, tmp_path, monkeypatch, capsys
):
    # Spark's workers find the module as those of a cluster do.
    spark.addArtifacts(str(tmp_path / "fleet_of_tests.py"), pyfile=True)
    monkeypatch.setattr(work_command, "start_spark", lambda session, master: KeptSpark(spark))
    with ackline.open(sqlite_url) as queues:
        queue = queues["email"]
        queue.enqueue_many(range(30), kind="welcome", max_attempts=1)

        code = run(["--store", sqlite_url, "pipeline", "work", module, "--until-empty"])

        assert code == 0
        assert "30 deliveries handled by 2 workers" in capsys.readouterr().out
        assert queue.counts()[State.COMPLETED] == 29
        assert queue.counts()[State.FAILED] == 1
