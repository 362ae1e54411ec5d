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
"""Seconds; short, so that another relay soon takes over the jobs of a killed one."""

BATCH = 25

NO_LEDGER = "no ledger"
"""The control: a relay that relies on the ids in the target alone."""


class NoLedger(Ledger):
    """Keeps no record of moved jobs."""

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
    # Here, the variant names a relay, not a store.
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
