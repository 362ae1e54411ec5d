"""`ackline keys`."""

from __future__ import annotations

import ackline


def bury_one(queues: ackline.Queues) -> None:
    queue = queues["pay"]
    queue.enqueue({"order": 7}, id="a", keys_if_undelivered=[["failed", "7"], ["alerts"]])
    queue.bury(queue.claim()[0], "no such card")


def test_keys_of_a_failed_job_are_listed_and_deleted(cli, queues):
    bury_one(queues)
    assert "failed / 7" in cli("keys").out
    assert cli("keys", "failed", "--json").documents == [
        {"key": ["failed", "7"], "value": {"order": 7}, "version": 1}
    ]
    assert cli("keys", "failed", "7", "--delete").code == 0
    assert cli("keys", "failed").out == "no key begins with 'failed'\n"
    assert cli("keys", "failed", "7", "--delete").code == 1
