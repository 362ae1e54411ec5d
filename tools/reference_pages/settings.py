"""Tables of defaults and fixed limits, and the tree of errors."""

from __future__ import annotations

import importlib
import inspect
import typing
from typing import Any

import msgspec
from tools.reference_pages.markdown import table
from tools.reference_pages.structs import attribute_notes, default_of

POLICY_DESCRIPTIONS = {
    "max_attempts": "attempts before the job moves to the DLQ",
    "backoff": "the delay between attempts",
    "lease": "seconds until a job without a heartbeat is recovered",
    "timeout": "seconds that a handler may run",
    "result_ttl": "seconds that a completed job and its result are kept",
    "dedup_ttl": "seconds that a completed job keeps its id, even if `result_ttl` is less",
    "keep_failed": "seconds that a job stays in the DLQ",
    "keep_cancelled": "seconds that a cancelled job is kept",
}

SETTING_DESCRIPTIONS = {
    "policy": "the policy of the queue, see above",
    "kinds": "policies by kind; a worker writes those of its handlers here",
    "paused": "no jobs are claimed",
    "keep_journal": "seconds that events are kept",
}

NUMBERS = (
    ("worker.heartbeat", "HEARTBEAT_INTERVAL", "s", "longest pause between a worker's heartbeats"),
    ("worker.heartbeat", "HEARTBEAT_TTL", "s", "without a heartbeat, then a worker counts as dead"),
    ("worker.timers", "STOP_TIMEOUT", "s", "a handler may take to stop after its timeout"),
    ("worker.worker", "INTERRUPT_SECONDS", "s", "… and after the grace period of a stop"),
    ("queue.policies", "SETTINGS_TTL", "s", "until changed settings are noticed, at most"),
    ("queue.consume", "MAX_POLL_INTERVAL", "s", "delay of a waiting claim by a lost notification"),
    ("core.limits", "MAX_TRACEBACK_LENGTH", "characters", "of a traceback are kept"),
    ("core.limits", "MAX_MESSAGE_LENGTH", "characters", "of an error message are kept"),
    ("core.limits", "MAX_NOTE_LENGTH", "characters", "of a note or a `by` are kept"),
    ("queue.drafts.batches", "BATCH_JOBS", "jobs", "are stored in one step of a bulk enqueue"),
    ("stores.contract", "HISTORY_LIMIT", "attempts", "are kept in the history of a job"),
    ("core.codec", "DEFAULT_MAX_PAYLOAD", "bytes", "for a payload or result, unless raised"),
    ("core.limits", "MAX_NAME_BYTES", "bytes", "of UTF-8 for an id, kind, group, queue or tenant"),
    ("core.limits", "MAX_DELAY", "s", "longest delay, lease and retention"),
    ("stores.sqlite.io.connection", "BUSY_TIMEOUT", "s", "a write waits for other writers"),
    ("stores.sqlite.disk_space", "DISK_RESERVE", "bytes", "of free disk that enqueueing leaves"),
    ("stores.sqlite.io.writer", "MAX_WAL_BYTES", "bytes", "of write-ahead log before it is cut"),
    (
        "stores.postgres.notify",
        "POLL_INTERVAL",
        "s",
        "between the polls of a worker behind a pooler",
    ),
    ("service.operations.bulk", "TIME_LIMIT", "s", "for one step of a bulk operation"),
    (
        "maintenance.store_monitor",
        "LOG_INTERVAL",
        "s",
        "until a health issue that lasts is logged again",
    ),
)


def policies() -> str:
    """Each setting of a policy, its default, and where it can be set."""
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
            *("yes" if name in options else "" for options in (job, kind, queue)),
            POLICY_DESCRIPTIONS[name],
        )
        for name in config.ResolvedPolicy.__struct_fields__
    ]
    return table(("setting", "default", "job", "handler", "queue", ""), rows)


def _policy_default(value: Any) -> str:
    retry = importlib.import_module("ackline.core.retry")
    if value is None:
        return "none"
    if isinstance(value, retry.Backoff):
        delays = f"base {value.base:g}, factor {value.factor:g}, cap {value.cap:g}"
        return f"{value.shape}, {delays}, jitter {value.jitter}"
    return f"{value:,g}" if value < 1e5 else f"{value:,.0f}"


def settings() -> str:
    """The settings of a queue."""
    config = importlib.import_module("ackline.core.config")
    notes = attribute_notes(config.QueueSettings)
    rows = [
        (
            f"`{field.name}`",
            default_of(field),
            notes[field.name] or SETTING_DESCRIPTIONS[field.name],
        )
        for field in msgspec.structs.fields(config.QueueSettings)
    ]
    return table(("setting", "default", ""), rows)


def numbers() -> str:
    """Limits and intervals that are fixed in the code."""
    rows = []
    for module, name, unit, description in NUMBERS:
        value = getattr(importlib.import_module(f"ackline.{module}"), name)
        rows.append((f"{value:,.10g} {unit}", description, f"`{module}.{name}`"))
    return table(("", "", "in `ackline.`"), rows)


def error_tree() -> str:
    """The drawn tree of errors."""
    text = inspect.cleandoc(importlib.import_module("ackline.core.errors").__doc__ or "")
    return "```text\n" + text.split("\n\n", 1)[1] + "\n```"
