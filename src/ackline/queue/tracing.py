"""OpenTelemetry traces from an enqueue to its handler, if the program uses OpenTelemetry.

Nothing is imported for it: a program that traces has imported OpenTelemetry itself.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ackline.core.errors import message_of
from ackline.core.job import QueueKey, Record
from ackline.core.outcome import Dead, RaisableOutcome, Retry

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanContext

OPENTELEMETRY_API = "opentelemetry.trace"

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def current_traceparent() -> str | None:
    """The context that this code runs in, as a W3C `traceparent`; None if nothing is traced."""
    api = sys.modules.get(OPENTELEMETRY_API)
    if api is None:
        return None
    try:
        span = api.get_current_span()
        invalid = api.INVALID_SPAN
    except AttributeError:  # another thread is importing it just now
        return None
    if span is invalid:
        return None
    context = span.get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def valid_traceparent(text: str | None) -> str | None:
    """A `traceparent` that came from outside; None, to be ignored, if it is malformed.

    >>> valid_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01") is not None
    True
    >>> valid_traceparent("tomorrow") is None
    True
    """
    match = _TRACEPARENT.fullmatch(text or "")
    if match is None or not int(match[1], 16) or not int(match[2], 16):
        return None
    return match[0]


def handler_spans() -> HandlerSpans | None:
    """Return what runs handlers in spans of their own, or None if the program does not trace.

    Many programs have OpenTelemetry loaded by some library and no provider set up: spans that go
    nowhere would cost a worker as much as everything else that it does for a job.
    """
    api = sys.modules.get(OPENTELEMETRY_API)
    if api is None:
        return None
    no_op_providers = (api.ProxyTracerProvider, api.NoOpTracerProvider)
    return None if isinstance(api.get_tracer_provider(), no_op_providers) else HandlerSpans()


class HandlerSpans:
    """Runs handlers in spans of their own: children of the enqueue's, and linked to it."""

    def __init__(self) -> None:
        from opentelemetry import trace

        self._api = trace
        self._tracer = trace.get_tracer("ackline")

    def run(self, function: Callable[[Any], Any], job: Any, queue: QueueKey, record: Record) -> Any:
        """Run a handler in a span, and return what it returns."""
        with self._span(queue, record) as span:
            return self._record_result(span, function(job))

    async def run_async(
        self, function: Callable[[Any], Awaitable[Any]], job: Any, queue: QueueKey, record: Record
    ) -> Any:
        """Run an async handler in a span, and return what it returns."""
        with self._span(queue, record) as span:
            return self._record_result(span, await function(job))

    @contextmanager
    def _span(self, queue: QueueKey, record: Record) -> Iterator[Span]:
        context, links = self._origin(record.options.trace)
        with self._tracer.start_as_current_span(
            f"process {queue.name}",
            context=context,
            kind=self._api.SpanKind.CONSUMER,
            links=links,
            attributes={
                "messaging.system": "ackline",
                "messaging.operation.name": "process",
                "messaging.operation.type": "process",
                "messaging.destination.name": queue.name,
                "messaging.message.id": record.id,
                "ackline.tenant": queue.tenant,
                "ackline.kind": record.kind,
                "ackline.attempt": record.attempts,
            },
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except RaisableOutcome as outcome:
                self._record_result(span, outcome)
                raise
            except Exception as error:
                self._record_error(span, error)
                raise

    def _record_error(self, span: Span, error: Exception) -> None:
        with suppress(Exception):  # it calls the error's `__str__`, which may fail
            span.record_exception(error)
        description = f"{type(error).__name__}: {message_of(error)}"
        span.set_status(self._api.Status(self._api.StatusCode.ERROR, description))

    def _origin(self, traceparent: str | None) -> tuple[Context | None, list[Link]]:
        remote = self._remote(traceparent)
        if remote is None:
            return None, []
        parent = self._api.NonRecordingSpan(remote)
        return self._api.set_span_in_context(parent), [self._api.Link(remote)]

    def _remote(self, traceparent: str | None) -> SpanContext | None:
        if valid_traceparent(traceparent) is None:
            return None
        assert traceparent is not None
        _, trace_id, span_id, flags = traceparent.split("-")
        return self._api.SpanContext(
            int(trace_id, 16),
            int(span_id, 16),
            is_remote=True,
            trace_flags=self._api.TraceFlags(int(flags, 16)),
        )

    def _record_result(self, span: Span, result: Any) -> Any:
        if isinstance(result, (Retry, Dead)):
            status = self._api.Status(self._api.StatusCode.ERROR, result.reason)
            span.set_status(status)
        return result
