"""The demo's handlers, run by `ackline worker ackline.demo.handlers:acme_email …`.

They behave as their payload says, so that every run is the same.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

import ackline
from ackline import Cancel, Dead, Job, Snooze, StopReason

queues = ackline.open(os.environ["ACKLINE_STORE"])
acme_email, acme_images = queues["acme/email"], queues["acme/images"]
acme_payments = queues["acme/payments"]
globex_email, globex_reports = queues["globex/email"], queues["globex/reports"]
initech_orders, initech_webhooks = queues["initech/orders"], queues["initech/webhooks"]

Payload = dict[str, Any]

MAX_ATTEMPTS = 6
"""Attempts of ordinary jobs: a poison job may kill the process that runs them."""


class MailServerBusy(Exception):
    """A temporary error of the mail server."""


class OutOfStock(Exception):
    """A temporary shortage."""


@acme_email.handler("newsletter", max_attempts=MAX_ATTEMPTS, backoff=[0.3, 0.6, 1.2])
@acme_email.handler("welcome", max_attempts=MAX_ATTEMPTS, backoff=[0.3, 0.6, 1.2])
@globex_email.handler("welcome", max_attempts=MAX_ATTEMPTS, backoff=[0.3, 0.6, 1.2])
async def send(job: Job[Payload]) -> str:
    """Send mail; the server is sometimes busy, and a retry helps."""
    await asyncio.sleep(job.payload.get("takes", 0.05))
    if job.attempt <= job.payload.get("fails", 0):
        raise MailServerBusy("421 try again later")
    return f"250 accepted for {job.payload['to']}"


@acme_images.handler("resize", max_attempts=3, backoff=[0.2])
def resize(job: Job[Payload]) -> dict[str, int]:
    """Resize an image in a thread; a broken file fails every attempt."""
    time.sleep(job.payload.get("takes", 0.06))
    if job.payload.get("broken"):
        raise ValueError(f"{job.payload['file']}: not a PNG, not a JPEG")
    return {"width": 640, "height": 480}


@acme_images.handler("scan", max_attempts=MAX_ATTEMPTS, backoff=[0.3], timeout=0.6)
async def scan(job: Job[Payload]) -> str:
    """Hang on the first attempt, until the timeout."""
    await asyncio.sleep(60 if job.attempt == 1 else 0.05)
    return "nothing suspicious"


@acme_payments.handler("charge", max_attempts=MAX_ATTEMPTS, backoff=[0.3, 0.6])
def charge(job: Job[Payload]) -> dict[str, Any] | Snooze | Dead:
    """Snooze until the bank opens; do not retry a stolen card."""
    if job.payload.get("stolen"):
        return Dead("the card was reported stolen")
    closed = job.payload.get("bank_opens_at", 0.0) - time.time()
    if closed > 0:
        return Snooze(closed)
    time.sleep(job.payload.get("takes", 0.02))
    return {"charged": job.payload["amount"], "attempt": job.attempt}


@acme_payments.handler("reconcile", max_attempts=2)
def reconcile(_job: Job[Payload]) -> None:
    """Poison: kill the process, as a crash in native code or the OOM killer would."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


@globex_reports.handler("monthly", max_attempts=MAX_ATTEMPTS, backoff=[0.3], lease=15)
def monthly(job: Job[Payload]) -> dict[str, Any] | Cancel:
    """Long work in steps, which checks its signal in between."""
    for page in range(1, job.payload["pages"] + 1):
        if job.signal.wait(0.1):
            if job.signal.reason is not StopReason.CANCEL_REQUESTED:
                raise InterruptedError(job.signal.reason)  # the worker stops: the job is released
            return Cancel(f"stopped before page {page}")
        job.report({"page": page, "of": job.payload["pages"]})
    return {"pages": job.payload["pages"]}


@globex_reports.handler("usage")
def usage(_job: Job[Payload]) -> dict[str, int]:
    """The job that a schedule enqueues every minute."""
    return {"rows": 1440}


@initech_orders.handler("fulfil", max_attempts=MAX_ATTEMPTS, backoff=[1.0, 2.0, 4.0])
async def fulfil(job: Job[Payload]) -> dict[str, Any]:
    """Fulfil an order; the article is sometimes out of stock at first."""
    await asyncio.sleep(job.payload.get("takes", 0.1))
    if job.attempt <= job.payload.get("fails", 0):
        raise OutOfStock(f"article {job.payload['article']} is not on the shelf")
    return {"order": job.payload["order"], "parcels": 1}


@initech_webhooks.handler("deliver", max_attempts=3, backoff=[2.0, 6.0])
async def deliver(job: Job[Payload]) -> int:
    """Call a shop's webhook; some shops are down."""
    await asyncio.sleep(job.payload.get("takes", 0.08))
    if job.payload.get("down"):
        raise ConnectionRefusedError(f"'{job.payload['host']}' refused the connection")
    return 204
