"""Queues in the text of an option: names with commas between them, or a JSON list of any names."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from ackline.spark.option_text import is_json_list, parse_names

ALL_QUEUES = "*"
"""Names every queue, except in a JSON list, where it is a name like any other."""


def parse_queue_names(text: str) -> frozenset[str] | None:
    """The queues that a text names; None is all of them.

    >>> sorted(parse_queue_names("eu, us")), sorted(parse_queue_names('["eu,us"]'))
    (['eu', 'us'], ['eu,us'])
    >>> parse_queue_names("*") is None
    True
    """
    names = parse_names(text)
    return None if ALL_QUEUES in names and not is_json_list(text) else names


def queue_as_text(queue: str) -> str:
    """The shortest text that names this queue and no other."""
    return queue if parse_queue_names(queue) == frozenset({queue}) else _json_list([queue])


def queues_as_text(queues: Collection[str]) -> str:
    """The text for names that were given one by one; one of them may be `ALL`."""
    return ALL_QUEUES if ALL_QUEUES in queues else _json_list(queues)


def _json_list(queues: Collection[str]) -> str:
    return msgspec.json.encode(list(queues)).decode()
