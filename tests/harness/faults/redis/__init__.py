"""Faults of a Redis or Valkey server, each against producers and workers at full work.

`python -m tests.harness.faults.redis --fault NAME --count 100 --seed 7` runs one of them.

What each server promises, and what the checker therefore demands:

| server | an answer that is lost |
| --- | --- |
| `appendfsync always` | is a violation |
| `appendfsync everysec` | is measured, if it came in the two seconds before a kill |
| `appendonly no` | is a violation, and must happen: it is the control |
| replica promoted, store with `replicas=1` | is a violation |
| replica promoted, no waiting for it | is measured, if it came after the replica had everything |

A killed *process* loses nothing that it has written to its log, synced or not: the system has
it. With `everysec` the server may hold back a write for up to two seconds while a sync is under
way, hence the two seconds. A power cut is another matter; it cannot be shown by a signal.
How a fault tells the checker what it may cost is in `tests.harness.faults.checks.allowed_loss`.
"""
