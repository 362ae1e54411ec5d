from __future__ import annotations

import os
import re
import shlex
import signal
import time

import pytest

from ackline.demo.books import Bookkeeper
from ackline.events import Act, Event
from ackline.job import QueueKey, State


def running(name: str) -> list[str]:
    """Processes whose command line has this text."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                line = file.read().replace("\0", " ")
            with open(f"/proc/{pid}/environ") as file:
                line += file.read()
        except (OSError, UnicodeDecodeError):
            continue
        if name in line and "ackline.demo.handlers" in line:
            found.append(line)
    return found


def test_the_demo_proves_that_nothing_is_lost(start, cli, place):
    began = time.monotonic()
    answer = start("demo", "--seconds", "8").end(timeout=40)
    assert time.monotonic() - began < 8 + 12
    assert answer.code == 0, answer.out + answer.err
    assert "Every job is accounted for." in answer.out
    numbers = re.search(
        r"enqueued ([\d,]+) = completed (\d+) \+ failed \(DLQ\) (\d+) \+ cancelled (\d+)"
        r" \+ still waiting (\d+)",
        answer.out,
    )
    assert numbers is not None, answer.out
    enqueued, *parts = (int(number.replace(",", "")) for number in numbers.groups())
    assert enqueued == sum(parts) > 300
    assert "kill -9" in answer.out
    assert "freed after" in answer.out
    assert running(str(place)) == []
    commands = re.findall(r"^  ackline (.+)$", answer.out, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        assert cli(*shlex.split(command)).code == 0, command


def test_ctrl_c_ends_it_cleanly_and_it_can_be_run_again(start, place):
    first = start("demo", "--seconds", "60")
    lines = iter(first.process.stdout)
    assert any("reports scheduled" in line for line in lines)
    second = start("demo", "--seconds", "2")
    assert "demo-2.db" in next(iter(second.process.stdout))
    answer = first.end(signal.SIGINT)
    assert answer.code == 130
    assert "Traceback" not in answer.err
    assert "Every job is accounted for." in answer.out
    assert second.end(timeout=30).code == 0
    assert start("demo", "--seconds", "1", "--json").end(timeout=30).document["balanced"]
    assert running(str(place)) == []


def test_too_short_a_story(cli):
    assert cli("demo", "--seconds", "0.2").code == 2


# --- the books themselves must be able to fail ---


class Nothing:
    """A store that holds what it is told."""

    def __init__(self, **counts: int) -> None:
        self._counts = counts

    def __iter__(self):
        return iter(["q"])

    def __getitem__(self, _name):
        return self

    def counts(self):
        return {state: self._counts.get(state, 0) for state in State}


def event(act: Act, id: str, to: State | None, source: State | None = None, worker="") -> Event:
    return Event(
        "1.1", 1.0, QueueKey("default", "q"), act, id, "k", source, to, 1, 1, worker, "", ""
    )


def balance(events, accepted, **counts):
    keeper = Bookkeeper({})
    keeper.read(events)
    receipts = {("q", id) for id in accepted}
    return keeper.close(receipts, receipts, Nothing(**counts))  # type: ignore[arg-type]


ENQUEUED = event(Act.ENQUEUE, "a", State.QUEUED)
DONE = event(Act.COMPLETE, "a", State.COMPLETED)


def test_books_balance():
    assert balance([ENQUEUED, DONE], "a", completed=1).balanced
    assert balance([ENQUEUED], "a", queued=1).balanced


@pytest.mark.parametrize(
    ("events", "accepted", "counts"),
    [
        ([], "a", {}),
        ([ENQUEUED, event(Act.PURGE, "a", None)], "a", {}),
        ([ENQUEUED], "", {"queued": 1}),
        ([ENQUEUED, DONE, DONE], "a", {"completed": 1}),
        ([ENQUEUED, DONE], "a", {"queued": 1}),
    ],
    ids=["lost", "deleted", "unexpected", "completed twice", "the store disagrees"],
)
def test_books_that_do_not_balance(events, accepted, counts):
    assert not balance(events, accepted, **counts).balanced
