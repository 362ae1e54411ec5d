"""How soon jobs flow again after a crash of the server, with nobody's help.

`python -m ackline.testing.faults.redis.recovery` prints a table.
"""

from __future__ import annotations

from ackline.testing.faults.server.recovery import print_table
from ackline.testing.servers.redis import RedisServer


def make_server() -> RedisServer:
    """A server that loses nothing."""
    return RedisServer(persistence="always")


if __name__ == "__main__":
    print_table("ackline.testing.faults.redis.recovery", make_server)
