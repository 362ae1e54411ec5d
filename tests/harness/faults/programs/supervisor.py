"""A supervisor with its workers: `python -m tests.harness.faults.programs.supervisor
OPTIONS`."""

from __future__ import annotations

import os
import signal
import threading

import msgspec

from ackline.worker.processes.supervisor import Supervisor
from tests.harness.faults.programs.options import Program, parse_command_line


def main() -> None:
    """Supervise until stopped."""
    program = Program(parse_command_line())
    program.open()

    def command(id: str) -> list[str]:
        options = program.options
        return msgspec.structs.replace(options, name=id, parent=options.name).command("worker")

    supervisor = Supervisor(
        [program.queue], command, processes=program.options.processes, grace=program.options.grace
    )
    threading.Thread(target=_forward_stop, args=(program,), daemon=True).start()
    supervisor.run()
    program.close()


def _forward_stop(program: Program) -> None:
    """A supervisor stops only on a signal: send one when this process is stopped."""
    program.wait_until_stopped()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
