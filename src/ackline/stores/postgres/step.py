"""Applied transitions: how each changes where a job stands."""

from __future__ import annotations

from typing import Any

from ackline.events import Act
from ackline.job import Failure, State
from ackline.lifecycle import Edit, Landing, Stands, Transition, ended_attempt, land, place
from ackline.stores.base import HISTORY_LIMIT
from ackline.stores.postgres.arrays import Blobs, Floats, Ints
from ackline.stores.postgres.codes import ODD
from ackline.stores.postgres.homes import NO_TIME, Homes
from ackline.stores.postgres.leases import Leases
from ackline.stores.postgres.queues import QueueEntry
from ackline.stores.postgres.standing import LEASED, PARKED, READY, REST, Standing
from ackline.stores.postgres.transaction import Transaction
from ackline.stores.shared.records import CODE, encode_failure

_LEAVE = {READY: "leave_ready", PARKED: "leave_parked", REST: "leave_rest"}


class Steps:
    """The steps of one batch; the jobs change homes when the steps are written."""

    def __init__(self, tx: Transaction, entry: QueueEntry, leases: Leases) -> None:
        self._tx = tx
        self._entry = entry
        self._leases = leases
        self._changed: dict[int, tuple[Standing, bool]] = {}
        self._ended: list[tuple[int, Failure]] = []

    def take(self, job: Standing, transition: Transition) -> None:
        """Change a job as a transition says whose guard was found to hold."""
        landing = land(transition, job.state, job.cancel_requested)
        if transition.act is Act.PROGRESS:
            values = {"job": job.num, "token": job.token, "data": transition.progress}
            self._tx.send("set_progress", values)
        elif transition.act is Act.REQUEST_CANCEL:
            job.cancel_requested = True
            self._leases.request_cancel(job.num)
        if job.state is State.PROCESSING and landing.to is not job.state:
            self._end_lease(job, transition)
        if transition.attempts is not None:
            job.attempts = transition.attempts
        self._stand(job, transition, landing)

    def _end_lease(self, job: Standing, transition: Transition) -> None:
        now = self._tx.now
        ended = ended_attempt(transition, job.attempts, job.worker, job.started or 0.0, now)
        if ended is not None:
            self._ended.append((job.num, ended))
        job.act = transition.act
        job.cancel_requested = False
        self._leases.leave(job.num)
        self._entry.bodies.pop(job.id, None)

    def _stand(self, job: Standing, transition: Transition, landing: Landing) -> None:
        old_priority, source = job.priority, job.state
        if transition.edit is not None:
            self._rewrite(job, transition.edit)
        at = place(
            landing,
            self._tx.now,
            at=job.at,
            old_rank=job.rank,
            old_priority=old_priority,
            priority=job.priority,
            ageing=self._entry.settings.ageing,
        )
        if landing.to is State.PROCESSING:
            if landing.stands is Stands.AFTER:
                self._leases.extend(job.num, at)
                job.at = at
            return
        job.state, job.at = landing.to, at
        if landing.to is State.QUEUED:
            job.rank = at
            # A parked job goes on waiting for its group.
            job.home = PARKED if job.home == PARKED else READY
        else:
            job.home = REST
        if not landing.to.terminal:
            job.finished = None
        elif landing.to is not source:
            job.finished, job.result = self._tx.now, transition.result
        self._changed[job.num] = (job, landing.stands is Stands.FRESH)

    def _rewrite(self, job: Standing, edit: Edit) -> None:
        if edit.payload is not None or edit.priority is not None:
            values = {"job": job.num, "payload": edit.payload, "priority": edit.priority}
            self._tx.send("set_body", values)
        if edit.priority is not None:
            job.priority = edit.priority

    def write(self) -> None:
        """Write the changed jobs to their new homes."""
        if self._ended:
            self._write_ended()
        if not self._changed:
            return
        homes, leaving = Homes(self._tx, self._entry), dict[int, list[int]]()
        stay: list[Standing] = []
        for job, fresh in self._changed.values():
            if job.origin == REST and job.home == REST:
                stay.append(job)
            else:
                if job.origin != LEASED:
                    leaving.setdefault(job.origin, []).append(job.num)
                _settle_in(homes, job, fresh)
            job.origin = job.home
        self._changed.clear()
        for home, nums in leaving.items():
            self._tx.send(_LEAVE[home], {"jobs": Ints(nums)})
        if stay:
            self._tx.send("set_rest", _resting(stay))
        homes.write()

    def _write_ended(self) -> None:
        nums = [num for num, _ in self._ended]
        failures = [encode_failure(failure) for _, failure in self._ended]
        self._ended.clear()
        self._tx.send("add_attempts", {"jobs": Ints(nums), "failures": Blobs(failures)})
        self._tx.send("forget_attempts", {"jobs": Ints(nums), "keep": HISTORY_LIMIT})


def _resting(jobs: list[Standing]) -> dict[str, Any]:
    finished = [NO_TIME if job.finished is None else job.finished for job in jobs]
    return {
        "jobs": Ints([job.num for job in jobs]),
        "states": Ints([CODE[job.state] for job in jobs]),
        "ats": Floats([job.at for job in jobs]),
        "attempts": Ints([job.attempts for job in jobs]),
        "finished": Floats(finished),
    }


def _settle_in(homes: Homes, job: Standing, fresh: bool) -> None:
    if job.home == REST:
        homes.rest(job.num, job.state, job.at, job.past(), job.finished, job.result)
    elif job.home == PARKED:
        homes.park(job.num, job.kind, job.group or "", job.rank, job.past())
    else:
        homes.ready(job.num, job.kind, job.priority if fresh else ODD, job.rank, job.past())
