"""What a worker without jobs asks of its store."""

from __future__ import annotations

import time


def test_an_idle_worker_claims_no_more_often_than_it_has_to(queue, start, monkeypatch):
    """Its threads are woken at the same time, and only one of them has to claim."""
    interval = 0.1
    monkeypatch.setattr("ackline.queue.consume.MAX_POLL_INTERVAL", interval)
    queue.handler(print)
    claims, claim = [], queue.store.claim

    def counted(*given):
        claims.append(time.monotonic())
        return claim(*given)

    monkeypatch.setattr(queue.store, "claim", counted)
    start(queue)
    started = time.monotonic()

    time.sleep(20 * interval)

    # The first claim, and one that was half an interval late.
    assert 2 <= len(claims) <= 2 + 1.2 * (time.monotonic() - started) / interval
