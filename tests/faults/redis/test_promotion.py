"""What a confirmation of a replica guarantees."""

import pytest

from ackline.core import lifecycle
from ackline.core.config import DEFAULTS
from ackline.core.errors import StoreUnavailable
from ackline.core.job import State
from ackline.queues import open as open_queues
from ackline.stores.contract import ClaimRequest
from tests.harness.faults.redis.connection_cuts import url_of
from tests.harness.faults.redis.replica_promotion import ReplicatedPair
from tests.harness.servers.redis import RedisServer

CONFIRMED = "?replicas=1&timeout=0.5"


def test_a_repeated_enqueue_waits_for_the_replica_again():
    """The first answer was lost; the second must not come before the replica has the job."""
    with ReplicatedPair() as pair:
        url = url_of(pair.proxy.address) + CONFIRMED
        with open_queues(url) as queues:
            queues["work"].enqueue(0, id="before")
            pair.fall_behind(0.0)
            with pytest.raises(StoreUnavailable):
                queues["work"].enqueue(1, id="job")

        with open_queues(url) as queues, pytest.raises(StoreUnavailable):
            queues["work"].enqueue(1, id="job")


def test_a_repeated_completion_waits_for_the_replica_again():
    with ReplicatedPair() as pair:
        url = url_of(pair.proxy.address) + CONFIRMED
        with open_queues(url) as queues:
            queues["work"].enqueue(0, id="job")
            [job] = queues["work"].claim(lease=60.0)
            pair.fall_behind(0.0)
            with pytest.raises(StoreUnavailable):
                queues["work"].complete(job)

        with open_queues(url) as queues, pytest.raises(StoreUnavailable):
            queues["work"].complete(job)


def test_a_refused_claim_leases_nothing():
    """Otherwise jobs that nobody got would lose attempts until they are dead-lettered."""
    with RedisServer() as server, open_queues(server.url) as queues:
        queue = queues["work"]
        queue.enqueue_many([1, 2, 3])
        [job] = queue.claim()
        done = lifecycle.complete(job.record, None, DEFAULTS)
        request = ClaimRequest(worker="w", limit=2, lease=60.0)
        with open_queues(server.url + CONFIRMED) as confirming, pytest.raises(StoreUnavailable):
            confirming.store.claim(queue.key, request, [done])

        assert queue.counts()[State.PROCESSING] == 0
