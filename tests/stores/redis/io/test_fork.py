"""After a fork, parent and child have connections of their own."""

from __future__ import annotations

import os

from tests.stores.redis.conftest import QUEUE, REQUEST, SOON, drafts

from ackline.stores.redis import RedisStore


def in_child(store: RedisStore, start: int) -> bool:
    """Enqueue in a forked process; whether that succeeded."""
    child = os.fork()
    if child == 0:
        try:
            ids = [receipt.id for receipt in store.enqueue(QUEUE, drafts(5, start=start))]
            os._exit(0 if ids == [f"id{n}" for n in range(start, start + 5)] else 1)
        except BaseException:
            os._exit(2)
    return os.waitpid(child, 0)[1] == 0


def test_a_child_can_use_its_parents_store(store):
    store.enqueue(QUEUE, drafts(5))

    assert in_child(store, 10)
    assert in_child(store, 20)

    assert store.enqueue(QUEUE, drafts(1, start=30))[0].accepted
    assert None not in store.get(QUEUE, ["id0", "id10", "id24", "id30"])


def test_a_childs_end_does_not_break_its_parents_listener(store):
    with store.listen([QUEUE], "ready") as listener:
        store.claim(QUEUE, REQUEST)

        assert in_child(store, 0)

        assert listener.wait(SOON)
