"""Files into jobs, and out of the DLQ by a condition: tasks without Spark, on every store."""

from __future__ import annotations

import json
import math
import re
from functools import partial
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DecimalType, DoubleType, LongType, NullType, StringType
from tests.spark.support.query_options import read_options

from ackline.cli.exits import UsageError
from ackline.cli.pipeline.bulk import parse_delimiter, parse_set_options
from ackline.core.errors import ConfigError, StoreUnavailable
from ackline.core.job import State
from ackline.core.limits import MAX_DELAY
from ackline.spark.bulk.input_files import (
    csv_column_names,
    format_of,
    read_files,
    require_comma_separated,
    require_literal_path,
    unreadable_file_named,
)
from ackline.spark.bulk.load import classify_file_columns, enqueue_task
from ackline.spark.bulk.malformed_csv import UNKNOWN_REASON, CsvLayout
from ackline.spark.bulk.parquet_timestamps import columns_in_nanoseconds
from ackline.spark.bulk.redrive import (
    LISTED,
    duration_at_rate,
    find_rejections_task,
    redrive_task,
    require_whole_number,
    unchanged_since_plan,
)
from ackline.spark.writing.columns import classify_columns
from ackline.spark.writing.rejected_target import RejectedRowsTarget, rejected_rows_target


@pytest.fixture
def load(address):
    def call(rows, **options):
        table = pyarrow.Table.from_pylist(rows)
        given = {"store": "x", "table": "jobs", "queue": "email", "idFrom": "content", **options}
        write_options = read_options("write", given)
        columns = classify_columns(from_arrow_schema(table.schema), write_options)
        report = enqueue_task(
            address,
            write_options,
            columns,
            iter(table.to_batches()),
            rejected_rows_target(write_options),
        )
        return [row for batch in report for row in batch.to_pylist()]

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

    @pytest.mark.parametrize(
        ("column", "value", "advice"),
        [
            ("id", 1.5, '--set "id=cast(id as string)"'),
            ("priority", "9", '--set "priority=cast(priority as int)"'),
            ("run_at", "2030-01-31", '--set "run_at=cast(run_at as timestamp)"'),
            ("headers", "{}", "--set \"headers=from_json(headers, 'map<string,string>')\""),
            ("headers", {"a": "b"}, "--set \"headers=from_json(to_json(headers), 'map<string,"),
            ("keys_if_undelivered", "[]", "from_json(keys_if_undelivered, 'array<array<string>>')"),
            ("backoff", ["1"], '--set "backoff=cast(backoff as array<double>)"'),
            (
                "backoff",
                "[1]",
                '--set "backoff=cast(backoff as double)", or for a list --set "backoff=from',
            ),
        ],
    )
    def test_a_column_of_another_type_is_refused_as_a_command_says_it(self, column, value, advice):
        schema = from_arrow_schema(pyarrow.table({column: [value], "to": ["ann"]}).schema)
        given = {"store": "x", "table": "jobs", "queue": "email", "idFrom": "content"}
        write_options = read_options("write", given)

        with pytest.raises(ConfigError, match=re.escape(advice)):
            classify_file_columns(schema, write_options)

    def test_the_format_is_known_by_the_name(self):
        assert format_of(["a.jsonl", "b.json.gz"], None) == "json"
        assert format_of(["a.CSV"], None) == "csv"
        assert format_of(["a.txt"], "csv") == "csv"
        for names in (["a.txt"], ["a.csv", "b.json"], ["folder"]):
            with pytest.raises(ConfigError, match="--format"):
                format_of(names, None)

    def test_a_name_of_a_column_ends_in_its_line(self):
        assert csv_column_names(["id", "to"]) == ["id", "to"]
        with pytest.raises(ConfigError, match="quote"):
            csv_column_names(["id", "to\n1,ann\n2,bob\n"])

    @pytest.mark.parametrize(
        ("line", "advice"), [("id;to", "';'"), ("id\tto", "tab"), ("id|to", "'|'")]
    )
    def test_a_csv_without_commas_asks_for_its_delimiter(self, line, advice):
        require_comma_separated(["to"])
        require_comma_separated(["id;to", "n"])
        with pytest.raises(ConfigError, match=re.escape(f"--delimiter {advice}")):
            require_comma_separated([line])

    def test_a_delimiter_is_one_character(self):
        assert [parse_delimiter(text) for text in (";", "tab", "\\t", None)] == [
            *(";", "\t", "\t"),
            None,
        ]
        for text in ("", ";;", '"'):
            with pytest.raises(UsageError, match="character"):
                parse_delimiter(text)

    @pytest.mark.parametrize(
        ("line", "missing", "reason"),
        [
            ("a;9", "", "the line has 2 values, but the first line names 3 columns"),
            ('a;"9', "", "the line has 2 values, but the first line names 3 columns"),
            ("a", "", "the line has 1 value, but"),
            ("a;high;1", "priority", "column 'priority' is 'high', which is not a whole number"),
            ('"a;b\nc";high;1', "priority", "column 'priority' is 'high', which is not a whole"),
            ("a;9999999999;1", "priority", "'9999999999', which is not from -2147483648 to 21474"),
            ("a;;soon", "priority delay", "column 'delay' is 'soon', which is not a number"),
            ("a;high;soon", "priority delay", "not a whole number; column 'delay' is 'soon'"),
            ("a;9;1", "", UNKNOWN_REASON),
        ],
    )
    def test_a_broken_line_says_what_is_wrong_in_which_column(self, line, missing, reason):
        lines = CsvLayout((("id", "string"), ("priority", "int"), ("delay", "double")), ";")
        columns = [[None if name in missing else "1"] for name, _ in lines.columns]
        batch = pyarrow.RecordBatch.from_arrays(
            [*map(pyarrow.array, columns), pyarrow.array([line])], ["c0", "c1", "c2", "c3"]
        )

        (row,) = lines.refused(batch)

        assert (row.row, row.error) == (line, "BrokenLine")
        assert reason in row.reason

    def test_a_delimiter_is_for_csv(self):
        nothing: Any = None
        with pytest.raises(ConfigError, match="json"):
            read_files(nothing, ["a.json"], "json", delimiter=";")

    def test_a_colon_in_a_name_is_refused_but_not_in_an_address(self):
        require_literal_path("s3://data/10:00/mails.csv")
        with pytest.raises(ConfigError, match="colon"):
            require_literal_path("mails/2026-11-16T10:00:00.jsonl")

    @pytest.mark.parametrize(
        ("text", "given"),
        [
            (
                ": org.apache.spark.SparkException: Exception thrown in awaitResult: \n"
                "Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] "
                "Encountered error while reading file file:///data/my%20mails.gz.  SQLSTATE: K\n"
                "Caused by: java.io.EOFException: Unexpected end of input stream\n\tat org.y\n",
                "/data/my mails.gz cannot be read: Unexpected end of input stream",
            ),
            (
                "[FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Encountered error while reading file "
                "file:/data/a.parquet. Could not read footer. Please ensure that the file is.",
                "/data/a.parquet cannot be read. Replace it",
            ),
        ],
    )
    def test_a_file_that_cannot_be_read_is_named_with_the_cause(self, text, given):
        with pytest.raises(ConfigError, match=re.escape(given)), unreadable_file_named():
            raise RuntimeError(text)

    def test_times_in_nanoseconds_are_found_by_file_and_column(self, tmp_path):
        def file(name, **kinds):
            columns = {each: pyarrow.array([None], kind) for each, kind in kinds.items()}
            pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / name)
            return (tmp_path / name).as_uri()

        local, instant = pyarrow.timestamp("ns"), pyarrow.timestamp("ns", "UTC")
        one = file("one 1.parquet", at=local, due=instant, n=pyarrow.int64())
        coarse = file("coarse.parquet", at=pyarrow.timestamp("us"), due=instant)
        nested = file("nested.parquet", at=local, all=pyarrow.list_(instant))

        assert columns_in_nanoseconds([one, one]) == {"at": False, "due": True}
        with pytest.raises(ConfigError, match=r"coarse.parquet .*one 1.parquet .*'at'"):
            columns_in_nanoseconds([one, coarse])
        with pytest.raises(ConfigError, match=r"nested.parquet.* 'all'"):
            columns_in_nanoseconds([nested])

    def test_another_error_stays_what_it_is(self):
        with pytest.raises(RuntimeError, match="no file"), unreadable_file_named():
            raise RuntimeError("no file")


class TestPlanning:
    def test_a_rate_says_how_long_all_take(self):
        assert duration_at_rate(100, 50.0) == 2
        assert duration_at_rate(100, None) == 0

    @pytest.mark.parametrize("rate", [math.nan, math.inf, 0.0, -1.0])
    def test_a_rate_that_is_none_is_refused(self, rate):
        with pytest.raises(ConfigError, match="second"):
            duration_at_rate(100, rate)

    def test_nothing_is_due_later_than_a_store_allows(self):
        with pytest.raises(ConfigError, match=r"3\.171"):
            duration_at_rate(1_000_000_000, 0.001)
        assert duration_at_rate(1_000_000_000, 3.171) <= MAX_DELAY

    def test_a_priority_is_not_cut_to_a_whole_number(self):
        for kind in (LongType(), NullType()):
            require_whole_number(kind)
        for other in (DecimalType(2, 1), DoubleType(), StringType()):
            with pytest.raises(ConfigError, match="number"):
                require_whole_number(other)

    def test_a_value_is_set_once(self):
        assert parse_set_options(["priority=9", "payload=a = b"]) == {
            "priority": "9",
            "payload": "a = b",
        }
        with pytest.raises(UsageError, match="priority"):
            parse_set_options(["priority=9", "priority = 1"])


class TestRedriving:
    @pytest.fixture
    def queue(self, queues):
        return queues["email"]

    @pytest.fixture
    def redrive(self, address):
        def call(rows, folder=None):
            table = pyarrow.Table.from_pylist(rows, PLAN)
            rejected_target = RejectedRowsTarget.create(folder, "redrive", 1000)
            report = redrive_task(address, "ann", iter(table.to_batches()), rejected_target)
            return [row for batch in report for row in batch.to_pylist()]

        return call

    @pytest.fixture
    def check(self, address):
        def call(rows):
            batches = iter([pyarrow.RecordBatch.from_pylist(rows, PLAN)])
            return [
                row for batch in find_rejections_task(address, batches) for row in batch.to_pylist()
            ]

        return call

    def bury(self, queue, *ids):
        for id in ids:
            queue.enqueue({"to": id}, id=id)
        for job in queue.claim(len(ids)):
            queue.bury(job, "no")

    def plan(self, queue, *ids, **given):
        known = {"codec": "json", "delay": 0.0, "priority": None, "payload": None, **given}
        return [
            {"queue": "email", "id": id, "token": queue.status(id).record.token, **known}
            for id in ids
        ]

    @pytest.mark.every_store
    def test_what_was_chosen_runs_again(self, queue, redrive):
        self.bury(queue, "a", "b", "c")

        report, _ = redrive(self.plan(queue, "a", "b"))

        assert (report["redriven"], report["skipped"]) == (2, 0)
        assert queue.counts()[State.QUEUED] == 2
        assert [event.by for event in queue.events() if event.act == "redrive"] == ["ann"] * 2

    @pytest.mark.parametrize("away", ["before", "after"])
    def test_a_store_that_is_away_for_a_moment_does_not_end_the_task(
        self, away, queue, redrive, address, monkeypatch
    ):
        self.bury(queue, "a", "b")
        connect, calls = address.connect, []

        def fail_at_first(act, *arguments):
            calls.append(act.__name__)
            first = calls.count(act.__name__) == 1
            if first and away == "after":
                act(*arguments)
            if first:
                raise StoreUnavailable("failing over")
            return act(*arguments)

        def failing():
            queues = fail_at_first(connect)
            for verb in ("get", "apply"):
                act = partial(fail_at_first, getattr(queues.store, verb))
                monkeypatch.setattr(queues.store, verb, act)
            return queues

        monkeypatch.setattr(address, "connect", failing)

        report, _ = redrive(self.plan(queue, "a", "b"))

        assert queue.counts()[State.QUEUED] == 2
        # What an unanswered call has redriven is not counted twice, but as left alone.
        assert (report["redriven"], report["skipped"]) == ((2, 0) if away == "before" else (0, 2))

    def test_a_second_run_changes_nothing(self, queue, redrive):
        self.bury(queue, "a")
        plan = self.plan(queue, "a")
        redrive(plan)

        report, _ = redrive(plan)

        assert (report["redriven"], report["skipped"]) == (0, 1)

    def test_a_job_that_has_failed_anew_is_left_alone(self, queue, redrive):
        """It is in the DLQ again, but not by the failure that was meant."""
        self.bury(queue, "a")
        plan = self.plan(queue, "a")
        queue.redrive("a")
        queue.bury(queue.claim(1)[0], "another error")

        report, _ = redrive(plan)

        assert (report["redriven"], report["skipped"]) == (0, 1)
        assert queue.counts()[State.FAILED] == 1

    @pytest.mark.every_store
    def test_by_the_state_alone_it_would_not_be(self, queue, redrive):
        """The control: with the token of the new failure it is redriven."""
        self.bury(queue, "a")
        queue.redrive("a")
        queue.bury(queue.claim(1)[0], "another error")

        report, _ = redrive(self.plan(queue, "a"))

        assert report["redriven"] == 1

    def test_what_others_redrive_meanwhile_is_not_changed(self, queue, redrive, monkeypatch):
        """It was as chosen when it was looked at, and is not when it is to be changed."""
        self.bury(queue, "a")
        plan = self.plan(queue, "a", payload='{"to": "bob"}')

        def look(found, rows):
            queue.redrive("a")
            return unchanged_since_plan(found, rows)

        monkeypatch.setattr("ackline.spark.bulk.redrive.unchanged_since_plan", look)
        report, _ = redrive(plan)

        assert (report["redriven"], report["skipped"]) == (0, 1)
        assert queue.status("a").payload == {"to": "a"}

    def test_a_job_is_changed_before_it_runs(self, queue, redrive):
        self.bury(queue, "a")

        redrive(self.plan(queue, "a", priority=9, payload='{"to": "bob"}', delay=60.0))

        job = queue.status("a")
        assert (job.state, job.record.priority, job.payload) == ("scheduled", 9, {"to": "bob"})

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            ({"payload": "{broken"}, "the payload is no JSON"),
            ({"priority": 17}, "priority"),
            ({"set_to_null": "payload"}, "--set payload=… is NULL"),
        ],
    )
    def test_what_cannot_be_set_comes_back(self, queue, redrive, given, reason):
        self.bury(queue, "a", "b")

        report = redrive([*self.plan(queue, "a", **given), *self.plan(queue, "b")])

        assert sum(row["redriven"] for row in report) == 1
        assert [reason in row["reason"] for row in report if row["reason"]] == [True]
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
        report = redrive(plan)

        assert [row["redriven"] for row in report] == [1, 0, 0]
        assert "written as msgpack" in report[2]["reason"]
        assert packed.status("a").payload == {"to": "a"}
        assert packed.claim(1)[0].payload == {"to": "b"}

    def test_what_would_be_refused_is_known_before(self, queue, check):
        given: list[dict[str, Any]] = [
            {},
            {"priority": 9, "payload": "[]"},
            {"priority": 99},
            {"payload": "{"},
            {"payload": json.dumps("x" * queue.serdes.max_payload)},
        ]
        ids = [str(number) for number in range(len(given))]
        self.bury(queue, *ids)
        plan = [
            row for id, one in zip(ids, given, strict=True) for row in self.plan(queue, id, **one)
        ]

        report = check(plan)

        assert sum(row["refused"] for row in report) == 3
        assert [json.loads(row["row"])["id"] for row in report[1:3]] == ["2", "3"]
        assert ["99" in report[1]["reason"], "no JSON" in report[2]["reason"]] == [True, True]
        assert queue.counts()[State.FAILED] == len(given)

    def test_all_that_would_be_refused_are_counted(self, queue, check):
        ids = [str(number) for number in range(2 * LISTED)]
        self.bury(queue, *ids)
        plan = [row for id in ids for row in self.plan(queue, id, priority=99)]

        report = check(plan)

        assert (sum(row["refused"] for row in report), len(report)) == (2 * LISTED, 1 + LISTED)

    def test_what_cannot_be_set_is_kept_in_a_folder(self, queue, redrive, tmp_path):
        self.bury(queue, "a", "b")
        plan = [*self.plan(queue, "a", priority=17), *self.plan(queue, "b")]

        report = redrive(plan, str(tmp_path / "aside"))

        assert [(row["redriven"], row["refused"], row["row"]) for row in report] == [
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
