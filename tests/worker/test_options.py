"""Options of a worker that cannot work are refused when it is made, not at the first job."""

from __future__ import annotations

import math
from typing import Any

import pytest

import ackline
from ackline import ConfigError, Hooks, InvalidName, InvalidOption
from ackline.worker import Worker


def refuse(job: object) -> None: ...


async def refuse_async(job: object) -> None: ...


@pytest.mark.parametrize(
    ("option", "value", "error", "words"),
    [
        ("concurrency", 0, ConfigError, "a whole number, 1 or more, not 0"),
        ("concurrency", 1.5, ConfigError, "a whole number, 1 or more, not 1.5"),
        ("concurrency", "4", ConfigError, "a whole number, 1 or more, not '4'"),
        ("concurrency", True, ConfigError, "a whole number, 1 or more, not True"),
        ("weights", 3, ConfigError, "one number above 0 for each queue, not 3"),
        ("weights", [1, 2], ConfigError, "one number above 0 for each queue"),
        ("weights", ["a"], ConfigError, "one number above 0 for each queue"),
        ("weights", [0], ConfigError, "one number above 0 for each queue"),
        ("weights", [math.nan], ConfigError, "one number above 0 for each queue"),
        ("grace", None, InvalidOption, "a number of seconds, not None"),
        ("grace", "x", InvalidOption, "0 to 315360000 seconds, not 'x'"),
        ("grace", -1, InvalidOption, "0 to 315360000 seconds, not -1"),
        ("heartbeat_ttl", None, InvalidOption, "a number of seconds, not None"),
        ("heartbeat_ttl", 0.5, InvalidOption, "at least 1 seconds, not 0.5"),
        ("id", 5, InvalidName, "the worker's id must be a str, not int"),
        ("id", "", InvalidName, "1 to 512 bytes"),
        ("id", "\ud800", InvalidName, "not valid Unicode"),
        ("id", "x" * 600, InvalidName, "1 to 512 bytes"),
        ("hooks", [refuse], ConfigError, r"must be ackline.Hooks\(before=\[…\], after=\[…\]\)"),
        ("hooks", None, ConfigError, "must be ackline.Hooks"),
    ],
)
def test_an_invalid_option_is_refused(
    option: str, value: Any, error: type[Exception], words: str
) -> None:
    queue = ackline.open("memory://")["work"]
    queue.handler(lambda job: None)
    with pytest.raises(error, match=words):
        Worker(queue, **{option: value})


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("value", [refuse, [5], None, "words", [refuse_async]])
def test_hooks_are_lists_of_plain_functions(when: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=when):
        Hooks(**{when: value})


def test_control_a_tuple_of_anything_that_can_be_called() -> None:
    assert Hooks(before=(refuse, print)).before == (refuse, print)
