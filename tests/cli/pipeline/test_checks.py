"""Mistakes in a command of the pipeline are found before Spark starts, which takes seconds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ackline.cli.exits import CommandError
from ackline.cli.pipeline import audit, bulk, fleet, report, run

HANDLERS = """
import ackline

queue = ackline.open("memory://")["email"]


@queue.handler("welcome")
def welcome(job):
    pass
"""


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch, queues):
    for module in (audit, bulk, run, report, fleet):
        monkeypatch.setattr(module, "start_spark", lambda *_: pytest.fail("Spark has started"))
    queues["email"].enqueue(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["redrive", "--where", "true", "--set", "foo=1"],
            "only payload and priority of a failed job can be set",
        ),
        (["load", "rows.json", "--set", "foo=1"], "a job has no 'foo'"),
        (["load", "nosuch.json"], "no such file: nosuch.json"),
        (["load", "_rows.json"], "rename it"),
        (["load", "rows.txt"], "add --format"),
        (["load", "rows.json", "--rejected", "rows.txt"], "cannot write to rows.txt"),
        (["report", "--lake", "nosuch"], "there is no lake at"),
        (["audit", "--lake", "nosuch"], "there is no lake at"),
        (["report", "--lake", "x", "--html", "nodir/y.html"], "there is no folder nodir"),
        (["report", "--lake", "x", "--html", "."], ". is a folder: choose a file"),
        (["export", "jobs", "rows.txt/x"], "rows.txt is a file; choose another folder"),
        (["run", "--lake", "rows.txt"], "rows.txt is a file; choose another folder"),
        (["run", "--lake", "x", "--delta", "rows.txt"], "cannot write to rows.txt"),
        (
            ["run", "--lake", "x", "--slo", "eu=0"],
            "--slo eu=0: write a duration above 0, such as 5s",
        ),
        (["run", "--lake", "x", "--keep", "0s"], "--keep 0: write a duration above 0, such as 90d"),
        (["run", "--lake", "x", "--store", "memory://"], "memory:// lives in one process"),
        (["work", "handlers_in_memory:queue"], "each executor would have for itself"),
    ],
)
def test_invalid_arguments_are_rejected_before_spark_starts(
    cli, workdir, monkeypatch, arguments, message
):
    for name in ("rows.json", "rows.txt", "_rows.json"):
        (workdir / name).write_text("1")
    (workdir / "handlers_in_memory.py").write_text(HANDLERS)
    monkeypatch.syspath_prepend(workdir)

    answer = cli("pipeline", *arguments)

    assert answer.code == 2
    assert message in answer.err


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no such place")
@pytest.mark.parametrize("arguments", [["export", "jobs", "/proc/x"], ["run", "--lake", "/proc/x"]])
def test_an_unwritable_file_system_is_found_by_trying(cli, arguments):
    answer = cli("pipeline", *arguments)

    assert answer.code == 2
    assert "/proc/x: /proc: No such file or directory" in answer.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("path", ["closed", "closed/x"])
def test_a_folder_without_write_permission_is_rejected(cli, workdir, path):
    (workdir / "closed").mkdir(mode=0o500)

    answer = cli("pipeline", "export", "jobs", path)

    assert answer.code == 2
    assert f"{path}: {workdir}/closed: Permission denied" in answer.err


def test_skip_dropped_warns_of_an_unknown_queue(cli, queues, monkeypatch):
    def start(_session, _master):
        raise CommandError("as far as this")

    monkeypatch.setattr(run, "start_spark", start)
    queues["old"].enqueue(1)
    queues["old"].drop(force=True)
    skip = [f"--skip-dropped={name}" for name in ("nosuch", "email", "old", "*")]

    output = cli("pipeline", "run", "--lake", "x", *skip).err

    assert "--skip-dropped nosuch" in output
    assert output.count("--skip-dropped") == 1
