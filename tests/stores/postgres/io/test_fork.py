"""A process that forks: parent and child hear for themselves."""

import os
import signal
import threading
import time
from collections.abc import Callable

from tests.stores.postgres.actions import put
from tests.stores.postgres.conftest import OpenStore
from tests.stores.postgres.io.test_server_restarts import settle

from ackline.core.job import QueueKey
from ackline.stores.contract import Listener
from ackline.stores.postgres import PostgresStore
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.notify import Notifier

SOON = 3.0


def forked(work: Callable[[], bool]) -> int:
    """Begin something in a child; answers its number."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(2)
    return child


def went_well(child: int) -> bool:
    return os.waitpid(child, 0)[1] == 0


def is_told(store: PostgresStore, listener: Listener, queue: QueueKey, id: str) -> bool:
    settle(listener)
    threading.Timer(0.1, lambda: put(store, queue, id)).start()
    return listener.wait(SOON)


def test_a_forked_child_receives_its_own_notifications(
    store: PostgresStore, wakeups: Notifier, queue: QueueKey
) -> None:
    with wakeups.listen([queue], "ready") as mine:
        settle(mine)

        def work() -> bool:
            with wakeups.listen([queue], "ready") as listener:
                told = is_told(store, listener, queue, "of the child")
                return told and wakeups.connected

        assert went_well(forked(work))
        assert wakeups.connected
        assert is_told(store, mine, queue, "of the parent")


def test_a_listener_inherited_by_a_child_polls(store: PostgresStore, queue: QueueKey) -> None:
    with store.listen([queue], "ready") as listener:
        settle(listener)

        def work() -> bool:
            began = time.monotonic()
            return listener.wait(SOON) and time.monotonic() - began < 1.0

        assert went_well(forked(work))


def test_the_parent_is_still_notified_after_a_child_ends(
    store: PostgresStore, engine: Engine, wakeups: Notifier, queue: QueueKey
) -> None:
    def close() -> bool:
        wakeups.close()
        engine.close()
        return True

    with wakeups.listen([queue], "ready") as listener:
        settle(listener)
        assert went_well(forked(close))

        assert wakeups.connected
        assert is_told(store, listener, queue, "a")


def test_a_parent_can_close_while_its_child_lives(open_store: OpenStore, queue: QueueKey) -> None:
    store = open_store()
    settle(store.listen([queue], "ready"))

    def sleep() -> bool:
        time.sleep(60)
        return True

    child = forked(sleep)
    closing = threading.Thread(target=store.close, daemon=True)
    closing.start()
    closing.join(SOON)
    closed = not closing.is_alive()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)

    assert closed
