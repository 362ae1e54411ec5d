"""A private master with a replica, and a sentinel that knows which of them is the master."""

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
"""The name under which the sentinel knows the master."""

NOT_NOW = ("NOGOODSLAVE", "INPROG")
"""How a sentinel says: no replica fits yet, or the last change is not over."""

PATIENT, ALERT = 60_000, 500
"""Milliseconds of silence after which it takes the master for dead: as long as that lives, so long
that a busy machine changes no roles by itself."""

CONFIGURATION = """\
bind {host}
dir {folder}
sentinel monitor {service} {host} {master} 1
sentinel down-after-milliseconds {service} {patience}
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
        """Where the master is now."""
        with self.client() as client:
            _, port = client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", SERVICE)
        return int(port)

    def promote(self) -> bool:
        """Begin a change of roles; False if that is not possible right now."""
        with self.client() as client:
            try:
                client.execute_command("SENTINEL FAILOVER", SERVICE)
            except redis.ResponseError as error:
                if any(sign in str(error) for sign in NOT_NOW):
                    return False
                raise
        return True

    def wait_for_silence(self, milliseconds: int) -> None:
        """Take the master for dead after it was silent for so long."""
        with self.client() as client:
            client.sentinel_set(SERVICE, "down-after-milliseconds", milliseconds)

    def sees_replica(self) -> bool:
        """Whether there is a replica that it would promote."""
        with self.client() as client:
            replicas = client.sentinel_slaves(SERVICE)
        return any(each["master-link-status"] == "ok" for each in replicas)

    def _configuration(self) -> Path:
        # It keeps its state in this file, so a restart must find it as it was.
        path = self.folder / "sentinel.conf"
        if not path.exists():
            path.write_text(
                CONFIGURATION.format(
                    host=HOST,
                    folder=self.folder,
                    service=SERVICE,
                    master=self._master.port,
                    patience=PATIENT,
                )
            )
        return path


class RedisSentinel(ServerGroup):
    """A master, a replica and their sentinel; `promote` changes their roles.

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
        """What to open a store with."""
        return f"redis+sentinel://{HOST}:{self.sentinel.port}/{SERVICE}"

    def promote(self) -> None:
        """Let the sentinel make the replica the master; returns when it has.

        The old master goes on as one for some seconds, and then drops what it got meanwhile.
        """
        self.sentinel.wait_for("a replica to promote", self.sentinel.promote)
        self._change_roles()

    def kill_master(self) -> None:
        """Kill the master; returns when the sentinel has noticed it and promoted the replica."""
        self.master.kill()
        self.sentinel.wait_for_silence(ALERT)
        self._change_roles()
        self.sentinel.wait_for_silence(PATIENT)

    def _change_roles(self) -> None:
        heir = self.replica
        self.sentinel.wait_for("the promotion", lambda: self.sentinel.master_port() == heir.port)
        self.master, self.replica = self.replica, self.master
        self.master.replica_of, self.replica.replica_of = None, self.master
