"""Workers: claim jobs, run their handlers and settle them, in one process or several."""

from ackline.worker.hooks import Execution, Hooks
from ackline.worker.queue_runner import QueueStats
from ackline.worker.worker import Worker, WorkerStats

__all__ = ["Execution", "Hooks", "QueueStats", "Worker", "WorkerStats"]
