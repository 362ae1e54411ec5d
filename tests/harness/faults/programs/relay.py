"""A relay process: `python -m tests.harness.faults.programs.relay OPTIONS`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from unittest.mock import patch

import msgspec

from ackline.core.job import Record
from ackline.queues import Queues
from ackline.relay import Relay
from ackline.relay.ledger import Ledger, LedgerData, RelayedJobs, drafts_of
from ackline.stores.contract import Receipt
from ackline.stores.registry import store_from_url
from tests.harness.faults.programs.options import QUEUE, Program, parse_command_line

LEASE = 1.0
"""Seconds, so that a killed relay's jobs are soon taken over."""

BATCH = 25

NO_LEDGER = "no ledger"
"""The control: the variant of a relay that trusts the target's ids alone."""


class NoLedger(Ledger):
    """Keeps no record of what was moved, like most relays."""

    must_read = False

    def read(self) -> LedgerData:
        """An empty page."""
        return LedgerData()

    def enqueue(
        self, jobs: Sequence[Record], settled: RelayedJobs, read_count: int
    ) -> list[Receipt]:
        """Enqueue all jobs, and let their ids prevent duplicates."""
        del settled, read_count
        return self._target.store.enqueue(self._target.key, list(drafts_of(jobs)))


def main() -> None:
    """Move jobs until stopped."""
    options = parse_command_line()
    # The variant is one of relays here, not one of stores.
    program = Program(msgspec.structs.replace(options, variant=""))
    program.open()
    source = Queues(store_from_url(options.source))
    source.store.open()
    ledger = NoLedger if options.variant == NO_LEDGER else Ledger
    with patch("ackline.relay.pump.Ledger", ledger):
        relay = Relay(source[QUEUE], program.queue, batch=BATCH, lease=LEASE)
    thread = threading.Thread(target=relay.run)
    thread.start()
    program.wait_until_stopped()
    relay.request_stop()
    thread.join()
    source.close()
    program.close()


if __name__ == "__main__":
    main()
