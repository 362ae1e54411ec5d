"""How deeply a body may be nested, so that every reader can parse it later."""

from __future__ import annotations

import re

from ackline.service.json_text import STRING
from ackline.service.problems import Refused

DEEPEST = 100
"""Objects and arrays inside one another. Recursive readers give up at some depth."""


class TooDeep(Refused):
    """A body that is nested too deeply."""

    type = "too-deep"

    def __init__(self, place: int | None = None) -> None:
        where = "" if place is None else f", at byte {place}"
        super().__init__(f"the body is nested deeper than {DEEPEST} levels{where}")


_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_ESCAPES = re.compile(rb"\\.", re.DOTALL)
_TOKENS = re.compile(STRING + rb"|[\[{]|[\]}]", re.DOTALL)


def require_shallow(body: bytes) -> None:
    """Refuse a JSON text that is nested too deeply; text that is not JSON may pass.

    Split at quotes, every second piece is outside of strings. Of the brackets in these, the
    innermost pairs are dropped, level by level: that is much faster than looking at each one.
    """
    plain = _ESCAPES.sub(b"", body) if b"\\" in body else body
    left = b"".join(plain.split(b'"')[::2]).translate(None, _OTHERS)
    for _ in range(DEEPEST):
        shorter = left.replace(b"[]", b"").replace(b"{}", b"")
        if not shorter:
            return
        if len(shorter) > len(left) * 7 // 8:
            break  # many levels, or pairs that do not match
        left = shorter
    _walk(body)


def _walk(body: bytes) -> None:
    depth = 0
    for token in _TOKENS.finditer(body):
        byte = body[token.start() : token.start() + 1]
        if byte in b"[{":
            depth += 1
        elif byte in b"]}":
            depth -= 1
        if depth > DEEPEST:
            raise TooDeep(token.start())
