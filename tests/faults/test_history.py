"""A killed process leaves a complete history."""

import subprocess
import sys

from tests.harness.faults.checks.history import (
    History,
    Phase,
    Step,
    StepType,
    first_step,
    is_alive,
    path_of,
    read_all,
    read_one,
)

STARTED = Step(type=StepType.PROCESS, phase=Phase.OK, act="started")

WRITER = """
import os, signal, sys
from pathlib import Path
from tests.harness.faults.checks.history import History, Phase, Step, StepType
history = History(Path(sys.argv[1]), "killed")
for number in range(100):
    history.write(Step(type=StepType.DELIVERY, phase=Phase.INVOKE, id=str(number)))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_every_step(tmp_path):
    command = [sys.executable, "-c", WRITER, str(tmp_path)]

    assert subprocess.run(command, check=False).returncode == -9
    steps = read_one(path_of(tmp_path, "killed"))
    assert [step.id for step in steps] == [str(number) for number in range(100)]
    assert not is_alive(tmp_path, "killed")


def test_a_torn_last_line_is_ignored(tmp_path):
    history = History(tmp_path, "one")
    history.write(STARTED)
    with path_of(tmp_path, "one").open("ab") as file:
        file.write(b'{"type":"delivery","pha')

    assert [step.act for step in read_all(tmp_path)] == ["started"]
    history.close()


def test_a_locked_history_means_a_running_process(tmp_path):
    history = History(tmp_path, "one")
    history.write(STARTED)

    assert is_alive(tmp_path, "one")
    first = first_step(path_of(tmp_path, "one"))
    assert first is not None
    assert first.act == "started"
    history.close()
    assert not is_alive(tmp_path, "one")
    assert not is_alive(tmp_path, "never started")
