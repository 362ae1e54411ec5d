"""Tables of defaults and fixed numbers, and the tree of errors."""

from __future__ import annotations

import importlib
import inspect
import typing
from typing import Any

import msgspec
from tools.reference_pages.markdown import table
from tools.reference_pages.structs import attribute_notes, default_of

POLICY_WORDS = {
    "max_attempts": "deliveries before the DLQ",
    "backoff": "the wait between attempts",
    "lease": "seconds that a delivery is held without a heartbeat",
    "timeout": "seconds that a handler may take; none is no limit",
    "result_ttl": "seconds that a completed job and its result are kept",
    "keep_failed": "seconds that a job stays in the DLQ",
    "keep_cancelled": "seconds that a cancelled job is kept",
}

SETTING_WORDS = {
    "policy": "the policy of the queue, see above",
    "kinds": "policies by kind; a worker writes those of its handlers here",
    "paused": "no jobs are handed out",
    "keep_journal": "Seconds that the journal is kept.",
}

NUMBERS = (
    (
        "worker.heartbeat",
        "HEARTBEAT_INTERVAL",
        "s",
        "a worker gives a sign of life at least so often",
    ),
    ("worker.heartbeat", "ALIVE_FOR", "s", "without one for so long, it counts as dead"),
    ("worker.timekeeper", "STOP_TIMEOUT", "s", "a handler has so long to stop after its timeout"),
    ("worker.worker", "INTERRUPT_SECONDS", "s", "and so long after the grace period of a stop"),
    ("queue.policies", "SETTINGS_TTL", "s", "settings that others changed are seen within"),
    (
        "queue.consumer",
        "MAX_POLL_INTERVAL",
        "s",
        "a lost wake-up delays a waiting claim by at most",
    ),
    ("limits", "LONGEST_TRACEBACK", "characters", "of a traceback are kept"),
    ("limits", "MAX_MESSAGE_LENGTH", "characters", "of an error's message are kept"),
    ("limits", "MAX_NOTE_LENGTH", "characters", "of a note or a `by` are kept in the journal"),
    ("queue.chunks", "CHUNK", "jobs", "go into the store in one step of a bulk enqueue"),
    (
        "stores.base",
        "CLAIM_MAINTENANCE_LIMIT",
        "jobs",
        "due or lapsed are looked after by one claim",
    ),
    ("stores.base", "HISTORY_LIMIT", "attempts", "are remembered for each job"),
    ("codec", "DEFAULT_MAX_PAYLOAD", "bytes", "a payload or result may have, unless raised"),
    ("limits", "LONGEST_NAME", "bytes", "of UTF-8 an id, kind, group, queue or tenant may have"),
    ("limits", "MAX_DELAY", "s", "is the longest delay, lease or retention"),
    ("stores.sqlite.connection", "BUSY_TIMEOUT", "s", "a writer waits for its turn"),
    ("stores.sqlite.room", "DISK_RESERVE", "bytes", "of free disk are left to other acts"),
    ("stores.sqlite.writer", "MAX_WAL_BYTES", "bytes", "of write-ahead log, then it is cut back"),
    ("stores.postgres.notify", "POLL", "s", "a worker behind a pooler looks so often for jobs"),
    ("service.bulk_step", "TIME_LIMIT", "s", "of one act on many jobs, then its client goes on"),
    ("maintenance.watcher", "REPEAT", "s", "a trouble of a store that lasts is logged so often"),
)


def policies() -> str:
    """Each part of a policy, its default, and who may set it."""
    config = importlib.import_module("ackline.core.config")
    drafting = importlib.import_module("ackline.queue.drafts.builder")
    consumer = importlib.import_module("ackline.queue.consume")
    job = typing.get_type_hints(drafting.EnqueueOptions)
    kind = inspect.signature(typing.get_overloads(consumer.Consumer.handler)[1]).parameters
    queue = config.Policy.__struct_fields__
    rows = [
        (
            f"`{name}`",
            _policy_default(getattr(config.DEFAULTS, name)),
            *("yes" if name in level else "" for level in (job, kind, queue)),
            POLICY_WORDS[name],
        )
        for name in config.Resolved.__struct_fields__
    ]
    return table(("setting", "default", "job", "handler", "queue", ""), rows)


def _policy_default(value: Any) -> str:
    retry = importlib.import_module("ackline.core.retry")
    if value is None:
        return "none"
    if isinstance(value, retry.Backoff):
        waits = f"base {value.base:g}, factor {value.factor:g}, cap {value.cap:g}"
        return f"{value.shape}, {waits}, jitter {value.jitter}"
    return f"{value:,g}" if value < 1e5 else f"{value:,.0f}"


def settings() -> str:
    """The settings of a queue."""
    config = importlib.import_module("ackline.core.config")
    notes = attribute_notes(config.QueueSettings)
    rows = [
        (
            f"`{field.name}`",
            default_of(field),
            notes[field.name] or SETTING_WORDS[field.name],
        )
        for field in msgspec.structs.fields(config.QueueSettings)
    ]
    return table(("setting", "default", ""), rows)


def numbers() -> str:
    """Numbers that are fixed in the code."""
    rows = []
    for module, name, unit, words in NUMBERS:
        value = getattr(importlib.import_module(f"ackline.{module}"), name)
        rows.append((f"{value:,.10g} {unit}", words, f"`{module}.{name}`"))
    return table(("", "", "in `ackline.`"), rows)


def error_tree() -> str:
    """The drawn tree of errors."""
    text = inspect.cleandoc(importlib.import_module("ackline.core.errors").__doc__ or "")
    return "```text\n" + text.split("\n\n", 1)[1] + "\n```"
