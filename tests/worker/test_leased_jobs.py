"""What decides how a job ends works in a forked child, too."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from ackline.worker.leased_jobs import LeasedJob
from tests.slow_handler import SOON

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


class Deciding(LeasedJob):
    """It is in the middle of being decided how this one ends."""

    __slots__ = ("go_on", "started")

    @property
    def lost(self) -> bool:
        self.started.set()
        return not self.go_on.wait(SOON)

    @lost.setter
    def lost(self, value: bool) -> None:
        self.started, self.go_on = threading.Event(), threading.Event()


def test_a_forked_child_can_settle_while_its_parent_was_settling(queue):
    queue.handler("default")(lambda job: None)
    queue.enqueue_many([1, 2])
    first, second = (job.record for job in queue.claim(2))
    handler, policy = queue.handlers["default"], queue.policies.of(first)
    deciding, other = (
        Deciding(queue, first, handler, policy),
        LeasedJob(queue, second, handler, policy),
    )
    thread = threading.Thread(target=deciding.mark_settling)
    thread.start()
    assert deciding.started.wait(SOON)

    child = os.fork()
    if child == 0:
        signal.alarm(2)
        os._exit(0 if other.mark_settling() else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    deciding.go_on.set()
    thread.join()

    assert code == 0
