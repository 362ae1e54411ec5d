"""Forks: a child inherits its parent's locks, but not the threads that hold them."""

from __future__ import annotations

import os
import threading
import weakref

_owners: weakref.WeakKeyDictionary[object, str] = weakref.WeakKeyDictionary()


def renew_in_child(owner: object, lock: str) -> None:
    """Give the attribute of this name a new lock in each forked child; nobody holds it there."""
    _owners[owner] = lock


def _renew() -> None:
    for owner, lock in list(_owners.items()):
        setattr(owner, lock, threading.Lock())


os.register_at_fork(after_in_child=_renew)
