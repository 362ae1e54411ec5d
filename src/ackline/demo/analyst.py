"""The demo's analyst: Spark takes the journal into a lake again and again, at low priority.

python -m ackline.demo.analyst STORE LAKE
"""

from __future__ import annotations

import os
import signal
import sys
import time

from ackline import queues as _queues
from ackline.worker.child import stop_with_parent

NICE = 10
"""Spark gets only the processor time that the other processes leave."""

PAUSE = 30.0
"""Seconds from the end of one run to the next."""

OBJECTIVES = {"acme/payments": 0.5, "acme/email": 20.0, "acme/images": 10.0, "*": 5.0}
"""Seconds that jobs of a queue may stand in line."""


def main(store: str, lake: str) -> None:
    """Run until killed: a lake survives that at any time."""
    from ackline.spark.lake.running import Asked, Run
    from ackline.spark.session import spark_session

    os.nice(NICE)
    # Including Java, which is in the same process group.
    stop_with_parent(lambda: os.killpg(0, signal.SIGKILL))
    with _queues.open(store) as queues:
        spark = spark_session("local[1]", name="ackline demo")
        asked = Asked(url=store, tenant=queues.tenant, lake=lake, objectives=OBJECTIVES)
        run = Run(spark, queues, asked)
        while True:
            ran = run.to_now()
            sys.stdout.write(f"{ran.events} events in {ran.seconds:.1f} s\n")
            sys.stdout.flush()
            time.sleep(PAUSE)


if __name__ == "__main__":
    main(*sys.argv[1:])
