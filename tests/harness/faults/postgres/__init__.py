"""Faults of a PostgreSQL server, each under the load of producers and workers.

`python -m tests.harness.faults.postgres --fault NAME --count 50 --seed 7` runs one of them.

| server | an acknowledged change that is lost |
| --- | --- |
| `synchronous_commit` on | is a violation |
| `synchronous_commit` off, its log written late | is a violation, and must happen: the control |

An immediate stop is a crash of the server: nothing is flushed, and it recovers from its log. It
keeps what it has written to that log, synced or not, because the operating system has it. A power
failure would lose that; a signal cannot simulate it.

To terminate a session in the middle of a transaction, a trigger makes it wait there
(`tests.harness.faults.postgres.pause_points`).
"""
