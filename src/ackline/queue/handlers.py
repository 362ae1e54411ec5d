"""The handlers of a queue: which function runs a kind of job, and with which policy."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ackline.core.config import Policy
from ackline.core.errors import ConfigError
from ackline.core.job import round_trip
from ackline.core.limits import Seconds, require_name
from ackline.core.retry import BackoffLike, backoff_from
from ackline.queue.job import Job

DEFAULT_KIND = "default"


class Handler(msgspec.Struct, frozen=True):
    """A handler as it was registered."""

    kind: str
    function: Callable[..., Any]
    is_async: bool
    payload_type: Any
    policy: Policy
    resources: frozenset[str] = frozenset()
    """The resources of the worker's lifespan that it needs, by name."""


class Handlers:
    """The handlers of one queue, by kind."""

    def __init__(self, payload_type: Any) -> None:
        self._payload_type = payload_type
        self._by_kind: dict[str, Handler] = {}
        self._fallback: Handler | None = None
        self._checks: list[Callable[[Handler], None]] = []

    def __getitem__(self, kind: str) -> Handler:
        handler = self._by_kind.get(kind, self._fallback)
        if handler is None:
            raise KeyError(kind)
        return handler

    def __bool__(self) -> bool:
        return bool(self._by_kind) or self._fallback is not None

    def get(self, kind: str) -> Handler | None:
        """The handler of a kind, if there is one."""
        return self._by_kind.get(kind, self._fallback)

    def payload_type(self, kind: str) -> Any:
        """The declared payload type of a kind: its handler's, or else the queue's."""
        handler = self._by_kind.get(kind)
        return self._payload_type if handler is None else handler.payload_type

    @property
    def kinds(self) -> frozenset[str]:
        """All kinds that have a handler of their own."""
        return frozenset(self._by_kind)

    @property
    def kinds_to_claim(self) -> frozenset[str] | None:
        """The kinds that can be handled; None means any."""
        return self.kinds if self._fallback is None else None

    @property
    def has_sync(self) -> bool:
        """Whether any handler is a plain function."""
        return any(not handler.is_async for handler in self._all())

    @property
    def has_async(self) -> bool:
        """Whether any handler is async."""
        return any(handler.is_async for handler in self._all())

    def _all(self) -> list[Handler]:
        fallback = [] if self._fallback is None else [self._fallback]
        return [*self._by_kind.values(), *fallback]

    def require_resources(self, available: Mapping[str, Any]) -> None:
        """Raise if a handler needs a resource that is not there."""
        for handler in self._by_kind.values():
            if missing := handler.resources - available.keys():
                names = ", ".join(map(repr, sorted(available))) or "nothing"
                raise ConfigError(
                    f"{import_path_of(handler.function)} needs the resource "
                    f"{' and '.join(map(repr, sorted(missing)))}, but the lifespan yields {names}"
                )

    @property
    def policies(self) -> dict[str, Policy]:
        """The policies of the handlers, with `from_handler` set."""
        empty = Policy()
        return {
            kind: msgspec.structs.replace(handler.policy, from_handler=True)
            for kind, handler in self._by_kind.items()
            if handler.policy != empty
        }

    def add(self, kind: str, function: Callable[..., Any], policy: Policy) -> None:
        """Register the function that handles a kind; raises if the kind has a handler already."""
        self.register(
            Handler(
                kind=kind,
                function=function,
                is_async=is_async(function),
                payload_type=payload_type(function, self._payload_type),
                policy=policy,
            )
        )

    def register(self, handler: Handler) -> None:
        """Register a handler; raises if its kind has one already."""
        kind = handler.kind
        require_name("kind", kind)
        if kind in self._by_kind:
            raise ConfigError(
                f"kind {kind!r} has a handler already, {import_path_of(self[kind].function)}, so "
                f'{import_path_of(handler.function)} needs a kind of its own: @queue.handler("…")'
            )
        for check in self._checks:
            check(handler)
        self._by_kind[kind] = handler

    def register_fallback(self, handler: Handler) -> None:
        """Register the handler of all kinds that have none of their own."""
        for check in self._checks:
            check(handler)
        self._fallback = handler

    def add_check(self, check: Callable[[Handler], None]) -> Callable[[], None]:
        """Call `check` with each new handler, which it may reject by raising.

        Call the returned function to remove the check.
        """
        self._checks.append(check)

        def remove() -> None:
            if check in self._checks:
                self._checks.remove(check)

        return remove


def handler_policy(
    *,
    max_attempts: int | None,
    backoff: BackoffLike | None,
    lease: Seconds | None,
    timeout: Seconds | None,
    result_ttl: Seconds | None,
) -> Policy:
    """The policy from the options that a handler was registered with."""
    policy = Policy(
        max_attempts=max_attempts,
        backoff=backoff_from(backoff) if backoff is not None else None,
        lease=lease,
        timeout=timeout,
        result_ttl=result_ttl,
    )
    return round_trip(policy, Policy)


_UNRESOLVED: Any = object()


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling a function returns a coroutine."""
    return inspect.iscoroutinefunction(_unwrapped(function))


def payload_type(function: Callable[..., Any], default: Any) -> Any:
    """The P of a handler's `job: Job[P]`, or `default` without an annotation."""
    parameter = _first_parameter(function)
    annotation = parameter.annotation
    if isinstance(annotation, str):
        annotation = _evaluate(function, annotation)
    if annotation in (inspect.Parameter.empty, Any, Job, _UNRESOLVED):
        return default
    for member in _union_members(annotation):
        if typing.get_origin(member) is Job:
            declared = typing.get_args(member)[0]
            return default if isinstance(declared, typing.TypeVar) else declared
        if member in (Any, Job):
            return default
    raise ConfigError(
        f"the handler {_name(function)} is called with a Job, "
        f"so write {parameter.name}: Job[{_name(annotation)}]"
    )


def import_path_of(function: Any) -> str:
    """The import path of a handler: its module and qualified name."""
    plain = function
    while isinstance(plain, functools.partial):
        plain = plain.func
    if not hasattr(plain, "__qualname__"):  # an object that can be called
        plain = type(plain)
    return f"{plain.__module__}:{plain.__qualname__}"


def _first_parameter(function: Callable[..., Any]) -> inspect.Parameter:
    if not callable(function):
        raise ConfigError(f"{function!r} cannot be a handler: it cannot be called")
    unwrapped = _unwrapped(function)
    if inspect.isgeneratorfunction(unwrapped) or inspect.isasyncgenfunction(unwrapped):
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
            f"{' and '.join(missing)} must have a default, or be bound by functools.partial"
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
    unwrapped = inspect.unwrap(_unwrapped(function))
    try:
        return eval(annotation, getattr(unwrapped, "__globals__", {}))
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


def _name(value: Any) -> str:
    return getattr(value, "__qualname__", None) or str(value)
