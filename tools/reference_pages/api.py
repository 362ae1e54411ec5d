"""The reference of the library: signatures and docstrings."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
from tools.reference_pages.markdown import WRITTEN_BY, table
from tools.reference_pages.structs import fields_table

from ackline.core.outcome import RaisableOutcome


class Page(NamedTuple):
    """One page of the reference: a module, and its names that users need."""

    file: str
    module: str
    intro: str
    names: tuple[str, ...] = ()
    """Empty means the module's `__all__`."""


PAGES = (
    Page("ackline.md", "ackline", "What `import ackline` gives."),
    Page(
        "queue.md",
        "ackline.queue",
        "Options of jobs, and results of queues.",
        ("EnqueueOptions", "JobPage", "JournalReader", "ReaderInfo", "Signal", "Watcher"),
    ),
    Page("aio.md", "ackline.aio", "The same queues for asyncio."),
    Page(
        "maintenance.md",
        "ackline.maintenance",
        "The loops that promote, recover and prune jobs and run schedules. Workers run them, too.",
    ),
    Page(
        "metrics.md", "ackline.metrics", "Metrics and health of workers. Needs the extra `metrics`."
    ),
    Page(
        "config.md",
        "ackline.core.config",
        "Settings of kinds and queues.",
        ("Policy", "QueueSettings"),
    ),
    Page(
        "service.md",
        "ackline.service",
        "The service as an ASGI application, and its settings.",
    ),
    Page("testing.md", "ackline.testing", "Helpers for tests of code that uses queues."),
    Page(
        "stores.md",
        "ackline.stores.contract",
        "The contract between the library and a store: what a store of your own must implement.",
        (
            "Store",
            "Listener",
            "Capabilities",
            "StoreInfo",
            "Receipt",
            "ClaimRequest",
            "ClaimResult",
            "LeaseExtension",
            "Heartbeat",
            "WorkerRecord",
            "HeartbeatReply",
            "Filter",
            "Page",
            "QueueInfo",
            "KeyValue",
            "KeyWrite",
        ),
    ),
)


def api_page(page: Page) -> str:
    """A module's public names with their signatures and docstrings."""
    module = importlib.import_module(page.module)
    names = page.names or public_names(module)
    parts = [WRITTEN_BY, f"# `{page.module}`", page.intro, _contents(names)]
    parts += [_entry(module, name) for name in names]
    return "\n\n".join(parts) + "\n"


def _contents(names: Iterable[str]) -> str:
    return " · ".join(f"[`{name}`](#{name.lower()})" for name in names)


def _entry(module: ModuleType, name: str) -> str:
    thing = getattr(module, name)
    parts = [f"## {name}"]
    if isinstance(thing, type):
        parts += _class(thing)
    else:
        parts += [_code([_signature(name, thing)]), _docstring(thing)]
    return "\n\n".join(part for part in parts if part)


def public_names(module: ModuleType) -> tuple[str, ...]:
    """A module's `__all__`, and `open`, which `import *` leaves out."""
    return tuple(sorted({*module.__all__, *({"open"} & vars(module).keys())}))


def _class(kind: type) -> Iterator[str]:
    if issubclass(kind, BaseException) and not issubclass(kind, RaisableOutcome):
        yield f"An error, a kind of `{kind.__mro__[1].__name__}`."
        yield _docstring(kind)
    elif issubclass(kind, enum.Enum):
        yield _docstring(kind)
        yield ", ".join(f"`{member.value}`" for member in kind)
    elif issubclass(kind, msgspec.Struct):
        yield _docstring(kind)
        yield fields_table(kind)
    elif typing.is_typeddict(kind):
        yield _docstring(kind)
        yield _options_dict(kind)
        return
    else:
        if "__init__" in vars(kind) and not _is_returned_only(kind):
            yield _code([_signature(kind.__name__, kind.__init__, skip_first=True)])
        yield _docstring(kind)
    yield from _methods(kind)


def _options_dict(kind: type) -> str:
    rows = [
        (f"`{name}`", f"`{getattr(hint, '__forward_arg__', hint)}`")
        for name, hint in kind.__annotations__.items()
    ]
    return table(("option", "type"), rows)


def _is_returned_only(kind: type) -> bool:
    """Whether users get such objects from the library, and never construct them."""
    return kind.__name__ in (
        "AsyncJournalReader",
        "AsyncQueue",
        "AsyncQueues",
        "Job",
        "JournalReader",
        "Queue",
        "Queues",
        "Signal",
        "Watcher",
    )


def _methods(kind: type) -> Iterator[str]:
    for name, member in _members(kind):
        if isinstance(member, property):
            yield f"### {kind.__name__}.{name}\n\nA property. {_docstring(member)}"
        else:
            overloads = typing.get_overloads(member) or [member]
            lines = [_signature(name, function, skip_first=True) for function in overloads]
            yield f"### {kind.__name__}.{name}\n\n{_code(lines)}\n\n{_docstring(member)}".rstrip()


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    hidden = _inner_names(kind)
    seen: set[str] = set()
    for owner in kind.__mro__:
        if not owner.__module__.startswith("ackline"):
            continue
        for name, member in vars(owner).items():
            shown = isinstance(member, property) or inspect.isfunction(member)
            if name.startswith("_") or name in hidden or name in seen or not shown:
                continue
            seen.add(name)
            yield name, member


def _inner_names(kind: type) -> frozenset[str]:
    if kind.__name__ != "Queue":
        return frozenset()
    # The asyncio queue has only what is meant for users; a test compares the two.
    public = importlib.import_module("ackline.aio").AsyncQueue
    return frozenset(dir(kind)) - frozenset(dir(public))


def _signature(name: str, function: Callable[..., Any], *, skip_first: bool = False) -> str:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1 if skip_first else 0 :]
    returns = signature.return_annotation
    if name[:1].isupper():
        returns = inspect.Signature.empty
    text = str(signature.replace(parameters=parameters, return_annotation=returns))
    # Annotations are strings, and are shown without quotes.
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    # The address of a sentinel object differs in each run.
    text = re.sub(r"<object object at \w+>", "...", text)
    # The whole default is too long.
    text = re.sub(r" = Hooks\(.*?\)\)", " = Hooks()", text)
    prefix = "async " if inspect.iscoroutinefunction(function) else ""
    line = f"{prefix}{name}{text}"
    return line if len(line) <= 96 else _broken(prefix + name, text)


def _broken(name: str, text: str) -> str:
    inner, closing = text[1:].rsplit(")", 1)
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(inner):
        depth += letter in "([{"
        depth -= letter in ")]}"
        if letter == "," and depth == 0:
            parts.append(inner[start:index].strip())
            start = index + 1
    parts.append(inner[start:].strip())
    lines = "".join(f"    {part},\n" for part in parts if part)
    return f"{name}(\n{lines}){closing}"


def _docstring(thing: Any) -> str:
    """A docstring, with its examples as code blocks."""
    text = inspect.cleandoc(thing.__doc__ or "")
    parts: list[str] = []
    for block in text.split("\n\n"):
        if block.startswith(">>>"):
            example = re.sub(r"\s*# doctest:.*", "", block)
            parts.append(f"```text\n{example}\n```")
        else:
            parts.append(block)
    return "\n\n".join(parts)


def _code(lines: Iterable[str]) -> str:
    # Not marked as Python: a signature alone is not valid, and a formatter would fail.
    return "```text\n" + "\n".join(lines) + "\n```"
