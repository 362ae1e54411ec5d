"""When two errors are the same error: one rule for the live dead letters and for the lake.

Alike are errors of one exception, whose messages differ only in numbers, ids and quoted values, and
which came by the same way through the code.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator

QUOTED = "'…'"
"""What stands in place of a quoted value."""

BLANKS = (
    (r"'[^']*'|\"[^\"]*\"|`[^`]*`", QUOTED),
    (r"(?i)\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "…"),
    (r"(?i)\b0x[0-9a-f]+\b", "…"),
    (r"(?i)\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b", "…"),
    (r"\d+(\.\d+)*", "#"),
    (r"\s+", " "),
)
"""What is left out of a message, and what stands in its place; Java reads these patterns alike."""

LONGEST = 200
"""Characters of a message that count."""

FRAME = r'File "[^"]*?([^"/\\]+)", line \d+, in (\S+)'
"""One step of a traceback: file and function, without lines, which change with every release."""

MARK_LENGTH = 12

_BLANKS = [(re.compile(pattern, re.ASCII), blank) for pattern, blank in BLANKS]
_FRAME = re.compile(FRAME, re.ASCII)

_READ = 1000
"""Characters of a message that are compared with another's."""


def normalised(message: str) -> str:
    """A message without what differs from job to job.

    >>> normalised("no order 'o-7' at 0x7f3a, attempt 3")
    "no order '…' at …, attempt #"
    """
    for pattern, blank in _BLANKS:
        message = pattern.sub(blank, message)
    return message[:LONGEST].strip(" ")


class Wording:
    """What alike messages say: only what differs among them is left out.

    >>> str(Wording.of(["no key 'city' in order 7", "no key 'city' in order 8"]))
    "no key 'city' in order #"
    """

    def __init__(self, message: str) -> None:
        self._said = message
        self._pieces: list[tuple[str, str]] | None = None

    @classmethod
    def of(cls, messages: Iterable[str]) -> Wording:
        """Of at least one message."""
        first, *others = messages
        wording = cls(first)
        for message in others:
            wording.add(message)
        return wording

    def add(self, message: str) -> None:
        """One more message that is alike."""
        if self._pieces is None:
            if message == self._said:
                return
            self._pieces = list(_pieces(self._said))
        other = list(_pieces(message))
        if [blank for _, blank in other] != [blank for _, blank in self._pieces]:
            # They were alike as far as they count, and differ behind it.
            self._pieces = [(normalised(message),) * 2]
            return
        self._pieces = [
            (_common(mine, theirs, blank), blank)
            for (mine, blank), (theirs, _) in zip(self._pieces, other, strict=True)
        ]

    def __str__(self) -> str:
        if self._pieces is None:
            return self._said
        return "".join(text for text, _ in self._pieces).strip(" ")


def _common(mine: str, theirs: str, blank: str) -> str:
    if mine == theirs:
        return mine
    # A `KeyError` quotes all that it says: what is inside may be alike, too.
    inside = normalised(mine[1:-1])
    if blank == QUOTED and mine[0] == theirs[0] and inside == normalised(theirs[1:-1]):
        return f"{mine[0]}{inside}{mine[0]}"
    return blank


def _pieces(message: str) -> Iterator[tuple[str, str]]:
    """A message cut at what may differ: each piece, and what stands for it if it does."""
    cut = [(message[:_READ], "")]
    for pattern, blank in _BLANKS:
        cut = [piece for old in cut for piece in _cut(old, pattern, blank)]
    return ((text, blank or text) for text, blank in cut)


def _cut(piece: tuple[str, str], pattern: re.Pattern[str], blank: str) -> Iterator[tuple[str, str]]:
    text, known = piece
    if known:
        yield piece
        return
    end = 0
    for found in pattern.finditer(text):
        if found.start() > end:
            yield text[end : found.start()], ""
        yield found.group(), blank
        end = found.end()
    if end < len(text):
        yield text[end:], ""


def way(traceback: str) -> str:
    """The functions that a traceback passes.

    >>> way('File "shop/tasks.py", line 7, in send')
    'tasks.py:send'
    """
    return " > ".join(":".join(frame) for frame in _FRAME.findall(traceback))


def fingerprint(exception: str, message: str, traceback: str) -> str:
    """The same for errors that are alike."""
    said = "\n".join((exception, normalised(message), way(traceback)))
    return hashlib.sha256(said.encode()).hexdigest()[:MARK_LENGTH]
