"""Records in the history what is requested of a store, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence

from ackline.core.job import Draft, QueueKey
from ackline.core.lifecycle import Transition, Verdict
from ackline.stores.contract import ClaimRequest, ClaimResult, KeyWrite, Receipt, Store
from tests.harness.faults.checks.history import History, Phase, Step, StepType
from tests.harness.faults.wrapped_store import WrappedStore


class RecordingStore(WrappedStore):
    """Every enqueue and settling is recorded before it is sent and when it is answered."""

    def __init__(self, inner: Store, history: History) -> None:
        super().__init__(inner)
        self._history = history

    def enqueue(
        self, queue: QueueKey, drafts: Sequence[Draft], keys: Sequence[KeyWrite] = ()
    ) -> list[Receipt]:
        self._note_drafts(drafts, Phase.INVOKE)
        try:
            receipts = super().enqueue(queue, drafts, keys)
        except Exception as error:
            # Whatever the error says, the jobs may be stored: only the answer was not ok.
            self._note_drafts(drafts, Phase.INFO, f"{type(error).__name__}: {error}")
            raise
        self._history.write(
            *(
                Step(type=StepType.ENQUEUE, phase=Phase.OK, id=receipt.id, act=receipt.state)
                for receipt in receipts
            )
        )
        return receipts

    def claim(
        self, queue: QueueKey, request: ClaimRequest, transitions: Sequence[Transition] = ()
    ) -> ClaimResult:
        self._note(transitions)
        try:
            claimed = super().claim(queue, request, transitions)
        except Exception as error:
            self._note_unknown(transitions, error)
            raise
        self._note_verdicts(transitions, claimed.verdicts)
        return claimed

    def apply(self, queue: QueueKey, transitions: Sequence[Transition]) -> list[Verdict]:
        self._note(transitions)
        try:
            verdicts = super().apply(queue, transitions)
        except Exception as error:
            self._note_unknown(transitions, error)
            raise
        self._note_verdicts(transitions, verdicts)
        return verdicts

    def _note_drafts(self, drafts: Sequence[Draft], phase: Phase, note: str = "") -> None:
        self._history.write(
            *(Step(type=StepType.ENQUEUE, phase=phase, id=draft.id, note=note) for draft in drafts)
        )

    def _note(self, transitions: Sequence[Transition]) -> None:
        self._write([_step(each, Phase.INVOKE) for each in transitions])

    def _note_unknown(self, transitions: Sequence[Transition], error: Exception) -> None:
        note = f"{type(error).__name__}: {error}"
        self._write([_step(each, Phase.INFO, note) for each in transitions])

    def _note_verdicts(
        self, transitions: Sequence[Transition], verdicts: Sequence[Verdict]
    ) -> None:
        self._write(
            [
                _step(each, Phase.OK if verdict.applied else Phase.FAIL, str(verdict.state))
                for each, verdict in zip(transitions, verdicts, strict=True)
            ]
        )

    def _write(self, steps: list[Step]) -> None:
        if steps:
            self._history.write(*steps)


def _step(transition: Transition, phase: Phase, note: str = "") -> Step:
    return Step(
        type=StepType.SETTLE,
        phase=phase,
        id=transition.id,
        act=transition.act,
        token=transition.token or 0,
        note=note,
    )
