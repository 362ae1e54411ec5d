"""What commands look like in a terminal: ids and numbers are never cut off."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

from ackline.cli.output.queue_tables import WORKER_COLUMNS
from ackline.cli.output.tables import new_table
from ackline.cli.output.text import compact_number
from ackline.core.config import DEFAULT_SETTINGS
from ackline.core.job import QueueKey, State
from ackline.stores.contract import Heartbeat, QueueInfo

LONG = "customer-notifications-eu-west-of-production-and-of-staging"
WIDTHS = [80, 100, 120, 160]


@pytest.fixture
def orders(queues):
    """Ordinary jobs: generated ids, payloads of a hundred characters, one that failed."""
    queue = queues["orders"]
    queue.enqueue({"order": 0}, kind="ship", max_attempts=1)
    [job] = queue.claim()
    queue.fail(job, RuntimeError("the carrier does not answer, " * 4))
    for order in range(2):
        queue.enqueue(
            {"order": order, "items": ["book", "lamp"], "to": "street " * 10}, kind="ship"
        )
    return queue


@pytest.mark.parametrize("columns", WIDTHS)
def test_list_shows_ids_and_states_whole(terminal, orders, columns):
    head, *rows = terminal(columns, "list", "orders")
    assert head.split() == ["id", "state", "kind", "pri", "attempts", "age"]
    for job, row in zip(orders.jobs().jobs, rows, strict=True):
        cells = row.split()
        assert cells[:3] == [job.id, job.state, "ship"]
        assert cells[3:5] == ["5", str(job.attempt)]
        assert re.match(r"\d\S* s ", " ".join(cells[5:]) + " ")
        assert row.endswith("…")
        assert len(row) <= columns


@pytest.mark.parametrize("columns", WIDTHS)
def test_an_id_longer_than_the_terminal_is_wrapped(terminal, queues, columns):
    id = "invoice/" + "0123456789" * 20
    queues["orders"].enqueue({"order": 1}, id=id, kind="ship")
    lines = terminal(columns, "list", "orders")[1:]
    assert "".join(line.split()[0] for line in lines) == id
    assert "queued" in lines[0]


def info_of(name: str, count: int) -> QueueInfo:
    counts = dict.fromkeys(State, 12_345) | {State.QUEUED: count, State.COMPLETED: count}
    return QueueInfo(key=QueueKey("default", name), settings=DEFAULT_SETTINGS, counts=counts)


@pytest.mark.parametrize("columns", WIDTHS)
def test_counts_keep_their_digits_with_a_long_name(terminal, orders, monkeypatch, columns):
    monkeypatch.setattr("ackline.queues.Queues.describe", lambda _: [info_of(LONG, 1_234_567)])
    head, row = terminal(columns, "queues")
    numbers = ["12,345", "1,234,567", "12,345", "12,345", "1,234,567", "12,345", "12,345"]
    assert row.split() == [row.split()[0], *numbers]
    assert row.startswith("customer")
    assert "…" not in head


@pytest.mark.parametrize("columns", WIDTHS)
def test_top_keeps_its_numbers_with_a_long_name(terminal, orders, monkeypatch, columns):
    monkeypatch.setattr("ackline.queues.Queues.describe", lambda _: [info_of(LONG, 1_234_567)])
    monkeypatch.setattr("ackline.cli.commands.top.REFRESH_EVERY", 0.0)
    lines = terminal(columns, "top", "--seconds", "0.01")
    head, row = lines[-4:-2]
    assert "…" not in head
    assert row.split()[1:] == [
        *("12,345", "1.23M", "12,345", "12,345", "1.23M", "12,345", "12,345"),
        *("0.0", "0.0"),
    ]


def test_compact_numbers():
    assert [compact_number(n, 1) for n in (0.04, 99.9, 1234.5)] == ["0.0", "99.9", "1,234"]
    assert [compact_number(n) for n in (0, 999_999, 1_234_567)] == ["0", "999,999", "1.23M"]


@pytest.mark.parametrize("columns", WIDTHS)
def test_doctor_shows_messages_whole_with_a_long_name(terminal, queues, columns):
    queues[LONG].enqueue(1)
    lines = terminal(columns, "doctor")
    texts = [line[len("warning  ") :] for line in lines]
    assert any("start one: ackline worker MODULE:NAME" in text for text in texts)
    assert any("full: an accepted job survives" in text for text in texts)
    name = next(i for i, text in enumerate(texts) if text.startswith("customer"))
    assert "".join(text.split("  ")[0] for text in texts[name : name + 3]).startswith(LONG)


@pytest.mark.parametrize("columns", WIDTHS)
def test_workers_show_their_numbers_whole(terminal, orders, columns):
    kinds = tuple(f"send-reminder-number-{n}" for n in range(20))
    heartbeat = Heartbeat(
        id="worker-7.example.internal:1234567:abcdef",
        host="worker-7.example.internal",
        pid=1234567,
        started_at=0.0,
        concurrency=64,
        kinds=kinds,
        ttl=60.0,
    )
    orders.store.heartbeat(orders.key, heartbeat, [])
    head, *rows = terminal(columns, "workers", "orders")
    assert head.split() == [*WORKER_COLUMNS]
    assert "".join(row.split()[0] for row in rows) == heartbeat.id
    assert re.search(r"alive +.*… +1234567 +0 +64 +\d+ d +\S+ s ago$", rows[0])


@pytest.mark.parametrize("columns", WIDTHS)
def test_show_and_events_truncate_nothing(terminal, orders, columns):
    job = orders.jobs(states=["failed"]).jobs[0]
    shown = terminal(columns, "show", "orders", job.id)
    assert job.id in shown[0]
    reason = "the carrier does not answer,"
    assert " ".join(" ".join(shown).split()).count(reason) >= 8
    assert any(job.id in line for line in terminal(columns, "events", "orders"))


def test_columns_shrink_in_their_order():
    table = new_table(
        "id", "text", "why", shrinkable=[("why", 4), ("text", 4), ("id", 4)], fold=["id"]
    )
    table.add_row("0123456789", "a long text", "and a longer reason")

    def seen(width: int) -> list[str]:
        console = Console(width=width, color_system=None)
        with console.capture() as captured:
            console.print(table)
        return [line.rstrip() for line in captured.get().splitlines()[1:]]

    assert seen(50) == ["0123456789  a long text  and a longer reason"]
    assert seen(36) == ["0123456789  a long text  and a long…"]
    assert seen(24) == ["0123456789  a lon…  and…"]
    assert seen(16) == ["0123  a l…  and…", "4567", "89"]
    assert seen(50) == ["0123456789  a long text  and a longer reason"]
