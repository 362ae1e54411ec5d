"""Ctrl-C: Java ends with the command, whenever it comes."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import subprocess
from typing import Any

import pytest

from ackline.spark.runtime.interrupts import InterruptHandler

# Not typed: what is looked at here is what these modules have imported.
java_gateway: Any = importlib.import_module("pyspark.java_gateway")
context: Any = importlib.import_module("pyspark.core.context")


@pytest.fixture(autouse=True)
def _as_before():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
    logging.disable(logging.NOTSET)


@pytest.fixture
def start_java():
    """Starts what PySpark would take for Java."""
    started = []

    def start():
        started.append(java_gateway.Popen(["sleep", "60"], stdin=subprocess.PIPE))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_while_java_starts(start_java):
    ctrl_c, seen = InterruptHandler(), []

    def start():
        seen.append(start_java())
        press()
        # An interrupt here would leave Java behind: PySpark notices that it has ended.
        assert seen[0].wait(30) == -signal.SIGTERM
        raise RuntimeError("JAVA_GATEWAY_EXITED")

    with pytest.raises(KeyboardInterrupt), ctrl_c.installed():
        start()

    assert ctrl_c.pressed


def test_just_before_java_starts(start_java):
    java = []

    def start():
        press()
        java.append(start_java())

    with pytest.raises(KeyboardInterrupt), InterruptHandler().installed():
        start()

    assert java[0].wait(30) == -signal.SIGTERM


def test_while_spark_works(start_java):
    with InterruptHandler().installed():
        java = start_java()

    with pytest.raises(KeyboardInterrupt):
        press()

    assert java.wait(30) == -signal.SIGTERM


def test_the_scripts_that_start_java_end_too():
    with InterruptHandler().installed():
        script = java_gateway.Popen(
            ["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True
        )
    launcher = int(script.stdout.readline())

    with pytest.raises(KeyboardInterrupt):
        press()

    # The output ends when nobody has it open any more.
    assert script.communicate(timeout=30) == ("", None)
    assert launcher != script.pid


def test_a_second_time_does_not_wait_for_java(start_java):
    with InterruptHandler().installed():
        # It takes its time to end.
        java = java_gateway.Popen(
            ["sh", "-c", "trap '' TERM; echo; exec sleep 60"], stdout=subprocess.PIPE
        )
    java.stdout.readline()

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            press()

    assert java.wait(30) == -signal.SIGKILL
    java.communicate()


def test_a_java_that_could_not_be_used_ends(start_java):
    java = []

    def start():
        java.append(start_java())
        raise RuntimeError("no port")

    with pytest.raises(RuntimeError, match="no port"), InterruptHandler().installed():
        start()

    assert java[0].wait(30) == -signal.SIGTERM


def test_a_terminal_does_not_send_it_to_sparks_workers(start_java):
    with InterruptHandler().installed():
        java = start_java()

    assert os.getpgid(java.pid) == java.pid


def test_pyspark_does_not_hear_it():
    with InterruptHandler().installed():
        ours = signal.getsignal(signal.SIGINT)
        context.signal.signal(context.signal.SIGINT, lambda *_: None)

        assert signal.getsignal(signal.SIGINT) is ours
    assert context.signal is signal


def test_if_it_is_ignored_it_stays_so():
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    with InterruptHandler().installed():
        pass

    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
