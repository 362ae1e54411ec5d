"""Encoding and decoding of a queue's payloads, results and progress."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from ackline.core import codec
from ackline.core.codec import Serde
from ackline.core.errors import (
    InvalidPayload,
    JobCancelled,
    JobFailed,
    MaxAttemptsExceeded,
    Timeout,
)
from ackline.core.job import DlqReason, Record, State
from ackline.stores.contract import Completion

R = TypeVar("R")


class Serdes(msgspec.Struct, Generic[R], frozen=True):
    """The serdes, declared types and size limit of a queue."""

    payload: Serde
    result: Serde
    payload_type: Any = Any
    result_type: Any = Any
    max_payload: int = codec.DEFAULT_MAX_PAYLOAD

    def encode_payload(self, value: Any) -> bytes:
        """A payload as bytes, or `InvalidPayload`."""
        return codec.encode("payload", value, self.payload, self.max_payload)

    def encode_as(self, value: Any, type: Any, kind: str) -> bytes:
        """A payload as bytes that can be read as the declared type, or `InvalidPayload`.

        The bytes are decoded again, so that exactly what a handler could not read is rejected.
        """
        data = self.encode_payload(value)
        if type is not Any:
            _require_readable(f"payload for kind {kind!r}", data, self.payload, type)
        return data

    def decode_payload(self, record: Record, type: Any) -> Any:
        """A stored payload as the declared type, or `InvalidPayload`."""
        self.require_own(record)
        return codec.decode("payload", record.payload, self.payload, type)

    def require_own(self, record: Record) -> None:
        """Raise `InvalidPayload` if another serde than this queue's wrote the payload."""
        written_as = record.options.codec or "json"
        if written_as != self.payload.name:
            raise InvalidPayload(
                f"the payload of job {record.id!r} was written as {written_as}, "
                f"this queue reads {self.payload.name}: open it with the serde that wrote it"
            )

    def encode_result(self, value: Any) -> bytes | None:
        """A result as bytes that can be read as the declared type, or `InvalidPayload`.

        None is a result of every type, and takes no space.
        """
        if value is None:
            return None
        data = codec.encode("result", value, self.result, self.max_payload)
        if self.result_type is not Any:
            _require_readable("result", data, self.result, self.result_type)
        return data

    def decode_result(self, data: bytes | None) -> Any:
        """A stored result as the declared type."""
        if data is None:
            return None
        return codec.decode("result", data, self.result, self.result_type)

    def encode_progress(self, value: Any) -> bytes:
        """The progress that a handler reports, as bytes."""
        return codec.encode("progress", value, self.result, self.max_payload)

    def decode_progress(self, record: Record) -> Any:
        """The progress that a handler reported last."""
        if record.progress is None:
            return None
        return codec.decode("progress", record.progress, self.result, Any)

    def outcome_of(self, record: Record | Completion) -> R:
        """The result of a finished job, or the error that it ended with."""
        match record.state:
            case State.COMPLETED:
                result: R = self.decode_result(record.result)
                return result
            case State.FAILED:
                failure = record.failure
                used_up = failure is not None and failure.dlq_reason is DlqReason.MAX_ATTEMPTS
                raise (MaxAttemptsExceeded if used_up else JobFailed)(record.id, failure)
            case State.CANCELLED:
                raise JobCancelled(record.id)
            case _:
                raise Timeout(f"job {record.id!r} is {record.state}, not finished")


def _require_readable(what: str, data: bytes, serde: Serde, type: Any) -> None:
    try:
        serde.loads(data, type)
    except Exception as error:
        raise InvalidPayload(
            f"the {what} does not fit its declared type, {_name(type)}: {error}"
        ) from error


def _name(type: Any) -> str:
    return getattr(type, "__qualname__", None) or str(type)
