"""Functions that are called before and after each handler."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ackline.core.errors import ConfigError
from ackline.core.limits import Seconds
from ackline.core.outcome import RaisableOutcome
from ackline.queue import Job


class Execution:
    """How a handler ended; an `after` hook may change all three before the job is settled."""

    __slots__ = ("error", "result", "result_ttl")

    def __init__(self, result: Any, error: BaseException | None) -> None:
        self.result = result
        self.error = error
        self.result_ttl: Seconds | None = None


class Hooks(msgspec.Struct, frozen=True):
    """Functions called around each handler, in the thread that runs it.

    A `before` hook that raises fails the attempt; an `after` hook sees and may change the
    execution.
    """

    before: Sequence[Callable[[Job[Any]], None]] = ()
    after: Sequence[Callable[[Job[Any], Execution], None]] = ()

    def __post_init__(self) -> None:
        _require_functions("before", self.before)
        _require_functions("after", self.after)


def _require_functions(when: str, hooks: Any) -> None:
    callables = isinstance(hooks, Sequence) and all(callable(hook) for hook in hooks)
    if not callables or any(inspect.iscoroutinefunction(hook) for hook in hooks):
        raise ConfigError(
            f"{when} hooks must be a list of plain (not async) functions, not {hooks!r}"
        )


NO_HOOKS = Hooks()


def run_after_hooks(job: Job[Any], execution: Execution, hooks: Hooks) -> BaseException | None:
    """Run the `after` hooks; returns the error of the first that raised, even a `SystemExit`."""
    for hook in hooks.after:
        try:
            hook(job, execution)
        except RaisableOutcome as outcome:
            execution.result, execution.error = outcome, None
        except BaseException as error:
            return error
    return None
