"""Import and export of jobs as JSON lines, with only a chunk of them in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec import UNSET, UnsetType

from ackline.core.errors import AcklineError
from ackline.core.job import Draft
from ackline.queue.transfer.export import encode_line
from ackline.queue.transfer.import_jobs import Import, ImportCounts, line_decoder, line_to_draft
from ackline.queue.transfer.snapshot import snapshot_jobs
from ackline.service.auth.caller import Caller
from ackline.service.http.body_memory import ReceivedBody
from ackline.service.http.job_bodies import JobOptions
from ackline.service.http.problems import Problem, TooLarge, problem_of
from ackline.service.http.request_body import THREAD_ABOVE_BYTES, gc_paused
from ackline.service.http.strict_json import read_json
from ackline.service.limits.admission import admit_jobs
from ackline.service.queues import MeteredQueue
from ackline.stores.contract import MAX_ANSWER_BYTES, Filter

MAX_LINE = 4 * 1024 * 1024


_decoder = line_decoder(JobOptions)


class ImportResult(ImportCounts):
    """The result of an import: it stops at the first bad line; the lines before are stored."""

    stopped_at: int | UnsetType = UNSET
    problem: Problem | UnsetType = UNSET


class BodyImport:
    """Enqueues the lines of a request's body as they arrive."""

    def __init__(self, caller: Caller, queue: MeteredQueue, body: ReceivedBody) -> None:
        self._caller = caller
        self._body = body
        self._queue = queue
        self.counts = ImportResult()
        self._lines = Import(self.counts)

    async def read(self, chunks: AsyncIterator[bytes]) -> ImportResult:
        """Enqueue line by line until one is refused."""
        try:
            async for line in _lines(chunks):
                if text := self._lines.next_line(line):
                    await self._add(text)
                full = self._lines.full or self._body.size >= MAX_ANSWER_BYTES
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
        if len(line) > THREAD_ABOVE_BYTES:
            draft = await self._caller.runtime.call(self._read_large, line)
        else:
            draft = self._read(line)
        self._caller.require_kind(draft.kind)
        self._caller.require_undelivered_keys(draft.options.keys_if_undelivered)
        self._lines.add(draft)

    def _read(self, line: bytes) -> Draft:
        job = read_json(line, _decoder)
        return line_to_draft(self._queue.sync, job, job.for_enqueue())

    def _read_large(self, line: bytes) -> Draft:
        with gc_paused:
            return self._read(line)

    async def _store(self) -> bool:
        """Enqueue what was read; if that fails, stop at the first of these lines."""
        jobs = self._lines.take()
        self._body.release()
        if not jobs:
            return True
        try:
            await self._caller.require_replaceable(self._queue, [job.id for job in jobs])
            jobs = list(map(self._caller.limited_to_kinds, jobs))
            async with admit_jobs(self._caller.runtime, self._queue, len(jobs)):
                self._lines.count(
                    await self._caller.runtime.call(self._queue.sync.store_drafts, jobs)
                )
        except AcklineError as error:
            self._stop(error, self._lines.first)
            return False
        return True


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line
        if len(rest) > MAX_LINE:
            raise TooLarge(f"a line has more than {MAX_LINE:,} bytes")
    if rest:
        yield rest


async def export_lines(
    caller: Caller, queue: MeteredQueue, job_filter: Filter
) -> AsyncIterator[bytes]:
    """All jobs that match, one per line, in the format of an import."""
    chunks = snapshot_jobs(caller.runtime.store, queue.sync.key, job_filter)
    while (chunk := await caller.run_slow(next, chunks, None)) is not None:
        yield b"".join(encode_line(record, queue.name) for record in chunk)
