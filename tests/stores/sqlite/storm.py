"""Two threads write while alarms interrupt a third at random moments; exits with 1 if one stops."""

from __future__ import annotations

import logging
import random
import signal
import sys
import threading
import time

from ackline.errors import StoreError
from ackline.job import Draft, QueueKey
from ackline.stores.sqlite import SqliteStore, group_commit

QUEUE = QueueKey("default", "q")
DRAFTS = [Draft("a", "k", b"1")]


def main(path: str) -> None:
    # An interrupt inside the logging module would leave its lock behind.
    logging.disable(logging.CRITICAL)
    group_commit.LOOK_EVERY = 0.05
    store = SqliteStore(path)
    store.open()
    stop, beats = threading.Event(), [0, 0]
    errors: list[BaseException] = []

    def write(index: int) -> None:
        while not stop.is_set():
            try:
                store.enqueue(QUEUE, DRAFTS)
            except StoreError:
                pass
            except BaseException as error:
                errors.append(error)
            beats[index] += 1

    threads = [threading.Thread(target=write, args=(n,), daemon=True) for n in range(2)]
    for thread in threads:
        thread.start()
    interrupts = interrupted(store, 1.5)
    seen = list(beats)
    time.sleep(0.5)
    stop.set()
    for thread in threads:
        thread.join(10)
    assert interrupts > 20, interrupts
    assert errors == []
    assert not any(thread.is_alive() for thread in threads), "a writer is stuck"
    assert all(after > before for after, before in zip(beats, seen, strict=True)), beats
    assert store.enqueue(QUEUE, [Draft("b", "k", b"1")])[0].accepted


def interrupted(store: SqliteStore, seconds: float) -> int:
    """Write while alarms interrupt; answers how many did."""
    armed, interrupts = False, 0

    def on_alarm(*_: object) -> None:
        if armed:
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, on_alarm)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00005, 0.003))
        try:
            armed = True
            # Bounded: the alarm may have come before it was armed.
            for _ in range(100):
                store.enqueue(QUEUE, DRAFTS)
        except KeyboardInterrupt:
            interrupts += 1
        except StoreError:
            pass
        armed = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    return interrupts


if __name__ == "__main__":
    main(sys.argv[1])
