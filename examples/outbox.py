"""Orders and their jobs in one transaction, in PostgreSQL: `pip install 'ackline[postgres]'`.

Run it:  DATABASE_URL=postgresql://localhost/shop python examples/outbox.py
"""

import os
import random
import uuid

import psycopg

import ackline

URL = os.environ.get("DATABASE_URL", "postgresql:///shop")
queue = ackline.open(URL)["payments"]


@queue.handler("charge", max_attempts=3, backoff=[0.1, 1])
def charge(job):
    """The order is paid and the job completed by one commit, or neither is."""
    with psycopg.connect(URL) as tx:
        tx.execute(
            "UPDATE outbox_example SET paid = paid + 1 WHERE id = %s", [job.payload["order"]]
        )
        job.complete({"charged": job.payload["order"]}, connection=tx)


def place(order, connection):
    """Call this in a transaction of the shop: an order is never stored without its job."""
    connection.execute("INSERT INTO outbox_example (id) VALUES (%s)", [order])
    queue.enqueue({"order": order}, id=f"charge-{order}", kind="charge", connection=connection)


def main():
    with psycopg.connect(URL) as connection:
        connection.execute("DROP TABLE IF EXISTS outbox_example")
        connection.execute("CREATE TABLE outbox_example (id text PRIMARY KEY, paid int DEFAULT 0)")
        connection.commit()
        for _ in range(100):
            place(uuid.uuid4().hex, connection)
            if random.random() < 0.5:
                connection.commit()
            else:
                connection.rollback()  # the customer changed their mind
        worker = ackline.Worker(queue)
        worker.start()
        for (order,) in connection.execute("SELECT id FROM outbox_example").fetchall():
            queue.result(f"charge-{order}", timeout=30)
        worker.stop()
        query = "SELECT count(*), count(*) FILTER (WHERE paid = 1) FROM outbox_example"
        placed, paid = connection.execute(query).fetchone()
        print(f"{placed} orders were placed, {paid} were paid once")


if __name__ == "__main__":
    main()
