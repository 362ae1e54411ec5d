"""What a step measures, in seconds; null where it does not apply."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from ackline.core.events import Act
from ackline.core.job import State


def wait_seconds() -> Column:
    """Seconds in line before a delivery."""
    return F.when(is_act(Act.CLAIM), F.col("since"))


def run_seconds() -> Column:
    """Seconds that a handler worked; how long it did if its worker was lost, nobody knows."""
    was_processing = F.col("comes_from") == State.PROCESSING.value
    return F.when(was_processing & ~is_act(Act.EXPIRE), F.col("since"))


def stall_seconds() -> Column:
    """Seconds that a job was held by a worker that was lost."""
    return F.when(is_act(Act.EXPIRE), F.col("since"))


def recovery_seconds() -> Column:
    """Seconds from when the loss of a worker was noticed until the next delivery."""
    return F.when(is_act(Act.CLAIM) & (F.col("before_act") == Act.EXPIRE.value), F.col("since"))


def total_seconds() -> Column:
    """Seconds from the beginning of a life to its completion."""
    return F.when(is_act(Act.COMPLETE), F.col("age"))


def is_act(act: Act) -> Column:
    """Whether a step is this act."""
    return F.col("act") == act.value
