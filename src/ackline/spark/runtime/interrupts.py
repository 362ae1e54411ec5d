"""Ctrl-C for a command that uses Spark: ends Java, silently and at once.

This is the only module that replaces private names of PySpark: its public API neither gives out
Java's process while it starts, nor lets a program keep its own handler of SIGINT.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any

from pyspark import java_gateway
from pyspark.core import context

JAVA_EXIT_TIMEOUT = 5.0
"""Seconds that Java has to remove its files."""


class InterruptHandler:
    """Ends Java at Ctrl-C, and then interrupts Python.

    PySpark's handler would call Java in the middle of another call to it, and would leave Java
    running if it is just starting. Calls that wait for Java end as soon as Java has ended.
    """

    def __init__(self) -> None:
        self.pressed = False
        self._java: subprocess.Popen[Any] | None = None
        self._starting = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Start Java in this block; from then on, Ctrl-C ends it.

        If SIGINT is ignored, as under `nohup`, it stays so.
        """
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        if not ignored and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._on_signal)
            atexit.register(self._wait_for_java)
        self._starting = True
        try:
            with self._recording_java(), _without_pyspark_handler():
                yield
        except Exception as error:
            self._end_java()
            if self.pressed:
                raise KeyboardInterrupt from error
            raise
        finally:
            self._starting = False
        if self.pressed:
            raise KeyboardInterrupt

    def _recording_java(self) -> contextlib.AbstractContextManager[None]:
        def start(*arguments: Any, **options: Any) -> subprocess.Popen[Any]:
            # In its own process group: a terminal sends Ctrl-C to the whole group of the command,
            # and Spark's Python workers would end in the middle of a task.
            self._java = subprocess.Popen(*arguments, process_group=0, **options)
            if self.pressed:
                self._end_java()
            return self._java

        return _patched(java_gateway, "Popen", start)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Handle the signal without taking a lock, because the main thread may hold any."""
        is_second, self.pressed = self.pressed, True
        # Py4J logs each call that fails because Java has ended.
        logging.root.manager.disable = logging.CRITICAL
        self._end_java(signal.SIGKILL if is_second else signal.SIGTERM)
        # While Java starts, an exception would leave it running.
        if not self._starting:
            raise KeyboardInterrupt

    def _end_java(self, number: int = signal.SIGTERM) -> None:
        if self._java is not None and self._java.returncode is None:
            # Including the scripts that start it, and Spark's Python workers.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._java.pid, number)

    def _wait_for_java(self) -> None:
        if not self.pressed or self._java is None:
            return
        try:
            self._java.wait(JAVA_EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._end_java(signal.SIGKILL)


def _without_pyspark_handler() -> contextlib.AbstractContextManager[None]:
    """Keep PySpark from installing its handler, which it does seconds before Spark has started."""
    no_signal = SimpleNamespace(signal=lambda _number, _handler: None, SIGINT=signal.SIGINT)
    return _patched(context, "signal", no_signal)


@contextlib.contextmanager
def _patched(module: ModuleType, name: str, other: object) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, other)
    try:
        yield
    finally:
        setattr(module, name, before)
