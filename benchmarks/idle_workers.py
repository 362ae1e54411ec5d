"""What idle workers cost: `.venv/bin/python benchmarks/idle_workers.py`.

Starts worker processes that all serve the same empty queues, and counts their calls to the store
and the processor time of the workers and of the server. `--no-maintenance` leaves out the loops
that promote, sweep and prune; the difference is what these cost.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from typing import Any

from private_servers import RedisServer

import ackline
from ackline.stores.contract import Store

VERBS = [name for name, value in vars(Store).items() if name[0] != "_" and callable(value)]
LOOPS = ("promoter", "reaper", "pruner", "store monitor")


def count_calls(store: Any) -> Counter[str]:
    """Count the calls of a store from now on: those of maintenance by loop, others by verb."""
    calls: Counter[str] = Counter()

    def counted(verb: str, call: Any) -> Any:
        def count(*args: Any, **kwargs: Any) -> Any:
            loop = threading.current_thread().name.removeprefix("ackline ")
            calls[loop if loop in LOOPS else verb] += 1
            return call(*args, **kwargs)

        return count

    for verb in VERBS:
        setattr(store, verb, counted(verb, getattr(store, verb)))
    return calls


def work(url: str, queues: int, *, maintenance: bool) -> None:
    """One worker process: for each line that it reads, it prints what it has used so far."""
    opened = ackline.open(url)
    calls = count_calls(opened.store)
    served = [opened[f"queue-{number}"] for number in range(queues)]
    for queue in served:
        queue.handler("work")(print)
    worker = ackline.Worker(*served, maintenance=maintenance)
    worker.start()
    for _ in sys.stdin:
        print(json.dumps({"calls": calls, "seconds": time.process_time()}), flush=True)
    worker.stop()


class WorkerProcesses:
    """Worker processes."""

    def __init__(self, url: str, options: argparse.Namespace) -> None:
        command = [sys.executable, __file__, "--work", url, "--queues", str(options.queues)]
        if not options.maintenance:
            command.append("--no-maintenance")
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._processes: list[Any] = [
            subprocess.Popen(command, **pipes) for _ in range(options.workers)
        ]

    def used(self) -> tuple[Counter[str], float]:
        """The calls and the processor time of all workers so far."""
        calls, seconds = Counter[str](), 0.0
        for process in self._processes:
            process.stdin.write("\n")
            process.stdin.flush()
        for process in self._processes:
            answer = json.loads(process.stdout.readline())
            calls.update(answer["calls"])
            seconds += answer["seconds"]
        return calls, seconds

    def stop(self) -> None:
        """Stop them."""
        for process in self._processes:
            process.stdin.close()
        for process in self._processes:
            process.wait()


def measure(name: str, url: str, options: argparse.Namespace, server_time: Any) -> None:
    """Print the calls and the processor time of the workers per second."""
    with ackline.open(url) as opened:
        for number in range(options.queues):
            queue = opened[f"queue-{number}"]
            queue.enqueue(number)
            queue.complete(queue.claim()[0])
    workers = WorkerProcesses(url, options)
    try:
        workers.used()  # all have started
        time.sleep(options.warm_up)
        calls, seconds = workers.used()
        in_server, began = server_time(), time.monotonic()
        time.sleep(options.seconds)
        calls_after, seconds_after = workers.used()
        took = time.monotonic() - began
        in_server = server_time() - in_server
    finally:
        workers.stop()
    rates = {what: count / took for what, count in (calls_after - calls).most_common()}
    of_maintenance = sum(rates.get(loop, 0.0) for loop in LOOPS)
    print(
        f"{name}: {sum(rates.values()):,.1f} store calls/s, {of_maintenance:,.1f} of them by "
        f"maintenance; processor time {(seconds_after - seconds) / took:.3f} s/s in the workers, "
        f"{in_server / took:.3f} s/s in the server"
    )
    print("   " + ", ".join(f"{what} {rate:,.1f}" for what, rate in rates.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=50)
    parser.add_argument("--queues", type=int, default=20)
    parser.add_argument("--warm-up", type=float, default=35.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--no-maintenance", dest="maintenance", action="store_false")
    parser.add_argument("--stores", nargs="+", default=["redis", "sqlite"])
    parser.add_argument("--work", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.queues, maintenance=options.maintenance)
        return
    if "redis" in options.stores:
        with RedisServer() as server:
            client = server.client()

            def server_time() -> float:
                used = client.info("cpu")
                return float(used["used_cpu_user"] + used["used_cpu_sys"])

            measure("Redis", server.url, options, server_time)
    if "sqlite" in options.stores:
        with tempfile.TemporaryDirectory() as folder:
            measure("SQLite", f"sqlite:///{folder}/jobs.db", options, lambda: 0.0)


if __name__ == "__main__":
    main()
