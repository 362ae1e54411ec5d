"""Grouping of similar errors: one rule for the DLQ and for the lake.

Two errors are similar if they have the same exception type and call path, and their
messages differ only in numbers, ids and quoted values.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator

QUOTED_PLACEHOLDER = "'…'"
"""Placeholder for a quoted value."""

# In place of \b: which letters other than those of ASCII are part of a word differs between
# Python, Java, and Java's versions.
_WORD_START, _WORD_END = r"(?<![0-9A-Za-z_])", r"(?![0-9A-Za-z_])"

PLACEHOLDERS = (
    (r"'[^']*'|\"[^\"]*\"|`[^`]*`", QUOTED_PLACEHOLDER),
    (rf"(?i){_WORD_START}[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}{_WORD_END}", "…"),
    (rf"(?i){_WORD_START}0x[0-9a-f]+{_WORD_END}", "…"),
    (rf"(?i){_WORD_START}(?=[0-9a-f]*\d)[0-9a-f]{{12,}}{_WORD_END}", "…"),
    (r"\d+(\.\d+)*", "#"),
    (r"\s+", " "),
)
"""What is removed from a message, and its placeholder; the patterns are valid in Java, too."""

MAX_MESSAGE = 200
"""Characters of a message that are considered."""

TRACEBACK_FRAME = r'File "[^"]*?([^"/\\]+)", line \d+, in (\S+)'
"""One step of a traceback: file and function; line numbers change with every release."""

FINGERPRINT_LENGTH = 12

_PLACEHOLDERS = [(re.compile(pattern, re.ASCII), blank) for pattern, blank in PLACEHOLDERS]
_TRACEBACK_FRAME = re.compile(TRACEBACK_FRAME, re.ASCII)

_MAX_COMPARED = 1000
"""Characters of a message that are compared with another's."""


def normalize_message(message: str) -> str:
    """Replace what differs from job to job in a message.

    >>> normalise("no order 'o-7' at 0x7f3a, attempt 3")
    "no order '…' at …, attempt #"
    """
    for pattern, blank in _PLACEHOLDERS:
        message = pattern.sub(blank, message)
    return message[:MAX_MESSAGE].strip(" ")


class CommonMessage:
    """The common wording of similar messages: only what differs is replaced.

    >>> str(Wording.of(["no key 'city' in order 7", "no key 'city' in order 8"]))
    "no key 'city' in order #"
    """

    def __init__(self, message: str) -> None:
        self._first = message
        self._parts: list[tuple[str, str]] | None = None

    @classmethod
    def of(cls, messages: Iterable[str]) -> CommonMessage:
        """Return the common wording of at least one message."""
        first, *others = messages
        wording = cls(first)
        for message in others:
            wording.add(message)
        return wording

    def add(self, message: str) -> None:
        """Add one more similar message."""
        if self._parts is None:
            if message == self._first:
                return
            self._parts = list(_pieces(self._first))
        other = list(_pieces(message))
        if [blank for _, blank in other] != [blank for _, blank in self._parts]:
            # They are alike in their first `LONGEST` characters, and differ after these.
            self._parts = [(normalize_message(message),) * 2]
            return
        self._parts = [
            (_common(mine, theirs, blank), blank)
            for (mine, blank), (theirs, _) in zip(self._parts, other, strict=True)
        ]

    def __str__(self) -> str:
        if self._parts is None:
            return self._first
        return "".join(text for text, _ in self._parts).strip(" ")


def _common(mine: str, theirs: str, blank: str) -> str:
    if mine == theirs:
        return mine
    # A `KeyError` quotes its whole message: the texts inside the quotes may be alike, too.
    inside = normalize_message(mine[1:-1])
    if (
        blank == QUOTED_PLACEHOLDER
        and mine[0] == theirs[0]
        and inside == normalize_message(theirs[1:-1])
    ):
        return f"{mine[0]}{inside}{mine[0]}"
    return blank


def _pieces(message: str) -> Iterator[tuple[str, str]]:
    """Split a message at the parts that may differ: each piece, and its placeholder if any."""
    cut = [(message[:_MAX_COMPARED], "")]
    for pattern, blank in _PLACEHOLDERS:
        cut = [piece for old in cut for piece in _cut(old, pattern, blank)]
    return ((text, blank or text) for text, blank in cut)


def _cut(piece: tuple[str, str], pattern: re.Pattern[str], blank: str) -> Iterator[tuple[str, str]]:
    text, known = piece
    if known:
        yield piece
        return
    end = 0
    for match in pattern.finditer(text):
        if match.start() > end:
            yield text[end : match.start()], ""
        yield match.group(), blank
        end = match.end()
    if end < len(text):
        yield text[end:], ""


def call_path(traceback: str) -> str:
    """The functions that a traceback passes through.

    >>> way('File "shop/tasks.py", line 7, in send')
    'tasks.py:send'
    """
    return " > ".join(":".join(frame) for frame in _TRACEBACK_FRAME.findall(traceback))


def fingerprint(exception: str, message: str, traceback: str) -> str:
    """A hash that is the same for similar errors."""
    identity = "\n".join((exception, normalize_message(message), call_path(traceback)))
    return hashlib.sha256(identity.encode()).hexdigest()[:FINGERPRINT_LENGTH]
