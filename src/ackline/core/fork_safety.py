"""Fork safety: a child inherits its parent's locks, but not the threads that hold them."""

from __future__ import annotations

import os
import threading
import weakref

_owners: weakref.WeakKeyDictionary[object, tuple[str, ...]] = weakref.WeakKeyDictionary()


def renew_locks_after_fork(owner: object, *locks: str) -> None:
    """Give these attributes new locks in each forked child, where nobody holds them."""
    _owners[owner] = locks


def _renew_locks() -> None:
    for owner, locks in list(_owners.items()):
        for lock in locks:
            setattr(owner, lock, threading.Lock())


os.register_at_fork(after_in_child=_renew_locks)
