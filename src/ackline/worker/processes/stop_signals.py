"""Handles the signals that ask a process to stop, in a thread."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def handle_stop_signals(on_signal: Callable[[int], None]) -> Callable[[], None]:
    """Call `on_signal` for each stop signal; returns a function that restores the old handlers.

    A signal that is ignored stays ignored: `nohup`, or a shell script that starts a process in
    the background, asks for that.

    The main thread must not wait without a timeout: the system may deliver a signal to another
    thread, as it does after SIGSTOP and SIGCONT, and Python handles it when the main thread wakes.

    A handler interrupts the main thread wherever that is, even while it holds a lock. So it must
    not acquire any: it only queues the signal, and `on_signal` is called in another thread.

    >>> restore = handle_stop_signals(lambda number: worker.request_stop())  # doctest: +SKIP
    """
    received: queue.SimpleQueue[int | None] = queue.SimpleQueue()

    def call_back() -> None:
        while (number := received.get()) is not None:
            on_signal(number)

    thread = threading.Thread(target=call_back, name="ackline signals", daemon=True)
    thread.start()
    previous = {
        number: signal.signal(number, lambda number, _frame: received.put(number))
        for number in STOP_SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }

    def restore_signals() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)
        received.put(None)
        thread.join()

    return restore_signals
