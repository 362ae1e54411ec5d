"""How soon jobs are processed again after a crash of the server.

`python -m tests.harness.faults.redis.outage_recovery` prints a table.
"""

from __future__ import annotations

from tests.harness.faults.drills.outage_recovery import print_table
from tests.harness.servers.redis import RedisServer


def make_server() -> RedisServer:
    """A server that loses nothing."""
    return RedisServer(persistence="always")


if __name__ == "__main__":
    print_table("tests.harness.faults.redis.outage_recovery", make_server)
