"""Who may do what: the one table that the simple routes, `/v1` and the store over HTTP all ask.

Each request names what it does; nothing else decides whether its caller may. What a caller gets
to see of an answer is in `principal`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from ackline.core.events import Act
from ackline.core.lifecycle import FENCED_ACTS, Transition
from ackline.core.limits import RESERVED_KEY_PREFIX
from ackline.maintenance import locks
from ackline.queue.metadata import local_max_attempts
from ackline.stores.contract import QUEUE_KEYS, Topic


class Scope(enum.StrEnum):
    """What a caller may do."""

    PRODUCE = "produce"
    CONSUME = "consume"
    READ = "read"
    ADMIN = "admin"


class Impact(enum.StrEnum):
    """How much of its tenant a caller must not be limited in."""

    OWN_JOBS = "its queues and kinds"
    """Nothing: what is not for the caller is left out, or refused by name."""
    ALL_KINDS = "its queues, all kinds"
    """It affects jobs of all kinds."""
    TENANT = "the whole tenant"
    """It affects all queues."""


class Permission(enum.StrEnum):
    """One thing that a request does or reads."""

    ENQUEUE = "enqueue"
    READ_RESULT = "await"
    CANCEL = "cancel"
    SET_UNDELIVERED_KEYS = "name keys"
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
    READ_STATS = "read figures"
    READ_HEALTH_ISSUES = "read troubles"
    WORKER_KEYS = "notes of workers"
    PRODUCER_KEYS = "notes of producers"
    READER_KEYS = "notes of readers"
    JOB_KEYS = "notes beside jobs"
    SCHEDULE_KEYS = "notes of schedules"


class PermissionRule(NamedTuple):
    """Who may do one thing."""

    scopes: frozenset[Scope]
    """One of these is enough; no scope includes another."""
    description: str
    impact: Impact = Impact.OWN_JOBS


_PRODUCE, _CONSUME = frozenset({Scope.PRODUCE}), frozenset({Scope.CONSUME})
_READ, _ADMIN = frozenset({Scope.READ}), frozenset({Scope.ADMIN})

RULES: Mapping[Permission, PermissionRule] = {
    Permission.ENQUEUE: PermissionRule(_PRODUCE, "enqueue and import jobs"),
    Permission.READ_RESULT: PermissionRule(
        _PRODUCE | _READ, "the state and the result of a job by its id, and news of jobs that end"
    ),
    Permission.CANCEL: PermissionRule(
        _PRODUCE, "cancel a job that waits; ask a running one to stop"
    ),
    Permission.SET_UNDELIVERED_KEYS: PermissionRule(
        _PRODUCE | _ADMIN, "`keys_if_undelivered` of jobs and schedules", Impact.TENANT
    ),
    Permission.CLAIM: PermissionRule(_CONSUME, "claim, poll, listen"),
    Permission.SETTLE: PermissionRule(
        _CONSUME, "settle jobs by the token of their lease, extend leases"
    ),
    Permission.RECOVER: PermissionRule(
        _CONSUME, "take back leases; for that, leases without their contents, and workers"
    ),
    Permission.MAINTAIN: PermissionRule(_CONSUME | _ADMIN, "promote due jobs, prune finished ones"),
    Permission.PUBLISH_POLICIES: PermissionRule(
        _CONSUME | _ADMIN, "publish the policies of a worker's handlers"
    ),
    Permission.REDRIVE: PermissionRule(_ADMIN, "redrive a dead letter"),
    Permission.EDIT: PermissionRule(_ADMIN, "edit a job"),
    Permission.MOVE: PermissionRule(_ADMIN, "move a job to another queue"),
    Permission.DELETE: PermissionRule(_ADMIN, "delete and purge jobs"),
    Permission.BULK: PermissionRule(_ADMIN, "cancel, redrive, move or delete all jobs that match"),
    Permission.CONFIGURE: PermissionRule(
        _ADMIN, "pause, resume, change settings", Impact.ALL_KINDS
    ),
    Permission.DROP: PermissionRule(_ADMIN, "delete or rename a queue", Impact.ALL_KINDS),
    Permission.WRITE_SCHEDULES: PermissionRule(_ADMIN, "write and delete schedules"),
    Permission.WRITE_KEYS: PermissionRule(_ADMIN, "write and delete keys", Impact.TENANT),
    Permission.WEBHOOKS: PermissionRule(_ADMIN, "webhooks and their deliveries", Impact.TENANT),
    Permission.READ_INFO: PermissionRule(frozenset(Scope), "the store's name, version and clock"),
    Permission.READ_SETTINGS: PermissionRule(
        frozenset(Scope), "the settings of a queue, given its name"
    ),
    Permission.READ_QUEUES: PermissionRule(_READ, "queues and their counts"),
    Permission.READ_JOBS: PermissionRule(
        _READ, "jobs with payloads and results, dead letters, leases"
    ),
    Permission.READ_EVENTS: PermissionRule(_READ, "the journal, and news of it"),
    Permission.READ_WORKERS: PermissionRule(_READ, "workers"),
    Permission.READ_SCHEDULES: PermissionRule(_READ, "schedules"),
    Permission.READ_KEYS: PermissionRule(_READ | _ADMIN, "keys", Impact.TENANT),
    Permission.READ_STATS: PermissionRule(_READ, "overview, analytics, metrics"),
    Permission.READ_HEALTH_ISSUES: PermissionRule(_ADMIN, "problems of the store"),
    # Ackline's own keys: who may write them may read them, as may who may read jobs.
    Permission.WORKER_KEYS: PermissionRule(_CONSUME | _ADMIN, "what workers note beside a queue"),
    Permission.PRODUCER_KEYS: PermissionRule(
        _PRODUCE | _ADMIN, "what producers note beside a queue"
    ),
    Permission.READER_KEYS: PermissionRule(
        _CONSUME | _READ | _ADMIN, "how far a reader of the journal has read"
    ),
    Permission.JOB_KEYS: PermissionRule(
        _PRODUCE | _CONSUME | _ADMIN, "keys that stand beside jobs"
    ),
    Permission.SCHEDULE_KEYS: PermissionRule(
        _ADMIN, "schedules as they are stored", Impact.ALL_KINDS
    ),
}

PERMISSION_OF_ACT: Mapping[Act, Permission] = {
    **dict.fromkeys(FENCED_ACTS, Permission.SETTLE),
    Act.EXPIRE: Permission.RECOVER,
    Act.CANCEL: Permission.CANCEL,
    Act.REQUEST_CANCEL: Permission.CANCEL,
    Act.REDRIVE: Permission.REDRIVE,
    Act.EDIT: Permission.EDIT,
    Act.MOVE: Permission.MOVE,
}
"""What a transition does."""


PERMISSION_OF_TOPIC: Mapping[Topic, Permission] = {
    "ready": Permission.CLAIM,
    "cancel_requests": Permission.SETTLE,
    "finished": Permission.READ_RESULT,
    "changes": Permission.READ_EVENTS,
}
"""What is listened to; who may read the journal may listen to all."""

PERMISSION_OF_RESERVED_KEY: Mapping[str, Permission] = {
    local_max_attempts.METADATA_KEY: Permission.WORKER_KEYS,
    "callbacks": Permission.PRODUCER_KEYS,
    "claims": Permission.WORKER_KEYS,
    "cron": Permission.WORKER_KEYS,
    "fleets": Permission.WORKER_KEYS,
    locks.KEY_PREFIX: Permission.WORKER_KEYS,
    "recovered": Permission.WORKER_KEYS,
    "readers": Permission.READER_KEYS,
    "schedules": Permission.SCHEDULE_KEYS,
    "spark": Permission.WORKER_KEYS,
    QUEUE_KEYS: Permission.JOB_KEYS,
}
"""What one of Ackline's own keys is, by the second part; only the service writes all others."""

_RESERVED_KEY_PERMISSIONS = tuple(dict.fromkeys(PERMISSION_OF_RESERVED_KEY.values()))

PERMISSIONS_OF_VERB: Mapping[str, tuple[Permission, ...]] = {
    "info": (Permission.READ_INFO,),
    "now": (Permission.READ_INFO,),
    "describe": (Permission.READ_QUEUES, Permission.READ_SETTINGS),
    "enqueue": (Permission.ENQUEUE,),
    "claim": (Permission.CLAIM,),
    "apply": tuple(dict.fromkeys(PERMISSION_OF_ACT.values())),
    "heartbeat": (Permission.SETTLE,),
    "next_due": (Permission.READ_QUEUES, Permission.MAINTAIN, Permission.RECOVER),
    "promote": (Permission.MAINTAIN,),
    "prune": (Permission.MAINTAIN,),
    "leases": (Permission.READ_JOBS, Permission.RECOVER),
    "workers": (Permission.READ_WORKERS, Permission.RECOVER),
    "get": (Permission.READ_JOBS, Permission.READ_RESULT, Permission.SETTLE),
    "page": (Permission.READ_JOBS,),
    "events": (Permission.READ_EVENTS,),
    "listen": tuple(PERMISSION_OF_TOPIC.values()),
    "read_keys": (Permission.READ_KEYS, Permission.READ_JOBS, *_RESERVED_KEY_PERMISSIONS),
    "write_keys": (Permission.WRITE_KEYS, *_RESERVED_KEY_PERMISSIONS),
    "configure": (Permission.CONFIGURE, Permission.PUBLISH_POLICIES),
    "purge": (Permission.DELETE,),
    "drop": (Permission.DROP,),
}
"""What a verb of the store does: one of these, depending on its arguments and on the caller.

Where reading is not all that a verb is for, a caller that may not read gets less of it.
"""


def is_settling(step: Transition) -> bool:
    """Whether a transition is for the holder of the job's lease only.

    A redrive's token is no lease: it names a failure, and everyone who reads the job knows it.
    """
    return step.act in FENCED_ACTS or (step.act is Act.CANCEL and step.token is not None)


def permission_for(step: Transition) -> Permission:
    """What a transition does: a job is cancelled by its holder, or by anybody while it waits."""
    if step.act is Act.CANCEL and is_settling(step):
        return Permission.SETTLE
    return PERMISSION_OF_ACT[step.act]


def permission_for_key(key: tuple[str, ...]) -> Permission:
    """What a key, or the beginning of one, is: a tenant's own, or one of Ackline's."""
    if key[:1] != (RESERVED_KEY_PREFIX,):
        return Permission.READ_KEYS
    return (
        PERMISSION_OF_RESERVED_KEY.get(key[1], Permission.READ_JOBS)
        if len(key) > 1
        else Permission.READ_JOBS
    )


def is_read_only(access: Permission) -> bool:
    """Whether it changes nothing."""
    return Scope.READ in RULES[access].scopes
