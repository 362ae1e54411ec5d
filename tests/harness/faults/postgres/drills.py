"""All drills, by the names under which the command runs them."""

from __future__ import annotations

from tests.harness.faults.checks.report import Rule
from tests.harness.faults.drills.drill import Drill, by_name
from tests.harness.faults.postgres import session_terminations
from tests.harness.faults.postgres.connection_cuts import cut, cut_commit, cut_resent
from tests.harness.faults.postgres.connection_exhaustion import exhaust, exhaust_early
from tests.harness.faults.postgres.contention import contend, contend_unfenced
from tests.harness.faults.postgres.server_restarts import stop, stop_asynchronous_commit
from tests.harness.faults.postgres.worker_kills import kill_early_completing_workers, kill_workers

DRILLS = by_name(
    Drill("workers", kill_workers),
    Drill("workers-hasty", kill_early_completing_workers, breaks=Rule.LOST),
    Drill("stop", stop),
    # Which answers are lost, those to producers or those to workers, is a matter of the moment.
    Drill("stop-forgetful", stop_asynchronous_commit, breaks=(Rule.LOST, Rule.STALE)),
    Drill("terminate", session_terminations.terminate),
    Drill("terminate-claim", session_terminations.terminate_claim),
    Drill("terminate-settle", session_terminations.terminate_settle),
    Drill("terminate-dead-letter", session_terminations.terminate_dead_letter),
    Drill("terminate-commit", session_terminations.terminate_commit),
    Drill("terminate-early", session_terminations.terminate_early, breaks=Rule.LOST),
    Drill("terminate-listen", session_terminations.terminate_listen),
    Drill(
        "terminate-listen-deaf",
        session_terminations.terminate_listen_unnotified,
        breaks=Rule.BLOCKED,
    ),
    Drill("cut", cut),
    Drill("cut-commit", cut_commit),
    Drill("cut-resent", cut_resent, breaks=Rule.UNEXPECTED),
    Drill("crowd", contend),
    Drill("crowd-unfenced", contend_unfenced, breaks=Rule.STALE),
    Drill("pool", exhaust),
    Drill("pool-early", exhaust_early, breaks=Rule.LOST),
)
