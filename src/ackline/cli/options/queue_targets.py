"""Load the queues that `MODULE:QUEUE` names, with a clear error if there are none."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from ackline.cli.exits import UsageError
from ackline.core.errors import AcklineError
from ackline.queue import Queue
from ackline.queues import Queues


def load_queues(targets: Sequence[str], *, debug: bool = False) -> list[Queue[Any, Any]]:
    """Import the queues of a worker."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    queues = [_load(target, debug) for target in dict.fromkeys(targets)]
    return list(dict.fromkeys(queues))


def _load(target: str, debug: bool) -> Queue[Any, Any]:
    name, colon, attribute = target.partition(":")
    if not colon or not name or not attribute:
        raise UsageError(
            f"{target!r} does not name a queue: write MODULE:QUEUE, such as email_worker:queue "
            "for the variable `queue` in email_worker.py"
        )
    if name.endswith(".py") or "/" in name:
        dotted = name.removesuffix(".py").strip("./").replace("/", ".")
        raise UsageError(f"{name!r} is a file: write it as a module, {dotted}:{attribute}")
    module = _import(name, debug)
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, Queue):
        raise UsageError(_explain(module, target, attribute, found))
    if not found.handlers:
        raise UsageError(
            f"{target} is a queue without handlers: add one in {name} with "
            f"@{attribute}.handler, or import the module that does"
        )
    return found


def _import(name: str, debug: bool) -> ModuleType:
    try:
        return importlib.import_module(name)
    except AcklineError:
        raise
    except Exception as error:
        if debug:
            traceback.print_exc()
        if isinstance(error, ModuleNotFoundError) and name.startswith(error.name or "\0"):
            raise UsageError(
                f"there is no module {error.name!r}, neither in {os.getcwd()} nor installed "
                f"in {sys.prefix}"
            ) from None
        raise UsageError(
            f"importing {name} failed: {type(error).__name__}: {error}{_raised_at(error)}"
        ) from None


def _raised_at(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({frames[-1].filename} line {frames[-1].lineno})" if frames else ""


def _explain(module: ModuleType, target: str, attribute: str, found: Any) -> str:
    queues = [name for name, value in vars(module).items() if isinstance(value, Queue)]
    has = f" It has these queues: {', '.join(queues)}." if queues else ""
    if found is None:
        return f"module {module.__name__} has no {attribute!r}.{has}"
    if isinstance(found, Queues):
        return f"{target} is an open store, not one of its queues: {attribute} = …['email'].{has}"
    kind = type(found).__name__
    return f"{target} is of type {kind}, not a queue as ackline.open(url)['email'] makes it.{has}"
