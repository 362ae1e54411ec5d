"""Errors, as they are kept with their jobs."""

from __future__ import annotations

import traceback as _traceback

import msgspec

from ackline.errors import InvalidOption, text_of
from ackline.events import Act
from ackline.job import Failure, Record
from ackline.limits import LONGEST_NAME, storable

LONGEST_TRACEBACK = 16_384
LONGEST_MESSAGE = 16_384


def failure_from(job: Record, error: BaseException | str) -> Failure:
    """An error as it is kept with the job."""
    if isinstance(error, str):
        return Failure(act=Act.FAIL, attempt=job.attempts, type="Error", message=_message(error))
    if not isinstance(error, BaseException):
        raise InvalidOption(f"the error must be an exception or a str, not {error!r}")
    trace = "".join(_traceback.format_exception(error))
    return Failure(
        act=Act.FAIL,
        attempt=job.attempts,
        type=storable(type(error).__qualname__),
        message=_message(text_of(error)),
        traceback=storable(trace[-LONGEST_TRACEBACK:]),
    )


def shortened(failure: Failure) -> Failure:
    """A failure that a client reported, no longer than one of this process would be."""
    return msgspec.structs.replace(
        failure,
        type=storable(failure.type[:LONGEST_NAME]),
        message=_message(failure.message),
        traceback=storable(failure.traceback[-LONGEST_TRACEBACK:]),
    )


def _message(text: str) -> str:
    left_out = len(text) - LONGEST_MESSAGE
    if left_out > 0:
        text = f"{text[:LONGEST_MESSAGE]}… ({left_out:,} more characters)"
    return storable(text)
