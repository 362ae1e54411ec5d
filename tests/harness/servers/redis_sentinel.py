"""A private master, its replica, and a sentinel that monitors them."""

from __future__ import annotations

import contextlib
from pathlib import Path

import redis

from tests.harness.servers.ports import HOST
from tests.harness.servers.redis import Persistence, RedisServer
from tests.harness.servers.redis_program import redis_program
from tests.harness.servers.redis_replication import wait_until_synced
from tests.harness.servers.server import ServerGroup

SERVICE = "ackline"
"""The name of the master in the sentinel."""

NOT_READY = ("NOGOODSLAVE", "INPROG")
"""Errors of a sentinel that has no suitable replica yet, or is still in a failover."""

NEVER_DOWN, SOON_DOWN = 60_000, 500
"""Milliseconds without an answer after which the master counts as down; by default so many that a
busy machine does not cause a failover."""

CONFIGURATION = """\
bind {host}
dir {folder}
sentinel monitor {service} {host} {master} 1
sentinel down-after-milliseconds {service} {down_after}
sentinel failover-timeout {service} 3000
sentinel parallel-syncs {service} 1
"""


class Sentinel(RedisServer):
    """The process that watches a master; the program is the same as a server's."""

    def __init__(self, master: RedisServer) -> None:
        super().__init__()
        self._master = master

    def command(self) -> list[str]:
        """The command line that starts it."""
        configuration = str(self._configuration())
        return [str(redis_program()), configuration, "--sentinel", "--port", str(self.port)]

    def master_port(self) -> int:
        """The port of the current master."""
        with self.client() as client:
            _, port = client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", SERVICE)
        return int(port)

    def promote(self) -> bool:
        """Start a failover; False if that is not possible now."""
        with self.client() as client:
            try:
                client.execute_command("SENTINEL FAILOVER", SERVICE)
            except redis.ResponseError as error:
                if any(code in str(error) for code in NOT_READY):
                    return False
                raise
        return True

    def set_down_after(self, milliseconds: int) -> None:
        """Set how long the master must not answer until it counts as down."""
        with self.client() as client:
            client.sentinel_set(SERVICE, "down-after-milliseconds", milliseconds)

    def sees_replica(self) -> bool:
        """Whether there is a replica that it would promote."""
        with self.client() as client:
            replicas = client.sentinel_slaves(SERVICE)
        return any(each["master-link-status"] == "ok" for each in replicas)

    def _configuration(self) -> Path:
        # The sentinel keeps its state in this file, which a restart must not overwrite.
        path = self.folder / "sentinel.conf"
        if not path.exists():
            path.write_text(
                CONFIGURATION.format(
                    host=HOST,
                    folder=self.folder,
                    service=SERVICE,
                    master=self._master.port,
                    down_after=NEVER_DOWN,
                )
            )
        return path


class RedisSentinel(ServerGroup):
    """A master, a replica and their sentinel; `promote` swaps their roles.

    >>> with RedisSentinel() as servers:  # doctest: +SKIP
    ...     queues = ackline.open(servers.url)
    ...     servers.promote()
    """

    def __init__(self, *, persistence: Persistence = "none") -> None:
        super().__init__()
        self.master = RedisServer(persistence=persistence)
        self.replica = RedisServer(persistence=persistence, replica_of=self.master)
        self.sentinel = Sentinel(self.master)

    def _start(self, stack: contextlib.ExitStack) -> None:
        stack.enter_context(self.master)
        stack.enter_context(self.replica)
        wait_until_synced(self.replica)
        stack.enter_context(self.sentinel)
        self.sentinel.wait_for("the replica to be known", self.sentinel.sees_replica)

    @property
    def url(self) -> str:
        """The URL for a store."""
        return f"redis+sentinel://{HOST}:{self.sentinel.port}/{SERVICE}"

    def promote(self) -> None:
        """Let the sentinel promote the replica, and wait until it has.

        The old master accepts writes for some seconds, and then drops them.
        """
        self.sentinel.wait_for("a replica to promote", self.sentinel.promote)
        self._wait_for_promotion()

    def kill_master(self) -> None:
        """Kill the master, and wait until the sentinel has promoted the replica."""
        self.master.kill()
        self.sentinel.set_down_after(SOON_DOWN)
        self._wait_for_promotion()
        self.sentinel.set_down_after(NEVER_DOWN)

    def _wait_for_promotion(self) -> None:
        promoted = self.replica
        self.sentinel.wait_for(
            "the promotion", lambda: self.sentinel.master_port() == promoted.port
        )
        self.master, self.replica = self.replica, self.master
        self.master.replica_of, self.replica.replica_of = None, self.master
