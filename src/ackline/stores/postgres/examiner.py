"""Describes a store: what it is, where it is, and how it fares."""

from __future__ import annotations

import time

from ackline.stores.base import StoreInfo
from ackline.stores.postgres import look
from ackline.stores.postgres.engine import Engine
from ackline.stores.postgres.facts import Facts, details_of, in_words, read_facts
from ackline.stores.postgres.journal import journal_end
from ackline.stores.postgres.transaction import Transaction
from ackline.stores.postgres.troubles import troubles_of

FRESH_FOR = 10.0
"""Seconds for which facts are not read again: some callers ask for the time every second."""


class Examiner:
    """Describes a store; reads the facts about the server only now and then."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._facts: Facts | None = None
        self._looked_at = 0.0

    def info(self, tx: Transaction) -> StoreInfo:
        """What the store is, where, and how it fares."""
        address, facts = self._engine.address, self._fresh(tx)
        now = look.now(tx)
        return StoreInfo(
            name="postgresql",
            location=address.location,
            durability=in_words(facts),
            version=f"PostgreSQL {facts.version}",
            schema=facts.schema,
            now=now,
            cursor=journal_end(tx),
            details=details_of(facts, address),
            troubles=troubles_of(facts, address),
        )

    def _fresh(self, tx: Transaction) -> Facts:
        if self._facts is None or time.monotonic() - self._looked_at > FRESH_FOR:
            engine = self._engine
            self._facts = read_facts(tx, engine.address.schema, pooled=engine.pooled)
            self._looked_at = time.monotonic()
        return self._facts
