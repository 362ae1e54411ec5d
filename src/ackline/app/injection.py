"""Parameters of a task that the worker fills in: the running job, and resources."""

from __future__ import annotations

from typing import Any

import msgspec

from ackline.queue import Job


class CurrentJob(msgspec.Struct, frozen=True):
    """The default of a parameter that receives the running job."""

    def value(self, job: Job[Any], parameter: str) -> Any:  # noqa: ARG002
        return job


class Resource(msgspec.Struct, frozen=True):
    """The default of a parameter that receives what the app's lifespan has opened."""

    name: str | None = None
    """Its name, if it is not that of the parameter."""

    def value(self, job: Job[Any], parameter: str) -> Any:
        return job.resources[self.name or parameter]


Injected = CurrentJob | Resource


def current_job() -> Any:
    """Have the worker pass the running job to this parameter of a task.

    >>> @app.task  # doctest: +SKIP
    ... def resize(image: str, *, job: ackline.Job = ackline.current_job()): ...
    """
    return CurrentJob()


def resource(name: str | None = None) -> Any:
    """Have the worker pass what the app's lifespan yields under this name, or the parameter's.

    >>> @app.task  # doctest: +SKIP
    ... async def welcome(to: str, *, db: Pool = ackline.resource()): ...
    """
    return Resource(name)
