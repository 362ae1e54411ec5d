"""A line of an export says all that can be said about a job."""

from ackline.job import Options
from ackline.queue.lines import PAST, Line

OF_REQUEST = "request"
"""Knows the request that made a job, which nobody sends again to where a line goes."""


def test_a_line_has_every_option_of_a_job():
    assert {*Options.__struct_fields__} - {OF_REQUEST} <= {*Line.__struct_fields__} - PAST


def test_an_option_is_of_the_same_type_on_a_line():
    for name, kind in Options.__annotations__.items():
        if name == OF_REQUEST:
            continue
        assert Line.__annotations__[name] == kind, name
