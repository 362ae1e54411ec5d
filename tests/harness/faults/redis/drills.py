"""All drills, by the names under which the command runs them."""

from __future__ import annotations

from tests.harness.faults.checks.report import Rule
from tests.harness.faults.drills.drill import Drill, by_name
from tests.harness.faults.redis.client_kills import kill_clients, pause_clients
from tests.harness.faults.redis.connection_cuts import cut, cut_new_ids
from tests.harness.faults.redis.listener_kills import (
    kill_listeners,
    kill_listeners_no_notifications,
)
from tests.harness.faults.redis.memory_limit import fill_memory
from tests.harness.faults.redis.replica_promotion import promote_confirmed, promote_lagging
from tests.harness.faults.redis.sentinel_failover import fail_over, kill_primary
from tests.harness.faults.redis.server_restarts import kill_always, kill_everysec, kill_no_log
from tests.harness.faults.redis.worker_kills import kill_workers, kill_workers_of_cluster

DRILLS = by_name(
    Drill("worker-kill", kill_workers),
    Drill("server-kill-always", kill_always),
    Drill("server-kill-everysec", kill_everysec),
    Drill("server-kill-no-log", kill_no_log, breaks=Rule.LOST),
    Drill("client-kill", kill_clients),
    Drill("client-pause", pause_clients),
    Drill("listener-kill", kill_listeners),
    Drill("listener-kill-no-notifications", kill_listeners_no_notifications, breaks=Rule.BLOCKED),
    Drill("connection-cut", cut),
    Drill("connection-cut-new-ids", cut_new_ids, breaks=Rule.UNEXPECTED),
    Drill("memory-full", fill_memory),
    Drill("replica-promotion", promote_lagging),
    Drill("replica-promotion-confirmed", promote_confirmed),
    Drill("primary-kill", kill_primary, slow=True),
    Drill("sentinel-failover", fail_over, slow=True),
    Drill("cluster-worker-kill", kill_workers_of_cluster, slow=True),
)
