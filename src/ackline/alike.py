"""When two errors are the same error: one rule for the live dead letters and for the lake.

Alike are errors of one exception, whose messages differ only in numbers, ids and quoted values, and
which came by the same way through the code.
"""

from __future__ import annotations

import hashlib
import re

BLANKS = (
    (r"'[^']*'|\"[^\"]*\"|`[^`]*`", "'…'"),
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


def normalised(message: str) -> str:
    """A message without what differs from job to job.

    >>> normalised("no order 'o-7' at 0x7f3a, attempt 3")
    "no order '…' at …, attempt #"
    """
    for pattern, blank in _BLANKS:
        message = pattern.sub(blank, message)
    return message[:LONGEST].strip(" ")


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
