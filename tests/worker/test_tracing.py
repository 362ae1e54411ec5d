"""Traces: a handler's span continues that of the enqueue, and costs nothing where nobody traces."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ackline
from ackline.queue import tracing
from ackline.worker import Worker

HEADER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture(scope="session")
def provider():
    """The one of this process: it can be set once."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(TracerProvider())
    return trace.get_tracer_provider()


@pytest.fixture
def exporter(provider):
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


@pytest.fixture
def queue():
    with ackline.open("memory://", tenant="acme") as queues:
        yield queues["email"]


def work_off(queue: ackline.Queue[Any, Any]) -> None:
    worker = Worker(queue, maintenance=False)
    worker.start()
    try:
        for job in queue.jobs().jobs:
            try:
                queue.result(job.id, 10)
            except ackline.JobFailed:
                continue
    finally:
        worker.stop()


def processed(exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    return [one for one in exporter.get_finished_spans() if one.kind is trace.SpanKind.CONSUMER]


@pytest.mark.parametrize("sort", ["sync", "async"])
def test_a_handler_runs_in_the_trace_of_its_enqueue(exporter, queue, sort):
    inner = trace.get_tracer("handlers")

    def work(_job):
        with inner.start_as_current_span("inside"):
            return trace.get_current_span().get_span_context().trace_id

    async def work_async(job):
        await asyncio.sleep(0)
        return work(job)

    queue.handler(work if sort == "sync" else work_async)
    with inner.start_as_current_span("request") as request:
        queue.enqueue(1, id="a")
    work_off(queue)

    [span] = processed(exporter)
    origin = request.get_span_context()
    assert span.name == "process email"
    assert span.context.trace_id == origin.trace_id == queue.result("a")
    assert span.parent is not None
    assert span.parent.span_id == origin.span_id
    assert [link.context.span_id for link in span.links] == [origin.span_id]
    assert span.attributes is not None
    assert span.attributes["messaging.message.id"] == "a"
    assert span.attributes["ackline.tenant"] == "acme"
    [inside] = [one for one in exporter.get_finished_spans() if one.name == "inside"]
    assert inside.parent is not None
    assert inside.parent.span_id == span.context.span_id


def test_many_jobs_share_the_trace_they_were_enqueued_in(exporter, queue):
    queue.handler(lambda _job: None)
    with trace.get_tracer("t").start_as_current_span("request") as request:
        queue.enqueue_many(range(5))
    work_off(queue)

    assert {one.context.trace_id for one in processed(exporter)} == {
        request.get_span_context().trace_id
    }


def test_a_job_without_a_trace_starts_one(exporter, queue):
    queue.handler(lambda _job: None)
    queue.enqueue(1)
    work_off(queue)

    [span] = processed(exporter)
    assert (span.parent, list(span.links)) == (None, [])


def test_a_traceparent_given_by_the_producer_takes_precedence(queue):
    with trace.get_tracer("t").start_as_current_span("request"):
        queue.enqueue(1, id="a", trace=HEADER)
        queue.enqueue(1, id="b", trace="anything else")

    assert {job.id: job.trace for job in queue.jobs().jobs} == {
        "a": HEADER,
        "b": "anything else",
    }


def test_traceparent_none_starts_a_new_trace(exporter, queue):
    queue.handler(lambda _job: None)
    queue.enqueue(1, trace="anything else")
    work_off(queue)

    [span] = processed(exporter)
    assert span.parent is None


@pytest.mark.parametrize(
    ("ending", "description"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (ackline.Dead("never"), "never"),
        (ackline.Retry(0, "later"), "later"),
    ],
)
def test_a_span_records_that_its_handler_failed(exporter, queue, ending, description):
    def work(_job):
        if isinstance(ending, Exception):
            raise ending
        return ending

    queue.handler(max_attempts=1)(work)
    queue.enqueue(1)
    work_off(queue)

    [span] = processed(exporter)
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.status.description == description


@pytest.mark.parametrize(
    "text",
    [None, "", "00", HEADER.upper(), HEADER + "-1", f" {HEADER}", "00-" + "0" * 32 + HEADER[35:],
     HEADER[:36] + "0" * 16 + "-01", "01" + HEADER[2:]],
)  # fmt: skip
def test_an_invalid_traceparent_is_ignored(text):
    assert tracing.valid_traceparent(text) is None
    assert tracing.valid_traceparent(HEADER) == HEADER


def test_a_program_that_does_not_trace_does_not_import_it():
    program = (
        "import sys, ackline\n"
        "from ackline.queue import tracing\n"
        "from ackline.worker import Worker\n"
        "queue = ackline.open('memory://')['q']\n"
        "queue.handler(lambda job: 3)\n"
        "queue.enqueue(1, id='a')\n"
        "worker = Worker(queue, maintenance=False); worker.start()\n"
        "assert queue.result('a', 10) == 3; worker.stop()\n"
        "assert tracing.current_traceparent() is None and tracing.handler_spans() is None\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_no_spans_are_created_until_a_tracer_provider_is_set():
    program = (
        "import opentelemetry.trace as api\n"
        "import ackline\n"
        "from ackline.queue import tracing\n"
        "from ackline.worker import Worker\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "queue = ackline.open('memory://')['q']\n"
        "traced = lambda job: api.get_current_span().get_span_context().is_valid\n"
        "queue.handler(traced)\n"
        "worker = Worker(queue, maintenance=False); worker.start()\n"
        "assert tracing.handler_spans() is None\n"
        "assert queue.enqueue_and_wait(1, timeout=10) is False\n"
        "api.set_tracer_provider(TracerProvider())\n"
        "assert queue.enqueue_and_wait(2, timeout=10) is True; worker.stop()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
