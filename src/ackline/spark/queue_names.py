"""Queues in the text of an option: names with commas between them, or a JSON list of any names."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from ackline.spark.option_text import is_list, names_of

ALL = "*"
"""Names every queue, except in a JSON list, where it is a name like any other."""


def names_in(text: str) -> frozenset[str] | None:
    """The queues that a text names; None is all of them.

    >>> sorted(names_in("eu, us")), sorted(names_in('["eu,us"]')), names_in("*")
    (['eu', 'us'], ['eu,us'], None)
    """
    names = names_of(text)
    return None if ALL in names and not is_list(text) else names


def naming(queue: str) -> str:
    """The shortest text that names this queue and no other."""
    return queue if names_in(queue) == frozenset({queue}) else _json_list([queue])


def naming_given(queues: Collection[str]) -> str:
    """The text for names that were given one by one; one of them may be `ALL`."""
    return ALL if ALL in queues else _json_list(queues)


def _json_list(queues: Collection[str]) -> str:
    return msgspec.json.encode(list(queues)).decode()
