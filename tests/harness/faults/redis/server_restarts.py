"""The server is killed and restarted, with a log that keeps everything, most or nothing."""

from __future__ import annotations

from tests.harness.faults.checks.allowed_loss import may_lose
from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.faults.drills.server_restarts import kill_server
from tests.harness.faults.drills.workload_run import DRAIN_TIMEOUT
from tests.harness.servers.redis import Persistence, RedisServer

NOTES: dict[Persistence, str] = {"everysec": may_lose(2.0)}
"""What a kill may lose; nothing if it is not listed."""


def kill_always(options: DrillOptions) -> Report:
    """SIGKILL with `appendfsync always`: nothing that was answered is lost."""
    return _kill(options, "always")


def kill_everysec(options: DrillOptions) -> Report:
    """SIGKILL with `appendfsync everysec`: at most the last two seconds, and it is measured."""
    return _kill(options, "everysec")


def kill_no_log(options: DrillOptions) -> Report:
    """SIGKILL with `appendonly no`: the control, which must lose."""
    return _kill(options, "none")


def _kill(options: DrillOptions, persistence: Persistence) -> Report:
    with RedisServer(persistence=persistence) as server:
        return kill_server(
            options,
            server,
            f"a server with {persistence}",
            note=NOTES.get(persistence, ""),
            # The control also loses the settings of its queue: its leases and backoffs are long.
            timeout=3.0 if persistence == "none" else DRAIN_TIMEOUT,
        )
