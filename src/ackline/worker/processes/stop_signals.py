"""Signals that ask to stop, handled in a thread of their own."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def handle_stop_signals(act: Callable[[int], None]) -> Callable[[], None]:
    """Call `act` with each signal that asks to stop; returns a function that ends this.

    A signal that is ignored stays so: starting us with `nohup`, or in the background of a shell
    script, asks for that.

    The main thread must not wait without a time limit: the system may hand a signal to another
    thread, as it does after SIGSTOP and SIGCONT, and Python handles it when the main thread wakes.

    A handler interrupts the main thread wherever that is, also while it holds a lock. So it must
    take none: it only notes the signal, and `act` is called in another thread.

    >>> deafen = handle_stop_signals(lambda number: worker.request_stop())  # doctest: +SKIP
    """
    noted: queue.SimpleQueue[int | None] = queue.SimpleQueue()

    def hear() -> None:
        while (number := noted.get()) is not None:
            act(number)

    thread = threading.Thread(target=hear, name="ackline signals", daemon=True)
    thread.start()
    previous = {
        number: signal.signal(number, lambda number, _frame: noted.put(number))
        for number in STOP_SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }

    def deafen() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)
        noted.put(None)
        thread.join()

    return deafen
