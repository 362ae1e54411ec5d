"""Who may do what: the one table that the simple routes, `/v1` and the store over HTTP all ask.

Each request names what it does; nothing else decides whether its caller may. What a caller gets
to see of an answer is in `principal`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from ackline.events import Act
from ackline.lifecycle import FENCED, Transition
from ackline.limits import OWN_KEYS
from ackline.maintenance import locks
from ackline.queue import own_attempts
from ackline.stores.base import BESIDE, Topic


class Scope(enum.StrEnum):
    """What a caller may do."""

    PRODUCE = "produce"
    CONSUME = "consume"
    READ = "read"
    ADMIN = "admin"


class Reach(enum.StrEnum):
    """How much of its tenant a caller must not be limited in."""

    ITS_OWN = "its queues and kinds"
    """Nothing: what is not for the caller is left out, or refused by name."""
    ALL_KINDS = "its queues, all kinds"
    """It affects jobs of all kinds."""
    TENANT = "the whole tenant"
    """It affects all queues."""


class Access(enum.StrEnum):
    """One thing that a request does or reads."""

    ENQUEUE = "enqueue"
    AWAIT = "await"
    CANCEL = "cancel"
    NAME_KEYS = "name keys"
    CLAIM = "claim"
    SETTLE = "settle"
    RECOVER = "recover"
    MAINTAIN = "maintain"
    PUBLISH_POLICIES = "publish policies"
    REDRIVE = "redrive"
    EDIT = "edit"
    MOVE = "move"
    DELETE = "delete"
    BULK = "bulk"
    CONFIGURE = "configure"
    DROP = "drop"
    WRITE_SCHEDULES = "write schedules"
    WRITE_KEYS = "write keys"
    WEBHOOKS = "webhooks"
    READ_INFO = "read info"
    READ_SETTINGS = "read settings"
    READ_QUEUES = "read queues"
    READ_JOBS = "read jobs"
    READ_EVENTS = "read events"
    READ_WORKERS = "read workers"
    READ_SCHEDULES = "read schedules"
    READ_KEYS = "read keys"
    READ_FIGURES = "read figures"
    READ_TROUBLES = "read troubles"
    NOTES_OF_WORKERS = "notes of workers"
    NOTES_OF_PRODUCERS = "notes of producers"
    NOTES_OF_READERS = "notes of readers"
    NOTES_BESIDE = "notes beside jobs"
    NOTES_OF_SCHEDULES = "notes of schedules"


class Rule(NamedTuple):
    """Who may do one thing."""

    scopes: frozenset[Scope]
    """One of these is enough; no scope includes another."""
    means: str
    reach: Reach = Reach.ITS_OWN


_PRODUCE, _CONSUME = frozenset({Scope.PRODUCE}), frozenset({Scope.CONSUME})
_READ, _ADMIN = frozenset({Scope.READ}), frozenset({Scope.ADMIN})

RULES: Mapping[Access, Rule] = {
    Access.ENQUEUE: Rule(_PRODUCE, "enqueue and import jobs"),
    Access.AWAIT: Rule(
        _PRODUCE | _READ, "the state and the result of a job by its id, and news of jobs that end"
    ),
    Access.CANCEL: Rule(_PRODUCE, "cancel a job that waits; ask a running one to stop"),
    Access.NAME_KEYS: Rule(
        _PRODUCE | _ADMIN, "`keys_if_undelivered` of jobs and schedules", Reach.TENANT
    ),
    Access.CLAIM: Rule(_CONSUME, "claim, poll, listen"),
    Access.SETTLE: Rule(_CONSUME, "settle jobs by the token of their lease, extend leases"),
    Access.RECOVER: Rule(
        _CONSUME, "take back leases; for that, leases without their contents, and workers"
    ),
    Access.MAINTAIN: Rule(_CONSUME | _ADMIN, "promote due jobs, prune finished ones"),
    Access.PUBLISH_POLICIES: Rule(_CONSUME | _ADMIN, "publish the policies of a worker's handlers"),
    Access.REDRIVE: Rule(_ADMIN, "redrive a dead letter"),
    Access.EDIT: Rule(_ADMIN, "edit a job"),
    Access.MOVE: Rule(_ADMIN, "move a job to another queue"),
    Access.DELETE: Rule(_ADMIN, "delete and purge jobs"),
    Access.BULK: Rule(_ADMIN, "cancel, redrive, move or delete all jobs that match"),
    Access.CONFIGURE: Rule(_ADMIN, "pause, resume, change settings", Reach.ALL_KINDS),
    Access.DROP: Rule(_ADMIN, "delete or rename a queue", Reach.ALL_KINDS),
    Access.WRITE_SCHEDULES: Rule(_ADMIN, "write and delete schedules"),
    Access.WRITE_KEYS: Rule(_ADMIN, "write and delete keys", Reach.TENANT),
    Access.WEBHOOKS: Rule(_ADMIN, "webhooks and their deliveries", Reach.TENANT),
    Access.READ_INFO: Rule(frozenset(Scope), "the store's name, version and clock"),
    Access.READ_SETTINGS: Rule(frozenset(Scope), "the settings of a queue, given its name"),
    Access.READ_QUEUES: Rule(_READ, "queues and their counts"),
    Access.READ_JOBS: Rule(_READ, "jobs with payloads and results, dead letters, leases"),
    Access.READ_EVENTS: Rule(_READ, "the journal, and news of it"),
    Access.READ_WORKERS: Rule(_READ, "workers"),
    Access.READ_SCHEDULES: Rule(_READ, "schedules"),
    Access.READ_KEYS: Rule(_READ | _ADMIN, "keys", Reach.TENANT),
    Access.READ_FIGURES: Rule(_READ, "overview, analytics, metrics"),
    Access.READ_TROUBLES: Rule(_ADMIN, "problems of the store"),
    # Ackline's own keys: who may write them may read them, as may who may read jobs.
    Access.NOTES_OF_WORKERS: Rule(_CONSUME | _ADMIN, "what workers note beside a queue"),
    Access.NOTES_OF_PRODUCERS: Rule(_PRODUCE | _ADMIN, "what producers note beside a queue"),
    Access.NOTES_OF_READERS: Rule(
        _CONSUME | _READ | _ADMIN, "how far a reader of the journal has read"
    ),
    Access.NOTES_BESIDE: Rule(_PRODUCE | _CONSUME | _ADMIN, "keys that stand beside jobs"),
    Access.NOTES_OF_SCHEDULES: Rule(_ADMIN, "schedules as they are stored", Reach.ALL_KINDS),
}

OF_STEPS: Mapping[Act, Access] = {
    **dict.fromkeys(FENCED, Access.SETTLE),
    Act.EXPIRE: Access.RECOVER,
    Act.CANCEL: Access.CANCEL,
    Act.REQUEST_CANCEL: Access.CANCEL,
    Act.REDRIVE: Access.REDRIVE,
    Act.EDIT: Access.EDIT,
    Act.MOVE: Access.MOVE,
}
"""What a transition does."""


OF_TOPICS: Mapping[Topic, Access] = {
    "ready": Access.CLAIM,
    "signals": Access.SETTLE,
    "ends": Access.AWAIT,
    "changes": Access.READ_EVENTS,
}
"""What is listened to; who may read the journal may listen to all."""

OF_OWN_KEYS: Mapping[str, Access] = {
    own_attempts.NOTE: Access.NOTES_OF_WORKERS,
    "callbacks": Access.NOTES_OF_PRODUCERS,
    "claims": Access.NOTES_OF_WORKERS,
    "cron": Access.NOTES_OF_WORKERS,
    "fleets": Access.NOTES_OF_WORKERS,
    locks.NOTE: Access.NOTES_OF_WORKERS,
    "recovered": Access.NOTES_OF_WORKERS,
    "readers": Access.NOTES_OF_READERS,
    "schedules": Access.NOTES_OF_SCHEDULES,
    "spark": Access.NOTES_OF_WORKERS,
    BESIDE: Access.NOTES_BESIDE,
}
"""What one of Ackline's own keys is, by the second part; only the service writes all others."""

_NOTES = tuple(dict.fromkeys(OF_OWN_KEYS.values()))

OF_VERBS: Mapping[str, tuple[Access, ...]] = {
    "info": (Access.READ_INFO,),
    "now": (Access.READ_INFO,),
    "describe": (Access.READ_QUEUES, Access.READ_SETTINGS),
    "enqueue": (Access.ENQUEUE,),
    "claim": (Access.CLAIM,),
    "apply": tuple(dict.fromkeys(OF_STEPS.values())),
    "heartbeat": (Access.SETTLE,),
    "next_due": (Access.READ_QUEUES, Access.MAINTAIN, Access.RECOVER),
    "promote": (Access.MAINTAIN,),
    "prune": (Access.MAINTAIN,),
    "leases": (Access.READ_JOBS, Access.RECOVER),
    "workers": (Access.READ_WORKERS, Access.RECOVER),
    "get": (Access.READ_JOBS, Access.AWAIT, Access.SETTLE),
    "page": (Access.READ_JOBS,),
    "events": (Access.READ_EVENTS,),
    "listen": tuple(OF_TOPICS.values()),
    "read_keys": (Access.READ_KEYS, Access.READ_JOBS, *_NOTES),
    "write_keys": (Access.WRITE_KEYS, *_NOTES),
    "configure": (Access.CONFIGURE, Access.PUBLISH_POLICIES),
    "purge": (Access.DELETE,),
    "drop": (Access.DROP,),
}
"""What a verb of the store does: one of these, depending on its arguments and on the caller.

Where reading is not all that a verb is for, a caller that may not read gets less of it.
"""


def is_settling(step: Transition) -> bool:
    """Whether a transition is for the holder of the job's lease only.

    A redrive's token is no lease: it names a failure, and everyone who reads the job knows it.
    """
    return step.act in FENCED or (step.act is Act.CANCEL and step.token is not None)


def access_of(step: Transition) -> Access:
    """What a transition does: a job is cancelled by its holder, or by anybody while it waits."""
    if step.act is Act.CANCEL and is_settling(step):
        return Access.SETTLE
    return OF_STEPS[step.act]


def access_of_key(key: tuple[str, ...]) -> Access:
    """What a key, or the beginning of one, is: a tenant's own, or one of Ackline's."""
    if key[:1] != (OWN_KEYS,):
        return Access.READ_KEYS
    return OF_OWN_KEYS.get(key[1], Access.READ_JOBS) if len(key) > 1 else Access.READ_JOBS


def is_read(access: Access) -> bool:
    """Whether it changes nothing."""
    return Scope.READ in RULES[access].scopes
