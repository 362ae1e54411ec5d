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
"""What is replaced in a message, and by what; the patterns are valid in Java, too."""

MAX_MESSAGE = 200
"""Characters of a message that are considered."""

TRACEBACK_FRAME = r'File "[^"]*?([^"/\\]+)", line \d+, in (\S+)'
"""One step of a traceback: file and function; line numbers change with every release."""

FINGERPRINT_LENGTH = 12

_PLACEHOLDERS = [
    (re.compile(pattern, re.ASCII), placeholder) for pattern, placeholder in PLACEHOLDERS
]
_TRACEBACK_FRAME = re.compile(TRACEBACK_FRAME, re.ASCII)

_MAX_COMPARED = 1000
"""Characters of a message that are compared with another's."""


def normalize_message(message: str) -> str:
    """Replace what differs from job to job in a message.

    >>> normalize_message("no order 'o-7' at 0x7f3a, attempt 3")
    "no order '…' at …, attempt #"
    """
    for pattern, placeholder in _PLACEHOLDERS:
        message = pattern.sub(placeholder, message)
    return message[:MAX_MESSAGE].strip(" ")


class CommonMessage:
    """What similar messages have in common: only what differs is replaced.

    >>> str(CommonMessage.of(["no key 'city' in order 7", "no key 'city' in order 8"]))
    "no key 'city' in order #"
    """

    def __init__(self, message: str) -> None:
        self._first = message
        self._parts: list[tuple[str, str]] | None = None

    @classmethod
    def of(cls, messages: Iterable[str]) -> CommonMessage:
        """Return what these messages, at least one, have in common."""
        first, *others = messages
        common = cls(first)
        for message in others:
            common.add(message)
        return common

    def add(self, message: str) -> None:
        """Add one more similar message."""
        if self._parts is None:
            if message == self._first:
                return
            self._parts = list(_split_message(self._first))
        other = list(_split_message(message))
        if [placeholder for _, placeholder in other] != [
            placeholder for _, placeholder in self._parts
        ]:
            # They are similar in their first `MAX_MESSAGE` characters, and differ after these.
            self._parts = [(normalize_message(message),) * 2]
            return
        self._parts = [
            (_common(left, right, placeholder), placeholder)
            for (left, placeholder), (right, _) in zip(self._parts, other, strict=True)
        ]

    def __str__(self) -> str:
        if self._parts is None:
            return self._first
        return "".join(text for text, _ in self._parts).strip(" ")


def _common(left: str, right: str, placeholder: str) -> str:
    if left == right:
        return left
    # A `KeyError` quotes its whole message: the texts inside the quotes may be similar, too.
    unquoted = normalize_message(left[1:-1])
    if (
        placeholder == QUOTED_PLACEHOLDER
        and left[0] == right[0]
        and unquoted == normalize_message(right[1:-1])
    ):
        return f"{left[0]}{unquoted}{left[0]}"
    return placeholder


def _split_message(message: str) -> Iterator[tuple[str, str]]:
    """Split a message at the parts that may differ: each piece, and its placeholder if any."""
    parts = [(message[:_MAX_COMPARED], "")]
    for pattern, placeholder in _PLACEHOLDERS:
        parts = [piece for old in parts for piece in _split(old, pattern, placeholder)]
    return ((text, placeholder or text) for text, placeholder in parts)


def _split(
    piece: tuple[str, str], pattern: re.Pattern[str], placeholder: str
) -> Iterator[tuple[str, str]]:
    text, known = piece
    if known:
        yield piece
        return
    end = 0
    for match in pattern.finditer(text):
        if match.start() > end:
            yield text[end : match.start()], ""
        yield match.group(), placeholder
        end = match.end()
    if end < len(text):
        yield text[end:], ""


def call_path(traceback: str) -> str:
    """The functions that a traceback passes through.

    >>> call_path('File "shop/tasks.py", line 7, in send')
    'tasks.py:send'
    """
    return " > ".join(":".join(frame) for frame in _TRACEBACK_FRAME.findall(traceback))


def fingerprint(exception: str, message: str, traceback: str) -> str:
    """A hash that is the same for similar errors."""
    identity = "\n".join((exception, normalize_message(message), call_path(traceback)))
    return hashlib.sha256(identity.encode()).hexdigest()[:FINGERPRINT_LENGTH]
