"""`ackline pipeline redrive --dry-run`: what would be done, and what would be refused."""

from __future__ import annotations

import json

import pytest

from ackline.cli.exits import CommandError
from ackline.cli.pipeline.bulk import Preview, job_text, print_preview, report_rejected
from ackline.cli.session import CommonOptions, Session
from ackline.spark.writing.rejected_rows import RejectedRow

REFUSED = RejectedRow(
    '{"tenant": "default", "queue": "email", "id": "order-1", "token": 3, "priority": 17}',
    "InvalidOption",
    "priority must be between 0 and 9, not 17",
)
JOB = {"queue": "email", "id": "order-1", "delay": 0.0, "priority": 17, "payload": None}


def preview(*rejected: RejectedRow) -> Preview:
    return Preview(
        matching=1,
        refused=len(rejected),
        groups=[{"queue": "email", "kind": "welcome", "error_type": "Timeout", "count": 1}],
        examples=[JOB],
        rejected=list(rejected),
    )


def test_a_preview_fails_if_the_redrive_would_fail(capsys):
    with pytest.raises(CommandError, match="1 job"):
        print_preview(Session(CommonOptions()), preview(REFUSED), None)

    output = capsys.readouterr()
    assert "1 rejected" in output.out
    assert "queue email, job order-1: priority" in output.err
    print_preview(Session(CommonOptions()), preview(REFUSED), "folder")
    print_preview(Session(CommonOptions()), preview(), None)


def test_json_has_examples_and_reasons(capsys):
    with pytest.raises(CommandError):
        print_preview(Session(CommonOptions(json=True)), preview(REFUSED), None)

    document = json.loads(capsys.readouterr().out)
    assert document["examples"] == [JOB]
    assert document["rejected"][0]["reason"] == REFUSED.reason


def test_the_redrive_and_its_preview_name_a_rejected_job_alike(capsys):
    with pytest.raises(CommandError, match="1 row"):
        report_rejected(Session(CommonOptions()), 1, [REFUSED], None, job_text)

    assert "queue email, job order-1: priority" in capsys.readouterr().err


def test_a_truncated_row_is_shown_as_it_is():
    truncated = RejectedRow('{"queue": "email", "id": "ord…', "InvalidOption", "no")

    assert job_text(truncated) == truncated.row
