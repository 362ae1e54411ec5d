from __future__ import annotations

import pytest

from ackline import State


@pytest.fixture
def email(queues):
    return queues["email"]


def bury(queue, id: str, kind: str = "default") -> None:
    queue.enqueue(1, id=id, kind=kind)
    [job] = queue.claim()
    queue.bury(job, "no use")


def test_cancel(cli, email):
    email.enqueue(1, id="a")
    email.enqueue(1, id="b")
    email.claim()
    answer = cli("cancel", "email", "a", "b", "nope")
    assert answer.code == 1
    assert "a is running; its handler was asked to stop" in answer.out
    assert "b cancelled" in answer.out
    assert "'nope'" in answer.err


def test_a_finished_job_cannot_be_cancelled(cli, email):
    bury(email, "a")
    answer = cli("cancel", "email", "a", "--json")
    assert answer.code == 1
    assert answer.document["jobs"][0]["done"] is False


def test_redrive_some(cli, email):
    bury(email, "a")
    bury(email, "b")
    assert cli("redrive", "email", "a").out == "a queued again\n"
    assert cli("redrive", "email", "a").code == 1
    assert cli("redrive", "email", "b", "--delay", "1h").out == "b scheduled\n"


def test_redrive_all_of_a_kind(cli, email):
    bury(email, "a", "x")
    bury(email, "b", "y")
    assert cli("redrive", "email", "--all", "--kind", "x", "--json").document == {"redriven": 1}
    assert email.status("b").state is State.FAILED


@pytest.mark.parametrize("wrong", [[], ["a", "--all"], ["a", "--kind", "x"]])
def test_redrive_needs_ids_or_all(cli, email, wrong):
    email.enqueue(1)
    assert cli("redrive", "email", *wrong).code == 2


def test_purge_asks_first(cli, email):
    email.enqueue(1, kind="x")
    email.enqueue(1, kind="y")
    answer = cli("purge", "email", "--kind", "x")
    assert answer.code == 2
    assert "1 job of email (x)" in answer.err
    assert "--yes" in answer.err
    assert cli("purge", "email", "--kind", "x", "--yes").out == "1 job purged\n"
    assert cli("purge", "email", "--state", "queued", "-y", "--json").document == {"purged": 1}


def test_the_timeline_shows_a_delayed_redrive(cli, email):
    bury(email, "a")
    assert cli("redrive", "email", "a", "--delay", "10m").code == 0
    assert "redriven, scheduled" in cli("show", "email", "a").out


def test_drop_asks_first_and_refuses_unfinished_jobs(cli, email):
    email.enqueue(1)
    for options in ([], ["--yes"]):
        refused = cli("drop", "email", *options)
        assert refused.code == 1
        assert "--force" in refused.err
    assert "--yes" in cli("drop", "email", "--force").err
    assert cli("drop", "email", "-y", "--force").out == "email dropped; 1 job purged\n"
    assert cli("queues", "--json").document == {"queues": []}
    assert cli("drop", "email", "-y").code == 1
    assert "queue dropped" in cli("events").out


def test_pause_and_resume(cli, email):
    email.enqueue(1)
    assert "1 job queued" in cli("pause", "email").out
    assert email.claim() == []
    assert cli("resume", "email", "--json").document["paused"] is False
    assert len(email.claim()) == 1


def test_edit(cli, email):
    email.enqueue(1, id="a")
    answer = cli("edit", "email", "a", "--payload", '{"n": 2}', "--priority", "9", "--delay", "1m")
    assert answer.code == 0
    job = email.status("a")
    assert (job.payload, job.priority, job.state) == ({"n": 2}, 9, State.SCHEDULED)


def test_edit_needs_a_change(cli, email):
    email.enqueue(1, id="a")
    assert cli("edit", "email", "a").code == 2
    assert cli("edit", "email", "a", "--payload", "oops").code == 2
    email.claim()
    assert "it is processing" in cli("edit", "email", "a", "--priority", "1").err


def test_move(cli, email, queues):
    email.enqueue(1, id="a")
    assert cli("move", "email", "a", "other").out == "a moved to other\n"
    assert queues["other"].status("a").state is State.QUEUED
    assert cli("move", "email", "a", "other").code == 1


def test_the_journal_records_who_acted(cli, email):
    email.enqueue(1, id="a")
    cli("cancel", "email", "a")
    [event] = [e for e in email.events() if e.act == "cancel"]
    assert event.by.endswith("(cli)")
