"""The audit of a lake: of journals that the store has long dropped, and of what came since."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.spark.audit.test_audit_command import KeptSpark
from tests.spark.lake.test_compaction import NO_SPARK
from tests.spark.support.event_lake import Lakeshore, lose

import ackline
from ackline.cli import app
from ackline.cli.pipeline import audit as audit_command
from ackline.core.errors import ConfigError
from ackline.spark.audit import lake_history
from ackline.spark.audit.coverage import Coverage, QueueSpan
from ackline.spark.audit.lake_history import LakeHistory
from ackline.spark.audit.run import run_audit
from ackline.spark.audit.store_history import StoreTables
from ackline.spark.errors import StreamMismatch
from ackline.spark.journal.gaps import Gap
from ackline.spark.journal.journals import JOURNAL_START, cursor_before
from ackline.spark.streams.events.offset import OLDEST

pytestmark = pytest.mark.ci

SINCE = 4
"""Events after the last that the lake has, with the change of the queue's settings."""


@pytest.fixture
def queues(sqlite_url):
    with ackline.open(sqlite_url) as queues:
        queues["email"].enqueue_many(ackline.NewJob(n, id=f"job-{n}") for n in range(10))
        yield queues


@pytest.fixture
def shore(tmp_path, queues):
    """A lake that has all but the last."""
    shore = Lakeshore(tmp_path, queues)
    for job in queues["email"].claim(2):
        queues["email"].complete(job)
    shore.take_in()
    queues["email"].enqueue_many(range(SINCE - 1))
    return shore


class TestUnseen:
    """What neither the lake nor the store has. Spark is not needed."""

    @pytest.fixture
    def unseen(self, shore):
        return lambda queue="email": shore.coverage().gaps(queue)

    def test_nothing_while_the_store_has_all(self, unseen):
        assert unseen() == []

    def test_nothing_that_was_dropped_when_the_lake_had_it(self, shore, unseen):
        shore.drop_journal("email", SINCE)

        assert unseen() == []

    def test_what_was_dropped_before_the_lake_had_it(self, shore, unseen, queues):
        last = list(queues["email"].events())[-SINCE]
        shore.drop_journal("email", 1)

        (gap,) = unseen()

        assert (gap.after, gap.retained_from) == (
            last.cursor,
            next(iter(queues["email"].events())).at,
        )

    @pytest.mark.parametrize("when", ["before it was made", "before it began"])
    def test_what_was_dropped_before_the_lake_was_there(self, queues, tmp_path, when):
        early = Lakeshore(tmp_path, queues)
        early.drop_journal("email", 1)
        shore = early if when == "before it began" else Lakeshore(tmp_path / "late", queues)
        shore.take_in()
        first, *_ = queues["email"].events()

        (gap,) = shore.coverage().gaps("email")

        assert (gap.after, gap.until) == (JOURNAL_START, cursor_before(first))

    def test_what_the_lake_has_left_out(self, shore, unseen):
        gap = Gap(queue="email", after="1.0", until="2.0", skipped_at=1.0)
        shore.lake.change(gaps=[gap, msgspec.structs.replace(gap, queue="other")])

        assert unseen() == [gap]

    def test_what_a_batch_has_left_out_before_its_run_has_ended(self, shore, unseen):
        gap = Gap(queue="email", after="1.0", until="2.0", skipped_at=1.0)
        shore.lake.log.add(msgspec.structs.replace(shore.lake.log.batches[-1], gaps=[gap]))

        assert unseen() == [gap]

    def test_what_was_too_old_to_be_kept_in_the_lake(self, shore, unseen, queues):
        queues["new"].enqueue(1)
        shore.take_in()
        shore.lake.log.add(msgspec.structs.replace(shore.lake.log.batches[0], dropped=True))

        assert [gap.after for gap in unseen()] == [JOURNAL_START]
        assert len(unseen("new")) == 1, "nobody knows that it was not in that batch"

    def test_nothing_though_the_first_batch_was_empty_and_too_old(self, tmp_path, queues, unseen):
        with ackline.open(f"sqlite:///{tmp_path}/empty.db") as empty:
            late = Lakeshore(tmp_path / "late", empty)
            late.take_in()
            empty["new"].enqueue(1)
            late.take_in()
            late.lake.log.add(msgspec.structs.replace(late.lake.log.batches[0], dropped=True))

            assert late.coverage().gaps("new") == []

    def test_what_is_missing_of_a_queue_that_the_store_has_forgotten(self, shore, unseen):
        gap = Gap(queue="gone", after="1.0", until="2.0", skipped_at=1.0)
        shore.lake.change(gaps=[gap], first_events={"email": None, "old": None})

        assert shore.coverage().incomplete_queues == {"email", "gone", "old"}
        assert unseen("gone") == [gap]
        assert [one.after for one in unseen("old")] == [JOURNAL_START]

    def test_nothing_of_a_queue_that_came_into_being_since(self, shore, unseen, queues):
        queues["new"].enqueue(1)
        assert unseen("new") == []
        shore.take_in()
        shore.drop_journal("new", 1)

        assert unseen("new") == []


class TestWhatIsReadOfTheStore:
    def test_only_what_came_after_the_lake(self, shore, queues):
        first = list(queues["email"].events())[-SINCE + 1]

        assert shore.coverage().start(["email"], queues.info().cursor) == cursor_before(first)

    def test_nothing_if_the_lake_has_all(self, shore, queues):
        shore.take_in()
        end = queues.info().cursor

        assert shore.coverage().start(["email", "gone"], end) == end

    def test_all_if_a_queue_has_dropped_some_that_the_lake_has(self, shore, queues):
        """One that was taken in further than the others."""
        queues["other"].enqueue(1)
        shore.take_in()
        coverage = shore.coverage(unread="email")
        shore.drop_journal("other", 1)

        assert coverage.start(["email", "other"], queues.info().cursor) == OLDEST


class Reading:
    """Stands for Spark: it notes which options a table is read with."""

    def __init__(self):
        self.options_seen: dict[str, Any] = {}
        self.read = self

    def format(self, name):
        return self

    def options(self, **options):
        self.options_seen |= options
        return self

    def option(self, name, value):
        return self.options(**{name: value})

    def load(self, table):
        return self


class TestOfOneQueue:
    @pytest.fixture
    def read(self, queues, monkeypatch):
        """Answers which queue the store is asked for, and whether rows are left out afterwards."""
        monkeypatch.setattr(
            StoreTables, "filter_rows", lambda self, rows: rows.options(filtered=True)
        )

        def call(names, table):
            spark: Any = Reading()
            StoreTables(spark, "url", queues, names).read(table)
            return spark.options_seen.get("queue"), "filtered" in spark.options_seen

        return call

    @pytest.mark.parametrize("table", ["jobs", "events"])
    def test_the_store_is_asked_for_no_other(self, read, table):
        assert read(["email"], table) == ("email", False)

    @pytest.mark.parametrize("names", [["email", "other"], None])
    def test_of_several_it_is_asked_for_all(self, read, names):
        assert read(names, "jobs") == (None, True)

    def test_one_that_was_dropped_has_a_journal_and_no_jobs(self, read, queues):
        queues["email"].drop(force=True)

        assert read(["email"], "events") == ("email", False)
        assert read(["email"], "jobs") == (None, True)


class TestWhichQueues:
    """Also those that neither the store nor the lake has events of any more."""

    @pytest.fixture
    def audited(self, shore, queues, monkeypatch):
        shore.lake.change(gaps=[Gap(queue="gone", after="1.0", until="2.0")])
        monkeypatch.setattr(lake_history, "read_bronze", lambda *_: None)

        def call(names):
            history = LakeHistory(StoreTables(NO_SPARK, "url", queues, names), shore.lake)
            return {gap.queue for gap in history.unseen()}

        return call

    def test_all(self, audited):
        assert audited(None) == {"gone"}

    def test_not_those_that_nobody_asked_for(self, audited):
        assert audited(["email"]) == set()


class TestJudged:
    @pytest.fixture
    def audit(self, spark, shore, sqlite_url, monkeypatch, capsys):
        monkeypatch.setattr(audit_command, "start_spark", lambda session, master: KeptSpark(spark))
        shore.drop_journal("email", SINCE)

        def call(*arguments):
            code = app.run(["--store", sqlite_url, "--json", "pipeline", "audit", *arguments])
            return code, json.loads(capsys.readouterr().out)

        return call

    def test_a_journal_that_only_the_lake_has_is_a_proof(self, audit, shore):
        code, found = audit("--lake", shore.path, "--whole")

        assert (code, found["passed"], found["proven"]) == (0, True, True), found["findings"]
        assert (found["events"], found["jobs"]) == (14 + SINCE, 10 + SINCE - 1)

    def test_a_job_is_missed_of_which_only_the_lake_tells(self, audit, shore, sqlite_url):
        lose(sqlite_url, ["job-5"])

        code, found = audit("--lake", shore.path, "email")

        assert code == 1
        assert {name: count for name, count in found["counts"].items() if count} == {"lost": 1}
        assert found["findings"][0]["id"] == "job-5"
        # The control: the store alone cannot know.
        code, found = audit("email")
        assert (code, found["passed"], found["proven"]) == (0, True, False)

    def test_with_a_gap_it_proves_nothing_and_blames_nobody(self, audit, shore, sqlite_url):
        """What was told before a gap may have changed within it."""
        gap = Gap(queue="email", after="1.0", until=shore.queues.info().cursor, skipped_at=1.0)
        shore.lake.change(gaps=[gap])
        lose(sqlite_url, ["job-5"])

        code, found = audit("--lake", shore.path, "--whole")

        assert (code, found["passed"], found["proven"]) == (4, True, False)
        assert [one["after"] for one in found["gaps"]] == ["1.0"]


def test_a_lake_that_spark_has_made(spark, sample_lake):
    found = run_audit(spark, sample_lake.url, sample_lake.queues, lake=sample_lake.lake)

    assert found.proven, (found.findings, found.gaps)
    assert found.events == sum(batch.events for batch in sample_lake.lake.log.batches)


class TestRefused:
    def test_a_lake_of_another_store(self, shore, tmp_path):
        url = f"sqlite:///{tmp_path}/other.db"
        with ackline.open(url) as others, pytest.raises(ConfigError, match="another lake"):
            run_audit(NO_SPARK, url, others, lake=shore.lake)

    def test_a_lake_that_has_more_than_a_store_that_was_restored(self, shore, queues):
        kept = QueueSpan("1.1", 0.0, "900000.1")

        with pytest.raises(StreamMismatch, match="backup"):
            Coverage(queues, shore.lake, {"email": kept})
