"""Forks: every open file is closed before a fork, so that the child inherits nothing of it."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from typing import Protocol

logger = logging.getLogger("ackline")

PATIENCE = 10.0
"""Seconds that a fork waits for a call under way: longer than a call takes."""


class Resting(Protocol):
    """An object that closes its files while its process is forked."""

    def rest(self, timeout: float) -> bool:
        """Before the fork: close everything, block all calls; False if it cannot, and goes on."""

    def go_on(self) -> None:
        """After the fork, in the parent."""

    def inherit(self, rested: bool) -> None:
        """After the fork, in the child."""


class _Forks:
    def __init__(self) -> None:
        self._all: weakref.WeakSet[Resting] = weakref.WeakSet()
        self._one_at_a_time = threading.RLock()
        self._resting: list[Resting] = []

    def add(self, engine: Resting) -> None:
        self._all.add(engine)

    def before(self) -> None:
        self._one_at_a_time.acquire()
        for engine in list(self._all):
            try:
                if engine.rest(PATIENCE):
                    self._resting.append(engine)
            except Exception:
                logger.exception("could not get ready for a fork")

    def after_in_parent(self) -> None:
        resting, self._resting = self._resting, []
        for engine in resting:
            engine.go_on()
        self._one_at_a_time.release()

    def after_in_child(self) -> None:
        resting, self._resting = self._resting, []
        self._one_at_a_time = threading.RLock()
        for engine in list(self._all):
            engine.inherit(any(engine is other for other in resting))


_forks = _Forks()
let_rest_at_fork = _forks.add
os.register_at_fork(
    before=_forks.before,
    after_in_parent=_forks.after_in_parent,
    after_in_child=_forks.after_in_child,
)
