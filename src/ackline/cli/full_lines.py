"""A line of `--full`: a whole job, written by hand or by `ackline export`."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from ackline.cli import values
from ackline.errors import InvalidJob
from ackline.job import Draft
from ackline.queue import EnqueueOptions, Queue
from ackline.queue.lines import PAST, draft_of
from ackline.retry import Backoff, backoff_from

KNOWN = ("payload", *EnqueueOptions.__annotations__, "codec")
"""The fields of a line; those of `PAST`, which an export adds, are ignored."""

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class BadLine(Exception):
    """A line that is not a job."""


def draft_of_line(queue: Queue[Any, Any], line: bytes, options: dict[str, Any]) -> Draft:
    """The job of a line; the options of the command fill in what the line leaves out."""
    raw = _fields(line)
    payload = bytes(raw.pop("payload"))
    fields = {name: msgspec.json.decode(value) for name, value in raw.items()}
    given = {name: value for name, value in fields.items() if value is not None}
    codec = given.pop("codec", None)
    try:
        return draft_of(queue, payload, codec, {**options, **_converted(given)})  # type: ignore[typeddict-item]
    except (InvalidJob, TypeError, ValueError, click.BadParameter) as error:
        raise BadLine(str(error)) from None


def _fields(line: bytes) -> dict[str, msgspec.Raw]:
    try:
        fields = _decode(line)
    except msgspec.ValidationError:
        shown = values.shown(line.decode(errors="replace").strip())
        raise BadLine(f"--full wants an object with a payload, this is {shown}") from None
    unknown = [name for name in fields if name not in KNOWN and name not in PAST]
    if unknown:
        raise BadLine(f"unknown field {unknown[0]!r}; known are {', '.join(KNOWN)}")
    if "payload" not in fields:
        raise BadLine('no payload; a job without one says so: "payload": null')
    return {name: value for name, value in fields.items() if name not in PAST}


def _converted(fields: dict[str, Any]) -> dict[str, Any]:
    """Read times and backoffs that are written as text."""
    if isinstance(fields.get("run_at"), str):
        fields["run_at"] = values.moment(fields["run_at"])
    match fields.get("backoff"):
        case None:
            pass
        case str(text):
            fields["backoff"] = values.backoff(text)
        case dict(rule):
            fields["backoff"] = msgspec.convert(rule, Backoff)
        case plain:
            fields["backoff"] = backoff_from(plain)
    return fields
