"""The arguments of a task: which it takes, how they are stored, and how it gets them back."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union

import msgspec
import msgspec.inspect

from ackline.app.injection import CurrentJob, Injected, Resource
from ackline.core.errors import ConfigError, InvalidArguments, InvalidPayload
from ackline.core.outcome import OUTCOMES, Done
from ackline.queue import Job

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Arguments:
    """The signature of a task's function.

    Arguments are stored as one JSON object, by name. Defaults are not stored: those of the worker
    that runs the job apply.
    """

    def __init__(self, kind: str, function: Callable[..., Any]) -> None:
        self._kind = kind
        self._function = function
        self.signature = inspect.signature(function)
        self.injected: dict[str, Injected] = {}
        self._parameters: dict[str, inspect.Parameter] = {}
        for name, parameter in self.signature.parameters.items():
            if parameter.kind not in _NAMED:
                raise ConfigError(
                    f"task {kind}: arguments are stored by name, so its parameters cannot include "
                    f"{str(parameter)!r}: use parameters that can be passed by name"
                )
            if isinstance(parameter.default, (CurrentJob, Resource)):
                self.injected[name] = parameter.default
            else:
                self._parameters[name] = parameter
        self._names = frozenset(self._parameters)
        self._required = frozenset(
            name for name, p in self._parameters.items() if p.default is p.empty
        )

    @property
    def resources(self) -> frozenset[str]:
        """The names of the resources that the function needs."""
        return frozenset(
            marker.name or parameter
            for parameter, marker in self.injected.items()
            if isinstance(marker, Resource)
        )

    @functools.cached_property
    def type(self) -> type[msgspec.Struct]:
        """The type of the stored object, by the function's annotations."""
        fields: list[tuple[str, Any, Any]] = []
        for name, annotation in self._annotations.items():
            # What msgspec does not know is checked by its own validator, after decoding.
            stored_as = Any if name in self._adapters else annotation
            default = self._parameters[name].default
            if default is inspect.Parameter.empty:
                fields.append((name, stored_as, msgspec.NODEFAULT))
            else:
                same_object = functools.partial(lambda value: value, default)
                fields.append((name, stored_as, msgspec.field(default_factory=same_object)))
            if unknown := _not_storable(stored_as):
                raise ConfigError(
                    f"task {self._kind}: argument {name!r} cannot be a {unknown.__qualname__}, "
                    "which JSON cannot represent: take a dataclass, a TypedDict, a msgspec.Struct "
                    "or a pydantic model"
                )
        made = msgspec.defstruct(
            f"arguments of {self._function.__name__}",
            fields,
            kw_only=True,
            forbid_unknown_fields=True,
        )
        try:
            msgspec.json.Decoder(made)
        except TypeError as error:
            raise ConfigError(f"task {self._kind}: {error}") from error
        return made

    @functools.cached_property
    def result(self) -> ResultType:
        """What the function returns, by its annotation."""
        if self.signature.return_annotation in (inspect.Signature.empty, None):
            return ResultType(Any)
        return ResultType(_resolve(self._kind, self._function, ["return"])["return"])

    def pack(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call, by name, to be stored.

        The queue compares them with `type`, as it does with any payload; see `explain`.
        """
        if args:
            kwargs = self._by_name(args, kwargs)
        for name, adapter in self._adapters.items():
            if name in kwargs:
                kwargs = {**kwargs, name: self._to_plain(name, adapter, kwargs[name])}
        return kwargs

    def pack_mapping(self, arguments: object) -> dict[str, Any]:
        """The arguments of one of many calls, given as a dict."""
        if type(arguments) is dict:
            return self.pack((), arguments)
        if isinstance(arguments, Mapping):
            return self.pack((), dict(arguments))
        raise InvalidArguments(
            f"task {self._kind}: each call must be a dict of arguments by name, not {arguments!r}"
        )

    def pack_some(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Some of the arguments as they are stored; raises `InvalidArguments` for unknown names."""
        if unknown := arguments.keys() - self._names:
            raise self._unknown(unknown)
        return self.pack((), dict(arguments))

    def of(self, job: Job[Any]) -> Any:
        """The stored arguments of a job; raises `InvalidArguments` if they do not fit."""
        try:
            return job.payload
        except InvalidPayload as error:
            reason = error.__cause__ or error
            raise InvalidArguments(f"task {self._kind}: {reason}") from error

    def unpack(self, job: Job[Any]) -> dict[str, Any]:
        """The arguments to call the function with, for a job."""
        arguments = msgspec.structs.asdict(self.of(job))
        for name, adapter in self._adapters.items():
            arguments[name] = _load(adapter, arguments[name])
        for name, marker in self.injected.items():
            arguments[name] = marker.value(job, name)
        return arguments

    @property
    def are_positional(self) -> bool:
        """Whether the stored arguments can be passed as they are, one after the other."""
        kinds = {parameter.kind for parameter in self._parameters.values()}
        return (
            not self.injected and not self._adapters and inspect.Parameter.KEYWORD_ONLY not in kinds
        )

    def require_no_injection(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise if a direct call leaves out what a worker would pass."""
        if not self.injected:
            return
        given = self.signature.bind_partial(*args, **kwargs).arguments
        if missing := [name for name in self.injected if name not in given]:
            raise TypeError(
                f"{self._function.__name__}() is called directly, without a worker that passes "
                f"{' and '.join(map(repr, missing))}: pass it yourself"
            )

    def require_names(self, arguments: Mapping[str, Any]) -> None:
        """Raise `InvalidArguments` if arguments are missing or unknown."""
        if not (arguments.keys() <= self._names and self._required <= arguments.keys()):
            raise self._mismatch(arguments)

    def explain(
        self, arguments: Mapping[str, Any], encode: Callable[[Any], object], error: Exception
    ) -> InvalidArguments:
        """Which of the arguments was rejected, and why."""
        try:
            self.require_names(arguments)
        except InvalidArguments as mismatch:
            return mismatch
        if isinstance(error.__cause__, msgspec.ValidationError):
            return InvalidArguments(f"task {self._kind}: {error.__cause__}")
        for name, value in arguments.items():
            try:
                encode(value)
            except Exception as reason:
                return InvalidArguments(
                    f"task {self._kind}: argument {name!r} cannot be stored: {reason}"
                )
        return InvalidArguments(f"task {self._kind}: {error}")

    @functools.cached_property
    def _annotations(self) -> dict[str, Any]:
        return _resolve(self._kind, self._function, self._parameters)

    @functools.cached_property
    def _adapters(self) -> dict[str, Any]:
        """Validators of the parameters that take pydantic models."""
        return {
            name: adapter
            for name, annotation in self._annotations.items()
            if (adapter := pydantic_adapter(annotation)) is not None
        }

    def _to_plain(self, name: str, adapter: Any, value: Any) -> Any:
        try:
            valid = adapter.validate_python(value)
            plain = _dump(adapter, valid)
            unchanged = _load(adapter, plain) == valid
        except ValueError as error:
            raise InvalidArguments(
                f"task {self._kind}: argument {name!r}: {_first_issue(error)}"
            ) from error
        if not unchanged:
            # For example, the JSON of a SecretStr has asterisks.
            raise InvalidArguments(
                f"task {self._kind}: argument {name!r} would arrive changed: its model reads from "
                "JSON something else than it wrote"
            )
        return plain

    def _by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            return self.signature.bind_partial(*args, **kwargs).arguments
        except TypeError as error:
            raise InvalidArguments(f"task {self._kind}: {error}") from None

    def _mismatch(self, given: Mapping[str, Any]) -> InvalidArguments:
        if injected := sorted(given.keys() & self.injected.keys()):
            names = " and ".join(map(repr, injected))
            return InvalidArguments(f"task {self._kind}: the worker passes {names}; leave it out")
        if missing := [name for name in self._parameters if name in self._required - given.keys()]:
            return InvalidArguments(
                f"task {self._kind} is missing the argument{'s' * (len(missing) > 1)} "
                f"{' and '.join(map(repr, missing))}"
            )
        return self._unknown(given.keys() - self._names)

    def _unknown(self, names: Iterable[str]) -> InvalidArguments:
        unknown = " or ".join(sorted(map(repr, names)))
        takes = ", ".join(self._parameters) or "none"
        return InvalidArguments(f"task {self._kind} has no argument {unknown}; it takes: {takes}")


class ResultType:
    """The declared type of a task's result."""

    def __init__(self, annotation: Any) -> None:
        self._type = _without_outcomes(annotation)
        self._adapter = pydantic_adapter(self._type)

    @property
    def needs_dump(self) -> bool:
        """Whether a result must be made plain before it can be stored."""
        return self._adapter is not None

    def dump(self, result: Any) -> Any:
        """A result as plain data; an outcome stays one."""
        assert self._adapter is not None
        if isinstance(result, Done):
            return msgspec.structs.replace(result, result=self.dump(result.result))
        if result is None or isinstance(result, OUTCOMES):
            return result
        return _dump(self._adapter, result)

    def load(self, plain: Any) -> Any:
        """A stored result as the declared type; raises if it is of another."""
        if plain is None or self._type is Any:
            return plain
        if self._adapter is not None:
            return _load(self._adapter, plain)
        return msgspec.convert(plain, self._type, str_keys=True)


def pydantic_adapter(annotation: Any) -> Any:
    """A validator for a type that contains a pydantic model; None for any other."""
    if not _mentions_pydantic(annotation):
        return None
    from pydantic import TypeAdapter

    return TypeAdapter(annotation)


def _mentions_pydantic(annotation: Any, seen: frozenset[Any] = frozenset()) -> bool:
    """Whether a type has a model or a constraint of pydantic in it."""
    if type(annotation).__module__.partition(".")[0] in ("pydantic", "annotated_types"):
        return True  # Annotated[int, Field(gt=0)]
    if hasattr(annotation, "__pydantic_core_schema__"):
        return True
    parts = typing.get_args(annotation)
    if isinstance(annotation, type) and annotation not in seen:
        seen |= {annotation}
        if dataclasses.is_dataclass(annotation) or typing.is_typeddict(annotation):
            parts += tuple(typing.get_type_hints(annotation, include_extras=True).values())
    return any(_mentions_pydantic(part, seen) for part in parts)


def _dump(adapter: Any, value: Any) -> Any:
    """A value of a pydantic type as plain data from which it can be read back."""
    return adapter.dump_python(value, mode="json", by_alias=True, round_trip=True)


def _load(adapter: Any, plain: Any) -> Any:
    """Read plain data as a pydantic type, by the rules for JSON."""
    return adapter.validate_json(msgspec.json.encode(plain))


def _not_storable(annotation: Any) -> type | None:
    """The class within a type, if there is one, that can be neither stored nor read back."""
    origin = typing.get_origin(annotation)
    if origin is Literal:
        return None
    if origin is not None:
        # The origin of `Box[int]` is a class, unlike that of a union.
        parts = [part for part in typing.get_args(annotation) if part is not ...]
        if origin not in (Union, UnionType, Annotated):
            parts.append(origin)
        return next(filter(None, map(_not_storable, parts)), None)
    if not isinstance(annotation, type):
        return None
    is_custom = isinstance(msgspec.inspect.type_info(annotation), msgspec.inspect.CustomType)
    return annotation if is_custom else None


def _first_issue(error: Any) -> str:
    """The first issue of a validation error of pydantic, on one line."""
    if not hasattr(error, "errors"):
        return str(error)
    issue = error.errors()[0]
    where = ".".join(map(str, issue["loc"]))
    return f"{where}: {issue['msg']}" if where else str(issue["msg"])


def _without_outcomes(annotation: Any) -> Any:
    """The result type of `Sent | Retry`: what is left without the outcomes."""
    members = typing.get_args(annotation)
    if annotation in OUTCOMES:
        return Any
    if not any(member in OUTCOMES for member in members):
        return annotation
    left = [member for member in members if member not in OUTCOMES]
    return Union[tuple(left)] if left else Any  # noqa: UP007


def _resolve(kind: str, function: Callable[..., Any], names: Iterable[str]) -> dict[str, Any]:
    """The types that a function's annotations name; `Any` for those without one."""
    written = getattr(function, "__annotations__", {})
    chosen = {name: written[name] for name in names if name in written}
    plain = inspect.unwrap(function)
    try:
        hints = typing.get_type_hints(
            SimpleNamespace(__annotations__=chosen),
            globalns=getattr(plain, "__globals__", {}),
            include_extras=True,
        )
    except NameError as error:
        raise ConfigError(
            f"task {kind}: an annotation cannot be evaluated ({error}); define or import "
            f"{error.name!r} at the top of the module, and not for type checkers only"
        ) from None
    except Exception as error:
        raise ConfigError(f"task {kind}: an annotation cannot be evaluated: {error}") from error
    return {name: hints.get(name, Any) for name in names}
