"""Load what `MODULE:NAME` names for a worker, with a clear error if it is none of that."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from ackline.app import App
from ackline.app.task import BaseTask
from ackline.cli.exits import UsageError
from ackline.core.errors import AcklineError, location_of
from ackline.queue import Queue
from ackline.queues import Queues
from ackline.worker import Worker
from ackline.worker.worker import refusing_to_run


class WorkerTargets(NamedTuple):
    """What a worker is to serve."""

    queues: Sequence[Queue[Any, Any]]
    app: App | None = None
    worker: Worker | None = None
    """The worker itself, with options of its own, if the target is one."""


def load_targets(
    targets: Sequence[str], names: Iterable[str] | None = None, *, debug: bool = False
) -> WorkerTargets:
    """Import an app, a worker, or queues; `names` are the queues of an app to be served."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    found = {target: _load(target, debug) for target in dict.fromkeys(targets)}
    queues = [each for each in found.values() if isinstance(each, Queue)]
    if len(found) > 1 and len(queues) < len(found):
        raise UsageError(
            f"a worker serves one app, one Worker, or queues, and these are several: "
            f"{', '.join(found)}"
        )
    [first, *_] = found.values()
    if isinstance(first, App):
        with (
            refusing_to_run(f"ackline worker {targets[0]}"),
            _explaining(f"opening {targets[0]}", debug),
        ):
            return WorkerTargets(first.open_queues(names), app=first)
    if names is not None:
        raise UsageError("--queues chooses among the queues of an app; name queues as targets")
    if isinstance(first, Worker):
        return WorkerTargets(first.queues, worker=first)
    return WorkerTargets(list(dict.fromkeys(queues)))


def _load(target: str, debug: bool) -> App | Queue[Any, Any] | Worker:
    name, colon, attribute = target.partition(":")
    if not colon or not name or not attribute:
        raise UsageError(
            f"{target!r} names nothing that a worker can run: write MODULE:NAME, such as "
            "shop.jobs:app for the variable `app` in shop/jobs.py"
        )
    if name.endswith(".py") or "/" in name:
        dotted = name.removesuffix(".py").strip("./").replace("/", ".")
        raise UsageError(f"{name!r} is a file: write it as a module, {dotted}:{attribute}")
    with refusing_to_run(f"ackline worker {target}"):
        with _explaining(f"importing {name}", debug):
            module = importlib.import_module(name)
        found: Any = module
        for part in attribute.split("."):
            found = getattr(found, part, None)
        if callable(found) and not isinstance(found, (BaseTask, type)):
            found = _call(found, target, debug)
    if not isinstance(found, (App, Queue, Worker)):
        raise UsageError(_explain(module, target, attribute, found))
    if isinstance(found, Queue) and not found.handlers:
        raise UsageError(
            f"{target} is a queue without handlers: add one in {name} with "
            f"@{attribute}.handler, or import the module that does"
        )
    return found


def _call(factory: Any, target: str, debug: bool) -> Any:
    with _explaining(f"calling {target}", debug):
        return factory()


@contextlib.contextmanager
def _explaining(what: str, debug: bool) -> Iterator[None]:
    """Explain an error of the user's code."""
    try:
        yield
    except AcklineError:
        raise
    except Exception as error:
        if debug:
            traceback.print_exc()
        location = location_of(error)
        if isinstance(error, ModuleNotFoundError) and not location:
            raise UsageError(
                f"there is no module {error.name!r}, neither in {os.getcwd()} nor installed "
                f"in {sys.prefix}"
            ) from None
        where = f" ({location})" if location and not isinstance(error, SyntaxError) else ""
        raise UsageError(f"{what} failed: {type(error).__name__}: {error}{where}") from None


def _explain(module: ModuleType, target: str, attribute: str, found: Any) -> str:
    served = (App, Queue, Worker)
    names = [
        name
        for name, value in vars(module).items()
        if isinstance(value, served) or _may_be_factory(module, value)
    ]
    has = f" It has: {', '.join(names)}." if names else ""
    if found is None:
        return f"module {module.__name__} has no {attribute!r}.{has}"
    if isinstance(found, Queues):
        return f"{target} is an open store, not one of its queues: {attribute} = …['email'].{has}"
    if isinstance(found, BaseTask):
        return f"{target} is a task: name its app.{has}"
    kind = type(found).__name__
    return f"{target} is of type {kind}, and not an App, a Queue or a Worker.{has}"


def _may_be_factory(module: ModuleType, value: Any) -> bool:
    """Whether it is a public function of the module that may return an app, queue or worker."""
    if not inspect.isfunction(value) or inspect.isgeneratorfunction(value):
        return False
    if inspect.isasyncgenfunction(value) or inspect.iscoroutinefunction(value):
        return False
    if value.__module__ != module.__name__ or value.__name__.startswith(("_", "<")):
        return False
    signature = inspect.signature(value)
    if any(each.default is each.empty for each in signature.parameters.values()):
        return False
    returned = signature.return_annotation
    name = returned if isinstance(returned, str) else getattr(returned, "__name__", "")
    named = name.partition("[")[0].rpartition(".")[2] in {"App", "Queue", "Worker"}
    return named or returned is signature.empty
