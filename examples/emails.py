"""An app with two tasks.

Run it:  python examples/emails.py, or: ackline worker examples.emails:app
Feed it: ackline enqueue email '{"to": "ann@example.com"}' --kind welcome --wait 10
"""

import asyncio

import ackline

app = ackline.App("sqlite:///ackline.db")


@app.task(kind="welcome", queue="email", max_attempts=5, backoff=[1, 5, 30], timeout=60)
async def welcome(to: str, seconds: float = 0.1) -> dict[str, str]:
    await asyncio.sleep(seconds)  # talk to the mail server
    return {"sent": to}


@app.task(kind="digest", queue="email", max_attempts=2)
def digest(articles: list[str] | None = None) -> int | ackline.Dead:
    if not articles:
        return ackline.Dead("no articles to send")
    return len(articles)


if __name__ == "__main__":
    welcome.options(id="email-1").enqueue(to="ann@example.com")
    ackline.Worker(app).run()  # until Ctrl-C or SIGTERM
