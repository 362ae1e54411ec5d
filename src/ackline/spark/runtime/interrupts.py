"""Ctrl-C for a command that uses Spark: Java ends with it, and says nothing more."""

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

    PySpark would ask Java to cancel its jobs, in the midst of another call to Java, and while it
    starts it would leave Java behind. What waits for Java ends as soon as Java is gone.
    """

    def __init__(self) -> None:
        self.pressed = False
        self._java: subprocess.Popen[Any] | None = None
        self._starting = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Java is started in this block; from then on, Ctrl-C ends it.

        If Ctrl-C is ignored, it stays so: starting us with `nohup` asks for that.
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
        def note(*arguments: Any, **options: Any) -> subprocess.Popen[Any]:
            # In a process group of its own: a terminal sends Ctrl-C to all processes of ours, and
            # Spark's Python workers would end in the midst of a task.
            self._java = subprocess.Popen(*arguments, process_group=0, **options)
            if self.pressed:
                self._end_java()
            return self._java

        return _patched(java_gateway, "Popen", note)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Handle the signal; this takes no lock, because the main thread may hold any."""
        again, self.pressed = self.pressed, True
        # Py4J logs each call that ends because Java is gone.
        logging.root.manager.disable = logging.CRITICAL
        self._end_java(signal.SIGKILL if again else signal.SIGTERM)
        # In the midst of starting Java, an exception would leave it behind.
        if not self._starting:
            raise KeyboardInterrupt

    def _end_java(self, number: int = signal.SIGTERM) -> None:
        if self._java is not None and self._java.returncode is None:
            # With the scripts that start it, and Spark's Python workers.
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
    """Keeps PySpark from hearing Ctrl-C: it sets its handler seconds before Spark has started."""
    deaf = SimpleNamespace(signal=lambda _number, _handler: None, SIGINT=signal.SIGINT)
    return _patched(context, "signal", deaf)


@contextlib.contextmanager
def _patched(module: ModuleType, name: str, other: object) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, other)
    try:
        yield
    finally:
        setattr(module, name, before)
