"""Hands out a limited number of places to threads, first come, first served."""

from __future__ import annotations

import threading
from collections import deque


class _Waiter:
    """A thread that waits for a place."""

    __slots__ = ("lingers", "turn")

    def __init__(self, lingers: bool) -> None:
        self.lingers = lingers
        self.turn = threading.Lock()
        self.turn.acquire()


class Turns:
    """A limited number of places, each given to the thread that has waited longest.

    Threads that may linger, because they wait for others while they have a place, never get all.
    """

    def __init__(self, places: int, for_lingering: int) -> None:
        self._places = places
        self._for_lingering = for_lingering
        self._lock = threading.Lock()
        self._line: deque[_Waiter] = deque()
        self._used = 0
        self._lingering = 0

    def take(self, timeout: float, *, lingers: bool = False) -> bool:
        """Wait for a place; returns whether there was one in time."""
        with self._lock:
            # This overtakes nobody: if one of the waiting threads fitted, it would not wait.
            if self._fits(lingers):
                self._enter(lingers)
                return True
            waiter = _Waiter(lingers)
            self._line.append(waiter)
        try:
            came = waiter.turn.acquire(timeout=timeout)
        except BaseException:
            if not self._withdraw(waiter):
                self.give(lingers=lingers)
            raise
        return came or not self._withdraw(waiter)

    def give(self, *, lingers: bool = False) -> None:
        """Leave a place to the next thread in line."""
        with self._lock:
            self._used -= 1
            self._lingering -= lingers
            first = next((waiter for waiter in self._line if self._fits(waiter.lingers)), None)
            if first is not None:
                self._line.remove(first)
                self._enter(first.lingers)
                first.turn.release()

    def _fits(self, lingers: bool) -> bool:
        room = self._used < self._places
        return room and (not lingers or self._lingering < self._for_lingering)

    def _enter(self, lingers: bool) -> None:
        self._used += 1
        self._lingering += lingers

    def _withdraw(self, waiter: _Waiter) -> bool:
        """Leave the line; False if the thread has been given a place all the same."""
        with self._lock:
            if waiter not in self._line:
                return False
            self._line.remove(waiter)
            return True
