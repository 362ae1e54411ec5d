"""A supervisor with its workers: `python -m tests.harness.faults.programs.supervisor
ASSIGNMENT`."""

from __future__ import annotations

import os
import signal
import threading

import msgspec

from ackline.worker.processes.supervisor import Supervisor
from tests.harness.faults.programs.options import Program, parse_command_line


def main() -> None:
    """Supervise until told to stop."""
    post = Program(parse_command_line())
    post.open()

    def command(id: str) -> list[str]:
        own = post.assignment
        return msgspec.structs.replace(own, name=id, parent=own.name).command("worker")

    supervisor = Supervisor(
        [post.queue], command, processes=post.assignment.processes, grace=post.assignment.grace
    )
    threading.Thread(target=_pass_on, args=(post,), daemon=True).start()
    supervisor.run()
    post.close()


def _pass_on(post: Program) -> None:
    """A supervisor ends only by a signal: send one when this process is asked to stop."""
    post.wait_until_stopped()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
