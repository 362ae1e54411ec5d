"""Workers and producers are killed and suspended, as on any store."""

from __future__ import annotations

from tests.harness.faults.checks.report import Report
from tests.harness.faults.drills import worker_kills
from tests.harness.faults.drills.drill import DrillOptions
from tests.harness.servers.redis import RedisServer
from tests.harness.servers.redis_cluster import RedisCluster


def kill_workers(options: DrillOptions) -> Report:
    """SIGKILL, and SIGSTOP past the lease then SIGCONT."""
    with RedisServer() as server:
        return worker_kills.kill_workers(server.url, options)


def kill_workers_of_cluster(options: DrillOptions) -> Report:
    """The same on a cluster."""
    with RedisCluster() as cluster:
        return worker_kills.kill_workers(cluster.url, options)
