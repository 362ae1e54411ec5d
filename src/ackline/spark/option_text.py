"""Parses the text of options: lists of names, and times."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from ackline.core.errors import ConfigError


def parse_names(text: str) -> frozenset[str]:
    """Names with commas between them, or a JSON list of any names.

    >>> sorted(parse_names("invoice, welcome")), sorted(parse_names('["a,b"]'))
    (['invoice', 'welcome'], ['a,b'])
    """
    if is_json_list(text):
        return frozenset(msgspec.json.decode(text, type=list[str]))
    return frozenset(name.strip() for name in text.split(","))


def is_json_list(text: str) -> bool:
    """Whether a text is a JSON list of names."""
    try:
        msgspec.json.decode(text, type=list[str])
    except msgspec.DecodeError:
        return False
    return True


def require_known(noun: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse an unknown name, and suggest a similar one."""
    existing = [str(name) for name in known]
    for name in names:
        if name not in existing:
            hint = suggest_similar(name, existing) or f"there are {', '.join(existing)}"
            raise ConfigError(f"there is no {noun} {name!r}: {hint}")


def suggest_similar(name: str, known: Iterable[str]) -> str | None:
    """A question that suggests the most similar known name; None if there is none.

    >>> suggest_similar("pagsize", ["table", "pageSize"])
    "did you mean 'pageSize'?"
    """
    spellings = {spelling.lower(): spelling for spelling in known}
    close = difflib.get_close_matches(name.lower(), spellings, n=1)
    return f"did you mean {spellings[close[0]]!r}?" if close else None


def suggest_or_list(name: str, known: Iterable[str]) -> str:
    """The known names, and the most similar one as a question.

    >>> suggest_or_list("JOBS", ["jobs", "dlq"])
    "did you mean 'jobs'? There are jobs, dlq"
    """
    names = [str(one) for one in known]
    suggestion, existing = suggest_similar(name, names), f"here are {', '.join(names)}"
    return f"{suggestion} T{existing}" if suggestion else f"t{existing}"


def require_ordered_times(
    after: str, since: float | None, before: str, until: float | None
) -> None:
    """Refuse a span that ends before it begins, because nothing would be read."""
    if since is not None and until is not None and since > until:
        raise ConfigError(f"{after} is later than {before}, so nothing can match: swap them")


def parse_time(option: str, text: str | None) -> float | None:
    """A time in seconds since 1970; without a zone it is UTC, on whichever machine it is read."""
    if text is None:
        return None
    try:
        return datetime.fromtimestamp(float(text), UTC).timestamp()
    except (ValueError, OverflowError, OSError):
        pass
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ConfigError(
            f"{option}={text!r} is not a time: write 2030-01-31T08:00+02:00, "
            "2030-01-31T08:00 for UTC, or seconds since 1970"
        ) from None
