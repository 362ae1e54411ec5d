"""Tokens are unique and growing, whatever happens to the clock and to the last writes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.harness.servers.redis import RedisServer
from tests.stores.redis.conftest import QUEUE, done, drafts, wants

from ackline.core.config import DEFAULTS
from ackline.core.job import Record, State
from ackline.core.lifecycle import Verdict, release
from ackline.stores.redis import RedisStore

Backup = dict[bytes, bytes]


def take(store: RedisStore) -> Record:
    [job] = store.claim(QUEUE, wants(1)).jobs
    return job


class TestClock:
    def test_tokens_grow_while_the_clock_stands_still(self, timed):
        timed.enqueue(QUEUE, drafts(20))

        tokens = [take(timed).token for _ in range(20)]

        assert tokens == sorted(set(tokens))

    def test_tokens_grow_when_the_clock_steps_back(self, timed, clock):
        timed.enqueue(QUEUE, drafts(20))
        tokens = [take(timed).token]
        for _ in range(19):
            clock.advance(-1000.0)
            tokens.append(take(timed).token)

        assert tokens == sorted(set(tokens))

    def test_tokens_follow_the_clock(self, timed, clock):
        """Otherwise tokens lost by a restore could be issued again."""
        timed.enqueue(QUEUE, drafts(2))
        first = take(timed)
        clock.advance(60.0)

        assert take(timed).token - first.token >= 59 * 1_000_000

    def test_tokens_of_a_server_that_was_restarted(self, open_store):
        with RedisServer(persistence="always") as server:
            store = open_store(server.url)
            store.enqueue(QUEUE, drafts(2))
            before = take(store)
            server.restart()

            assert take(store).token > before.token
            store.close()


@pytest.fixture
def raw(server):
    with server.client(decode_responses=False) as client:
        yield client


def back_up(client: Any, prefix: str) -> Backup:
    return {key: client.dump(key) for key in client.keys(f"{prefix}:*")}


def restore(client: Any, prefix: str, backup: Backup) -> None:
    """What happened since the backup is lost."""
    for key in client.keys(f"{prefix}:*"):
        client.delete(key)
    for key, value in backup.items():
        client.restore(key, 0, value)


class TestLoss:
    """A backup is restored, or a replica without the last claims is promoted."""

    def test_no_token_is_issued_again(self, timed, raw, prefix):
        timed.enqueue(QUEUE, drafts(3))
        take(timed)
        backup = back_up(raw, prefix)
        tokens = []
        for _ in range(5):
            tokens.append(take(timed).token)
            restore(raw, prefix, backup)

        assert len(set(tokens)) == 5

    def test_no_token_is_issued_again_when_the_clock_is_behind(self, timed, raw, prefix, clock):
        timed.enqueue(QUEUE, drafts(3))
        take(timed)
        backup = back_up(raw, prefix)
        tokens = []
        for _ in range(5):
            tokens.append(take(timed).token)
            restore(raw, prefix, backup)
            clock.advance(-3600.0)

        assert len(set(tokens)) == 5

    def test_programs_that_seed_random_are_no_exception(self, timed, raw, prefix):
        """As programs do whose handlers must be reproducible."""
        timed.enqueue(QUEUE, drafts(3))
        take(timed)
        backup = back_up(raw, prefix)
        tokens = []
        for _ in range(2):
            random.seed(42)
            tokens.append(take(timed).token)
            restore(raw, prefix, backup)

        assert tokens[0] != tokens[1]

    def test_the_lost_lease_cannot_settle_the_next_one(self, timed, raw, prefix):
        timed.enqueue(QUEUE, drafts(1))
        timed.apply(QUEUE, [release(take(timed), DEFAULTS)])
        backup = back_up(raw, prefix)
        lost = take(timed)
        restore(raw, prefix, backup)

        current = take(timed)

        assert timed.apply(QUEUE, [done(lost), done(current)]) == [
            Verdict(False, State.PROCESSING),
            Verdict(True, State.COMPLETED),
        ]

    def test_a_server_that_reloads_its_data(self, open_store):
        with RedisServer(enable_debug_command="yes") as server, server.client() as client:
            store = open_store(server.url)
            store.enqueue(QUEUE, drafts(2))
            before = take(store)
            client.execute_command("DEBUG", "RELOAD")

            assert take(store).token > before.token
            assert store.apply(QUEUE, [done(before)]) == [Verdict(True, State.COMPLETED)]
            store.close()
