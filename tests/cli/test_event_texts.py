"""What events are called in the terminal."""

from __future__ import annotations

import pytest

from ackline.cli.output.events import ACT_TEXTS, event_text
from ackline.core.events import Act, Event
from ackline.core.job import QueueKey, State


def test_every_act_has_a_text():
    assert set(ACT_TEXTS) == set(Act)


@pytest.mark.parametrize(
    ("act", "to", "text"),
    [
        (Act.FAIL, State.FAILED, "failed, attempt 2, moved to the DLQ: OSError: no"),
        (Act.FAIL, State.FAILING, "failed, attempt 2, retry scheduled: OSError: no"),
        (Act.EXPIRE, State.QUEUED, "lease expired, attempt 2, queued again: OSError: no"),
        (Act.EXPIRE, State.FAILED, "lease expired, attempt 2, moved to the DLQ: OSError: no"),
        (Act.ENQUEUE, State.SCHEDULED, "scheduled: OSError: no"),
        (Act.REDRIVE, State.QUEUED, "redriven, queued again: OSError: no"),
    ],
)
def test_an_event_says_what_follows(act, to, text):
    assert event_text(event(act, to)) == text


def test_a_move_names_the_other_queue():
    assert event_text(event(Act.MOVE, State.QUEUED)) == "moved from old: OSError: no"
    assert event_text(event(Act.MOVE, None)) == "moved to new: OSError: no"


def event(act: Act, to: State | None) -> Event:
    return Event(
        cursor="1.0",
        at=0.0,
        queue=QueueKey("default", "email"),
        act=act,
        id="email-1",
        kind="welcome",
        source=None,
        to=to,
        attempt=2,
        token=1,
        worker="worker-1",
        note="OSError: no",
        by="",
        moved_from="old",
        moved_to="new",
    )
