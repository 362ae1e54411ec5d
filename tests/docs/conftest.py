import pytest

from ackline import Worker
from ackline.core.job import State
from tests.waiting import until

TIMEOUT = 10.0


@pytest.fixture
def working_directory(tmp_path, monkeypatch):
    """An empty working directory; a worker that runs in it stops when no job is left."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ACKLINE_STORE", raising=False)
    monkeypatch.setattr(Worker, "run", run_until_idle)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def run_until_idle(worker):
    worker.start()
    try:
        until(lambda: not any(is_busy(queue) for queue in worker.queues), TIMEOUT)
    finally:
        worker.stop()


def is_busy(queue):
    counts = queue.counts()
    return any(counts[state] for state in (State.QUEUED, State.PROCESSING, State.FAILING))


@pytest.fixture
def program():
    """The command line interface with all commands."""
    from ackline.cli.app import app

    return app.load()
