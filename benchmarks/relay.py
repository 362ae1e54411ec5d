"""Jobs per second of a relay: `.venv/bin/python benchmarks/relay.py`."""

import argparse
import statistics
import time
from typing import Any

from private_servers import PostgresServer, RedisServer

import ackline

PAYLOAD = {"to": "ann@example.com", "text": "x" * 60}


def measure(source: ackline.Queue[Any, Any], target: ackline.Queue[Any, Any], jobs: int) -> float:
    """Jobs per second, from the first claim to the last settled job."""
    source.enqueue_many((ackline.NewJob(PAYLOAD) for _ in range(jobs)), kind="welcome")
    relay = ackline.Relay(source, target, maintenance=False)
    began = time.perf_counter()
    assert relay.drain() == jobs
    return jobs / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with (
        PostgresServer(fsync=True) as database,
        RedisServer(persistence="everysec") as server,
        ackline.open(database.url) as outbox,
        ackline.open(server.url) as queues,
    ):
        rates = [
            measure(outbox[f"email-{number}"], queues[f"email-{number}"], options.jobs)
            for number in range(options.rounds)
        ]
    print(
        f"PostgreSQL (synchronous_commit on) to Redis (appendfsync everysec): "
        f"{statistics.median(rates):,.0f} jobs/s, median of {len(rates)} "
        f"({min(rates):,.0f} to {max(rates):,.0f})"
    )


if __name__ == "__main__":
    main()
