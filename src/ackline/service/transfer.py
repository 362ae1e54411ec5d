"""Jobs as JSON lines: into a queue and out of it, never more than a piece in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from ackline.errors import AcklineError
from ackline.job import Draft, State
from ackline.queue import Queue
from ackline.queue.copying import each_job
from ackline.queue.documents import NULL
from ackline.queue.lines import draft_of, line_of
from ackline.service.admission import admitting
from ackline.service.auth.caller import Caller
from ackline.service.bodies import LARGE
from ackline.service.body_memory import ReceivedBody
from ackline.service.collector import collector_paused
from ackline.service.job_bodies import JobOptions
from ackline.service.problems import Problem, TooLarge, problem_of
from ackline.service.served_queue import ServedQueue
from ackline.service.strict_json import read_json
from ackline.stores.base import ANSWER_BYTES, Filter

CHUNK = 1000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Some editors begin a text with it."""

LONGEST_LINE = 4 * 1024 * 1024


class LineBody(JobOptions):
    """A job as `POST …/jobs` takes it, or as an export has written it."""

    payload: msgspec.Raw = NULL
    codec: str | None = None
    # What became of the exported job; an import ignores it.
    queue: msgspec.Raw = NULL
    state: msgspec.Raw = NULL
    attempts: msgspec.Raw = NULL
    created_at: msgspec.Raw = NULL
    started_at: msgspec.Raw = NULL
    deadline: msgspec.Raw = NULL
    finished_at: msgspec.Raw = NULL
    expires_at: msgspec.Raw = NULL
    worker: msgspec.Raw = NULL
    cancel_requested: msgspec.Raw = NULL
    progress: msgspec.Raw = NULL
    result: msgspec.Raw = NULL
    error: msgspec.Raw = NULL
    history: msgspec.Raw = NULL
    timeline: msgspec.Raw = NULL
    timeline_complete: msgspec.Raw = NULL

    def draft(self, queue: Queue[Any, Any]) -> Draft:
        """The draft for the store; raises if the line is invalid."""
        return draft_of(queue, bytes(self.payload), self.codec, self.for_enqueue())


_decoder = msgspec.json.Decoder(LineBody)


class Imported(msgspec.Struct):
    """What became of the lines; it stops at the first bad one, and the ones before are stored."""

    lines: int = 0
    enqueued: int = 0
    duplicates: int = 0
    completed: int = 0
    stopped_at: int | UnsetType = UNSET
    problem: Problem | UnsetType = UNSET


class Import:
    """Lines on their way into a queue."""

    def __init__(self, caller: Caller, queue: ServedQueue, body: ReceivedBody) -> None:
        self._caller = caller
        self._body = body
        self._queue = queue
        self._jobs: list[Draft] = []
        self._first = 1
        """The line of the first of these jobs."""
        self.counts = Imported()

    async def read(self, pieces: AsyncIterator[bytes]) -> Imported:
        """Enqueue line by line as they come."""
        try:
            async for line in _lines(pieces):
                self.counts.lines += 1
                text = line.removeprefix(BYTE_ORDER_MARK) if self.counts.lines == 1 else line
                if text.strip():
                    await self._add(text)
                full = len(self._jobs) == CHUNK or self._body.size >= ANSWER_BYTES
                if full and not await self._store():
                    return self.counts
        except AcklineError as error:
            self._stop(error, self.counts.lines)
        await self._store()
        return self.counts

    def _stop(self, error: AcklineError, line: int) -> None:
        self.counts.stopped_at = line
        self.counts.problem = problem_of(error)

    async def _add(self, line: bytes) -> None:
        if len(line) > LARGE:
            draft = await self._caller.runtime.call(self._read_large, line)
        else:
            draft = self._read(line)
        self._caller.require_kind(draft.kind)
        self._caller.require_keys(draft.options.keys_if_undelivered)
        if not self._jobs:
            self._first = self.counts.lines
        self._jobs.append(draft)

    def _read(self, line: bytes) -> Draft:
        body: LineBody = read_json(line, _decoder)
        return body.draft(self._queue.sync)

    def _read_large(self, line: bytes) -> Draft:
        with collector_paused:
            return self._read(line)

    async def _store(self) -> bool:
        """Enqueue what was read; if that is refused, stop at the first of these lines."""
        jobs, self._jobs = self._jobs, []
        self._body.forget()
        if not jobs:
            return True
        try:
            await self._caller.require_own(self._queue, [job.id for job in jobs])
            jobs = list(map(self._caller.owned, jobs))
            async with admitting(self._caller.runtime, self._queue, len(jobs)):
                receipts = await self._caller.runtime.call(self._queue.sync.put, jobs)
        except AcklineError as error:
            self._stop(error, self._first)
            return False
        for receipt in receipts:
            if receipt.accepted:
                self.counts.enqueued += 1
            elif receipt.state is State.COMPLETED:
                self.counts.completed += 1
            else:
                self.counts.duplicates += 1
        return True


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line
        if len(rest) > LONGEST_LINE:
            raise TooLarge(f"a line is longer than {LONGEST_LINE:,} bytes")
    if rest:
        yield rest


async def export(caller: Caller, queue: ServedQueue, which: Filter) -> AsyncIterator[bytes]:
    """All jobs that match, a line each, as an import takes them."""
    pieces = each_job(caller.runtime.store, queue.sync.key, which)
    while (piece := await caller.slowly(next, pieces, None)) is not None:
        yield b"".join(line_of(record, queue.name) for record in piece)
