"""Rows into jobs, and outcomes of claimed jobs: writers without Spark, on every store."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from tests.spark.support.query_options import read_options

from ackline.core.codec import DEFAULT_MAX_PAYLOAD
from ackline.core.errors import ConfigError, InvalidPayload, StoreUnavailable
from ackline.core.job import State
from ackline.spark.store import retry
from ackline.spark.writing.drafts import content_id
from ackline.spark.writing.job_writer import JobsStreamWriter, JobsTableWriter
from ackline.spark.writing.json_columns import validated_json
from ackline.spark.writing.outcome_writer import OutcomesStreamWriter, OutcomesTableWriter
from ackline.spark.writing.rejected_rows import RejectedRow, RowsRejected

TEXT = pyarrow.string()


def of_email(table, options):
    """What a writer is asked for; the queue may be None."""
    said = {"store": "x", "table": table, "queue": "email", **options}
    return read_options("write", {name: value for name, value in said.items() if value is not None})


@pytest.fixture
def writer(address):
    def make(table, kind=JobsTableWriter, **options):
        return kind(of_email("jobs", options), address, from_arrow_schema(table.schema))

    return make


@pytest.fixture
def settler(address):
    def make(table, kind=OutcomesTableWriter, **options):
        return kind(of_email("outcomes", options), address, from_arrow_schema(table.schema))

    return make


@pytest.fixture
def email(queues):
    return queues["email"]


def write(writer, table, tasks=2):
    """Some tasks, each with some of the rows, then the commit."""
    size = -(-table.num_rows // tasks)
    parts = [table.slice(start, size) for start in range(0, table.num_rows, size)]
    with pytest.MonkeyPatch.context() as patch:
        numbers = itertools.count()
        patch.setattr("ackline.spark.writing.rejected_target.partition_id", lambda: next(numbers))
        messages = [writer.write(iter(part.to_batches())) for part in parts]
    writer.commit(messages)
    return messages


@pytest.fixture
def outage(address, monkeypatch):
    """The store is away when a task connects, and once more right after it did what was asked."""
    monkeypatch.setattr(retry, "FIRST_DELAY", 0.001)
    connect, left = address.connect, ["connect"]

    def cut(verb):
        left.append(verb)

        def connect_late():
            if "connect" in left:
                left.remove("connect")
                raise StoreUnavailable("refused")
            queues = connect()
            act = getattr(queues.store, verb)

            def answer_late(*arguments, **options):
                answer = act(*arguments, **options)
                if verb in left:
                    left.remove(verb)
                    raise StoreUnavailable("the connection broke")
                return answer

            monkeypatch.setattr(queues.store, verb, answer_late)
            return queues

        monkeypatch.setattr(address, "connect", connect_late)
        return left

    return cut


def test_a_store_that_is_away_for_a_moment_ends_no_write(email, writer, outage):
    table = pyarrow.table({"id": ["a", "b"], "payload": ["1", "2"]})
    left = outage("enqueue")

    write(writer(table), table, tasks=1)

    assert left == []
    assert sorted(job.id for job in email.jobs().jobs) == ["a", "b"]


def test_a_store_that_is_away_for_a_moment_loses_no_outcome(email, settler, outage):
    email.enqueue(1, id="a")
    [job] = email.claim(1)
    table = pyarrow.table({"id": ["a"], "token": [job.record.token], "outcome": ["complete"]})
    left = outage("apply")

    [message] = write(settler(table), table, tasks=1)

    assert (left, message.written, message.known) == ([], 1, 0)
    assert email.status("a").state is State.COMPLETED


def test_without_patience_an_outage_ends_the_write(writer, outage):
    """The control."""
    table = pyarrow.table({"id": ["a"], "payload": ["1"]})
    outage("enqueue")

    with pytest.raises(StoreUnavailable):
        write(writer(table, retryFor="0"), table, tasks=1)


def test_each_row_is_a_job(email, writer):
    table = pyarrow.table(
        {
            "id": ["a", "b"],
            "kind": ["welcome", None],
            "priority": [9, None],
            "delay": [None, 60.0],
            "max_attempts": [7, None],
            "backoff": [[1.0, 5.0], None],
            "headers": pyarrow.array([[("k", "v")], None], pyarrow.map_(TEXT, TEXT)),
            "group": ["g", None],
            "payload": ['{"to": "ann"}', "[1]"],
        }
    )

    write(writer(table, kind=JobsTableWriter), table)

    a, b = email.store.get(email.key, ["a", "b"])
    assert (a.kind, a.priority, a.state, a.payload) == (
        "welcome",
        9,
        State.QUEUED,
        b'{"to": "ann"}',
    )
    assert (a.options.max_attempts, a.options.group) == (7, "g")
    assert a.options.backoff.delays == (1.0, 5.0)
    assert dict(a.options.headers) == {"k": "v"}
    assert (b.kind, b.priority, b.state) == ("default", 5, State.SCHEDULED)


def test_columns_without_a_meaning_are_the_payload(email, writer):
    table = pyarrow.table({"id": ["a"], "to": ["ann"], "n": [1], "price": [Decimal("1.50")]})

    write(writer(table), table)

    assert email.status("a").payload == {"to": "ann", "n": 1, "price": "1.50"}


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64"])
def test_whole_numbers_are_ids(kind, email, writer):
    ids = pyarrow.array([7, -8, None], kind)
    table = pyarrow.table({"id": ids, "payload": ["1", "2", "3"]})

    with pytest.raises(RowsRejected, match=r"\bid\b"):
        write(writer(table), table)

    assert [email.status(id).payload for id in ("7", "-8")] == [1, 2]


def test_a_time_to_run_at(email, writer, clock):
    at = datetime.fromtimestamp(clock.now() + 100, UTC)
    table = pyarrow.table(
        {
            "id": ["a"],
            "run_at": pyarrow.array([at], pyarrow.timestamp("us", tz="UTC")),
            "payload": ["1"],
        }
    )

    write(writer(table), table)

    assert email.status("a").record.run_at - clock.now() == pytest.approx(100)


def test_a_column_names_the_queue(queues, writer):
    table = pyarrow.table({"id": ["1", "1"], "queue": ["a", "b"], "payload": ["1", "2"]})

    write(writer(table, queue=None), table)

    assert queues["a"].status("1").payload == 1
    assert queues["b"].status("1").payload == 2


def test_what_is_asked_for_all_jobs_holds_whatever_their_rows_say(queues, writer):
    """A file of another system may have such columns, too."""
    row = {"id": ["a"], "queue": ["production"], "kind": ["charge"], "priority": [9]}
    table = pyarrow.table({**row, "payload": ["1"]})
    asked = {"queue": "staging", "priority": "2"}

    write(writer(table, **asked), table)

    [job] = queues["staging"].jobs().jobs
    assert (job.kind, job.priority) == ("charge", 2)
    assert "production" not in list(queues)


@pytest.mark.every_store
def test_a_repeated_write_enqueues_nothing_twice(email, writer):
    table = pyarrow.table({"id": [str(n) for n in range(2500)], "payload": ["1"] * 2500})
    first = write(writer(table), table)
    failed, done = email.claim(2)
    email.bury(failed, "no")
    email.complete(done)

    again = write(writer(table), table)

    assert sum(message.written for message in first) == 2500
    assert [(message.written, message.known) for message in again] == [(0, 1250), (0, 1250)]
    assert email.status(failed.id).state is State.FAILED
    assert email.status(done.id).state is State.COMPLETED


def test_what_fails_just_then_stays_as_it_is(email, writer, monkeypatch):
    table = pyarrow.table({"id": ["a"], "payload": ["1"]})
    write(writer(table), table)
    kind = type(email.store)
    enqueue = kind.enqueue

    def fail_first(store, *given):
        email.bury(email.claim(1)[0], "no")
        return enqueue(store, *given)

    monkeypatch.setattr(kind, "enqueue", fail_first)
    write(writer(table), table)

    assert email.status("a").state is State.FAILED


@pytest.mark.every_store
def test_what_failed_is_enqueued_anew_when_asked_to(email, writer):
    """The control: else a failed job stays as it is."""
    table = pyarrow.table({"id": ["a"], "payload": ["1"]})
    write(writer(table), table)
    email.bury(email.claim(1)[0], "no")

    write(writer(table, existing="replace"), table)

    assert email.status("a").state is State.QUEUED


def test_a_task_that_is_tried_again_enqueues_nothing_twice(email, writer):
    table = pyarrow.table({"id": [str(n) for n in range(1500)], "payload": ["1"] * 1500})
    one = writer(table)

    def cut_off():
        yield from table.slice(0, 1200).to_batches()
        raise ConnectionError

    with pytest.raises(ConnectionError):
        one.write(cut_off())
    assert 0 < email.counts()[State.QUEUED] < 1500
    write(one, table)

    assert email.counts()[State.QUEUED] == 1500


def test_equal_contents_are_one_job(email, writer):
    table = pyarrow.table({"payload": ['{"a":1}', '{"a":1}', '{"a":2}']})

    for _ in range(2):
        write(writer(table, idFrom="content"), table)

    assert email.counts()[State.QUEUED] == 2
    assert email.status(content_id("email", "", b'{"a":1}')).payload == {"a": 1}


def at_half_past_one(zone):
    """A row as Spark sends it from a session with this time zone, with an instant in each place."""
    at = pyarrow.timestamp("us", tz=zone)
    kind = pyarrow.struct(
        [("in", at), ("list", pyarrow.list_(at)), ("map", pyarrow.map_(TEXT, at))]
    )
    instant = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    nested = {"in": instant, "list": [instant, None], "map": [("k", instant)]}
    return pyarrow.table(
        {"at": pyarrow.array([instant], at), "nested": pyarrow.array([nested], kind)}
    )


def test_the_zone_of_a_session_is_no_content(email, writer):
    for zone in ("UTC", "Europe/Berlin", "Etc/UTC", "+05:30"):
        table = at_half_past_one(zone)
        write(writer(table, idFrom="content"), table)

    (job,) = email.claim(2)
    at = "2026-10-25T01:30:00Z"
    assert job.payload == {"at": at, "nested": {"in": at, "list": [at, None], "map": {"k": at}}}


def test_content_ids_do_not_meet():
    assert content_id("a", "bc", b"") != content_id("ab", "c", b"")


BROKEN: dict[str, list[Any]] = {
    "id": ["ok", None, "bad json", "bad priority", "x" * 600, "no payload"],
    "priority": [1, 1, 1, 17, 1, 1],
    "payload": ["1", "2", "{", "4", "5", None],
}


def test_broken_rows_fail_the_write_and_are_listed(email, writer):
    table = pyarrow.table(BROKEN)

    with pytest.raises(RowsRejected) as caught:
        write(writer(table), table)

    said = str(caught.value)
    assert said.startswith("5 rows were refused; the other one is written")
    for words in ("has no id", "no JSON", "not 17", "1 to 512 bytes", "no payload"):
        assert words in said
    assert email.counts()[State.QUEUED] == 1


@pytest.mark.parametrize(
    ("refused", "others", "words"),
    [
        (1, 0, "1 row was refused; there were no others."),
        (1, 1, "1 row was refused; the other one is written."),
        (2, 1000, "2 rows were refused; the other 1,000 are written."),
    ],
)
def test_refused_rows_are_counted_in_words_that_fit(refused, others, words):
    row = RejectedRow("{}", "InvalidJob", "no id")

    assert str(RowsRejected([row] * refused, others)).startswith(words)


def test_broken_rows_are_kept_aside_with_the_reason(email, writer, tmp_path):
    table = pyarrow.table(BROKEN)
    aside = tmp_path / "aside"

    write(writer(table, rejectedPath=str(aside)), table)

    rows = pyarrow.parquet.read_table(aside).to_pylist()
    assert [json.loads(row["row"])["id"] for row in rows] == BROKEN["id"][1:]
    assert {row["error"] for row in rows} == {"InvalidName", "InvalidPayload", "InvalidOption"}


def test_a_repeated_micro_batch_keeps_its_broken_rows_once(writer, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "ackline.spark.writing.writers.micro_batch_name", lambda: "stream-q-batch-7"
    )
    table = pyarrow.table(BROKEN)
    one = writer(table, kind=JobsStreamWriter, rejectedPath=tmp_path.as_uri() + "/aside")

    for _ in range(2):
        one.commit([one.write(iter(table.to_batches()))], 7)

    files = [path.name for path in (tmp_path / "aside").iterdir()]
    assert files == ["stream-q-batch-7-00000.parquet"]
    assert pyarrow.parquet.read_table(tmp_path / "aside").num_rows == 5


def test_a_task_that_refuses_nothing_when_tried_again_leaves_no_file(writer, tmp_path):
    table = pyarrow.table(BROKEN)
    one = writer(table, rejectedPath=str(tmp_path / "aside"))
    one.write(iter(table.to_batches()))
    assert len(list((tmp_path / "aside").iterdir())) == 1

    one.write(iter(table.slice(0, 1).to_batches()))

    assert list((tmp_path / "aside").iterdir()) == []


def test_a_task_that_fails_leaves_no_file(writer, tmp_path):
    table = pyarrow.table(BROKEN)
    one = writer(table, rejectedPath=str(tmp_path / "aside"))

    def cut_off():
        yield from [*table.to_batches()] * 300
        assert len(list((tmp_path / "aside").iterdir())) == 1
        raise ConnectionError

    with pytest.raises(ConnectionError):
        one.write(cut_off())

    assert list((tmp_path / "aside").iterdir()) == []


MANY = 1500


def test_too_many_broken_rows_end_the_task_after_the_good_ones(email, writer):
    table = pyarrow.table({"id": [None] * 50 + ["good"], "payload": ["1"] * 51})

    with pytest.raises(RowsRejected, match="50 rows") as e:
        writer(table, maxRejected="10").write(iter(table.to_batches()))

    assert "name a folder for them" in str(e.value)
    assert email.counts()[State.QUEUED] == 1


def test_a_folder_takes_any_number_of_broken_rows(email, writer, tmp_path):
    ids = [str(number) if number % 4 == 0 else None for number in range(4 * MANY // 3)]
    table = pyarrow.table({"id": ids, "payload": ["1"] * len(ids)})

    (done,) = write(
        writer(table, rejectedPath=str(tmp_path / "aside"), maxRejected="1"), table, tasks=1
    )

    assert (done.written, done.rejected, done.listed) == (500, MANY, [])
    assert pyarrow.parquet.read_table(tmp_path / "aside").num_rows == MANY
    assert email.counts()[State.QUEUED] == 500


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("backoff", [[1.0, None]]),
        ("keys_if_undelivered", pyarrow.array([[None]], pyarrow.list_(pyarrow.list_(TEXT)))),
    ],
)
def test_a_null_in_a_list_is_told_in_a_sentence(column, values, writer):
    table = pyarrow.table({"id": ["1"], "payload": ["1"], column: values})

    with pytest.raises(RowsRejected, match=column):
        write(writer(table), table, tasks=1)


@pytest.mark.parametrize(
    ("text", "half"),
    [
        (r'{"a":"\ud800"}', r"'\ud800'"),
        (r'"\udc00"', r"'\udc00'"),
        (r'["\ud83d\ude00", "\ud83d \ude00"]', r"'\ud83d'"),
    ],
)
def test_half_of_a_character_is_told_as_such(text, half):
    with pytest.raises(InvalidPayload) as caught:
        validated_json("payload", text)

    assert str(caught.value).startswith(f"the payload has {half}, which is half of a character")


def test_a_whole_character_may_be_written_in_halves():
    assert validated_json("payload", r'"\ud83d\ude00 \\ud800"') == rb'"\ud83d\ude00 \\ud800"'


def year_10000():
    late = pyarrow.array([0, 253402300800_000_000], pyarrow.timestamp("us", tz="UTC"))
    return pyarrow.table({"id": ["ok", "odd"], "at": late})


def twice_the_same_key():
    headers = pyarrow.array([[("k", "v")], [("k", "v"), ("k", "w")]], pyarrow.map_(TEXT, TEXT))
    return pyarrow.table({"id": ["ok", "odd"], "payload": ["1", "2"], "headers": headers})


def nested_deeply():
    return pyarrow.table({"id": ["ok", "odd"], "payload": ["1", "[" * 3000 + "]" * 3000]})


@pytest.mark.parametrize("make", [year_10000, twice_the_same_key, nested_deeply])
def test_an_odd_row_does_not_spoil_the_others(make, email, writer, tmp_path):
    table = make()

    write(writer(table, rejectedPath=str(tmp_path / "aside")), table, tasks=1)

    (odd,) = pyarrow.parquet.read_table(tmp_path / "aside").to_pylist()
    assert json.loads(odd["row"])["id"] == "odd"
    assert "read" in odd["reason"]
    assert email.status("ok").state is State.QUEUED


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"payload": ["1"]}, {}, "add a column 'id', or set idFrom=content"),
        ({"id": ["1"], "payload": ["1"]}, {"idFrom": "content"}, "drop one of them"),
        ({"id": ["1"]}, {}, "no column for the payload"),
        (
            {"id": [1.0], "payload": ["1"]},
            {},
            "column 'id' is double, but must be string or a whole number: cast it",
        ),
        (
            {"id": ["1"], "delay": ["soon"], "payload": ["1"]},
            {},
            "column 'delay' is string, but must be a number: cast it",
        ),
        (
            {"id": ["1"], "payload": ["1"], "to": ["a"]},
            {},
            "beside it 'to', which no job has: drop it",
        ),
        ({"id": ["1"], "priority": ["high"], "payload": ["1"]}, {}, "cast it"),
        ({"id": ["1"], "backoff": [["a"]], "payload": ["1"]}, {}, "must be array<double> or"),
        ({"ID": ["1"], "to": ["a"]}, {"idFrom": "content"}, "there is a column 'ID': call it 'id'"),
    ],
)
def test_a_table_that_cannot_be_jobs_is_refused_at_planning(columns, options, words, writer):
    with pytest.raises(ConfigError) as caught:
        writer(pyarrow.table(columns), **options)

    assert words in str(caught.value)


def test_a_queue_must_be_named(address):
    table = pyarrow.table({"id": ["1"], "payload": ["1"]})
    options = read_options("write", {"store": "x", "table": "jobs"})

    with pytest.raises(ConfigError, match="queue"):
        JobsTableWriter(options, address, from_arrow_schema(table.schema))


class TestOutcomes:
    def rows(self, jobs, **columns):
        return pyarrow.table(
            {
                "id": [job.id for job in jobs],
                "token": [job.record.token for job in jobs],
                **columns,
            }
        )

    @pytest.mark.every_store
    def test_each_row_settles_its_job(self, email, settler, clock):
        for id in "abcd":
            email.enqueue(id, id=id)
        jobs = email.claim(4)
        table = self.rows(
            jobs,
            outcome=["complete", "fail", "retry", "dead"],
            result=['{"n": 1}', None, None, None],
            error=[None, "slow", None, "bad"],
            delay=[None, None, 777.0, None],
        )

        for _ in range(2):
            write(settler(table), table)

        assert email.result("a") == {"n": 1}
        states = [email.status(id).state for id in "bcd"]
        assert states == [State.FAILING, State.FAILING, State.FAILED]
        assert email.status("c").record.run_at - clock.now() == pytest.approx(777)
        assert email.status("b").record.failure.message == "slow"
        assert email.status("d").record.failure.message == "bad"

    @pytest.mark.every_store
    def test_a_stale_token_changes_nothing_and_is_told(self, email, settler, clock):
        email.enqueue(1, id="a")
        old = email.claim(1, lease=10)
        clock.advance(11)
        new = email.claim(1)[0]
        table = self.rows(old, outcome=["complete"])

        with pytest.raises(RowsRejected, match="lease"):
            write(settler(table), table)

        email.complete(new, "mine")
        assert email.result("a") == "mine"

    def test_unknown_outcomes_and_broken_results_are_told(self, email, settler):
        for id in "ab":
            email.enqueue(id, id=id)
        jobs = email.claim(2)
        table = self.rows(jobs, outcome=["done", "complete"], result=[None, "{"])
        one = settler(table, kind=OutcomesStreamWriter)

        with pytest.raises(RowsRejected) as caught:
            one.commit([one.write(iter(table.to_batches()))], 0)

        assert "'done'" in str(caught.value)
        assert "the result is no JSON" in str(caught.value)

    def test_of_two_outcomes_of_one_job_the_first_stands(self, email, settler):
        email.enqueue(1, id="a")
        jobs = email.claim(1)
        table = self.rows(jobs * 2, outcome=["complete", "dead"])

        first, second = (write(settler(table), table, tasks=1) for _ in range(2))

        assert [(task.written, task.known) for task in first + second] == [(1, 1)] * 2
        assert email.status("a").state is State.COMPLETED

    def test_a_name_that_no_queue_can_have_is_one_refused_row(self, email, settler, tmp_path):
        email.enqueue(1, id="a")
        jobs = email.claim(1)
        table = self.rows(jobs * 2, outcome=["complete"] * 2, queue=["email", "q" * 600])

        aside = str(tmp_path / "aside")
        [task] = write(settler(table, queue=None, rejectedPath=aside), table, tasks=1)

        assert (task.written, task.rejected) == (1, 1)
        [row] = pyarrow.parquet.read_table(tmp_path / "aside").to_pylist()
        assert row["error"] == "InvalidName"

    def test_a_result_is_as_large_as_a_worker_may_give_one(self, email, settler):
        for id in "ab":
            email.enqueue(id, id=id)
        largest = f'"{"x" * (DEFAULT_MAX_PAYLOAD - 2)}"'
        table = self.rows(email.claim(2), outcome=["complete"] * 2, result=[largest, f"{largest} "])

        with pytest.raises(RowsRejected, match="1,048,577"):
            write(settler(table), table)

        assert [email.status(id).state for id in "ab"] == [State.COMPLETED, State.PROCESSING]

    def test_any_number_of_refused_rows_goes_to_the_folder(self, settler, tmp_path):
        table = pyarrow.table(
            {"id": ["gone"] * 1200, "token": [1] * 1200, "outcome": ["complete"] * 1200}
        )

        write(settler(table, rejectedPath=str(tmp_path / "aside")), table, tasks=1)

        assert pyarrow.parquet.read_table(tmp_path / "aside").num_rows == 1200

    def test_a_table_without_tokens_is_refused(self, settler):
        with pytest.raises(ConfigError, match="'token'"):
            settler(pyarrow.table({"id": ["a"], "outcome": ["complete"]}))
