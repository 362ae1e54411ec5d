"""`manage.py ackline_worker`, in a project of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ackline
from ackline.core.job import State
from tests.waiting import until

SETTINGS = """
SECRET_KEY = "secret"
USE_TZ = True
INSTALLED_APPS = ["ackline.django"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.sqlite3"}}
TASKS = {
    "default": {
        "BACKEND": "ackline.django.backend.AcklineBackend",
        "QUEUES": ["default", "email"],
        "OPTIONS": {"url": "sqlite:///jobs.db"},
    }
}
"""
TASKS = """
from django.db import connection
from django.tasks import task

@task(queue_name="email")
def welcome(to):
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return f"welcome, {to}"
"""
ENQUEUE = "from shop_tasks import welcome; print(welcome.enqueue('ann').id)"


@pytest.fixture
def manage(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Runs django-admin in a project."""
    pytest.importorskip("django.tasks", reason="Django has tasks from version 6 on")
    (tmp_path / "shop_settings.py").write_text(SETTINGS)
    (tmp_path / "shop_tasks.py").write_text(TASKS)
    variables = {"DJANGO_SETTINGS_MODULE": "shop_settings", "PYTHONPATH": str(tmp_path)}

    def manage(*arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "django", *arguments],
            cwd=tmp_path,
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return manage


@pytest.mark.parametrize("processes", ["1", "2"])
def test_the_command_runs_tasks_until_it_is_stopped(
    manage: Callable[..., subprocess.Popen[str]], tmp_path: Path, processes: str
) -> None:
    id = manage("shell", "--no-imports", "--command", ENQUEUE).communicate(timeout=60)[0].strip()
    worker = manage("ackline_worker", "--processes", processes, "--queues", "email")
    with ackline.open(tmp_path / "jobs.db") as queues:
        try:
            queue = queues["email"]
            until(lambda: state_of(queue, id) is State.COMPLETED, seconds=60)
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.communicate(timeout=60)
        assert worker.returncode == 0
        assert queue.result(id) == "welcome, ann"


def state_of(queue: ackline.Queue, id: str) -> State | None:
    job = queue.status(id)
    return None if job is None else job.state


def test_the_command_says_what_is_wrong(manage: Callable[..., subprocess.Popen[str]]) -> None:
    worker = manage("ackline_worker", "--queues", "other")

    assert "no backend in TASKS has queue 'other'" in worker.communicate(timeout=60)[1]
    assert worker.returncode == 2
