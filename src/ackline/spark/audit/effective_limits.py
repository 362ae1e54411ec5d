"""The limits that the audit applies: the most permissive that any process may use now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from pyspark.sql import DataFrame, SparkSession

from ackline.core.config import DEFAULTS, Policy, ResolvedPolicy, resolve_policy
from ackline.core.job import NO_OPTIONS, Record, State
from ackline.core.limits import DEFAULT_PRIORITY
from ackline.queue.metadata.local_max_attempts import ALL_KINDS, load_max_attempts
from ackline.spark.tables.job_rows import utc_datetime
from ackline.stores.contract import QueueInfo, Store

LIMITS_SCHEMA = (
    "tenant string, queue string, kind string, max_attempts int, "
    "keep_failed double, keep_cancelled double, now timestamp"
)


def limits_table(
    spark: SparkSession, store: Store, infos: Iterable[QueueInfo], now: float
) -> DataFrame:
    """The limits of each queue and kind; a null kind means all other kinds.

    They apply to jobs that have none of their own.
    """
    rows = []
    for info in infos:
        for kind, policy in effective_policies(info, load_max_attempts(store, info.key)):
            kept = policy.keep_failed, policy.keep_cancelled
            queue = info.key.tenant, info.key.name
            rows.append((*queue, kind, policy.max_attempts, *kept, utc_datetime(now)))
    return spark.createDataFrame(rows, LIMITS_SCHEMA)


def effective_policies(
    info: QueueInfo, recorded: Mapping[str, int]
) -> Iterator[tuple[str | None, ResolvedPolicy]]:
    """The policy of each kind, and of all others; `recorded` has the attempts that handlers set."""
    most = max(DEFAULTS.max_attempts, recorded.get(ALL_KINDS, 0))
    defaults = msgspec.structs.replace(DEFAULTS, max_attempts=most)
    of_queue = _resolved(info, None, defaults)
    yield None, of_queue
    for kind in sorted({*info.settings.kinds, *recorded} - {ALL_KINDS}):
        policy = _resolved(info, kind, defaults)
        if kind in recorded or info.settings.kinds.get(kind, Policy()).from_handler:
            policy = _most_permissive(policy, of_queue, recorded.get(kind, 0))
        yield kind, policy


def _most_permissive(
    of_kind: ResolvedPolicy, of_queue: ResolvedPolicy, recorded: int
) -> ResolvedPolicy:
    """The wider of both: in its process, a handler's policy replaces the kind's stored one."""
    return msgspec.structs.replace(
        of_kind,
        max_attempts=max(of_kind.max_attempts, of_queue.max_attempts, recorded),
        keep_failed=min(of_kind.keep_failed, of_queue.keep_failed),
        keep_cancelled=min(of_kind.keep_cancelled, of_queue.keep_cancelled),
    )


def _resolved(info: QueueInfo, kind: str | None, defaults: ResolvedPolicy) -> ResolvedPolicy:
    job = Record("", kind or "", State.QUEUED, b"", DEFAULT_PRIORITY, NO_OPTIONS, 0, 0.0)
    return resolve_policy(job, info.settings, defaults)
