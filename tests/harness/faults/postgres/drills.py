"""All drills, by the names under which the command runs them."""

from __future__ import annotations

from tests.harness.faults.checks.report import Rule
from tests.harness.faults.drills.drill import Drill, by_name
from tests.harness.faults.postgres import session_terminations
from tests.harness.faults.postgres.connection_cuts import cut, cut_commit, cut_new_ids
from tests.harness.faults.postgres.connection_exhaustion import exhaust, exhaust_early_answer
from tests.harness.faults.postgres.contention import contend, contend_unfenced
from tests.harness.faults.postgres.server_restarts import (
    kill_server_async_commit,
    kill_server_sync_commit,
)
from tests.harness.faults.postgres.worker_kills import kill_early_completing_workers, kill_workers

DRILLS = by_name(
    Drill("worker-kill", kill_workers),
    Drill("worker-kill-early-completion", kill_early_completing_workers, breaks=Rule.LOST),
    Drill("server-kill", kill_server_sync_commit),
    # Which answers are lost, those to producers or those to workers, depends on timing.
    Drill("server-kill-async-commit", kill_server_async_commit, breaks=(Rule.LOST, Rule.STALE)),
    Drill("terminate-session", session_terminations.terminate),
    Drill("terminate-claim", session_terminations.terminate_claim),
    Drill("terminate-settle", session_terminations.terminate_settle),
    Drill("terminate-dead-letter", session_terminations.terminate_dead_letter),
    Drill("terminate-commit", session_terminations.terminate_commit),
    Drill(
        "terminate-enqueue-early-answer",
        session_terminations.terminate_early_answer,
        breaks=Rule.LOST,
    ),
    Drill("terminate-listener", session_terminations.terminate_listener),
    Drill(
        "terminate-listener-no-notifications",
        session_terminations.terminate_listener_no_notifications,
        breaks=Rule.BLOCKED,
    ),
    Drill("connection-cut", cut),
    Drill("connection-cut-at-commit", cut_commit),
    Drill("connection-cut-new-ids", cut_new_ids, breaks=Rule.UNEXPECTED),
    Drill("contention", contend),
    Drill("contention-unfenced", contend_unfenced, breaks=Rule.STALE),
    Drill("connections-exhausted", exhaust),
    Drill("connections-exhausted-early-answer", exhaust_early_answer, breaks=Rule.LOST),
)
