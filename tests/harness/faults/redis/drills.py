"""All drills, by the names under which the command runs them."""

from __future__ import annotations

from tests.harness.faults.checks.report import Rule
from tests.harness.faults.drills.drill import Drill, by_name
from tests.harness.faults.redis.client_kills import kill_clients, pause_clients
from tests.harness.faults.redis.connection_cuts import cut, cut_resent
from tests.harness.faults.redis.memory_limit import fill_memory
from tests.harness.faults.redis.replica_promotion import promote_awaited, promote_lagging
from tests.harness.faults.redis.sentinel_failover import fail_over, sentinel_failover
from tests.harness.faults.redis.server_restarts import kill_always, kill_everysec, kill_none
from tests.harness.faults.redis.wakeups import wake_up, wake_up_unnotified
from tests.harness.faults.redis.worker_kills import kill_workers, kill_workers_of_cluster

DRILLS = by_name(
    Drill("workers", kill_workers),
    Drill("server-always", kill_always),
    Drill("server-everysec", kill_everysec),
    Drill("server-none", kill_none, breaks=Rule.LOST),
    Drill("client-kill", kill_clients),
    Drill("client-pause", pause_clients),
    Drill("wake-up", wake_up),
    Drill("wake-up-deaf", wake_up_unnotified, breaks=Rule.BLOCKED),
    Drill("cut", cut),
    Drill("cut-resent", cut_resent, breaks=Rule.UNEXPECTED),
    Drill("memory", fill_memory),
    Drill("promotion", promote_lagging),
    Drill("promotion-awaited", promote_awaited),
    Drill("fail-over", fail_over, slow=True),
    Drill("hand-over", sentinel_failover, slow=True),
    Drill("cluster", kill_workers_of_cluster, slow=True),
)
