"""The demo's handlers, run by `ackline worker ackline.demo.handlers:email …`.

They behave as their payload says, so that each run tells the same story.
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
email, image = queues["email"], queues["image"]
payment, report = queues["payment"], queues["report"]

Payload = dict[str, Any]

PATIENT = 6
"""Attempts of the innocent: they may be in the hands of a process that a poison job kills."""


class MailServerBusy(Exception):
    """The far side says: try again."""


class CorruptImage(Exception):
    """No attempt will ever help."""


async def _send(job: Job[Payload]) -> str:
    await asyncio.sleep(job.payload.get("takes", 0.03))
    if job.attempts <= job.payload.get("fails", 0):
        raise MailServerBusy("421 try again later")
    return f"250 accepted for {job.payload['to']}"


@email.handler("welcome", max_attempts=PATIENT, backoff=[0.3, 0.6, 1.2])
async def welcome(job: Job[Payload]) -> str:
    """A mail server that is busy now and then: a retry or two help."""
    return await _send(job)


@email.handler("newsletter", max_attempts=PATIENT, backoff=[0.3, 0.6, 1.2])
async def newsletter(job: Job[Payload]) -> str:
    """Many of them, of low priority."""
    return await _send(job)


@email.handler("password-reset", max_attempts=PATIENT, backoff=[0.2])
async def password_reset(job: Job[Payload]) -> str:
    """Few of them, of the highest priority: they overtake the newsletters."""
    return await _send(job)


@image.handler("resize", max_attempts=PATIENT, backoff=[0.2])
def resize(job: Job[Payload]) -> dict[str, int]:
    """Work for a thread."""
    time.sleep(job.payload.get("takes", 0.06))
    if job.payload.get("broken"):
        raise CorruptImage(f"{job.payload['file']}: not a PNG, not a JPEG")
    return {"width": 640, "height": 480}


@image.handler("scan", max_attempts=PATIENT, backoff=[0.3], timeout=0.6)
async def scan(job: Job[Payload]) -> str:
    """Hangs at its first attempt; its timeout ends that."""
    await asyncio.sleep(60 if job.attempts <= job.payload.get("hangs", 0) else 0.05)
    return "nothing suspicious"


@payment.handler("charge", max_attempts=PATIENT, backoff=[0.3, 0.6])
def charge(job: Job[Payload]) -> dict[str, Any] | Snooze | Dead:
    """Waits for the bank to open; a stolen card is not tried twice."""
    if job.payload.get("stolen"):
        return Dead("the card was reported stolen")
    closed = job.payload.get("bank_opens_at", 0.0) - time.time()
    if closed > 0:
        return Snooze(closed)
    time.sleep(0.02)
    return {"charged": job.payload["amount"], "attempt": job.attempts}


@payment.handler("reconcile", max_attempts=2)
def reconcile(job: Job[Payload]) -> None:
    """Poison: kills the process that runs it, as a fault in native code or the OOM killer does."""
    job.progress("about to kill this process")
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


@report.handler("monthly", max_attempts=PATIENT, backoff=[0.3], lease=10)
def monthly(job: Job[Payload]) -> dict[str, Any] | Cancel:
    """Long work in steps that looks at its signal in between."""
    pages = job.payload.get("pages", 5)
    for page in range(1, pages + 1):
        if job.signal.wait(job.payload.get("takes", 0.1)):
            if job.signal.reason is not StopReason.CANCEL_REQUESTED:
                raise InterruptedError(job.signal.reason)  # the worker stops: it is given back
            return Cancel(f"stopped before page {page}")
        job.progress({"page": page, "of": pages})
    return {"pages": pages}
