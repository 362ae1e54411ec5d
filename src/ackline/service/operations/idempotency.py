"""`Idempotency-Key`: the same request sent again is the same job, not a second one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from litestar.params import HeaderParameter

from ackline.core.job import Draft, Record
from ackline.core.limits import IDEMPOTENCY_ID_PREFIXES, MAX_NAME_BYTES
from ackline.queue import Enqueued, EnqueueOptions, NewJob, Queued
from ackline.queue.drafts.bloom_filter import filter_for_store
from ackline.service.auth.caller import REPLACEABLE, Caller, id_conflict
from ackline.service.http.problems import ProblemError
from ackline.service.queues import MeteredQueue
from ackline.service.runtime import Runtime
from ackline.stores.contract import Receipt

PREFIX, MANY_PREFIX = IDEMPOTENCY_ID_PREFIXES

NO_KINDS: frozenset[str] = frozenset()
"""A repeated key replaces no failed job of any kind: the first request was answered."""

IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="A repeated request with the same key returns the job of the first one, "
        "whatever its state, for as long as it is kept in this queue. An id in the body takes "
        "precedence over the key.",
    ),
]


class KeyReused(ProblemError):
    """The key was used before, for another request."""

    status = 422
    type = "idempotency-key-reused"


async def enqueue_once(
    caller: Caller, queue: MeteredQueue, payload: Any, options: EnqueueOptions, key: str | None
) -> Enqueued:
    """Enqueue a job; with a key and no id, the key decides whether it was enqueued before."""
    if key is not None and "id" not in options:
        drafts = _drafts_for_request(queue, [NewJob(payload, **options)], [_id_of(PREFIX, key)])
        return (await _enqueue_new(caller.runtime, queue, drafts, key))[0]
    if caller.principal.kinds is None or "id" not in options:
        return await queue.enqueue(payload, **options)
    [answer] = await _enqueue_own_kinds(caller, queue, [NewJob(payload, **options)])
    if not isinstance(answer, Queued) and answer.state in REPLACEABLE:
        raise id_conflict(answer.id)
    return answer


async def enqueue_many_once(
    caller: Caller, queue: MeteredQueue, jobs: list[NewJob[Any]], key: str | None
) -> list[Enqueued]:
    """Enqueue many jobs; with a key, those without an id get one by their index."""
    if key is not None:
        names = [f"{_id_of(MANY_PREFIX, key)}:{index}" for index in range(len(jobs))]
        drafts = _drafts_for_request(queue, jobs, names)
        return await _enqueue_new(caller.runtime, queue, drafts, key)
    if caller.principal.kinds is None:
        return await queue.enqueue_many(jobs)
    return await _enqueue_own_kinds(caller, queue, jobs)


async def _enqueue_own_kinds(
    caller: Caller, queue: MeteredQueue, jobs: list[NewJob[Any]]
) -> list[Enqueued]:
    """Enqueue, replacing only failed jobs of the caller's kinds, even if they failed just now."""
    return await queue.put([caller.limited_to_kinds(_draft(queue, job)) for job in jobs])


def _drafts_for_request(
    queue: MeteredQueue, jobs: Sequence[NewJob[Any]], names: Sequence[str]
) -> list[Draft]:
    """The drafts of a request, each with the request's hash; without an id, named by the key.

    They replace no failed jobs. The hash is of the whole request: a longer batch has another.
    """
    drafts = [
        draft if "id" in job.options else msgspec.structs.replace(draft, id=name, assume_new=False)
        for draft, job, name in zip([_draft(queue, job) for job in jobs], jobs, names, strict=True)
    ]
    request_hash = _request_hash(drafts)
    return [
        msgspec.structs.replace(
            draft,
            options=msgspec.structs.replace(draft.options, request=request_hash),
            replaces=NO_KINDS,
        )
        for draft in drafts
    ]


def _id_of(prefix: str, key: str) -> str:
    """The id of the job of a key; bytes other than printable ASCII are percent-encoded.

    Headers are bytes, decoded as Latin-1, so different headers have different ids.

    >>> _id_of(PREFIX, "100% é")
    'idempotency-key:100%25 %E9'
    """
    id = prefix + quote(key.encode("latin-1"), safe=_UNESCAPED)
    if len(id) > MAX_NAME_BYTES - INDEX_LENGTH:
        raise ProblemError(
            f"the Idempotency-Key is too long: {len(id) - len(prefix)} characters when "
            "percent-encoded",
            at="Idempotency-Key",
        )
    return id


_UNESCAPED = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")

INDEX_LENGTH = 20
"""Characters for the index in a batch."""


def _request_hash(drafts: Sequence[Draft]) -> str:
    """A hash that is the same if the request is repeated, even with another trace."""
    untraced = [
        msgspec.structs.replace(draft, options=msgspec.structs.replace(draft.options, trace=None))
        for draft in drafts
    ]
    return hashlib.blake2b(_encode(untraced), digest_size=16).hexdigest()


_encode = msgspec.msgpack.Encoder(order="sorted").encode


async def _enqueue_new(
    runtime: Runtime, queue: MeteredQueue, drafts: Sequence[Draft], key: str
) -> list[Enqueued]:
    """Enqueue the new jobs and return the existing ones, in any state; failed jobs do not rerun."""
    if len(drafts) == 1 and _is_new(queue, drafts[0]):
        # Not looked up first: if another process has it, the store stores nothing. Of a batch it
        # would store the rest, although the request may be refused.
        existing, drafts = {}, [msgspec.structs.replace(drafts[0], assume_new=True)]
    else:
        existing = await _existing(runtime, queue, drafts, key)
    new = [draft for draft in drafts if draft.id not in existing]
    stored = await queue.put(new) if new else []
    # Sent twice at the same time: the other request has stored these jobs.
    duplicates = {answer.id for answer in stored if not isinstance(answer, Queued)}
    await _existing(runtime, queue, [draft for draft in drafts if draft.id in duplicates], key)
    answers = iter(stored)
    return [
        _answer(queue, existing[draft.id]) if draft.id in existing else next(answers)
        for draft in drafts
    ]


def _is_new(queue: MeteredQueue, draft: Draft) -> bool:
    """Whether this process has certainly not had this key before."""
    return filter_for_store(queue.sync.store).add((queue.sync.key, draft.id))


def _draft(queue: MeteredQueue, job: NewJob[Any]) -> Draft:
    return queue.sync.draft_builder.draft(job.payload, job.options)


def _answer(queue: MeteredQueue, job: Record) -> Enqueued:
    return queue.sync.from_receipt(Receipt(job.id, False, job.state, job.result))


async def _existing(
    runtime: Runtime, queue: MeteredQueue, drafts: Sequence[Draft], key: str
) -> dict[str, Record]:
    """The existing jobs of these ids; `KeyReused` if another request enqueued one of them."""
    if not drafts:
        return {}
    ids = [draft.id for draft in drafts]
    found = await runtime.call(runtime.store.get, queue.sync.key, ids)
    existing = {job.id: job for job in found if job is not None}
    for draft in drafts:
        # The job itself cannot be compared: it may have been edited, snoozed or run again by now.
        enqueued_by = existing[draft.id].options.request if draft.id in existing else None
        if enqueued_by is not None and enqueued_by != draft.options.request:
            raise KeyReused(
                f"the key {key!r} was used before, with another payload, other options or another "
                "number of jobs; nothing was enqueued. Use a new key for each request"
            )
    return existing
