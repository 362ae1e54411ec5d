"""What a handler's signature says: whether it is async, and which payload it wants."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from ackline.core.errors import ConfigError
from ackline.queue.job import Job

_UNRESOLVED: Any = object()


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine."""
    return inspect.iscoroutinefunction(_unwrapped(function))


def payload_type(function: Callable[..., Any], otherwise: Any) -> Any:
    """The P of a handler's `job: Job[P]`, or `otherwise` if it does not say."""
    parameter = _first_parameter(function)
    annotation = parameter.annotation
    if isinstance(annotation, str):
        annotation = _evaluate(function, annotation)
    if annotation in (inspect.Parameter.empty, Any, Job, _UNRESOLVED):
        return otherwise
    for member in _union_members(annotation):
        if typing.get_origin(member) is Job:
            wanted = typing.get_args(member)[0]
            return otherwise if isinstance(wanted, typing.TypeVar) else wanted
        if member in (Any, Job):
            return otherwise
    raise ConfigError(
        f"the handler {_name(function)} is called with a Job, "
        f"so write {parameter.name}: Job[{_name(annotation)}]"
    )


def import_path_of(function: Any) -> str:
    """Where a handler is: its module and its name there."""
    plain = function
    while isinstance(plain, functools.partial):
        plain = plain.func
    if not hasattr(plain, "__qualname__"):  # an object that can be called
        plain = type(plain)
    return f"{plain.__module__}:{plain.__qualname__}"


def _first_parameter(function: Callable[..., Any]) -> inspect.Parameter:
    if not callable(function):
        raise ConfigError(f"{function!r} cannot be a handler: it cannot be called")
    plain = _unwrapped(function)
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise ConfigError(f"the handler {_name(function)} must return, not yield")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # built in, without a signature
        return inspect.Parameter("job", inspect.Parameter.POSITIONAL_ONLY)
    if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise ConfigError(f"the handler {_name(function)} must take the job as its first argument")
    if missing := [other.name for other in parameters[1:] if _is_required(other)]:
        raise ConfigError(
            f"the handler {_name(function)} is called with the job alone, so "
            f"{' and '.join(missing)} must have a default, or come by functools.partial"
        )
    return parameters[0]


def _is_required(parameter: inspect.Parameter) -> bool:
    takes_many = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not takes_many


def _unwrapped(function: Any) -> Any:
    """The function behind partials and callable objects."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function):
        return function
    return getattr(type(function), "__call__", function)  # noqa: B004


def _evaluate(function: Callable[..., Any], annotation: str) -> Any:
    plain = inspect.unwrap(_unwrapped(function))
    try:
        return eval(annotation, getattr(plain, "__globals__", {}))
    except NameError as error:
        if "[" not in annotation:
            return _UNRESOLVED  # imported for type checkers only, as Job itself may be
        raise ConfigError(
            f"the payload type of {_name(function)}, {annotation!r}, cannot be found "
            f"({error}): define or import it at the top of the handler's module"
        ) from None


def _union_members(annotation: Any) -> tuple[Any, ...]:
    """The types in an Annotated or a union, or the one type."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _union_members(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _name(thing: Any) -> str:
    return getattr(thing, "__qualname__", None) or str(thing)
