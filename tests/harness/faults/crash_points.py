"""Kill a process at a chosen file operation of SQLite, by a VFS of our own.

A process that is killed in a write to the WAL has the write lock and half a transaction written;
one that is killed in a write to the main file is in the middle of a checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import apsw
import msgspec


class CrashPoint(msgspec.Struct, frozen=True):
    """The `number`th `operation` on a `file`: `wal.tear.3` is in the third write to the WAL.

    Files: `wal`, `main`. Operations: `write` and `sync` are killed before it, `tear` in
    the middle of a write.
    """

    file: str
    operation: str
    number: int

    @classmethod
    def parse(cls, text: str) -> CrashPoint:
        """Read `wal.tear.3`."""
        file, operation, number = text.split(".")
        return cls(file, operation, int(number))

    def __str__(self) -> str:
        return f"{self.file}.{self.operation}.{self.number}"


OnFileOperation = Callable[[str, str], bool]
"""Called with each file and operation. If it returns True, half of a write is done, and it is
called again with `torn`."""


class WatchedFiles(apsw.VFS):
    """A VFS that reports operations on all SQLite files; keep it while files are open."""

    def __init__(self, watch: OnFileOperation, name: str = "ackline-watched") -> None:
        self._base = apsw.vfs_names()[0]
        self._watch = watch
        super().__init__(name, self._base, makedefault=True)

    def xOpen(  # noqa: N802
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> WatchedFile:
        return WatchedFile(self._base, name, flags, self._watch)


class WatchedFile(apsw.VFSFile):
    """Reports each write and sync before it is done."""

    def __init__(
        self,
        base: str,
        name: str | apsw.URIFilename | None,
        flags: list[int],
        watch: OnFileOperation,
    ) -> None:
        super().__init__(base, name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        self._kind = "wal" if path.endswith("-wal") else "main"
        self._watch = watch

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        if self._watch(self._kind, "write"):
            super().xWrite(data[: len(data) // 2], offset)
            self._watch(self._kind, "torn")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._watch(self._kind, "sync")
        super().xSync(flags)


class CrashTrigger:
    """Counts operations down to a crash point, then calls `crash`."""

    def __init__(self, point: CrashPoint, crash: Callable[[], None]) -> None:
        self._point = point
        self._crash = crash
        self._remaining = point.number
        self.armed = False

    def __call__(self, file: str, operation: str) -> bool:
        if operation == "torn":
            self._crash()
            return False
        tears = self._point.operation == "tear"
        expected = "write" if tears else self._point.operation
        if not self.armed or (file, operation) != (self._point.file, expected):
            return False
        self._remaining -= 1
        if self._remaining:
            return False
        if not tears:
            self._crash()
        return tears


def signal_self(number: int) -> None:
    """Send this process a signal."""
    os.kill(os.getpid(), number)
