"""A line of `--full`: a whole job, as somebody wrote it or as an export did."""

from __future__ import annotations

from typing import Any

import msgspec
import typer

from ackline.cli import values
from ackline.errors import InvalidJob
from ackline.job import Draft
from ackline.queue import EnqueueOptions, Queue
from ackline.queue.lines import PAST, draft_of
from ackline.retry import Backoff, backoff_from

KNOWN = ("payload", *EnqueueOptions.__annotations__, "codec")
"""What a line may say; beside it, what an export tells of a job's past."""

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class BadLine(Exception):
    """A line that is no job."""


def draft_of_line(queue: Queue[Any, Any], line: bytes, options: dict[str, Any]) -> Draft:
    """The job of a line; what it does not say, the options of the command do."""
    said = _fields(line)
    payload = bytes(said.pop("payload"))
    fields = {name: msgspec.json.decode(value) for name, value in said.items()}
    given = {name: value for name, value in fields.items() if value is not None}
    codec = given.pop("codec", None)
    try:
        return draft_of(queue, payload, codec, {**options, **_meant(given)})  # type: ignore[typeddict-item]
    except (InvalidJob, TypeError, ValueError, typer.BadParameter) as error:
        raise BadLine(str(error)) from None


def _fields(line: bytes) -> dict[str, msgspec.Raw]:
    try:
        said = _decode(line)
    except msgspec.ValidationError:
        shown = values.shown(line.decode(errors="replace").strip())
        raise BadLine(f"--full wants an object with a payload, this is {shown}") from None
    unknown = [name for name in said if name not in KNOWN and name not in PAST]
    if unknown:
        raise BadLine(f"unknown field {unknown[0]!r}; known are {', '.join(KNOWN)}")
    if "payload" not in said:
        raise BadLine('no payload; a job without one says so: "payload": null')
    return {name: value for name, value in said.items() if name not in PAST}


def _meant(fields: dict[str, Any]) -> dict[str, Any]:
    """Times and backoffs as people write them, too."""
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
