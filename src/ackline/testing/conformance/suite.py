"""All groups of cases as one class."""

from __future__ import annotations

from ackline.testing.conformance.rules.claim import ClaimRules, OrderRules, TokenRules
from ackline.testing.conformance.rules.drop import DropRules
from ackline.testing.conformance.rules.enqueue import EnqueueRules, FullStoreRules
from ackline.testing.conformance.rules.expire import AttemptRules, SweepRules
from ackline.testing.conformance.rules.groups import GroupRules
from ackline.testing.conformance.rules.handles import CloseRules, ReopenRules, SharedRules
from ackline.testing.conformance.rules.heartbeat import HeartbeatRules, WorkerRules
from ackline.testing.conformance.rules.joining import JoinRules
from ackline.testing.conformance.rules.journal import FollowRules, JournalRules
from ackline.testing.conformance.rules.keyed import KeyedEnqueueRules
from ackline.testing.conformance.rules.keys import KeyRules
from ackline.testing.conformance.rules.limits import ByteRules, LimitRules
from ackline.testing.conformance.rules.listening import ListenRules, SubscribeRules
from ackline.testing.conformance.rules.looking import (
    CountRules,
    DescribeRules,
    NextDueRules,
    PageRules,
)
from ackline.testing.conformance.rules.move import MoveRules
from ackline.testing.conformance.rules.names import NameRules, PayloadRules, TenantRules
from ackline.testing.conformance.rules.operate import (
    CancelRules,
    EditRules,
    PromoteRules,
    RedriveRules,
    SeenRules,
)
from ackline.testing.conformance.rules.readers import EveryQueueRules, ReaderRules
from ackline.testing.conformance.rules.retention import PruneRules, PurgeRules
from ackline.testing.conformance.rules.settle import (
    AbsorbingRules,
    FencingRules,
    RepeatRules,
    SettleRules,
)
from ackline.testing.conformance.rules.threads import ThreadRules
from ackline.testing.conformance.rules.trimming import DroppedRules, NeededRules, TrimRules


class StoreConformance(
    EnqueueRules,
    FullStoreRules,
    OrderRules,
    ClaimRules,
    TokenRules,
    GroupRules,
    FencingRules,
    SettleRules,
    AbsorbingRules,
    RepeatRules,
    SweepRules,
    AttemptRules,
    HeartbeatRules,
    WorkerRules,
    CancelRules,
    RedriveRules,
    EditRules,
    SeenRules,
    PromoteRules,
    MoveRules,
    PruneRules,
    PurgeRules,
    DropRules,
    TrimRules,
    NeededRules,
    DroppedRules,
    CountRules,
    DescribeRules,
    NextDueRules,
    PageRules,
    LimitRules,
    ByteRules,
    JournalRules,
    FollowRules,
    ReaderRules,
    EveryQueueRules,
    NameRules,
    PayloadRules,
    TenantRules,
    KeyRules,
    KeyedEnqueueRules,
    ListenRules,
    SubscribeRules,
    JoinRules,
    ThreadRules,
    CloseRules,
    ReopenRules,
    SharedRules,
):
    """Every rule that a store must keep; subclass it, and say which store.

    >>> class TestMyStore(StoreConformance):
    ...     def make_store(self, clock, place):
    ...         return MyStore(place / "jobs", clock=clock)
    """
