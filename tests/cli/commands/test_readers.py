"""`ackline events --reader` and `ackline readers`; and the messages when events were dropped."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from tests.harness.faults.processes import wait_for

import ackline
from ackline.core.clock import SystemClock
from ackline.queue.journal.saved_cursor import ALL_QUEUES, ReaderCursor

DAY = 86400.0


@pytest.fixture
def email(queues):
    queue = queues["email"]
    for id in "abc":
        queue.enqueue(1, id=id)
    return queue


def trim(queue: ackline.Queue[Any, Any], most: int = 0) -> None:
    """Trim the journal to `most` events, even those that readers need."""
    queue.configure(max_journal=most)
    queue.store.prune(queue.key, 100)


def read(cli, *more: str) -> list[str]:
    return [event["id"] for event in cli("events", "email", "--json", *more).documents]


# --- events ---


def test_a_reader_sees_each_event_once(cli, email):
    assert read(cli, "--reader", "audit") == ["a", "b", "c"]
    assert read(cli, "--reader", "audit") == []
    email.enqueue(1, id="d")
    assert read(cli, "--reader", "audit") == ["d"]
    assert read(cli, "--reader", "other") == ["a", "b", "c", "d"]


def test_filtered_events_count_as_read(cli, email):
    assert read(cli, "--reader", "audit", "--act", "claim") == []
    assert read(cli, "--reader", "audit") == []


def test_a_readers_cursor_can_be_set_back(cli, email):
    first = next(email.events()).cursor
    assert read(cli, "--reader", "audit") == ["a", "b", "c"]
    assert read(cli, "--reader", "audit", "--after", first) == ["b", "c"]
    assert read(cli, "--reader", "audit") == []


@pytest.mark.parametrize("more", [["--reader", "audit"], ["email", "--reader", "a", "--last", "1"]])
def test_a_reader_needs_one_queue_and_cannot_use_last(cli, email, more):
    answer = cli("events", *more)
    assert answer.code == 2
    assert "--reader needs one queue" in answer.err


def test_follow_saves_the_cursor_as_it_prints(start, cli, email):
    process = start("events", "email", "--reader", "audit", "--follow", "--json")
    lines = process.process.stdout
    assert [json.loads(lines.readline())["id"] for _ in range(3)] == ["a", "b", "c"]
    email.enqueue(1, id="d")
    seen = json.loads(lines.readline())
    assert seen["id"] == "d"
    wait_for("the save", lambda: email.readers()[0].cursor == seen["cursor"])
    assert process.end(signal.SIGINT).code == 130
    email.enqueue(1, id="e")
    assert read(cli, "--reader", "audit") == ["e"]


@pytest.mark.parametrize("queue", [["email"], []])
def test_a_cursor_before_dropped_events(cli, email, queue):
    first = next(email.events()).cursor
    trim(email, 2)
    answer = cli("events", *queue, "--after", first)
    assert (answer.code, answer.out) == (1, "")
    assert f"cursor {first}" in answer.err
    cursor = answer.err.rsplit("--after ", 1)[1].strip()
    found = cli("events", *queue, "--after", cursor, "--json").documents
    assert [event["id"] for event in found] == ["c", ""]


def test_a_reader_behind_dropped_events(cli, email):
    reader = email.reader("audit")
    reader.read(1)
    reader.save()
    trim(email, 2)
    answer = cli("events", "email", "--reader", "audit")
    assert answer.code == 1
    cursor = answer.err.rsplit("--after ", 1)[1].strip()
    assert read(cli, "--reader", "audit", "--after", cursor) == ["c", ""]
    assert read(cli, "--reader", "audit") == []


def test_all_kept_events_are_printed_in_order(cli, queues, email, monkeypatch):
    """An older event of a quiet queue does not make what a busy one dropped a gap."""
    monkeypatch.setattr("ackline.cli.commands.events.PAGE", 1)
    for id in "xyz":
        queues["busy"].enqueue(1, id=id)
    trim(queues["busy"], 2)
    found = cli("events", "--json").documents
    assert [event["id"] for event in found] == ["a", "b", "c", "z", ""]
    assert cli("events", "--json", "--last", "2").documents == found[-2:]


@pytest.mark.parametrize("more", [[], ["email"], ["email", "--reader", "audit"]])
def test_events_dropped_while_reading_are_noticed(cli, email, monkeypatch, more):
    def show_slowly(event: ackline.Event) -> dict[str, str]:
        if event.id == "a":
            trim(email, 2)
        return {"id": event.id}

    monkeypatch.setattr("ackline.cli.commands.events.PAGE", 1)
    monkeypatch.setattr("ackline.cli.commands.events.event_document", show_slowly)
    answer = cli("events", *more, "--json")
    assert answer.code == 0
    assert [event["id"] for event in answer.documents] == ["a", "c", ""]
    assert answer.err.count("some events are missing here") == 1


# --- readers ---


def test_readers_are_listed(cli, queues, email):
    assert "No readers" in cli("readers").out
    reader = email.reader("audit")
    reader.read(1)
    reader.save()
    queues["other"].reader("other audit").read()
    queues["other"].enqueue(1)

    found = cli("readers", "--json").document["readers"]
    assert [(one["queue"], one["name"], one["behind"], one["lost"]) for one in found] == [
        ("email", "audit", 2, False),
        ("other", "other audit", 1, False),
    ]
    assert found[0]["cursor"] == reader.cursor
    assert "audit" in cli("readers", "email").out
    assert "other audit" not in cli("readers", "email").out


def test_a_reader_that_lost_events_is_marked(cli, email):
    email.reader("audit").read(1)
    trim(email, 1)
    assert "some lost" in cli("readers").out
    assert cli("readers", "--json").document["readers"][0]["lost"] is True


def test_a_reader_is_forgotten(cli, email):
    email.reader("audit").read()
    assert cli("readers", "email", "--forget", "audit").code == 0
    assert email.readers() == []
    assert cli("readers", "email", "--forget", "audit").code == 1
    assert cli("readers", "--forget", "audit").code == 2
    email.reader("audit").read()
    assert cli("readers", "email", "--forget", "audit", "--json").document == {"forgotten": "audit"}


def reads_every_queue(queues, cursor: str = "0.0") -> None:
    """As the lake does."""
    ReaderCursor(queues.store, queues.tenant, ALL_QUEUES, "lake").load(lambda: cursor)


def test_a_reader_of_all_queues_is_listed_once(cli, queues, email):
    reads_every_queue(queues)
    seen = email.reader("lake")
    seen.read(1)
    seen.save()
    for queue in ("new", "newer"):
        queues[queue].enqueue(1)

    found = cli("readers", "--json").document["readers"]

    cursors = [(one["queue"], one["name"], one["every_queue"], one["behind"]) for one in found]
    assert cursors == [("email", "lake", False, 2), (None, "lake", True, 2)]
    assert "all others" in cli("readers").out


def test_a_reader_of_all_queues_is_listed_with_each_that_it_has_not_seen(cli, queues, email):
    reads_every_queue(queues)
    queues["seen"].reader("lake").read()
    queues["seen"].enqueue(1)

    [of_email] = cli("readers", "email", "--json").document["readers"]
    [of_seen] = cli("readers", "seen", "--json").document["readers"]

    assert (of_email["queue"], of_email["behind"]) == (None, 3)
    assert (of_seen["queue"], of_seen["behind"]) == ("seen", 1)


def test_a_reader_of_all_queues_is_listed_though_there_are_none(cli, queues):
    reads_every_queue(queues)

    [found] = cli("readers", "--json").document["readers"]

    assert (found["name"], found["behind"], found["lost"]) == ("lake", 0, False)


def test_a_reader_of_all_queues_is_forgotten_in_each(cli, queues, email):
    reads_every_queue(queues)
    email.reader("lake").read()
    email.reader("audit").read()
    gone = queues["gone"]
    gone.reader("lake").read()
    gone.enqueue(1)
    gone.drop(force=True)

    queues["unseen"].enqueue(1)

    answer = cli("readers", "unseen", "--forget", "lake")
    assert answer.code == 1
    assert "ackline readers --forget lake" in answer.err
    assert cli("readers", "--forget", "lake").out == "lake forgotten\n"

    assert [reader.name for reader in email.readers()] == ["audit"]
    assert gone.readers() == []
    answer = cli("readers", "--forget", "lake")
    assert answer.code == 2
    assert "ackline readers QUEUE --forget NAME" in answer.err


def test_readers_are_not_listed_as_keys(cli, email):
    email.reader("audit").read()
    assert cli("keys").out == "no keys\n"
    answer = cli("keys", "ackline", "readers", "email", "audit", "--delete")
    assert answer.code == 2
    assert "are reserved" in answer.err
    assert len(email.readers()) == 1


# --- doctor ---


class Past(SystemClock):
    def now(self) -> float:
        return super().now() - 2 * DAY


def test_doctor_finds_readers_that_are_behind(cli, workdir):
    with ackline.open("sqlite:///ackline.db", clock=Past()) as past:
        past["email"].reader("audit").read()
        past["email"].enqueue(1)
        idle = past["email"].reader("idle")
        idle.read()
        idle.save()
    findings = cli("doctor", "--json").document["findings"]
    [late] = [finding for finding in findings if finding["message"].startswith("reader ")]
    assert late["severity"] == "warning"
    assert "audit is 1 event behind, and last saved 2.0 d ago" in late["message"]
    assert "ackline readers email --forget audit" in late["advice"]


def test_doctor_finds_readers_that_lost_events(cli, email):
    email.reader("audit").read(1)
    trim(email, 1)
    assert "reader audit has lost events" in cli("doctor").out


def test_doctor_finds_readers_of_all_queues_that_are_behind(cli, workdir):
    with ackline.open("sqlite:///ackline.db", clock=Past()) as past:
        reads_every_queue(past)
        past["email"].enqueue(1)
    findings = cli("doctor", "--json").document["findings"]
    [late] = [finding for finding in findings if finding["message"].startswith("reader ")]
    assert "lake is 1 event behind, and last saved 2.0 d ago" in late["message"]
    assert late["advice"].endswith(": ackline readers --forget lake")


def test_doctor_ignores_readers_of_new_events(cli, workdir):
    with ackline.open("sqlite:///ackline.db", clock=Past()) as past:
        past["email"].reader("audit").read()
    with ackline.open("sqlite:///ackline.db") as now:
        now["email"].enqueue(1)
    assert "audit" not in cli("doctor").out
