"""`ackline pipeline load`, `export` and `redrive`, with Spark."""

from __future__ import annotations

import gzip
import json

import pyarrow.parquet
import pytest
from tests.spark.audit.test_audit_command import KeptSpark

import ackline
from ackline.cli.app import run
from ackline.cli.pipeline import bulk as jobs_command
from ackline.core.errors import ConfigError
from ackline.core.job import State
from ackline.spark.bulk.export import payloads_as_text, require_all_rows

pytestmark = pytest.mark.ci


@pytest.fixture
def call(spark, sqlite_url, monkeypatch, capsys):
    monkeypatch.setattr(jobs_command, "start_spark", lambda session, master: KeptSpark(spark))

    def ask(*arguments):
        code = run(["--store", sqlite_url, *arguments])
        return code, capsys.readouterr()

    return ask


@pytest.fixture
def queue(sqlite_url):
    with ackline.open(sqlite_url) as queues:
        yield queues["email"]


def test_lines_of_json(call, queue, tmp_path):
    file = tmp_path / "orders.jsonl"
    file.write_text('{"order": "a", "n": 1}\n\n{"order": "b", "n": 2}\nbroken\n')
    load = ("pipeline", "load", str(file), "--queue", "email", "--kind", "welcome")
    sets = ("--set", "id=coalesce(get_json_object(payload, '$.order'), 'x')", "--set", "priority=7")

    code, output = call(*load, *sets)

    assert code == 1
    assert "2 jobs enqueued" in output.out
    assert "1 row was rejected" in output.err
    job = queue.status("b")
    assert (job.payload, job.kind, job.record.priority) == ({"order": "b", "n": 2}, "welcome", 7)

    code, output = call(*load, *sets, "--rejected", str(tmp_path / "bad"))

    assert code == 0
    assert "0 jobs enqueued; 2 rows" in output.out
    (bad,) = pyarrow.parquet.read_table(tmp_path / "bad").to_pylist()
    assert "no JSON" in bad["reason"]


def test_more_refused_rows_than_are_shown_are_told(call, tmp_path):
    file = tmp_path / "orders.jsonl"
    file.write_text("".join(f"broken {number}\n" for number in range(12)))
    load = ("pipeline", "load", str(file), "--queue", "email")

    code, output = call(*load)

    assert code == 1
    assert output.err.count("rejected: ") == 10
    assert "and 2 more" in output.err

    file.write_text("".join(f"broken {number}\n" for number in range(10)))
    assert "more: " not in call(*load)[1].err


def test_lists_and_maps_of_a_csv(call, queue, tmp_path):
    """As the guide and the refusals have it."""
    (tmp_path / "json.csv").write_text(
        'id,backoff,headers,to\na,"[1, 5, 30]","{""x"": ""1""}",ann\nb,7,,bob\n'
    )
    (tmp_path / "words.csv").write_text("id,backoff,to\nc,1 5 30,ann\n")
    load = ("pipeline", "load", "--queue", "email")
    headers = ("--set", "headers=from_json(headers, 'map<string,string>')")

    json = ("--set", "backoff=from_json(backoff, 'array<double>')")
    words = ("--set", "backoff=cast(split(backoff, ' ') as array<double>)")
    assert call(*load, str(tmp_path / "json.csv"), *headers, *json)[0] == 0
    assert call(*load, str(tmp_path / "words.csv"), *words)[0] == 0

    first, single, other = (queue.status(id).record.options for id in "abc")
    assert (first.headers, first.backoff.delays) == ({"x": "1"}, (1.0, 5.0, 30.0))
    assert (
        single.backoff is None
    )  # It is no list, so Spark makes NULL of it, and the guide says so.
    assert other.backoff.delays == (1.0, 5.0, 30.0)


def test_many_broken_lines(call, queue, tmp_path):
    file = tmp_path / "orders.jsonl"
    file.write_text("broken\n" * 1500 + "1\n")
    load = ("pipeline", "load", str(file), "--queue", "email", "--rejected", str(tmp_path / "bad"))

    for number in (1, 2):
        code, output = call(*load)
        assert (code, "1,500 rows rejected" in output.err) == (0, True)
        # None of the two runs has overwritten what the other keeps.
        assert pyarrow.parquet.read_table(tmp_path / "bad").num_rows == 1500 * number
    assert queue.counts()[State.QUEUED] == 1

    code, output = call(*load[:-2], "--max-rejected", "10")

    assert code == 2
    assert "1,000 rows" in output.err
    assert "--rejected" in " ".join(output.err.split())
    assert "bug" not in output.err


def test_lines_of_csv(call, queue, tmp_path):
    file = tmp_path / "mails.csv"
    file.write_text("id,priority,to,count\none,9,ann,1\ntwo,5,bob,2\nthree,oops,eve,3\n")

    code, output = call("--json", "pipeline", "load", str(file), "--queue", "email")

    assert code == 1
    report = json.loads(output.out)
    assert (report["enqueued"], len(report["rejected_rows"])) == (2, 1)
    assert "three" in report["rejected_rows"][0]["row"]
    assert queue.status("one").payload == {"to": "ann", "count": "1"}


def test_a_csv_with_semicolons(call, queue, tmp_path):
    file = tmp_path / "mails.csv"
    file.write_text('id;priority;to\none;9;"ann; bob"\ntwo;high;eve\nthree;5\n')
    load = ("--json", "pipeline", "load", str(file), "--queue", "email")

    assert "add --delimiter ';'" in " ".join(call(*load)[1].err.split())
    assert sum(queue.counts().values()) == 0

    code, output = call(*load, "--delimiter", ";")

    assert (code, queue.status("one").payload) == (1, {"to": "ann; bob"})
    assert sorted(row["reason"] for row in json.loads(output.out)["rejected_rows"]) == [
        "column 'priority' is 'high', which is not a whole number",
        "the line has 2 values, but the first line names 3 columns",
    ]


def test_a_field_of_csv_stays_what_it_is(call, queue, tmp_path):
    file = tmp_path / "mails, all.csv"
    file.write_text(
        "id,zip,big.number,n,text\n"
        '1,00123,12345678901234567890123,7,"say ""hi"" to Bob"\n'
        '2,04109,1.10,,"ends with \\"\n'
        '3,1e3,0x1,5,"two\nlines"\n'
        '4,5" pipe,,,x\n'
    )
    load = ("pipeline", "load", str(file), "--queue", "email")

    code, output = call(*load)

    assert (code, "4 jobs enqueued" in output.out) == (0, True)
    assert queue.status("1").payload == {
        "zip": "00123",
        "big.number": "12345678901234567890123",
        "n": "7",
        "text": 'say "hi" to Bob',
    }
    assert queue.status("2").payload["text"] == "ends with \\"
    assert queue.status("3").payload["text"] == "two\nlines"

    assert call(*load, "--infer", "--set", "id='x' || id")[0] == 0
    assert queue.status("x2").payload["n"] is None
    assert queue.status("x3").payload["n"] == 5


def test_files_of_csv_that_cannot_be_one_table(call, queue, tmp_path):
    texts = {
        "one.csv": "id,to,n\n1,ann,x\n",
        "other.csv": "to,id,n\nbob,2,y\n",
        "longer.csv": "id,to,n,m\n3,eve,z,1\n",
        "twice.csv": "id,to,to\n1,ann,bob\n",
        "nameless.csv": ",id\n0,1\n",
        "empty.csv": "",
        "open.csv": 'id,to,n\n1,ann,"abc\n2,bob,x\n3,eve,y\n',
        "T10:00.csv": "id,to,n\n1,ann,x\n",
        "one[1].csv": "id,to,n\n1,ann,x\n",
        "_hidden.csv": "id,to,n\n1,ann,x\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "latin 1.csv").write_bytes("id,to,n\n1,Zoë,x\n".encode("latin-1"))
    (tmp_path / "wide.csv").write_bytes("id,to,n\n1,ann,x\n".encode("utf-16-le"))
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"id,to,n\n1,ann,x\n")[:-12])

    def load(*names):
        code, output = call(
            "pipeline", "load", "--queue", "email", *(str(tmp_path / name) for name in names)
        )
        assert code == 2
        return output.err

    same = "does not have the columns of the first file in their order (id, to, n)"
    assert f"other.csv {same}" in " ".join(load("one.csv", "other.csv").split())
    assert f"longer.csv {same}" in " ".join(load("one.csv", "longer.csv").split())
    assert "several columns 'to'" in load("twice.csv")
    assert "column 1 of the CSV has no name" in load("nameless.csv")
    assert "the file is empty" in load("empty.csv")
    assert "latin 1.csv is not UTF-8" in load("one.csv", "latin 1.csv")
    assert "wide.csv is not UTF-8" in load("wide.csv")
    assert "open.csv has a quote that is not closed" in load("one.csv", "open.csv")
    assert "cut.csv.gz" in load("cut.csv.gz")
    assert "a colon in their names: rename it" in load("T10:00.csv")
    assert "begin with '_': rename it" in load("_hidden.csv")
    assert "Spark takes this name for a pattern" in load("one[1].csv")
    assert sum(queue.counts().values()) == 0


def test_parquet_of_pandas_has_times_in_nanoseconds(call, queue, tmp_path):
    half_past_one = 1_792_891_800_000_000_000

    def load(name, more=0):
        times = [half_past_one, None, half_past_one + more]
        columns = {
            "id": ["a", "b", "c"],
            "the.local": pyarrow.array(times, pyarrow.timestamp("ns")),
            "instant": pyarrow.array(times, pyarrow.timestamp("ns", "Europe/Berlin")),
        }
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / name)
        return call("pipeline", "load", str(tmp_path / name), "--queue", "email")

    code, output = load("finer.parquet", more=7)

    assert code == 2
    assert "finer.parquet: column 'the.local'" in " ".join(output.err.split())

    assert load("exact.parquet")[0] == 0
    assert [queue.status(id).payload for id in ("a", "b")] == [
        {"the.local": "2026-10-25T01:30:00", "instant": "2026-10-25T01:30:00Z"},
        {"the.local": None, "instant": None},
    ]


def test_what_cannot_be_loaded_is_said_before_anything_runs(call, tmp_path):
    (tmp_path / "x.jsonl").write_text("1\n")
    file = str(tmp_path / "x.jsonl")
    (tmp_path / "pretty.json").write_text('[\n  {"a": 1},\n  {"a": 2}\n]\n')
    load = ("pipeline", "load", "--queue", "email")

    assert "one value in each line" in call(*load, str(tmp_path / "pretty.json"))[1].err
    assert "no such file" in call(*load, str(tmp_path / "nowhere.json"))[1].err
    assert "add --format" in call(*load, str(tmp_path / "x.txt"))[1].err
    assert "did you mean 'priority'" in call(*load, file, "--set", "prioritty=1")[1].err
    assert "write NAME=SQL" in call(*load, file, "--set", "priority")[1].err
    assert "invalid --set" in call(*load, file, "--set", "priority=nothing")[1].err
    assert "which queue? Add --queue NAME, or a col" in call("pipeline", "load", file)[1].err


def test_what_is_not_json_is_base64_as_text(spark):
    rows = [
        ("json", '{"to": "Zoë"}'.encode(), b"[1]"),
        ("json", b"1", b"\x05"),
        ("msgpack", b"\x81\xa1n\x01", None),
    ]
    table = spark.createDataFrame(rows, "codec string, payload binary, result binary")

    assert [tuple(row)[1:] for row in payloads_as_text(table).collect()] == [
        ('{"to": "Zoë"}', "[1]"),
        ("1", '{"base64":"BQ=="}'),
        ('{"base64":"gaFuAQ=="}', None),
    ]


def lines_in(folder):
    return [line for part in folder.glob("*.json") for line in part.read_text().splitlines()]


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_an_export_of_which_files_are_gone_is_no_success(spark, tmp_path, format):
    """Spark ends well if somebody removes what a task has written before all have."""
    path = tmp_path / "_new-x"
    rows = spark.range(4, numPartitions=2).selectExpr("'a\\r\\nb' as text")
    rows.write.format(format).save(str(path))
    require_all_rows(rows, str(path), format, 4)

    for number, file in enumerate(path.glob("part-*")):
        file.unlink()
        with pytest.raises(ConfigError, match=f"{2 - 2 * number} rows"):
            require_all_rows(rows, str(path), format, 4)


def test_export_and_redrive_by_a_condition(call, queue, tmp_path):
    for number in range(4):
        queue.enqueue({"n": number}, id=str(number))
    for job in queue.claim(4):
        queue.bury(job, ValueError("no"))
    where = ("--where", "get_json_object(payload, '$.n') < 2 and error_type = 'ValueError'")

    code, output = call("pipeline", "export", "dlq", str(tmp_path / "out"), "--format=json", *where)

    assert (code, "2 rows" in output.out) == (0, True)
    payloads = sorted(json.loads(line)["payload"] for line in lines_in(tmp_path / "out"))
    assert payloads == ['{"n":0}', '{"n":1}']
    code, output = call("pipeline", "export", "dlq", str(tmp_path / "out"))
    assert (code, "add --overwrite" in output.err) == (2, True)
    over = ("pipeline", "export", "dlq", str(tmp_path / "out"), "--format=json", "--overwrite")
    assert call(*over, "--where", "raise_error('no') is null")[0] == 2
    assert len(lines_in(tmp_path / "out")) == 2
    assert (call(*over)[0], len(lines_in(tmp_path / "out"))) == (0, 4)
    code, output = call("pipeline", "export", "dlq", str(tmp_path / "none"), "--where", "false")
    assert (code, "0 rows" in output.out) == (0, True)

    redrive = ("pipeline", "redrive", *where, "--set", "priority=9", "--rate", "0.01")
    code, output = call(*redrive, "--dry-run")

    assert "2 jobs would be redriven." in output.out
    assert queue.counts()[State.FAILED] == 4
    code, output = call(*redrive[:4], "--set", "priority=if(id = '0', 99, 9)", "--dry-run")
    assert "1 job would be redriven, 1 rejected." in output.out
    assert "priority" in output.err

    code, output = call(*redrive[:4], "--set", "payload=if(id = '0', null, payload)", "--dry-run")
    assert "1 job would be redriven, 1 rejected." in output.out
    assert "--set payload=… is NULL" in output.err

    code, output = call(*redrive)

    assert (code, "2 jobs redriven" in output.out) == (0, True)
    assert queue.counts()[State.SCHEDULED] == 2
    assert queue.status("0").record.priority == 9
    assert "0 jobs redriven" in call(*redrive)[1].out
    code, output = call("pipeline", "redrive", "--where", "assert_true(id = 'x') is null")
    assert (code, "Spark rejected it" in output.err) == (2, True)
    assert "bug" not in output.err
    assert "invalid --where" in call("pipeline", "redrive", "--where", "nothing = 1")[1].err
    assert (
        "only payload and priority of a failed job can be set"
        in call(*redrive, "--set", "id='x'")[1].err
    )
    assert "must be a whole number" in call(*redrive[:4], "--set", "priority=9.7")[1].err
    assert "number of jobs each second" in call(*redrive[:4], "--rate", "inf")[1].err
