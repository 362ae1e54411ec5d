"""Logging for people and for programs, safe from forged lines and leaked secrets."""

from __future__ import annotations

import json
import logging
import re
from typing import Literal

LogFormat = Literal["text", "json"]

JOB_FIELDS = ("job", "kind", "queue", "attempt", "duration", "worker", "outcome")
"""What lines about jobs have as `extra`."""

_SECRETS = re.compile(
    r"""
      (?P<url>\b[a-z][a-z0-9+.-]*://[^\s/@:]*:)[^\s/@]+(?=@)    # a password in a URL
    | (?P<bearer>\bbearer\s+)[^\s'",;]+                         # a caller's token
    | (?P<key>\back_[0-9a-f]{16}_)[\w-]+                        # an API key
    | (?P<webhook>\bwhsec_)[\w+/=-]+                            # the secret of a webhook
    | \beyJ[\w-]+\.[\w-]+\.[\w-]*                               # a token (JWT)
    | (?P<field>\b(?:ticket|token|password|secret)["']?[=:]\s?["']?)[^\s'"&,;)}]+
    """,
    re.IGNORECASE | re.VERBOSE,
)


def redact_secrets(text: str) -> str:
    """Remove what looks like a secret from a text: the last line of defence, not the first.

    >>> redact_secrets("redis://ann:hush@db/0 refused Bearer abc")
    'redis://ann:…@db/0 refused Bearer …'
    """
    return _SECRETS.sub(_redact, text)


def _redact(match: re.Match[str]) -> str:
    return f"{match[match.lastgroup] if match.lastgroup else ''}…"


def escape_control_characters(text: str) -> str:
    r"""Escape control characters, so that a text cannot pass for several log lines.

    >>> escape_control_characters("ann\r\n12:00 ERROR all is lost")
    'ann\\r\\n12:00 ERROR all is lost'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class TextLines(logging.Formatter):
    """For people: time, process, level, message, and an indented traceback."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(process)d %(levelname)-7s %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - its name
        record.message = escape_control_characters(redact_secrets(record.message))
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802 - its name
        lines = redact_secrets(super().formatException(ei)).splitlines()  # type: ignore[arg-type]
        return "\n".join(f"    {escape_control_characters(line)}" for line in lines)


class JsonLines(logging.Formatter):
    """For programs: one JSON object per line, with the fields of `JOB_FIELDS` that it has."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "at": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": redact_secrets(record.getMessage()),
        }
        for name in JOB_FIELDS:
            if (value := getattr(record, name, None)) is not None:
                fields[name] = redact_secrets(value) if isinstance(value, str) else value
        if record.exc_info:
            fields["error"] = redact_secrets(self.formatException(record.exc_info))
        return json.dumps(fields)


def configure_logging(log_format: LogFormat, *, verbose: bool = False) -> None:
    """Log to standard error, one line each."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # These libraries log every URL that they call, which would include those of webhooks.
    for library in ("httpcore", "httpx"):
        logging.getLogger(library).setLevel(logging.WARNING)
    logging.getLogger("ackline").setLevel(logging.DEBUG if verbose else logging.INFO)
