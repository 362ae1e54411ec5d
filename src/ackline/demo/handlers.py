"""The demo's handlers, run by `ackline worker ackline.demo.handlers:acme_email …`.

They behave as their payload says, so that each run tells the same story.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Any, TypeVar

import ackline
from ackline import Cancel, Dead, Job, Queue, Snooze, StopReason

queues = ackline.open(os.environ["ACKLINE_STORE"])
acme_email, acme_images = queues["acme/email"], queues["acme/images"]
acme_payments = queues["acme/payments"]
globex_email, globex_reports = queues["globex/email"], queues["globex/reports"]
initech_orders, initech_webhooks = queues["initech/orders"], queues["initech/webhooks"]

Payload = dict[str, Any]
Handler = TypeVar("Handler", bound=Callable[..., Any])

PATIENT = 6
"""Attempts of ordinary jobs: a poison job may kill the process that runs them."""


class MailServerBusy(Exception):
    """The far side says: try again."""


class CorruptImage(Exception):
    """No attempt will ever help."""


class OutOfStock(Exception):
    """Perhaps there is more of it soon."""


def handles(*targets: Queue[Any, Any], kind: str, **options: Any) -> Callable[[Handler], Handler]:
    """Register one function for the same kind in several queues."""

    def register(function: Handler) -> Handler:
        for queue in targets:
            queue.handler(kind, **{"max_attempts": PATIENT, **options})(function)
        return function

    return register


# --- mail: async, busy now and then ---


@handles(acme_email, globex_email, kind="welcome", backoff=[0.3, 0.6, 1.2])
@handles(acme_email, kind="newsletter", backoff=[0.3, 0.6, 1.2])
@handles(acme_email, globex_email, kind="password-reset", backoff=[0.2])
async def send(job: Job[Payload]) -> str:
    """A mail server that is busy now and then: a retry or two help."""
    await asyncio.sleep(job.payload.get("takes", 0.05))
    if job.attempts <= job.payload.get("fails", 0):
        raise MailServerBusy("421 try again later")
    return f"250 accepted for {job.payload['to']}"


# --- images: work for threads, and one that hangs ---


@handles(acme_images, kind="resize", backoff=[0.2])
def resize(job: Job[Payload]) -> dict[str, int]:
    """Work for a thread."""
    time.sleep(job.payload.get("takes", 0.06))
    if job.payload.get("broken"):
        raise CorruptImage(f"{job.payload['file']}: not a PNG, not a JPEG")
    return {"width": 640, "height": 480}


@handles(acme_images, kind="scan", backoff=[0.3], timeout=0.6)
async def scan(job: Job[Payload]) -> str:
    """Hangs at its first attempt; its timeout ends that."""
    await asyncio.sleep(60 if job.attempts <= job.payload.get("hangs", 0) else 0.05)
    return "nothing suspicious"


# --- payments: a bank that opens later, a stolen card, and poison ---


@handles(acme_payments, kind="charge", backoff=[0.3, 0.6])
def charge(job: Job[Payload]) -> dict[str, Any] | Snooze | Dead:
    """Waits for the bank to open; a stolen card is not tried twice."""
    if job.payload.get("stolen"):
        return Dead("the card was reported stolen")
    closed = job.payload.get("bank_opens_at", 0.0) - time.time()
    if closed > 0:
        return Snooze(closed)
    time.sleep(job.payload.get("takes", 0.02))
    return {"charged": job.payload["amount"], "attempt": job.attempts}


@handles(acme_payments, kind="reconcile", max_attempts=2)
def reconcile(job: Job[Payload]) -> None:
    """Poison: kills the process that runs it, as a fault in native code or the OOM killer does."""
    job.progress("about to kill this process")
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


# --- reports: long work, in steps ---


@handles(globex_reports, kind="monthly", backoff=[0.3], lease=15)
def monthly(job: Job[Payload]) -> dict[str, Any] | Cancel:
    """Long work in steps that looks at its signal in between."""
    pages = job.payload.get("pages", 5)
    for page in range(1, pages + 1):
        if job.signal.wait(job.payload.get("takes", 0.1)):
            if job.signal.reason is not StopReason.CANCEL_REQUESTED:
                raise InterruptedError(job.signal.reason)  # the worker stops: the job is given back
            return Cancel(f"stopped before page {page}")
        job.progress({"page": page, "of": pages})
    return {"pages": pages}


@handles(globex_reports, kind="usage")
def usage(_job: Job[Payload]) -> dict[str, int]:
    """The job that a schedule enqueues each minute."""
    time.sleep(0.4)
    return {"rows": 1440}


# --- orders and webhooks: a shelf that is empty, a shop that is down ---


@handles(initech_orders, kind="fulfil", backoff=[1.0, 2.0, 4.0])
@handles(initech_orders, kind="follow-up")
async def fulfil(job: Job[Payload]) -> dict[str, Any]:
    """Out of stock at first, sometimes."""
    await asyncio.sleep(job.payload.get("takes", 0.1))
    if job.attempts <= job.payload.get("fails", 0):
        raise OutOfStock(f"article {job.payload['article']} is not on the shelf")
    return {"order": job.payload["order"], "parcels": 1}


@handles(initech_webhooks, kind="deliver", max_attempts=3, backoff=[2.0, 6.0])
async def deliver(job: Job[Payload]) -> int:
    """One of the shops is down, and another takes its time."""
    await asyncio.sleep(job.payload.get("takes", 0.08))
    trouble = job.payload.get("trouble")
    if trouble == "refused":
        raise ConnectionRefusedError(f"'{job.payload['host']}' refused the connection")
    if trouble == "slow":
        raise TimeoutError(f"no answer from '{job.payload['host']}' within 10 s")
    return 204
