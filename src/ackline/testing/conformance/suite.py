"""All groups of cases as one class."""

from __future__ import annotations

from ackline.testing.conformance.rules.jobs.claim import ClaimRules, OrderRules, TokenRules
from ackline.testing.conformance.rules.jobs.enqueue import EnqueueRules, FullStoreRules
from ackline.testing.conformance.rules.jobs.expire import AttemptRules, SweepRules
from ackline.testing.conformance.rules.jobs.groups import GroupRules
from ackline.testing.conformance.rules.jobs.heartbeat import HeartbeatRules, WorkerRules
from ackline.testing.conformance.rules.jobs.move import MoveRules
from ackline.testing.conformance.rules.jobs.operate import (
    CancelRules,
    EditExpectedRules,
    EditRules,
    PromoteRules,
    RedriveRules,
)
from ackline.testing.conformance.rules.jobs.settle import (
    AbsorbingRules,
    FencingRules,
    RepeatRules,
    SettleRules,
)
from ackline.testing.conformance.rules.jobs.transactions import JoinRules
from ackline.testing.conformance.rules.journal.entries import FollowRules, JournalRules
from ackline.testing.conformance.rules.journal.readers import EveryQueueRules, ReaderRules
from ackline.testing.conformance.rules.journal.trimming import (
    NeededRules,
    TrimmedReaderRules,
    TrimRules,
)
from ackline.testing.conformance.rules.stores.drop import DropRules
from ackline.testing.conformance.rules.stores.key_values import EnqueueWithKeysRules, KeyRules
from ackline.testing.conformance.rules.stores.limits import ByteRules, LimitRules
from ackline.testing.conformance.rules.stores.names import NameRules, PayloadRules, TenantRules
from ackline.testing.conformance.rules.stores.notify import ListenRules, SubscribeRules
from ackline.testing.conformance.rules.stores.open_and_close import (
    CloseRules,
    ReopenRules,
    SharedRules,
)
from ackline.testing.conformance.rules.stores.queries import (
    CountRules,
    DescribeRules,
    NextDueRules,
    PageRules,
)
from ackline.testing.conformance.rules.stores.retention import PruneRules, PurgeRules
from ackline.testing.conformance.rules.stores.threads import ThreadRules


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
    EditExpectedRules,
    PromoteRules,
    MoveRules,
    PruneRules,
    PurgeRules,
    DropRules,
    TrimRules,
    NeededRules,
    TrimmedReaderRules,
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
    EnqueueWithKeysRules,
    ListenRules,
    SubscribeRules,
    JoinRules,
    ThreadRules,
    CloseRules,
    ReopenRules,
    SharedRules,
):
    """Every rule that a store must keep; subclass it and implement `make_store`.

    >>> class TestMyStore(StoreConformance):
    ...     def make_store(self, clock, path):
    ...         return MyStore(path / "jobs", clock=clock)
    """
