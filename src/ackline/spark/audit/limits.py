"""The limits that jobs are judged by: the widest that any process may apply now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from pyspark.sql import DataFrame, SparkSession

from ackline.config import DEFAULTS, Policy, Resolved, resolve
from ackline.job import NO_OPTIONS, Record, State
from ackline.limits import DEFAULT_PRIORITY
from ackline.queue.own_attempts import EVERY_KIND, noted_attempts
from ackline.spark.rows import moment
from ackline.stores.base import QueueInfo, Store

LIMITS = (
    "tenant string, queue string, kind string, max_attempts int, "
    "keep_failed double, keep_cancelled double, now timestamp"
)


def limits_of(
    spark: SparkSession, store: Store, infos: Iterable[QueueInfo], now: float
) -> DataFrame:
    """The limits of each queue and kind; a null kind means all other kinds.

    They apply to jobs that have none of their own.
    """
    rows = []
    for info in infos:
        for kind, policy in policies_of(info, noted_attempts(store, info.key)):
            kept = policy.keep_failed, policy.keep_cancelled
            queue = info.key.tenant, info.key.name
            rows.append((*queue, kind, policy.max_attempts, *kept, moment(now)))
    return spark.createDataFrame(rows, LIMITS)


def policies_of(info: QueueInfo, noted: Mapping[str, int]) -> Iterator[tuple[str | None, Resolved]]:
    """The policy of each kind, and of all others, given the attempts that processes have noted."""
    most = max(DEFAULTS.max_attempts, noted.get(EVERY_KIND, 0))
    defaults = msgspec.structs.replace(DEFAULTS, max_attempts=most)
    of_queue = _resolved(info, None, defaults)
    yield None, of_queue
    for kind in sorted({*info.settings.kinds, *noted} - {EVERY_KIND}):
        policy = _resolved(info, kind, defaults)
        if kind in noted or info.settings.kinds.get(kind, Policy()).by_handler:
            policy = _wider(policy, of_queue, noted.get(kind, 0))
        yield kind, policy


def _wider(of_kind: Resolved, of_queue: Resolved, noted: int) -> Resolved:
    """All that either allows: in its process, a handler's policy replaces the kind's stored one."""
    return msgspec.structs.replace(
        of_kind,
        max_attempts=max(of_kind.max_attempts, of_queue.max_attempts, noted),
        keep_failed=min(of_kind.keep_failed, of_queue.keep_failed),
        keep_cancelled=min(of_kind.keep_cancelled, of_queue.keep_cancelled),
    )


def _resolved(info: QueueInfo, kind: str | None, defaults: Resolved) -> Resolved:
    job = Record("", kind or "", State.QUEUED, b"", DEFAULT_PRIORITY, NO_OPTIONS, 0, 0.0)
    return resolve(job, info.settings, defaults)
