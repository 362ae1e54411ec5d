"""Run it:  ackline worker examples.email_worker:queue
Feed it: ackline enqueue email '{"to": "ann@example.com"}' --kind welcome --wait 10
"""

import asyncio
import os

import ackline

queue = ackline.open(os.environ.get("ACKLINE_STORE", "sqlite:///ackline.db"))["email"]


@queue.handler("welcome", max_attempts=5, backoff=[1, 5, 30], timeout=60)
async def welcome(job):
    await asyncio.sleep(job.payload.get("seconds", 0.1))  # talk to the mail server
    return {"sent": job.payload["to"], "attempt": job.attempts}


@queue.handler("digest", max_attempts=2)
def digest(job):
    if not job.payload.get("articles"):
        return ackline.Dead("no articles to send")
    return len(job.payload["articles"])
