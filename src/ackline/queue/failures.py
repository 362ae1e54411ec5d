"""Errors, as they are kept with their jobs."""

from __future__ import annotations

import traceback as _traceback

from ackline.core.errors import InvalidOption, message_of
from ackline.core.events import Act
from ackline.core.job import Failure, Record


def failure_from(job: Record, error: BaseException | str) -> Failure:
    """An error as it is kept with the job."""
    if isinstance(error, str):
        return Failure(act=Act.FAIL, attempt=job.attempts, type="Error", message=error)
    if not isinstance(error, BaseException):
        raise InvalidOption(f"the error must be an exception or a str, not {error!r}")
    trace = "".join(_traceback.format_exception(error))
    return Failure(
        act=Act.FAIL,
        attempt=job.attempts,
        type=type(error).__qualname__,
        message=message_of(error),
        traceback=trace,
    )
