from __future__ import annotations

import json

import pytest

import ackline.stores.sqlite
from ackline import State
from ackline.core.retry import Backoff


def test_a_job_is_stored_with_all_its_options(cli, queues):
    answer = cli(
        *("enqueue", "email", '{"to": "ann"}', "--id", "e1", "--kind", "welcome"),
        *("--priority", "9", "--max-attempts", "4", "--backoff", "1,5,30", "--lease", "1m"),
        *("--timeout", "20s", "--result-ttl", "2h", "--group", "ann", "--header", "a=b=c"),
    )
    assert (answer.code, answer.out) == (0, "queued e1\n")
    assert "ackline.db" in answer.err
    record = queues["email"].status("e1").record
    assert (record.kind, record.priority, record.payload) == ("welcome", 9, b'{"to":"ann"}')
    options = record.options
    assert (options.lease, options.timeout, options.result_ttl) == (60, 20, 7200)
    assert (options.max_attempts, options.group, options.headers) == (4, "ann", {"a": "b=c"})
    assert options.backoff.delays == (1, 5, 30)


def test_json_is_one_document_and_nothing_else(cli):
    answer = cli("enqueue", "email", "1", "--id", "e1", "--json")
    assert answer.document == {"answer": "queued", "queue": "email", "id": "e1", "state": "queued"}
    assert answer.err == ""


def test_options_may_stand_before_the_command(cli):
    answer = cli("--json", "--store", "other.db", "--tenant", "acme", "enqueue", "q", "1")
    assert answer.document["state"] == "queued"
    assert cli("queues", "--json", "--store", "sqlite:///other.db").document == {"queues": []}
    found = cli("queues", "--json", "--store", "other.db", "--tenant", "acme").document
    assert found["queues"][0]["tenant"] == "acme"


def test_the_store_may_come_from_the_environment(cli, monkeypatch, workdir):
    monkeypatch.setenv("ACKLINE_STORE", "sqlite:///env.db")
    assert "env.db" in cli("enqueue", "q", "1").err
    assert not (workdir / "ackline.db").exists()


def test_a_duplicate_is_reported(cli):
    cli("enqueue", "email", "1", "--id", "e1")
    answer = cli("enqueue", "email", "2", "--id", "e1")
    assert (answer.code, answer.out) == (
        0,
        "duplicate: e1 is already queued, nothing was stored\n",
    )


def test_a_completed_job_answers_with_its_result(cli, queues):
    cli("enqueue", "email", "1", "--id", "e1")
    [job] = queues["email"].claim()
    queues["email"].complete(job, {"sent": True})
    assert '"sent": true' in cli("enqueue", "email", "1", "--id", "e1").out
    waited = cli("enqueue", "email", "1", "--id", "e1", "--wait", "5", "--json").document
    assert waited == {"id": "e1", "state": "completed", "result": {"sent": True}}


def test_a_wait_that_times_out_leaves_the_job_queued(cli, queues):
    answer = cli("enqueue", "email", "1", "--id", "e1", "--wait", "50ms")
    assert answer.code == 1
    assert "not finished after" in answer.err
    assert queues["email"].status("e1").state is State.QUEUED


@pytest.mark.parametrize("when", [("--delay", "5m"), ("--run-at", "2100-01-01T08:00")])
def test_a_delayed_job_is_scheduled(cli, when):
    assert cli("enqueue", "email", "1", "--id", "e1", *when).out == "scheduled e1\n"


@pytest.mark.parametrize(
    ("payload", "hint"),
    [
        ("hello", "'\"hello\"'"),
        ("{to: 1}", "double quotes"),
        ("hello world", "double quotes inside single ones"),
    ],
)
def test_a_payload_that_is_not_json_is_explained(cli, payload, hint, workdir):
    answer = cli("enqueue", "email", payload)
    assert (answer.code, answer.out) == (2, "")
    assert hint in answer.err
    assert len(answer.err.splitlines()) <= 3
    assert cli("queues", "--json").document == {"queues": []}


@pytest.mark.parametrize(
    "wrong",
    [
        ("--priority", "12"),
        ("--delay", "10x"),
        ("--run-at", "tomorrow"),
        ("--backoff", "often"),
        ("--header", "novalue"),
        ("--max-attempts", "0"),
        ("--lease", "0"),
        ("--delay", "1", "--run-at", "2100-01-01T08:00"),
        ("--full",),
        ("--from", "-"),
        ("--store", "nowhere://x"),
    ],
)
def test_a_wrong_value_is_a_usage_error(cli, wrong):
    answer = cli("enqueue", "email", "1", *wrong)
    assert answer.code == 2
    assert "Traceback" not in answer.err


def test_without_a_payload_it_asks_for_one(cli):
    answer = cli("enqueue", "email")
    assert answer.code == 2
    assert "--from FILE" in answer.err


# --- JSON lines ---


def test_lines_become_jobs(cli, queues, workdir):
    (workdir / "jobs.jsonl").write_text('{"n": 1}\n\n"two"\nnull\n')
    answer = cli("enqueue", "email", "--from", "jobs.jsonl", "--kind", "k", "--json")
    assert answer.document["enqueued"] == 3
    assert {job.kind for job in queues["email"].jobs().jobs} == {"k"}


def test_full_lines_have_all_options(cli, queues):
    lines = [
        {"id": "a", "payload": {"n": 1}, "priority": 9, "backoff": [1, 2], "headers": {"x": "y"}},
        {"id": "b", "payload": None, "run_at": "2100-01-01T00:00:00Z", "backoff": "fixed:3"},
        {"id": "a", "payload": 2},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    answer = cli("enqueue", "email", "-", "--full", "--priority", "1", "--json", stdin=text)
    assert (answer.code, answer.document["enqueued"], answer.document["duplicates"]) == (0, 2, 1)
    a, b = (queues["email"].status(id).record for id in "ab")
    assert (a.priority, b.priority) == (9, 1)
    assert b.options.backoff == Backoff("fixed", base=3, cap=b.options.backoff.cap)
    assert b.state is State.SCHEDULED


def test_a_bad_line_stops_with_its_number(cli):
    answer = cli("enqueue", "email", "--from", "-", stdin="1\n2\nthree\n4\n")
    assert answer.code == 1
    assert "stdin line 3" in answer.err
    assert "2 jobs of 3 lines enqueued" in answer.err


def test_keep_going_skips_bad_lines(cli):
    answer = cli("enqueue", "email", "-", "--keep-going", stdin="1\n2\nthree\n4\n[\n")
    assert answer.code == 1
    assert answer.out.startswith("3 jobs enqueued")
    assert "line 3" in answer.err
    assert "line 5" in answer.err


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("1", "--full expects an object"),
        ('{"id": "a"}', "no payload; write"),
        ('{"payload": 1, "prio": 2}', "unknown field `prio`"),
        ('{"payload": 1, "priority": 99}', "priority must be"),
        ('{"payload": 1, "backoff": "often"}', "is not a backoff"),
        ('{"payload": 1, "run_at": "soon"}', "is not a time"),
        ('{"payload": 1, "delay": "5"}', "delay must be"),
        ('{"payload": 1, "backoff": {"a": 1}}', "backoff: Object missing required field `shape`"),
    ],
)
def test_a_bad_full_line_says_why(cli, line, why):
    answer = cli("enqueue", "email", "-", "--full", stdin=line + "\n")
    assert answer.code == 1
    assert "stdin line 1" in answer.err
    assert why in answer.err


def test_a_byte_order_mark_is_skipped(cli):
    assert cli("enqueue", "email", "-", "--json", stdin="\ufeff1\n").document["enqueued"] == 1


def test_a_full_store_reports_how_many_were_stored(cli, monkeypatch):
    stored = ackline.stores.sqlite.SqliteStore.enqueue
    steps = iter([stored])

    def until_full(*arguments):
        for step in steps:
            return step(*arguments)
        raise ackline.StoreFull("the disk is full")

    monkeypatch.setattr(ackline.stores.sqlite.SqliteStore, "enqueue", until_full)

    answer = cli("enqueue", "email", "-", stdin="1\n" * 1500)

    assert answer.code == 3
    assert "1,000 jobs of 1,500 lines enqueued" in answer.err
    assert "the disk is full" in answer.err


def test_a_missing_file_is_a_usage_error(cli):
    answer = cli("enqueue", "email", "--from", "nope.jsonl")
    assert answer.code == 2
    assert "nope.jsonl" in answer.err


def test_many_lines_are_enqueued_in_batches(cli, queues):
    text = "".join(f"{n}\n" for n in range(2500))
    assert cli("enqueue", "email", "-", "--json", stdin=text).document["enqueued"] == 2500
    assert queues["email"].counts()[State.QUEUED] == 2500


def test_exported_jobs_can_be_enqueued_again(cli, workdir, queues):
    email = queues["email"]
    email.enqueue({"n": 1.5}, id="a", kind="x", priority=9, backoff=[1, 5], headers={"h": "1"})
    email.enqueue(None, id="later", delay=3600, group="g")
    queues.queue("email", serde="msgpack").enqueue({"raw": b"\x00"}, id="packed")
    email.enqueue(2, id="done")
    email.purge(ids=["done"])
    (workdir / "jobs.jsonl").write_text(cli("export", "email").out)

    summary = cli("enqueue", "copy", "--from", "jobs.jsonl", "--full", "--json").document

    assert (summary["enqueued"], summary["rejected"]) == (3, 0)
    for id in ("a", "later", "packed"):
        one, other = (queues[name].status(id).record for name in ("email", "copy"))
        for part in ("kind", "payload", "priority", "run_at", "options"):
            assert getattr(other, part) == getattr(one, part)


def test_export_filters_by_state_and_kind(cli, queues):
    queues["email"].enqueue(1, id="a", kind="x")
    queues["email"].enqueue(1, id="b", kind="y", delay=60)

    def ids(*options):
        return [json.loads(line)["id"] for line in cli("export", "email", *options).out.split()]

    assert ids() == ["b", "a"]
    assert ids("--state", "queued") == ["a"]
    assert ids("--kind", "y") == ["b"]
