"""The server kills the connections on which idle workers are notified of new jobs."""

from __future__ import annotations

from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills import listener_kills
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.servers.redis import RedisServer


def kill_listeners(options: DrillOptions) -> Report:
    """After each kill, the worker is still notified of the next job at once."""
    return _kill_listeners(options, "")


def kill_listeners_no_notifications(options: DrillOptions) -> Report:
    """The control: a worker without notifications is slow."""
    return _kill_listeners(options, "no notifications")


def _kill_listeners(options: DrillOptions, variant: str) -> Report:
    with RedisServer() as server, server.client() as client:
        return listener_kills.kill_listeners(
            options,
            server.url,
            "CLIENT KILL TYPE pubsub",
            lambda: client.client_kill_filter(_type="pubsub", skipme=True),
            variant=variant,
        )
