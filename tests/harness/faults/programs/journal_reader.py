"""A process that only reads: `python -m tests.harness.faults.programs.journal_reader
OPTIONS`."""

from __future__ import annotations

from ackline.stores.contract import Filter
from tests.harness.faults.checks.history import Phase, Step, StepType
from tests.harness.faults.programs.options import Program, parse_command_line

PAGE = 200


def main() -> None:
    """Follow the journal, and list jobs in between."""
    program = Program(parse_command_line())
    program.open()
    cursor: str | None = None
    while not program.stopping.wait(0.005):
        cursor = _read_more(program, cursor)
        program.queue.store.page(program.queue.key, Filter(), None, PAGE)
    program.close()


def _read_more(program: Program, cursor: str | None) -> str | None:
    events = program.queue.store.events(program.queue.key, cursor, PAGE)
    if not events:
        return cursor
    last = events[-1].cursor
    program.history.write(Step(type=StepType.READ, phase=Phase.OK, attempt=len(events), note=last))
    return last


if __name__ == "__main__":
    main()
