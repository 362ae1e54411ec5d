"""`ackline pipeline run --continuous`: the first Ctrl-C finishes the batch, the second does not."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import pytest

import ackline.spark.lake.running
from ackline.cli.pipeline import run as command


@pytest.fixture
def continuous(cli, queues, monkeypatch):
    """Runs the command with a function in the place of Spark's work."""

    def call(act):
        run = SimpleNamespace(for_ever=lambda _report, stopping: act(stopping))
        spark = SimpleNamespace(stop=lambda: None)
        monkeypatch.setattr(command, "start_spark", lambda *_: spark)
        monkeypatch.setattr(ackline.spark.lake.running, "Run", lambda *_: run)
        return cli("pipeline", "run", "--lake", "lake", "--continuous")

    return call


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_finishes_the_batch(continuous, number):
    finished = []

    def act(stopping):
        os.kill(os.getpid(), number)
        assert stopping.wait(30)
        finished.append(True)

    answer = continuous(act)

    assert answer.code == 0
    assert finished
    assert "stopping after the current batch" in answer.err


def test_a_second_signal_stops_immediately(continuous):
    def act(stopping):
        os.kill(os.getpid(), signal.SIGINT)
        assert stopping.wait(30)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("it went on")

    answer = continuous(act)

    assert answer.code == 130
    assert "stopped" in answer.err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_ignored_sigint_stays_ignored(continuous):
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def act(stopping):
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN

    assert continuous(act).code == 0
