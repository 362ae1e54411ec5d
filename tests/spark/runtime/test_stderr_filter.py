"""Java's standard error: only what means something gets through."""

from __future__ import annotations

import os
import subprocess

import pytest

from ackline.spark.runtime.stderr_filter import IGNORED_LINES, filtered_stderr


def say(*lines):
    text = "\n".join(lines)
    subprocess.run(["sh", "-c", 'printf "%s\\n" "$1" >&2', "sh", text], check=True)


def test_only_noise_is_kept_back(capfd):
    def start():
        say(IGNORED_LINES[0].decode(), "out of memory", IGNORED_LINES[1].decode() + " where …")
        raise ChildProcessError

    with pytest.raises(ChildProcessError), filtered_stderr():
        start()

    assert capfd.readouterr().err == "out of memory\n"


def test_afterwards_standard_error_is_as_before(capfd):
    before = os.fstat(2).st_ino
    with filtered_stderr():
        assert os.fstat(2).st_ino != before

    assert os.fstat(2).st_ino == before
    say(IGNORED_LINES[0].decode())
    assert capfd.readouterr().err == IGNORED_LINES[0].decode() + "\n"


def test_after_ctrl_c_all_is_kept_back(capfd):
    pressed = []

    def start():
        say("out of memory")
        pressed.append(True)
        say("[INTERNAL_ERROR_STORAGE] block not found")
        raise ChildProcessError

    with pytest.raises(ChildProcessError), filtered_stderr(lambda: len(pressed) > 0):
        start()

    assert "INTERNAL_ERROR" not in capfd.readouterr().err
