"""Any queue can be named in an option, whatever its name has in it."""

from __future__ import annotations

import pytest

from ackline.spark.errors import StreamBehind
from ackline.spark.queue_names import parse_queue_names, queue_as_text, queues_as_text
from tests.spark.support.query_options import read_options

ODD = ["eu,us", "*", " eu", '["eu"]', "[", "1", "null", 'a"b', "grün", "a\nb", ","]


def may_skip(skip_dropped, queue):
    options = {"store": "x", "table": "events", "skipDropped": skip_dropped}
    return read_options("readStream", options).may_skip(queue)


@pytest.mark.parametrize("queue", ["eu", *ODD])
def test_a_text_that_names_a_queue_names_no_other(queue):
    assert parse_queue_names(queue_as_text(queue)) == frozenset({queue})
    assert may_skip(queue_as_text(queue), queue)
    assert not may_skip(queue_as_text(queue), "us")


def test_a_plain_name_is_its_own_text():
    assert queue_as_text("email-eu.1") == "email-eu.1"


def test_commas_and_the_star_mean_what_they_meant():
    assert parse_queue_names("c, b") == frozenset({"b", "c"})
    assert may_skip("*", "a")
    assert may_skip("a,*", "b")


def test_names_given_one_by_one_are_kept_apart():
    assert parse_queue_names(queues_as_text(("eu,us", "a"))) == frozenset({"eu,us", "a"})
    assert parse_queue_names(queues_as_text(("eu,us", "*"))) is None


def test_an_error_says_how_to_name_its_queue():
    message = str(StreamBehind("eu,us", "1.0", "2.0"))

    assert 'skipDropped=["eu,us"],' in message
    assert "--skip-dropped eu,us`" in message.replace("'", "")
    assert "skipDropped=b," in str(StreamBehind("b", "1.0", "2.0"))
    assert "--skip-dropped 'a b'`" in str(StreamBehind("a b", "1.0", "2.0"))
