"""Parse option values: durations, times, backoffs, weights, headers, JSON."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from typing import Any, TypeVar

import click
import msgspec

from ackline.cli.exits import UsageError
from ackline.core import retry
from ackline.core.errors import AcklineError
from ackline.core.retry import Backoff

_SPAN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|m|min|h|d)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
MAX_PORT = 65535
_JITTERS = ("none", "full", "equal")


T = TypeVar("T")


class OneOf(click.Choice[T]):
    """A choice of enum members, written as their values instead of their names."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:  # noqa: ARG002
        """The value as text; an enum may know other words for it."""
        try:
            return str(type(self.choices[0])(choice))  # type: ignore[call-arg]
        except ValueError:
            return str(choice)


def seconds(text: str) -> float:
    """Parse `90`, `1.5`, `500ms`, `30s`, `5m`, `2h` or `1d`."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise click.BadParameter(f"{text!r} is not a duration: write 90, 500ms, 30s, 5m, 2h or 1d")
    number, unit = found.groups()
    return float(number) * _UNITS[unit or "s"]


def port(text: str) -> int:
    """Parse a port; 0 means any free port."""
    if not text.strip().isdecimal() or int(text) > MAX_PORT:
        raise click.BadParameter(f"{text!r} is not a port: write a number from 0 to {MAX_PORT}")
    return int(text)


def moment(text: str) -> datetime.datetime:
    """Parse an ISO time (local if it has no zone) or seconds since 1970."""
    try:
        return datetime.datetime.fromtimestamp(float(text), datetime.UTC)
    except (ValueError, OverflowError, OSError):
        pass
    try:
        return datetime.datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text!r} is not a time: write 2030-01-31T08:00, 2030-01-31T08:00+02:00 "
            "or seconds since 1970"
        ) from None


def backoff(text: str) -> Backoff:
    """Parse `1,5,30`, `10`, `fixed:10`, `linear:10:600` or `exponential:1:2:600`.

    The last part may be the jitter: `exponential:1:2:600:full`.
    """
    shape, _, rest = text.partition(":")
    parts = rest.split(":") if rest else []
    jitter: Any = parts.pop() if parts and parts[-1] in _JITTERS else None
    try:
        return _backoff(shape, [float(part) for part in parts], jitter)
    except (ValueError, TypeError, AcklineError) as error:
        why = f" ({error})" if isinstance(error, AcklineError) else ""
        raise click.BadParameter(
            f"{text!r} is not a backoff{why}: write 1,5,30 for a schedule, or 10, fixed:10, "
            "linear:STEP:CAP, exponential:BASE:FACTOR:CAP, each with :full or :equal for jitter"
        ) from None


def _backoff(shape: str, numbers: Sequence[float], jitter: Any) -> Backoff:
    match shape, numbers:
        case "fixed", [wait]:
            made = retry.fixed(wait)
        case "linear", [step]:
            made = retry.linear(step)
        case "linear", [step, cap]:
            made = retry.linear(step, cap=cap)
        case "exponential", [base]:
            made = retry.exponential(base)
        case "exponential", [base, factor]:
            made = retry.exponential(base, factor=factor)
        case "exponential", [base, factor, cap]:
            made = retry.exponential(base, factor=factor, cap=cap)
        case _, []:
            delays = [float(part) for part in shape.split(",")]
            made = retry.fixed(delays[0]) if len(delays) == 1 else retry.schedule(delays)
        case _:
            raise ValueError(shape)
    return msgspec.structs.replace(made, jitter=jitter) if jitter else made


def weights(text: str) -> tuple[float, ...]:
    """Parse `3,1`: numbers above 0."""
    try:
        read = tuple(float(part) for part in text.split(","))
    except ValueError:
        read = (0.0,)
    if not all(0 < weight < math.inf for weight in read):
        raise click.BadParameter(
            f"{text!r} is not a list of weights: write numbers above 0, such as 3,1"
        )
    return read


def headers(pairs: Sequence[str]) -> dict[str, str]:
    """Parse `name=value` pairs."""
    read = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{pair!r} is not a header: write name=value")
        read[name] = value
    return read


def payload(text: str) -> Any:
    """Parse a payload as JSON; an error says how to write it."""
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise UsageError("the payload is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise UsageError(
            f"the payload {quoted(text)} is not JSON ({error}).\n{_hint(text)}"
        ) from None


def quoted(text: str) -> str:
    """The text in quotes, at most 60 characters of it."""
    return repr(text) if len(text) <= 60 else repr(text[:60]) + "…"


def _hint(text: str) -> str:
    if re.fullmatch(r"[^\s{}\[\]\":,']+", text):
        return f"A string needs quotes of its own: '\"{text}\"'"
    if text.lstrip().startswith(("{", "[")):
        return (
            'Names and strings need double quotes, the whole needs single ones: \'{"to": "ann"}\''
        )
    return "A string needs double quotes inside single ones: '\"like this\"'"
