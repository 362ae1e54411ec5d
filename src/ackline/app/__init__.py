"""Apps and tasks: functions that are called through queues."""

from ackline.app.app import App
from ackline.app.injection import current_job, resource
from ackline.app.task import AioTask, AsyncTask, EnqueueRequest, Task

__all__ = [
    "AioTask",
    "App",
    "AsyncTask",
    "EnqueueRequest",
    "Task",
    "current_job",
    "resource",
]
