"""Filters Java's standard error: drops lines that are of no use to the user of a command."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STDERR = 2

IGNORED_LINES = (
    # Spark asks for this module itself.
    b"WARNING: Using incubator modules: jdk.incubator.vector",
    # The sketches library prints this on every Java that Spark runs on.
    b"Warning: Java versions > Java 11 can only operate in restricted mode",
)


@contextmanager
def filtered_stderr(muted: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """A process started in this block writes its standard error through a filter.

    The `IGNORED_LINES` bypass all logging, so only a filter can drop them. When `muted` returns
    true, it drops everything.
    """
    try:
        ours = os.dup(STDERR)
    except OSError:  # closed: there is nothing to filter
        yield
        return
    source, target = os.pipe()
    filtering = threading.Thread(
        target=_forward,
        args=(source, ours, muted),
        name="ackline Java's standard error",
        daemon=True,
    )
    os.dup2(target, STDERR)
    os.close(target)
    filtering.start()
    try:
        yield
    except BaseException:
        os.dup2(ours, STDERR)
        # Java could not start: wait until the reason that it printed has passed the filter.
        filtering.join(timeout=1)
        raise
    os.dup2(ours, STDERR)


def _forward(source: int, target: int, muted: Callable[[], bool]) -> None:
    with os.fdopen(source, "rb") as lines, os.fdopen(target, "wb", buffering=0) as out:
        for line in lines:
            if not (muted() or line.startswith(IGNORED_LINES)):
                out.write(line)
