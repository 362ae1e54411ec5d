"""All drills, by the names under which the command runs them."""

from __future__ import annotations

from tests.harness.faults.postgres import terminations
from tests.harness.faults.postgres.crowds import meddle, meddle_unfenced
from tests.harness.faults.postgres.cutting import cut, cut_commit, cut_resent
from tests.harness.faults.postgres.pool import exhaust, exhaust_early
from tests.harness.faults.postgres.restarts import stop, stop_forgetful
from tests.harness.faults.postgres.workers import kill_hasty_workers, kill_workers
from tests.harness.faults.report import Rule
from tests.harness.faults.server.drill import Drill, by_name

DRILLS = by_name(
    Drill("workers", kill_workers),
    Drill("workers-hasty", kill_hasty_workers, breaks=Rule.LOST),
    Drill("stop", stop),
    # Which answers are lost, those to producers or those to workers, is a matter of the moment.
    Drill("stop-forgetful", stop_forgetful, breaks=(Rule.LOST, Rule.STALE)),
    Drill("terminate", terminations.terminate),
    Drill("terminate-claim", terminations.terminate_claim),
    Drill("terminate-settle", terminations.terminate_settle),
    Drill("terminate-dead-letter", terminations.terminate_dead_letter),
    Drill("terminate-commit", terminations.terminate_commit),
    Drill("terminate-early", terminations.terminate_early, breaks=Rule.LOST),
    Drill("terminate-listen", terminations.terminate_listen),
    Drill("terminate-listen-deaf", terminations.terminate_listen_deaf, breaks=Rule.BLOCKED),
    Drill("cut", cut),
    Drill("cut-commit", cut_commit),
    Drill("cut-resent", cut_resent, breaks=Rule.UNEXPECTED),
    Drill("crowd", meddle),
    Drill("crowd-unfenced", meddle_unfenced, breaks=Rule.STALE),
    Drill("pool", exhaust),
    Drill("pool-early", exhaust_early, breaks=Rule.LOST),
)
