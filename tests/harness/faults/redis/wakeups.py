"""Idle workers lose the connection for their notifications."""

from __future__ import annotations

from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills import wakeups
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.servers.redis import RedisServer


def wake_up(options: DrillOptions) -> Report:
    """The next job after a cut wakes the worker immediately."""
    return _wake_up(options, "")


def wake_up_unnotified(options: DrillOptions) -> Report:
    """The control: a worker without notifications is slow."""
    return _wake_up(options, "no notifications")


def _wake_up(options: DrillOptions, variant: str) -> Report:
    with RedisServer() as server, server.client() as client:
        return wakeups.wake_up(
            options,
            server.url,
            "CLIENT KILL TYPE pubsub",
            lambda: client.client_kill_filter(_type="pubsub", skipme=True),
            variant=variant,
        )
