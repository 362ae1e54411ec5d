"""What decides how a job ends works in a forked child, too."""

from __future__ import annotations

import os
import threading

from ackline.worker import held


def free_in_child() -> bool:
    """Whether a child that is forked now can take the lock."""
    child = os.fork()
    if child == 0:
        os._exit(0 if held._deciding.acquire(timeout=0.2) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_lock_that_the_parent_holds_is_free_in_its_child(monkeypatch):
    with held._deciding:
        assert free_in_child()

    # The control: a lock that nobody renews.
    class Unknown:
        _deciding = threading.Lock()

    with Unknown._deciding:
        monkeypatch.setattr("tests.worker.test_held.held", Unknown)
        assert not free_in_child()
