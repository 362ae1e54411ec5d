"""What one enqueue costs, counted: most producers enqueue one job at a time."""

from __future__ import annotations

from typing import Any

import pytest

from ackline import Queue
from ackline.stores.postgres.pipeline import Exchange


def test_it_sends_few_statements_in_one_message(
    work: Queue[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And none of them is answered by itself: the server is woken once."""
    for n in range(3):  # the queue and the line are made, and the statements prepared
        work.enqueue(n)
    sent: list[str] = []
    send, flush = Exchange.send, Exchange._flush

    def noted(exchange: Exchange, name: str, *values: Any) -> Any:
        sent.append(name)
        return send(exchange, name, *values)

    def flushed(exchange: Exchange) -> None:
        sent.append("→")
        flush(exchange)

    monkeypatch.setattr(Exchange, "send", noted)
    monkeypatch.setattr(Exchange, "_flush", flushed)

    work.enqueue(1)

    assert sent == ["begin_write", "add_one", "tell", "commit", "notify", "→"]
