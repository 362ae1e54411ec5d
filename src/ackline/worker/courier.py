"""Couriers carry settled outcomes to the store and bring back the next jobs, in one call."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from ackline import lifecycle
from ackline.errors import PASSING, StoreClosed, StoreError
from ackline.pauses import Pauses
from ackline.queue.consumer import LONGEST_POLL, time_to_next
from ackline.stores.base import Claimed
from ackline.worker.held import Held
from ackline.worker.holdings import Holdings
from ackline.worker.outbox import Settled

logger = logging.getLogger("ackline")

LINGER = 0.002
"""Seconds that outcomes may wait for others to go with them while handlers are busy."""

SETTLE_DOWN = 0.005
"""Seconds after which to look again whether the lanes have taken up what was fetched."""

AT_ONCE = 0.1
"""Seconds for what should take no time."""

RETRIES = (0.05, 5.0)
"""Seconds between tries while the store cannot be reached."""


class Courier:
    """One of the threads that serve a queue; while one waits for the store, another carries."""

    def __init__(
        self, holdings: Holdings, name: str, give_up: Callable[[StoreClosed], None]
    ) -> None:
        self._holdings = holdings
        self._give_up = give_up
        self._nudged = threading.Event()
        self._stopping = False
        self.listening = False
        self._pauses = Pauses(*RETRIES)
        self.idle = False
        self._lent = False
        """Whether its thread may be running a handler."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to carry."""
        self._thread.start()

    def wake(self) -> None:
        """There is something to carry."""
        if not self._nudged.is_set():
            self._nudged.set()
            if self.listening:
                self._holdings.listener.wake()

    def stop(self) -> None:
        """Carry what is left, then end."""
        self._stopping = True
        self.wake()

    @property
    def here(self) -> bool:
        """Whether this is called in its own thread, which will look by itself what to carry."""
        return self._thread is threading.current_thread()

    def join(self, timeout: float) -> bool:
        """Wait for its thread to end; False if it did not.

        A courier in a handler that does not end is left behind, as lanes are: others carry the
        rest.
        """
        if self._thread.ident is None:
            return True
        if self._lent:
            self._thread.join(AT_ONCE)
        if not self._lent:
            self._thread.join(timeout)
        return self._lent or not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping or self._holdings.outbox or self._holdings.waiting:
            try:
                self._turn()
            except StoreClosed as error:
                if not self._stopping:
                    self._give_up(error)
            except Exception as error:
                # A worker whose couriers had ended would look alive, and hear of no job.
                self._wait_for_store(error)

    def _turn(self) -> None:
        holdings = self._holdings
        # Cleared before looking, so that outcomes that come in meanwhile cut the next rest short.
        self._nudged.clear()
        holdings.outbox.call_again()
        pending = len(holdings.outbox)
        want = holdings.want(pending)
        if not holdings.claiming and holdings.withdraw():
            self._withdraw()
            return  # the jobs that it gave back are carried next
        if not self._stopping and not self._worth_it(pending, want):
            self._rest(LINGER if pending else SETTLE_DOWN if want else LONGEST_POLL)
            if not self._holdings.outbox:
                return
        busy = holdings.outbox or holdings.handed_since_claim or self._stopping
        quiet_for = 0.0 if busy else holdings.quiet_for()
        if quiet_for:
            self._listen(quiet_for)
        else:
            self._carry()

    def _worth_it(self, pending: int, want: int) -> bool:
        half = self._holdings.batch // 2
        if pending >= half or want >= half:
            return True
        return bool(pending or want) and not self._holdings.unstarted()

    def _rest(self, seconds: float) -> None:
        self.idle = True
        self._nudged.wait(self._holdings.nap(seconds))
        self.idle = False

    def _carry(self) -> None:
        """Settle and claim; only settle while there is nothing to claim."""
        holdings = self._holdings
        batch = holdings.outbox.take(holdings.batch)
        # A claim would bring nothing, and callers that wait for an outcome would wait for it, too.
        only_settle = batch and holdings.quiet_for() and not holdings.waiting
        want = 0 if only_settle else holdings.reserve(len(batch))
        if not batch and not want:
            self._rest(LINGER)  # another courier, or another queue, goes first
            return
        if want:
            holdings.begin_claim()
        brought, asked_at = 0, time.monotonic()
        try:
            claimed = self._exchange(batch, want)
            brought = len(claimed.jobs)
        except StoreClosed:
            holdings.abandon(batch)
            raise
        except PASSING as error:
            holdings.outbox.put_back(batch)
            holdings.note_news()
            self._wait_for_store(error)
            return
        except Exception as error:
            self._settle_singly(batch)
            holdings.note_news()
            self._wait_for_store(error)
            return
        finally:
            holdings.unreserve(want, brought)
        self._pauses.reset()
        holdings.troubled = False
        holdings.settled(batch, claimed.verdicts)
        if not claimed.as_before:
            self._note_rest(claimed, want)
        self._receive(claimed, asked_at)

    def _note_rest(self, claimed: Claimed, want: int) -> None:
        """Note whether there are more jobs to claim, and when."""
        holdings = self._holdings
        if len(claimed.jobs) < want and not claimed.more:
            holdings.await_more()
            holdings.end_claim(time_to_next(claimed))
        elif want:
            holdings.note_news()

    def _receive(self, claimed: Claimed, asked_at: float) -> None:
        self._lent = True
        try:
            since = asked_at if claimed.since is None else claimed.since
            self._holdings.receive(claimed.jobs, since)
        finally:
            self._lent = False

    def _withdraw(self) -> None:
        """Claim nothing: this brings jobs that were handed over before, and ends handing over."""
        holdings, asked_at = self._holdings, time.monotonic()
        try:
            claimed = holdings.queue.claim_records(holdings.request(0))
        except StoreClosed:
            raise
        except BaseException:
            # When stopping it is too late: the lease of a job on its way will expire.
            holdings.waiting = not self._stopping
            raise
        holdings.receive(claimed.jobs, asked_at if claimed.since is None else claimed.since)

    def _exchange(self, batch: list[Settled], want: int) -> Claimed:
        queue = self._holdings.queue
        transitions = [transition for _, transition in batch]
        if want:
            return queue.claim_records(self._holdings.request(want, len(batch)), transitions)
        return Claimed(jobs=[], verdicts=queue.apply(transitions), now=0.0)

    def _settle_singly(self, batch: list[Settled]) -> None:
        """Settle one by one: an outcome that the store cannot take must not hold up the others."""
        holdings = self._holdings
        for held, transition in batch:
            try:
                verdicts = holdings.queue.apply([transition])
            except PASSING:
                holdings.outbox.put_back([(held, transition)])
            except Exception as error:
                if isinstance(error, StoreError) and not self._takes_steps_of(held):
                    # It takes nothing, as after a change of password: the outcome is not at fault.
                    holdings.outbox.put_back([(held, transition)])
                    continue
                logger.exception(
                    "job %r: its outcome cannot be stored; when its lease expires, it is retried",
                    held.id,
                )
                holdings.forget(held)
            else:
                holdings.settled([(held, transition)], verdicts)

    def _takes_steps_of(self, held: Held) -> bool:
        """Whether the store takes any step of this job now, such as extending its lease."""
        try:
            self._holdings.queue.apply([lifecycle.extend(held.record, held.lease)])
        except StoreError:
            return False
        return True

    def _listen(self, seconds: float) -> None:
        if not self._holdings.listening.acquire(blocking=False):
            # One listener is enough: two would both claim every job, one of them in vain.
            self._rest(seconds)
            return
        self.listening = self.idle = True
        handed = None
        try:
            if not self._nudged.is_set() and not self._stopping:
                self._holdings.listener.wait(seconds)
                handed = self._holdings.handed()
                if handed is None or handed.more:
                    # Woken or not, it is time to claim; if not by this courier, then by another.
                    self._holdings.note_news()
        finally:
            self.listening = self.idle = False
            self._holdings.listening.release()
        if handed is not None:
            self._receive(handed, time.monotonic())
            if self._holdings.outbox:
                self._carry()

    def _wait_for_store(self, error: Exception) -> None:
        self._holdings.troubled = True
        logger.error(
            "queue %s: %s; trying again in %.2f s, nothing is lost",
            self._holdings.queue.key,
            error,
            self._pauses.length,
            exc_info=None if isinstance(error, PASSING) else error,
        )
        if not self._nudged.wait(self._pauses.length):
            # Not if an ended handler has cut the wait short: a busy worker would soon wait longest.
            self._pauses.lengthen()
