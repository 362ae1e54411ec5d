from __future__ import annotations

import click
import pytest

from ackline.cli.options import values
from ackline.cli.output.text import duration
from ackline.core import retry


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5", 1.5),
        ("500ms", 0.5),
        ("30 s", 30),
        ("5m", 300),
        ("2h", 7200),
        ("1d", 86400),
    ],
)
def test_durations_are_parsed(text, seconds):
    assert values.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "1w", "s", "1h30", "nan", "inf"])
def test_invalid_durations_are_rejected(text):
    with pytest.raises(click.BadParameter):
        values.seconds(text)


@pytest.mark.parametrize(
    ("text", "backoff"),
    [
        ("1,5,30", retry.schedule([1, 5, 30])),
        ("10", retry.fixed(10)),
        ("fixed:3", retry.fixed(3)),
        ("linear:2:60", retry.linear(2, cap=60)),
        ("linear:2", retry.linear(2)),
        ("exponential:1:2:600", retry.exponential(1, factor=2, cap=600)),
        ("exponential:1:full", retry.exponential(1, jitter="full")),
        ("1,2:equal", retry.schedule([1, 2], jitter="equal")),
    ],
)
def test_backoffs_are_parsed(text, backoff):
    assert values.backoff(text) == backoff


@pytest.mark.parametrize("text", ["", "x", "fixed", "fixed:1:2", "exponential:1:2:3:4", "1,,2"])
def test_invalid_backoffs_are_rejected(text):
    with pytest.raises(click.BadParameter):
        values.backoff(text)


def test_weights_are_parsed():
    assert values.weights("3,1, 0.5") == (3, 1, 0.5)


@pytest.mark.parametrize("text", ["", "a", "1,", "1,0", "1,-1", "nan", "inf,1"])
def test_invalid_weights_are_rejected(text):
    with pytest.raises(click.BadParameter):
        values.weights(text)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0.00 s"),
        (0.254, "0.25 s"),
        (3.21, "3.2 s"),
        (59, "59 s"),
        (300, "5.0 min"),
        (7300, "2.0 h"),
    ],
)
def test_durations_as_text(seconds, words):
    assert duration(seconds) == words


def test_long_durations_as_text():
    assert duration(100 * 86400) == "100 d"
