"""Workers: claim jobs, run their handlers and settle them, in one process or several."""

from ackline.worker.hooks import Execution, Hooks
from ackline.worker.worker import Worker

__all__ = ["Execution", "Hooks", "Worker"]
