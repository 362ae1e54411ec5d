"""Files into jobs, and out of the DLQ by a condition: tasks without Spark, on every store."""

from __future__ import annotations

import json
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from ackline.errors import ConfigError
from ackline.job import State
from ackline.spark.bulk.files import format_of
from ackline.spark.bulk.loading import enqueue_some
from ackline.spark.bulk.redriving import LISTED, check_some, redrive_some, still_meant
from ackline.spark.writing.columns import columns_of_jobs
from ackline.spark.writing.rejects_place import RejectsPlace, rejects_of
from tests.spark.asking import read_options


@pytest.fixture
def load(place):
    def call(rows, **options):
        table = pyarrow.Table.from_pylist(rows)
        said = {"store": "x", "table": "jobs", "queue": "email", "idFrom": "content", **options}
        asked = read_options("write", said)
        columns = columns_of_jobs(from_arrow_schema(table.schema), asked)
        told = enqueue_some(place, asked, columns, iter(table.to_batches()), rejects_of(asked))
        return [row for batch in told for row in batch.to_pylist()]

    return call


class TestLoading:
    def test_rows_become_jobs_and_broken_ones_come_back(self, queues, load):
        rows = [{"payload": '{"n": 1}'}, {"payload": "{broken"}, {"payload": '{"n": 2}'}]

        first, broken = load(rows)

        assert (first["written"], first["known"], first["reason"]) == (2, 0, None)
        assert first["refused"] == 1
        assert "the payload is no JSON" in broken["reason"]
        assert json.loads(broken["row"]) == {"payload": "{broken"}
        assert queues["email"].counts()[State.QUEUED] == 2

    def test_loaded_twice_nothing_is_twice(self, queues, load):
        rows = [{"payload": str(number)} for number in range(5)]
        load(rows)

        (again,) = load(rows)

        assert (again["written"], again["known"]) == (0, 5)
        assert queues["email"].counts()[State.QUEUED] == 5

    def test_the_format_is_known_by_the_name(self):
        assert format_of(["a.jsonl", "b.json.gz"], None) == "json"
        assert format_of(["a.CSV"], None) == "csv"
        assert format_of(["a.txt"], "csv") == "csv"
        for names in (["a.txt"], ["a.csv", "b.json"], ["folder"]):
            with pytest.raises(ConfigError, match="add --format json, csv, parquet"):
                format_of(names, None)


class TestRedriving:
    @pytest.fixture
    def queue(self, queues):
        return queues["email"]

    @pytest.fixture
    def redrive(self, place):
        def call(rows, folder=None):
            table = pyarrow.Table.from_pylist(rows, PLAN)
            rejects_place = RejectsPlace.planned(folder, "redrive", 1000)
            told = redrive_some(place, "ann", iter(table.to_batches()), rejects_place)
            return [row for batch in told for row in batch.to_pylist()]

        return call

    @pytest.fixture
    def check(self, place):
        def call(rows):
            batches = iter([pyarrow.RecordBatch.from_pylist(rows, PLAN)])
            return [row for batch in check_some(place, batches) for row in batch.to_pylist()]

        return call

    def bury(self, queue, *ids):
        for id in ids:
            queue.enqueue({"to": id}, id=id)
        for job in queue.claim(len(ids)):
            queue.bury(job, "no")

    def plan(self, queue, *ids, **said):
        known = {"codec": "json", "delay": 0.0, "priority": None, "payload": None, **said}
        return [
            {"queue": "email", "id": id, "token": queue.status(id).record.token, **known}
            for id in ids
        ]

    def test_what_was_chosen_runs_again(self, queue, redrive):
        self.bury(queue, "a", "b", "c")

        told, _ = redrive(self.plan(queue, "a", "b"))

        assert (told["redriven"], told["left"]) == (2, 0)
        assert queue.counts()[State.QUEUED] == 2
        assert [event.by for event in queue.events() if event.act == "redrive"] == ["ann"] * 2

    def test_a_second_run_changes_nothing(self, queue, redrive):
        self.bury(queue, "a")
        plan = self.plan(queue, "a")
        redrive(plan)

        told, _ = redrive(plan)

        assert (told["redriven"], told["left"]) == (0, 1)

    def test_a_job_that_has_failed_anew_is_left_alone(self, queue, redrive):
        """It is in the DLQ again, but not by the failure that was meant."""
        self.bury(queue, "a")
        plan = self.plan(queue, "a")
        queue.redrive("a")
        queue.bury(queue.claim(1)[0], "another error")

        told, _ = redrive(plan)

        assert (told["redriven"], told["left"]) == (0, 1)
        assert queue.counts()[State.FAILED] == 1

    def test_by_the_state_alone_it_would_not_be(self, queue, redrive):
        """The control: with the token of the new failure it is redriven."""
        self.bury(queue, "a")
        queue.redrive("a")
        queue.bury(queue.claim(1)[0], "another error")

        told, _ = redrive(self.plan(queue, "a"))

        assert told["redriven"] == 1

    def test_what_others_redrive_meanwhile_is_not_changed(self, queue, redrive, monkeypatch):
        """It was as chosen when it was looked at, and is not when it is to be changed."""
        self.bury(queue, "a")
        plan = self.plan(queue, "a", payload='{"to": "bob"}')

        def look(found, rows):
            queue.redrive("a")
            return still_meant(found, rows)

        monkeypatch.setattr("ackline.spark.bulk.redriving.still_meant", look)
        told, _ = redrive(plan)

        assert (told["redriven"], told["left"]) == (0, 1)
        assert queue.status("a").payload == {"to": "a"}

    def test_a_job_is_changed_before_it_runs(self, queue, redrive):
        self.bury(queue, "a")

        redrive(self.plan(queue, "a", priority=9, payload='{"to": "bob"}', delay=60.0))

        job = queue.status("a")
        assert (job.state, job.record.priority, job.payload) == ("scheduled", 9, {"to": "bob"})

    @pytest.mark.parametrize(
        ("said", "reason"),
        [
            ({"payload": "{broken"}, "the payload is no JSON"),
            ({"priority": 17}, "priority"),
            ({"set_to_null": "payload"}, "--set payload=… is NULL"),
        ],
    )
    def test_what_cannot_be_set_comes_back(self, queue, redrive, said, reason):
        self.bury(queue, "a", "b")

        told = redrive([*self.plan(queue, "a", **said), *self.plan(queue, "b")])

        assert sum(row["redriven"] for row in told) == 1
        assert [reason in row["reason"] for row in told if row["reason"]] == [True]
        assert queue.status("a").state == State.FAILED

    def test_a_payload_of_another_codec_is_not_replaced(self, queues, queue, redrive, check):
        """The job would keep its codec, by which nobody could read the JSON."""
        packed = queues.queue("email", serde="msgpack")
        self.bury(packed, "a", "b")
        plan = [
            *self.plan(queue, "a", codec="msgpack", payload='{"to": "bob"}'),
            *self.plan(queue, "b", codec="msgpack", priority=9),
        ]

        assert "written as msgpack" in check(plan)[1]["reason"]
        told = redrive(plan)

        assert [row["redriven"] for row in told] == [1, 0, 0]
        assert "written as msgpack" in told[2]["reason"]
        assert packed.status("a").payload == {"to": "a"}
        assert packed.claim(1)[0].payload == {"to": "b"}

    def test_what_would_be_refused_is_known_before(self, queue, check):
        said: list[dict[str, Any]] = [
            {},
            {"priority": 9, "payload": "[]"},
            {"priority": 99},
            {"payload": "{"},
            {"payload": json.dumps("x" * queue.serdes.max_payload)},
        ]
        ids = [str(number) for number in range(len(said))]
        self.bury(queue, *ids)
        plan = [
            row for id, one in zip(ids, said, strict=True) for row in self.plan(queue, id, **one)
        ]

        told = check(plan)

        assert sum(row["refused"] for row in told) == 3
        assert [json.loads(row["row"])["id"] for row in told[1:3]] == ["2", "3"]
        assert ["99" in told[1]["reason"], "no JSON" in told[2]["reason"]] == [True, True]
        assert queue.counts()[State.FAILED] == len(said)

    def test_all_that_would_be_refused_are_counted(self, queue, check):
        ids = [str(number) for number in range(2 * LISTED)]
        self.bury(queue, *ids)
        plan = [row for id in ids for row in self.plan(queue, id, priority=99)]

        told = check(plan)

        assert (sum(row["refused"] for row in told), len(told)) == (2 * LISTED, 1 + LISTED)

    def test_what_cannot_be_set_is_kept_in_a_folder(self, queue, redrive, tmp_path):
        self.bury(queue, "a", "b")
        plan = [*self.plan(queue, "a", priority=17), *self.plan(queue, "b")]

        told = redrive(plan, str(tmp_path / "aside"))

        assert [(row["redriven"], row["refused"], row["row"]) for row in told] == [
            (1, 0, None),
            (0, 1, None),
        ]
        (kept,) = pyarrow.parquet.read_table(tmp_path / "aside").to_pylist()
        assert json.loads(kept["row"])["id"] == "a"


PLAN = pyarrow.schema(
    [
        ("queue", pyarrow.string()),
        ("id", pyarrow.string()),
        ("token", pyarrow.int64()),
        ("codec", pyarrow.string()),
        ("delay", pyarrow.float64()),
        ("priority", pyarrow.int32()),
        ("payload", pyarrow.string()),
        ("set_to_null", pyarrow.string()),
    ]
)
