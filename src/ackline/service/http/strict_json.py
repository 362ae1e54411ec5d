"""JSON read strictly: what other readers silently accept, or would choke on, is refused."""

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
"""Objects and arrays inside one another. Recursive readers give up at some depth."""

MAX_PLAIN_DIGITS = 300
"""Digits; a longer number may be too large for its readers."""


class BadBody(ProblemError):
    """A body that is not what this route reads."""

    type = "bad-body"


class TooDeep(ProblemError):
    """A body that is nested too deeply."""

    type = "too-deep"


def read_json(
    body: bytes, decoder: msgspec.json.Decoder[Any], max_list_items: int | None = None
) -> Any:
    """Read a body: no duplicate names, no NaN, no broken UTF-8, and the types as declared."""
    try:
        text = body.decode()
        require_max_depth(body)
        too_large = scan(text, max_list_items)
        read = decoder.decode(body)
    except UnicodeDecodeError as error:
        raise BadBody(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
    except msgspec.ValidationError as error:
        # An error of the library, raised by a struct's own check, has an answer of its own.
        if isinstance(error.__cause__, InvalidJob):
            raise error.__cause__ from None
        reason, _, place = str(error).partition(" - at `")
        at = place.rstrip("`") or "$"
        raise BadBody(f"{reason} at {at}", at=at) from None
    except (msgspec.DecodeError, ValueError) as error:
        raise BadBody(f"the body is not JSON: {error}") from None
    if too_large:
        # A payload is stored as it came, so nothing else reads its numbers.
        raise BadBody(f"the number {too_large[0][:20]}… is out of range")
    return read


_ESCAPES = re.compile(rb"\\.", re.DOTALL)
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = [1 if byte in b"[{" else -1 for byte in range(256)]


def require_max_depth(body: bytes) -> None:
    """Refuse a JSON text that is nested too deeply."""
    plain = _ESCAPES.sub(b"", body) if b"\\" in body else body
    # Split at quotes, every second piece is outside of strings.
    brackets = b"".join(plain.split(b'"')[::2]).translate(None, _OTHERS)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_DEPTH:
        raise TooDeep(f"the body is nested deeper than {MAX_DEPTH} levels")


def scan(text: str, most_members: int | None = None) -> list[str]:
    """Refuse duplicate names in one object, NaN and what is not JSON.

    Returns the numbers that are out of range. `most_members` is how many elements the lists of the
    outermost object may have.
    """
    too_large: list[str] = []

    def note(number: str) -> None:
        if math.isinf(float(number)):
            too_large.append(number)

    # Values are not kept, except lists, whose length may matter.
    lists = json.JSONDecoder(
        object_pairs_hook=_lists_of,
        parse_float=note,
        parse_int=lambda number: note(number) if len(number) > MAX_PLAIN_DIGITS else None,
        parse_constant=_refuse_constant,
    ).decode(text)
    if most_members is not None and type(lists) is list:
        members = sum(len(found) for found in lists if type(found) is list)
        if members > most_members:
            raise TooLarge(f"{members:,} objects at once: send several requests")
    return too_large


def _lists_of(members: list[tuple[str, Any]]) -> list[list[Any]]:
    if len(members) > 1 and len({name for name, _ in members}) < len(members):
        names = [name for name, _ in members]
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise BadBody(f"the name {twice!r} appears twice in one object", at=twice)
    return [value for _, value in members if type(value) is list]


def _refuse_constant(name: str) -> Never:
    raise BadBody(f"{name} is not a number in JSON")
