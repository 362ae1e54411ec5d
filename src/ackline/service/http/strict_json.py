"""Strict JSON: refuses what other parsers silently accept or cannot handle."""

from __future__ import annotations

import json
import math
import re
from itertools import accumulate
from typing import Any, Never

import msgspec

from ackline.core.errors import InvalidJob
from ackline.service.http.problems import ProblemError, TooLarge

MAX_DEPTH = 100
"""Maximum nesting of objects and arrays: recursive parsers fail at some depth."""

MAX_PLAIN_DIGITS = 300
"""Numbers with more digits are checked to be in range."""


class BadBody(ProblemError):
    """The body is not what this route expects."""

    type = "bad-body"


class TooDeep(ProblemError):
    """The body is nested too deeply."""

    type = "too-deep"


def read_json(
    body: bytes, decoder: msgspec.json.Decoder[Any], max_list_items: int | None = None
) -> Any:
    """Decode a body: no duplicate names, no NaN, no invalid UTF-8, and the declared types."""
    try:
        text = body.decode()
        require_max_depth(body)
        too_large = scan(text, max_list_items)
        value = decoder.decode(body)
    except UnicodeDecodeError as error:
        raise BadBody(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
    except msgspec.ValidationError as error:
        # A library error, raised by a struct's own check, is a problem of its own.
        if isinstance(error.__cause__, InvalidJob):
            raise error.__cause__ from None
        reason, _, location = str(error).partition(" - at `")
        at = location.rstrip("`") or "$"
        raise BadBody(f"{reason} at {at}", at=at) from None
    except (msgspec.DecodeError, ValueError) as error:
        raise BadBody(f"the body is not valid JSON: {error}") from None
    if too_large:
        # A payload is stored as sent, so nothing else checks its numbers.
        raise BadBody(f"the number {too_large[0][:20]}… is out of range")
    return value


_ESCAPES = re.compile(rb"\\.", re.DOTALL)
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = [1 if byte in b"[{" else -1 for byte in range(256)]


def require_max_depth(body: bytes) -> None:
    """Refuse JSON that is nested too deeply."""
    plain = _ESCAPES.sub(b"", body) if b"\\" in body else body
    # Split at quotes: every second part is outside of strings.
    brackets = b"".join(plain.split(b'"')[::2]).translate(None, _OTHERS)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_DEPTH:
        raise TooDeep(f"the body is nested deeper than {MAX_DEPTH} levels")


def scan(text: str, max_list_items: int | None = None) -> list[str]:
    """Refuse duplicate names in one object, NaN, and invalid JSON.

    Returns the numbers that are out of range. The lists of the outermost object may have up to
    `max_list_items` elements in all.
    """
    too_large: list[str] = []

    def check_range(number: str) -> None:
        if math.isinf(float(number)):
            too_large.append(number)

    # Values are dropped, except lists, whose length may matter.
    lists = json.JSONDecoder(
        object_pairs_hook=_lists_of,
        parse_float=check_range,
        parse_int=lambda number: check_range(number) if len(number) > MAX_PLAIN_DIGITS else None,
        parse_constant=_refuse_constant,
    ).decode(text)
    if max_list_items is not None and type(lists) is list:
        members = sum(len(found) for found in lists if type(found) is list)
        if members > max_list_items:
            raise TooLarge(f"{members:,} objects in one request: send several requests")
    return too_large


def _lists_of(members: list[tuple[str, Any]]) -> list[list[Any]]:
    if len(members) > 1 and len({name for name, _ in members}) < len(members):
        names = [name for name, _ in members]
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise BadBody(f"the name {twice!r} appears twice in one object", at=twice)
    return [value for _, value in members if type(value) is list]


def _refuse_constant(name: str) -> Never:
    raise BadBody(f"{name} is not a number in JSON")
