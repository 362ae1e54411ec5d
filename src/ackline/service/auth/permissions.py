"""Who may do what: the one table behind the simple routes, `/v1` and the store API.

Every request names the permission that it needs; nothing else decides whether its caller may do
it. What a caller can see of an answer is in `principal`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from ackline.core.events import Act
from ackline.core.lifecycle import FENCED_ACTS, Transition
from ackline.core.limits import RESERVED_KEY_PREFIX
from ackline.core.reserved_keys import KeyFamily
from ackline.stores.contract import Topic


class Scope(enum.StrEnum):
    """What a JWT or API key carries; one or more allow a permission."""

    PRODUCE = "produce"
    CONSUME = "consume"
    READ = "read"
    ADMIN = "admin"


class Impact(enum.StrEnum):
    """How much of its tenant a permission affects, so that a restricted caller may not use it."""

    OWN_JOBS = "its own queues and kinds"
    """Only what the caller may access; the rest is left out or refused."""
    ALL_KINDS = "all kinds of a queue"
    """Jobs of all kinds of a queue."""
    TENANT = "the whole tenant"
    """All queues."""


class Permission(enum.StrEnum):
    """One thing that a request does or reads."""

    ENQUEUE = "enqueue"
    READ_RESULT = "read result"
    CANCEL = "cancel"
    SET_UNDELIVERED_KEYS = "set undelivered keys"
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
    READ_STATS = "read stats"
    READ_HEALTH_ISSUES = "read health issues"
    WORKER_KEYS = "reserved keys of workers"
    PRODUCER_KEYS = "reserved keys of producers"
    READER_KEYS = "reserved keys of readers"
    JOB_KEYS = "reserved keys of jobs"
    SCHEDULE_KEYS = "reserved keys of schedules"


class PermissionRule(NamedTuple):
    """Who has one permission."""

    scopes: frozenset[Scope]
    """Any of these is enough; no scope includes another."""
    description: str
    impact: Impact = Impact.OWN_JOBS


_PRODUCE, _CONSUME = frozenset({Scope.PRODUCE}), frozenset({Scope.CONSUME})
_READ, _ADMIN = frozenset({Scope.READ}), frozenset({Scope.ADMIN})

RULES: Mapping[Permission, PermissionRule] = {
    Permission.ENQUEUE: PermissionRule(_PRODUCE, "enqueue and import jobs"),
    Permission.READ_RESULT: PermissionRule(
        _PRODUCE | _READ,
        "the state and the result of a job by its id, and notifications of finished jobs",
    ),
    Permission.CANCEL: PermissionRule(
        _PRODUCE, "cancel a waiting job; request cancellation of a running one"
    ),
    Permission.SET_UNDELIVERED_KEYS: PermissionRule(
        _PRODUCE | _ADMIN, "`keys_if_undelivered` of jobs and schedules", Impact.TENANT
    ),
    Permission.CLAIM: PermissionRule(_CONSUME, "claim, poll, listen"),
    Permission.SETTLE: PermissionRule(
        _CONSUME, "settle jobs by the token of their lease, extend leases"
    ),
    Permission.RECOVER: PermissionRule(
        _CONSUME, "recover leases; for that, read leases without their contents, and workers"
    ),
    Permission.MAINTAIN: PermissionRule(_CONSUME | _ADMIN, "promote due jobs, prune finished ones"),
    Permission.PUBLISH_POLICIES: PermissionRule(
        _CONSUME | _ADMIN, "publish the policies of a worker's handlers"
    ),
    Permission.REDRIVE: PermissionRule(_ADMIN, "redrive a failed job"),
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
    Permission.READ_JOBS: PermissionRule(_READ, "jobs with payloads and results, the DLQ, leases"),
    Permission.READ_EVENTS: PermissionRule(_READ, "the journal, and notifications of its changes"),
    Permission.READ_WORKERS: PermissionRule(_READ, "workers"),
    Permission.READ_SCHEDULES: PermissionRule(_READ, "schedules"),
    Permission.READ_KEYS: PermissionRule(_READ | _ADMIN, "keys", Impact.TENANT),
    Permission.READ_STATS: PermissionRule(_READ, "overview, analytics, metrics"),
    Permission.READ_HEALTH_ISSUES: PermissionRule(_ADMIN, "health issues of the store"),
    # Reserved keys: callers that may write them may read them, as may those that may read jobs.
    Permission.WORKER_KEYS: PermissionRule(_CONSUME | _ADMIN, "reserved keys that workers write"),
    Permission.PRODUCER_KEYS: PermissionRule(
        _PRODUCE | _ADMIN, "reserved keys that producers write"
    ),
    Permission.READER_KEYS: PermissionRule(
        _CONSUME | _READ | _ADMIN, "the position of a reader of the journal"
    ),
    Permission.JOB_KEYS: PermissionRule(
        _PRODUCE | _CONSUME | _ADMIN, "reserved keys that are written together with jobs"
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
"""The permission that a transition needs."""


PERMISSION_OF_TOPIC: Mapping[Topic, Permission] = {
    "ready": Permission.CLAIM,
    "cancel_requests": Permission.SETTLE,
    "finished": Permission.READ_RESULT,
    "changes": Permission.READ_EVENTS,
}
"""The permission to listen to a topic; callers that may read events may listen to all."""

PERMISSION_OF_RESERVED_KEY: Mapping[str, Permission] = {
    KeyFamily.LOCAL_MAX_ATTEMPTS: Permission.WORKER_KEYS,
    KeyFamily.CALLBACKS: Permission.PRODUCER_KEYS,
    KeyFamily.CLAIMS: Permission.WORKER_KEYS,
    KeyFamily.CRON: Permission.WORKER_KEYS,
    KeyFamily.FLEETS: Permission.WORKER_KEYS,
    KeyFamily.MAINTENANCE: Permission.WORKER_KEYS,
    KeyFamily.RECOVERED: Permission.WORKER_KEYS,
    KeyFamily.READERS: Permission.READER_KEYS,
    KeyFamily.SCHEDULES: Permission.SCHEDULE_KEYS,
    KeyFamily.SPARK: Permission.WORKER_KEYS,
    KeyFamily.QUEUE: Permission.JOB_KEYS,
}
"""The permission for a reserved key, by its second part; others only the service writes."""

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
"""The permissions of a store method: any of them may do, depending on its arguments.

Where a method is for more than reading, a caller that may not read gets less of its answer.
"""


def is_settling(transition: Transition) -> bool:
    """Whether a transition is only for the holder of the job's lease.

    A redrive's token is no lease: it identifies a failure, and is shown with the job.
    """
    return transition.act in FENCED_ACTS or (
        transition.act is Act.CANCEL and transition.token is not None
    )


def permission_for(transition: Transition) -> Permission:
    """The permission for a transition; the holder of a lease settles the job by cancelling it."""
    if transition.act is Act.CANCEL and is_settling(transition):
        return Permission.SETTLE
    return PERMISSION_OF_ACT[transition.act]


def permission_for_key(key: tuple[str, ...]) -> Permission:
    """The permission for a key or prefix: a tenant's own, or a reserved one."""
    if key[:1] != (RESERVED_KEY_PREFIX,):
        return Permission.READ_KEYS
    return (
        PERMISSION_OF_RESERVED_KEY.get(key[1], Permission.READ_JOBS)
        if len(key) > 1
        else Permission.READ_JOBS
    )


def is_read_only(permission: Permission) -> bool:
    """Whether a permission is only for reading."""
    return Scope.READ in RULES[permission].scopes
