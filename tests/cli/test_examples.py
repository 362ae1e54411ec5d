"""The examples run as they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import ackline
from tests.cli.conftest import ROOT, SOURCE


def test_the_app_runs_as_a_script(workdir):
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / "emails.py")],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    try:
        with ackline.open("sqlite:///ackline.db") as queues:
            queue = queues["email"]
            for event in queue.events(follow_for=15):
                if event.to is ackline.State.COMPLETED:
                    break
            assert queue.result("email-1", timeout=1) == {"sent": "ann@example.com"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()


def test_a_worker_serves_the_app(start, cli):
    process = start("worker", "examples.emails:app")
    process.wait_for("started on email")
    payload = '{"to": "ann", "seconds": 0}'
    done = cli("enqueue", "email", payload, "--kind", "welcome", "--wait", "10", "--json")
    assert done.document["result"] == {"sent": "ann"}
    dead = cli("enqueue", "email", "{}", "--kind", "digest", "--wait", "10")
    assert dead.code == 1
    assert "no articles to send" in dead.err
    assert "alive" in cli("workers", "email").out
    assert process.end(signal.SIGTERM).code == 0
