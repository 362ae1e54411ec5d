"""Faults of a PostgreSQL server, each against producers and workers at full work.

`python -m tests.harness.faults.postgres --fault NAME --count 50 --seed 7` runs one of them.

| server | an answer that is lost |
| --- | --- |
| `synchronous_commit` on | is a violation |
| `synchronous_commit` off, its log written late | is a violation, and must happen: the control |

An immediate stop is a crash of the server: nothing is flushed, and it recovers from its log. It
keeps what it has written to that log, synced or not: the system has it. A power cut is another
matter; it cannot be shown by a signal.

Where a session is to be ended in the middle of something, nothing is left to luck: a trigger
makes it wait there (`tests.harness.faults.postgres.pause_points`).
"""
