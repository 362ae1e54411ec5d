"""Where the demo keeps its store: a file of its own in the working directory, new each time."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(".ackline-demo")


@contextlib.contextmanager
def take_place() -> Iterator[Path]:
    """The path of a store that no other demo uses; files of an earlier demo are removed.

    A demo that still runs here keeps its files: the next demo gets another number.
    """
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n")
    number = 1
    while True:
        path = FOLDER / ("demo.db" if number == 1 else f"demo-{number}.db")
        with path.with_suffix(".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                number += 1
                continue
            _clear(path)
            yield path
            return


def _clear(path: Path) -> None:
    for old in [*FOLDER.glob(f"{path.name}*"), path.with_suffix(".lake")]:
        if old.is_dir():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.unlink(missing_ok=True)
