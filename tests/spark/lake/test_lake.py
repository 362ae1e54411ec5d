"""The lake: in pieces it is as in one, and killed anywhere it is as if undisturbed."""

from __future__ import annotations

import datetime
import itertools
import json
import math
import shutil
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow
import pyarrow.fs
import pyarrow.parquet
import pytest
from tests.docs.pages import DOCS, blocks_of
from tests.spark.audit.test_audit_command import KeptSpark
from tests.spark.lake.test_compaction import NO_SPARK
from tests.spark.support.job_histories import all_events, live_through
from tests.spark.support.lake_and_store import Appending, Died, Lakeside, counted, counted_in, dying

import ackline
from ackline.cli import app as cli
from ackline.cli.pipeline import report as report_command
from ackline.cli.pipeline import run as lake_command
from ackline.core.errors import ConfigError, StoreUnavailable
from ackline.core.events import Act
from ackline.core.job import State
from ackline.spark.errors import LakeClaimed, LakeDamaged
from ackline.spark.journal.gaps import Gap
from ackline.spark.lake import claim, compaction, running
from ackline.spark.lake.batch_log import Batch
from ackline.spark.lake.claim import LakeClaim
from ackline.spark.lake.expiry import drop_expired
from ackline.spark.lake.gold import BY_DAY, OF_ALL, Publisher, recent_days
from ackline.spark.lake.lake import Lake
from ackline.spark.lake.layout import (
    CHECKPOINT,
    COMPACTING,
    COMPACTION,
    EVENTS,
    JOBS,
    MARK,
    OPEN,
    WRITING,
)
from ackline.spark.lake.mark import SCHEMA, Mark
from ackline.spark.lake.reading import batches_of, read_batches
from ackline.spark.lake.running import Ran, Run
from ackline.spark.lake.tracebacks import add_errors
from ackline.spark.transforms.job_runs import job_runs, timed_steps
from ackline.spark.transforms.slo import DEFAULT_SLO, TARGET

DAY = 86_400.0


class TestInPieces:
    def test_every_event_is_there_once_and_in_its_hour(self, sample_lake):
        events = all_events(sample_lake.queues)

        assert len(sample_lake.rows("bronze", "events")) == len(events)
        assert sum(batch.events for batch in sample_lake.lake.log.batches) == len(events)
        assert counted_in(sample_lake.gold("hourly")) == counted(events)

    def test_lives_are_those_of_the_whole_journal(self, spark, sample_lake):
        """The control: pure functions over all of it at once."""
        whole = spark.read.format("ackline").option("store", sample_lake.url).load("events")
        lives = job_runs(timed_steps(whole).where("not goes_on"))
        expected = lives.toArrow().to_pylist()
        found = sample_lake.rows("silver", "jobs")
        for row in found:
            del row["batch_id"]

        assert sorted(found, key=_place) == sorted(expected, key=_place)
        assert {row["outcome"] for row in found} >= {"completed", "failed", "cancelled", "moved"}

    def test_a_life_that_went_through_two_batches_is_measured(self, sample_lake):
        lives = [row for row in sample_lake.rows("silver", "jobs") if row["kind"] == "k"]
        first = [row for row in lives if row["worker"] == "one"]

        assert len(first) == 10
        assert {(row["run_seconds"], row["outcome"]) for row in first} == {(2.0, "completed")}
        assert {row["priority"] for row in first} == {8}

    def test_a_priority_is_that_of_the_last_edit(self, sample_lake):
        ids = {row["id"]: row["priority"] for row in sample_lake.rows("silver", "jobs")}

        assert ids[sample_lake.edited] == 1

    def test_quantiles_of_few_are_exact(self, sample_lake):
        def of_k(rows):
            wanted = ("k", "email", 8)
            return [row for row in rows if (row["kind"], row["queue"], row["priority"]) == wanted]

        lives = of_k(sample_lake.rows("silver", "jobs"))
        waits = [row["wait_seconds"] for row in lives if row["wait_seconds"] is not None]
        daily = [row for row in of_k(sample_lake.gold("daily")) if row["claimed"]]

        assert [row["wait_max"] for row in daily] == [max(waits)]
        assert [row["wait_p50"] for row in daily] == [sorted(waits)[math.ceil(len(waits) / 2) - 1]]

    def test_what_comes_late_goes_to_its_own_day(self, sample_lake):
        late = [row for row in sample_lake.gold("daily") if row["kind"] == "late"]
        yesterday = datetime.datetime.fromtimestamp(sample_lake.clock.now(), datetime.UTC).date()

        assert {row["day"] for row in late} == {yesterday}
        assert sum(row["enqueued"] for row in late) == 3
        assert sample_lake.days == [yesterday]

    def test_the_other_days_were_left_alone(self, sample_lake):
        now = sample_lake.gold_files()
        by_day = {path for path in sample_lake.files if not path.endswith("all.parquet")}

        assert by_day
        assert {path: now[path] for path in by_day} == {
            path: sample_lake.files[path] for path in by_day
        }

    def test_workers_are_judged_by_what_they_lost(self, sample_lake):
        events = all_events(sample_lake.queues)
        lost = Counter(event.worker for event in events if event.act is Act.EXPIRE)
        found = {
            row["worker"]: row for row in sample_lake.gold("workers") if row["queue"] == "email"
        }

        assert {name: found[name]["stalled"] for name in lost} == lost
        assert found["one"]["reliability"] == 1.0
        assert (found["one"]["deliveries"], found["one"]["completed"]) == (10, 10)

    def test_the_dlq_is_told_by_its_errors(self, sample_lake):
        events = all_events(sample_lake.queues)
        dead = [event for event in events if event.to is State.FAILED and event.act is not Act.MOVE]

        assert sum(row["jobs"] for row in sample_lake.gold("errors")) == len(dead)
        examples = {one["id"] for row in sample_lake.gold("errors") for one in row["examples"]}
        assert examples
        assert examples <= {event.id for event in dead}

    def test_objectives_are_judged(self, sample_lake):
        rows = sample_lake.gold("slo")

        assert {row["objective_seconds"] for row in rows} == {60.0}
        assert all(0 <= row["attained"] <= 1 for row in rows)
        assert all(row["kept"] == (row["attained"] >= 0.99) for row in rows)

    @pytest.mark.parametrize("table", [*BY_DAY, *OF_ALL])
    def test_the_guide_has_every_column_of_gold(self, sample_lake, table):
        text = (DOCS / "guides" / "lake.md").read_text().partition("## Gold")[2]
        names = pyarrow.parquet.read_schema(
            next(Path(sample_lake.path, "gold", table).iterdir())
        ).names

        assert f"`{table}`" in text
        # Of quantiles it says only the first and the last.
        assert [name for name in names if f"`{name}`" not in text and "_p9" not in name] == []

    def test_the_guide_has_every_column_of_silver(self, sample_lake):
        text = (DOCS / "guides" / "lake.md").read_text().partition("## Silver")[2]

        assert [n for n in sample_lake.rows("silver", "jobs")[0] if f"`{n}`" not in text] == []

    def test_the_guide_shows_how_silver_is_read(self, spark, sample_lake, capsys):
        for block in blocks_of(DOCS / "guides" / "lake.md"):
            if block.language == "py":
                text = block.text.replace("lake/silver", f"{sample_lake.path}/silver")
                exec(compile(text, "lake.md", "exec"), {"spark": spark})

        message = capsys.readouterr().out
        assert all(column in message for column in ("kind", "outcome", "error"))

    def test_batches_are_put_together_and_killed_meanwhile(
        self, spark, sample_lake, tmp_path, monkeypatch
    ):
        monkeypatch.setattr(compaction, "TOGETHER", 2)
        copy = Lakeside.__new__(Lakeside)
        copy.path = str(tmp_path / "lake")
        shutil.copytree(sample_lake.path, copy.path)
        tables = [("bronze", "events"), ("silver", "jobs"), ("parts", "errors")]
        before = [(name, _sums(copy, name)) for name in tables]

        for point in ("aside", "noted", "removed", "placed", "replaced"):
            with pytest.raises(Died):
                compaction.Compaction(spark, copy.lake, dying(point)).compact()
            told_now = read_batches(spark, copy.lake, EVENTS, copy.lake.log.batches)
            assert told_now.count() == len(sample_lake.rows("bronze", "events")), point
        compaction.Compaction(spark, copy.lake).compact()

        assert [(name, _sums(copy, name)) for name in tables] == before
        batches = [
            (batch.first_number, batch.number, batch.level) for batch in copy.lake.log.batches
        ]
        assert batches == [(0, 1, 1), (2, 2, 0)]
        assert copy.lake.folder.names() == sample_lake.lake.folder.names()

    def test_a_table_that_lacks_rows_is_not_put_together(
        self, spark, sample_lake, tmp_path, monkeypatch
    ):
        monkeypatch.setattr(compaction, "TOGETHER", 2)
        lake = Lake(str(tmp_path / "lake"))
        shutil.copytree(sample_lake.path, lake.folder.path)
        lake.log.add(msgspec.structs.replace(lake.log.batches[0], events=10_000))

        with pytest.raises(LakeDamaged, match="10,000"):
            compaction.Compaction(spark, lake).compact()

        assert lake.folder.batches("bronze", "events") == [0, 1, 2]

    def test_old_batches_are_dropped_and_gold_stays(self, sample_lake, tmp_path):
        path = str(tmp_path / "lake")
        shutil.copytree(sample_lake.path, path)
        lake, now = Lake(path), time.time()

        assert drop_expired(lake, 0.0, now) == 0
        assert drop_expired(lake, now + DAY, now) == 2
        assert drop_expired(lake, now + DAY, now) == 0
        assert Lake(path).folder.batches("bronze", "events") == [2]
        assert Lake(path).folder.batches("parts", "traffic") == [0, 1, 2]
        assert [batch.dropped for batch in Lake(path).log.batches] == [True, True, False]


def _place(row):
    return row["queue"], row["id"], row["last_place"]


def _sums(side, name):
    rows = side.rows(*name)
    return len(rows) if name[-1] != "errors" else sum(row["jobs"] for row in rows)


POINTS = ("bronze", "errors", "logged")
"""`test_killed_lake.py` has all of them, for processes."""


class TestKilled:
    @pytest.fixture
    def side(self, spark, tmp_path):
        side = Lakeside(spark, tmp_path)
        queue = side.queues["email"]
        queue.enqueue_many(range(20), kind="k")
        for job in queue.claim(10):
            queue.complete(job)
        yield side
        side.queues.close()

    @pytest.mark.ci
    def test_wherever_it_dies_the_next_try_makes_it_right(self, side):
        side.take_in(*POINTS)

        assert len(side.rows("bronze", "events")) == 40
        assert len(side.rows("silver", "jobs")) == 10
        assert counted_in(side.gold("hourly")) == counted(all_events(side.queues))

    @pytest.mark.ci
    def test_a_sink_that_appends_would_have_it_twice(self, side):
        """The control."""
        side.take_in("bronze", batch=Appending)

        assert len(side.rows("bronze", "events")) == 80

    @pytest.mark.ci
    def test_a_run_of_a_stream_is_taken_up_by_the_next(self, side, monkeypatch, capsys):
        with pytest.raises(Exception, match="errors"):
            side.run(die_at="errors")
        monkeypatch.setattr(claim, "BEAT", 0.05)

        def pass_by(point):
            if point == "published":
                with pytest.raises(LakeClaimed, match="at work"):
                    side.run()
                raise Died(point)

        with pytest.raises(Died, match="published"):
            side.run(passing=pass_by)
        files = side.gold_files()

        command = ["--json", "--store", side.url, "pipeline", "run", "--lake", side.path]
        monkeypatch.setattr(
            lake_command, "start_spark", lambda session, master: KeptSpark(side.spark)
        )
        assert cli.run(command) == 0

        ran = json.loads(capsys.readouterr().out)
        assert (ran["events"], ran["batches"], ran["days"]) == (0, 0, 0)
        assert side.gold_files() == files
        assert len(side.rows("bronze", "events")) == 40
        assert counted_in(side.gold("hourly")) == counted(all_events(side.queues))
        [reader] = side.queues["email"].readers()
        assert (reader.name, list(side.queues["email"].events(reader.cursor))) == ("lake", [])


class TestTakenOver:
    """A run that sleeps is taken for dead; when it wakes up, the lake is another's."""

    @pytest.fixture
    def side(self, spark, tmp_path):
        side = Lakeside(spark, tmp_path)
        side.queues["email"].enqueue_many(range(20))
        yield side
        side.queues.close()

    def test_a_stream_writes_nothing_more(self, side, monkeypatch):
        monkeypatch.setattr(claim, "SILENCE", 0.0)
        other = LakeClaim(side.queues, side.lake.identify(side.queues), side.path)

        def sleep(point):
            if point == "jobs":
                other.take()

        with pytest.raises(Exception, match="taken over"):
            side.run(passing=sleep)

        assert side.lake.has(JOBS, 0)
        assert not side.lake.has(OPEN, 0)
        assert side.lake.log.batches == []

    @pytest.mark.ci
    @pytest.mark.parametrize("asleep_at", [(EVENTS, 0), (OPEN, 2)])
    def test_what_the_other_has_finished_stays_as_it_is(self, side, monkeypatch, asleep_at):
        table, nth = asleep_at
        found = {}
        written = itertools.count()

        def sleep(point):
            if point == "written" and next(written) == nth:
                side.take_in()
                found.update(side.files_of(table))
                raise LakeClaimed("another run has taken over")

        with pytest.raises(LakeClaimed):
            side.micro_batch(sleep)(side.new_events(), 0)

        assert found
        assert side.files_of(table) == found
        side.queues["email"].enqueue(20)
        side.take_in()
        assert len(side.rows("silver", "open", "batch_id=1")) == 21


class TestLivesThatGoOn:
    @pytest.fixture
    def side(self, spark, tmp_path):
        side = Lakeside(spark, tmp_path)
        side.queues["email"].enqueue_many(range(20))
        side.take_in()
        side.queues["email"].enqueue(20)
        yield side
        side.queues.close()

    def test_they_are_counted_before_a_batch_goes_on_with_them(self, side):
        for file in Path(side.lake.table(OPEN, 0)).glob("*.parquet"):
            file.unlink()

        with pytest.raises(LakeDamaged, match=r"batch_id=0.* 20\b"):
            side.take_in()

        assert [batch.number for batch in side.lake.log.batches] == [0]


def test_each_failure_has_its_own_error(queues, address):
    queue, failures = queues["email"], (ValueError("first"), KeyError("second"))
    queue.enqueue(1, id="a", max_attempts=1)
    for failure in failures:
        (job,) = queue.claim(1)
        queue.fail(job, failure)
        queue.redrive("a")
    queue.bury(queue.claim(1)[0], OSError("third"))
    dead = [event for event in queue.events() if event.to is State.FAILED]
    steps = pyarrow.RecordBatch.from_pylist(
        [{"queue": "email", "id": event.id, "token": event.token} for event in dead]
    )

    (sample_lake,) = add_errors(address, iter([steps]))

    # Of those before the last the journal still has the first words.
    assert sample_lake.column("error_type").to_pylist() == [None, None, "OSError"]
    assert [event.note.partition(":")[0] for event in dead] == ["ValueError", "KeyError", "OSError"]


@pytest.mark.parametrize("store_name", ["sqlite"])
class TestTheStoreThatHasTheErrors:
    @pytest.fixture
    def steps(self, queues):
        queue = queues["email"]
        queue.enqueue(1, id="a", max_attempts=1)
        queue.fail(queue.claim(1)[0], ValueError("first"))
        (dead,) = [event for event in queue.events() if event.to is State.FAILED]
        row = {"queue": "email", "id": dead.id, "token": dead.token}
        return pyarrow.RecordBatch.from_pylist([row])

    def test_it_is_opened_once_for_all_steps_of_a_task(self, steps, address):
        opened, connect = [], address.connect

        def noted():
            opened.append(1)
            return connect()

        address.connect = noted

        assert not list(add_errors(address, iter([steps[:0]])))
        assert not opened, "there was nothing to look up"
        assert len(list(add_errors(address, iter([steps[:0], steps, steps])))) == 2
        assert len(opened) == 1

    @pytest.mark.parametrize("when", ["opened", "asked"])
    def test_it_may_be_away_for_a_moment(self, steps, address, monkeypatch, when):
        opened, away = address.connect(), iter([True])

        def away_once(act):
            def call(*arguments):
                if next(away, False):
                    raise StoreUnavailable("failing over")
                return act(*arguments)

            return call

        address.connect = lambda: opened
        if when == "opened":
            address.connect = away_once(address.connect)
        else:
            monkeypatch.setattr(opened.store, "get", away_once(opened.store.get))

        (sample_lake,) = add_errors(address, iter([steps]))

        assert sample_lake.column("error_type").to_pylist() == ["ValueError"]


class Rebuilding(Publisher):
    """Only notes which days it would rebuild."""

    def __init__(self, lake):
        super().__init__(NO_SPARK, lake)
        self.rebuilt = {}

    def _publish(self, days):
        self.rebuilt["all tables"] = days

    def _look_ahead(self, now):
        self.rebuilt["forecast"] = now

    def _replace(self, name, frame, days):
        self.rebuilt[name] = days

    def _summaries(self, name, days):
        return None

    def _slo(self, waits):
        return None


class TestDaysThatAreRebuilt:
    @pytest.fixture
    def lake(self, tmp_path):
        lake = Lake(str(tmp_path))
        lake.folder.write_json(Mark(schema=SCHEMA, store="x", tenant="t", id="i"), MARK)
        for number in range(3):
            day = datetime.date(2026, 11, 14 + number)
            lake.log.add(Batch(number=number, events=1, ended=0, days=[day], last_at=0.0))
        objectives = lake.require().objectives
        lake.change(published=2, published_with=objectives)
        return lake

    def publish(self, lake):
        publisher = Rebuilding(lake)
        days = publisher.publish(0.0)
        assert lake.require().published_with == lake.require().objectives
        return [day.day for day in days], {
            name: [day.day for day in days]
            for name, days in publisher.rebuilt.items()
            if name != "forecast"
        }

    def test_none_without_news(self, lake):
        assert self.publish(lake) == ([], {})

    def test_those_of_new_events(self, lake):
        lake.change(published=1)

        assert self.publish(lake) == ([16], {"all tables": [16]})

    def test_other_objectives_change_one_table_of_all_others(self, lake):
        lake.change(published=1, objectives={"*": 5.0})

        assert self.publish(lake) == ([14, 15, 16], {"all tables": [16], "slo": [14, 15]})

    def test_and_nothing_else_without_news(self, lake):
        lake.change(objectives={"*": 5.0})

        assert self.publish(lake) == ([14, 15, 16], {"slo": [14, 15, 16]})


def test_only_batches_of_the_days_are_opened():
    days = [datetime.date(2026, 11, day) for day in (14, 15, 16)]
    parts = [days[:1], days[:2], [], days[2:]]
    batches = [
        Batch(number=number, events=1, ended=0, days=some, last_at=0.0)
        for number, some in enumerate(parts)
    ]

    assert [one.number for one in batches_of(batches, None)] == [0, 1, 2, 3]
    assert [one.number for one in batches_of(batches, days[1:])] == [1, 3]


@pytest.mark.ci
def test_a_queue_that_was_only_paused_is_reported(spark, tmp_path, monkeypatch, capsys):
    side = Lakeside(spark, tmp_path)
    side.queues["email"].pause()
    side.queues["email"].resume()
    side.take_in()
    monkeypatch.setattr(report_command, "start_spark", lambda session, master: KeptSpark(spark))
    page = tmp_path / "report.html"

    assert cli.run(["pipeline", "report", "--lake", side.path]) == 0
    assert "0 jobs enqueued" in capsys.readouterr().out
    assert cli.run(["pipeline", "report", "--lake", side.path, f"--html={page}"]) == 0
    assert "No jobs were moved to the DLQ." in page.read_text()
    side.queues.close()


def test_the_forecast_is_made_of_the_last_weeks():
    now = datetime.datetime(2026, 11, 16, tzinfo=datetime.UTC)
    kept = ["2026-09-23.parquet", "2026-11-16.parquet", "2026-11-17.parquet"]
    # Long ago; by a wrong clock; half written by a run that was killed; somebody else's.
    others = ["2026-09-01.parquet", "2099-01-01.parquet", ".2026-11-16.parquet.new", "_delta_log"]

    assert recent_days([*others, *kept], now) == kept


def test_names_that_are_not_there_are_told(sqlite_url, capsys, monkeypatch, tmp_path):
    def start(_session, _master):
        raise ConfigError("far enough")

    monkeypatch.setattr(lake_command, "start_spark", start)
    command = ["--store", sqlite_url, "pipeline", "run", "--lake", str(tmp_path / "lake")]
    with ackline.open(sqlite_url) as queues:
        queues["email"].enqueue(1)

    cli.run([*command, "--slo", "emial=5s", "--slo", "email=5s", "--slo", "*=1m"])
    message = " ".join(capsys.readouterr().err.split())
    assert "--slo emial: no such queue yet" in message
    assert "--slo email:" not in message
    cli.run([*command, "--tenant", "acme"])
    assert "tenant acme has no queues yet" in " ".join(capsys.readouterr().err.split())
    assert lake_command.parse_slo("emial=none") == ("emial", None)


def test_the_default_objective_is_documented():
    assert dict([lake_command.parse_slo("*=1m")]) == DEFAULT_SLO
    assert "*=1m" in (DOCS / "reference" / "cli.md").read_text().replace("\\", "")
    assert f"{TARGET:.0%}".replace("%", " %") in (DOCS / "guides" / "lake.md").read_text()


def test_it_goes_on_until_it_is_stopped(monkeypatch):
    monkeypatch.setattr(running, "PAUSE", 0.0)
    gap = Gap(queue="email", after="0.0", until="5.0")
    brought, stopping = iter([(5, []), (0, []), (0, [gap]), (7, [])]), threading.Event()
    sample_lake: list[Ran] = []

    class Quick(Run):
        def __init__(self):
            pass

        @contextmanager
        def _claimed(self):
            yield None

        def _once(self, claim):
            events, skipped = next(brought)
            if events == 7:
                stopping.set()
            return Ran(
                lake="x",
                batches=1,
                events=events,
                ended=1,
                days=1,
                compacted=1,
                dropped=1,
                seconds=0.1,
                skipped=skipped,
            )

    Quick().for_ever(sample_lake.append, stopping)

    assert [(ran.events, ran.skipped) for ran in sample_lake] == [(5, []), (0, [gap]), (7, [])]


def test_the_report_tells_what_the_lake_has(sample_lake, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(
        report_command, "start_spark", lambda session, master: KeptSpark(sample_lake.spark)
    )
    page = tmp_path / "report.html"

    assert (
        cli.run(["--json", "pipeline", "report", "--lake", sample_lake.path, f"--html={page}"]) == 0
    )

    found = json.loads(capsys.readouterr().out)
    events = all_events(sample_lake.queues)
    enqueued = sum(event.act is Act.ENQUEUE for event in events)
    assert found["total"]["enqueued"] == enqueued
    assert sum(row["enqueued"] for row in found["traffic"]["queue"]) == enqueued
    assert sum(row["enqueued"] for row in found["hours"]) == enqueued
    assert {row["queue"]: row["basis"] for row in found["forecast"]} == {
        "email": "day",
        "other": "too_little",
    }
    assert len(found["forecast_hours"]) == 168
    assert "Errors of jobs moved to the DLQ" in page.read_text()


@pytest.mark.slow
def test_on_every_store(spark, url, tmp_path):
    side = Lakeside(spark, tmp_path, url)
    live_through(side.queues, side.clock, 40)
    side.run()

    assert counted_in(side.gold("hourly")) == counted(all_events(side.queues))
    side.queues.close()


class TestRefused:
    @pytest.fixture
    def lake(self, tmp_path):
        return Lake(str(tmp_path / "lake"))

    @pytest.fixture
    def queues(self, sqlite_url):
        with ackline.open(sqlite_url) as queues:
            yield queues

    def test_a_lake_of_a_newer_version(self, lake, queues):
        lake.open(queues)
        lake.change(schema=SCHEMA + 1)

        with pytest.raises(ConfigError, match="newer"):
            lake.open(queues)

    def test_a_lake_of_another_store(self, lake, queues, tmp_path):
        lake.open(queues)

        with ackline.open(f"sqlite:///{tmp_path}/other.db") as others:
            with pytest.raises(ConfigError, match="--moved"):
                lake.open(others)
            lake.open(others, moved=True)
            lake.open(others)

    @pytest.mark.parametrize("moved", [False, True])
    def test_a_lake_of_another_tenant(self, lake, sqlite_url, moved):
        """A store that has moved has the same tenants."""
        with ackline.open(sqlite_url, tenant="ten ant") as queues:
            lake.open(queues)

        with ackline.open(sqlite_url) as others, pytest.raises(ConfigError) as caught:
            lake.open(others, moved=moved)

        message = str(caught.value)
        assert message.endswith("use another lake, or the tenant of this one: --tenant 'ten ant'")

    @pytest.mark.parametrize("name", ["report.csv", "photos", "gold.json"])
    def test_a_folder_with_files_of_others(self, lake, queues, name):
        lake.folder.write_json({}, name)

        with pytest.raises(ConfigError, match=name):
            lake.open(queues)

        assert lake.folder.names() == [name]

    def test_a_file_in_the_place_of_a_lake(self, lake, queues):
        Path(lake.folder.path).write_text("")

        with pytest.raises(ConfigError, match="folder"):
            lake.open(queues)

    def test_a_folder_with_nothing_of_others_becomes_a_lake(self, lake, queues):
        """What is left of an earlier lake, or of a file system."""
        own = {name[0] for name in running.SWEPT if name} | {
            *CHECKPOINT,
            WRITING,
            COMPACTING,
        }
        for name in (*own, "lost+found", ".DS_Store"):
            Path(lake.folder.path, name).mkdir(parents=True)
        lake.folder.write_json({}, COMPACTION)

        assert lake.open(queues).id

    def test_a_lake_that_has_lost_its_checkpoint(self, lake, queues):
        lake.open(queues)
        lake.log.add(Batch(number=0, events=1, ended=0, days=[], last_at=0.0))

        with pytest.raises(ConfigError, match="checkpoint"):
            lake.open(queues)

    @pytest.mark.parametrize("left", [("log", "000000000000.json"), ("checkpoint", "offsets", "0")])
    @pytest.mark.parametrize("use", [Lake.identify, lambda lake, _queues: lake.require()])
    def test_a_lake_that_has_lost_its_mark(self, lake, queues, left, use):
        """A new one would not know of its gaps, nor of its objectives."""
        lake.open(queues)
        lake.folder.write_json({}, *left)
        lake.folder.remove(MARK)

        with pytest.raises(LakeDamaged, match=r"lake\.json"):
            use(lake, queues)

        assert not lake.folder.exists(MARK)

    @pytest.mark.parametrize(
        ("file", "read"),
        [
            ("lake.json", lambda lake: lake.mark),
            ("log/000000000000.json", lambda lake: lake.log.batches),
            ("compaction.json", lambda lake: compaction.Compaction(NO_SPARK, lake).finish()),
        ],
    )
    @pytest.mark.parametrize("contents", [b"", b'{"schema": "x"}', b'{"store": "\xff"}'])
    def test_a_file_that_cannot_be_read(self, lake, queues, file, read, contents):
        lake.open(queues)
        broken = Path(lake.folder.path, file)
        broken.parent.mkdir(exist_ok=True)
        broken.write_bytes(contents)

        with pytest.raises(LakeDamaged) as caught:
            read(lake)

        message = str(caught.value)
        assert message.startswith(f"{broken} cannot be read: ")
        assert message.endswith("Restore it from a backup, or make another lake")

    def test_a_folder_that_is_no_lake(self, lake):
        with pytest.raises(ConfigError, match="no lake"):
            lake.require()

    def test_a_place_that_no_one_knows(self):
        with pytest.raises(ConfigError, match="reached"):
            Lake("nowhere://lake")

    def test_a_folder_that_spark_takes_for_a_pattern(self, tmp_path):
        with pytest.raises(ConfigError, match="pattern"):
            Lake(str(tmp_path / "lake [1]"))

    def test_what_is_written_is_whole_or_not_there(self, lake):
        lake.folder.write_json({"a": 1}, "x.json")

        with pytest.raises(TypeError):
            lake.folder.write_json(object(), "x.json")

        assert lake.folder.read_json(dict, "x.json") == {"a": 1}
        assert lake.folder.names() == ["x.json"]
