"""The lines of one queue, as one transaction sees them."""

from __future__ import annotations

from ackline.config import DEFAULT_SETTINGS, QueueSettings
from ackline.events import Entry
from ackline.job import QueueKey, State
from ackline.stores.shared.apply import topics_of
from ackline.stores.shared.packed import pack
from ackline.stores.shared.records import CODE, DROPPED, STATES, decode_settings, encode_settings
from ackline.stores.sqlite.queries import sql
from ackline.stores.sqlite.transaction import Numbers, Transaction

READY, PARKED, JOURNAL = CODE[State.QUEUED], 7, 8


def slot_of(queue: int, state: State) -> int:
    """The one line of a state (not of `queued`, which has several)."""
    return -(queue * 16 + CODE[state])


def state_in(slot: int) -> State:
    """The state of the jobs in a line."""
    return STATES[-slot & 15] if slot < 0 else State.QUEUED


class Lines:
    """One queue within a transaction: its settings, its lines, and how their counts change."""

    __slots__ = (
        "_ready",
        "_shifts",
        "dropped",
        "key",
        "last_token",
        "num",
        "numbers",
        "settings",
        "tx",
    )

    def __init__(
        self,
        tx: Transaction,
        numbers: Numbers,
        key: QueueKey,
        num: int,
        settings: QueueSettings,
        last_token: int,
    ) -> None:
        self.tx = tx
        self.numbers = numbers
        self.key = key
        self.num = num
        self.settings = settings
        self.last_token = last_token
        self.dropped = False
        self._ready: dict[str, int] = {}
        self._shifts: dict[int, int] = {}

    def slot(self, state: State) -> int:
        """The one line of a state (not of `queued`)."""
        return -(self.num * 16 + CODE[state])

    def ready(self, kind: str) -> int:
        """The line of queued jobs of a kind, made if need be."""
        slot = self._ready.get(kind)
        if slot is None:
            slot = self._ready[kind] = self._named(READY, "", kind)
        return slot

    def parked(self, group: str, kind: str) -> int:
        """The line of queued jobs of a kind that a full group holds back, made if need be."""
        return self._named(PARKED, group, kind)

    def _named(self, code: int, group: str, kind: str) -> int:
        name = (self.num, code, group, kind)
        row = self.tx.execute(sql("find_slot"), name).fetchall()
        if not row:
            slot = next_number(self.tx, "slot")
            self.tx.execute(sql("add_slot"), (slot, *name))
            return slot
        return int(row[0][0])

    def shift(self, source: int | None, to: int | None, count: int = 1) -> None:
        """Count jobs out of one line and into another."""
        shifts = self._shifts
        if source is not None:
            shifts[source] = shifts.get(source, 0) - count
        if to is not None:
            shifts[to] = shifts.get(to, 0) + count

    def flush(self) -> None:
        """Write the counts; call it before anything that reads them, and at the end."""
        shifts = [(count, slot) for slot, count in self._shifts.items()]
        self._shifts.clear()
        changed = [shift for shift in (*shifts, *self.numbers.shifts()) if shift[0]]
        if changed:
            self.tx.executemany(sql("count_slot"), changed)

    def next_token(self, now: float) -> int:
        """A token above every earlier one, even if the file was restored from a copy."""
        self.last_token = max(self.last_token + 1, int(now * 1e6))
        self.tx.execute(sql("set_last_token"), (self.last_token, self.num))
        return self.last_token

    def write_journal(self, at: float, entries: list[Entry]) -> None:
        """Append one batch, in the same transaction as the changes that it reports."""
        if entries:
            batch = (self.numbers.next_batch(), self.num, at, pack(entries))
            self.tx.execute(sql("add_batch"), batch)
            self.shift(None, -(self.num * 16 + JOURNAL), len(entries))
            self.tx.wake(self.key, *topics_of(entries))


def find_lines(tx: Transaction, key: QueueKey) -> Lines | None:
    """A queue, if it exists."""
    rows = tx.execute(sql("find_queue"), (key.tenant, key.name)).fetchall()
    for num, settings, last_token, last_job, last_batch in rows:
        if tx.numbers is None:
            tx.numbers = Numbers(last_job, last_batch)
        lines = Lines(tx, tx.numbers, key, num, decode_settings(settings), last_token)
        lines.dropped = settings == DROPPED
        return lines
    return None


def make_lines(tx: Transaction, key: QueueKey) -> Lines:
    """A queue, made if need be."""
    lines = find_lines(tx, key)
    if lines is None:
        settings = encode_settings(DEFAULT_SETTINGS)
        num = tx.execute(sql("add_queue"), (key.tenant, key.name, settings)).fetchall()[0][0]
        codes = [code for code in range(JOURNAL + 1) if code not in (READY, PARKED)]
        slots = [(-(num * 16 + code), num, code, "", "") for code in codes]
        tx.executemany(sql("add_slot"), slots)
        return make_lines(tx, key)
    if lines.dropped:
        tx.execute(sql("set_settings"), (encode_settings(DEFAULT_SETTINGS), lines.num))
        lines.dropped = False
    return lines


def next_number(tx: Transaction, counter: str) -> int:
    """A number that this counter never gave before."""
    return int(tx.execute(sql("next_number"), (counter,)).fetchall()[0][0])
