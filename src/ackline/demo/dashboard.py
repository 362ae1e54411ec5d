"""The demo's dashboard: where it listens, whether a browser can show it, what it schedules."""

from __future__ import annotations

import os
import socket
import sys
import threading
import webbrowser
from typing import NamedTuple

from ackline.cron import Schedule
from ackline.errors import ConfigError
from ackline.queues import Queues

SCHEDULES = {
    "globex/reports": (
        Schedule("usage", "* * * * *", "usage", {"of": "the last day"}),
        Schedule("month-end", "0 3 1 * *", "monthly", {"pages": 40, "takes": 0.2}),
    ),
    "acme/email": (
        Schedule("weekly", "30 7 * * 1", "newsletter", {"to": "all@acme.example"}, "Europe/Madrid"),
    ),
}


class Dashboard(NamedTuple):
    """A bound socket, and what to type into a browser."""

    listener: socket.socket
    url: str


def take_address(port: int) -> Dashboard | None:
    """Bind this port, or a free one if it is taken; None if the service is not installed."""
    try:
        from ackline.service.server import address_of, bind
        from ackline.service.settings import Settings
    except ModuleNotFoundError:
        return None
    settings = Settings(port=port)
    try:
        listener = bind(settings)
    except ConfigError:
        listener = bind(Settings(port=0))
    return Dashboard(listener, f"{address_of(listener, settings)}/")


def keep_schedules(queues: Queues) -> set[str]:
    """Store schedules for the service to fire; returns their names."""
    from ackline.service import schedules

    for name, wanted in SCHEDULES.items():
        for schedule in wanted:
            schedules.write(queues.store, queues[name].key, schedule)
    return {schedule.name for wanted in SCHEDULES.values() for schedule in wanted}


def open_browser(url: str) -> None:
    """Show it, if there is a screen that belongs to this terminal."""
    screen = sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if screen and not os.environ.get("SSH_CONNECTION"):
        # With some browsers the call returns only when they are closed.
        threading.Thread(target=webbrowser.open, args=[url], daemon=True).start()
