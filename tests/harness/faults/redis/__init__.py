"""Faults of a Redis or Valkey server, each while producers and workers are busy.

`python -m tests.harness.faults.redis --fault NAME --count 100 --seed 7` runs one of them.

What the checker demands of each server:

| server | an answer that is lost |
| --- | --- |
| `appendfsync always` | is a violation |
| `appendfsync everysec` | is measured, if it came in the two seconds before a kill |
| `appendonly no` | is a violation, and must happen: this is the control |
| replica promoted, store with `replicas=1` | is a violation |
| replica promoted, asynchronous replication | is measured, if the replica was lagging |

A killed process loses nothing that it has written to its log, synced or not, because the operating
system has it. With `everysec`, the server may delay a write for up to two seconds while it syncs. A
power failure would lose more; a signal cannot simulate it. `checks/allowed_loss.py` describes how a
fault declares what it may lose.
"""
