"""Working off queues: claim, run, settle, in one process or several."""

from ackline.worker.handler_outcome import Execution, Hooks
from ackline.worker.worker import Worker

__all__ = ["Execution", "Hooks", "Worker"]
