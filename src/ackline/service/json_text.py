"""What JSON readers silently accept: duplicate names, and numbers out of range."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from ackline.service.problems import Refused

STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
"""A string; without a closing quote it goes to the end of the text, so each byte is met once."""

_MARKS = re.compile(
    rb'[^"{}\dNI-]*+(?:'  # what does not matter
    rb"(" + STRING + rb")(\s*+:)?"  # a string; a name, if a colon follows
    rb"|([{}])"
    rb"|(-?\d[\d.eE+-]*+)"
    rb"|(-?(?:NaN|Infinity))"
    rb"|.|\Z)",
    re.DOTALL,
)
_STRING, _NAME, _BRACE, _NUMBER, _CONSTANT = range(1, 6)

LONG_NUMBER = 300
"""Characters; a longer number may be too large for its readers."""


class BadBody(Refused):
    """A body that is not what this route reads."""

    type = "bad-body"


class Seen(NamedTuple):
    """What was seen in a text."""

    numbers: list[bytes]
    """Those that may be out of range."""
    members: int
    """Objects inside the outermost one, but not inside one of those."""


def look_through(body: bytes) -> Seen:
    """Refuse duplicate names in one object, and NaN; other invalid JSON may pass.

    It goes in small steps of Python code, so that other threads can run meanwhile.
    """
    numbers: list[bytes] = []
    objects: list[set[bytes]] = []
    members = 0
    for mark in _MARKS.finditer(body):
        match mark.lastindex:
            case 2 if objects:
                _add(mark[_STRING], objects[-1])
            case 3 if mark[_BRACE] == b"{":
                members += len(objects) == 1
                objects.append(set())
            case 3 if objects:
                objects.pop()
            case 4 if _may_be_too_large(mark[_NUMBER]):
                numbers.append(mark[_NUMBER])
            case 5:
                raise BadBody(f"{mark[_CONSTANT].decode()} is not a number in JSON")
            case _:
                pass
    return Seen(numbers, members)


def _add(name: bytes, names: set[bytes]) -> None:
    if b"\\" in name:
        name = msgspec.json.encode(msgspec.json.decode(name))
    if name in names:
        twice = msgspec.json.decode(name)
        raise BadBody(f"the name {twice!r} appears twice in one object", at=twice)
    names.add(name)


def _may_be_too_large(number: bytes) -> bool:
    return len(number) > LONG_NUMBER or b"e" in number or b"E" in number
